"""Training views: small pictures with their depth, weights and poses, loaded once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64, UInt8

from geo import se3
from geo.cameras import PinholeCamera
from geo.recording import CanonicalRecording
from recon.config import ReconstructConfig
from recon.records import DynamicMasks
from recon.renderer import Background
from recon.sensor import binned_sensor
from recon.survey import Progress, resize_area, small_camera


@dataclass(frozen=True)
class Landing:
    """Points that fall on a view's picture: which ones, on which pixel, how far along +z."""

    rows: Int64[np.ndarray, "M"]
    u: Int64[np.ndarray, "M"]
    v: Int64[np.ndarray, "M"]
    z: Float[np.ndarray, "M"]


@dataclass(frozen=True)
class View:
    """One view at one size. ``static``: pixels with a picture that nothing moving covers."""

    frame: int
    rgb: UInt8[np.ndarray, "H W 3"]
    z_depth_m: Float32[np.ndarray, "H W"]  # sensor, NaN: none, two surfaces, or moving
    static: Bool[np.ndarray, "H W"]
    camera: PinholeCamera
    world_from_camera: Float[np.ndarray, "4 4"]
    colour_share: float = 1.0  # below 1 for blurred pictures

    @property
    def camera_from_world(self) -> Float[np.ndarray, "4 4"]:
        """The inverse pose."""
        return se3.inverse(self.world_from_camera)

    def landing(self, points_in_world: Float[np.ndarray, "N 3"]) -> Landing:
        """Where points fall on the picture, nearest pixel; those beside or behind it are left out."""
        points = se3.transform_points(self.camera_from_world, points_in_world.astype(np.float64))
        projected = self.camera.project(points)
        rows = np.flatnonzero(projected.valid & self.camera.in_image(projected.pixels_xy))
        pixels = np.rint(projected.pixels_xy[rows]).astype(np.int64)
        u = np.clip(pixels[:, 0], 0, self.camera.width_px - 1)
        v = np.clip(pixels[:, 1], 0, self.camera.height_px - 1)
        return Landing(rows, u, v, points[rows, 2])

    def halved(self) -> "View":
        """The view at half the size: colours averaged, depth the mean of a block's nearest surface."""
        camera = small_camera(self.camera, max(1, self.camera.width_px // 2))
        size = camera.size_wh_px
        rows = np.minimum(np.arange(size[1]) * 2, self.camera.height_px - 1)
        cols = np.minimum(np.arange(size[0]) * 2, self.camera.width_px - 1)
        blocks, static = [], np.ones((size[1], size[0]), dtype=bool)
        for dv in (0, 1):
            for du in (0, 1):
                v, u = np.minimum(rows + dv, self.camera.height_px - 1), np.minimum(cols + du, self.camera.width_px - 1)
                blocks.append(self.z_depth_m[v][:, u])
                static &= self.static[v][:, u]
        stack = np.stack(blocks)
        nearest = np.fmin.reduce(stack)
        with np.errstate(invalid="ignore"):
            same = stack <= nearest * 1.03
        count = same.sum(axis=0)
        total = np.where(same, stack, 0.0).sum(axis=0)
        z = np.where(count > 0, total / np.maximum(count, 1), np.nan).astype(np.float32)
        mixed = np.fmax.reduce(stack) > nearest * 1.05
        z[mixed] = np.nan
        return replace(self, rgb=resize_area(self.rgb, size), z_depth_m=z, static=static, camera=camera)


def load_views(
    canonical: CanonicalRecording,
    frames: Sequence[int],
    dynamic: DynamicMasks,
    config: ReconstructConfig,
    progress: Progress | None = None,
) -> list[View]:
    """Read the named frames (each must have a pose)."""
    camera = small_camera(canonical.camera, config.width_px)
    valid = resize_area(
        np.repeat(canonical.valid_mask[:, :, None].astype(np.uint8) * 255, 3, axis=2), camera.size_wh_px
    )
    inside = valid[:, :, 0] >= 254
    z_range = (config.min_sensor_z_m, config.max_sensor_z_m)
    views = []
    for count, frame in enumerate(sorted(int(frame) for frame in frames)):
        rgb = resize_area(canonical.frames.read(frame), camera.size_wh_px)
        depth = binned_sensor(canonical, frame, camera, config.sensor_tolerance_ms, z_range)
        static = inside & ~dynamic.at(frame, camera.size_wh_px)
        z = np.where(depth.mixed | ~static, np.nan, depth.z_depth_m).astype(np.float32)
        views.append(View(frame, rgb, z, static, camera, canonical.world_from_camera[frame]))
        if progress is not None:
            progress(count + 1, len(frames), "views")
    return views


def mean_colour(views: Sequence[View]) -> Background:
    """Mean colour of the views' static pixels (0..1): what stands for what no splat covers; grey if there is none."""
    means = [view.rgb[view.static].mean(axis=0) / 255.0 for view in views if view.static.any()]
    red, green, blue = np.mean(means, axis=0).tolist() if means else (0.5, 0.5, 0.5)
    return (red, green, blue)
