"""``egospatial check``: is a finished folder whole, and do its files belong together?"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cuda_kernels.errors import InputError
from egospatial import ledger as ledgers
from egospatial.errors import FrontDoorError, StoreError
from egospatial.pipeline import (
    STAGE_NAMES,
    ask_digest,
    lift_digest,
    reconstruct_digest,
    track_digest,
)  # fmt: skip
from egospatial.rectify_stage import rectify_digest
from egospatial.reporting import Reporter
from egospatial.store import (
    geometry_file,
    layout,
    questions_file,
    recording_file,
    splats_file,
    tracks_file,
    trajectories_file,
)  # fmt: skip
from egospatial.store.atomic import read_json

_DIGESTS: dict[str, Callable[[Path], str]] = {
    "rectify": rectify_digest, "reconstruct": reconstruct_digest, "track": track_digest, "lift": lift_digest,
    "depth": geometry_file.depth_digest, "ask": ask_digest,
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. ``problem`` is empty if it is in order."""

    what: str
    problem: str = ""


def check_folder(folder: Path) -> list[Finding]:
    """Look at everything; give every finding, not the first fault only.

    Raises:
        FrontDoorError: this is no output folder at all.
    """
    if not layout.is_output_folder(folder):
        raise FrontDoorError(f"{folder}: no output folder ({layout.LEDGER} is not in it).")
    looks: list[tuple[str, Callable[[], str]]] = [
        ("run.json: all stages done, outputs as noted", lambda: _ledger(folder)),
        ("config.json", lambda: _fine(read_json(folder / layout.CONFIG, "egospatial.config/1"))),
        ("recording.json", lambda: _fine(recording_file.read(folder))),
        ("canonical.mp4: a frame per time stamp", lambda: _video(folder)),
        ("views: a frame per time stamp", lambda: _views(folder)),
        ("geometry.h5: poses rigid or NaN, times rise", lambda: _poses(folder)),
        ("geometry.h5: depth of every frame decodes", lambda: _depth(folder)),
        ("splats.ply and reconstruction.h5: finite, belong together", lambda: _splats(folder)),
        ("tracks.h5: masks fit the view", lambda: _tracks(folder)),
        ("trajectories.h5 and events.jsonl: objects known", lambda: _lifted(folder)),
        ("questions.jsonl and audit.json: eight options, one key", lambda: _questions(folder)),
        ("no leftovers of a killed run", lambda: _leftovers(folder)),
    ]
    return [Finding(what, _guarded(look)) for what, look in looks]


def _guarded(look: Callable[[], str]) -> str:
    try:
        return look()
    except InputError as error:
        return " ".join(str(error).split())
    except (KeyError, TypeError, IndexError, ValueError) as error:
        return f"cannot be read: {type(error).__name__}: {error}"


def _fine(_: object) -> str:
    return ""


def _ledger(folder: Path) -> str:
    ledger = ledgers.load(folder)
    if ledger is None:
        raise StoreError(f"{folder / layout.LEDGER}: not there.")
    problems = []
    for name in STAGE_NAMES:
        entry = ledger.stages.get(name)
        if entry is None or entry.status != "done":
            problems.append(f"{name} {'not run' if entry is None else entry.status}")
            continue
        try:
            if _DIGESTS[name](folder) != entry.outputs:
                problems.append(f"{name}: outputs changed since the run")
        except StoreError as error:
            problems.append(f"{name}: {error}")
    return "; ".join(problems)


def _views(folder: Path) -> str:
    found = {item.name: _video(folder, item.file) for item in recording_file.views(folder)}
    return "; ".join(f"view {name}: {problem}" for name, problem in found.items() if problem)


def _video(folder: Path, name: str = layout.VIDEO) -> str:
    from geo.video import VideoFrames

    expected = len(geometry_file.read_frames(folder).timestamps_ns)
    with VideoFrames(folder / name) as video:
        found = len(video)
        video.read(found - 1)
    return "" if found == expected else f"{found} frames, {expected} time stamps"


def _poses(folder: Path) -> str:
    from geo import se3

    frames = geometry_file.read_frames(folder)
    if (np.diff(frames.timestamps_ns) <= 0).any():
        return "time stamps do not rise"
    known = np.isfinite(frames.world_from_camera).all(axis=(1, 2))
    bad = np.flatnonzero(known & ~se3.is_rigid(frames.world_from_camera, 1e-6))
    return f"poses of frames {bad[:5].tolist()} are not rigid" if len(bad) else ""


def _depth(folder: Path) -> str:
    if not geometry_file.depth_is_as_written(folder):
        return "some bytes of the depth are not what was written"
    for number, frame in enumerate(geometry_file.DepthReader(folder)):
        known = np.isfinite(frame.z_depth_m)
        if (frame.z_depth_m[known] <= 0).any() or ((frame.origin != 0) != known).any():
            return f"frame {number}: depth and its origin disagree"
    return ""


def _splats(folder: Path) -> str:
    model = splats_file.read(folder).model
    return "" if np.isfinite(model.means_in_world).all() else "some centres are not finite"


def _tracks(folder: Path) -> str:
    tracks = tracks_file.read(folder)
    ids = [track.object_id for track in tracks.tracks]
    count = len(geometry_file.read_frames(folder).timestamps_ns)
    wrong = [track.object_id for track in tracks.tracks if not len(track.masks) == len(track.states) == count]
    if len(set(ids)) != len(ids):
        return f"object ids repeat: {ids}"
    return f"objects {wrong} have not one entry per frame" if wrong else ""


def _lifted(folder: Path) -> str:
    lifted, tracks = trajectories_file.read(folder), tracks_file.read(folder)
    known = {track.object_id for track in tracks.tracks}
    named = {item.object_id for item in lifted.trajectories} | {item.object_id for item in lifted.events}
    named |= {item.subject_object_id for item in lifted.relations}
    return f"objects {sorted(named - known)} are in no track" if named - known else ""


def _questions(folder: Path) -> str:
    for question in questions_file.read(folder).questions:
        if len(question.options) != 8 or sum(option.origin == "key" for option in question.options) != 1:
            return f"{question.qa_id}: {len(question.options)} options, not eight with one key"
    return ""


def _leftovers(folder: Path) -> str:
    if (folder / layout.WORK).exists():
        return f"{layout.WORK} is there: a stage was interrupted; run it again"
    return ""


def check_command(reporter: Reporter, folder: Path) -> bool:
    """Body of the command; True if all is in order."""
    findings = check_folder(folder)
    for finding in findings:
        reporter.text(f"{'ok  ' if not finding.problem else 'FAIL'} {finding.what}"
                      + (f": {finding.problem}" if finding.problem else ""))  # fmt: skip
    fine = not any(finding.problem for finding in findings)
    reporter.result({"ok": fine, "findings": [vars(finding) for finding in findings]})
    return fine
