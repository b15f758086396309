"""Pinhole with radial and tangential distortion (OpenCV's plain model, "radtan", Brown-Conrady)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float
from numpy.polynomial.polynomial import polyval

from geo.cameras.base import Projection, Rays, first_positive_root
from geo.cameras.distorted import DistortedCamera, invert_monotone
from geo.errors import CameraError

_NEWTON_STEPS = 20
_RESIDUAL = 1e-11  # of normalised coordinates: far below 1e-6 px for any focal length


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
        if len(self.distortion) not in (4, 5, 8):
            raise CameraError(
                f"OPENCV has 4, 5 or 8 coefficients k1 k2 p1 p2 [k3 [k4 k5 k6]], got {len(self.distortion)}"
            )
        super().__post_init__()

    @cached_property
    def _coefficients(self) -> tuple[Float[np.ndarray, "4"], Float[np.ndarray, "4"], float, float]:
        """Numerator and denominator in powers of r^2, p1, p2."""
        k1, k2, p1, p2, k3, k4, k5, k6 = [*self.distortion, *[0.0] * (8 - len(self.distortion))]
        return np.array([1.0, k1, k2, k3]), np.array([1.0, k4, k5, k6]), p1, p2

    @cached_property
    def _max_radius(self) -> float:
        """Largest normalised radius r = tan(theta) that is valid; it may be infinite."""
        n, d, _, _ = self._coefficients
        odd = np.array([1.0, 3.0, 5.0, 7.0])
        even = 2 * np.arange(4.0)
        # d/dr (r n / d) = 0  <=>  (n + 2 s n') d - 2 s n d' = 0 with s = r^2; a pole of d comes no later than matters.
        turning = np.convolve(n * odd, d) - np.convolve(n, d * even)
        limits = [first_positive_root(turning), first_positive_root(d)]
        radius = float(np.sqrt(min(limits)))
        if self.valid_theta_rad is not None and self.valid_theta_rad < np.pi / 2:
            radius = min(radius, float(np.tan(self.valid_theta_rad)))
        return radius

    @property
    def max_theta_rad(self) -> float:
        """Arc tangent of the largest valid radius."""
        return float(np.arctan(self._max_radius))

    def _distort(
        self, x: Float[np.ndarray, "*batch"], y: Float[np.ndarray, "*batch"]
    ) -> tuple[Float[np.ndarray, "2 *batch"], Float[np.ndarray, "2 2 *batch"]]:
        """Distorted normalised coordinates and their Jacobian."""
        n, d, p1, p2 = self._coefficients
        s = x * x + y * y
        num = 1 + s * (n[1] + s * (n[2] + s * n[3]))
        den = 1 + s * (d[1] + s * (d[2] + s * d[3]))
        g = num / den
        dg = ((n[1] + s * (2 * n[2] + s * 3 * n[3])) - g * (d[1] + s * (2 * d[2] + s * 3 * d[3]))) / den  # dg / ds
        xd = x * g + 2 * p1 * x * y + p2 * (s + 2 * x * x)
        yd = y * g + p1 * (s + 2 * y * y) + 2 * p2 * x * y
        xx = g + 2 * x * x * dg + 2 * p1 * y + 6 * p2 * x
        yy = g + 2 * y * y * dg + 6 * p1 * y + 2 * p2 * x
        xy = 2 * x * y * dg + 2 * p1 * x + 2 * p2 * y
        return np.stack([xd, yd]), np.stack([np.stack([xx, xy]), np.stack([xy, yy])])

    def _valid(self, x: Float[np.ndarray, "*batch"], y: Float[np.ndarray, "*batch"]) -> Bool[np.ndarray, "*batch"]:
        """Where a normalised point lies in the region that the distortion maps one to one."""
        _, jacobian = self._distort(x, y)
        determinant = jacobian[0, 0] * jacobian[1, 1] - jacobian[0, 1] * jacobian[1, 0]
        return np.asarray((np.hypot(x, y) <= self._max_radius) & (determinant > 0))

    def project(self, points_in_camera: Float[np.ndarray, "*batch 3"]) -> Projection:
        """See ``Camera.project``; points with z <= 0 or outside the valid radius are invalid."""
        x, y, z = np.moveaxis(np.asarray(points_in_camera, dtype=np.float64), -1, 0)
        with np.errstate(all="ignore"):
            front = np.isfinite(x) & np.isfinite(y) & np.isfinite(z) & (z > 0)
            xn, yn = np.where(front, x / z, np.nan), np.where(front, y / z, np.nan)
            (xd, yd), _ = self._distort(xn, yn)
            valid = front & self._valid(xn, yn)
        u = np.where(valid, self.fx_px * xd + self.cx_px, np.nan)
        v = np.where(valid, self.fy_px * yd + self.cy_px, np.nan)
        return Projection(np.stack([u, v], axis=-1), np.asarray(valid))

    def unproject(self, pixels_xy: Float[np.ndarray, "*batch 2"]) -> Rays:
        """See ``Camera.unproject``: the radial curve inverted inside its valid region, then Newton in the plane."""
        pixels = np.asarray(pixels_xy, dtype=np.float64)
        target = np.stack(
            [((pixels[..., 0] - self.cx_px) / self.fx_px).ravel(), ((pixels[..., 1] - self.cy_px) / self.fy_px).ravel()]
        )
        x, y = self._radial_guess(target)
        with np.errstate(all="ignore"):
            active = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
            for _ in range(_NEWTON_STEPS):
                distorted, jacobian = self._distort(x[active], y[active])
                ex, ey = distorted - target[:, active]
                determinant = jacobian[0, 0] * jacobian[1, 1] - jacobian[0, 1] * jacobian[1, 0]
                dx = (jacobian[1, 1] * ex - jacobian[0, 1] * ey) / determinant
                dy = (jacobian[0, 0] * ey - jacobian[1, 0] * ex) / determinant
                x[active], y[active] = x[active] - dx, y[active] - dy
                active = active[np.hypot(dx, dy) > 1e-15 * (1 + np.hypot(x[active], y[active]))]
                if not len(active):
                    break
            distorted, _ = self._distort(x, y)
            scale = 1 + np.abs(target).max(axis=0)
            solved = np.abs(distorted - target).max(axis=0) <= _RESIDUAL * scale
            valid = (solved & self._valid(x, y)).reshape(pixels.shape[:-1])
        points = np.stack([x, y, np.ones_like(x)], axis=-1).reshape(*pixels.shape[:-1], 3)
        directions = points / np.linalg.norm(points, axis=-1, keepdims=True)
        return Rays(np.where(valid[..., None], directions, np.nan), valid)

    def _radial_guess(self, target: Float[np.ndarray, "2 N"]) -> tuple[Float[np.ndarray, "N"], Float[np.ndarray, "N"]]:
        """Invert the radial part alone; radii just beyond its top (tangential part) start at the top."""
        n, d, _, _ = self._coefficients
        radius_d = np.hypot(target[0], target[1])
        finite = radius_d[np.isfinite(radius_d)]
        r_max = self._max_radius
        if not np.isfinite(r_max):  # the curve rises for ever: bracket what is asked for
            top, r_max = float(finite.max(initial=0.0)), 1.0
            while r_max < 1e8 and r_max * polyval(r_max**2, n) / polyval(r_max**2, d) < top:
                r_max *= 2
        radius = invert_monotone(radius_d, n, r_max, d)
        radius = np.where(np.isfinite(radius) | ~np.isfinite(radius_d), radius, 0.98 * r_max)
        with np.errstate(invalid="ignore", divide="ignore"):
            scale = np.where(radius_d > 0, radius / radius_d, 1.0)
        return target[0] * scale, target[1] * scale
