"""The six videos of an episode: which file is which camera, how large it is, and what to do where one is missing."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from geo.errors import RecordingError
from geo.readers.evidence import path_inside
from geo.readers.schema import Schema, load_json, validate
from geo.readers.xperience.calibration import CAMERA_NAMES, FISHEYES
from geo.recording import FrameSource, MissingFrames, PickedFrames
from geo.video import VideoFrames

CAMERAS_JSON = "cameras.json"
_MAX_FRAMES_APART = 20
_SIZE: Schema = {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "integer", "minimum": 2}}
_SCHEMA: Schema = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "videos": {
            "type": "object",
            "additionalProperties": False,
            "properties": {name: {"type": "string", "minLength": 1} for name in CAMERA_NAMES},
        },
        "sizes": {
            "type": "object",
            "additionalProperties": False,
            "properties": {name: _SIZE for name in CAMERA_NAMES},
        },
    },
}


@dataclass(frozen=True)
class VideoFiles:
    """File of every camera, and image sizes that the user states for cameras whose video is not there."""

    files: dict[str, Path]
    stated_sizes: dict[str, tuple[int, int]]
    manifest: Path | None  # cameras.json, where there is one


def find_videos(folder: Path, warnings: list[str]) -> VideoFiles:
    """Videos by camera: ``<camera>.mp4``, or what ``cameras.json`` says.

    Raises:
        RecordingError: a ``cameras.json`` of another form, one file for two cameras, a file outside the folder.
    """
    manifest = folder / CAMERAS_JSON
    files = {name: folder / f"{name}.mp4" for name in CAMERA_NAMES}
    if not manifest.is_file():
        if all(files[name].is_file() for name in FISHEYES):
            warnings.append(
                "in the public sample the videos of fisheye_cam0 and fisheye_cam2 are reported to be exchanged against "
                f"the calibration; look at them, and say so in {CAMERAS_JSON} if they are (docs/formats.md)"
            )
        return VideoFiles(files, {}, None)
    data = load_json(manifest)
    validate(data, _SCHEMA, manifest)
    for name, relative in data.get("videos", {}).items():
        files[name] = path_inside(folder, relative, f"{CAMERAS_JSON}: video of {name}")
        if not files[name].is_file():
            raise RecordingError(f"{manifest}: video {files[name]} of {name} is missing")
    owners: dict[Path, str] = {}
    for name, file in files.items():
        other = owners.setdefault(file.resolve(), name)
        if other != name:
            raise RecordingError(f"{manifest}: {file.name} would be the video of {other} and of {name}; name both")
    sizes = {name: (int(size[0]), int(size[1])) for name, size in data.get("sizes", {}).items()}
    return VideoFiles(files, sizes, manifest)


@dataclass(frozen=True)
class Pictures:
    """Pictures of one camera: ``count`` of them belong to the first ``count`` rows of the annotation."""

    frames: FrameSource
    size_wh_px: tuple[int, int]
    count: int
    video: Path | None
    has_audio: bool = False


def pictures_of(
    name: str,
    videos: VideoFiles,
    stamps: Int64[np.ndarray, "N"],
    default_size_wh_px: tuple[int, int] | None,
    warnings: list[str],
) -> Pictures | None:
    """Pictures of a camera, or their stand-in; None where the video is missing and nothing says how large it is.

    Raises:
        RecordingError: the video is damaged, or has far more or fewer frames than the annotation has rows.
    """
    file, rows = videos.files[name], len(stamps)
    size = videos.stated_sizes.get(name, default_size_wh_px)
    if not file.is_file():
        if size is None:
            warnings.append(
                f"{file.name} is missing, and with it the image size of {name}: the camera is left out "
                f'(state "sizes" in {CAMERAS_JSON} to keep it)'
            )
            return None
        warnings.append(f"{file.name} is missing: {name} has no pictures")
        return Pictures(MissingFrames(rows, f"{file} is missing; fetch it"), size, rows, None)
    video = VideoFrames(file)
    if name in videos.stated_sizes and video.size_wh_px != videos.stated_sizes[name]:
        raise RecordingError(
            f"{file} shows {video.size_wh_px[0]}x{video.size_wh_px[1]}, {CAMERAS_JSON} says {videos.stated_sizes[name]}"
        )
    if video.table.rotation_deg:
        warnings.append(f"{file.name} carries a rotation tag of {video.table.rotation_deg} degrees, which is applied")
    if abs(len(video) - rows) > _MAX_FRAMES_APART:
        raise RecordingError(
            f"{file} has {len(video)} frames, the annotation {rows} rows; frame i belongs to row i, so one of them is "
            "cut. Fetch it anew"
        )
    count = min(len(video), rows)
    if len(video) != rows:
        warnings.append(f"{file.name} has {len(video)} frames, the annotation {rows} rows: the first {count} are used")
    frames: FrameSource = video if len(video) == count else PickedFrames(video, range(count))
    return Pictures(frames, video.size_wh_px, count, file, video.table.has_audio)
