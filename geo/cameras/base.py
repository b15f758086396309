"""What every camera model offers, and the two results it gives."""

import abc
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float

from geo.errors import CameraError

C = TypeVar("C", bound="Camera")  # the class itself: typing.Self is not understood by the shape checker


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

    @property
    def max_theta_rad(self) -> float:
        """Largest angle from the optical axis that the model maps one to one; pi / 2 is never reached by pinholes."""
        return np.pi / 2

    @abc.abstractmethod
    def project(self, points_in_camera: Float[np.ndarray, "*batch 3"]) -> Projection:
        """Project points (metres or any unit). Invalid: outside the lens's valid angle, or behind it.

        A point outside the image border is still valid: compare with ``in_image`` where that matters.
        """

    @abc.abstractmethod
    def unproject(self, pixels_xy: Float[np.ndarray, "*batch 2"]) -> Rays:
        """Unit ray of each pixel. Invalid: pixels that no ray of the valid region reaches."""

    @abc.abstractmethod
    def jacobian(self, points_in_camera: Float[np.ndarray, "*batch 3"]) -> Float[np.ndarray, "*batch 2 3"]:
        """Derivative of the pixel (u, v) by the point (x, y, z), in pixels per unit of the points; analytic.

        NaN where ``project`` is invalid. The last column is that of z: a point that moves along its own ray keeps its
        pixel, so ``jacobian(p) @ p`` is zero.
        """

    @abc.abstractmethod
    def resized(self: C, size_wh_px: tuple[int, int]) -> C:
        """The same camera for an image resized to this size (per-axis factors, after rounding)."""

    @abc.abstractmethod
    def cropped(self: C, x0_px: int, y0_px: int, size_wh_px: tuple[int, int]) -> C:
        """The same camera for the sub-image whose first pixel is (x0, y0)."""

    @abc.abstractmethod
    def rotated90(self: C, turns_clockwise: int) -> tuple[C, Float[np.ndarray, "3 3"]]:
        """The camera of the picture turned by quarter turns, and ``turned_from_camera``, its rotation.

        ``numpy.rot90(image, -turns_clockwise)`` is the picture; negative turns go the other way. The camera's axes
        turn with the picture, so the extrinsics have to follow (FIELD R5):
        ``device_from_turned = device_from_camera @ turned_from_camera.T``. Exact for every model.
        """

    def in_image(self, pixels_xy: Float[np.ndarray, "*batch 2"]) -> Bool[np.ndarray, "*batch"]:
        """True where a pixel lies on the image, borders included."""
        x, y = pixels_xy[..., 0], pixels_xy[..., 1]
        with np.errstate(invalid="ignore"):
            inside = (x >= -0.5) & (x <= self.width_px - 0.5) & (y >= -0.5) & (y <= self.height_px - 0.5)
        return np.asarray(inside)

    def pixel_grid(self) -> Float[np.ndarray, "H W 2"]:
        """Pixel centres (x, y), indexed [v, u]."""
        v, u = np.mgrid[0 : self.height_px, 0 : self.width_px]
        return np.stack([u, v], axis=-1).astype(np.float64)

    def field_of_view_deg(self) -> float:
        """Twice the largest angle from the optical axis that the image shows (sampled on a 65 x 65 grid)."""
        x, y = np.meshgrid(
            np.linspace(-0.5, self.width_px - 0.5, 65), np.linspace(-0.5, self.height_px - 0.5, 65), indexing="xy"
        )
        rays = self.unproject(np.stack([x, y], axis=-1))
        directions = rays.directions[rays.valid]
        if not len(directions):
            return 0.0
        radial = np.hypot(directions[:, 0], directions[:, 1])
        return float(2 * np.degrees(np.arctan2(radial, directions[:, 2]).max()))


@dataclass(frozen=True)
class FocalAndCentre:
    """Focal lengths and principal point of an image after a change of its size."""

    fx_px: float
    fy_px: float
    cx_px: float
    cy_px: float


def resized_intrinsics(camera: Camera, size_wh_px: tuple[int, int]) -> FocalAndCentre:
    """Index convention: c' = s (c + 0.5) - 0.5, f' = s f with s = new size / old size, per axis."""
    fx, fy, cx, cy = (float(value) for value in camera.params[:4])
    sx, sy = size_wh_px[0] / camera.width_px, size_wh_px[1] / camera.height_px
    return FocalAndCentre(fx * sx, fy * sy, (cx + 0.5) * sx - 0.5, (cy + 0.5) * sy - 0.5)


def quarter_turn(turns_clockwise: int) -> Float[np.ndarray, "3 3"]:
    """turned_from_camera of ``Camera.rotated90``: one turn takes (x, y, z) to (-y, x, z), whole numbers only."""
    once = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]])
    return np.asarray(np.linalg.matrix_power(once, turns_clockwise % 4), dtype=np.float64)


def check_size(width_px: int, height_px: int) -> None:
    """Refuse image sizes that cannot be."""
    if not (0 < width_px <= 65536 and 0 < height_px <= 65536):
        raise CameraError(f"image size {width_px}x{height_px} is impossible; expected 1..65536 px a side")


def check_params(
    model: str,
    params: Float[np.ndarray, "P"],
    valid_theta_rad: float | None = None,
    valid_radius: float | None = None,
) -> None:
    """Refuse parameters that are not finite, focal lengths that are not positive, impossible valid angles and radii."""
    if not (np.isfinite(params).all() and params[0] > 0 and params[1] > 0):
        raise CameraError(f"{model} parameters {params.tolist()} must be finite with positive focal lengths")
    if valid_theta_rad is not None and not 0 < valid_theta_rad <= np.pi:
        raise CameraError(f"{model}: valid_theta_rad = {valid_theta_rad} must lie in (0, pi]; is it in degrees?")
    if valid_radius is not None and not (np.isfinite(valid_radius) and valid_radius > 0):
        raise CameraError(f"{model}: valid radius {valid_radius} must be positive and finite; leave it out if unknown")


def first_positive_root(coefficients_rising: Float[np.ndarray, "C"]) -> float:
    """Smallest positive real root of c0 + c1 x + c2 x^2 + ..., or inf. Used for turning points (FIELD R4)."""
    coefficients = np.trim_zeros(np.asarray(coefficients_rising, dtype=np.float64), "b")
    if len(coefficients) < 2:
        return float("inf")
    roots = np.roots(coefficients[::-1])
    scale = np.maximum(np.abs(roots), 1e-12)
    real = roots.real[(np.abs(roots.imag) <= 1e-7 * scale) & (roots.real > 0)]
    return float(real.min()) if len(real) else float("inf")
