"""The ideal pinhole camera."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from geo.cameras.base import Camera, Projection, Rays, check_params, check_size, quarter_turn, resized_intrinsics


@dataclass(frozen=True)
class PinholeCamera(Camera):
    """Ideal pinhole: u = fx x/z + skew y/z + cx, v = fy y/z + cy (Hartley & Zisserman 2004, eq. 6.9)."""

    width_px: int
    height_px: int
    fx_px: float
    fy_px: float
    cx_px: float
    cy_px: float
    skew_px: float = 0.0
    model = "PINHOLE"

    def __post_init__(self) -> None:
        """Validate once, here."""
        check_size(self.width_px, self.height_px)
        check_params(self.model, self.params)

    @property
    def params(self) -> Float[np.ndarray, "P"]:
        """fx, fy, cx, cy, and skew only where it is not zero."""
        values = [self.fx_px, self.fy_px, self.cx_px, self.cy_px]
        return np.array([*values, self.skew_px] if self.skew_px else values, dtype=np.float64)

    @property
    def matrix(self) -> Float[np.ndarray, "3 3"]:
        """The calibration matrix K (pixel centres at whole numbers)."""
        return np.array(
            [[self.fx_px, self.skew_px, self.cx_px], [0.0, self.fy_px, self.cy_px], [0.0, 0.0, 1.0]], dtype=np.float64
        )

    def project(self, points_in_camera: Float[np.ndarray, "*batch 3"]) -> Projection:
        """See ``Camera.project``; points with z <= 0 are invalid."""
        x, y, z = np.moveaxis(np.asarray(points_in_camera, dtype=np.float64), -1, 0)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            valid = np.isfinite(x) & np.isfinite(y) & np.isfinite(z) & (z > 0)
            valid = valid & np.isfinite(x / z) & np.isfinite(y / z)
            xn, yn = np.where(valid, x / z, np.nan), np.where(valid, y / z, np.nan)
        u = self.fx_px * xn + self.skew_px * yn + self.cx_px
        v = self.fy_px * yn + self.cy_px
        return Projection(np.stack([u, v], axis=-1), np.asarray(valid))

    def unproject(self, pixels_xy: Float[np.ndarray, "*batch 2"]) -> Rays:
        """See ``Camera.unproject``; every finite pixel has a ray."""
        points = self.normalised_points(pixels_xy)
        with np.errstate(invalid="ignore", over="ignore"):
            norm = np.linalg.norm(points, axis=-1, keepdims=True)
            valid = np.isfinite(norm)
            return Rays(np.where(valid, points / norm, np.nan), np.asarray(valid[..., 0]))

    def jacobian(self, points_in_camera: Float[np.ndarray, "*batch 3"]) -> Float[np.ndarray, "*batch 2 3"]:
        """See ``Camera.jacobian``."""
        points = np.asarray(points_in_camera, dtype=np.float64)
        x, y, z = np.moveaxis(points, -1, 0)
        with np.errstate(all="ignore"):
            valid = np.isfinite(x) & np.isfinite(y) & np.isfinite(z) & (z > 0)
            valid = valid & np.isfinite(x / z) & np.isfinite(y / z)
            near = np.where(valid, 1 / z, np.nan)
            xn, yn = x * near, y * near
            out = np.zeros((*z.shape, 2, 3))
            out[..., 0, 0], out[..., 0, 1] = self.fx_px * near, self.skew_px * near
            out[..., 0, 2] = -(self.fx_px * xn + self.skew_px * yn) * near
            out[..., 1, 1], out[..., 1, 2] = self.fy_px * near, -self.fy_px * yn * near
        return np.where(valid[..., None, None], out, np.nan)

    def normalised_points(self, pixels_xy: Float[np.ndarray, "*batch 2"]) -> Float[np.ndarray, "*batch 3"]:
        """Points on the plane z = 1: multiply by z-depth to get points in the camera frame."""
        pixels = np.asarray(pixels_xy, dtype=np.float64)
        y = (pixels[..., 1] - self.cy_px) / self.fy_px
        x = (pixels[..., 0] - self.cx_px - self.skew_px * y) / self.fx_px
        return np.stack([x, y, np.ones_like(x)], axis=-1)

    def resized(self, size_wh_px: tuple[int, int]) -> "PinholeCamera":
        """Index convention: cx' = s (cx + 0.5) - 0.5 with s = new size / old size, per axis."""
        k = resized_intrinsics(self, size_wh_px)
        width, height = size_wh_px
        return replace(
            self,
            width_px=width,
            height_px=height,
            fx_px=k.fx_px,
            fy_px=k.fy_px,
            cx_px=k.cx_px,
            cy_px=k.cy_px,
            skew_px=self.skew_px * width / self.width_px,
        )

    def cropped(self, x0_px: int, y0_px: int, size_wh_px: tuple[int, int]) -> "PinholeCamera":
        """Shift the principal point; the focal length stays."""
        width, height = size_wh_px
        return replace(self, width_px=width, height_px=height, cx_px=self.cx_px - x0_px, cy_px=self.cy_px - y0_px)

    def rotated90(self, turns_clockwise: int) -> tuple["PinholeCamera", Float[np.ndarray, "3 3"]]:
        """See ``Camera.rotated90``. With skew the rotation is not a plain quarter turn.

        The turned picture shears along its other axis, which K cannot say. Its 2x2 part is therefore split into an
        upper triangle times a small rotation about z (RQ decomposition), and that rotation joins the quarter turn.
        """
        camera, turned_from_camera = self, np.eye(3)
        for _ in range(turns_clockwise % 4):
            shear = np.hypot(camera.skew_px, camera.fx_px)
            cos, sin = camera.fx_px / shear, -camera.skew_px / shear
            about_z = np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])
            turned_from_camera = about_z @ quarter_turn(1) @ turned_from_camera
            camera = replace(
                camera,
                width_px=camera.height_px,
                height_px=camera.width_px,
                fx_px=camera.fy_px * cos,
                fy_px=shear,
                cx_px=camera.height_px - 1 - camera.cy_px,
                cy_px=camera.cx_px,
                skew_px=camera.fy_px * sin,
            )
        return camera, turned_from_camera
