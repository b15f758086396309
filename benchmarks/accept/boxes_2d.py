"""What the letters on 2D boxes share: boxes of projected points, in the pixels of pictures that lie on their side."""

import numpy as np
from jaxtyping import Float

from geo.cameras import Camera


def stored_pixels(camera: Camera, pixels_xy: Float[np.ndarray, "N 2"]) -> Float[np.ndarray, "N 2"]:
    """Pixels of the upright picture as pixels of the stored one, which was turned once clockwise."""
    return np.stack([pixels_xy[:, 1], camera.width_px - 1 - pixels_xy[:, 0]], axis=1)


def box_around(pixels_xy: Float[np.ndarray, "N 2"]) -> Float[np.ndarray, "4"] | None:
    """x0, y0, x1, y1 of the pixels that are numbers; None if there is none."""
    seen = pixels_xy[np.isfinite(pixels_xy).all(axis=1)]
    return np.concatenate([seen.min(axis=0), seen.max(axis=0)]) if len(seen) else None


def iou(a: Float[np.ndarray, "4"] | None, b: Float[np.ndarray, "4"]) -> float:
    """Area in common over area of both; 0 where there is no box."""
    if a is None:
        return 0.0
    common = np.maximum(0.0, np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])).prod()
    union = (a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - common
    return float(common / union) if union > 0 else 0.0


def surface_points(box: Float[np.ndarray, "2 3"], steps: int = 9) -> Float[np.ndarray, "N 3"]:
    """A grid on the six faces of a box."""
    line = np.linspace(0.0, 1.0, steps)
    grid = np.stack(np.meshgrid(line, line, line, indexing="ij"), axis=-1).reshape(-1, 3)
    outside = ((grid == 0.0) | (grid == 1.0)).any(axis=1)
    return np.asarray(box[0] + grid[outside] * (box[1] - box[0]))
