"""Letter B of issue 1: the real RGB-D kitchen, from frames and hand-marked points to questions."""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accept.harness import ROOT, Letter, egospatial, samples

SCRATCH = ROOT / "out" / "accept"
OBJECTS = {"white mug", "purple magazine", "cup with flowers", "red game controller", "plastic container"}
MOTION_TEMPLATES = ("T", "O1", "O3", "O4")  # O2 asks what came into view first, which nothing has to move for
MOTION_WORDS = (" move", "moved", "moving", "pick", "put down", "carried", "relocat", "held", "travel")


def measure(letter: Letter) -> None:
    """Run the sample from scratch and judge the finished folder."""
    with tempfile.TemporaryDirectory(dir=_parent()) as scratch:
        out = Path(scratch)
        done = egospatial("run", samples() / "sevenscenes_redkitchen", "--out", out, "--quiet")
        letter.true("run ends", done.status == 0, f"status {done.status} {done.stderr[-200:].strip()}")
        letter.note(f"wall {done.wall_s:.0f} s, CPU {done.cpu_s:.0f} s")
        letter.at_most("minutes (wall, or CPU/2 where loaded)", done.judged_s / 60, 15)
        folder = next(path for path in out.iterdir() if path.is_dir())
        judge(letter, folder)


def _parent() -> Path:
    SCRATCH.mkdir(parents=True, exist_ok=True)
    return SCRATCH


def judge(letter: Letter, folder: Path) -> None:
    """All checks on a finished folder."""
    _depth(letter, folder)
    _tracks(letter, folder)
    _trajectories(letter, folder)
    _questions(letter, folder)


def bench_of(folder: Path) -> Any:
    """The records of a finished folder."""
    from egospatial.runner import request_of_folder
    from egospatial.workbench import Workbench

    request = request_of_folder(folder, None, ())
    return Workbench(request.source, folder, request.config, request.selection, request.narrations, request.format_name)


def _depth(letter: Letter, folder: Path) -> None:
    """|static render - sensor| on frames held out of the fit, in the sensor's own pixels where it sees."""
    from recon.scene_depth import SceneDepth

    bench = bench_of(folder)
    reconstruction, canonical = bench.reconstruction, bench.canonical
    held_out = reconstruction.report.held_out_frames
    camera = canonical.camera.resized((320, 240))
    depth = SceneDepth(canonical, reconstruction, camera)
    errors, seen = [], 0
    for frame in held_out:
        sensor, static = depth.sensor(frame), depth.static(frame).expected_z_m
        valid = np.isfinite(sensor)
        seen += int(valid.sum())
        errors.append(np.abs(static - sensor)[valid & np.isfinite(static)])
    flat = np.concatenate(errors)
    letter.at_least("held-out frames", len(held_out), 5)
    letter.at_most("held-out median |depth - sensor|", 100 * float(np.median(flat)), 2.0, " cm")
    letter.at_least("of the sensor's pixels covered", 100 * flat.size / seen, 90, " %")


def _tracks(letter: Letter, folder: Path) -> None:
    from egospatial.store import tracks_file
    from tracking.records import Outcome, decode_rle

    tracks = tracks_file.read(folder)
    by_label = {track.label: track for track in tracks.tracks}
    letter.true("five objects tracked", set(by_label) == OBJECTS, ", ".join(sorted(by_label)))
    first: set[str] = set()
    inside, flagged, silent = 0, 0, []
    for narration in bench_of(folder).narrations.narrations:
        for point in narration.groundings:
            track = by_label.get(point.label)
            if point.label not in first or track is None:
                first.add(point.label)
                continue
            mask = track.masks[point.frame]
            x, y = (round(value) for value in point.point_xy_px)
            if mask is not None and decode_rle(mask)[y, x]:
                inside += 1
            elif any(
                v.object_id == track.object_id
                and v.frame == point.frame
                and v.reason
                and v.outcome != Outcome.CONSISTENT
                for v in tracks.verdicts
            ):
                flagged += 1
            else:
                silent.append(f"{point.label} in frame {point.frame}")
    letter.note(f"later points: {inside} inside the mask, {flagged} flagged with a reason")
    letter.true(
        "later points inside or flagged", not silent and inside >= flagged, "; ".join(silent) or f"{inside} inside"
    )


def _trajectories(letter: Letter, folder: Path) -> None:
    from egospatial.store import trajectories_file
    from lifting.records import MotionState

    lifted = trajectories_file.read(folder)
    travels = {}
    for item in lifted.trajectories:
        known = item.centers_in_world[np.isfinite(item.centers_in_world).all(axis=1)]
        travels[item.label] = (
            float(np.linalg.norm(known - np.median(known, axis=0), axis=1).max()) if len(known) else 0.0
        )
        extent = " x ".join(f"{100 * side:.1f}" for side in item.extent_m)
        letter.note(f"{item.label}: {extent} cm, travels {100 * travels[item.label]:.1f} cm")
        moving = np.isin(item.states, (MotionState.MOVING, MotionState.HELD)).sum()
        if moving:
            letter.note(f"{item.label}: {moving} frames said to be moving")
    letter.at_most("largest travel of a box", 100 * max(travels.values(), default=float("nan")), 5.0, " cm")
    letter.true("no event", not lifted.events, f"{len(lifted.events)} events")
    mug = next((item for item in lifted.trajectories if item.label == "white mug"), None)
    longest = 100 * float(np.max(mug.extent_m)) if mug is not None else float("nan")
    letter.at_least("white mug's longest side", longest, 7, " cm")
    letter.at_most("white mug's longest side", longest, 15, " cm")


def _questions(letter: Letter, folder: Path) -> None:
    rows = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    rows = [row for row in rows if "qa_id" in row]
    letter.at_least("questions", len(rows), 20)
    motion = [
        row["qa_id"]
        for row in rows
        if row["template"].startswith(MOTION_TEMPLATES) or any(word in row["text"].lower() for word in MOTION_WORDS)
    ]
    letter.true("none speaks of motion", not motion, ", ".join(motion) or "none")
    done = egospatial("verify", folder, "--json")
    document = json.loads(done.stdout)
    letter.true("verify passes all", done.status == 0, json.dumps(document)[:160])
    letter.note("templates: " + ", ".join(sorted({row["template"] for row in rows})))
