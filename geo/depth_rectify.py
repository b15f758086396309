"""Stand-in until the real one is merged: nearest-neighbour rectified depth."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Float32

from geo.cameras import Camera, PinholeCamera
from geo.recording import DepthSource


def pinhole_for(camera: Camera) -> PinholeCamera:
    """A pinhole of the camera's size that looks the same way."""
    focal, _, cx, cy = (float(value) for value in camera.params[:4])
    return PinholeCamera(camera.width_px, camera.height_px, focal, focal, cx, cy)


@dataclass(frozen=True)
class _Rectified:
    frames: Any
    map_xy: np.ndarray

    def __len__(self) -> int:
        return len(self.frames)

    def read(self, index: int) -> Float32[np.ndarray, "H W"]:
        """Depth along +z in metres of the target."""
        image = self.frames.read(index)
        x, y = np.moveaxis(self.map_xy, -1, 0)
        seen = (x >= 0) & (y >= 0)
        return np.where(seen, image[np.maximum(y, 0), np.maximum(x, 0)], np.nan).astype(np.float32)


def rectified_depth(
    frames: Any,
    camera: Camera,
    target: PinholeCamera,
    kind: str = "z",
    source_from_target: Float[np.ndarray, "4 4"] | None = None,
) -> DepthSource:
    """Depth of a fisheye in a pinhole with the same axes and centre."""
    assert kind == "z" and source_from_target is None
    pixels = camera.project(target.normalised_points(target.pixel_grid())).pixels_xy
    inside = camera.in_image(pixels)
    rounded = np.where(inside[..., None], np.round(pixels), -1).astype(np.int64)
    rounded = np.minimum(rounded, [camera.width_px - 1, camera.height_px - 1])
    return _Rectified(frames, rounded)
