"""Scale and shift of a prediction against depth that is known at some pixels, robust to a third of wrong ones."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int64

from geo import se3
from geo.cameras import PinholeCamera
from recon.depth_sources.records import DepthKind
from recon.errors import ReconError
from recon.records import AlignmentOutcome, DepthAlignment

_PAIRS, _MOST_ANCHORS, _ROUNDS = 256, 2000, 6
_TO_SIGMA = 1.4826  # of the median absolute deviation of a normal distribution
_INLIER_SIGMAS = 2.5
_LEAST_SPREAD = 0.05  # 95th over 5th percentile of the anchors' depth, less one
_LEAST_SHARE = 0.005  # no prediction is trusted to better than this share of its depth
_CELLS = 16  # anchors are counted by cells of the picture, 16 in a row: neighbours err together
_SAME_SURFACE = 0.05


@dataclass(frozen=True)
class AlignRules:
    """When a frame's prediction is taken."""

    min_anchors: int = 30
    """Fewer known pixels than this: scale and shift stay unknown, metric depth unchecked."""
    max_residual: float = 0.1
    """Largest median relative difference between prediction and known depth."""
    sigma_share: float = 0.1
    """Standard deviation of metric depth that states none and that nothing checks, as a share of the depth."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.min_anchors < 3:
            raise ReconError(f"provided depth: min_anchors is {self.min_anchors}; scale and shift need at least 3")
        for name in ("max_residual", "sigma_share"):
            if not 0 < getattr(self, name) < 1:
                raise ReconError(f"provided depth: {name} is {getattr(self, name)}; expected between 0 and 1")


@dataclass(frozen=True)
class Anchors:
    """Pixels whose depth is known, and that depth along +z."""

    pixels_xy: Float[np.ndarray, "K 2"]
    z_m: Float[np.ndarray, "K"]


@dataclass(frozen=True)
class Fit:
    """Outcome, and how sure the depth is."""

    alignment: DepthAlignment
    scatter: float  # one standard deviation of depth as a share of it
    covariance: Float[np.ndarray, "2 2"]  # of the fitted line, in the target's (slope, offset)

    @property
    def used(self) -> bool:
        """Whether the prediction may be used."""
        return self.alignment.outcome is AlignmentOutcome.USED


def point_anchors(
    points_in_world: Float[np.ndarray, "P 3"], world_from_camera: Float[np.ndarray, "4 4"], camera: PinholeCamera
) -> Anchors:
    """Scene points that fall on a picture, without those behind a nearer one of the same cell (1/64 of the width)."""
    points = se3.transform_points(se3.inverse(world_from_camera), np.asarray(points_in_world, dtype=np.float64))
    projected = camera.project(points)
    seen = projected.valid & camera.in_image(projected.pixels_xy)
    pixels, z = projected.pixels_xy[seen], points[seen, 2]
    if len(z) == 0:
        return Anchors(np.zeros((0, 2)), np.zeros(0))
    cell_px = max(1.0, camera.width_px / 64)
    _, cell = np.unique(np.floor(pixels / cell_px).astype(np.int64), axis=0, return_inverse=True)
    nearest = np.full(int(cell.max()) + 1, np.inf)
    np.minimum.at(nearest, cell.reshape(-1), z)
    front = z <= nearest[cell.reshape(-1)] * (1 + _SAME_SURFACE)
    return Anchors(pixels[front], z[front])


def fit(
    values: Float[np.ndarray, "K"],
    anchors: Anchors,
    kind: DepthKind,
    rules: AlignRules,
    size_wh_px: tuple[int, int],
) -> Fit:
    """Fit a prediction's values to the depth at the same pixels.

    Affine kinds: least median of squares over pairs of anchors (a fixed draw), then least squares on what lies within
    2.5 scatters, in depth or in inverse depth, each residual relative to the anchor. The error is put down to the
    prediction, so values are regressed on the known depth: the other way round the scale would come out too small.
    Metric depth is compared only.

    Args:
        values: At the anchors; NaN: the prediction has none there, and the anchor does not count.
        anchors: Known depth; what is not positive and finite does not count.
        kind: What the values are.
        rules: When the result is refused.
        size_wh_px: Of the picture that the anchors' pixels are in.

    Source: Rousseeuw (1984), least median of squares; Ranftl et al. (2020), MiDaS, eq. 3-5 (scale and shift).
    """
    good = np.isfinite(values) & np.isfinite(anchors.z_m) & (anchors.z_m > 0)
    x, z = np.asarray(values, dtype=np.float64)[good], np.asarray(anchors.z_m, dtype=np.float64)[good]
    cells = _cells(anchors.pixels_xy[good], size_wh_px)
    if kind is DepthKind.METRIC:
        return _compared(x, z, rules)
    if len(z) < rules.min_anchors:
        return _refused(AlignmentOutcome.TOO_FEW_ANCHORS, len(z))
    low, high = np.quantile(z, [0.05, 0.95])
    if high / low - 1 < _LEAST_SPREAD or float(np.ptp(x)) == 0.0:
        return _refused(AlignmentOutcome.ANCHORS_TOO_ALIKE, len(z))
    target = z if kind is DepthKind.AFFINE_DEPTH else 1 / z
    slope, offset = _least_median(x, target)
    columns = np.stack([np.ones(len(x)), 1 / target], axis=1)
    inliers = np.ones(len(x), dtype=bool)
    for _ in range(_ROUNDS):
        error = _errors(x, target, slope, offset)
        inliers = error <= max(_INLIER_SIGMAS * _TO_SIGMA * float(np.median(error)), 1e-9)
        slope, offset = np.linalg.lstsq(columns[inliers], x[inliers] / target[inliers], rcond=None)[0]
    if slope == 0.0:
        return _refused(AlignmentOutcome.WRONG_DIRECTION, len(z))
    scatter = max(_TO_SIGMA * float(np.median(_errors(x, target, slope, offset)[inliers])), _LEAST_SHARE)
    scale, shift = float(1 / slope), float(-offset / slope)
    residual = _residual((scale * x + shift) / target, kind)
    alignment = DepthAlignment(_outcome(scale, residual, rules), scale, shift, residual, len(z))
    return Fit(alignment, scatter, _covariance(columns[inliers], scatter, cells[inliers]))


def _errors(
    x: Float[np.ndarray, "K"], target: Float[np.ndarray, "K"], slope: Any, offset: Any
) -> Float[np.ndarray, "*lines K"]:
    """|fitted target / target - 1| for value = slope * target + offset; infinite without a slope."""
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.abs((x - offset) / (slope * target) - 1)
    return np.where(np.isfinite(error), error, np.inf)


def _residual(share: Float[np.ndarray, "K"], kind: DepthKind) -> float:
    """Median |predicted depth / known depth - 1| of fitted over wanted targets; behind the camera is infinitely off."""
    if kind is DepthKind.AFFINE_DISPARITY:
        share = np.where(share > 0, 1 / np.where(share > 0, share, 1.0), np.inf)
    return float(np.median(np.abs(share - 1)))


def _outcome(scale: float, residual: float, rules: AlignRules) -> AlignmentOutcome:
    if scale <= 0:
        return AlignmentOutcome.WRONG_DIRECTION
    return AlignmentOutcome.USED if residual <= rules.max_residual else AlignmentOutcome.RESIDUAL_TOO_LARGE


def _compared(values: Float[np.ndarray, "K"], z: Float[np.ndarray, "K"], rules: AlignRules) -> Fit:
    none = np.zeros((2, 2))
    if len(z) < rules.min_anchors:
        return Fit(DepthAlignment(AlignmentOutcome.USED, 1.0, 0.0, float("nan"), len(z)), rules.sigma_share, none)
    residual = float(np.median(np.abs(values / z - 1)))
    outcome = _outcome(1.0, residual, rules)
    return Fit(DepthAlignment(outcome, 1.0, 0.0, residual, len(z)), max(_TO_SIGMA * residual, _LEAST_SHARE), none)


def _refused(outcome: AlignmentOutcome, anchors: int) -> Fit:
    return Fit(DepthAlignment(outcome, anchors=anchors), float("nan"), np.zeros((2, 2)))


def _cells(pixels_xy: Float[np.ndarray, "K 2"], size_wh_px: tuple[int, int]) -> Int64[np.ndarray, "K"]:
    at = np.floor((pixels_xy + 0.5) * _CELLS / size_wh_px[0]).astype(np.int64)
    return np.asarray(at[:, 1] * (_CELLS + 1) + at[:, 0])


def _least_median(x: Float[np.ndarray, "K"], target: Float[np.ndarray, "K"]) -> tuple[float, float]:
    """Slope and offset of value over target through the two anchors that leave the least median error."""
    some = np.unique(np.linspace(0, len(x) - 1, _MOST_ANCHORS).round().astype(np.int64))
    first, second = some[np.random.default_rng(0).integers(0, len(some), (2, _PAIRS))]
    apart = np.abs(target[first] - target[second]) > 1e-9 * target[first]
    first, second = first[apart], second[apart]
    slope = (x[first] - x[second]) / (target[first] - target[second])
    offset = x[first] - slope * target[first]
    medians = np.median(_errors(x[some], target[some], slope[:, None], offset[:, None]), axis=1)
    best = int(np.argmin(medians))
    return float(slope[best]), float(offset[best])


def _covariance(
    columns: Float[np.ndarray, "I 2"], scatter: float, cells: Int64[np.ndarray, "I"]
) -> Float[np.ndarray, "2 2"]:
    """Of (slope, offset) over the slope, with as many independent anchors as there are cells with one."""
    inflation = len(cells) / max(len(np.unique(cells)), 1)
    return np.asarray(scatter**2 * inflation * np.linalg.pinv(columns.T @ columns))


def apply_fit(
    values: Float32[np.ndarray, "h w"], sigma: Float[np.ndarray, "h w"] | None, kind: DepthKind, found: Fit
) -> tuple[Float32[np.ndarray, "h w"], Float32[np.ndarray, "h w"]]:
    """Depth along +z and its standard deviation; NaN where the prediction has none or lies behind the camera."""
    scale, shift = found.alignment.scale, found.alignment.shift
    x = values.astype(np.float64)
    stated = np.zeros(1) if sigma is None else np.nan_to_num(np.asarray(sigma, dtype=np.float64))
    with np.errstate(invalid="ignore", divide="ignore"):
        target = scale * x + shift
        target = np.where(target > 0, target, np.nan)
        c = found.covariance
        line = np.maximum(c[0, 0] * target**2 + 2 * c[0, 1] * target + c[1, 1], 0.0)
        own = (scale * stated) ** 2
        if kind is DepthKind.METRIC and sigma is not None:
            share = np.where(own > 0, np.sqrt(own) / target, found.scatter)
        else:
            share = np.sqrt(found.scatter**2 + (line + own) / target**2)
        z = 1 / target if kind is DepthKind.AFFINE_DISPARITY else target
    return z.astype(np.float32), (z * share).astype(np.float32)
