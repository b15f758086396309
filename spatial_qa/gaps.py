"""Distance between the surfaces of two oriented boxes."""

import numpy as np
from jaxtyping import Float

_ROUNDS = 2000
_TOLERANCE_M = 1e-9


def surface_gap_m(
    center_a: Float[np.ndarray, "3"],
    extent_a_m: Float[np.ndarray, "3"],
    world_from_a: Float[np.ndarray, "3 3"],
    center_b: Float[np.ndarray, "3"],
    extent_b_m: Float[np.ndarray, "3"],
    world_from_b: Float[np.ndarray, "3 3"],
) -> float:
    """Shortest distance between two solid boxes in metres, 0 if they touch or overlap.

    Alternating projections onto the two convex sets: from any start they converge to a nearest pair.
    Source: Cheney & Goldstein (1959), Proximity maps for convex sets, theorem 4.
    """
    point = np.asarray(center_b, dtype=np.float64)
    last = np.inf
    for _ in range(_ROUNDS):
        on_a = _nearest(point, center_a, extent_a_m, world_from_a)
        point = _nearest(on_a, center_b, extent_b_m, world_from_b)
        gap = float(np.linalg.norm(point - on_a))
        if gap <= _TOLERANCE_M or last - gap < _TOLERANCE_M:
            return gap
        last = gap
    return last


def _nearest(
    point: Float[np.ndarray, "3"],
    center: Float[np.ndarray, "3"],
    extent_m: Float[np.ndarray, "3"],
    world_from_box: Float[np.ndarray, "3 3"],
) -> Float[np.ndarray, "3"]:
    """The point of a solid box that is nearest to a point."""
    half = np.abs(extent_m) / 2
    local = np.clip((point - center) @ world_from_box, -half, half)
    nearest: Float[np.ndarray, "3"] = center + world_from_box @ local
    return nearest
