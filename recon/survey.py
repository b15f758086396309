"""One pass over every frame: a small grey image, small sensor depth, sharpness. Feeds keyframes and masks."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, UInt8

from geo.cameras import PinholeCamera
from geo.recording import CanonicalRecording
from recon.config import ReconstructConfig
from recon.keyframes import Keyframes, places_seen, select_keyframes, sharpness
from recon.records import DynamicMasks
from recon.sensor import binned_sensor, has_sensor

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Survey:
    """Small pictures of every frame. ``z_depth_m`` is NaN where the sensor saw nothing or two surfaces."""

    camera: PinholeCamera
    gray: UInt8[np.ndarray, "N h w"]
    z_depth_m: Float32[np.ndarray, "N h w"]
    sharpness: Float[np.ndarray, "N"]


def small_camera(camera: PinholeCamera, width_px: int) -> PinholeCamera:
    """The camera at a width, height in proportion; never larger than it is."""
    width = min(width_px, camera.width_px)
    return camera.resized((width, max(1, round(camera.height_px * width / camera.width_px))))


def resize_area(
    image: UInt8[np.ndarray, "H W *channels"], size_wh_px: tuple[int, int]
) -> UInt8[np.ndarray, "h w *channels"]:
    """Shrink an image by averaging the area of each new pixel."""
    import cv2

    if (image.shape[1], image.shape[0]) == size_wh_px:
        return image
    out: UInt8[np.ndarray, "h w *channels"] = cv2.resize(image, size_wh_px, interpolation=cv2.INTER_AREA)
    return out


def survey(canonical: CanonicalRecording, config: ReconstructConfig, progress: Progress | None = None) -> Survey:
    """Read every frame once."""
    camera = small_camera(canonical.camera, config.dynamic_width_px)
    sharp_camera = small_camera(canonical.camera, config.width_px)
    count = len(canonical.timestamps_ns)
    gray = np.zeros((count, camera.height_px, camera.width_px), dtype=np.uint8)
    z = np.full(gray.shape, np.nan, dtype=np.float32)
    sharp = np.zeros(count)
    z_range = (config.min_sensor_z_m, config.max_sensor_z_m)
    for frame in range(count):
        image = resize_area(canonical.frames.read(frame), sharp_camera.size_wh_px)
        luma = (image.astype(np.uint16) @ np.array([77, 150, 29], dtype=np.uint16) >> 8).astype(np.uint8)
        sharp[frame] = sharpness(luma)
        gray[frame] = resize_area(luma, camera.size_wh_px)
        depth = binned_sensor(canonical, frame, camera, config.sensor_tolerance_ms, z_range)
        z[frame] = np.where(depth.mixed, np.nan, depth.z_depth_m)
        if progress is not None:
            progress(frame + 1, count, "survey")
    return Survey(camera, gray, z, sharp)


def choose_keyframes(
    canonical: CanonicalRecording, small: Survey, dynamic: DynamicMasks, config: ReconstructConfig
) -> Keyframes:
    """``select_keyframes`` for a surveyed recording; what its sensor sees counts if it has one."""
    poses = canonical.world_from_camera
    seen = places_seen(small.z_depth_m, small.camera, poses, dynamic) if has_sensor(canonical) else None
    return select_keyframes(poses, small.sharpness, config, seen=seen)
