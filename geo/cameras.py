"""Camera models: one small interface, vectorised in float64.

Axes: +x right, +y down, +z forward. The centre of pixel (0, 0) is at (0.0, 0.0); the image covers
[-0.5, W - 0.5] x [-0.5, H - 0.5]. Foreign half-pixel conventions end in the reader that meets them.
"""

import abc
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from jaxtyping import Bool, Float

from geo.errors import CameraError


@dataclass(frozen=True)
class Projection:
    """Pixels of projected points; where ``valid`` is False the pixel is NaN."""

    pixels_xy: Float[np.ndarray, "*batch 2"]
    valid: Bool[np.ndarray, "*batch"]


@dataclass(frozen=True)
class Rays:
    """Unit viewing directions in the camera frame; where ``valid`` is False the direction is NaN."""

    directions: Float[np.ndarray, "*batch 3"]
    valid: Bool[np.ndarray, "*batch"]


class Camera(abc.ABC):
    """What every camera model offers. ``model`` and ``params`` are what files store."""

    model: str
    width_px: int
    height_px: int

    @property
    @abc.abstractmethod
    def params(self) -> Float[np.ndarray, "P"]:
        """Parameters in the order that ``geo.cameras.camera_from_params`` takes for this model."""

    @property
    def size_wh_px(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.width_px, self.height_px

    @abc.abstractmethod
    def project(self, points_in_camera: Float[np.ndarray, "*batch 3"]) -> Projection:
        """Project points (metres or any unit). Invalid: outside the lens's valid angle, or behind it.

        A point outside the image border is still valid: compare with ``in_image`` where that matters.
        """

    @abc.abstractmethod
    def unproject(self, pixels_xy: Float[np.ndarray, "*batch 2"]) -> Rays:
        """Unit ray of each pixel. Invalid: pixels that no ray of the valid region reaches."""

    @abc.abstractmethod
    def resized(self, size_wh_px: tuple[int, int]) -> Self:
        """The same camera for an image resized to this size (per-axis factors, after rounding)."""

    @abc.abstractmethod
    def cropped(self, x0_px: int, y0_px: int, size_wh_px: tuple[int, int]) -> Self:
        """The same camera for the sub-image whose first pixel is (x0, y0)."""

    def in_image(self, pixels_xy: Float[np.ndarray, "*batch 2"]) -> Bool[np.ndarray, "*batch"]:
        """True where a pixel lies on the image, borders included."""
        x, y = pixels_xy[..., 0], pixels_xy[..., 1]
        with np.errstate(invalid="ignore"):
            return (x >= -0.5) & (x <= self.width_px - 0.5) & (y >= -0.5) & (y <= self.height_px - 0.5)

    def pixel_grid(self) -> Float[np.ndarray, "H W 2"]:
        """Pixel centres (x, y), indexed [v, u]."""
        v, u = np.mgrid[0 : self.height_px, 0 : self.width_px]
        return np.stack([u, v], axis=-1).astype(np.float64)


def check_size(width_px: int, height_px: int) -> None:
    """Refuse image sizes that cannot be."""
    if not (0 < width_px <= 65536 and 0 < height_px <= 65536):
        raise CameraError(f"image size {width_px}x{height_px} is impossible; expected 1..65536 px a side")


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
        if not (np.isfinite(self.params).all() and self.fx_px > 0 and self.fy_px > 0):
            raise CameraError(f"PINHOLE parameters {self.params} must be finite with positive focal lengths")

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
        with np.errstate(invalid="ignore", divide="ignore"):
            valid = np.isfinite(x) & np.isfinite(y) & np.isfinite(z) & (z > 0)
            xn, yn = np.where(valid, x / z, np.nan), np.where(valid, y / z, np.nan)
        u = self.fx_px * xn + self.skew_px * yn + self.cx_px
        v = self.fy_px * yn + self.cy_px
        return Projection(np.stack([u, v], axis=-1), valid)

    def unproject(self, pixels_xy: Float[np.ndarray, "*batch 2"]) -> Rays:
        """See ``Camera.unproject``; every finite pixel has a ray."""
        points = self.normalised_points(pixels_xy)
        norm = np.linalg.norm(points, axis=-1, keepdims=True)
        return Rays(points / norm, np.isfinite(norm[..., 0]))

    def normalised_points(self, pixels_xy: Float[np.ndarray, "*batch 2"]) -> Float[np.ndarray, "*batch 3"]:
        """Points on the plane z = 1: multiply by z-depth to get points in the camera frame."""
        pixels = np.asarray(pixels_xy, dtype=np.float64)
        y = (pixels[..., 1] - self.cy_px) / self.fy_px
        x = (pixels[..., 0] - self.cx_px - self.skew_px * y) / self.fx_px
        return np.stack([x, y, np.ones_like(x)], axis=-1)

    def resized(self, size_wh_px: tuple[int, int]) -> Self:
        """Index convention: cx' = s (cx + 0.5) - 0.5 with s = new size / old size, per axis."""
        width, height = size_wh_px
        sx, sy = width / self.width_px, height / self.height_px
        return replace(
            self,
            width_px=width,
            height_px=height,
            fx_px=self.fx_px * sx,
            fy_px=self.fy_px * sy,
            cx_px=(self.cx_px + 0.5) * sx - 0.5,
            cy_px=(self.cy_px + 0.5) * sy - 0.5,
            skew_px=self.skew_px * sx,
        )

    def cropped(self, x0_px: int, y0_px: int, size_wh_px: tuple[int, int]) -> Self:
        """Shift the principal point; the focal length stays."""
        width, height = size_wh_px
        return replace(
            self, width_px=width, height_px=height, cx_px=self.cx_px - x0_px, cy_px=self.cy_px - y0_px
        )
