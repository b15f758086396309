"""An Xperience-10M episode as a recording.

The reference camera is the rectified left one (``stereo_left``), in which depth and hands are given; the rectified
right one and the four fisheyes are further cameras (``geo.recording.with_reference`` chooses another). The rectified
K is taken as OpenCV's, the centre of the first pixel (0, 0): cx = 256 of 512 pixels. If it was meant from the corner,
the pictures sit half a pixel beside it, 0.14 degrees; the file does not tell.

Gravity: the world is z up by the published viewer's floor (an xy plane); no file says it. It is taken as known unless
the cameras contradict (their mean up direction points below the horizon), then it is unknown.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int64

from geo import se3
from geo.cameras import Camera
from geo.errors import RecordingError
from geo.readers.evidence import Evidence, own_narrations
from geo.readers.xperience.calibration import (
    ANNOTATION,
    CAMERA_NAMES,
    LEFT,
    RIGHT,
    STEREO_SIZE_WH_PX,
    XperienceRig,
    rig_of,
)
from geo.readers.xperience.depth import EpisodeDepth, depth_of
from geo.readers.xperience.hdf5_values import Hdf5Values
from geo.readers.xperience.motion import read_hand, read_names, read_stamps, read_world_from_body
from geo.readers.xperience.videos import VideoFiles, find_videos, pictures_of
from geo.recording import CameraStream, DepthStream, HandTrack, Recording, ScenePoints
from geo.trajectory import Trajectory
from geo.world import Gravity, World

_POINTS = "slam/point_cloud"
_OFF_CENTRE = 0.15  # of the width or height: no principal point of these lenses lies further out


def look(folder: Path) -> Evidence:
    """What speaks for this format: its annotation; videos are named, but need not be there."""
    videos = [f"{name}.mp4" for name in CAMERA_NAMES if (folder / f"{name}.mp4").is_file()]
    there = (folder / ANNOTATION).is_file()
    return Evidence((ANNOTATION, *videos) if there else tuple(videos), () if there else (ANNOTATION,))


@dataclass
class _Episode:
    """What is collected while a folder is read."""

    path: Path
    warnings: list[str] = field(default_factory=list)
    inputs: list[Path] = field(default_factory=list)


def read(folder: Path) -> Recording:
    """Read the folder; see the module's docstring for what is taken as what.

    Raises:
        RecordingError: the annotation is damaged or of another layout, a video does not fit it.
        CameraError, PoseError, TimeError: faults of these.
    """
    episode = _Episode(folder, inputs=[folder / ANNOTATION])
    with Hdf5Values(folder / ANNOTATION) as file:
        names = read_names(file)
        if not names:
            raise RecordingError(f"{file.path} names not a single frame")
        stamps = read_stamps(file, names, episode.warnings)
        rig = rig_of(file, episode.warnings)
        depth = depth_of(file, rig, len(stamps), episode.warnings)
        world_from_left = se3.compose(
            read_world_from_body(file, len(stamps), episode.warnings), rig.body_from_camera(LEFT)
        )
        hands = tuple(
            hand
            for side in ("left", "right")
            if (hand := read_hand(file, side, stamps, world_from_left, episode.warnings)) is not None
        )
        points = _points(file)
    return _recording(episode, rig, stamps, depth, world_from_left, hands, points)


def _recording(
    episode: _Episode,
    rig: XperienceRig,
    stamps: Int64[np.ndarray, "N"],
    depth: EpisodeDepth | None,
    world_from_left: Float[np.ndarray, "N 4 4"],
    hands: tuple[HandTrack, ...],
    points: ScenePoints | None,
) -> Recording:
    """All parts together, with the videos."""
    streams = _streams(episode, rig, stamps, depth)
    narrations = own_narrations(episode.path)
    if narrations is not None:
        episode.inputs.append(narrations)
    return Recording(
        recording_id=episode.path.resolve().name,
        reference=streams[0],
        depth=None if depth is None else DepthStream("depth", depth.camera, stamps, np.eye(4), depth),
        trajectory=Trajectory.from_rows(stamps, world_from_left, str(episode.inputs[0])),
        world=_world(world_from_left, episode.warnings),
        source_dir=episode.path,
        format_name="xperience",
        hands=hands,
        narrations_file=narrations,
        input_files=tuple(episode.inputs),
        warnings=tuple(episode.warnings),
        others=tuple(streams[1:]),
        points=points,
    )


def _streams(
    episode: _Episode, rig: XperienceRig, stamps: Int64[np.ndarray, "N"], depth: EpisodeDepth | None
) -> list[CameraStream]:
    """The cameras, the left one first; audio is a video's own, else the first that any has (all start with row 0)."""
    videos = find_videos(episode.path, episode.warnings)
    if videos.manifest is not None:
        episode.inputs.append(videos.manifest)
    found: list[CameraStream] = []
    left_from_body = rig.camera_from_body(LEFT)
    for name in CAMERA_NAMES:
        if name not in (LEFT, RIGHT) and name not in rig.fisheyes:
            continue
        stereo_size = None if name in rig.fisheyes else STEREO_SIZE_WH_PX if depth is None else depth.full_size_wh_px
        pictures = pictures_of(name, videos, stamps, stereo_size, episode.warnings)
        if pictures is None:
            continue
        if pictures.video is not None:
            episode.inputs.append(pictures.video)
        if stereo_size is not None and depth is not None and pictures.size_wh_px != stereo_size:
            raise RecordingError(
                f"{videos.files[name]} shows {pictures.size_wh_px}, but the depth images belong to pictures of "
                f"{stereo_size}"
            )
        mount = np.eye(4) if name == LEFT else se3.compose(left_from_body, rig.body_from_camera(name))
        camera = _camera(name, rig, pictures.size_wh_px, videos, episode.warnings)
        audio = pictures.video if pictures.has_audio else None
        found.append(CameraStream(name, camera, stamps[: pictures.count], mount, pictures.frames, audio))
    any_audio = next((stream.audio_file for stream in found if stream.audio_file is not None), None)
    return [replace(stream, audio_file=stream.audio_file or any_audio) for stream in found]


def _camera(
    name: str, rig: XperienceRig, size_wh_px: tuple[int, int], videos: VideoFiles, warnings: list[str]
) -> Camera:
    """A camera for pictures of this size; K has to look as if it were for that size."""
    camera = rig.fisheyes[name].camera(size_wh_px) if name in rig.fisheyes else rig.stereo_camera(size_wh_px)
    offset = [abs(c - side / 2) / side for c, side in zip(camera.params[2:4].tolist(), size_wh_px, strict=True)]
    if max(offset) > _OFF_CENTRE:
        warnings.append(
            f"K of {name} has its centre at {camera.params[2:4].round().tolist()}, far from the middle of pictures of "
            f"{size_wh_px[0]}x{size_wh_px[1]} ({videos.files[name].name}): were they resized, cropped or turned?"
        )
    return camera


def _points(file: Hdf5Values) -> ScenePoints | None:
    """The SLAM's points, all of them (the published loader drops the farthest 5 %); the file says no uncertainty."""
    if not file.has(_POINTS):
        return None
    points = file.floats(_POINTS, (None, 3))
    points = points[np.isfinite(points).all(axis=1)]
    return ScenePoints(points, np.full(len(points), np.nan)) if len(points) else None


def _world(world_from_left: Float[np.ndarray, "N 4 4"], warnings: list[str]) -> World:
    """Metric; z is up by the viewer's code, unless the cameras contradict."""
    known = np.isfinite(world_from_left).all(axis=(1, 2))
    up = -world_from_left[known, 2, 1].mean()  # z part, in world, of the cameras' own up (-y)
    if up > 0:
        warnings.append("gravity: z is up by the published viewer's floor plane; no file says so")
        return World(metric=True, gravity=Gravity.KNOWN)
    warnings.append("gravity is unknown: the format's z up would hold the cameras upside down")
    return World.without_up(metric=True)
