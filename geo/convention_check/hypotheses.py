"""Readings that look alike: each changes a recording as if its files had been read the other way.

Poses are changed in the frame of the files: the turn to +z up is taken off first and put on again. A file may hold the
poses of the rig, of the reference camera or of the depth camera; where these differ each is a reading of its own.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from geo import se3
from geo.cameras import Camera
from geo.convention_check.records import Hypothesis, Topic
from geo.depth import ray_to_z_depth
from geo.recording import CameraStream, DepthSource, DepthStream, Recording
from geo.trajectory import Trajectory

_FLIP_YZ = np.diag([1.0, -1.0, -1.0, 1.0])
UNITS = {
    1000.0: "depth is 1000 times larger (a unit of m read as mm)",
    0.001: "depth is 1000 times smaller (a unit of mm read as m)",
    5.0: "depth is 5 times larger (mm read with TUM's 5000 counts a metre)",
    0.2: "depth is 5 times smaller (TUM's 5000 counts a metre read as mm)",
    5000.0: "depth is 5000 times larger (a unit of m read with TUM's 5000 counts)",
    0.0002: "depth is 5000 times smaller (TUM's 5000 counts a metre read as m)",
}
PoseChange = Callable[[Float[np.ndarray, "N 4 4"]], Float[np.ndarray, "N 4 4"]]


def pose_hypotheses(recording: Recording) -> list[Hypothesis]:
    """Inverted poses, OpenGL axes, rolled quaternions; in the rig's frame and in those of the cameras."""
    changes: list[tuple[Topic, str, PoseChange]] = [
        (Topic.DIRECTION, "poses take the world to the camera (inverted)", se3.inverse),
        (Topic.AXES, "camera axes are OpenGL's (y up, z backward)", lambda poses: poses @ _FLIP_YZ),
        (Topic.QUATERNION, "quaternions are xyzw, read as wxyz", lambda poses: rolled_quaternions(poses, 1)),
        (Topic.QUATERNION, "quaternions are wxyz, read as xyzw", lambda poses: rolled_quaternions(poses, -1)),
    ]
    frames = _pose_frames(recording)
    return [
        Hypothesis(topic, name + (f", of {frame}" if len(frames) > 1 else ""), _changes_poses(change, offset))
        for topic, name, change in changes
        for frame, offset in frames.items()
    ]


def depth_hypotheses(recording: Recording) -> list[Hypothesis]:
    """Depth of the other kind and in other units; none without depth."""
    if recording.depth is None:
        return []
    along_ray = Hypothesis(
        Topic.DEPTH_KIND, "depth is the distance along the ray, read as z", lambda r: _changed_depth(r, RayReadAsZ)
    )
    along_z = Hypothesis(
        Topic.DEPTH_KIND, "depth is z, read as the distance along the ray", lambda r: _changed_depth(r, ZReadAsRay)
    )
    units = [Hypothesis(Topic.DEPTH_UNIT, name, _changes_unit(factor)) for factor, name in UNITS.items()]
    return [along_ray, along_z, *units]


def rolled_quaternions(poses: Float[np.ndarray, "N 4 4"], by: int) -> Float[np.ndarray, "N 4 4"]:
    """Poses whose (w, x, y, z) are moved on by so many places."""
    quat = np.roll(se3.quat_wxyz_from_rotation(poses[:, :3, :3]), by, axis=-1)
    return se3.from_rotation_translation(se3.rotation_from_quat_wxyz(quat), poses[:, :3, 3])


def shifted_principal_point(camera: Camera, by_px: float) -> Camera:
    """The same lens with its principal point moved along both axes."""
    assert any(item.name == "cx_px" for item in fields(camera))  # type: ignore[arg-type]
    held: Any = camera
    moved: Camera = replace(held, cx_px=held.cx_px + by_px, cy_px=held.cy_px + by_px)
    return moved


def exchanged(recording: Recording, video_of_camera: dict[str, str]) -> Recording:
    """Cameras keep calibration and place, and take the pictures of the stream named for them."""
    streams = {stream.name: stream for stream in (recording.reference, *recording.others)}

    def filled(stream: CameraStream) -> CameraStream:
        video = streams[video_of_camera.get(stream.name, stream.name)]
        return replace(stream, frames=video.frames, timestamps_ns=video.timestamps_ns)

    return replace(
        recording,
        reference=filled(recording.reference),
        others=tuple(filled(stream) for stream in recording.others),
    )


def _pose_frames(recording: Recording) -> dict[str, Float[np.ndarray, "4 4"]]:
    """Frames that a file's poses may speak of: reference_from_frame by name, each place once."""
    out = {"the rig": np.eye(4)}
    streams: list[CameraStream | DepthStream] = [recording.reference]
    streams += [] if recording.depth is None else [recording.depth]
    for stream in streams:
        if all(np.abs(stream.reference_from_camera - known).max() > 1e-6 for known in out.values()):
            out[f"camera {stream.name}"] = stream.reference_from_camera
    return out


def _changes_poses(change: PoseChange, rig_from_frame: Float[np.ndarray, "4 4"]) -> Callable[[Recording], Recording]:
    def apply(recording: Recording) -> Recording:
        source_world = recording.world.world_from_source_world
        poses = se3.inverse(source_world) @ recording.trajectory.world_from_body @ rig_from_frame
        changed = source_world @ change(poses) @ se3.inverse(rig_from_frame)
        known = np.isfinite(changed).all(axis=(1, 2))
        stamps = recording.trajectory.timestamps_ns
        return replace(recording, trajectory=Trajectory(stamps[known], changed[known]))

    return apply


@dataclass(frozen=True)
class _Changed:
    """Depth images with a change to every one."""

    frames: DepthSource
    camera: Camera

    def __len__(self) -> int:
        return len(self.frames)


class RayReadAsZ(_Changed):
    """Depth images whose numbers are distances along the rays."""

    def read(self, index: int) -> Float[np.ndarray, "H W"]:
        """float32, NaN for nothing."""
        return np.asarray(self.frames.read(index) * _cosine(self.camera), dtype=np.float32)


class ZReadAsRay(_Changed):
    """Depth images as they were before a reader took them for distances and made z of them."""

    def read(self, index: int) -> Float[np.ndarray, "H W"]:
        """float32, NaN for nothing."""
        return np.asarray(self.frames.read(index) / _cosine(self.camera), dtype=np.float32)


@lru_cache(maxsize=4)
def _cosine(camera: Camera) -> Float[np.ndarray, "H W"]:
    """Z of a unit distance along each pixel's ray."""
    return ray_to_z_depth(np.ones((camera.height_px, camera.width_px)), camera)


@dataclass(frozen=True)
class Scaled:
    """Depth images times a number."""

    frames: DepthSource
    factor: float

    def __len__(self) -> int:
        return len(self.frames)

    def read(self, index: int) -> Float[np.ndarray, "H W"]:
        """float32, NaN for nothing."""
        return np.asarray(self.frames.read(index) * self.factor, dtype=np.float32)


def _changed_depth(recording: Recording, change: type[RayReadAsZ] | type[ZReadAsRay]) -> Recording:
    if recording.depth is None:
        return recording
    return replace(
        recording, depth=replace(recording.depth, frames=change(recording.depth.frames, recording.depth.camera))
    )


def _changes_unit(factor: float) -> Callable[[Recording], Recording]:
    def apply(recording: Recording) -> Recording:
        if recording.depth is None:
            return recording
        return replace(recording, depth=replace(recording.depth, frames=_rescaled(recording.depth.frames, factor)))

    return apply


def _rescaled(frames: DepthSource, factor: float) -> DepthSource:
    """Read again from the raw numbers where that is possible: in a wrong unit all may lie beyond the largest depth."""
    coding = getattr(frames, "coding", None)
    if coding is None:
        return Scaled(frames, factor)
    again: Any = copy.copy(frames)
    again.coding = replace(coding, unit_m=coding.unit_m * factor)
    source: DepthSource = again
    return source
