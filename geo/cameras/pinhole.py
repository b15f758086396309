"""The ideal pinhole camera."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from geo.cameras.base import Camera, Projection, Rays, check_params, check_size, resized_intrinsics


@dataclass(frozen=True)
class PinholeCamera(Camera):
    """Ideal pinhole: u = fx x/z + skew y/z + cx, v = fy y/z + cy (Hartley & Zisserman 2004, eq. 6.9)."""

    width_px: int
    height_px: int
    fx_px: float
    fy_px: float
    cx_px: float
    cy_px: float
    skew_px: float = 0.0
    model = "PINHOLE"

    def __post_init__(self) -> None:
        """Validate once, here."""
        check_size(self.width_px, self.height_px)
        check_params(self.model, self.params)

    @property
    def params(self) -> Float[np.ndarray, "P"]:
        """fx, fy, cx, cy, and skew only where it is not zero."""
        values = [self.fx_px, self.fy_px, self.cx_px, self.cy_px]
        return np.array([*values, self.skew_px] if self.skew_px else values, dtype=np.float64)

    @property
    def matrix(self) -> Float[np.ndarray, "3 3"]:
        """The calibration matrix K (pixel centres at whole numbers)."""
        return np.array(
            [[self.fx_px, self.skew_px, self.cx_px], [0.0, self.fy_px, self.cy_px], [0.0, 0.0, 1.0]], dtype=np.float64
        )

    def project(self, points_in_camera: Float[np.ndarray, "*batch 3"]) -> Projection:
        """See ``Camera.project``; points with z <= 0 are invalid."""
        x, y, z = np.moveaxis(np.asarray(points_in_camera, dtype=np.float64), -1, 0)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            valid = np.isfinite(x) & np.isfinite(y) & np.isfinite(z) & (z > 0)
            xn, yn = np.where(valid, x / z, np.nan), np.where(valid, y / z, np.nan)
        u = self.fx_px * xn + self.skew_px * yn + self.cx_px
        v = self.fy_px * yn + self.cy_px
        return Projection(np.stack([u, v], axis=-1), np.asarray(valid))

    def unproject(self, pixels_xy: Float[np.ndarray, "*batch 2"]) -> Rays:
        """See ``Camera.unproject``; every finite pixel has a ray."""
        points = self.normalised_points(pixels_xy)
        norm = np.linalg.norm(points, axis=-1, keepdims=True)
        return Rays(points / norm, np.asarray(np.isfinite(norm[..., 0])))

    def normalised_points(self, pixels_xy: Float[np.ndarray, "*batch 2"]) -> Float[np.ndarray, "*batch 3"]:
        """Points on the plane z = 1: multiply by z-depth to get points in the camera frame."""
        pixels = np.asarray(pixels_xy, dtype=np.float64)
        y = (pixels[..., 1] - self.cy_px) / self.fy_px
        x = (pixels[..., 0] - self.cx_px - self.skew_px * y) / self.fx_px
        return np.stack([x, y, np.ones_like(x)], axis=-1)

    def resized(self, size_wh_px: tuple[int, int]) -> "PinholeCamera":
        """Index convention: cx' = s (cx + 0.5) - 0.5 with s = new size / old size, per axis."""
        k = resized_intrinsics(self, size_wh_px)
        width, height = size_wh_px
        return replace(
            self,
            width_px=width,
            height_px=height,
            fx_px=k.fx_px,
            fy_px=k.fy_px,
            cx_px=k.cx_px,
            cy_px=k.cy_px,
            skew_px=self.skew_px * width / self.width_px,
        )

    def cropped(self, x0_px: int, y0_px: int, size_wh_px: tuple[int, int]) -> "PinholeCamera":
        """Shift the principal point; the focal length stays."""
        width, height = size_wh_px
        return replace(self, width_px=width, height_px=height, cx_px=self.cx_px - x0_px, cy_px=self.cy_px - y0_px)
