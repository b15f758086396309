"""Fisheyes with tangential and thin-prism terms: Project Aria's FISHEYE624 and COLMAP's THIN_PRISM_FISHEYE."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from geo.cameras.distorted import DistortedCamera, check_count
from geo.cameras.kannala_brandt import ThetaCurveCamera
from geo.cameras.plane import PlaneDistortion


@dataclass(frozen=True)
class Fisheye624Camera(ThetaCurveCamera):
    """Coefficients k0 ... k5, p0 p1, s0 s1 s2 s3 (12 numbers, Project Aria's order).

    R = theta (1 + k0 theta^2 + ... + k5 theta^12) along (x, y) gives m = (a, b); with s = a^2 + b^2:
    x_d = a + 2 (p0 a + p1 b) a + p0 s + s0 s + s1 s^2, y_d = b + 2 (p0 a + p1 b) b + p1 s + s2 s + s3 s^2.
    Tangential and prism terms thus see the point after the radial curve, and p0 p1 are OpenCV's p2 p1.

    Valid up to the curve's first turning point, the calibration's limits, and as far as the plane's part keeps its
    orientation; angles at and beyond 90 degrees are ordinary (projectaria-tools computes with atan(r / z) and has
    nothing to say there).

    Source: Project Aria's documentation, "camera intrinsic models", FisheyeRadTanThinPrism; COLMAP calls the same
    model RAD_TAN_THIN_PRISM_FISHEYE and keeps this order.
    """

    model = "FISHEYE624"

    def __post_init__(self) -> None:
        """Validate once, here."""
        check_count(self.model, self.distortion, (12,), "k0 k1 k2 k3 k4 k5 p0 p1 s0 s1 s2 s3")
        super().__post_init__()

    @property
    def _radial(self) -> tuple[float, ...]:
        return self.distortion[:6]

    @cached_property
    def _plane(self) -> PlaneDistortion:
        p0, p1, s0, s1, s2, s3 = self.distortion[6:]
        limit = self._turning_rad if self.valid_theta_rad is None else min(self._turning_rad, self.valid_theta_rad)
        return PlaneDistortion(
            tangential=(p0, p1), prism_x=(s0, s1), prism_y=(s2, s3), limit=self._lens_radius(limit) * (1 + 1e-15)
        )

    def _turned_distortion(self) -> tuple[float, ...]:
        turned = self._plane.turned()
        return (*self._radial, *turned.tangential, *turned.prism_x, *turned.prism_y)


@dataclass(frozen=True)
class ThinPrismFisheyeCamera(DistortedCamera):
    """Coefficients k1 k2 p1 p2 k3 k4 sx1 sy1 (8 numbers, COLMAP's order: k3 k4 come after p1 p2).

    (a, b) = theta (x, y) / hypot(x, y) with theta = atan2(hypot(x, y), z), s = a^2 + b^2:
    x_d = a (1 + k1 s + k2 s^2 + k3 s^3 + k4 s^4) + 2 p1 a b + p2 (s + 2 a^2) + sx1 s,
    y_d = b (1 + ...) + p1 (s + 2 b^2) + 2 p2 a b + sy1 s. All terms see the same (a, b), unlike FISHEYE624.

    Valid up to the radial curve's first turning point, the calibration's limits, and as far as the whole distortion
    keeps its orientation; angles at and beyond 90 degrees are ordinary, the ray straight back is never valid.

    Source: COLMAP's camera models, THIN_PRISM_FISHEYE; Weng, Cohen & Herniou (1992).
    """

    model = "THIN_PRISM_FISHEYE"

    def __post_init__(self) -> None:
        """Validate once, here."""
        check_count(self.model, self.distortion, (8,), "k1 k2 p1 p2 k3 k4 sx1 sy1")
        super().__post_init__()

    @cached_property
    def _plane(self) -> PlaneDistortion:
        k1, k2, p1, p2, k3, k4, sx1, sy1 = self.distortion
        return PlaneDistortion(
            numerator=(1.0, k1, k2, k3, k4),
            tangential=(p2, p1),
            prism_x=(sx1, 0.0),
            prism_y=(sy1, 0.0),
            limit=np.pi if self.valid_theta_rad is None else self.valid_theta_rad,
        )

    def _turned_distortion(self) -> tuple[float, ...]:
        k1, k2, _, _, k3, k4, _, _ = self.distortion
        turned = self._plane.turned()
        p2, p1 = turned.tangential
        return (k1, k2, p1, p2, k3, k4, turned.prism_x[0], turned.prism_y[0])

    @property
    def _lens_limit_rad(self) -> float:
        return float(np.pi)

    def _lens_scale(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        return np.where(rho > 0, np.arctan2(rho, z) / rho, 1 / z)

    def _lens_slope(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        return np.ones_like(rho)

    def _lens_angle(self, radius: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        return radius
