"""nerfstudio and instant-ngp folders: ``transforms.json`` with a camera, pictures and a pose for each.

Poses are camera to world with OpenGL camera axes (x right, y up, z back); ours are the same with y and z turned round.

World: the file's own coordinates are kept. ``applied_transform`` and ``applied_scale`` say what their writer did to the
world before; this is not undone, but its inverse is in ``Recording.original_from_source_world``. The scale is unknown
unless the file says ``"metric": true`` (a key of this project), and so is gravity unless it has ``"up": [x, y, z]`` (a
key of instant-ngp, in the file's world). ``applied_transform`` turns axes by habit and tells nothing about gravity.
instant-ngp's ``scale``, ``offset`` and ``aabb_scale`` are settings of its viewer and not applied to the poses.

Sources: nerfstudio documentation, "Data conventions"; instant-ngp, "Tips for training NeRF models".
"""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from geo import se3
from geo.cameras import Camera
from geo.depth_rectify import pinhole_for, rectified_depth
from geo.errors import CameraError, PoseError, RecordingError, listed
from geo.images import IMAGE_SUFFIXES, image_size, natural_key
from geo.readers.depth_files import DepthCoding, DepthImages, usable_files
from geo.readers.evidence import Evidence, own_narrations, path_inside
from geo.readers.nerfstudio_camera import CAMERA_KEYS, NUMBER_KEYS, intrinsics_of
from geo.readers.schema import load_json, validate
from geo.readers.stated_world import stated_world
from geo.recording import CameraStream, DepthSource, DepthStream, Recording
from geo.trajectory import Trajectory
from geo.video import ImageFrames

NOMINAL_RATE_HZ = 10
_FILE = "transforms.json"
_STEP_NS = 1_000_000_000 // NOMINAL_RATE_HZ
_CAMERA_FROM_OPENGL = np.diag([1.0, -1.0, -1.0, 1.0])
_DEFAULT_UNIT_M = 0.001  # millimetres
_MAX_COORDINATE = 1e9
_MAX_SCALE = 1e6  # a world that was scaled by more, or flattened, was not: the file is damaged
_EQUAL_POSE = 1e-9
_LISTED = 20

_ROWS = {
    "type": "array",
    "minItems": 3,
    "maxItems": 4,
    "items": {"type": "array", "minItems": 4, "maxItems": 4, "items": {"type": "number"}},
}
_CAMERA = {
    **{name: {"type": "number"} for name in NUMBER_KEYS},
    "camera_model": {"type": "string"},
    "is_fisheye": {"type": "boolean"},
}
_PATH = {"type": "string", "minLength": 1}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["frames"],
    "properties": {
        **_CAMERA,
        "frames": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["file_path", "transform_matrix"],
                "properties": {
                    **_CAMERA,
                    "file_path": _PATH,
                    "transform_matrix": _ROWS,
                    "depth_file_path": {"type": ["string", "null"]},
                    "mask_path": {"type": ["string", "null"]},
                },
            },
        },
        "applied_transform": _ROWS,
        "applied_scale": {"type": "number", "exclusiveMinimum": 0},
        "depth_unit_scale_factor": {"type": "number", "exclusiveMinimum": 0},
        "metric": {"type": "boolean"},
        "up": {"type": "array", "minItems": 3, "maxItems": 3, "items": {"type": "number"}},
    },
}


def look(folder: Path) -> Evidence:
    """What speaks for this format: a transforms.json that speaks of frames and their matrices."""
    try:
        content = (folder / _FILE).read_bytes()
    except OSError:
        return Evidence((), (_FILE,))
    keys = [key for key in ("frames", "transform_matrix") if f'"{key}"'.encode() not in content]
    return Evidence((_FILE,), tuple(f'"{key}" in {_FILE}' for key in keys))


@dataclass(frozen=True)
class _Frame:
    """One listed frame; ``place`` is where in the file, ``file`` None if there is no such image."""

    place: str
    name: str
    file: Path | None
    entry: dict[str, Any]
    world_from_camera: Float[np.ndarray, "4 4"]


def read(folder: Path) -> Recording:
    """Read the folder; see the module's docstring for what is taken from where.

    Raises:
        RecordingError: transforms.json is damaged, or not one of its images exists, or one image has two poses.
        CameraError: an unknown lens, or frames with different cameras. PoseError: a matrix that is no pose.
    """
    path = folder / _FILE
    data = load_json(path)
    validate(data, _SCHEMA, path)
    warnings: list[str] = []
    entries = _frames(folder, data, path)
    rows = [i for i, frame in enumerate(entries) if frame.file is not None]
    frames = [entries[i] for i in rows]
    files = [frame.file for frame in frames if frame.file is not None]
    _say_missing(entries, path, warnings)
    camera = _camera(data, frames, files[0], path, warnings)
    stamps = np.array(rows, dtype=np.int64) * _STEP_NS
    warnings.append(
        f"{_FILE} holds no times: its frames are counted at a nominal {NOMINAL_RATE_HZ} Hz, so seconds and speeds "
        "mean nothing"
    )
    _say_unused(data, frames, warnings)
    world = stated_world(data.get("metric", False), data.get("up"), f"{path}: up")
    turn = world.world_from_source_world
    poses = se3.compose(turn, np.stack([frame.world_from_camera for frame in frames]))
    depth_files = _depth_files(folder, frames, path, warnings)
    depth = _depth(depth_files, data, stamps, camera, world.metric, path, warnings)
    narrations = own_narrations(folder)
    return Recording(
        recording_id=folder.resolve().name,
        reference=CameraStream(
            "camera", camera, stamps, np.eye(4), ImageFrames(files, camera.size_wh_px), source_frames=np.array(rows)
        ),
        depth=depth,
        trajectory=Trajectory.from_rows(stamps, poses, str(path)),
        world=world,
        source_dir=folder,
        format_name="nerfstudio",
        narrations_file=narrations,
        input_files=tuple(file for file in [path, narrations, *files, *depth_files] if file and file.is_file()),
        warnings=tuple(warnings),
        original_from_source_world=_original_from_file(data, path),
    )


def _existing(folder: Path, relative: str, what: str) -> Path | None:
    """A file that transforms.json names, or None if there is none.

    Raises:
        RecordingError: the path leaves the folder, or is no path.
    """
    try:
        path = path_inside(folder, relative, what)
        return path if path.is_file() else None
    except (OSError, ValueError) as error:  # too long, or no text that a file system takes
        raise RecordingError(f"{what} = {ascii(relative)[:60]} in {folder} is no path: {error}") from None


def _image(folder: Path, relative: str, what: str) -> Path | None:
    """An image; data sets of the first NeRF paper leave the ending out."""
    found = _existing(folder, relative, what)
    if found or PurePosixPath(relative).suffix.lower() in IMAGE_SUFFIXES:
        return found
    with_ending = (_existing(folder, relative + suffix, what) for suffix in (".png", ".jpg", ".jpeg"))
    return next((path for path in with_ending if path), None)


def _frames(folder: Path, data: dict[str, Any], path: Path) -> list[_Frame]:
    """Listed frames in the order of the numbers in their names (FIELD V2); equal ones merged (FIELD P6).

    Raises:
        RecordingError: one image with different poses. PoseError: a matrix that is no pose.
    """
    out: dict[str, _Frame] = {}
    for i, entry in enumerate(data["frames"]):
        place = f"{path} frames[{i}]"
        file = _image(folder, entry["file_path"], f"{place}.file_path")
        name = str(PurePosixPath(entry["file_path"]))
        pose = _pose(entry["transform_matrix"], f"{place}.transform_matrix")
        if name in out:
            if np.abs(out[name].world_from_camera - pose).max() > _EQUAL_POSE:
                raise RecordingError(
                    f"{out[name].place} and frames[{i}] have the same image {name} but different poses; remove one"
                )
            continue
        out[name] = _Frame(place, name, file, entry, pose)
    return [out[name] for name in sorted(out, key=lambda name: (natural_key(name), name))]


def _rows_4x4(rows: list[list[float | int]], what: str) -> Float[np.ndarray, "4 4"]:
    """Three or four rows of a file as a 4x4 matrix.

    Raises:
        PoseError: a number that cannot be, or a last row other than 0 0 0 1.
    """
    try:
        matrix = np.array([*rows, [0, 0, 0, 1]][:4], dtype=np.float64)
    except OverflowError:
        matrix = np.full((4, 4), np.inf)
    if not (np.abs(matrix) <= _MAX_COORDINATE).all():
        raise PoseError(f"{what} holds a number that is not finite or out of this world; is the file damaged?")
    if np.abs(matrix[3] - [0, 0, 0, 1]).max() > _EQUAL_POSE:
        raise PoseError(f"{what} has the last row {matrix[3].tolist()}, not 0 0 0 1; is it transposed?")
    return matrix


def _pose(rows: list[list[float | int]], what: str) -> Float[np.ndarray, "4 4"]:
    """world_from_camera in our axes, from camera to world with OpenGL axes."""
    return se3.check_rigid(_rows_4x4(rows, what), what) @ _CAMERA_FROM_OPENGL


def _original_from_file(data: dict[str, Any], path: Path) -> Float[np.ndarray, "4 4"]:
    """Inverse of what the writer did: file = applied_scale * (applied_transform @ original).

    Raises:
        RecordingError: applied_transform cannot be undone.
    """
    scale = data.get("applied_scale", 1.0)
    applied = np.eye(4)
    if "applied_transform" in data:
        applied = _rows_4x4(data["applied_transform"], f"{path} applied_transform")
    usable = 1 / _MAX_SCALE <= scale <= _MAX_SCALE and bool(np.linalg.cond(applied[:3, :3]) < _MAX_SCALE)
    if not usable:
        raise RecordingError(
            f"{path}: applied_transform and applied_scale cannot be undone (applied_scale = {str(scale)[:40]}); "
            "correct them, or remove both if the world is to be taken as it is"
        )
    original = np.linalg.inv(applied) @ np.diag([1 / scale, 1 / scale, 1 / scale, 1.0])
    return np.asarray(original, dtype=np.float64)


def _say_missing(entries: list[_Frame], path: Path, warnings: list[str]) -> None:
    """Count and name listed images that do not exist.

    Raises:
        RecordingError: none exists.
    """
    missing = [frame.name for frame in entries if frame.file is None]
    if not missing:
        return
    names = listed(missing, _LISTED)
    if len(missing) == len(entries):
        raise RecordingError(
            f"not one of the {len(entries)} images that {path} lists exists ({names}); paths count from {path.parent}"
        )
    warnings.append(f"{len(missing)} of {len(entries)} images in {_FILE} do not exist and are left out: {names}")


def _camera(data: dict[str, Any], frames: list[_Frame], first_image: Path, path: Path, warnings: list[str]) -> Camera:
    """The one camera of all frames.

    Raises:
        CameraError: frames differ, or a frame's camera cannot be.
        RecordingError: the first image has another size, or cannot be read.
    """
    shown = image_size(first_image)
    shared = {key: data[key] for key in CAMERA_KEYS if key in data}
    own = [{key: frame.entry[key] for key in CAMERA_KEYS if key in frame.entry} for frame in frames]
    first = intrinsics_of(shared | own[0], shown, frames[0].place if own[0] else str(path))
    others = [
        frame
        for frame, entry in zip(frames, own, strict=True)
        if entry != own[0] and not intrinsics_of(shared | entry, shown, frame.place).equals(first)
    ]
    if others:
        names = listed([frame.name for frame in others], 5)
        raise CameraError(
            f"{path}: {len(others)} of {len(frames)} frames have another camera than {frames[0].name} ({names}); one "
            "camera can be read so far: keep the frames of one in transforms.json"
        )
    if first.size_wh_px != shown:
        raise RecordingError(
            f"image {first_image} is {shown[0]}x{shown[1]}, but {path} is calibrated for "
            f"{first.size_wh_px[0]}x{first.size_wh_px[1]}; was it resized, or turned by its EXIF tag?"
        )
    if first.centred:
        warnings.append(f"{_FILE} has no cx, cy: the principal point is taken as the centre of the image")
    return first.camera(frames[0].place if own[0] else str(path))


def _say_unused(data: dict[str, Any], frames: list[_Frame], warnings: list[str]) -> None:
    """Masks and rolling shutter are not used, and that is said."""
    masks = sum(bool(frame.entry.get("mask_path")) for frame in frames)
    if masks:
        warnings.append(f"{masks} frames have a mask_path (black: ignore), which is not used yet")
    shutter = data.get("rolling_shutter")
    if isinstance(shutter, list) and any(shutter):
        warnings.append(f"rolling shutter {str(shutter)[:60]} ({_FILE}) is not corrected")


def _depth_files(folder: Path, frames: list[_Frame], path: Path, warnings: list[str]) -> list[Path | None]:
    """A depth image for every frame, None where there is none or a damaged one; an empty list if none at all."""
    named = [frame for frame in frames if frame.entry.get("depth_file_path")]
    found: dict[str, Path] = {}
    for frame in named:
        file = _existing(folder, frame.entry["depth_file_path"], f"{frame.place}.depth_file_path")
        if file and file.suffix.lower() == ".png":
            found[frame.name] = file
    if len(found) < len(named):
        warnings.append(
            f"{len(named) - len(found)} of {len(named)} depth files in {_FILE} do not exist or are no PNG; these "
            "frames have no depth"
        )
    if not found:
        return []
    usable = dict(zip(found, usable_files(list(found.values()), warnings), strict=True))
    return [usable.get(frame.name) for frame in frames]


def _depth(
    files: list[Path | None],
    data: dict[str, Any],
    stamps: Int64[np.ndarray, "N"],
    camera: Camera,
    metric: bool,
    path: Path,
    warnings: list[str],
) -> DepthStream | None:
    """Depth of the pictures' own pixels, of their size or smaller, in the unit of the poses.

    Raises:
        RecordingError: a unit that cannot be.
    """
    first = next((file for file in files if file), None)
    if first is None:
        return None
    unit = data.get("depth_unit_scale_factor", _DEFAULT_UNIT_M)
    if not 1e-9 <= unit <= 1e9:
        raise RecordingError(f"{path}: depth_unit_scale_factor = {str(unit)[:40]} cannot be; 0.001 means millimetres")
    if not metric:
        warnings.append(
            f"depth counts are taken times {unit:g} in the unit of the poses, as nerfstudio does; that unit is not "
            f'known to be the metre ({_FILE} may say "metric": true)'
        )
    distorted = camera.resized(image_size(first))
    target = pinhole_for(distorted)
    coding = DepthCoding(distorted, float(unit), invalid=(0.0,), max_depth_m=20.0 if metric else np.inf)
    frames: DepthSource = DepthImages(files, coding)
    if target != distorted:
        warnings.append(
            f"depth images are as distorted as the pictures ({camera.model}): they are undistorted, and taken as depth "
            "along the optical axis"
        )
        frames = rectified_depth(frames, distorted, target)
    return DepthStream("depth", target, stamps, np.eye(4), frames)
