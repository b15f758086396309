"""The Kannala-Brandt fisheye (KB3 of Project Aria, KB4 of Kalibr, OPENCV_FISHEYE): one model, three names."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy.polynomial.polynomial import polyval

from geo.cameras.base import first_positive_root
from geo.cameras.curve import invert_monotone
from geo.cameras.distorted import DistortedCamera, check_count


@dataclass(frozen=True)
class ThetaCurveCamera(DistortedCamera):
    """A lens with R = theta (1 + k1 theta^2 + k2 theta^4 + ...), theta = atan2(hypot(x, y), z).

    Rays at and beyond 90 degrees are ordinary, up to the smaller of the curve's first turning point and
    ``valid_theta_rad``. The ray straight back is never valid.
    """

    @property
    def _radial(self) -> tuple[float, ...]:
        """k1, k2, ..."""
        return self.distortion

    @cached_property
    def _curve(self) -> Float[np.ndarray, "K"]:
        """Coefficients of R / theta in rising powers of theta^2."""
        return np.array([1.0, *self._radial])

    @cached_property
    def _curve_slope(self) -> Float[np.ndarray, "K"]:
        """Coefficients of dR / dtheta in rising powers of theta^2."""
        return np.asarray(self._curve * (2 * np.arange(len(self._curve)) + 1))

    @cached_property
    def _turning_rad(self) -> float:
        return float(min(np.sqrt(first_positive_root(self._curve_slope)), np.pi))

    @property
    def _lens_limit_rad(self) -> float:
        return self._turning_rad

    def _lens_scale(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        theta = np.arctan2(rho, z)
        return np.where(rho > 0, theta * polyval(theta * theta, self._curve) / rho, 1 / z)

    def _lens_slope(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        theta = np.arctan2(rho, z)
        return np.asarray(polyval(theta * theta, self._curve_slope))

    def _lens_angle(self, radius: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        limit = self._turning_rad if self.valid_theta_rad is None else min(self._turning_rad, self.valid_theta_rad)
        return invert_monotone(radius.ravel(), self._curve, limit).reshape(radius.shape)


@dataclass(frozen=True)
class KannalaBrandtCamera(ThetaCurveCamera):
    """Fisheye with theta_d = theta + k1 theta^3 + k2 theta^5 + k3 theta^7 + k4 theta^9, u = fx theta_d x/r + cx.

    See ``ThetaCurveCamera`` for the valid region.

    Source: Kannala & Brandt (2006), eq. 6; the four coefficients as OpenCV's ``fisheye`` and Kalibr's
    "equidistant" order them.
    """

    model = "KB4"

    def __post_init__(self) -> None:
        """Validate once, here."""
        check_count(self.model, self.distortion, (4,), "k1 k2 k3 k4")
        super().__post_init__()
