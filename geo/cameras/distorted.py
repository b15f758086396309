"""What the models with a distortion share: four intrinsics, coefficients, limits, and the way from point to pixel."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float

from geo.cameras.base import (
    Camera,
    Projection,
    Rays,
    check_params,
    check_size,
    quarter_turn,
    resized_intrinsics,
)
from geo.cameras.pinhole import PinholeCamera
from geo.cameras.plane import Bent, PlaneDistortion
from geo.errors import CameraError

C = TypeVar("C", bound="DistortedCamera")  # the class itself: typing.Self is not understood by the shape checker


@dataclass(frozen=True)
class _Traced:
    """A point on its way to the pixel: on the ideal plane, and distorted."""

    rho: Float[np.ndarray, "N"]
    scale: Float[np.ndarray, "N"]
    bent: Bent
    valid: Bool[np.ndarray, "N"]


@dataclass(frozen=True)
class DistortedCamera(Camera):
    """fx, fy, cx, cy and a tuple of distortion coefficients; the model says what they mean.

    Every model is a lens that is the same all round its axis, R(theta) with theta = atan2(rho, z), rho = hypot(x, y),
    then (for some) a distortion inside the plane, then u = fx x_d + cx, v = fy y_d + cy. A model gives the lens by
    ``_lens_scale`` (R / rho), ``_lens_slope`` (dR / dtheta) and ``_lens_angle`` (its inverse).

    ``valid_theta_rad`` is the calibration's own limit on the angle from the optical axis, ``valid_radius`` its own
    limit on the distance from the principal point, hypot((u - cx) / fx, (v - cy) / fy), that is in focal lengths
    (None: none given). The first turning point of the curve limits the angle in any case.
    """

    width_px: int
    height_px: int
    fx_px: float
    fy_px: float
    cx_px: float
    cy_px: float
    distortion: tuple[float, ...]
    valid_theta_rad: float | None = None
    valid_radius: float | None = None

    def __post_init__(self) -> None:
        """Validate once, here."""
        check_size(self.width_px, self.height_px)
        check_params(self.model, self.params, self.valid_theta_rad, self.valid_radius)

    @property
    def params(self) -> Float[np.ndarray, "P"]:
        """fx, fy, cx, cy, then the coefficients."""
        return np.array([self.fx_px, self.fy_px, self.cx_px, self.cy_px, *self.distortion], dtype=np.float64)

    @property
    def undistorted(self) -> PinholeCamera:
        """The pinhole of the same size and principal point that shows the centre of the picture at the same scale."""
        with np.errstate(all="ignore"):
            scale = float(self._lens_scale(np.zeros(1), np.ones(1))[0])
        return PinholeCamera(
            self.width_px, self.height_px, self.fx_px * scale, self.fy_px * scale, self.cx_px, self.cy_px
        )

    @property
    def max_theta_rad(self) -> float:
        """The smallest of: the model's own limit, first turning point of the curve, ``valid_theta_rad``."""
        return self._max_theta_rad

    @cached_property
    def _max_theta_rad(self) -> float:
        limits = [self._lens_limit_rad, np.pi if self.valid_theta_rad is None else self.valid_theta_rad]
        if self._plane is not None and np.isfinite(self._plane.max_radius):
            with np.errstate(all="ignore"):
                angle = float(self._lens_angle(np.array([self._plane.max_radius]))[0])
            limits.append(angle if np.isfinite(angle) else np.pi)
        return float(min(limits))

    @cached_property
    def _plane(self) -> PlaneDistortion | None:
        """The distortion inside the plane, limited to what the lens reaches; None: there is none."""
        return None

    @property
    @abc.abstractmethod
    def _lens_limit_rad(self) -> float:
        """Largest angle of the lens alone: where its formula ends or its curve turns."""

    @abc.abstractmethod
    def _lens_scale(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        """R / rho: what takes (x, y) to the ideal plane; its limit where rho is 0."""

    @abc.abstractmethod
    def _lens_slope(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        """Slope dR / dtheta."""

    @abc.abstractmethod
    def _lens_angle(self, radius: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        """Angle theta for R inside the lens's limit, else NaN (or an angle beyond ``max_theta_rad``)."""

    def _lens_radius(self, theta_rad: float) -> float:
        """R of one angle."""
        sin, cos = np.sin(theta_rad), np.cos(theta_rad)
        with np.errstate(all="ignore"):
            return float(self._lens_scale(np.array([sin]), np.array([cos]))[0] * sin)

    def _sees(self, rho: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"]) -> Bool[np.ndarray, "N"]:
        """Where the lens sees a point, by its angle alone."""
        return np.asarray((np.arctan2(rho, z) <= self.max_theta_rad) & ((rho > 0) | (z > 0)))

    def _directions(self, x: Float[np.ndarray, "N"], y: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N 3"]:
        """Unit rays of points on the ideal plane; NaN beyond the limit."""
        radius = np.hypot(x, y)
        theta = self._lens_angle(radius)
        theta = np.where(theta <= self.max_theta_rad, theta, np.nan)
        scale = np.where(radius > 0, np.sin(theta) / radius, 1.0)
        return np.stack([x * scale, y * scale, np.cos(theta)], axis=-1)

    def _trace(
        self, x: Float[np.ndarray, "N"], y: Float[np.ndarray, "N"], z: Float[np.ndarray, "N"], with_slopes: bool
    ) -> _Traced:
        """From points to the distorted plane."""
        rho = np.hypot(x, y)
        seen = np.isfinite(rho) & np.isfinite(z) & self._sees(rho, z)
        scale = self._lens_scale(rho, z)
        bent = Bent(scale * x, scale * y, None, seen)
        if self._plane is not None:
            bent = self._plane.bend(bent.x, bent.y, with_slopes)
        valid = seen & bent.valid & np.isfinite(bent.x) & np.isfinite(bent.y)
        if self.valid_radius is not None:
            valid &= np.hypot(bent.x, bent.y) <= self.valid_radius
        return _Traced(rho, scale, bent, np.asarray(valid))

    def project(self, points_in_camera: Float[np.ndarray, "*batch 3"]) -> Projection:
        """See ``Camera.project``; invalid beyond the limits, straight back, and at the camera's centre."""
        points = np.asarray(points_in_camera, dtype=np.float64)
        with np.errstate(all="ignore"):
            x, y, z = points.reshape(-1, 3).T
            traced = self._trace(x, y, z, with_slopes=False)
            u = np.where(traced.valid, self.fx_px * traced.bent.x + self.cx_px, np.nan)
            v = np.where(traced.valid, self.fy_px * traced.bent.y + self.cy_px, np.nan)
        shape = points.shape[:-1]
        return Projection(np.stack([u, v], axis=-1).reshape(*shape, 2), np.asarray(traced.valid.reshape(shape)))

    def jacobian(self, points_in_camera: Float[np.ndarray, "*batch 3"]) -> Float[np.ndarray, "*batch 2 3"]:
        """See ``Camera.jacobian``: lens, then plane, then focal lengths, by the chain rule.

        With e = (x, y) / rho and d = |point|: dR/drho = R' z / d^2 and dR/dz = -R' rho / d^2; so the plane point m
        changes by (R / rho) I + e e^T (dR/drho - R / rho) with (x, y), and by e dR/dz with z.
        """
        points = np.asarray(points_in_camera, dtype=np.float64)
        x, y, z = points.reshape(-1, 3).T
        with np.errstate(all="ignore"):
            traced = self._trace(x, y, z, with_slopes=True)
            rho, scale = traced.rho, traced.scale
            distance = np.hypot(rho, z)
            slope = self._lens_slope(rho, z) / distance
            ex, ey = np.where(rho > 0, x / rho, 0.0), np.where(rho > 0, y / rho, 0.0)
            more, by_z = slope * (z / distance) - scale, -slope * (rho / distance)
            across = more * ex * ey
            rows = [[scale + more * ex * ex, across, by_z * ex], [across, scale + more * ey * ey, by_z * ey]]
            out = np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
            slopes = traced.bent.slopes
            if slopes is not None:
                plane = [[slopes.xx, slopes.xy], [slopes.yx, slopes.yy]]
                out = np.stack([np.stack(row, axis=-1) for row in plane], axis=-2) @ out
            out = out * np.array([self.fx_px, self.fy_px])[:, None]
        return np.where(traced.valid[:, None, None], out, np.nan).reshape(*points.shape[:-1], 2, 3)

    def unproject(self, pixels_xy: Float[np.ndarray, "*batch 2"]) -> Rays:
        """See ``Camera.unproject``; invalid for pixels that no valid ray reaches."""
        pixels = np.asarray(pixels_xy, dtype=np.float64)
        with np.errstate(all="ignore"):
            x = ((pixels[..., 0] - self.cx_px) / self.fx_px).ravel()
            y = ((pixels[..., 1] - self.cy_px) / self.fy_px).ravel()
            valid = np.isfinite(x) & np.isfinite(y)
            if self.valid_radius is not None:
                valid &= np.hypot(x, y) <= self.valid_radius
            if self._plane is not None:
                straight = self._plane.straighten(x, y)
                x, y, valid = straight.x, straight.y, valid & straight.valid
            directions = self._directions(x, y)
            valid &= np.isfinite(directions).all(axis=-1)
        directions = np.where(valid[:, None], directions, np.nan)
        return Rays(directions.reshape(*pixels.shape[:-1], 3), np.asarray(valid.reshape(pixels.shape[:-1])))

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

    def rotated90(self: C, turns_clockwise: int) -> tuple[C, Float[np.ndarray, "3 3"]]:
        """See ``Camera.rotated90``: intrinsics swap, c' = (H - 1 - cy, cx), and the plane's vectors turn."""
        camera = self
        for _ in range(turns_clockwise % 4):
            camera = replace(
                camera,
                width_px=camera.height_px,
                height_px=camera.width_px,
                fx_px=camera.fy_px,
                fy_px=camera.fx_px,
                cx_px=camera.height_px - 1 - camera.cy_px,
                cy_px=camera.cx_px,
                distortion=camera._turned_distortion(),
            )
        return camera, quarter_turn(turns_clockwise)

    def _turned_distortion(self) -> tuple[float, ...]:
        """The coefficients of the picture turned once clockwise; what acts on radii alone stays."""
        return self.distortion


def check_count(model: str, distortion: Sequence[float], counts: tuple[int, ...], names: str) -> None:
    """Refuse a wrong number of coefficients."""
    if len(distortion) not in counts:
        expected = f"{', '.join(str(c) for c in counts[:-1])} or {counts[-1]}" if len(counts) > 1 else str(counts[0])
        raise CameraError(f"{model} has {expected} coefficients {names}, got {len(distortion)}")
