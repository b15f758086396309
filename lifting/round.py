"""Round things: cups, jars, bottles and bowls show an arc; the circle through it knows the side that nobody saw."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64

from geo.boxes import Box3, points_in_box

_SLICES = ((0.1, 0.45), (0.3, 0.7), (0.55, 0.9), (0.75, 1.0))
_MIN_POINTS = 24
_MIN_ARC_DEG = 100.0
_MAX_INNER_SHARE = 0.15
_MIN_INLIERS = 0.7
_BETTER_THAN_RECTANGLE = 0.8
_HANDLE_IN_RADII = 0.35
_HANDLE_SHARE = 0.03  # of the points at least: less is noise


@dataclass(frozen=True)
class Circle:
    """A horizontal circle with the root mean square of the points' distances to it."""

    center_xy: Float64[np.ndarray, "2"]
    radius_m: float
    rms_m: float


def round_box(
    box: Box3,
    points: Float64[np.ndarray, "K 3"],
    camera_xy: Float64[np.ndarray, "2"],
    noise_m: float,
) -> Box3 | None:
    """The box of an upright round thing, or None if no horizontal slice of its points is an arc.

    Slices at several heights are tried; of the arcs found the widest decides (a bowl's rim, a bottle's body). What
    sticks out of the circle further than a third of its radius (a handle) stays in the box.

    Args:
        box: Upright box of the points; gives heights and turn.
        points: Surface points in world.
        camera_xy: Mean position of the cameras; the width across the viewing direction must fit the circle.
        noise_m: One sigma of a point.
    """
    height = float(box.extent_m[2])
    base = float(box.center_in_world[2]) - height / 2
    share = (points[:, 2] - base) / max(height, 1e-9)
    found = [_arc(points[(share >= a) & (share <= b)][:, :2], camera_xy, noise_m) for a, b in _SLICES]
    circles = [c for c in found if c is not None]
    if not circles:
        return None
    widest = max(circles, key=lambda c: c.radius_m)
    return _around(box, points, widest)


def _around(box: Box3, points: Float64[np.ndarray, "K 3"], circle: Circle) -> Box3:
    """Box of the circle in the given turn, with what clearly sticks out of it."""
    rotation = box.world_from_box_rotation
    center = np.array([*circle.center_xy, box.center_in_world[2]])
    local = points_in_box(Box3(center, box.extent_m, rotation), points)
    low, high = np.quantile(local[:, :2], [0.01, 0.99], axis=0)
    limit = circle.radius_m * (1 + _HANDLE_IN_RADII)
    many_low, many_high = np.quantile(local[:, :2], [_HANDLE_SHARE, 1 - _HANDLE_SHARE], axis=0)
    low = np.where(many_low < -limit, low, -circle.radius_m)
    high = np.where(many_high > limit, high, circle.radius_m)
    extent = np.array([*(high - low), box.extent_m[2]])
    center = center + rotation @ np.array([*(0.5 * (low + high)), 0.0])
    if extent[1] > extent[0]:
        quarter = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
        return Box3(center, extent[[1, 0, 2]], rotation @ quarter)
    return Box3(center, extent, rotation)


def _arc(points_xy: Float64[np.ndarray, "K 2"], camera_xy: Float64[np.ndarray, "2"], noise_m: float) -> Circle | None:
    """A circle that the points of a slice really lie on, better than on a rectangle."""
    if len(points_xy) < _MIN_POINTS:
        return None
    circle = fit_circle(points_xy, noise_m)
    if circle is None or circle.radius_m < 2 * noise_m:
        return None
    offset = points_xy - circle.center_xy
    distance = np.linalg.norm(offset, axis=1)
    off = np.abs(distance - circle.radius_m)
    inliers = off < max(2.5 * noise_m, 0.12 * circle.radius_m)
    inner = distance < 0.7 * circle.radius_m
    if inliers.mean() < _MIN_INLIERS or inner.mean() > _MAX_INNER_SHARE:
        return None
    angles = np.floor(np.degrees(np.arctan2(offset[inliers, 1], offset[inliers, 0])) / 15.0)
    if 15.0 * len(np.unique(angles)) < _MIN_ARC_DEG:
        return None
    towards = camera_xy - circle.center_xy
    across = np.array([-towards[1], towards[0]]) / max(float(np.linalg.norm(towards)), 1e-9)
    low, high = np.quantile(points_xy @ across, [0.02, 0.98])
    half_width = float(high - low) / 2
    if not 0.8 < half_width / circle.radius_m < 1.2:
        return None
    trimmed = np.sort(off)[: int(0.9 * len(off))]
    rectangle = np.sort(_rectangle_gaps(points_xy))[: int(0.9 * len(off))]
    better = np.sqrt(np.mean(trimmed**2)) < _BETTER_THAN_RECTANGLE * np.sqrt(np.mean(rectangle**2))
    if not better:
        return None
    # Noise opens short arcs: the width that is seen bounds the radius; the front stays where it is.
    radius = min(circle.radius_m, 1.03 * half_width)
    forward = towards / max(float(np.linalg.norm(towards)), 1e-9)
    return Circle(circle.center_xy + (circle.radius_m - radius) * forward, radius, circle.rms_m)


def _rectangle_gaps(points_xy: Float64[np.ndarray, "K 2"]) -> Float64[np.ndarray, "K"]:
    """Distance of each point to the nearest side of the turned rectangle that suits them best."""
    best: Float64[np.ndarray, "K"] | None = None
    for degrees in range(0, 90, 3):
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        turned = points_xy @ np.array([[c, -s], [s, c]])
        low, high = np.quantile(turned, [0.03, 0.97], axis=0)
        gaps = np.minimum(np.abs(turned - low), np.abs(turned - high)).min(axis=1)
        if best is None or np.mean(gaps) < np.mean(best):
            best = gaps
    assert best is not None
    return best


def fit_circle(points_xy: Float[np.ndarray, "K 2"], noise_m: float) -> Circle | None:
    """Geometric circle fit with Tukey weights, started from the algebraic one (Kasa 1976); None for a line."""
    middle = points_xy.mean(axis=0)
    local = points_xy - middle
    design = np.column_stack([2 * local, np.ones(len(local))])
    solution, _, rank, _ = np.linalg.lstsq(design, (local**2).sum(axis=1), rcond=None)
    if rank < 3:
        return None
    center, radius = solution[:2], float(np.sqrt(max(solution[2] + solution[:2] @ solution[:2], 0.0)))
    spread = float(np.ptp(local, axis=0).max())
    for _ in range(20):
        offset = local - center
        distance = np.maximum(np.linalg.norm(offset, axis=1), 1e-9)
        off = distance - radius
        scale = max(3.0 * 1.4826 * float(np.median(np.abs(off))), 2.0 * noise_m, 1e-9)
        weight = np.maximum(0.0, 1 - (off / scale) ** 2) ** 2
        jacobian = np.column_stack([-offset / distance[:, None], -np.ones(len(off))])
        gram = jacobian.T @ (weight[:, None] * jacobian) + 1e-9 * np.eye(3)
        step = np.linalg.solve(gram, -jacobian.T @ (weight * off))
        center, radius = center + step[:2], radius + float(step[2])
        if not np.isfinite(radius) or radius > 3 * spread or radius <= 0:
            return None
        if float(np.abs(step).max()) < 1e-6:
            break
    return Circle(center + middle, radius, float(np.sqrt(np.average(off**2, weights=weight + 1e-12))))
