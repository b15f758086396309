"""Models that look at a sphere or ellipsoid first: double sphere, extended unified (EUCM), and omni (Mei).

All three are two of these steps. Shift: the point on the unit sphere seen from xi behind its centre, at the angle
psi = atan2(rho, z + xi d), d = |point|; back again theta = psi + asin(xi sin psi). Unified: R = sin psi /
(alpha + (1 - alpha) cos psi), which is tan psi for alpha = 0.
"""

import abc
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from geo.cameras.distorted import DistortedCamera, check_count
from geo.cameras.plane import PlaneDistortion
from geo.errors import CameraError


def _unified_limit(alpha: float) -> float:
    """Largest psi: cos psi > -w with w = alpha / (1 - alpha) or its inverse, whichever is below 1.

    Up to alpha = 0.5, R grows without end on the way there; above, it turns there.

    Source: the conditions that Usenko et al. (2018) give for UCM, EUCM and double sphere.
    """
    return float(np.arccos(-(alpha / (1 - alpha) if alpha <= 0.5 else (1 - alpha) / alpha)))


def _unified_angle(radius: Float[np.ndarray, "N"], alpha: float) -> Float[np.ndarray, "N"]:
    """Angle psi of R, by R / tan psi = (1 - alpha^2 R^2) / (alpha sqrt(1 - (2 alpha - 1) R^2) + 1 - alpha); NaN beyond.

    Source: the unprojection of Usenko et al. (2018); R^2 <= 1 / (2 alpha - 1) for alpha > 0.5.
    """
    s = radius * radius
    depth = (1 - alpha * alpha * s) / (alpha * np.sqrt(1 - (2 * alpha - 1) * s) + 1 - alpha)
    return np.asarray(np.arctan2(radius, depth))


def _unified_slope(psi: Float[np.ndarray, "N"], alpha: float) -> Float[np.ndarray, "N"]:
    """Slope dR / dpsi."""
    cos = np.cos(psi)
    return np.asarray((alpha * cos + 1 - alpha) / (alpha + (1 - alpha) * cos) ** 2)


def _check_alpha(model: str, alpha: float) -> None:
    """Refuse alpha outside [0, 1]."""
    if not 0 <= alpha <= 1:
        raise CameraError(f"{model}: alpha = {alpha} must lie in [0, 1]; are the parameters in another order?")


@dataclass(frozen=True)
class _SphereCamera(DistortedCamera):
    """Shared parts. R depends on the direction alone, so sizes are divided out before anything is squared."""

    @abc.abstractmethod
    def _unit_scale(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        """R / rho for points about as far as 1; not positive outside the model's domain."""

    def _lens_scale(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        size = np.maximum(rho, np.abs(z))
        return np.asarray(self._unit_scale(rho / size, z / size) / size)

    def _sees(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Bool[np.ndarray, "N"]:
        return np.asarray(super()._sees(rho, z) & (self._lens_scale(rho, z) > 0))


@dataclass(frozen=True)
class _ShiftedCamera(_SphereCamera):
    """Shift by xi, then unified with ``_alpha``."""

    @property
    def _xi(self) -> float:
        return self.distortion[0]

    @property
    def _alpha(self) -> float:
        return 0.0

    @cached_property
    def _limits(self) -> tuple[float, float]:
        """Largest theta, and the R that it has.

        For xi > 1, psi itself turns at cos theta = -1 / xi; else theta follows psi all the way.
        """
        xi, psi = self._xi, _unified_limit(self._alpha)
        if xi > 1:
            return float(np.arccos(-1 / xi)), float(1 / np.sqrt(xi * xi - 1))
        return float(psi + np.arcsin(xi * np.sin(psi))), float("inf")

    @property
    def _lens_limit_rad(self) -> float:
        return self._limits[0]

    def _unit_scale(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        shifted = z + self._xi * np.hypot(rho, z)
        return np.asarray(1 / (self._alpha * np.hypot(rho, shifted) + (1 - self._alpha) * shifted))

    def _lens_slope(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        """R'(psi) times dpsi / dtheta = d (d + xi z) / (rho^2 + (z + xi d)^2)."""
        distance = np.hypot(rho, z)
        sin, cos = rho / distance, z / distance
        shifted = cos + self._xi
        psi_slope = (1 + self._xi * cos) / (sin * sin + shifted * shifted)
        return np.asarray(_unified_slope(np.arctan2(sin, shifted), self._alpha) * psi_slope)

    def _lens_angle(self, radius: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        psi = _unified_angle(radius, self._alpha)
        return np.asarray(psi + np.arcsin(self._xi * np.sin(psi)))


@dataclass(frozen=True)
class DoubleSphereCamera(_ShiftedCamera):
    """Coefficients xi, alpha: u = fx x / (alpha d2 + (1 - alpha) (xi d1 + z)) + cx, v alike.

    d1 = |point|, d2 = sqrt(x^2 + y^2 + (xi d1 + z)^2). Our order is fx fy cx cy xi alpha; Kalibr's ds writes
    xi alpha fu fv pu pv, which is its reader's business.

    Valid where z > -w2 d1 with w1 = alpha / (1 - alpha) (alpha <= 0.5) or (1 - alpha) / alpha, w2 = (w1 + xi) /
    sqrt(2 w1 xi + xi^2 + 1), and before the curve turns or its denominator ends. That w2 is not quite the turning
    point: for xi > -2 w1 it stops a degree or so short, below it comes too late, so the smaller angle counts. (The
    paper's condition on pixels, r^2 <= 1 / (2 alpha - 1) where alpha > 0.5, is the turning point itself, and wider.)
    xi in (-1, 1], alpha in [0, 1].

    Source: Usenko, Demmel & Cremers (2018), "The Double Sphere Camera Model", section on the model itself.
    """

    model = "DOUBLE_SPHERE"

    def __post_init__(self) -> None:
        """Validate once, here."""
        check_count(self.model, self.distortion, (2,), "xi alpha")
        super().__post_init__()
        _check_alpha(self.model, self._alpha)
        if not -1 < self._xi <= 1:
            raise CameraError(
                f"DOUBLE_SPHERE: xi = {self._xi} must lie in (-1, 1]; are xi and alpha in another order, or is it OMNI?"
            )

    @property
    def _alpha(self) -> float:
        return self.distortion[1]

    @property
    def _lens_limit_rad(self) -> float:
        xi, w1 = self._xi, -np.cos(_unified_limit(self._alpha))
        published = np.arctan2(np.sqrt(1 - w1 * w1), -(w1 + xi))  # cos = -w2
        return float(min(published, super()._lens_limit_rad))


@dataclass(frozen=True)
class EucmCamera(_SphereCamera):
    """Coefficients alpha, beta: u = fx x / (alpha d + (1 - alpha) z) + cx, v alike.

    d = sqrt(beta (x^2 + y^2) + z^2). COLMAP's EUCM has the same order; Kalibr's eucm writes alpha beta fu fv pu pv.

    Valid where z > -w d with w = alpha / (1 - alpha) (alpha <= 0.5) or (1 - alpha) / alpha; pixels with
    r^2 <= 1 / (beta (2 alpha - 1)) where alpha > 0.5. alpha in [0, 1], beta > 0.

    Source: Khomutenko, Garcia & Martinet (2016), "An Enhanced Unified Camera Model"; the conditions as in
    Usenko et al. (2018).
    """

    model = "EUCM"

    def __post_init__(self) -> None:
        """Validate once, here."""
        check_count(self.model, self.distortion, (2,), "alpha beta")
        super().__post_init__()
        _check_alpha(self.model, self.distortion[0])
        if not self.distortion[1] > 0:
            raise CameraError(f"EUCM: beta = {self.distortion[1]} must be positive; is it DOUBLE_SPHERE (xi alpha)?")

    @cached_property
    def _limit(self) -> float:
        psi = _unified_limit(self.distortion[0])
        return float(np.arctan2(np.sin(psi), np.sqrt(self.distortion[1]) * np.cos(psi)))

    @property
    def _lens_limit_rad(self) -> float:
        return self._limit

    def _unit_scale(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        alpha, beta = self.distortion
        return np.asarray(1 / (alpha * np.hypot(np.sqrt(beta) * rho, z) + (1 - alpha) * z))

    def _lens_slope(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        """With the denominator q at unit distance: dR/dtheta = (alpha z / d + 1 - alpha) / q^2."""
        alpha, beta = self.distortion
        distance = np.hypot(rho, z)
        sin, cos = rho / distance, z / distance
        far = np.hypot(np.sqrt(beta) * sin, cos)
        return np.asarray((alpha * cos / far + 1 - alpha) / (alpha * far + (1 - alpha) * cos) ** 2)

    def _lens_angle(self, radius: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        alpha, beta = self.distortion
        psi = _unified_angle(np.sqrt(beta) * radius, alpha)
        return np.asarray(np.arctan2(np.sin(psi), np.sqrt(beta) * np.cos(psi)))


@dataclass(frozen=True)
class OmniCamera(_ShiftedCamera):
    """Coefficients xi k1 k2 p1 p2: x, y = X / (Z + xi d), Y / (Z + xi d) with d = |point|, then radtan on (x, y).

    x_d = x (1 + k1 r^2 + k2 r^4) + 2 p1 x y + p2 (r^2 + 2 x^2), y alike (OpenCV's order of p1 p2, as in its
    ``omnidir``; Kalibr's omni writes xi fu fv pu pv, and k1 k2 p1 p2 apart). xi = 0 is OPENCV.

    Valid where z > -xi d (xi <= 1) or z > -d / xi (xi > 1: beyond, two rays share a pixel), below the first turning
    point of the radial curve, and as far as the distortion keeps its orientation. xi > -1.

    Source: Mei & Rives (2007), "Single View Point Omnidirectional Camera Calibration from Planar Grids", section II.
    """

    model = "OMNI"

    def __post_init__(self) -> None:
        """Validate once, here."""
        check_count(self.model, self.distortion, (5,), "xi k1 k2 p1 p2")
        super().__post_init__()
        if not self._xi > -1:
            raise CameraError(f"OMNI: xi = {self._xi} must lie above -1 (0 is a pinhole); is it DOUBLE_SPHERE?")

    @cached_property
    def _plane(self) -> PlaneDistortion:
        _, k1, k2, p1, p2 = self.distortion
        theta, radius = self._limits
        if self.valid_theta_rad is not None and self.valid_theta_rad < theta:
            radius = self._lens_radius(self.valid_theta_rad)
        return PlaneDistortion(numerator=(1.0, k1, k2), tangential=(p2, p1), limit=radius * (1 + 1e-15))

    def _turned_distortion(self) -> tuple[float, ...]:
        p2, p1 = self._plane.turned().tangential
        return (*self.distortion[:3], p1, p2)
