"""Records of a recording as read, and of its canonical (rectified) form."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int64, UInt8

from geo import se3
from geo.cameras import Camera, PinholeCamera
from geo.errors import RecordingError
from geo.nearest import nearest_row
from geo.trajectory import Trajectory
from geo.world import World


@runtime_checkable
class FrameSource(Protocol):
    """Images that are decoded when asked for. Random access works; rising order is fastest."""

    def __len__(self) -> int: ...

    def read(self, index: int) -> UInt8[np.ndarray, "H W 3"]:
        """RGB image of a frame."""
        ...


@runtime_checkable
class DepthSource(Protocol):
    """Depth images that are decoded when asked for."""

    def __len__(self) -> int: ...

    def read(self, index: int) -> Float[np.ndarray, "H W"]:
        """float32 depth along +z in metres (source units if not metric); NaN where there is none."""
        ...


@dataclass(frozen=True)
class CameraStream:
    """Pictures of one camera with their times."""

    name: str
    camera: Camera
    timestamps_ns: Int64[np.ndarray, "N"]
    reference_from_camera: Float[np.ndarray, "4 4"]
    frames: FrameSource
    audio_file: Path | None = None  # a container whose audio track belongs to these pictures
    audio_offset_ns: int = 0  # time after that container's first video frame that belongs to the first frame here
    source_frames: Int64[np.ndarray, "N"] | None = None  # frame numbers in the source; None: 0..N-1
    source_start_ns: int | None = None  # time of the source's first frame; None: the first frame here

    def source_frame_numbers(self) -> Int64[np.ndarray, "N"]:
        """Frame numbers that narrations and other notes on the source use; a slice keeps them."""
        return np.arange(len(self.timestamps_ns)) if self.source_frames is None else self.source_frames

    def start_ns(self) -> int:
        """Zero of the seconds that narrations use: the first frame of the source, also in a slice."""
        return int(self.timestamps_ns[0]) if self.source_start_ns is None else self.source_start_ns


@dataclass(frozen=True)
class DepthStream:
    """Depth images of one depth camera with their times."""

    name: str
    camera: PinholeCamera
    timestamps_ns: Int64[np.ndarray, "M"]
    reference_from_camera: Float[np.ndarray, "4 4"]
    frames: DepthSource


@dataclass(frozen=True)
class MissingFrames:
    """Stands in for pictures that a recording does not hold although their times are known: reading one says why."""

    count: int
    reason: str  # what is missing and what to do, one sentence

    def __len__(self) -> int:
        return self.count

    def read(self, index: int) -> UInt8[np.ndarray, "H W 3"]:
        """Never returns.

        Raises:
            RecordingError: always, with the reason.
        """
        raise RecordingError(f"picture {index} cannot be read: {self.reason}")


@dataclass(frozen=True)
class PickedFrames:
    """Some frames of a source, in rising order."""

    source: FrameSource
    indices: Sequence[int]

    def __len__(self) -> int:
        return len(self.indices)

    def read(self, index: int) -> UInt8[np.ndarray, "H W 3"]:
        """RGB image of a picked frame."""
        return self.source.read(self.indices[index])


@dataclass(frozen=True)
class ScenePoints:
    """Points of the static scene that SLAM or structure from motion measured (not dense)."""

    points_in_world: Float[np.ndarray, "P 3"]
    sigma_m: Float[np.ndarray, "P"]  # standard deviation of the distance, in the world's unit; NaN = not said
    colours: UInt8[np.ndarray, "P 3"] | None = None


def turned_points(points: ScenePoints | None, new_from_old: Float[np.ndarray, "4 4"]) -> ScenePoints | None:
    """Points in another world frame of the same scale."""
    if points is None:
        return None
    return replace(points, points_in_world=se3.transform_points(new_from_old, points.points_in_world))


@dataclass(frozen=True)
class GivenObject:
    """An object whose pose a data set gives (ADT, HOT3D): truth to compare with, never an input of the stages."""

    object_id: str  # as the data set has it
    label: str
    timestamps_ns: Int64[np.ndarray, "T"]  # rising; one row whatever its time if ``static``
    world_from_object: Float[np.ndarray, "T 4 4"]
    static: bool
    box_in_object: Float[np.ndarray, "2 3"] | None = None  # lower and upper corner, object axes
    mesh_file: Path | None = None  # metres, object axes

    def world_from_object_at(self, timestamp_ns: int, tolerance_ns: int) -> Float[np.ndarray, "4 4"] | None:
        """Pose nearest in time; None beyond the tolerance. A static object has its one pose at all times."""
        if self.static:
            return np.asarray(self.world_from_object[0])
        row = nearest_row(self.timestamps_ns, timestamp_ns, tolerance_ns)
        return None if row is None else np.asarray(self.world_from_object[row])


@dataclass(frozen=True)
class GazeTrack:
    """Where the wearer looks, in pixels of the camera that the holding record names; NaN = unknown."""

    timestamps_ns: Int64[np.ndarray, "G"]
    points_xy_px: Float[np.ndarray, "G 2"]
    depth_m: Float[np.ndarray, "G"]


HAND_TOLERANCE_NS = 60_000_000  # a hand seen this near in time is that of a frame


@dataclass(frozen=True)
class HandTrack:
    """One hand's 21 joints (0 wrist, then thumb to little finger, 4 each, tip last); NaN = not seen."""

    side: str  # "left" or "right"
    timestamps_ns: Int64[np.ndarray, "T"]
    joints_in_world: Float[np.ndarray, "T 21 3"]
    confidence: Float[np.ndarray, "T"]

    def joints_at(self, timestamp_ns: int, tolerance_ns: int = HAND_TOLERANCE_NS) -> Float[np.ndarray, "21 3"] | None:
        """Joints in world at the time nearest to this one (NaN: not seen); None beyond the tolerance."""
        row = nearest_row(self.timestamps_ns, timestamp_ns, tolerance_ns)
        return None if row is None else np.asarray(self.joints_in_world[row])


def turned_hands(hands: tuple[HandTrack, ...], new_from_old: Float[np.ndarray, "4 4"]) -> tuple[HandTrack, ...]:
    """Hands in another world frame."""
    return tuple(
        replace(hand, joints_in_world=se3.transform_points(new_from_old, hand.joints_in_world)) for hand in hands
    )


@dataclass(frozen=True)
class Recording:
    """A recording as a reader returns it: nothing decoded yet, conventions already ours."""

    recording_id: str
    reference: CameraStream
    depth: DepthStream | None
    trajectory: Trajectory  # world_from_reference
    world: World
    source_dir: Path
    format_name: str
    gaze: GazeTrack | None = None  # pixels of the reference camera's source image
    hands: tuple[HandTrack, ...] = ()
    narrations_file: Path | None = None
    input_files: tuple[Path, ...] = ()  # what the content depends on (for hashing)
    warnings: tuple[str, ...] = ()
    others: tuple[CameraStream, ...] = ()  # further picture cameras of the same rig and clock
    points: ScenePoints | None = None
    given_objects: tuple[GivenObject, ...] = ()
    # Undoes what the writer of the files says it did to an older world (a similarity); identity: it says nothing.
    original_from_source_world: Float[np.ndarray, "4 4"] = field(default_factory=lambda: np.eye(4))


def with_reference(recording: Recording, camera_name: str) -> Recording:
    """The same recording seen through another of its cameras: poses and depth stay, gaze is dropped with a warning.

    Raises:
        RecordingError: no such camera (the message names those that there are), or its place on the rig is unknown.
    """
    if camera_name == recording.reference.name:
        return recording
    streams = {stream.name: stream for stream in (recording.reference, *recording.others)}
    if camera_name not in streams:
        raise RecordingError(
            f"{recording.recording_id} has no camera {camera_name!r}; its cameras are {', '.join(streams)}"
        )
    chosen = streams.pop(camera_name)
    if not np.isfinite(chosen.reference_from_camera).all():
        raise RecordingError(
            f"{recording.recording_id}: camera {camera_name} has no known place on the rig of "
            f"{recording.reference.name}, so none of its pictures would have a pose; where it has poses of its own, "
            "make it the reference in the recording's manifest (docs/formats.md)"
        )
    note = f"gaze is left out: it is in pixels of camera {recording.reference.name}, and {camera_name} was chosen"
    warnings = recording.warnings if recording.gaze is None else (*recording.warnings, note)
    return replace(recording, reference=chosen, others=tuple(streams.values()), gaze=None, warnings=warnings)


@dataclass(frozen=True)
class SensorDepth:
    """Sensor depth with a pose for every image, kept in its own camera (never resampled here)."""

    camera: PinholeCamera
    timestamps_ns: Int64[np.ndarray, "M"]
    world_from_camera: Float[np.ndarray, "M 4 4"]  # NaN where unknown
    frames: DepthSource

    def nearest(self, timestamp_ns: int, tolerance_ns: int) -> int | None:
        """Index of the depth image nearest in time, or None beyond the tolerance or without a pose."""
        best = nearest_row(self.timestamps_ns, timestamp_ns, tolerance_ns)
        return best if best is not None and bool(np.isfinite(self.world_from_camera[best]).all()) else None


@dataclass(frozen=True)
class CanonicalRecording:
    """What rectification hands to every later stage: one pinhole video with a pose per frame.

    ``source_camera`` and ``canonical_from_source`` (a rotation: same optical centre) take points marked in
    the source image to the canonical one; see ``geo.rectify.source_to_canonical``.
    """

    recording_id: str
    camera: PinholeCamera
    timestamps_ns: Int64[np.ndarray, "N"]
    world_from_camera: Float[np.ndarray, "N 4 4"]  # NaN where no pose is known
    valid_mask: Bool[np.ndarray, "H W"]  # False: no source pixel here, for every frame
    frames: FrameSource
    world: World
    source_camera: Camera
    canonical_from_source: Float[np.ndarray, "3 3"]
    sensor: SensorDepth | None = None
    gaze: GazeTrack | None = None  # pixels of ``camera``
    hands: tuple[HandTrack, ...] = ()
    audio_file: Path | None = None
    warnings: tuple[str, ...] = field(default=())
    audio_offset_ns: int = 0  # see ``CameraStream``
    source_frames: Int64[np.ndarray, "N"] | None = None  # frame numbers in the source; None: 0..N-1
    source_start_ns: int | None = None  # zero of the narrations' seconds; None: the first frame
    original_from_source_world: Float[np.ndarray, "4 4"] = field(default_factory=lambda: np.eye(4))  # see ``Recording``
    points: ScenePoints | None = None

    def frame_of_source(self, source_frame: int) -> int | None:
        """Index of a source frame number (as narrations count them), or None if a slice left it out."""
        if self.source_frames is None:
            return source_frame if 0 <= source_frame < len(self.timestamps_ns) else None
        found = np.flatnonzero(self.source_frames == source_frame)
        return int(found[0]) if len(found) else None

    def start_ns(self) -> int:
        """Zero of the seconds that narrations use: the first frame of the source, also in a slice."""
        return int(self.timestamps_ns[0]) if self.source_start_ns is None else self.source_start_ns

    @property
    def pose_valid(self) -> Bool[np.ndarray, "N"]:
        """True for frames with a pose."""
        valid: Bool[np.ndarray, "N"] = np.isfinite(self.world_from_camera).all(axis=(1, 2))
        return valid
