"""Questions about a finished folder: read one, replay its certificate, move an object and see the answer go.

Usage: python examples/03_questions_that_prove_themselves/questions.py [OUT/RECORDING_ID]
Without a folder, the exact trajectories of a small simulated recording are asked about.
"""

import dataclasses
import sys
import tempfile
from pathlib import Path

import numpy as np

from egospatial.simulator import load_truth, simulate
from egospatial.workbench import question_scene
from geo import World
from geo.world import Gravity
from spatial_qa import QuestionScene, ask, verify


def simulated_scene() -> QuestionScene:
    """Exact trajectories as the scene that questions are asked about."""
    with tempfile.TemporaryDirectory() as scratch:
        truth = load_truth(simulate(Path(scratch), "small", seed=1).truth_dir)
        return QuestionScene(
            recording_id=truth.recording_id,
            timestamps_ns=truth.timestamps_ns,
            world_from_camera=truth.world_from_camera,
            image_size_wh_px=truth.camera.size_wh_px,
            camera_matrix=truth.camera.matrix,
            world=World(metric=True, gravity=Gravity.KNOWN),
            lifted=truth.lifted,
        )


def main(arguments: list[str]) -> None:
    """Ask, verify, disturb, verify again."""
    scene = question_scene(Path(arguments[0])) if arguments else simulated_scene()
    found = ask(scene)
    print(f"{len(found.questions)} questions, {len(found.refusals)} refused (no margin, no unique name, ...)")
    question = next(item for item in found.questions if item.template == "M1")
    print(question.text)
    for letter, option in zip("ABCDEFGH", question.options, strict=True):
        print(f"  {letter} {option.text}{'   <- key' if letter == question.key else ''}")
    print(f"replayed: {verify(question, scene).holds}")
    moved = tuple(
        dataclasses.replace(item, centers_in_world=item.centers_in_world + np.array([0.5, 0.5, 0.5]))
        if item.object_id == next(iter(question.operands.values()))
        else item
        for item in scene.lifted.trajectories
    )
    disturbed = dataclasses.replace(scene, lifted=dataclasses.replace(scene.lifted, trajectories=moved))
    print(f"replayed with one object half a metre away in x, y and z: {verify(question, disturbed).holds}")


if __name__ == "__main__":
    main(sys.argv[1:])
