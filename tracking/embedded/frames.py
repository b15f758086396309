"""Frames as the embedded tracker wants them, in a cache of bounded size, and crops around an object."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, UInt8

from geo.cameras import PinholeCamera
from geo.recording import CanonicalRecording
from tracking.base import SceneDepthLike
from tracking.embedded._kernels import fill_depth


@dataclass(frozen=True)
class Roi:
    """A crop of the canonical image: [x0, x1) x [y0, y1) in canonical pixels, resized to ``size_wh``."""

    x0: int
    y0: int
    x1: int
    y1: int
    size_wh: tuple[int, int]

    @property
    def scale(self) -> float:
        """Crop pixels per canonical pixel (along x)."""
        return self.size_wh[0] / (self.x1 - self.x0)

    def to_roi(self, pixels_xy: Float[np.ndarray, "*batch 2"]) -> Float[np.ndarray, "*batch 2"]:
        """Canonical pixels to crop pixels (centre of the first pixel is 0 in both)."""
        factor = np.array([self.size_wh[0] / (self.x1 - self.x0), self.size_wh[1] / (self.y1 - self.y0)])
        return np.asarray((np.asarray(pixels_xy) - [self.x0, self.y0] + 0.5) * factor - 0.5)

    def from_roi(self, pixels_xy: Float[np.ndarray, "*batch 2"]) -> Float[np.ndarray, "*batch 2"]:
        """Crop pixels to canonical pixels."""
        factor = np.array([self.size_wh[0] / (self.x1 - self.x0), self.size_wh[1] / (self.y1 - self.y0)])
        return np.asarray((np.asarray(pixels_xy) + 0.5) / factor - 0.5 + [self.x0, self.y0])


def make_roi(
    center_xy: tuple[float, float], half_xy: tuple[float, float], image_wh: tuple[int, int], max_side_px: int
) -> Roi | None:
    """Crop around a centre, cut to the image, at most ``max_side_px`` a side; None if (nearly) outside."""
    x0, x1 = max(0, int(np.floor(center_xy[0] - half_xy[0]))), min(image_wh[0], int(np.ceil(center_xy[0] + half_xy[0])))
    y0, y1 = max(0, int(np.floor(center_xy[1] - half_xy[1]))), min(image_wh[1], int(np.ceil(center_xy[1] + half_xy[1])))
    if x1 - x0 < 3 or y1 - y0 < 3:
        return None
    scale = min(1.0, max_side_px / max(x1 - x0, y1 - y0))
    size = max(3, round((x1 - x0) * scale)), max(3, round((y1 - y0) * scale))
    return Roi(x0, y0, x1, y1, size)


@dataclass(frozen=True)
class Crop:
    """What is known of a frame inside a crop; depths are NaN where there is none."""

    roi: Roi
    rgb: UInt8[np.ndarray, "h w 3"]
    features: Float32[np.ndarray, "h w 3"]
    z_m: Float32[np.ndarray, "h w"]  # narrow holes filled from the pixel that looks most alike
    measured: Bool[np.ndarray, "h w"]  # where the sensor itself saw
    camera: PinholeCamera
    valid: Bool[np.ndarray, "h w"]
    on_hand: Bool[np.ndarray, "h w"] | None = None  # where a known hand is in front; None: no hand near

    @property
    def size_hw(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.rgb.shape[0], self.rgb.shape[1]


def colour_features(rgb: UInt8[np.ndarray, "*batch 3"]) -> Float32[np.ndarray, "*batch 3"]:
    """Log brightness and two log ratios: a change of exposure moves the first only."""
    logs = np.log(np.asarray(rgb, np.float32) + 10.0)
    bright = logs.mean(axis=-1)
    return np.stack([bright, logs[..., 0] - logs[..., 1], logs[..., 2] - logs[..., 1]], axis=-1)


class FrameStore:
    """Decoded pictures and depth images, least recently used first out; bytes held are bounded."""

    def __init__(
        self, canonical: CanonicalRecording, scene_depth: SceneDepthLike | None, cache_bytes: int, flow_width_px: int
    ) -> None:
        self.canonical = canonical
        self.scene_depth = scene_depth
        self.flow_width_px = flow_width_px
        self._limit = cache_bytes
        self._held = 0
        self._cache: OrderedDict[tuple[str, int, int], np.ndarray] = OrderedDict()
        self._dis: object | None = None

    @property
    def image_wh(self) -> tuple[int, int]:
        """Size of the canonical picture."""
        return self.canonical.camera.size_wh_px

    def _get(self, key: tuple[str, int, int], make: Callable[[], np.ndarray]) -> np.ndarray:
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        value = make()
        self._cache[key] = value
        self._held += value.nbytes
        while self._held > self._limit and len(self._cache) > 1:
            self._held -= self._cache.popitem(last=False)[1].nbytes
        return value

    def pose(self, frame: int) -> Float[np.ndarray, "4 4"] | None:
        """world_from_camera, or None where it is unknown."""
        pose = self.canonical.world_from_camera[frame]
        return pose if np.isfinite(pose).all() else None

    def rgb(self, frame: int) -> UInt8[np.ndarray, "H W 3"]:
        """The canonical picture."""
        return self._get(("rgb", frame, 0), lambda: np.asarray(self.canonical.frames.read(frame)))

    def sensor(self, frame: int) -> Float32[np.ndarray, "h w"] | None:
        """Sensor depth at the depth camera's size; None without any depth."""
        depth = self.scene_depth
        if depth is None or self.pose(frame) is None:
            return None
        return self._get(("sensor", frame, 0), lambda: np.asarray(depth.sensor(frame), np.float32))

    def static(self, frame: int) -> Float32[np.ndarray, "h w"] | None:
        """Depth of the static scene; None without any depth or pose."""
        depth = self.scene_depth
        if depth is None or self.pose(frame) is None:
            return None
        return self._get(("static", frame, 0), lambda: np.asarray(depth.static(frame).median_z_m, np.float32))

    def small_grey(self, frame: int) -> UInt8[np.ndarray, "h w"]:
        """Grey picture at the size that flow is computed at."""
        import cv2

        def make() -> np.ndarray:
            grey = cv2.cvtColor(self.rgb(frame), cv2.COLOR_RGB2GRAY)
            scale = min(1.0, self.flow_width_px / max(grey.shape))
            size = max(16, round(grey.shape[1] * scale)), max(16, round(grey.shape[0] * scale))
            return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA) if scale < 1 else grey)

        return self._get(("grey", frame, 0), make)

    def flow(self, frame: int, other: int) -> Float32[np.ndarray, "h w 2"]:
        """Dense flow from ``frame`` to ``other`` in pixels of the small picture (DIS, Kroeger et al. 2016)."""
        import cv2

        def make() -> np.ndarray:
            dis = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_FAST)
            return np.asarray(dis.calc(self.small_grey(frame), self.small_grey(other), None), np.float16)

        return np.asarray(self._get(("flow", frame, other), make), np.float32)

    def sample_depth(self, image: Float32[np.ndarray, "h w"], roi: Roi) -> Float32[np.ndarray, "H W"]:
        """Nearest depth pixel under each crop pixel; NaN outside the depth image."""
        assert self.scene_depth is not None
        camera, full = self.scene_depth.camera, self.canonical.camera
        width, height = roi.size_wh
        xs = roi.from_roi(np.stack([np.arange(width), np.zeros(width)], axis=-1))[:, 0]
        ys = roi.from_roi(np.stack([np.zeros(height), np.arange(height)], axis=-1))[:, 1]
        u = np.rint((xs - full.cx_px) / full.fx_px * camera.fx_px + camera.cx_px).astype(int)
        v = np.rint((ys - full.cy_px) / full.fy_px * camera.fy_px + camera.cy_px).astype(int)
        out = np.full((height, width), np.nan, np.float32)
        ok_u, ok_v = (u >= 0) & (u < image.shape[1]), (v >= 0) & (v < image.shape[0])
        out[np.ix_(ok_v, ok_u)] = image[np.ix_(v[ok_v], u[ok_u])]
        return out

    def crop(self, frame: int, roi: Roi) -> Crop:
        """Everything known of a frame inside a crop."""
        import cv2

        def cut(image: np.ndarray, method: int) -> np.ndarray:
            part = image[roi.y0 : roi.y1, roi.x0 : roi.x1]
            same = (part.shape[1], part.shape[0]) == roi.size_wh
            return (
                np.ascontiguousarray(part) if same else np.asarray(cv2.resize(part, roi.size_wh, interpolation=method))
            )

        rgb = cut(self.rgb(frame), cv2.INTER_AREA)
        valid = cut(self.canonical.valid_mask.astype(np.uint8), cv2.INTER_NEAREST) > 0
        sensor = self.sensor(frame)
        z_m = np.full(rgb.shape[:2], np.nan, np.float32) if sensor is None else self.sample_depth(sensor, roi)
        measured = np.isfinite(z_m)
        features = colour_features(rgb)
        if measured.any() and not measured.all():
            z_m = fill_depth(z_m, features)
        camera = self.canonical.camera.cropped(roi.x0, roi.y0, (roi.x1 - roi.x0, roi.y1 - roi.y0)).resized(roi.size_wh)
        return Crop(roi, rgb, features, z_m, measured, camera, valid)

    def static_crop(self, frame: int, roi: Roi) -> Float32[np.ndarray, "h w"] | None:
        """Depth of the static scene inside a crop."""
        image = self.static(frame)
        return None if image is None else self.sample_depth(image, roi)
