"""A COLMAP model and its pictures as a recording."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from jaxtyping import Float

from geo import se3
from geo.errors import RecordingError
from geo.images import image_size
from geo.readers.colmap.binary import read_binary_model
from geo.readers.colmap.folder import (
    MANIFEST,
    NOMINAL_RATE_HZ,
    ModelFolder,
    Said,
    find_model,
    picture_folder,
    read_manifest,
)
from geo.readers.colmap.records import ColmapPoints, SparseModel, check_camera_ids
from geo.readers.colmap.streams import Group, groups_of, moments, mount
from geo.readers.colmap.text import read_text_model
from geo.readers.evidence import own_narrations
from geo.readers.stated_world import stated_world
from geo.recording import CameraStream, Recording, ScenePoints
from geo.trajectory import Trajectory
from geo.video import ImageFrames
from geo.world import World

_MAX_COORDINATE = 1e9


def read_model(path: Path, warnings: list[str]) -> SparseModel:
    """Cameras, poses and points of a folder that holds the files of one model, binary or (without that) text.

    Raises:
        RecordingError, CameraError, PoseError: what is wrong, and where.
    """
    return _read(ModelFolder(path, (path / "images.bin").is_file()), warnings)


def _read(model: ModelFolder, warnings: list[str]) -> SparseModel:
    found = (read_binary_model if model.binary else read_text_model)(model.path, warnings)
    check_camera_ids(found.cameras, found.images, str(model.path))
    return found


def read(folder: Path) -> Recording:
    """Read the folder: a model (here, in ``sparse`` or ``sparse/<number>``), its pictures, and ``colmap.json`` if any.

    Raises:
        RecordingError: the model or the manifest is damaged, or there is no picture. CameraError: a model that is not
            known here. PoseError: a pose that is none.
    """
    warnings: list[str] = []
    said = read_manifest(folder)
    where = find_model(folder, said, warnings)
    model = _read(where, warnings)
    groups = groups_of(model, picture_folder(folder, said, model.images.names), warnings)
    groups = _reference_first(groups, said)
    _check_sizes(groups)
    times = moments(groups, said.start_ns, said.rate_hz or Fraction(NOMINAL_RATE_HZ))
    if said.rate_hz is None:
        warnings.append(
            f"a COLMAP model holds no times: pictures are counted at a nominal {NOMINAL_RATE_HZ} Hz, so seconds and "
            f'speeds mean nothing ({MANIFEST} with "rate_hz" says otherwise)'
        )
    world = stated_world(said.metric, said.up, f"{said.file}: up")
    streams = [_stream(group, times) for group in groups]
    mounts = [mount(groups[0], group) for group in groups[1:]]
    others = tuple(_mounted(stream, place, warnings) for stream, place in zip(streams[1:], mounts, strict=True))
    narrations = own_narrations(folder)
    files = [*where.files, *([said.file] if said.file else []), *(file for group in groups for file in group.files)]
    return Recording(
        recording_id=folder.resolve().name,
        reference=streams[0],
        depth=None,
        trajectory=_trajectory(groups, mounts, times, world, str(where.path)),
        world=world,
        source_dir=folder,
        format_name="colmap",
        narrations_file=narrations,
        input_files=tuple(files + ([narrations] if narrations else [])),
        warnings=tuple(warnings),
        others=others,
        points=_scene_points(model.points, world),
    )


def _reference_first(groups: list[Group], said: Said) -> list[Group]:
    """The named stream, or the one with the most pictures, comes first."""
    if said.reference_camera is None:
        return groups
    chosen = [group for group in groups if group.name == said.reference_camera]
    if not chosen:
        raise RecordingError(
            f"{said.file}: reference_camera {said.reference_camera!r} is none of the model's cameras: "
            f"{', '.join(group.name for group in groups)}"
        )
    return chosen + [group for group in groups if group is not chosen[0]]


def _check_sizes(groups: list[Group]) -> None:
    """The first picture of each camera has the size that the camera is calibrated for."""
    for group in groups:
        shown = image_size(group.files[0])
        if shown != group.camera.size_wh_px:
            raise RecordingError(
                f"image {group.files[0]} is {shown[0]}x{shown[1]}, but its camera is calibrated for "
                f"{group.camera.width_px}x{group.camera.height_px}; was it resized, or turned by its EXIF tag?"
            )


def _stream(group: Group, times: dict[str, int]) -> CameraStream:
    stamps = np.array([times[key] for key in group.keys], dtype=np.int64)
    numbers = {key: number for number, key in enumerate(sorted(times, key=lambda key: times[key]))}
    frames = ImageFrames(group.files, group.camera.size_wh_px)
    places = np.array([numbers[key] for key in group.keys], dtype=np.int64)
    return CameraStream(group.name, group.camera, stamps, np.eye(4), frames, source_frames=places)


def _mounted(stream: CameraStream, place: Float[np.ndarray, "4 4"] | None, warnings: list[str]) -> CameraStream:
    """A further camera on its place; NaN where it is no part of a rig."""
    if place is None:
        warnings.append(
            f"camera {stream.name} ({len(stream.timestamps_ns)} pictures) is not fixed to the reference camera, so it "
            f'has no place on it; {MANIFEST} with "reference_camera": "{stream.name}" reads its own poses'
        )
        place = np.full((4, 4), np.nan)
    return replace(stream, reference_from_camera=place)


def _trajectory(
    groups: list[Group],
    mounts: list[Float[np.ndarray, "4 4"] | None],
    times: dict[str, int],
    world: World,
    source: str,
) -> Trajectory:
    """World_from_reference: its own poses, and where it has none those of cameras that are fixed to it."""
    poses = dict(zip(groups[0].keys, groups[0].world_from_camera, strict=True))
    for group, place in zip(groups[1:], mounts, strict=True):
        if place is not None:
            for key, pose in zip(group.keys, group.world_from_camera, strict=True):
                poses.setdefault(key, pose @ se3.inverse(place))
    stamps = np.array([times[key] for key in poses], dtype=np.int64)
    turned = se3.compose(world.world_from_source_world, np.stack(list(poses.values())))
    return Trajectory.from_rows(stamps, turned, source)


def _scene_points(points: ColmapPoints, world: World) -> ScenePoints | None:
    """Points in our world; how exact they are is not said."""
    if not len(points.points):
        return None
    turned = se3.transform_points(world.world_from_source_world, points.points)
    return ScenePoints(turned, np.full(len(turned), np.nan), points.colours)
