"""The FOV (ATAN) model: one coefficient, the lens's own field of view."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from geo.cameras.distorted import DistortedCamera, check_count
from geo.errors import CameraError


@dataclass(frozen=True)
class FovCamera(DistortedCamera):
    """Coefficient omega in radians: r_d = atan(2 r tan(omega / 2)) / omega with r = hypot(x / z, y / z).

    Valid are points with z > 0 (the formula speaks of x / z), so pixels nearer the principal point than
    pi / (2 omega) focal lengths; the curve never turns. ``valid_theta_rad`` limits further. The exact formula is used
    for every omega (COLMAP goes over to a series below omega = 0.01).

    Source: Devernay & Faugeras (2001), "Straight lines have to be straight", the FOV model; COLMAP's FOV, PTAM's ATAN.
    """

    model = "FOV"

    def __post_init__(self) -> None:
        """Validate once, here."""
        check_count(self.model, self.distortion, (1,), "omega")
        super().__post_init__()
        if not 0 < abs(self.distortion[0]) < np.pi:
            raise CameraError(
                f"FOV: omega = {self.distortion[0]} must lie in (0, pi) radians; "
                "is it in degrees? Without distortion take PINHOLE"
            )

    @cached_property
    def _omega_and_stretch(self) -> tuple[float, float]:
        """Values of omega and 2 tan(omega / 2); the model is even in omega."""
        omega = abs(self.distortion[0])
        return omega, float(2 * np.tan(omega / 2))

    @property
    def _lens_limit_rad(self) -> float:
        return float(np.pi / 2)

    def _lens_scale(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        omega, stretch = self._omega_and_stretch
        return np.where(rho > 0, np.arctan2(stretch * rho, z) / (omega * rho), stretch / (omega * z))

    def _lens_slope(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        omega, stretch = self._omega_and_stretch
        distance = np.hypot(rho, z)
        return np.asarray(stretch / omega / ((z / distance) ** 2 + (stretch * rho / distance) ** 2))

    def _lens_angle(self, radius: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        omega, stretch = self._omega_and_stretch
        turned = omega * radius
        return np.where(turned < np.pi / 2, np.arctan2(np.sin(turned), stretch * np.cos(turned)), np.nan)

    def _sees(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Bool[np.ndarray, "N"]:
        return np.asarray((z > 0) & super()._sees(rho, z))
