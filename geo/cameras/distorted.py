"""What the models with a distortion curve share: four intrinsics, coefficients, a valid angle."""

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from jaxtyping import Float
from numpy.polynomial.polynomial import polyder, polyval

from geo.cameras.base import Camera, check_params, check_size, resized_intrinsics
from geo.cameras.pinhole import PinholeCamera

_MAX_STEPS = 60
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
    n = np.asarray(rising_coefficients, dtype=np.float64)
    d = np.ones(1) if denominator_coefficients is None else np.asarray(denominator_coefficients, dtype=np.float64)
    n_slope, d_slope = n * (2 * np.arange(len(n)) + 1), polyder(d)  # (x p)' = p + 2 s p'; q' by s

    def curve(x: Float[np.ndarray, "K"]) -> tuple[Float[np.ndarray, "K"], Float[np.ndarray, "K"]]:
        """Value and derivative."""
        s = x * x
        if len(d) == 1:
            return x * polyval(s, n), polyval(s, n_slope)
        p, q = polyval(s, n), polyval(s, d)
        return x * p / q, (polyval(s, n_slope) - 2 * s * p * polyval(s, d_slope) / q) / q

    top = float(curve(np.array([x_max]))[0][0])
    with np.errstate(invalid="ignore"):
        solvable = np.asarray((value >= 0) & (value <= top))
    out = np.where(solvable, 0.0, np.nan)
    active = np.flatnonzero(solvable)
    target = value[active]
    low, high = np.zeros_like(target), np.full_like(target, x_max)
    x = target / top * x_max if top > 0 else low
    for _ in range(_MAX_STEPS):
        f, slope = curve(x)
        error = f - target
        low, high = np.where(error <= 0, x, low), np.where(error >= 0, x, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = x - error / slope
        inside = np.isfinite(step) & (step >= low) & (step <= high)
        new = np.where(inside, step, 0.5 * (low + high))
        going = np.abs(new - x) > 4e-16 * (1 + np.abs(x))
        x = new
        if not going.all():
            out[active[~going]] = x[~going]
            active, target, low, high, x = active[going], target[going], low[going], high[going], x[going]
        if not len(active):
            break
    out[active] = x
    return out
