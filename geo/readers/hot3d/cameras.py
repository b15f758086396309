"""Cameras of a HOT3D sequence without its pictures: Aria by MPS' online calibration, Quest 3 by camera_models.json.

Both headsets store their pictures on their side, and both are turned upright by 90 degrees clockwise (Quest 3: only
then does the right camera lie to the right of the left one, along +x).
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from geo import se3
from geo.cameras import Camera, camera_from_params
from geo.errors import CameraError, RecordingError
from geo.readers.aria.calibration import (
    MODELS,
    SENSOR_PX,
    TURNS_CLOCKWISE,
    VALID_RADIUS_PX,
    MountedCamera,
    at_stream_size,
    upright,
)
from geo.readers.json_values import finite_numbers, parsed_json
from geo.readers.mps.calibration import OnlineCamera, read_online_calibration
from geo.readers.pose_rows import PoseRow, poses_from_rows
from geo.readers.text_files import read_text

ARIA_STREAMS = {"214-1": "camera-rgb", "1201-1": "camera-slam-left", "1201-2": "camera-slam-right"}
ARIA_SIZES_PX = {"camera-rgb": (1408, 1408), "camera-slam-left": (640, 480), "camera-slam-right": (640, 480)}
QUEST3_TURNS_CLOCKWISE = 1
_MAX_OFF_CENTRE = 0.1


@dataclass(frozen=True)
class StreamCamera:
    """A camera of the headset, pictures as the reader presents them."""

    stream_id: str
    name: str
    turns_clockwise: int
    mounted: MountedCamera


def aria_cameras(path: Path, warnings: list[str]) -> tuple[StreamCamera, ...]:
    """The colour and SLAM cameras of ``online_calibration.jsonl``, as they were in the middle of it.

    Raises:
        RecordingError: damaged, or no colour camera in it. CameraError: parameters for no size that is known.
    """
    records = read_online_calibration(path, warnings).records
    cameras = records[len(records) // 2].cameras
    found = []
    for stream_id, label in ARIA_STREAMS.items():
        given = cameras.get(label)
        if given is not None:
            mounted = upright(_aria_camera(given, path), given.device_from_camera)
            found.append(StreamCamera(stream_id, label, TURNS_CLOCKWISE, mounted))
    if not found or found[0].name != "camera-rgb":
        raise RecordingError(f"{path} has no camera-rgb in record {len(records) // 2}; is it another file?")
    return tuple(found)


def _aria_camera(given: OnlineCamera, path: Path) -> Camera:
    """At HOT3D's picture size. The file does not say its size: the principal point tells the sensor's from it."""
    size, sensor = ARIA_SIZES_PX[given.label], SENSOR_PX[given.label]
    centre = given.params[1:3] if len(given.params) == 15 else given.params[2:4]
    for candidate in dict.fromkeys((size, sensor)):
        middle = (np.array(candidate) - 1) / 2
        if (np.abs(centre - middle) <= _MAX_OFF_CENTRE * np.array(candidate)).all():
            radius = VALID_RADIUS_PX[given.label] * candidate[0] / sensor[0]
            if candidate == (1408, 1408):
                radius = VALID_RADIUS_PX[given.label] / 2
            camera = camera_from_params(MODELS[given.model], candidate, given.params, valid_radius_px=radius)
            return at_stream_size(camera, size)
    raise CameraError(
        f"{path}: {given.label} has its principal point at {centre.tolist()}, in the middle of neither {size} nor "
        f"{sensor} px (W, H)"
    )


def quest3_cameras(path: Path) -> tuple[StreamCamera, ...]:
    """Cameras of ``camera_models.json``, in its order.

    Raises:
        RecordingError: damaged, parts missing, no camera. CameraError: parameters that cannot be. PoseError: a
            rotation that is not unit.
    """
    entries = parsed_json(read_text(path), str(path))
    if not isinstance(entries, list) or not entries:
        raise RecordingError(f"{path} must hold a list of cameras")
    cameras = [_quest3_camera(entry, f"{path} camera {i}", path) for i, entry in enumerate(entries)]
    if len({camera.stream_id for camera in cameras}) < len(cameras):
        raise RecordingError(f"{path} has two cameras with one stream_id")
    return tuple(cameras)


def _quest3_camera(entry: Any, where: str, path: Path) -> StreamCamera:
    if not isinstance(entry, dict):
        raise RecordingError(f"{where} is no JSON object")
    pose = entry.get("T_Device_Camera")
    if not isinstance(pose, dict):
        raise RecordingError(f"{where} has no T_Device_Camera")
    quat = finite_numbers(pose.get("quaternion_wxyz"), 4, f"{where}: quaternion_wxyz")
    translation = finite_numbers(pose.get("translation_xyz"), 3, f"{where}: translation_xyz")
    row = PoseRow(where, (translation[0], translation[1], translation[2]), (quat[0], quat[1], quat[2], quat[3]))
    device_from_camera = poses_from_rows([row], path, [], "place")[0]
    width, height = entry.get("imageWidth"), entry.get("imageHeight")
    model = str(entry.get("projectionModelType", "")).rpartition(".")[2]
    texts = [entry.get(key) for key in ("label", "stream_id")]
    for side in (width, height):
        if not isinstance(side, int) or isinstance(side, bool) or abs(side) > 1 << 31:
            raise RecordingError(f"{where}: imageWidth, imageHeight = {str(side)[:40]} is no whole number")
    assert isinstance(width, int) and isinstance(height, int)
    if model not in MODELS or not all(isinstance(text, str) and text for text in texts):
        raise RecordingError(f"{where}: no known projectionModelType, label or stream_id")
    params = finite_numbers(entry.get("projectionParams"), None, f"{where}: projectionParams")
    limit = finite_numbers([entry.get("maxSolidAngle")], 1, f"{where}: maxSolidAngle")[0]
    camera = camera_from_params(MODELS[model], (width, height), params, valid_theta_rad=limit)
    mounted = upright(camera, np.asarray(device_from_camera), QUEST3_TURNS_CLOCKWISE)
    return StreamCamera(str(texts[1]), str(texts[0]), QUEST3_TURNS_CLOCKWISE, mounted)


def build_of(cameras: tuple[StreamCamera, ...]) -> str | None:
    """``DVT-S`` or ``DVT-L`` (small, large glasses) by the distance of the SLAM cameras; None if it tells neither.

    The calibration does not say which the glasses are. By design the two cameras are 138.1 and 142.7 mm apart.
    """
    from geo.readers.aria.vrs import by_design

    at = {camera.name: camera.mounted.device_from_camera[:3, 3] for camera in cameras}
    if not {"camera-slam-left", "camera-slam-right"} <= set(at):
        return None
    given = float(np.linalg.norm(at["camera-slam-right"] - at["camera-slam-left"]))
    off = {}
    for build in ("DVT-S", "DVT-L"):
        _, designed = by_design(build)
        distance = float(np.linalg.norm(designed["camera-slam-right"][:3, 3] - designed["camera-slam-left"][:3, 3]))
        off[build] = abs(distance - given)
    best, other = sorted(off, key=lambda build: off[build])
    return best if math.isfinite(given) and off[best] < 0.002 and off[other] > 2 * off[best] else None


def camera_from_cpf(camera: StreamCamera, build: str) -> Float[np.ndarray, "4 4"]:
    """CPF of a build by design, in the axes of a camera as calibrated."""
    from geo.readers.aria.vrs import by_design

    device_from_cpf, _ = by_design(build)
    return se3.compose(se3.inverse(camera.mounted.device_from_camera), device_from_cpf)
