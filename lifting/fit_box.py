"""Boxes of point sets: gravity-aligned where up is known, free otherwise. Never raises on data, never NaN.

No convex hull library is used, so coplanar, collinear or single points need no special treatment.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64

from geo.boxes import Box3

_EXACT_BELOW = 100  # fewer points: exact minimum and maximum, no quantiles
_PAIRS_BELOW = 65  # fewer points: try the direction of every pair
_EPS = 1e-3


@dataclass(frozen=True)
class BoxFit:
    """A box, or the reason why there is none."""

    box: Box3 | None
    reason: str
    used_points: int
    dropped_points: int  # not finite


def fit_box(points_in_world: Float[np.ndarray, "N 3"], has_up: bool, quantile: float = 0.0) -> BoxFit:
    """Smallest box around points.

    With ``has_up`` the box's z axis is world z and its yaw gives the smallest footprint; otherwise the smallest
    volume over the principal axes, each with its best turn. From 100 points on, ``quantile`` of the points is cut
    off at either end. x is the longer side of the footprint (free boxes: sides fall from x to z).
    Points that are not finite are dropped and counted. One or equal points give a box of size zero.
    """
    points = np.asarray(points_in_world, dtype=np.float64).reshape(-1, 3)
    finite = np.isfinite(points).all(axis=1)
    dropped = int((~finite).sum())
    points = points[finite]
    if len(points) == 0:
        return BoxFit(None, "no points with finite coordinates", 0, dropped)
    box = _upright_box(points, quantile) if has_up else _free_box(points, quantile)
    return BoxFit(box, "", len(points), dropped)


def yaw_rotation(yaw_rad: float) -> Float64[np.ndarray, "3 3"]:
    """Rotation about +z."""
    c, s = np.cos(yaw_rad), np.sin(yaw_rad)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def ranges(
    values: Float[np.ndarray, "N K"], quantile: float
) -> tuple[Float64[np.ndarray, "K"], Float64[np.ndarray, "K"]]:
    """Low and high end of each column, with the quantile cut off where there are enough points."""
    if quantile <= 0 or len(values) < _EXACT_BELOW:
        return values.min(axis=0), values.max(axis=0)
    low, high = np.quantile(values, [quantile, 1 - quantile], axis=0)
    return low, high


def best_yaw(points_xy: Float[np.ndarray, "N 2"], quantile: float) -> float:
    """Turn (radians, in [0, pi/2)) whose axis-parallel rectangle is smallest: area, then perimeter."""
    spread = float(np.ptp(points_xy, axis=0).max())
    if spread == 0.0:
        return 0.0
    if len(points_xy) < _PAIRS_BELOW:
        i, j = np.triu_indices(len(points_xy), 1)
        steps = points_xy[j] - points_xy[i]
        angles = np.unique(np.mod(np.arctan2(steps[:, 1], steps[:, 0]), np.pi / 2))
        return float(angles[int(np.argmin([_cost(points_xy, a, quantile, spread) for a in angles]))])
    coarse = np.radians(np.arange(0.0, 90.0, 2.0))
    start = coarse[int(np.argmin([_cost(points_xy, a, quantile, spread) for a in coarse]))]
    fine = start + np.radians(np.arange(-1.75, 2.0, 0.25))
    return float(np.mod(fine[int(np.argmin([_cost(points_xy, a, quantile, spread) for a in fine]))], np.pi / 2))


def _cost(points_xy: Float[np.ndarray, "N 2"], yaw_rad: float, quantile: float, spread: float) -> float:
    c, s = np.cos(yaw_rad), np.sin(yaw_rad)
    low, high = ranges(points_xy @ np.array([[c, -s], [s, c]]), quantile)
    width, height = high - low
    return float(width * height + _EPS * spread * (width + height))


def _upright_box(points: Float64[np.ndarray, "N 3"], quantile: float) -> Box3:
    return box_with_yaw(points, best_yaw(points[:, :2], quantile), quantile)


def box_with_yaw(points: Float64[np.ndarray, "N 3"], yaw_rad: float, quantile: float) -> Box3:
    """Upright box with a given turn, x along the longer side of the footprint."""
    rotation = yaw_rotation(yaw_rad)
    low, high = ranges(points @ rotation, quantile)
    if high[1] - low[1] > high[0] - low[0]:
        rotation = yaw_rotation(yaw_rad + np.pi / 2)
        low, high = ranges(points @ rotation, quantile)
    return Box3(rotation @ (0.5 * (low + high)), high - low, rotation)


def _free_box(points: Float64[np.ndarray, "N 3"], quantile: float) -> Box3:
    middle = points.mean(axis=0)
    axes = np.linalg.svd(points - middle, full_matrices=True)[2] if len(points) > 1 else np.eye(3)
    if len(points) < 3:
        axes = np.linalg.svd(np.vstack([points - middle, np.zeros((3, 3))]), full_matrices=False)[2]
    best: tuple[float, Box3] | None = None
    for normal in [*axes, *_face_normals(points)]:
        rows = _frame_about(normal)
        local = (points - middle) @ rows.T
        box = _upright_box(local, quantile)
        cost = _free_cost(box.extent_m, float(np.ptp(local, axis=0).max()))
        if best is None or cost < best[0] - 1e-12:
            turned = Box3(rows.T @ box.center_in_world + middle, box.extent_m, rows.T @ box.world_from_box_rotation)
            best = (cost, turned)
    assert best is not None
    return _sorted_sides(best[1])


def _frame_about(normal: Float64[np.ndarray, "3"]) -> Float64[np.ndarray, "3 3"]:
    """Rotation (rows are axes) whose third axis is the normal."""
    side = np.cross(normal, np.eye(3)[int(np.argmin(np.abs(normal)))])
    side = side / np.linalg.norm(side)
    return np.stack([side, np.cross(normal, side), normal])


def _face_normals(points: Float64[np.ndarray, "N 3"]) -> list[Float64[np.ndarray, "3"]]:
    """Up to three directions that many local normals share: principal axes lean where only some sides were seen."""
    if len(points) < _EXACT_BELOW:
        return []
    from scipy.spatial import cKDTree

    chosen = points[:: max(1, len(points) // 300)]
    _, index = cKDTree(points).query(chosen, k=25)
    local = points[index] - points[index].mean(axis=1, keepdims=True)
    normals = np.linalg.eigh(np.einsum("kni,knj->kij", local, local))[1][:, :, 0]
    found: list[Float64[np.ndarray, "3"]] = []
    alive = np.ones(len(normals), dtype=bool)
    for _ in range(3):
        if alive.sum() < len(normals) // 10:
            break
        cosines = normals[alive] @ normals[alive].T
        votes = (np.abs(cosines) > 0.96).sum(axis=1)
        leader = normals[alive][int(np.argmax(votes))]
        near = alive & (np.abs(normals @ leader) > 0.96)
        signed = normals[near] * np.sign(normals[near] @ leader)[:, None]
        found.append(signed.mean(axis=0) / np.linalg.norm(signed.mean(axis=0)))
        alive &= np.abs(normals @ leader) < 0.9
    return found


def _free_cost(extent_m: Float64[np.ndarray, "3"], spread: float) -> float:
    a, b, c = extent_m
    return float(a * b * c + _EPS * spread * (a * b + b * c + c * a) + (_EPS * spread) ** 2 * (a + b + c))


def _sorted_sides(box: Box3) -> Box3:
    """The same box with its sides falling from x to z, right-handed."""
    order = np.argsort(-box.extent_m, kind="stable")
    rotation = box.world_from_box_rotation[:, order]
    if np.linalg.det(rotation) < 0:
        rotation = rotation * np.array([1.0, 1.0, -1.0])
    return Box3(box.center_in_world, box.extent_m[order], rotation)
