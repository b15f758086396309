"""Pinhole with radial and tangential distortion (OpenCV's plain model, "radtan", Brown-Conrady)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from geo.cameras.distorted import DistortedCamera, check_count
from geo.cameras.plane import PlaneDistortion


@dataclass(frozen=True)
class RadTanCamera(DistortedCamera):
    """Coefficients k1 k2 p1 p2 [k3 [k4 k5 k6]] (4, 5 or 8 numbers, OpenCV's order).

    With x, y = X/Z, Y/Z and r = hypot(x, y):
    x_d = x (1 + k1 r^2 + k2 r^4 + k3 r^6) / (1 + k4 r^2 + k5 r^4 + k6 r^6) + 2 p1 x y + p2 (r^2 + 2 x^2), and y alike.

    Valid are points with z > 0 whose radius lies below the first turning point of the radial curve (and whose angle
    lies below ``valid_theta_rad``), as long as the whole distortion keeps its orientation there (FIELD R4).

    Source: OpenCV 4 documentation of ``calib3d``, "Detailed Description"; Brown (1966).
    """

    model = "OPENCV"

    def __post_init__(self) -> None:
        """Validate once, here."""
        check_count(self.model, self.distortion, (4, 5, 8), "k1 k2 p1 p2 [k3 [k4 k5 k6]]")
        super().__post_init__()

    @cached_property
    def _plane(self) -> PlaneDistortion:
        k1, k2, p1, p2, k3, k4, k5, k6 = [*self.distortion, *[0.0] * (8 - len(self.distortion))]
        narrow = self.valid_theta_rad is not None and self.valid_theta_rad < np.pi / 2
        return PlaneDistortion(
            numerator=(1.0, k1, k2, k3),
            denominator=(1.0, k4, k5, k6) if len(self.distortion) == 8 else (1.0,),
            tangential=(p2, p1),
            limit=float(np.tan(self.valid_theta_rad)) if narrow and self.valid_theta_rad else float("inf"),
        )

    def _turned_distortion(self) -> tuple[float, ...]:
        p2, p1 = self._plane.turned().tangential
        return (*self.distortion[:2], p1, p2, *self.distortion[4:])

    @property
    def _lens_limit_rad(self) -> float:
        return float(np.pi / 2)

    def _lens_scale(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        return np.asarray(1 / z)

    def _lens_slope(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        return np.asarray(1 + (rho / z) ** 2)

    def _lens_angle(self, radius: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        return np.asarray(np.arctan(radius))

    def _sees(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Bool[np.ndarray, "N"]:
        return np.asarray(z > 0)  # the rest is a matter of the radius, and so of the plane

    def _directions(self, x: Float[np.ndarray, "N"], y: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N 3"]:
        points = np.stack([x, y, np.ones_like(x)], axis=-1)
        return np.asarray(points / np.linalg.norm(points, axis=-1, keepdims=True))
