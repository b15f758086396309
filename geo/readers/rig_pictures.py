"""Pictures of one camera of a rig: a video, or numbered images of which every n-th is this camera's."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from geo.errors import RecordingError
from geo.images import image_size
from geo.readers.evidence import path_inside
from geo.readers.printf_files import pattern_files, pattern_numbers
from geo.recording import FrameSource
from geo.video import ImageFrames, VideoFrames


@dataclass(frozen=True)
class RigPictures:
    """Pictures with what their times may be made of."""

    frames: FrameSource
    files: tuple[Path, ...]
    numbers: tuple[int, ...] | None = None  # in the names of images
    video_stamps_ns: Int64[np.ndarray, "N"] | None = None
    audio_file: Path | None = None


def rig_pictures(folder: Path, entry: dict[str, Any], size_wh_px: tuple[int, int], what: str) -> RigPictures:
    """Pictures that an entry of rig.json names; they must have the calibration's size.

    Raises:
        RecordingError: neither or both of video and images, a file is missing or of another size.
    """
    given = [key for key in ("video", "images") if key in entry]
    if len(given) != 1:
        raise RecordingError(f"{what} needs exactly one of video, images; it has {', '.join(given) or 'none'}")
    if given == ["video"]:
        return _video(folder, entry, size_wh_px, what)
    first = None if entry["timestamps_ns"] == "names" else entry.get("first")
    step = None if entry["timestamps_ns"] == "names" else entry.get("step", 1)
    if step is None and {"first", "step", "count"} & set(entry):
        raise RecordingError(f"{what}: first, step and count go with counted images, not with times as names")
    numbers, files = numbered_files(folder, entry["images"], first, step, entry.get("count"), what)
    size = image_size(files[0])
    if size != size_wh_px:
        raise RecordingError(f"{what}: image {files[0]} is {size[0]}x{size[1]}, its calibration is for {size_wh_px}")
    return RigPictures(ImageFrames(files, size_wh_px), tuple(files), tuple(numbers))


def _video(folder: Path, entry: dict[str, Any], size_wh_px: tuple[int, int], what: str) -> RigPictures:
    """A video of the calibration's size, without a rotation tag (which would leave the calibration's meaning open)."""
    extra = {"first", "step", "count"} & set(entry)
    if extra:
        raise RecordingError(f"{what}: {', '.join(sorted(extra))} is for images; this camera has a video")
    path = path_inside(folder, entry["video"], f"{what}: video")
    if not path.is_file():
        raise RecordingError(f"{what}: video {path} is missing")
    video = VideoFrames(path)
    if video.table.rotation_deg:
        raise RecordingError(
            f"{what}: video {path} carries a rotation tag of {video.table.rotation_deg} degrees; whether the "
            "calibration is for turned frames is not known. Remove the tag, or calibrate the frames as shown"
        )
    if video.size_wh_px != size_wh_px:
        raise RecordingError(f"{what}: video {path} shows {video.size_wh_px}, its calibration is for {size_wh_px}")
    return RigPictures(video, (path,), None, video.timestamps_ns, path if video.table.has_audio else None)


def numbered_files(
    folder: Path, pattern: str, first: int | None, step: int | None, count: int | None, what: str
) -> tuple[list[int], list[Path]]:
    """Files of a printf pattern by rising number.

    Args:
        folder: The pattern's root, which it may not leave.
        pattern: With one ``%d`` or ``%06d`` in the file's name.
        first: Number of the first; None: the smallest that there is.
        step: From one number to the next; a number left out in between is an error. None: whatever numbers there are.
        count: How many; None: as many as there are.
        what: Begins messages.

    Raises:
        RecordingError: no such pattern, no file, or one is missing (its path is named).
    """
    found = pattern_numbers(folder, pattern, what)
    start = first if first is not None else found[0] if found else 0
    mine = [number for number in found if number >= start and (step is None or (number - start) % step == 0)]
    if not mine:
        raise RecordingError(f"{what}: no file fits {folder / pattern} from number {start} on")
    if step is not None:
        stop = mine[-1] + 1 if count is None else start + step * count
        if (stop - start) // step > 100 * len(mine) + 1000:
            raise RecordingError(f"{what}: {len(mine)} files fit {pattern!r}, of {(stop - start) // step} meant")
        mine = list(range(start, stop, step))
    return mine, pattern_files(folder, pattern, mine, what)
