"""From a recording without poses to one with: keyframes, features, matches, map, every other picture into the map."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int64, UInt8

from geo.cameras import Camera
from geo.errors import RecordingError
from geo.readers.colmap.cameras import camera_of, model_of
from geo.recording import Recording
from geo.sfm.config import PosesConfig
from geo.sfm.engine import Engine, Map, load_pycolmap
from geo.sfm.keyframes import choose_keyframes, filler_pairs, keyframe_pairs, picture_signals
from geo.sfm.pictures import SfmView, sfm_view, source_masks, write_mask, write_picture
from geo.sfm.records import EstimatedPoses, PosesReport, ScaleEstimate
from geo.sfm.scale import scale_from_depth
from geo.trajectory import Trajectory

Progress = Callable[[int, int, str], None]
_MIN_FRAMES = 10
_MAX_SPREAD = 0.1
_AROUND = 3


@dataclass(frozen=True)
class ScaleRule:
    """Where the scale comes from: nothing (unknown), a number of metres per unit, or sensor depth."""

    metres_per_unit: float | None = None
    from_depth: bool = False


def estimate_poses(
    recording: Recording,
    work: Path,
    config: PosesConfig | None = None,
    scale: ScaleRule | None = None,
    masks: Path | None = None,
    calibrated: bool = True,
    progress: Progress | None = None,
) -> EstimatedPoses:
    """Poses of the reference camera from its pictures alone.

    Args:
        recording: What is read of it: the reference camera's pictures, times and calibration, and its depth for the
            scale. Poses that it has are not looked at.
        work: An empty folder for pictures, features and the map; some MB a picture. The caller removes it.
        config: Settings.
        scale: Where the scale comes from; None: it stays unknown.
        masks: Folder of masks in source pixels, see ``geo.sfm.pictures.source_masks``.
        calibrated: False: the camera's numbers are a guess, to be estimated with ``config.camera_model``.
        progress: Told (done, total, what).

    Raises:
        GeoError: pycolmap is missing (the extra is named). RecordingError: fewer than 10 pictures, no map can be
            built, or no scale can be had from the depth.
    """
    settings, rule = config or PosesConfig(), scale or ScaleRule()
    say = progress or (lambda done, total, what: None)
    load_pycolmap()
    count = len(recording.reference.timestamps_ns)
    if count < _MIN_FRAMES:
        raise RecordingError(f"{recording.recording_id} has {count} pictures; a map needs at least {_MIN_FRAMES}")
    if rule.from_depth and recording.depth is None:
        raise RecordingError(f"{recording.recording_id} has no sensor depth that a scale could come from")
    view = sfm_view(recording, settings) if calibrated else None
    stamps = recording.reference.timestamps_ns
    signals = picture_signals(_written(recording, view, work, masks, say))
    keyframes = choose_keyframes(signals, stamps, settings.keyframe_flow, settings.keyframe_max_gap_s)
    engine = _engine(work, settings, view)
    say(0, 4, "features")
    engine.extract()
    say(1, 4, "matches")
    engine.match(keyframe_pairs(keyframes, signals.thumbnails, settings.neighbours, settings.loops))
    engine.match(filler_pairs(keyframes, count))
    say(2, 4, "map")
    built = engine.map(keyframes.tolist())
    say(3, 4, "registration")
    poses = _registered(engine, built, keyframes, count)
    return _result(recording, settings, rule, built, keyframes, poses, view)


def _engine(work: Path, config: PosesConfig, view: SfmView | None) -> Engine:
    if view is None:
        return Engine(work, config, config.camera_model, None)
    model = model_of(view.camera)
    return Engine(work, config, model.name, model.params)


def _written(
    recording: Recording, view: SfmView | None, work: Path, masks: Path | None, say: Progress
) -> Iterator[UInt8[np.ndarray, "H W 3"]]:
    """Pictures, on their way into the work folder; masks beside them."""
    frames = recording.reference.frames if view is None else view.frames
    count = len(recording.reference.timestamps_ns)
    (work / "pictures").mkdir(parents=True, exist_ok=True)
    if view is not None and masks is None and not view.used.all():
        write_mask(work / "mask.png", np.where(view.used, np.uint8(255), np.uint8(0)))
    if masks is not None:
        (work / "masks").mkdir()
    size = recording.reference.camera.size_wh_px
    numbers: list[int] = recording.reference.source_frame_numbers().tolist()
    given = source_masks(masks, numbers, size) if masks is not None else iter([None] * count)
    for index in range(count):
        picture = frames.read(index)
        write_picture(work / "pictures" / f"{index:06d}.png", picture)
        if masks is not None:
            mask = next(given)
            whole = np.ones(size[::-1], dtype=np.uint8) if mask is None else mask
            seen = whole * np.uint8(255) if view is None else view.mask(whole)
            write_mask(work / "masks" / f"{index:06d}.png.png", seen)
        say(index + 1, count, "pictures")
        yield picture


def _registered(
    engine: Engine, built: Map, keyframes: Int64[np.ndarray, "K"], count: int
) -> dict[int, Float[np.ndarray, "4 4"]]:
    """World_from_camera by frame: of the map, and of every other picture that sees enough of it."""
    poses = dict(zip(built.frames.tolist(), built.world_from_camera, strict=True))
    for frame in range(count):
        if frame not in poses:
            at = int(np.searchsorted(keyframes, frame))
            around = keyframes[max(0, at - _AROUND) : at + _AROUND + 1].tolist()
            pose = engine.register(built, frame, [key for key in around if key != frame])
            if pose is not None:
                poses[frame] = pose
    return poses


def _result(
    recording: Recording,
    config: PosesConfig,
    rule: ScaleRule,
    built: Map,
    keyframes: Int64[np.ndarray, "K"],
    poses: dict[int, Float[np.ndarray, "4 4"]],
    view: SfmView | None,
) -> EstimatedPoses:
    """Scaled, counted and reported."""
    stamps, warnings = recording.reference.timestamps_ns, []
    frames = np.array(sorted(poses), dtype=np.int64)
    trajectory = Trajectory.from_rows(stamps[frames], np.stack([poses[frame] for frame in frames.tolist()]))
    scale, estimate = rule.metres_per_unit, None
    if rule.from_depth:
        estimate = _scale(recording, trajectory, built)
        scale = estimate.metres_per_unit if estimate.spread <= _MAX_SPREAD else None
        if scale is None:
            warnings.append(
                f"the scale stays unknown: single points ask for scales that differ by {estimate.spread:.0%} (median)"
            )
    report = _report(config, built, keyframes, frames, stamps, estimate)
    warnings += _doubts(report)
    scaled = trajectory.world_from_body.copy()
    scaled[:, :3, 3] *= scale or 1.0
    return EstimatedPoses(
        Trajectory(trajectory.timestamps_ns, scaled),
        recording.reference.camera if view is not None else _estimated_camera(recording.reference.camera, built),
        scale is not None,
        built.points * (scale or 1.0),
        built.colours,
        recording.reference.source_frame_numbers()[frames],
        report,
        tuple(warnings),
    )


def _scale(recording: Recording, trajectory: Trajectory, built: Map) -> ScaleEstimate:
    depth, stamps = recording.depth, recording.reference.timestamps_ns
    tolerance = int(np.median(np.diff(stamps))) // 2
    found = None if depth is None else scale_from_depth(depth, trajectory, built.points, built.seen, stamps, tolerance)
    if found is None:
        raise RecordingError(
            f"{recording.recording_id}: no scale from depth: fewer than 100 points of the map fall on measured depth; "
            "leave it unknown, or give --metres-per-unit"
        )
    return found


def _estimated_camera(guess: Camera, built: Map) -> Camera:
    return camera_of(built.camera_model, guess.size_wh_px, built.camera_params, "the estimated camera")


def _report(
    config: PosesConfig,
    built: Map,
    keyframes: Int64[np.ndarray, "K"],
    frames: Int64[np.ndarray, "R"],
    stamps: Int64[np.ndarray, "N"],
    scale: ScaleEstimate | None,
) -> PosesReport:
    span = np.diff(stamps[frames])
    between = np.diff(frames) - 1
    report = PosesReport(
        frames=len(stamps),
        keyframes=len(keyframes),
        mapped_keyframes=len(built.frames),
        registered=len(frames),
        interpolated=int(between[span <= config.max_gap_ms * 1e6].sum()),
        points=len(built.points),
        reprojection_error_px=built.reprojection_error_px,
        track_length=built.track_length,
        other_models=built.other_models,
    )
    return replace(report, scale=scale)


def _doubts(report: PosesReport) -> list[str]:
    """What a user should know before trusting the poses."""
    out = []
    lost = report.frames - report.registered - report.interpolated
    if lost:
        out.append(f"{lost} of {report.frames} pictures have no pose: they see too little of the map")
    if report.other_models:
        out.append(f"{report.other_models} further pieces could not be joined to the map and are left out")
    if report.reprojection_error_px > 1.5:
        out.append(f"mean reprojection error {report.reprojection_error_px:.2f} px is large; is the calibration right?")
    return out
