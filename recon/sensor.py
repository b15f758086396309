"""Sensor depth seen from another camera, and what its noise is assumed to be."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32

from geo import se3
from geo.cameras import PinholeCamera
from geo.recording import CanonicalRecording

_MERGE_SHARE = 0.03  # samples within 3 % of a pixel's nearest one belong to the same surface
_SAMPLES_A_SIDE = 2.0  # a denser sensor is thinned to about 2x2 samples a pixel
_MIXED_SHARE = 0.05  # a pixel whose samples spread further than this holds two surfaces


@dataclass(frozen=True)
class SensorNoise:
    """Standard deviation of one depth pixel: ``floor_m + quadratic_per_m * z^2`` (structured light, stereo)."""

    floor_m: float = 0.003
    quadratic_per_m: float = 0.003

    def sigma_m(self, z_depth_m: Float[np.ndarray, "*N"]) -> Float[np.ndarray, "*N"]:
        """Standard deviation at a depth; NaN stays NaN."""
        return np.asarray(self.floor_m + self.quadratic_per_m * np.square(z_depth_m))


@dataclass(frozen=True)
class BinnedDepth:
    """Depth averaged per pixel of a (coarser) camera; ``mixed`` pixels saw two surfaces, the nearer one counts."""

    z_depth_m: Float32[np.ndarray, "H W"]
    mixed: Bool[np.ndarray, "H W"]


def has_sensor(canonical: CanonicalRecording) -> bool:
    """True if there is a depth image at all."""
    return canonical.sensor is not None and len(canonical.sensor.timestamps_ns) > 0


def sensor_image(
    canonical: CanonicalRecording, frame: int, tolerance_ms: float, z_range_m: tuple[float, float]
) -> tuple[Float32[np.ndarray, "h w"], Float[np.ndarray, "4 4"]] | None:
    """The depth image that belongs to a frame and its pose, or None: no sensor, none near in time, no pose.

    Values outside ``z_range_m`` become NaN.
    """
    sensor = canonical.sensor
    if sensor is None:
        return None
    index = sensor.nearest(int(canonical.timestamps_ns[frame]), round(tolerance_ms * 1e6))
    if index is None:
        return None
    z = np.array(sensor.frames.read(index), dtype=np.float32)
    with np.errstate(invalid="ignore"):
        z[~((z >= z_range_m[0]) & (z <= z_range_m[1]))] = np.nan
    return z, sensor.world_from_camera[index]


def bin_depth(
    z_depth_m: Float[np.ndarray, "h w"],
    from_camera: PinholeCamera,
    to_camera: PinholeCamera,
    to_from_from: Float[np.ndarray, "4 4"],
) -> BinnedDepth:
    """Depth seen from a camera that is coarser than the sensor: per pixel the mean of its nearest surface's samples.

    Averaging (rather than keeping the nearest sample) does not lean to the near side under noise. Pixels that no
    sample falls on are NaN. ``to_from_from`` takes points in ``from_camera`` to points in ``to_camera``.
    """
    width, height = to_camera.size_wh_px
    stride = max(1, int(from_camera.fx_px / to_camera.fx_px / _SAMPLES_A_SIDE))
    rows, cols = np.mgrid[stride // 2 : z_depth_m.shape[0] : stride, stride // 2 : z_depth_m.shape[1] : stride]
    z_from = z_depth_m[rows, cols]
    seen = np.isfinite(z_from)
    rays = from_camera.normalised_points(np.stack([cols[seen], rows[seen]], axis=1).astype(np.float64))
    points = se3.transform_points(to_from_from, rays * z_from[seen][:, None].astype(np.float64))
    projected = to_camera.project(points)
    pixels = np.rint(np.where(projected.valid[:, None], projected.pixels_xy, -1.0)).astype(np.int64)
    inside = projected.valid & (pixels >= 0).all(axis=1) & (pixels[:, 0] < width) & (pixels[:, 1] < height)
    flat = pixels[inside, 1] * width + pixels[inside, 0]
    z = points[inside, 2]
    nearest, farthest = np.full(width * height, np.inf), np.zeros(width * height)
    np.minimum.at(nearest, flat, z)
    np.maximum.at(farthest, flat, z)
    front = z <= nearest[flat] * (1 + _MERGE_SHARE)
    count = np.bincount(flat[front], minlength=width * height)
    total = np.bincount(flat[front], weights=z[front], minlength=width * height)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(count > 0, total / count, np.nan)
    mixed = (count > 0) & (farthest > nearest * (1 + _MIXED_SHARE))
    return BinnedDepth(mean.reshape(height, width).astype(np.float32), mixed.reshape(height, width))


def binned_sensor(
    canonical: CanonicalRecording,
    frame: int,
    camera: PinholeCamera,
    tolerance_ms: float,
    z_range_m: tuple[float, float],
) -> BinnedDepth:
    """``bin_depth`` of the depth image that belongs to a frame; all NaN where there is none or no pose."""
    none = np.full((camera.height_px, camera.width_px), np.nan, dtype=np.float32)
    found = sensor_image(canonical, frame, tolerance_ms, z_range_m)
    if found is None or canonical.sensor is None or not np.isfinite(canonical.world_from_camera[frame]).all():
        return BinnedDepth(none, np.zeros(none.shape, dtype=bool))
    z, world_from_sensor = found
    camera_from_sensor = se3.inverse(canonical.world_from_camera[frame]) @ world_from_sensor
    return bin_depth(z, canonical.sensor.camera, camera, camera_from_sensor)
