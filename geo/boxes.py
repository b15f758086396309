"""Oriented boxes in space: corners, containment, overlap, surface distance. Fitting them is lifting's.

::

        4 -------- 5          corner k has local coordinates (+-l/2, +-w/2, +-h/2):
       /|  z y    /|          bit 0 of k is x, bit 1 is y, bit 2 is z (0 is minus)
      6 -------- 7 |
      | 0 ------ | 1
      |/     x   |/
      2 -------- 3

Boxes may have zero thickness along any axis. A box with a NaN in it is unknown: distances to it are NaN.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from geo.errors import GeoError
from geo.polyhedra import convex_intersection_volume

_SIGNS = np.array([[-1 if not (k >> axis) & 1 else 1 for axis in range(3)] for k in range(8)], dtype=np.float64)
_EDGES = np.array([(k, k | (1 << axis)) for k in range(8) for axis in range(3) if not (k >> axis) & 1])


@dataclass(frozen=True)
class Box3:
    """An oriented box. ``extent_m`` = full side lengths (l, w, h) along the box's own x, y, z axes."""

    center_in_world: Float[np.ndarray, "3"]
    extent_m: Float[np.ndarray, "3"]
    world_from_box_rotation: Float[np.ndarray, "3 3"]

    @property
    def world_from_box(self) -> Float[np.ndarray, "4 4"]:
        """Pose of the box's centre frame."""
        out = np.eye(4)
        out[:3, :3] = self.world_from_box_rotation
        out[:3, 3] = self.center_in_world
        return out

    @property
    def volume_m3(self) -> float:
        """Product of the side lengths."""
        return float(np.prod(self.extent_m))

    @property
    def is_finite(self) -> bool:
        """False if any number of the box is unknown."""
        parts = (self.center_in_world, self.extent_m, self.world_from_box_rotation)
        return bool(all(np.isfinite(part).all() for part in parts))


def box_from_aabb(low_in_world: Float[np.ndarray, "3"], high_in_world: Float[np.ndarray, "3"]) -> Box3:
    """The axis-parallel box between two corners.

    Raises:
        GeoError: if low is above high on an axis.
    """
    low, high = np.asarray(low_in_world, dtype=np.float64), np.asarray(high_in_world, dtype=np.float64)
    if (low > high).any():
        raise GeoError(f"low corner {low} lies above high corner {high}")
    return Box3((low + high) / 2, high - low, np.eye(3))


def corners(box: Box3) -> Float[np.ndarray, "8 3"]:
    """Corners in world, in the order of the sketch above."""
    return np.asarray(box.center_in_world + (_SIGNS * box.extent_m / 2) @ box.world_from_box_rotation.T)


def aabb(box: Box3) -> tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3"]]:
    """Lowest and highest corner of the axis-parallel box around an oriented one."""
    half = np.abs(box.world_from_box_rotation) @ (np.asarray(box.extent_m) / 2)
    return box.center_in_world - half, box.center_in_world + half


def points_in_box(box: Box3, points_in_world: Float[np.ndarray, "*batch 3"]) -> Float[np.ndarray, "*batch 3"]:
    """Coordinates along the box's axes, from its centre."""
    return np.asarray((points_in_world - box.center_in_world) @ box.world_from_box_rotation)


def contains(
    box: Box3, points_in_world: Float[np.ndarray, "*batch 3"], margin_m: float = 1e-9
) -> Bool[np.ndarray, "*batch"]:
    """True for points inside or within ``margin_m`` of the faces (a positive margin grows the box)."""
    local = np.abs(points_in_box(box, points_in_world))
    with np.errstate(invalid="ignore"):
        return np.asarray((local <= np.asarray(box.extent_m) / 2 + margin_m).all(axis=-1))


def point_distance(box: Box3, points_in_world: Float[np.ndarray, "*batch 3"]) -> Float[np.ndarray, "*batch"]:
    """Distance of points to the solid box: 0 inside, exact outside."""
    outside = np.maximum(np.abs(points_in_box(box, points_in_world)) - np.asarray(box.extent_m) / 2, 0.0)
    return np.asarray(np.linalg.norm(outside, axis=-1))


def intersection_volume(box_a: Box3, box_b: Box3) -> float:
    """Volume of the common part, by clipping one box with the faces of the other (exact to rounding)."""
    low_a, high_a = aabb(box_a)
    low_b, high_b = aabb(box_b)
    if (low_a >= high_b).any() or (low_b >= high_a).any() or box_a.volume_m3 == 0 or box_b.volume_m3 == 0:
        return 0.0
    normals = np.concatenate([box_b.world_from_box_rotation.T, -box_b.world_from_box_rotation.T])
    offsets = normals @ box_b.center_in_world + np.tile(np.asarray(box_b.extent_m) / 2, 2)
    return convex_intersection_volume(corners(box_a), normals, offsets)


def iou_3d(box_a: Box3, box_b: Box3, min_thickness_m: float = 0.0) -> float:
    """Intersection over union of two oriented boxes; NaN if one is unknown.

    Flat boxes have no volume: thicker sides than ``min_thickness_m`` stay, thinner ones are counted as that thick.
    If both volumes are 0 the result is 0.
    """
    if not (box_a.is_finite and box_b.is_finite):
        return float("nan")
    thick_a, thick_b = (
        Box3(b.center_in_world, np.maximum(b.extent_m, min_thickness_m), b.world_from_box_rotation)
        for b in (box_a, box_b)
    )
    common = intersection_volume(thick_a, thick_b)
    union = thick_a.volume_m3 + thick_b.volume_m3 - common
    return float(min(common / union, 1.0)) if union > 0 else 0.0


def _separated(box_a: Box3, box_b: Box3) -> bool:
    """Separating-axis test with the 15 axes of two boxes (Gottschalk, Lin & Manocha 1996)."""
    axes_a, axes_b = box_a.world_from_box_rotation.T, box_b.world_from_box_rotation.T
    crosses = np.cross(axes_a[:, None], axes_b[None]).reshape(9, 3)
    length = np.linalg.norm(crosses, axis=1)
    axes = np.concatenate([axes_a, axes_b, crosses[length > 1e-9] / length[length > 1e-9, None]])
    reach = np.abs(axes @ axes_a.T) @ (np.asarray(box_a.extent_m) / 2) + np.abs(axes @ axes_b.T) @ (
        np.asarray(box_b.extent_m) / 2
    )
    gap = np.abs(axes @ (box_b.center_in_world - box_a.center_in_world)) - reach
    return bool((gap > 0).any())


def surface_distance(box_a: Box3, box_b: Box3) -> float:
    """Smallest distance between two solid boxes: 0 if they touch or overlap, NaN if one is unknown.

    Exact: disjoint convex polyhedra are nearest either at a corner of one and the other box, or at two edges.
    """
    if not (box_a.is_finite and box_b.is_finite):
        return float("nan")
    if not _separated(box_a, box_b):
        return 0.0
    corners_a, corners_b = corners(box_a), corners(box_b)
    best = min(point_distance(box_a, corners_b).min(), point_distance(box_b, corners_a).min())
    return float(min(best, _edge_distances(corners_a[_EDGES], corners_b[_EDGES]).min()))


def _edge_distances(
    edges_a: Float[np.ndarray, "A 2 3"], edges_b: Float[np.ndarray, "B 2 3"]
) -> Float[np.ndarray, "AB"]:
    """Distances between all pairs of segments where the nearest points lie inside both, inf elsewhere.

    Ends of segments are corners, which ``surface_distance`` compares with the whole box already.
    Source: Ericson, Real-Time Collision Detection (2005), section 5.1.9.
    """
    p, d1 = edges_a[:, None, 0], edges_a[:, None, 1] - edges_a[:, None, 0]
    q, d2 = edges_b[None, :, 0], edges_b[None, :, 1] - edges_b[None, :, 0]
    r = p - q
    a, e, b = (d1 * d1).sum(-1), (d2 * d2).sum(-1), (d1 * d2).sum(-1)
    c, f = (d1 * r).sum(-1), (d2 * r).sum(-1)
    denominator = a * e - b * b
    with np.errstate(divide="ignore", invalid="ignore"):
        s, t = (b * f - c * e) / denominator, (a * f - b * c) / denominator
        inside = (denominator > 1e-12 * a * e) & (s >= 0) & (s <= 1) & (t >= 0) & (t <= 1)
        distance = np.linalg.norm(r + s[..., None] * d1 - t[..., None] * d2, axis=-1)
    return np.where(inside, distance, np.inf).ravel()
