"""Lines in space to lines in a picture, cut at a near plane so that nothing behind the viewer is drawn."""

import numpy as np
from jaxtyping import Float

from geo import se3
from geo.boxes import Box3
from geo.cameras import PinholeCamera

_NEAR_M = 0.02
_CORNER_SIGNS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=np.float64)
_EDGES = [(a, b) for a in range(8) for b in range(a + 1, 8) if np.sum(_CORNER_SIGNS[a] != _CORNER_SIGNS[b]) == 1]


def box_edges(box: Box3) -> Float[np.ndarray, "12 2 3"]:
    """The twelve edges of a box in world."""
    corners = box.center_in_world + (_CORNER_SIGNS * box.extent_m / 2) @ box.world_from_box_rotation.T
    return np.stack([np.stack([corners[a], corners[b]]) for a, b in _EDGES])


def project_segments(
    camera: PinholeCamera, world_from_camera: Float[np.ndarray, "4 4"], segments_in_world: Float[np.ndarray, "S 2 3"]
) -> Float[np.ndarray, "T 2 2"]:
    """Pixels (x, y) of both ends of every segment that has a part in front of the near plane."""
    if len(segments_in_world) == 0:
        return np.zeros((0, 2, 2))
    inside = se3.transform_points(se3.inverse(world_from_camera), segments_in_world)
    z = inside[..., 2]
    keep = (z > _NEAR_M).any(axis=1) & np.isfinite(inside).all(axis=(1, 2))
    inside, z = inside[keep].copy(), z[keep]
    for end in (0, 1):
        behind = z[:, end] <= _NEAR_M
        a, b = inside[behind, end], inside[behind, 1 - end]
        share = (_NEAR_M - a[:, 2]) / (b[:, 2] - a[:, 2])
        inside[behind, end] = a + share[:, None] * (b - a)
    inside[..., 2] = np.maximum(inside[..., 2], _NEAR_M)
    pixels: Float[np.ndarray, "T 2 2"] = camera.project(inside).pixels_xy
    return pixels
