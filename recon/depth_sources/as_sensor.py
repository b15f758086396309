"""Provided depth in the place of a sensor that a recording does not have."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float32

from geo.cameras import PinholeCamera
from geo.recording import CanonicalRecording, SensorDepth
from recon.depth_sources.align import Anchors, point_anchors
from recon.depth_sources.fill import ProvidedDepth, aligned, check_scale
from recon.depth_sources.records import DepthKind
from recon.errors import ReconError


@dataclass(frozen=True)
class ProvidedFrames:
    """Depth images as a sensor gives them, decoded or asked for when read; NaN everywhere where a frame was refused."""

    provided: ProvidedDepth
    canonical: CanonicalRecording
    frames: tuple[int, ...]
    camera: PinholeCamera

    def __len__(self) -> int:
        return len(self.frames)

    def read(self, index: int) -> Float32[np.ndarray, "H W"]:
        """Depth along +z; NaN where there is none.

        Raises:
            ReconError: the prediction has another size than the first one, or cannot be read.
        """
        frame = self.frames[index]
        source = self.provided.source
        prediction, what = source.prediction(frame), source.name(frame)
        own = prediction.camera_for(self.canonical.camera, what)
        if own != self.camera:
            raise ReconError(
                f"{what} is {own.width_px}x{own.height_px} px, that of the first frame "
                f"{self.camera.width_px}x{self.camera.height_px}; a sensor has one size"
            )
        check_scale(prediction.kind, self.canonical, what)
        anchors, points = Anchors(np.zeros((0, 2)), np.zeros(0)), self.provided.points_in_world
        if points is not None:
            anchors = point_anchors(points, self.canonical.world_from_camera[frame], own)
        return aligned(prediction, own, anchors, own, self.provided.rules).z_depth_m


def with_provided_sensor(canonical: CanonicalRecording, provided: ProvidedDepth) -> CanonicalRecording:
    """The recording with provided depth as its sensor: every later step treats it as measured.

    Metric depth is taken as it is (where scene points contradict it, a frame has none); affine depth is aligned to the
    scene points of each frame, and a frame without enough of them has none.

    Raises:
        ReconError: the recording has a sensor already; no frame has both a pose and a prediction; affine depth without
            scene points; metric depth for a recording whose scale is unknown.
    """
    if canonical.sensor is not None:
        raise ReconError(f"{canonical.recording_id} has a depth sensor; provided depth does not take its place")
    source = provided.source
    frames = tuple(frame for frame in np.flatnonzero(canonical.pose_valid).tolist() if source.has(frame))
    if not frames:
        raise ReconError(f"no frame of {canonical.recording_id} has both a pose and provided depth")
    first, what = source.prediction(frames[0]), source.name(frames[0])
    check_scale(first.kind, canonical, what)
    if first.kind is not DepthKind.METRIC and provided.points_in_world is None:
        raise ReconError(
            f"{what} is {first.kind}: without scene points it has no scale, so it cannot stand for a sensor. "
            "Give metric depth, or a recording with points."
        )
    camera = first.camera_for(canonical.camera, what)
    rows = np.array(frames, dtype=np.int64)
    images = ProvidedFrames(provided, canonical, frames, camera)
    sensor = SensorDepth(camera, canonical.timestamps_ns[rows], canonical.world_from_camera[rows], images)
    return replace(canonical, sensor=sensor)
