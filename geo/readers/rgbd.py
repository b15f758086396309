"""RGB-D folders as 7-Scenes and tsdf-fusion lay them out.

``frame-NNNNNN.color.(png|jpg)``, ``.depth.png`` (uint16 millimetres, 0 and 65535 none), ``.pose.txt`` (4x4, depth
camera to world), ``camera-intrinsics.txt`` (3x3, depth camera), optional ``calibration.json`` (depth_K, color_K,
T_color_depth; also with the ending ``_estimated``). Frame numbers count at 30 Hz. The world is metric, its gravity
unknown.
"""

import re
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int64

from geo import se3
from geo.cameras import PinholeCamera
from geo.errors import PoseError, RecordingError
from geo.images import image_size
from geo.readers.calibration_json import matrix_entry, pinhole_of
from geo.readers.depth_files import DepthCoding, DepthImages, usable_files
from geo.readers.evidence import Evidence, own_narrations
from geo.readers.json_values import json_object
from geo.recording import CameraStream, DepthStream, Recording
from geo.trajectory import Trajectory
from geo.video import ImageFrames
from geo.world import World

_NAME = re.compile(r"frame-(\d+)\.(color\.(?:png|jpe?g)|depth\.png|pose\.txt)", re.IGNORECASE)
_RATE_HZ = 30
_NS = 1_000_000_000


def look(folder: Path) -> Evidence:
    """What speaks for this format."""
    counts = {"color": 0, "depth": 0, "pose": 0}
    for number_kind in _scan(folder):
        counts[number_kind[1]] += 1
    found = {f"{count} frame-*.{kind} files": count > 0 for kind, count in counts.items()}
    found["camera-intrinsics.txt or calibration.json"] = any(
        (folder / name).is_file() for name in ("camera-intrinsics.txt", "calibration.json")
    )
    present = tuple(what for what, there in found.items() if there)
    return Evidence(present, tuple(what.removeprefix("0 ") for what, there in found.items() if not there))


def _scan(folder: Path) -> dict[tuple[int, str], Path]:
    """Files by frame number and kind; hidden and foreign files are left out."""
    out: dict[tuple[int, str], Path] = {}
    for entry in sorted(folder.iterdir()):
        match = _NAME.fullmatch(entry.name)
        if match:
            key = (int(match[1]), match[2].split(".")[0].lower())
            if key in out:
                raise RecordingError(f"{out[key]} and {entry} are the same frame; remove one")
            out[key] = entry
    return out


def read(folder: Path) -> Recording:
    """Read the folder; see the module's docstring for what is taken from where.

    Raises:
        RecordingError: a file of a frame is missing, sizes contradict the calibration, no pose is usable.
    """
    files = _scan(folder)
    numbers = np.array(sorted({number for number, _ in files}), dtype=np.int64)
    endings = {kind: path.name.split(".", 1)[1] for (_, kind), path in sorted(files.items(), reverse=True)}
    for number in numbers:
        for kind, ending in endings.items():
            if (int(number), kind) not in files:
                raise RecordingError(
                    f"file {folder / f'frame-{number:06d}.{ending}'} is missing; other files of this frame exist"
                )
    warnings: list[str] = []
    color_files = [files[int(n), "color"] for n in numbers]
    depth_files = [files[int(n), "depth"] for n in numbers]
    color, depth, color_from_depth = _calibration(
        folder, image_size(color_files[0]), image_size(depth_files[0]), warnings
    )
    stamps = numbers * _NS // _RATE_HZ
    trajectory = _trajectory([files[int(n), "pose"] for n in numbers], numbers, stamps, color_from_depth, warnings)
    coding = DepthCoding(depth, unit_m=0.001, invalid=(0.0, 65535.0))
    usable = usable_files(depth_files, warnings)
    narrations = own_narrations(folder)
    return Recording(
        recording_id=folder.resolve().name,
        reference=CameraStream("color", color, stamps, np.eye(4), ImageFrames(color_files, color.size_wh_px)),
        depth=DepthStream("depth", depth, stamps, color_from_depth, DepthImages(usable, coding)),
        trajectory=trajectory,
        world=World.without_up(metric=True),
        source_dir=folder,
        format_name="rgbd",
        narrations_file=narrations,
        input_files=tuple(
            path
            for path in [
                folder / "camera-intrinsics.txt",
                folder / "calibration.json",
                narrations,
                *(files[key] for key in sorted(files)),
            ]
            if path is not None and path.is_file()
        ),
        warnings=tuple(warnings),
    )


def _trajectory(
    pose_files: list[Path],
    numbers: Int64[np.ndarray, "N"],
    stamps: Int64[np.ndarray, "N"],
    color_from_depth: Float[np.ndarray, "4 4"],
    warnings: list[str],
) -> Trajectory:
    """World_from_color: the files hold the depth camera's pose."""
    poses = np.full((len(pose_files), 4, 4), np.nan)
    lost: list[int] = []
    for i, path in enumerate(pose_files):
        matrix = _matrix(path, (4, 4))
        if not np.isfinite(matrix).all():
            lost.append(int(numbers[i]))
            continue
        try:
            world_from_depth = se3.check_rigid(matrix, f"pose in {path}")
        except PoseError as error:
            raise RecordingError(str(error)) from error
        poses[i] = world_from_depth @ se3.inverse(color_from_depth)
    if len(lost) == len(pose_files):
        raise RecordingError(f"no pose of {pose_files[0].parent} is finite; without poses nothing can be placed")
    if lost:
        warnings.append(f"{len(lost)} frames without a finite pose (gaps): {', '.join(map(str, lost[:10]))}")
    return Trajectory.from_rows(stamps, poses, str(pose_files[0].parent))


def _matrix(path: Path, shape: tuple[int, int]) -> Float[np.ndarray, "R C"]:
    """Numbers of a text file."""
    try:
        values = np.array(path.read_text(encoding="utf-8-sig").split(), dtype=np.float64)
    except (ValueError, UnicodeDecodeError) as error:
        raise RecordingError(f"{path} holds something that is no number: {error}") from error
    if values.size != shape[0] * shape[1]:
        raise RecordingError(f"{path} holds {values.size} numbers; expected {shape[0]}x{shape[1]}; is it cut off?")
    return values.reshape(shape)


def _calibration(
    folder: Path, color_size: tuple[int, int], depth_size: tuple[int, int], warnings: list[str]
) -> tuple[PinholeCamera, PinholeCamera, Float[np.ndarray, "4 4"]]:
    """Colour camera, depth camera and color_from_depth."""
    intrinsics, path = folder / "camera-intrinsics.txt", folder / "calibration.json"
    data = json_object(path) if path.is_file() else {}
    depth_k = matrix_entry(data, "depth_K", (3, 3), path)
    if depth_k is None:
        depth_k = _matrix(intrinsics, (3, 3))
    color_k = matrix_entry(data, "color_K", (3, 3), path)
    offset = matrix_entry(data, "T_color_depth", (4, 4), path)
    if color_k is None or offset is None:
        warnings.append(
            "colour is taken as registered to depth (one K, no offset between the cameras): "
            "calibration.json with color_K and T_color_depth would say otherwise"
        )
    color_from_depth = np.eye(4) if offset is None else se3.check_rigid(offset, f"T_color_depth in {path}")
    color = pinhole_of(depth_k if color_k is None else color_k, color_size, f"colour images of {folder}")
    return color, pinhole_of(depth_k, depth_size, f"depth images of {folder}"), color_from_depth
