"""Do frames agree about the depth of what stands still? Each frame's points, carried into another frame's view."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64

from geo import se3
from geo.cameras import PinholeCamera
from geo.depth import MAX_REL_JUMP, sample_depth
from recon.errors import ReconError
from recon.records import DepthFrame, DepthOrigin

STATIC_ORIGINS = (DepthOrigin.STATIC, DepthOrigin.BOTH)
_HIDDEN_SHARE = MAX_REL_JUMP  # a point this much behind the other frame's surface is hidden there, not wrong
_BINS = 4096  # of the pooled quantiles: 0.4 % of a figure between the bounds
_BOUNDS = (1e-7, 10.0)


@dataclass(frozen=True)
class PairConsistency:
    """Two frames: positions in the sequence, and |difference| / mean depth over the pixels that both can judge."""

    first: int
    second: int
    median_rel: float
    p90_rel: float
    seen_through_share: float  # points that the other frame sees through by more than 5 %
    pixels: int  # points compared, both directions


@dataclass(frozen=True)
class TemporalConsistency:
    """All pairs ``step`` apart; NaN and a reason where nothing could be compared."""

    step: int
    median_rel: float
    p90_rel: float
    seen_through_share: float
    pixels: int
    pairs: tuple[PairConsistency, ...]
    reason: str = ""

    def worst(self, count: int = 5) -> tuple[PairConsistency, ...]:
        """The pairs with the largest 90th percentile, worst first."""
        return tuple(sorted(self.pairs, key=lambda pair: (-pair.p90_rel, pair.first))[:count])


def temporal_consistency(
    frames: Iterable[DepthFrame],
    world_from_camera: Float[np.ndarray, "N 4 4"],
    camera: PinholeCamera,
    *,
    step: int = 1,
    every: int = 1,
    pixel_step: int = 3,
    origins: Sequence[DepthOrigin] = STATIC_ORIGINS,
) -> TemporalConsistency:
    """How well the depth of frame i agrees with that of frame i + ``step``.

    Static points of each frame are carried into the other one and compared with its static depth there, along the
    other camera's +z. A point more than 5 % behind the other's surface is hidden and says nothing; the same pair judges
    that surface from the other side. Where the other frame has an edge within a pixel, the nearer and the farther
    depth both count as right. Frames are taken one by one and at most ``step`` + 1 are kept.

    Args:
        frames: In order, as many as poses; an iterator will do.
        world_from_camera: Of each frame; NaN: the frame has no pose, and its pairs are left out.
        camera: Of all depth images.
        step: Distance of the two frames of a pair in the sequence.
        every: Only pairs that begin at a multiple of this.
        pixel_step: Every n-th row and column is carried over.
        origins: Pixels of these origins are compared; by default those with static depth.

    Raises:
        ReconError: more or fewer frames than poses, images of another size than the camera's, a step below 1.
    """
    if min(step, every, pixel_step) < 1:
        raise ReconError(f"consistency: step {step}, every {every} and pixel_step {pixel_step} must be at least 1")
    kept: deque[DepthFrame] = deque(maxlen=step + 1)
    counts = np.zeros(_BINS + 1, dtype=np.int64)
    pairs: list[PairConsistency] = []
    number = -1
    for number, frame in enumerate(frames):
        if number >= len(world_from_camera):
            raise ReconError(f"consistency: more depth frames than poses ({len(world_from_camera)})")
        kept.append(frame)
        first = number - step
        if first < 0 or first % every or not np.isfinite(world_from_camera[[first, number]]).all():
            continue
        second_from_first = se3.inverse(world_from_camera[number]) @ world_from_camera[first]
        rel = compare_pair(kept[0], frame, second_from_first, camera, pixel_step=pixel_step, origins=origins)
        if len(rel):
            pairs.append(_pair(first, number, rel))
            counts += np.bincount(_bins(np.abs(rel)), minlength=len(counts))
    if number + 1 != len(world_from_camera):
        raise ReconError(f"consistency: {number + 1} depth frames, but {len(world_from_camera)} poses")
    return _pooled(step, pairs, counts)


def compare_pair(
    first: DepthFrame,
    second: DepthFrame,
    second_from_first: Float[np.ndarray, "4 4"],
    camera: PinholeCamera,
    *,
    pixel_step: int = 3,
    origins: Sequence[DepthOrigin] = STATIC_ORIGINS,
) -> Float32[np.ndarray, "M"]:
    """Relative differences (point minus surface, over their mean) of both directions; negative: seen through.

    Points outside the other image, on pixels without such depth, or hidden there are left out.

    Raises:
        ReconError: a depth image does not have the camera's size.
    """
    z_first, z_second = (_of_origins(frame, camera, origins) for frame in (first, second))
    forth = _carried(z_first, z_second, second_from_first, camera, pixel_step)
    back = _carried(z_second, z_first, se3.inverse(second_from_first), camera, pixel_step)
    return np.concatenate([forth, back])


def _of_origins(frame: DepthFrame, camera: PinholeCamera, origins: Sequence[DepthOrigin]) -> Float32[np.ndarray, "h w"]:
    """Depth of the pixels of these origins, NaN elsewhere."""
    if frame.z_depth_m.shape != (camera.height_px, camera.width_px):
        raise ReconError(
            f"consistency: a depth image has shape {frame.z_depth_m.shape}, but its camera is "
            f"{camera.width_px}x{camera.height_px} (W x H)"
        )
    wanted = np.isin(frame.origin, [int(origin) for origin in origins])
    return np.where(wanted, frame.z_depth_m, np.float32(np.nan)).astype(np.float32)


def _carried(
    z_source_m: Float32[np.ndarray, "h w"],
    z_target_m: Float32[np.ndarray, "h w"],
    target_from_source: Float[np.ndarray, "4 4"],
    camera: PinholeCamera,
    pixel_step: int,
) -> Float32[np.ndarray, "M"]:
    rows, cols = np.mgrid[
        pixel_step // 2 : camera.height_px : pixel_step, pixel_step // 2 : camera.width_px : pixel_step
    ]
    z = z_source_m[rows, cols]
    known = np.isfinite(z)
    rays = camera.normalised_points(np.stack([cols[known], rows[known]], axis=1).astype(np.float64))
    points = se3.transform_points(target_from_source, rays * z[known][:, None].astype(np.float64))
    projected = camera.project(points)
    inside = projected.valid & camera.in_image(projected.pixels_xy)
    pixels, z_point = projected.pixels_xy[inside], points[inside, 2]
    near, far = _surface_at(z_target_m, pixels)
    judged = np.isfinite(near) & (z_point <= far * (1 + _HIDDEN_SHARE))
    z_point, near, far = z_point[judged], near[judged], far[judged]
    surface = np.clip(z_point, near, far)
    return np.asarray(2 * (z_point - surface) / (z_point + surface), dtype=np.float32)


def _surface_at(
    z_depth_m: Float32[np.ndarray, "h w"], pixels_xy: Float[np.ndarray, "M 2"]
) -> tuple[Float[np.ndarray, "M"], Float[np.ndarray, "M"]]:
    """Nearest and farthest depth that a pixel may show: equal on one surface, apart by an edge; NaN without depth."""
    from scipy import ndimage

    sampled = sample_depth(z_depth_m, pixels_xy)
    nearest = ndimage.minimum_filter(np.where(np.isfinite(z_depth_m), z_depth_m, np.inf), 3, mode="nearest")
    farthest = ndimage.maximum_filter(np.where(np.isfinite(z_depth_m), z_depth_m, -np.inf), 3, mode="nearest")
    height, width = z_depth_m.shape
    at: Int64[np.ndarray, "M 2"] = np.clip(np.floor(pixels_xy + 0.5).astype(np.int64), 0, [width - 1, height - 1])
    low, high = nearest[at[:, 1], at[:, 0]].astype(np.float64), farthest[at[:, 1], at[:, 0]].astype(np.float64)
    with np.errstate(invalid="ignore"):
        edge: Bool[np.ndarray, "M"] = high - low > MAX_REL_JUMP * low
    return np.where(edge & np.isfinite(sampled), low, sampled), np.where(edge & np.isfinite(sampled), high, sampled)


def _pair(first: int, second: int, rel: Float32[np.ndarray, "M"]) -> PairConsistency:
    median, p90 = np.quantile(np.abs(rel), [0.5, 0.9])
    return PairConsistency(first, second, float(median), float(p90), float((rel < -_HIDDEN_SHARE).mean()), len(rel))


def _bins(values: Float[np.ndarray, "M"]) -> Int64[np.ndarray, "M"]:
    low, high = np.log(_BOUNDS)
    share = (np.log(np.maximum(values, _BOUNDS[0]).astype(np.float64)) - low) / (high - low)
    return np.asarray(np.clip(share * _BINS, 0, _BINS), dtype=np.int64)


def _pooled(step: int, pairs: list[PairConsistency], counts: Int64[np.ndarray, "B"]) -> TemporalConsistency:
    """Figures over all compared points, quantiles from logarithmic bins."""
    total = int(counts.sum())
    if not total:
        nan = float("nan")
        reason = f"no two frames {step} apart have poses and see the same static depth"
        return TemporalConsistency(step, nan, nan, nan, 0, (), reason)
    low, high = np.log(_BOUNDS)
    reached = np.cumsum(counts)
    median, p90 = (int(np.searchsorted(reached, share * total)) for share in (0.5, 0.9))
    values = [float(np.exp(low + (high - low) * (at + 0.5) / _BINS)) if at else 0.0 for at in (median, p90)]
    through = sum(pair.seen_through_share * pair.pixels for pair in pairs) / total
    return TemporalConsistency(step, values[0], values[1], through, total, tuple(pairs))
