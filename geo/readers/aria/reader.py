"""A folder with an Aria VRS file and MPS output (``mps`` or beside it) as a recording."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from geo import se3
from geo.errors import RecordingError
from geo.readers.aria.calibration import TURNS_CLOCKWISE, MountedCamera, device_camera, upright
from geo.readers.aria.folder import AriaFiles, find_files, required_vrs, vrs_file
from geo.readers.aria.tracks import Posed, check_clock, gaze_on_frames, hand_tracks, posed, scene_points
from geo.readers.aria.vrs import VrsFile, VrsFrames, VrsStream
from geo.readers.evidence import Evidence, own_narrations
from geo.readers.mps.gaze import read_gaze
from geo.readers.mps.hands import read_hands
from geo.readers.mps.slam import MpsTrajectory, read_closed_loop
from geo.recording import CameraStream, GazeTrack, HandTrack, Recording, ScenePoints

REFERENCE_STREAM = "214-1"
OTHER_STREAMS = ("1201-1", "1201-2", "1201-3", "1201-4")
_NOT_MPS = "no closed_loop_trajectory.csv (MPS output)"


def look(folder: Path) -> Evidence:
    """A VRS file and the trajectory of MPS; folders of ADT and HOT3D have readers of their own."""
    present, missing = [], []
    vrs = vrs_file(folder)
    if vrs is None:
        missing.append("VRS file (video.vrs, recording.vrs, sample.vrs or a single one)")
    else:
        present.append(vrs.name)
        trajectory = find_files(folder, []).trajectory
        if trajectory is None:
            missing.append("closed_loop_trajectory.csv of MPS")
        else:
            present.append(trajectory.name)
    for name, kind in (("aria_trajectory.csv", "ADT"), ("headset_trajectory.csv", "HOT3D")):
        if (folder / name).is_file():
            missing.append(f"folder without {name} (that is {kind}'s)")
    return Evidence(tuple(present), tuple(missing))


@dataclass(frozen=True)
class AriaRig:
    """Picture cameras of a VRS file, the reference first; ``device_from_camera`` is that of the turned pictures."""

    file: VrsFile
    streams: tuple[CameraStream, ...]
    camera_from_cpf: Float[np.ndarray, "4 4"] | None  # of the first stream; None: not known


def read_rig(path: Path, warnings: list[str]) -> AriaRig:
    """Colour camera and SLAM cameras of a VRS file, pictures upright, at the factory calibration.

    Raises:
        RecordingError: the file cannot be read, has no colour stream or no calibration. CameraError, PoseError: a
            calibration that cannot be.
    """
    file = VrsFile(path)
    calibration = file.calibration
    if calibration is None:
        raise RecordingError(f"VRS file {path} has no calibration (calib_json); without it nothing can be placed")
    if REFERENCE_STREAM not in file.streams:
        raise RecordingError(
            f"VRS file {path} has no colour stream {REFERENCE_STREAM}, only {', '.join(file.streams)}; was it recorded "
            "without the colour camera?"
        )
    turns = TURNS_CLOCKWISE
    if file.generation == "Gen2":
        turns = 0
        warnings.append(
            "Aria Gen 2: not tested for want of a sample; pictures are given as they are stored, gaze is not read"
        )
    elif file.generation != "Gen1":
        raise RecordingError(f"VRS file {path} is of no known Aria device ({file.generation})")
    streams = []
    for stream_id in (REFERENCE_STREAM, *OTHER_STREAMS):
        stream = file.streams.get(stream_id)
        if stream is None:
            continue
        mounted = _mounted(file, stream, turns, warnings)
        if mounted is not None:
            frames = VrsFrames(file, stream_id, turns)
            name = str(stream.label)
            streams.append(CameraStream(name, mounted.camera, stream.timestamps_ns, mounted.device_from_camera, frames))
    if not streams or streams[0].name != file.streams[REFERENCE_STREAM].label:
        raise RecordingError(
            f"VRS file {path} has no calibration of its colour camera; without it nothing can be placed"
        )
    camera_from_cpf = se3.compose(se3.inverse(streams[0].reference_from_camera), calibration.device_from_cpf)
    return AriaRig(file, tuple(streams), camera_from_cpf if file.generation == "Gen1" else None)


def _mounted(file: VrsFile, stream: VrsStream, turns: int, warnings: list[str]) -> MountedCamera | None:
    """The camera of a stream; None with a warning where the calibration does not know it."""
    calibration = file.calibration
    given = None if calibration is None or stream.label is None else calibration.cameras.get(stream.label)
    if given is None:
        warnings.append(f"{file.path.name}: stream {stream.stream_id} has no calibration and is left out")
        return None
    return upright(device_camera(given, stream.size_wh_px), given.device_from_camera, turns)


def read_mps_gaze(path: Path | None, rig: AriaRig, warnings: list[str]) -> GazeTrack | None:
    """Gaze in pixels of the reference camera; None where there is none, or on another clock."""
    if path is None or rig.camera_from_cpf is None:
        return None
    reference = rig.streams[0]
    gaze = read_gaze(path, warnings)
    return gaze_on_frames(gaze, path, reference.camera, rig.camera_from_cpf, reference.timestamps_ns, warnings)


def _points(files: AriaFiles, given: MpsTrajectory, placed: Posed, warnings: list[str]) -> ScenePoints | None:
    return None if files.points is None else scene_points(files.points, given.graph_uid, placed.world, warnings)


def _hands(files: AriaFiles, placed: Posed, rig: AriaRig, warnings: list[str]) -> tuple[HandTrack, ...]:
    if files.hands is None:
        return ()
    frames_ns = rig.streams[0].timestamps_ns
    return hand_tracks(read_hands(files.hands, warnings), files.hands, placed.trajectory, frames_ns, warnings)


def read(folder: Path) -> Recording:
    """Read an Aria folder; the reference frame is the device, the reference camera the colour one.

    Raises:
        RecordingError: no VRS file or one that cannot be read, no MPS trajectory, a table that is damaged.
        CameraError, PoseError: a calibration or pose that cannot be. TimeError: pictures and poses on two clocks.
    """
    warnings: list[str] = []
    vrs = required_vrs(folder)
    files = find_files(folder, warnings)
    if files.trajectory is None:
        raise RecordingError(f"{folder} has {_NOT_MPS}; without poses nothing can be placed. Ask MPS for SLAM")
    rig = read_rig(vrs, warnings)
    given = read_closed_loop(files.trajectory, warnings)
    placed = posed(given)
    reference = rig.streams[0]
    check_clock(files.trajectory, placed.trajectory, reference.timestamps_ns)
    if files.online_calibration is not None:
        warnings.append(f"{files.online_calibration.name} is there and not used: cameras are at factory calibration")
    narrations = own_narrations(folder)
    gaze = read_mps_gaze(files.gaze, rig, warnings)
    hands = _hands(files, placed, rig, warnings)
    points = _points(files, given, placed, warnings)
    inputs = (vrs, files.trajectory, files.points, files.gaze, files.hands, narrations)
    return Recording(
        recording_id=folder.resolve().name,
        reference=reference,
        depth=None,
        trajectory=placed.trajectory,
        world=placed.world,
        source_dir=folder,
        format_name="aria",
        gaze=gaze,
        hands=hands,
        narrations_file=narrations,
        input_files=tuple(path for path in inputs if path is not None and path.is_file()),
        warnings=tuple(warnings),
        others=rig.streams[1:],
        points=points,
    )
