"""Does colour lie where the calibration puts it against depth? Outlines in depth are sought in the picture.

Where depth jumps, the nearer side ends, and the picture mostly has an edge there. The nearer pixels beside such jumps
are projected into the colour camera; the residual is the share of the picture whose gradient is stronger than at these
places: 0.5 by chance, smaller if outlines meet edges. Besides the claim, two readings are measured: colour registered
to depth (one camera), and the scale and shift of the colour picture that fit best. The latter is sought on every
second picture and judged on the others, so that it cannot win by searching.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64, UInt8

from geo import se3
from geo.cameras import Camera, PinholeCamera
from geo.convention_check.records import CLAIMS, Finding, Measured, Topic, Verdict
from geo.convention_check.statistics import compare
from geo.depth import unproject
from geo.errors import RecordingError
from geo.nearest import nearest_rows
from geo.recording import DepthStream, Recording

UNIT = "of the picture"
EVIDENCE = "outlines in depth on edges of the picture"
_FRAMES = 24
_POINTS = 600
_MIN_POINTS = 60
_JUMP = 1.08  # the farther side is so much farther
_REACH_PX = 12  # across the shadow without depth beside an outline
_CHANCE = 0.45  # no better than this: the outlines meet nothing
_MOVED_PX = 2.0  # a fit that moves less than this does not contradict the claim
_BETTER = 0.8  # and its residual must be below this part of the claimed one: outlines are no sharper than that


@dataclass(frozen=True)
class _Frame:
    """One picture: rank of the gradient per pixel (0: strongest), outline points in the depth camera."""

    rank: Float32[np.ndarray, "H W"]
    points_in_depth: Float[np.ndarray, "K 3"]


@dataclass(frozen=True)
class Adjustment:
    """A change of the colour camera: focal lengths times ``scale``, moved by ``shift`` (right, down; world's unit)."""

    scale: float
    shift: Float[np.ndarray, "2"]


def check_registration(recording: Recording) -> Finding:
    """Judge the claimed place of the colour camera against the depth camera."""
    depth = recording.depth
    if depth is None:
        return _undecided("there is no depth")
    frames = _frames(recording, depth)
    if len(frames) < 6:
        return _undecided(f"only {len(frames)} pictures come with depth that has outlines; at least 6 are needed")
    camera = recording.reference.camera
    color_from_depth = se3.inverse(recording.reference.reference_from_camera) @ depth.reference_from_camera
    judged = frames[1::2]
    claimed = _measured(judged, camera, color_from_depth)
    best = _fit(frames[::2], camera, color_from_depth)
    moved = _moved_px(judged, camera, color_from_depth, best)
    readings = {_named(best): (_measured(judged, camera, color_from_depth, best), moved)}
    registered = _registered_camera(camera, depth.camera)
    if registered is not None:
        apart = _apart_px(judged, camera, color_from_depth, registered, np.eye(4))
        if apart > _MOVED_PX:
            name = "colour is registered to depth (one camera for both)"
            readings[name] = (_measured(judged, registered, np.eye(4)), apart)
    return _judge(claimed, readings, len(judged))


def _judge(claimed: Measured, readings: dict[str, tuple[Measured, float]], pairs: int) -> Finding:
    """Look-alike if one is better beyond chance and by more than the calibration's own error; named ones come first."""
    ranked = sorted(readings.items(), key=lambda item: item[1][0].typical() * (1.03 if "moved" in item[0] else 1.0))
    name, (measured, moved) = ranked[0]
    result = compare(claimed, measured)
    better = bool(result.other_is_better and result.log_ratio < np.log(_BETTER) and moved > _MOVED_PX)
    reason = ""
    if better:
        verdict = Verdict.LOOK_ALIKE
    elif claimed.typical() > _CHANCE:
        verdict, reason = Verdict.UNDECIDED, "outlines in depth meet no edges in the pictures under any reading"
    elif moved <= _MOVED_PX or result.log_ratio > 0:
        verdict = Verdict.FITS
    else:
        verdict, reason = Verdict.UNDECIDED, f"the best fit lies {moved:.1f} px away, but is not clearly better"
    return Finding(
        Topic.REGISTRATION, verdict, CLAIMS[Topic.REGISTRATION], claimed.typical(), name, measured.typical(), UNIT,
        result.log_ratio, result.sigma, pairs, EVIDENCE, reason,
    )  # fmt: skip


def _undecided(reason: str) -> Finding:
    nan = float("nan")
    return Finding(
        Topic.REGISTRATION, Verdict.UNDECIDED, CLAIMS[Topic.REGISTRATION], nan, "", nan, UNIT, nan, nan, 0, EVIDENCE,
        reason,
    )  # fmt: skip


def _frames(recording: Recording, depth: DepthStream) -> list[_Frame]:
    """Pictures taken with a depth image, spread over the recording; those that cannot be read are left out."""
    stamps = recording.reference.timestamps_ns
    if len(stamps) == 0:
        return []
    half_step = int(np.median(np.diff(stamps))) // 2 if len(stamps) > 1 else 0
    near = nearest_rows(stamps, depth.timestamps_ns)
    together = np.flatnonzero(np.abs(stamps[near] - depth.timestamps_ns) <= min(half_step, 20_000_000))
    places = np.unique(np.linspace(0, max(len(together) - 1, 0), _FRAMES).astype(np.int64))
    chosen: Int64[np.ndarray, "F"] = together[places[: len(together)]]
    out = []
    for row in chosen.tolist():
        try:
            image = recording.reference.frames.read(int(near[row]))
            z = depth.frames.read(row)
        except RecordingError:
            continue
        points = unproject(np.asarray(z, dtype=np.float64), depth.camera)[outlines(z)]
        if len(points) >= _MIN_POINTS:
            picked = np.random.default_rng(row).permutation(len(points))[:_POINTS]
            out.append(_Frame(gradient_rank(image), points[picked]))
    return out


def outlines(z_depth_m: Float[np.ndarray, "H W"]) -> Bool[np.ndarray, "H W"]:
    """Pixels beside which depth jumps to something farther; the gap without depth between them may be some pixels."""
    found = np.zeros(z_depth_m.shape, dtype=bool)
    for turns in range(4):
        z = np.rot90(z_depth_m, turns)
        beyond = np.full(z.shape, np.nan, dtype=z.dtype)
        for reach in range(_REACH_PX, 0, -1):  # the nearest valid pixel to the right
            ahead = z[:, reach:]
            beyond[:, :-reach] = np.where(np.isfinite(ahead), ahead, beyond[:, :-reach])
        with np.errstate(invalid="ignore"):
            found |= np.rot90(beyond > _JUMP * z, -turns)
    return found


def gradient_rank(rgb: UInt8[np.ndarray, "H W 3"]) -> Float32[np.ndarray, "H W"]:
    """Share of the picture that has a stronger gradient, per pixel."""
    import cv2

    grey = cv2.GaussianBlur(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY).astype(np.float32), (0, 0), 1.5)
    size = np.hypot(cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1))
    level = np.minimum((size / max(float(size.max()), 1e-6) * 4095), 4095).astype(np.int64)
    counts = np.bincount(level.ravel(), minlength=4096)
    stronger = counts[::-1].cumsum()[::-1] - counts / 2
    return np.asarray((stronger / size.size)[level].astype(np.float32))


def _pixels(
    frame: _Frame, camera: Camera, color_from_depth: Float[np.ndarray, "4 4"], change: Adjustment | None = None
) -> Float[np.ndarray, "K 2"]:
    points = se3.transform_points(color_from_depth, frame.points_in_depth)
    if change is None:
        return camera.project(points).pixels_xy
    centre = camera.params[2:4]
    moved = camera.project(points + np.array([*change.shift, 0.0])).pixels_xy
    return np.asarray(centre + change.scale * (moved - centre))


def _mean_rank(frame: _Frame, pixels: Float[np.ndarray, "K 2"]) -> float:
    """Mean over the points; a point outside the picture counts as one by chance."""
    return _stacked_rank(frame.rank[None], np.zeros(len(pixels), dtype=np.int64), pixels)


def _measured(
    frames: list[_Frame], camera: Camera, color_from_depth: Float[np.ndarray, "4 4"], change: Adjustment | None = None
) -> Measured:
    ranks = [_mean_rank(frame, _pixels(frame, camera, color_from_depth, change)) for frame in frames]
    return Measured(np.maximum(ranks, 1e-3), np.arange(len(frames), dtype=np.int64), float("nan"))


def _fit(frames: list[_Frame], camera: Camera, color_from_depth: Float[np.ndarray, "4 4"]) -> Adjustment:
    """Scale and shift with the smallest mean rank: a grid, then three finer ones around its best."""
    ranks = np.stack([frame.rank for frame in frames])
    depth_m = float(np.median(np.concatenate([frame.points_in_depth[:, 2] for frame in frames])))
    per_px = depth_m / float(camera.params[:2].mean())
    best = (1.0, 0.0, 0.0)
    for step_scale, step_px, count in (
        (0.04, 4.0, 150),
        (0.02, 2.0, _POINTS),
        (0.01, 1.0, _POINTS),
        (0.005, 0.5, _POINTS),
    ):
        several = [frame.points_in_depth[:count] for frame in frames]
        frame_of = np.repeat(np.arange(len(frames)), [len(points) for points in several])
        points = se3.transform_points(color_from_depth, np.concatenate(several))
        scales, right, down = (4, 7, 5) if count == 150 else (1, 1, 1)
        costs: dict[tuple[float, float, float], float] = {}
        for j, k in itertools.product(range(-right, right + 1), range(-down, down + 1)):
            x, y = best[1] + j * step_px, best[2] + k * step_px
            pixels = camera.project(points + np.array([x * per_px, y * per_px, 0.0])).pixels_xy - camera.params[2:4]
            for i in range(-scales, scales + 1):
                scale = best[0] + i * step_scale
                costs[scale, x, y] = _stacked_rank(ranks, frame_of, camera.params[2:4] + scale * pixels)
        best = min(costs, key=lambda at: costs[at])
    return Adjustment(best[0], np.array(best[1:]) * per_px)


def _stacked_rank(
    ranks: Float32[np.ndarray, "F H W"], frame_of: Int64[np.ndarray, "K"], pixels: Float[np.ndarray, "K 2"]
) -> float:
    height, width = ranks.shape[1:]
    with np.errstate(invalid="ignore"):
        inside = ((pixels > -0.5) & (pixels < [width - 0.5, height - 0.5])).all(axis=-1)
    x, y = np.floor(pixels[inside] + 0.5).astype(np.int64).T
    return float((ranks[frame_of[inside], y, x].sum() + 0.5 * (~inside).sum()) / len(pixels))


def _moved_px(
    frames: list[_Frame], camera: Camera, color_from_depth: Float[np.ndarray, "4 4"], change: Adjustment
) -> float:
    """Median distance between where the claim and the fit put the outlines."""
    apart = [_pixels(f, camera, color_from_depth, change) - _pixels(f, camera, color_from_depth) for f in frames]
    return float(np.nanmedian(np.linalg.norm(np.concatenate(apart), axis=-1)))


def _apart_px(
    frames: list[_Frame], camera: Camera, color_from_depth: Float[np.ndarray, "4 4"], other: Camera,
    other_from_depth: Float[np.ndarray, "4 4"],
) -> float:  # fmt: skip
    apart = [_pixels(f, camera, color_from_depth) - _pixels(f, other, other_from_depth) for f in frames]
    return float(np.nanmedian(np.linalg.norm(np.concatenate(apart), axis=-1)))


def _registered_camera(camera: Camera, depth_camera: PinholeCamera) -> Camera | None:
    """The colour camera if it were the depth camera; only the place is taken over where the lenses are of two kinds."""
    if not isinstance(camera, PinholeCamera):
        return camera
    same_shape = abs(camera.width_px * depth_camera.height_px - camera.height_px * depth_camera.width_px) <= (
        camera.width_px + depth_camera.width_px
    )
    return depth_camera.resized(camera.size_wh_px) if same_shape else camera


def _named(change: Adjustment) -> str:
    x, y = 1000 * change.shift
    moved = f"({x:+.0f}, {y:+.0f}) mm against the claim (right, down)"
    return f"colour camera moved by {moved}, focal length x {change.scale:.3f}"
