"""EPIC-Fields: a JSON of camera, poses and points from structure from motion, beside its video or extracted frames.

``camera`` is COLMAP's (the principal point counts from the corner of the first pixel, so ours is half a pixel less),
for frames of 456 x 256; a video of another size gets it scaled, each axis by its own factor. Poses are by frame number,
from 1 (``geo.readers.sfm_poses.read_epic_fields``); frame n is picture n - 1 of the video, whose time it has. Extracted
frames (``frame_0000000001.jpg``) have no times: they are counted at the nominal rate of their data set (59.94 Hz for
``PXX_YY``, 50 Hz for ``PXX_1YY``), which is said. The scale is the reconstruction's own, gravity is unknown.

Sources: epic-kitchens/epic-fields-code, README; epic-kitchens/epic-kitchens-100-annotations, README.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from geo.cameras import Camera, camera_from_params
from geo.errors import CameraError, RecordingError
from geo.images import image_size, list_images
from geo.readers.evidence import Evidence, own_narrations
from geo.readers.schema import Schema, load_json, validate
from geo.readers.sfm_poses import read_epic_fields
from geo.readers.trajectory_files import NumberedPoses
from geo.recording import CameraStream, FrameSource, Recording, ScenePoints
from geo.trajectory import Trajectory
from geo.video import ImageFrames, VideoFrames
from geo.world import World

_OTHERS = ("recording.json", "transforms.json", "rig.json", "calibration.json", "cameras.json")
_LOOKS = re.compile(rb'frame_\d{10}\.jpe?g"|"camera"\s*:\s*\{[^{}]*"model"')
_PEEK = 1 << 16
_VIDEO_SUFFIXES = (".mp4", ".mov", ".avi", ".mkv")
_FRAME = re.compile(r"frame_(\d{1,18})\.(?:jpe?g|png)", re.ASCII | re.IGNORECASE)
_OLD, _NEW = re.compile(r"P\d\d_\d\d", re.ASCII), re.compile(r"P\d\d_\d\d\d", re.ASCII)
_MAX_STRETCH = 0.02  # 456x256 and 1920x1080 differ by 0.2 %
_CAMERA_SCHEMA: Schema = {
    "type": "object",
    "required": ["camera"],
    "properties": {
        "camera": {
            "type": "object",
            "required": ["model", "width", "height", "params"],
            "properties": {
                "model": {"type": "string"},
                "width": {"type": "integer", "minimum": 2},
                "height": {"type": "integer", "minimum": 2},
                "params": {"type": "array", "minItems": 3, "items": {"type": "number"}},
            },
        },
        "points": {
            "type": "array",
            "items": {"type": "array", "minItems": 3, "maxItems": 6, "items": {"type": "number"}},
        },
    },
}


def _candidates(folder: Path) -> list[Path]:
    """JSON files that look like this format at their beginning."""
    found = []
    for path in sorted(folder.glob("*.json")):
        if path.name in _OTHERS or path.name.startswith(".") or not path.is_file():
            continue
        try:
            with path.open("rb") as file:
                head = file.read(_PEEK)
        except OSError:
            continue
        if _LOOKS.search(head):
            found.append(path)
    return found


def look(folder: Path) -> Evidence:
    """What speaks for this format: one JSON that begins like EPIC-Fields'."""
    found = [path.name for path in _candidates(folder)]
    return Evidence(tuple(found), () if found else ("EPIC-Fields JSON (camera, images)",))


def read(folder: Path) -> Recording:
    """Read the folder; see the module's docstring for what is taken from where.

    Raises:
        RecordingError: no or several JSON files of this kind, neither video nor frames, or they do not fit.
        CameraError, PoseError, TimeError: faults of these.
    """
    candidates = _candidates(folder)
    if len(candidates) != 1:
        listed = ", ".join(path.name for path in candidates) or "none"
        raise RecordingError(f"{folder} needs exactly one EPIC-Fields JSON, there are: {listed}; one video a folder")
    path = candidates[0]
    warnings: list[str] = []
    data = _data(path)
    poses = read_epic_fields(path, warnings)
    pictures = _pictures(folder, path.stem, warnings)
    camera = _camera(data["camera"], path, pictures.size_wh_px, warnings)
    trajectory = _trajectory(poses, pictures, path, warnings)
    narrations = own_narrations(folder)
    inputs = [path, *pictures.files, *([narrations] if narrations else [])]
    return Recording(
        recording_id=path.stem,
        reference=CameraStream(
            "color",
            camera,
            pictures.times_ns,
            np.eye(4),
            pictures.frames,
            audio_file=pictures.audio_file,
            source_frames=pictures.numbers - 1,
            source_start_ns=0,
        ),
        depth=None,
        trajectory=trajectory,
        world=World.without_up(metric=False),
        source_dir=folder,
        format_name="epic_fields",
        narrations_file=narrations,
        input_files=tuple(inputs),
        warnings=tuple(warnings),
        points=_points(data.get("points", []), path),
    )


def _data(path: Path) -> dict[str, Any]:
    """Camera and points as they are; the poses have a reader of their own."""
    data = load_json(path)
    validate(data, _CAMERA_SCHEMA, path)
    return dict(data)


def _camera(entry: dict[str, Any], path: Path, size_wh_px: tuple[int, int], warnings: list[str]) -> Camera:
    """COLMAP's camera for pictures of this size.

    Raises:
        CameraError: impossible numbers. RecordingError: pictures of another shape than the calibration.
    """
    size = entry["width"], entry["height"]
    model = str(entry["model"]).upper()
    if any(abs(value) > 1e9 for value in entry["params"]):
        raise CameraError(f"{path}: camera.params {str(entry['params'])[:80]} hold a number that is out of this world")
    params = [float(value) for value in entry["params"]]
    centre = 1 if model.startswith("SIMPLE") or model.startswith("RADIAL") else 2
    for i in (centre, centre + 1):
        if i < len(params):
            params[i] -= 0.5
    try:
        camera = camera_from_params(model, size, params)
    except CameraError as error:
        raise CameraError(f"{path}: camera: {error}") from error
    if size == size_wh_px:
        return camera
    stretch = (size_wh_px[0] / size[0]) / (size_wh_px[1] / size[1])
    if abs(stretch - 1) > _MAX_STRETCH:
        raise RecordingError(
            f"{path}: the calibration is for {size[0]}x{size[1]}, the pictures are {size_wh_px[0]}x{size_wh_px[1]}: "
            "of another shape"
        )
    warnings.append(f"the calibration for {size[0]}x{size[1]} is scaled to pictures of {size_wh_px[0]}x{size_wh_px[1]}")
    return camera.resized(size_wh_px)


@dataclass(frozen=True)
class _Pictures:
    """Pictures with their numbers (from 1) and times."""

    frames: FrameSource
    size_wh_px: tuple[int, int]
    numbers: Int64[np.ndarray, "N"]
    times_ns: Int64[np.ndarray, "N"]
    files: tuple[Path, ...]
    rate: Fraction | None  # of extracted frames
    audio_file: Path | None = None


def _pictures(folder: Path, video_id: str, warnings: list[str]) -> _Pictures:
    """The video of that name, else extracted frames in a folder of that name, ``frames``, ``images``, or here."""
    videos = [p for p in sorted(folder.iterdir()) if p.stem == video_id and p.suffix.lower() in _VIDEO_SUFFIXES]
    if len(videos) > 1:
        raise RecordingError(f"{folder} holds several videos of {video_id}: {', '.join(p.name for p in videos)}")
    if videos:
        video = VideoFrames(videos[0])
        numbers = np.arange(1, len(video) + 1)
        audio = videos[0] if video.table.has_audio else None
        return _Pictures(video, video.size_wh_px, numbers, video.timestamps_ns, (videos[0],), None, audio)
    for place in (folder / video_id, folder / "frames", folder / "images", folder):
        files = {
            int(match[1]): file
            for file in (list_images(place) if place.is_dir() else [])
            if (match := _FRAME.fullmatch(file.name))
        }
        if files:
            return _extracted({number: files[number] for number in sorted(files)}, video_id, warnings)
    raise RecordingError(
        f"{folder} holds neither the video {video_id}.mp4 nor frames frame_0000000001.jpg in {video_id}, frames or "
        "images"
    )


def _extracted(files: dict[int, Path], video_id: str, warnings: list[str]) -> _Pictures:
    """Frames by number, counted at the data set's nominal rate."""
    numbers = np.array(list(files), dtype=np.int64)
    if int(numbers[0]) < 1 or int(numbers[-1]) >= 10**9:
        raise RecordingError(f"{files[int(numbers[0])]}: EPIC-KITCHENS counts frames from 1; is this another naming?")
    rate = Fraction(60000, 1001) if _OLD.fullmatch(video_id) else Fraction(50)
    known = _OLD.fullmatch(video_id) or _NEW.fullmatch(video_id)
    warnings.append(
        f"extracted frames hold no times: they are counted at {'the nominal' if known else 'an assumed'} "
        f"{float(rate):.2f} Hz; add the video {video_id}.mp4 for true times"
    )
    stamps = np.array([round((number - 1) * 10**9 / rate) for number in numbers.tolist()], dtype=np.int64)
    paths = list(files.values())
    size = image_size(paths[0])
    return _Pictures(ImageFrames(paths, size), size, numbers, stamps, tuple(paths), rate)


def _trajectory(poses: NumberedPoses, pictures: _Pictures, path: Path, warnings: list[str]) -> Trajectory:
    """Poses at the times of their frames.

    Raises:
        RecordingError: not a single pose belongs to a picture.
    """
    rows = np.searchsorted(pictures.numbers, poses.numbers)
    there = rows < len(pictures.numbers)
    there[there] = pictures.numbers[rows[there]] == poses.numbers[there]
    if not there.any():
        raise RecordingError(
            f"{path} has poses for frames {poses.numbers[0]} to {poses.numbers[-1]}, the pictures are "
            f"{pictures.numbers[0]} to {pictures.numbers[-1]}: not one in common. Do they belong to the same video?"
        )
    if not there.all():
        warnings.append(f"{int((~there).sum())} of {len(there)} poses belong to no picture here and are left out")
    if (~np.isin(pictures.numbers, poses.numbers)).any():
        missing = int((~np.isin(pictures.numbers, poses.numbers)).sum())
        warnings.append(
            f"{missing} of {len(pictures.numbers)} pictures were not registered and have no pose of their own"
        )
    return Trajectory(pictures.times_ns[rows[there]], poses.world_from_body[there])


def _points(rows: list[list[Any]], path: Path) -> ScenePoints | None:
    """x, y, z and colour of the sparse model's points; no uncertainty is given."""
    if not rows:
        return None
    if len({len(row) for row in rows}) != 1 or len(rows[0]) not in (3, 6):
        raise RecordingError(f"{path}: points must be rows of x, y, z or of x, y, z, r, g, b")
    if any(abs(value) > 1e12 for row in rows for value in row):
        raise RecordingError(f"{path}: points hold a number that is out of this world")
    table = np.array(rows, dtype=np.float64)
    colours = None
    if table.shape[1] == 6:
        if not ((table[:, 3:] >= 0) & (table[:, 3:] <= 255)).all():
            raise RecordingError(f"{path}: colours of points must lie in 0..255")
        colours = table[:, 3:].round().astype(np.uint8)
    return ScenePoints(table[:, :3], np.full(len(table), np.nan), colours)
