"""Any recording: why which reader takes it, a part of it, its pinhole view, and out to nerfstudio and back.

Usage: python examples/05_read_and_hand_on/read_and_hand_on.py [RECORDING] [OUT_FOLDER]
Without a recording, a small one is simulated first.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from egospatial.simulator import simulate
from geo.exporters import PosedPictures, transforms_document, write_nerfstudio
from geo.readers import open_recording, sniff
from geo.rectify import RectifyConfig, rectify
from geo.slicing import slice_recording
from geo.world import Gravity


def main(arguments: list[str]) -> None:
    """Look, read the first second, rectify, write, and read what was written."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(arguments[0]) if arguments else simulate(Path(scratch), "small", seed=1).recording_dir
        print(sniff(source).explain().split("\n")[0])
        recording = slice_recording(open_recording(source), end_s=1.0)
        print(f"{recording.recording_id}: metric {recording.world.metric}, gravity {recording.world.gravity}")
        for warning in recording.warnings:
            print(f"  mind: {warning}")
        canonical = rectify(recording, RectifyConfig(width_px=256, height_px=256))
        out = Path(arguments[1]) if len(arguments) > 1 else Path(scratch) / "out"
        (out / "images").mkdir(parents=True)
        names = tuple(f"images/{i:06d}.png" for i in range(len(canonical.timestamps_ns)))
        for i, name in enumerate(names):
            Image.fromarray(canonical.frames.read(i)).save(out / name)
        pictures = PosedPictures(
            canonical.camera,
            names,
            canonical.timestamps_ns,
            canonical.world_from_camera,
            metric=canonical.world.metric,
            up=np.array([0.0, 0.0, 1.0]) if canonical.world.gravity is Gravity.KNOWN else None,
        )
        write_nerfstudio(out / "transforms.json", transforms_document(pictures))
        again = open_recording(out, "nerfstudio")
        known = canonical.world_from_camera[canonical.pose_valid]
        apart = float(np.abs(again.trajectory.world_from_body - known).max())
        print(f"{len(again.reference.frames)} pictures written and read again, poses within 1e-9: {apart < 1e-9}")


if __name__ == "__main__":
    main(sys.argv[1:])
