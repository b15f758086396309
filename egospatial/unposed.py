"""Recordings as far as they go without poses: plain folders, bare videos, folders of images."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from egospatial.errors import FrontDoorError
from geo.cameras import PinholeCamera
from geo.recording import CameraStream, Recording
from geo.trajectory import Trajectory
from geo.world import World

_NOMINAL_RATE_HZ = 10.0
_GUESSED_FOCAL = 1.2  # times the longer side: COLMAP's first guess, refined with the poses


@dataclass(frozen=True)
class Unposed:
    """A recording as far as it goes without poses; ``calibrated`` False: its camera is a guess."""

    recording: Recording
    calibrated: bool


def open_unposed(source: Path, rate_hz: float | None) -> Unposed:
    """A plain folder (trajectory.csv may be missing), a video file, or a folder of images.

    Raises:
        FrontDoorError: it is none of these. GeoError: it is one, and something in it is wrong.
    """
    from geo.images import image_size, list_images
    from geo.readers import plain, sniff
    from geo.video import ImageFrames, VideoFrames

    if (source / "recording.json").is_file():
        return Unposed(plain.read_unposed(source), True)
    if source.is_file():
        video = VideoFrames(source)
        return Unposed(_bare(source.stem, source.parent, video, video.timestamps_ns, video.size_wh_px, [source]), False)
    if not source.is_dir():
        raise FrontDoorError(f"{source}: no such recording.")
    known = sniff(source).format_name
    if known is not None:
        raise FrontDoorError(f"{source}: is a {known} recording, which has poses already.")
    root = next((folder for folder in (source, source / "images") if folder.is_dir() and list_images(folder)), None)
    if root is None:
        raise FrontDoorError(f"{source}: no recording.json and no images in it; give a recording, a video or images.")
    files = list_images(root)
    step = 1e9 / (rate_hz or _NOMINAL_RATE_HZ)
    stamps = np.array([round(i * step) for i in range(len(files))], dtype=np.int64)
    size = image_size(files[0])
    bare = _bare(source.resolve().name, source, ImageFrames(files, size), stamps, size, files)
    return Unposed(bare, False)


def _bare(
    name: str, folder: Path, frames: Any, stamps: np.ndarray, size: tuple[int, int], files: list[Path]
) -> Recording:
    """Pictures with times and a guessed pinhole."""
    focal = _GUESSED_FOCAL * max(size)
    guess = PinholeCamera(*size, focal, focal, (size[0] - 1) / 2, (size[1] - 1) / 2)
    return Recording(
        recording_id=name.lstrip(".") or "recording",
        reference=CameraStream("camera", guess, stamps, np.eye(4), frames),
        depth=None,
        trajectory=Trajectory(np.zeros(0, dtype=np.int64), np.zeros((0, 4, 4))),
        world=World.without_up(metric=False),
        source_dir=folder,
        format_name="pictures",
        input_files=tuple(files),
    )
