"""Depth of mask pixels in which the sensor has a hole, carried on from the surface beside them.

Sensors lose depth first at the edges of things, so boxes of what is left are too small and lean towards the camera.
The mask knows where the edge is; the surface next to the hole knows how far away it is.
"""

import numpy as np
from jaxtyping import Float, Float64, Int64

_NEIGHBOURS = 16
_RIDGE = 0.1  # pixel^2 per neighbour: keeps the slope of few, clumped neighbours small


def carry_on(
    holes_vu: Int64[np.ndarray, "H 2"],
    known_vu: Int64[np.ndarray, "K 2"],
    known_z_m: Float[np.ndarray, "K"],
    reach_px: float,
    max_step_m: float,
) -> tuple[Int64[np.ndarray, "M 2"], Float64[np.ndarray, "M"]]:
    """Holes within ``reach_px`` of known pixels, and the depth of the plane through the 16 nearest known ones.

    In a pinhole a plane has an inverse depth that is linear in the pixel. The result stays within ``max_step_m`` of
    the neighbours' mean depth.
    """
    from scipy.spatial import cKDTree

    none = np.zeros((0, 2), dtype=np.int64), np.zeros(0)
    if len(holes_vu) == 0 or len(known_vu) < 4:
        return none
    count = min(_NEIGHBOURS, len(known_vu))
    distance, index = cKDTree(known_vu).query(holes_vu, k=count)
    near = distance[:, 0] <= reach_px
    if not near.any():
        return none
    holes, index = holes_vu[near], index[near]
    z = known_z_m[index]
    middle = known_vu[index].mean(axis=1)
    offset = known_vu[index] - middle[:, None]
    inverse = 1.0 / z
    mean = inverse.mean(axis=1)
    gram = np.einsum("hni,hnj->hij", offset, offset) + _RIDGE * count * np.eye(2)
    slope = np.linalg.solve(gram, np.einsum("hni,hn->hi", offset, inverse - mean[:, None])[..., None])[..., 0]
    value = mean + np.einsum("hi,hi->h", slope, holes - middle)
    center = 1.0 / mean
    with np.errstate(divide="ignore"):
        carried = np.where(value > 0, 1.0 / value, np.inf)
    return holes, np.clip(carried, center - max_step_m, center + max_step_m)
