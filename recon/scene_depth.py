"""What is known of depth in a frame: the static render and the sensor, both in one camera, cached."""

from collections import OrderedDict
from typing import TypeVar

import numpy as np
from jaxtyping import Float, Float32

from geo import se3
from geo.cameras import PinholeCamera
from geo.depth import reproject_depth
from geo.recording import CanonicalRecording
from recon.align import PosePrior, aligned_pose
from recon.backend import CpuRenderer, Renderer
from recon.config import ReconstructConfig
from recon.errors import ReconError
from recon.records import Reconstruction, RenderedView
from recon.render import DepthSigma, render
from recon.sensor import SensorNoise, sensor_image
from recon.survey import small_camera
from recon.views import load_views

T = TypeVar("T")

DEFAULT_WIDTH_PX = 512
_ALIGN_WIDTH_PX = 256
_MODEL_SHARE = 0.8  # the part of static-minus-sensor that is put down to the static model


class SceneDepth:
    """Depth of any frame on demand, at the size of ``camera``. Keeps the last ``cache_frames`` of each kind.

    The same frame gives the same arrays whatever was asked before; returned arrays are read-only.
    """

    def __init__(
        self,
        canonical: CanonicalRecording,
        reconstruction: Reconstruction,
        camera: PinholeCamera | None = None,
        cache_frames: int = 16,
        *,
        sensor_tolerance_ms: float = 60.0,
        sensor_range_m: tuple[float, float] = (0.15, 8.0),
        renderer: Renderer | None = None,
        pose_prior: PosePrior | None = None,
    ) -> None:
        """Nothing is drawn yet.

        Args:
            canonical: The recording.
            reconstruction: Its static model; may be empty.
            camera: Target camera at the canonical view's place (usually the canonical camera resized); None takes
                the canonical camera at 512 px wide.
            cache_frames: Bound on kept frames.
            sensor_tolerance_ms: A depth image belongs to a frame if its time is within this.
            sensor_range_m: Sensor depth outside this is none.
            renderer: Who draws; None takes the CPU.
            pose_prior: How far given poses may be off: the static scene is drawn from where the frame's picture and
                depth fit it best. None draws from the given poses.

        Raises:
            ReconError: if ``cache_frames`` is below 1.
        """
        if cache_frames < 1:
            raise ReconError(f"cache_frames is {cache_frames}; at least one frame must be kept")
        self.canonical = canonical
        self.reconstruction = reconstruction
        self.camera = camera or small_camera(canonical.camera, DEFAULT_WIDTH_PX)
        self._cache_frames = cache_frames
        self._tolerance_ms = sensor_tolerance_ms
        self._range_m = sensor_range_m
        self._renderer = renderer
        self._prior = pose_prior
        self._static: OrderedDict[int, RenderedView] = OrderedDict()
        self._sensor: OrderedDict[int, Float32[np.ndarray, "h w"]] = OrderedDict()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of every picture in pixels."""
        return self.camera.size_wh_px

    @property
    def noise(self) -> SensorNoise:
        """Noise of the sensor: what the report measured between static and sensor depth, or the default."""
        report = self.reconstruction.report
        if np.isfinite(report.sensor_spread_floor_m) and np.isfinite(report.sensor_spread_per_m):
            return SensorNoise(max(report.sensor_spread_floor_m, 0.001), max(report.sensor_spread_per_m, 0.0005))
        return SensorNoise()

    def static(self, frame: int) -> RenderedView:
        """The static scene as this frame would see it; no depth anywhere without a pose or without a model."""
        self._check(frame)
        if frame not in self._static:
            _keep(self._static, frame, self._draw(frame), self._cache_frames)
        self._static.move_to_end(frame)
        return self._static[frame]

    def sensor(self, frame: int) -> Float32[np.ndarray, "h w"]:
        """Sensor depth of this moment as seen from the camera, along +z; NaN where there is none."""
        self._check(frame)
        if frame not in self._sensor:
            _keep(self._sensor, frame, self._reproject(frame), self._cache_frames)
        self._sensor.move_to_end(frame)
        return self._sensor[frame]

    def _check(self, frame: int) -> None:
        count = len(self.canonical.timestamps_ns)
        if not 0 <= frame < count:
            raise ReconError(f"frame {frame} does not exist: {self.canonical.recording_id} has frames 0 to {count - 1}")

    def _draw(self, frame: int) -> RenderedView:
        pose = self.canonical.world_from_camera[frame]
        if not np.isfinite(pose).all() or not len(self.reconstruction.model.means_in_world):
            return _read_only(_no_view(self.camera))
        pose = self._aligned(frame)
        sigma = DepthSigma(self.noise.floor_m * _MODEL_SHARE, self.noise.quadratic_per_m * _MODEL_SHARE)
        return _read_only(render(self.reconstruction.model, self.camera, pose, sigma=sigma, renderer=self._renderer))

    def _aligned(self, frame: int) -> Float[np.ndarray, "4 4"]:
        if self._prior is None or self._prior.exact:
            return np.asarray(self.canonical.world_from_camera[frame])
        config = ReconstructConfig(
            width_px=_ALIGN_WIDTH_PX,
            sensor_tolerance_ms=self._tolerance_ms,
            min_sensor_z_m=self._range_m[0],
            max_sensor_z_m=self._range_m[1],
        )
        view = load_views(self.canonical, [frame], self.reconstruction.dynamic, config)[0]
        renderer = self._renderer or CpuRenderer()
        return aligned_pose(view, self.reconstruction.model, self._prior, self.noise, renderer)

    def _reproject(self, frame: int) -> Float32[np.ndarray, "h w"]:
        found = sensor_image(self.canonical, frame, self._tolerance_ms, self._range_m)
        pose = self.canonical.world_from_camera[frame]
        sensor = self.canonical.sensor
        if found is None or sensor is None or not np.isfinite(pose).all():
            z = np.full((self.camera.height_px, self.camera.width_px), np.nan, dtype=np.float32)
        else:
            z = reproject_depth(found[0], sensor.camera, self.camera, se3.inverse(pose) @ found[1])
        z.setflags(write=False)
        return z


def _keep(cache: OrderedDict[int, T], frame: int, value: T, most: int) -> None:
    cache[frame] = value
    while len(cache) > most:
        cache.popitem(last=False)


def _no_view(camera: PinholeCamera) -> RenderedView:
    shape = (camera.height_px, camera.width_px)
    nan = np.full(shape, np.nan, dtype=np.float32)
    return RenderedView(np.zeros((*shape, 3), np.float32), np.zeros(shape, np.float32), nan, nan.copy(), nan.copy())


def _read_only(view: RenderedView) -> RenderedView:
    for array in (view.rgb, view.alpha, view.expected_z_m, view.median_z_m, view.sigma_z_m):
        array.setflags(write=False)
    return view
