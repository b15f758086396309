"""What the models with a distortion curve share: four intrinsics, coefficients, a valid angle."""

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from jaxtyping import Float
from numpy.polynomial.polynomial import polyder, polyval

from geo.cameras.base import Camera, check_params, check_size, resized_intrinsics
from geo.cameras.pinhole import PinholeCamera

C = TypeVar("C", bound="DistortedCamera")  # the class itself: typing.Self is not understood by the shape checker


@dataclass(frozen=True)
class DistortedCamera(Camera):
    """fx, fy, cx, cy and a tuple of distortion coefficients; the model says what they mean.

    ``valid_theta_rad`` is the calibration's own limit on the angle from the optical axis (None: none given); the
    first turning point of the curve limits the angle in any case.
    """

    width_px: int
    height_px: int
    fx_px: float
    fy_px: float
    cx_px: float
    cy_px: float
    distortion: tuple[float, ...]
    valid_theta_rad: float | None = None

    def __post_init__(self) -> None:
        """Validate once, here."""
        check_size(self.width_px, self.height_px)
        check_params(self.model, self.params, self.valid_theta_rad)

    @property
    def params(self) -> Float[np.ndarray, "P"]:
        """fx, fy, cx, cy, then the coefficients."""
        return np.array([self.fx_px, self.fy_px, self.cx_px, self.cy_px, *self.distortion], dtype=np.float64)

    @property
    def undistorted(self) -> PinholeCamera:
        """The pinhole of the same size, focal lengths and principal point."""
        return PinholeCamera(self.width_px, self.height_px, self.fx_px, self.fy_px, self.cx_px, self.cy_px)

    def resized(self: C, size_wh_px: tuple[int, int]) -> C:
        """See ``resized_intrinsics``; coefficients act on angles or normalised points and stay."""
        k = resized_intrinsics(self, size_wh_px)
        return replace(
            self,
            width_px=size_wh_px[0],
            height_px=size_wh_px[1],
            fx_px=k.fx_px,
            fy_px=k.fy_px,
            cx_px=k.cx_px,
            cy_px=k.cy_px,
        )

    def cropped(self: C, x0_px: int, y0_px: int, size_wh_px: tuple[int, int]) -> C:
        """Shift the principal point; everything else stays."""
        width, height = size_wh_px
        return replace(self, width_px=width, height_px=height, cx_px=self.cx_px - x0_px, cy_px=self.cy_px - y0_px)


def invert_monotone(
    value: Float[np.ndarray, "N"],
    rising_coefficients: Float[np.ndarray, "C"],
    x_max: float,
    denominator_coefficients: Float[np.ndarray, "D"] | None = None,
) -> Float[np.ndarray, "N"]:
    """Solve x p(x^2) / q(x^2) = value for x in [0, x_max], on which the left side rises; NaN beyond its range.

    Newton's steps, kept inside a bracket that shrinks with every step (so it cannot leave the valid region).
    """
    numerator = np.asarray(rising_coefficients, dtype=np.float64)
    denominator = np.ones(1) if denominator_coefficients is None else np.asarray(denominator_coefficients)

    def curve(x: Float[np.ndarray, "N"]) -> tuple[Float[np.ndarray, "N"], Float[np.ndarray, "N"]]:
        """Value and derivative."""
        s = x * x
        p, q = polyval(s, numerator), polyval(s, denominator)
        dp = polyval(s, polyder(numerator))
        dq = polyval(s, polyder(denominator))
        return x * p / q, (p + 2 * s * dp) / q - 2 * s * p * dq / (q * q)

    top = float(curve(np.array([x_max]))[0][0])
    with np.errstate(invalid="ignore"):
        solvable = (value >= 0) & (value <= top)
    target = np.where(solvable, value, 0.0)
    low, high = np.zeros_like(target), np.full_like(target, x_max)
    x = np.minimum(target, 0.5 * x_max) if top == 0 else target / top * x_max
    for _ in range(60):
        f, slope = curve(x)
        error = f - target
        low, high = np.where(error <= 0, x, low), np.where(error >= 0, x, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = x - error / slope
        inside = np.isfinite(step) & (step >= low) & (step <= high)
        new = np.where(inside, step, 0.5 * (low + high))
        done = np.abs(new - x).max(initial=0.0) <= 4e-16 * max(x_max, 1.0)
        x = new
        if done:
            break
    return np.where(solvable, x, np.nan)
