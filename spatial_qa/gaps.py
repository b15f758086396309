"""Distance between the surfaces of two oriented boxes, with its derivatives."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

_ROUNDS = 500
_TOLERANCE_M = 1e-10


@dataclass(frozen=True)
class Gap:
    """Shortest distance between two solid boxes, 0 if they touch or overlap, and what it changes with.

    ``normal`` points from a to b: moving b by d changes the distance by ``normal . d``, moving a by minus that.
    ``per_side_a`` and ``per_side_b``: change of the distance per metre of each side (zero or negative).
    """

    distance_m: float
    normal: Float[np.ndarray, "3"]
    per_side_a: Float[np.ndarray, "3"]
    per_side_b: Float[np.ndarray, "3"]


def surface_gap(
    center_a: Float[np.ndarray, "3"],
    extent_a_m: Float[np.ndarray, "3"],
    world_from_a: Float[np.ndarray, "3 3"],
    center_b: Float[np.ndarray, "3"],
    extent_b_m: Float[np.ndarray, "3"],
    world_from_b: Float[np.ndarray, "3 3"],
) -> Gap:
    """Distance of two boxes and its gradient.

    Alternating projections onto the two convex sets: from any start they converge to a nearest pair; the
    gradient follows from that pair alone (envelope theorem).
    Source: Cheney & Goldstein (1959), Proximity maps for convex sets, theorem 4.
    """
    point, last = np.asarray(center_b, dtype=np.float64), np.inf
    for _ in range(_ROUNDS):
        on_a, local_a = _nearest(point, center_a, extent_a_m, world_from_a)
        point, local_b = _nearest(on_a, center_b, extent_b_m, world_from_b)
        distance = float(np.sqrt(((point - on_a) ** 2).sum()))
        if distance <= _TOLERANCE_M or last - distance < _TOLERANCE_M:
            break
        last = distance
    if distance <= 1e-6:
        return _touching(center_a, center_b)
    normal = (point - on_a) / distance
    per_a = -np.abs(normal @ world_from_a) / 2 * _at_face(local_a, extent_a_m)
    per_b = -np.abs(normal @ world_from_b) / 2 * _at_face(local_b, extent_b_m)
    return Gap(distance, normal, per_a, per_b)


def _touching(center_a: Float[np.ndarray, "3"], center_b: Float[np.ndarray, "3"]) -> Gap:
    """No distance; for the uncertainty, as if they stood side by side along the line of centres."""
    away = center_b - center_a
    length = float(np.linalg.norm(away))
    normal = away / length if length > 0 else np.array([1.0, 0.0, 0.0])
    return Gap(0.0, normal, np.full(3, -0.5), np.full(3, -0.5))


def _at_face(local: np.ndarray, extent_m: np.ndarray) -> np.ndarray:
    """1 where a point in box axes lies on the face of that axis, else 0."""
    face: np.ndarray = (np.abs(local) >= np.abs(extent_m) / 2 - 1e-9).astype(np.float64)
    return face


def _nearest(
    point: np.ndarray,
    center: np.ndarray,
    extent_m: np.ndarray,
    world_from_box: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The point of a solid box that is nearest to a point: in world, and in the box's axes from its centre."""
    half = np.abs(extent_m) / 2
    local = np.minimum(np.maximum((point - center) @ world_from_box, -half), half)
    return center + world_from_box @ local, local
