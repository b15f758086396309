"""``egospatial poses``: a recording without poses becomes one with, in the plain layout."""

import os
import shutil
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from egospatial.errors import FrontDoorError
from egospatial.replacing import folder_beside
from egospatial.reporting import Reporter
from egospatial.store.atomic import write_json
from egospatial.unposed import Unposed, open_unposed
from geo.recording import Recording
from geo.sfm.config import PosesConfig
from geo.sfm.records import EstimatedPoses
from geo.slicing import nanoseconds_from_start

REPORT = "poses.json"
POINTS = "points.ply"
SCHEMA = "egospatial.poses/1"
_ENOUGH_RATE_HZ = 15.0
_TAKEN_ALONG = ("narrations.jsonl", "gaze.csv")


@dataclass(frozen=True)
class PosesRequest:
    """What the command was asked for."""

    source: Path
    out: Path
    metres_per_unit: float | None = None
    scale_from: str | None = None
    masks: Path | None = None
    rate_hz: float | None = None
    end_s: float | None = None
    every: int | None = None  # None: so that at most 15 pictures a second are looked at
    force: bool = False
    config: PosesConfig = field(default_factory=PosesConfig)

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.scale_from not in (None, "depth"):
            hint = " (an IMU is not used)" if self.scale_from == "imu" else ""
            raise FrontDoorError(f"--scale-from {self.scale_from!r}: only 'depth' is there{hint}.")
        if self.scale_from is not None and self.metres_per_unit is not None:
            raise FrontDoorError("--scale-from and --metres-per-unit: give one of them.")
        if self.metres_per_unit is not None and not 0 < self.metres_per_unit < 1e9:
            raise FrontDoorError(f"--metres-per-unit {self.metres_per_unit}: expected a positive number.")
        if self.rate_hz is not None and not 0 < self.rate_hz < 1e5:
            raise FrontDoorError(f"--rate {self.rate_hz}: expected pictures a second.")
        if self.every is not None and self.every < 1:
            raise FrontDoorError(f"--every {self.every}: expected 1 or more.")
        if self.end_s is not None:
            nanoseconds_from_start(self.end_s, "--end")
        if self.masks is not None and not self.masks.is_dir():
            raise FrontDoorError(f"--masks {self.masks}: no such folder.")


def estimate(request: PosesRequest, reporter: Reporter) -> tuple[Path, EstimatedPoses]:
    """Estimate the poses and write ``out / recording id``; gives that folder and what was found.

    Raises:
        InputError: the input is wrong, pycolmap is missing, no map can be built, or the folder is there already.
    """
    from geo.sfm.engine import load_pycolmap
    from geo.sfm.estimate import ScaleRule, estimate_poses
    from geo.slicing import slice_recording

    load_pycolmap()
    unposed = open_unposed(request.source, request.rate_hz)
    every = request.every or _thinning(unposed.recording.reference.timestamps_ns)
    recording = slice_recording(unposed.recording, end_s=request.end_s, every=every)
    target = request.out / recording.recording_id
    if target.exists() and not request.force:
        raise FrontDoorError(f"{target}: is there already; give --force to replace it, or another --out.")
    with (
        folder_beside(target, _is_posed, [request.source]) as part,
        tempfile.TemporaryDirectory(dir=part.parent, prefix=".poses-") as work,
    ):
        found = estimate_poses(
            recording,
            Path(work),
            request.config,
            ScaleRule(request.metres_per_unit, request.scale_from == "depth"),
            request.masks,
            unposed.calibrated,
            reporter.progress,
        )
        write_posed(part, request.source, unposed, every, found)
    return target, found


def _thinning(timestamps_ns: np.ndarray) -> int:
    """Every how manieth picture is looked at: poses between them are interpolated by the stages that need them."""
    if len(timestamps_ns) < 2:
        return 1
    return max(1, round(1e9 / _ENOUGH_RATE_HZ / float(np.median(np.diff(timestamps_ns)))))


def _is_posed(folder: Path) -> bool:
    """True for a folder that this command wrote."""
    return (folder / REPORT).is_file() and (folder / POINTS).is_file()


def write_posed(folder: Path, source: Path, unposed: Unposed, every: int, found: EstimatedPoses) -> None:
    """The whole recording with its poses: manifest, trajectory, pictures (hard links if possible), points, report."""
    from geo.exporters.point_file import write_points
    from geo.readers.trajectory_files import write_csv

    if (source / "recording.json").is_file():
        _write_plain_again(folder, source, unposed.recording, found)
    else:
        _write_new(folder, unposed.recording, found)
    write_csv(folder / "trajectory.csv", found.trajectory)
    write_points(folder / POINTS, found.points_in_world, found.colours)
    write_json(folder / REPORT, report_document(unposed, every, found))


def report_document(unposed: Unposed, every: int, found: EstimatedPoses) -> dict[str, Any]:
    """poses.json."""
    report = found.report
    return {
        "schema": SCHEMA,
        "recording_id": unposed.recording.recording_id,
        "every": every,
        **asdict(report),
        "registered_share": report.registered_share,
        "registered_frames": found.registered_frames,
        "calibration": "given" if unposed.calibrated else "estimated",
        "metric": found.metric,
        "warnings": found.warnings,
    }


def _world(found: EstimatedPoses) -> dict[str, Any]:
    return {"metric": found.metric, "up": None}


def _write_plain_again(folder: Path, source: Path, recording: Recording, found: EstimatedPoses) -> None:
    """The source's manifest with another world; its files beside it. Hands are in no world yet and stay behind."""
    from geo.readers.schema import load_json

    manifest = load_json(source / "recording.json")
    manifest["world"] = _world(found)
    manifest["notes"] = f"poses estimated by egospatial poses, see {REPORT}"
    for path in recording.input_files:
        relative = path.relative_to(source)
        if str(relative) not in ("recording.json", "trajectory.csv", "hands.csv"):
            _link(path, folder / relative)
    write_json(folder / "recording.json", manifest)


def _write_new(folder: Path, recording: Recording, found: EstimatedPoses) -> None:
    """A manifest for pictures that had none, with the camera as estimated."""
    from geo.exporters.plain import camera_entry, write_manifest
    from geo.video import ImageFrames

    files = list(recording.input_files)
    pictures: dict[str, Any]
    if isinstance(recording.reference.frames, ImageFrames):
        suffix = files[0].suffix.lower()
        pictures = {"images": f"images/%06d{suffix}", "first": 0}
        for i, path in enumerate(files):
            if path.suffix.lower() != suffix:
                raise FrontDoorError(f"{path}: the other images are {suffix}; give images of one kind.")
            _link(path, folder / "images" / f"{i:06d}{suffix}")
    else:
        pictures = {"video": f"video{files[0].suffix.lower()}", "calibration_of": "shown"}
        _link(files[0], folder / pictures["video"])
    entry = camera_entry(found.camera, recording.reference.timestamps_ns, pictures)
    write_manifest(folder / "recording.json", recording.recording_id, {"camera": entry}, _world(found))


def _link(path: Path, target: Path) -> None:
    """The same file under another name, or a copy where the file system has no links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(path.resolve(), target)
    except OSError:
        shutil.copyfile(path, target)


def poses_command(reporter: Reporter, request: PosesRequest) -> None:
    """Body of the command."""
    folder, found = estimate(request, reporter)
    report = found.report
    for text in found.warnings:
        reporter.warn(text)
    rows = [
        ["registered", f"{report.registered} of {report.frames} pictures ({report.registered_share:.0%})"],
        ["interpolated", f"{report.interpolated} more lie in short gaps"],
        ["map", f"{report.mapped_keyframes} of {report.keyframes} keyframes, {report.points} points"],
        ["error", f"{report.reprojection_error_px:.2f} px, a point is seen {report.track_length:.1f} times"],
        ["scale", _scale_words(found)],
        ["gravity", "unknown (rectify estimates it where there is depth)"],
    ]
    reporter.table(str(folder), ["", "what"], rows)
    reporter.result({"folder": str(folder), "metric": found.metric, "warnings": found.warnings, **asdict(report)})


def _scale_words(found: EstimatedPoses) -> str:
    scale = found.report.scale
    if scale is None:
        return "metric, as given" if found.metric else "unknown: no metric question will be asked"
    words = f"{scale.metres_per_unit:.5g} m a unit from {scale.points} points, spread {scale.spread:.1%}"
    return f"metric: {words}" if found.metric else f"unknown: {words}"
