"""The Kannala-Brandt fisheye (KB3 of Project Aria, KB4 of Kalibr, OPENCV_FISHEYE): one model, three names."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from geo.cameras.base import Projection, Rays, check_size, first_positive_root
from geo.cameras.distorted import DistortedCamera, invert_monotone
from geo.errors import CameraError


@dataclass(frozen=True)
class KannalaBrandtCamera(DistortedCamera):
    """Fisheye with theta_d = theta + k1 theta^3 + k2 theta^5 + k3 theta^7 + k4 theta^9, u = fx theta_d x/r + cx.

    theta = atan2(r, z) with r = hypot(x, y): rays at and beyond 90 degrees are ordinary, up to the smaller of the
    curve's first turning point and ``valid_theta_rad``. The ray straight back is never valid.

    Source: Kannala & Brandt (2006), eq. 6; the four coefficients as OpenCV's ``fisheye`` and Kalibr's
    "equidistant" order them.
    """

    model = "KB4"

    def __post_init__(self) -> None:
        """Validate once, here."""
        if len(self.distortion) != 4:
            raise CameraError(f"KB4 has 4 coefficients k1 k2 k3 k4, got {len(self.distortion)}")
        check_size(self.width_px, self.height_px)
        super().__post_init__()

    @cached_property
    def _curve(self) -> Float[np.ndarray, "5"]:
        """Coefficients of theta_d / theta in powers of theta^2."""
        return np.array([1.0, *self.distortion])

    @cached_property
    def _max_theta_rad(self) -> float:
        turning = np.sqrt(first_positive_root(self._curve * np.array([1.0, 3.0, 5.0, 7.0, 9.0])))
        given = np.pi if self.valid_theta_rad is None else self.valid_theta_rad
        return float(min(turning, given, np.pi))

    @property
    def max_theta_rad(self) -> float:
        """The smallest of: first turning point of the curve, ``valid_theta_rad``, pi."""
        return self._max_theta_rad

    def project(self, points_in_camera: Float[np.ndarray, "*batch 3"]) -> Projection:
        """See ``Camera.project``; invalid beyond ``max_theta_rad``, straight back, and at the camera's centre."""
        x, y, z = np.moveaxis(np.asarray(points_in_camera, dtype=np.float64), -1, 0)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            r = np.hypot(x, y)
            theta = np.arctan2(r, z)
            valid = np.isfinite(r) & np.isfinite(z) & (theta <= self.max_theta_rad) & ((r > 0) | (z > 0))
            s = theta * theta
            k1, k2, k3, k4 = self.distortion
            theta_d = theta * (1 + s * (k1 + s * (k2 + s * (k3 + s * k4))))
            scale = np.where(r > 0, theta_d / r, 0.0)
            u = np.where(valid, self.fx_px * scale * x + self.cx_px, np.nan)
            v = np.where(valid, self.fy_px * scale * y + self.cy_px, np.nan)
        return Projection(np.stack([u, v], axis=-1), np.asarray(valid))

    def unproject(self, pixels_xy: Float[np.ndarray, "*batch 2"]) -> Rays:
        """See ``Camera.unproject``; invalid for radii that no valid angle reaches."""
        pixels = np.asarray(pixels_xy, dtype=np.float64)
        x, y = (pixels[..., 0] - self.cx_px) / self.fx_px, (pixels[..., 1] - self.cy_px) / self.fy_px
        theta_d = np.hypot(x, y)
        theta = invert_monotone(theta_d.ravel(), self._curve, self.max_theta_rad).reshape(theta_d.shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            scale = np.where(theta_d > 0, np.sin(theta) / theta_d, 1.0)
        directions = np.stack([x * scale, y * scale, np.cos(theta)], axis=-1)
        valid = np.isfinite(theta)
        return Rays(np.where(valid[..., None], directions, np.nan), np.asarray(valid))
