"""Picture cameras of a HOT3D sequence: their calibration, the times of the sequence, the pictures taken then."""

import re
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from geo.errors import RecordingError
from geo.nearest import nearest_rows
from geo.readers.aria.calibration import TURNS_CLOCKWISE, MountedCamera
from geo.readers.aria.reader import read_rig
from geo.readers.aria.vrs import VrsFile, VrsFrames, VrsStream
from geo.readers.evidence import path_inside
from geo.readers.hot3d import tables
from geo.readers.hot3d.cameras import StreamCamera, aria_cameras, quest3_cameras
from geo.recording import CameraStream, FrameSource, MissingFrames

VRS = "recording.vrs"
CAMERA_MODELS = "camera_models.json"
ONLINE_CALIBRATION = "mps/slam/online_calibration.jsonl"
_FRAME_TOLERANCE_NS = 1_000_000


def open_streams(
    folder: Path, kind: str, times: dict[str, Int64[np.ndarray, "N"]], warnings: list[str]
) -> tuple[tuple[CameraStream, ...], tuple[StreamCamera, ...]]:
    """Picture cameras, the reference first, and how they are mounted.

    Raises:
        RecordingError: no calibration, or no times for the first camera.
    """
    vrs = folder / VRS
    file = _opened(folder, kind, warnings)
    if kind == tables.QUEST3:
        cameras = quest3_cameras(folder / CAMERA_MODELS)
    elif file is not None and not (folder / ONLINE_CALIBRATION).is_file():
        cameras = _factory_cameras(vrs, warnings)
    else:
        cameras = aria_cameras(folder / ONLINE_CALIBRATION, warnings)
        warnings.append("cameras are those of MPS' online calibration in the middle of the sequence")
    if not vrs.is_file():
        warnings.append(f"{VRS} is missing: the recording has no pictures, everything else is there")
    streams = []
    for camera in cameras:
        stamps = times.get(camera.stream_id)
        if stamps is None:
            warnings.append(f"stream {camera.stream_id} ({camera.name}) has no times and is left out")
            continue
        stamps, frames = _frames(file, kind, camera, stamps, folder, warnings)
        mounted = camera.mounted
        streams.append(CameraStream(camera.name, mounted.camera, stamps, mounted.device_from_camera, frames))
    if not streams or streams[0].name != cameras[0].name:
        raise RecordingError(f"{folder}: no picture times of stream {cameras[0].stream_id} ({cameras[0].name})")
    return tuple(streams), cameras


def _opened(folder: Path, kind: str, warnings: list[str]) -> VrsFile | None:
    """The VRS file; None if there is none, or one of Quest 3 that projectaria_tools does not read (made for Aria).

    Raises:
        RecordingError: one of Aria that cannot be read.
    """
    path = path_inside(folder, VRS, VRS)
    if not path.is_file():
        return None
    try:
        return VrsFile(path)
    except RecordingError as error:
        if kind == tables.ARIA:
            raise
        warnings.append(f"no pictures: {error}")
        return None


def _factory_cameras(vrs: Path, warnings: list[str]) -> tuple[StreamCamera, ...]:
    """Cameras of the VRS file itself, where MPS left no calibration."""
    rig = read_rig(vrs, warnings)
    names = {stream.label: stream_id for stream_id, stream in rig.file.streams.items()}
    return tuple(
        StreamCamera(
            names[stream.name], stream.name, TURNS_CLOCKWISE, MountedCamera(stream.camera, stream.reference_from_camera)
        )
        for stream in rig.streams
    )


def _frames(
    file: VrsFile | None,
    kind: str,
    camera: StreamCamera,
    stamps: Int64[np.ndarray, "N"],
    folder: Path,
    warnings: list[str],
) -> tuple[Int64[np.ndarray, "K"], FrameSource]:
    """Times of the sequence with the pictures that were taken then."""
    if file is None:
        reason = f"{folder / VRS} is missing; download the sequence's {VRS} into its folder"
        if (folder / VRS).is_file():
            reason = f"{folder / VRS} cannot be read by projectaria_tools; see the recording's warnings"
        return stamps, MissingFrames(len(stamps), reason)
    stream_id = camera.stream_id if kind == tables.ARIA else _quest3_stream(file, camera, warnings)
    if stream_id is None or stream_id not in file.streams:
        warnings.append(f"{VRS} has no pictures of stream {camera.stream_id} that can be read")
        return stamps, MissingFrames(len(stamps), f"{folder / VRS} has no stream {camera.stream_id} that can be read")
    taken = file.streams[stream_id].timestamps_ns
    _check_size(file.streams[stream_id], camera, folder / VRS)
    on_clock = file.time_code_ns(taken) if kind == tables.ARIA else taken
    nearest = nearest_rows(on_clock, stamps)
    near = np.abs(on_clock[nearest] - stamps) <= _FRAME_TOLERANCE_NS
    if not near.any() and kind == tables.QUEST3:
        warnings.append(f"{VRS}: not a picture within 1 ms of the times of stream {camera.stream_id}; it is left out")
        return stamps, MissingFrames(len(stamps), f"{folder / VRS} has no picture at the times of the sequence")
    if not near.any():
        raise RecordingError(
            f"{folder / VRS}: not a picture of stream {stream_id} within 1 ms of the times of the sequence; is it of "
            "another one?"
        )
    if not near.all():
        warnings.append(f"{int((~near).sum())} of {len(near)} times of stream {camera.stream_id} have no picture")
    return stamps[near], VrsFrames(file, stream_id, camera.turns_clockwise, tuple(nearest[near].tolist()))


def _check_size(stream: VrsStream, camera: StreamCamera, path: Path) -> None:
    """Upright pictures must have the size of the calibration."""
    size = stream.size_wh_px
    shown = size[::-1] if camera.turns_clockwise % 2 else size
    if shown != camera.mounted.camera.size_wh_px:
        raise RecordingError(
            f"{path}: upright pictures of stream {stream.stream_id} are {shown} px (W, H), but {camera.name} is "
            f"calibrated for {camera.mounted.camera.size_wh_px}"
        )


def _quest3_stream(file: VrsFile, camera: StreamCamera, warnings: list[str]) -> str | None:
    """The stream of a Quest 3 camera: by its id, else the n-th of those of its size (HOT3D's own tools do so)."""
    if camera.stream_id in file.streams:
        return camera.stream_id
    width, height = camera.mounted.camera.size_wh_px
    stored = (height, width) if camera.turns_clockwise % 2 else (width, height)
    fitting = sorted(name for name, stream in file.streams.items() if stream.size_wh_px == stored)
    found = re.fullmatch(r"[0-9]{1,9}-([0-9]{1,9})", camera.stream_id)
    number = int(found[1]) - 1 if found else -1
    if not 0 <= number < len(fitting):
        return None
    warnings.append(f"Quest 3: stream {fitting[number]} is taken for {camera.stream_id}, by its place (not tested)")
    return fitting[number]
