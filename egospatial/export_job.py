"""What an export works on: the request, the records of a finished folder, each read once, and its pictures."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from egospatial import model_exports
from egospatial.errors import FrontDoorError
from egospatial.store import geometry_file, layout, recording_file
from egospatial.view.images import write_image
from geo.exporters import PosedPictures, Similarity, in_world
from geo.world import Gravity

Progress = Callable[[int, int, str], None]

FOLDERS = ("nerfstudio", "colmap", "plain")
WORLDS = ("canonical", "source", "original")
PICTURES = ("jpg", "png", "none")
MASKS = ("valid", "static", "none")
SAME_SCALE = 1e-9  # scales that differ by less are one


@dataclass(frozen=True)
class ConvertRequest:
    """What to write and how."""

    what: str
    world: str = "canonical"
    pictures: str = "jpg"
    depth: bool = False
    force: bool = False
    masks: str = "valid"
    format: str = "ply"  # of splats
    voxel: float | None = None  # of the mesh, in the unit of the poses

    def __post_init__(self) -> None:
        """Refuse what is not there."""
        for name, value, known in (
            ("world", self.world, WORLDS), ("pictures", self.pictures, PICTURES), ("masks", self.masks, MASKS),
        ):  # fmt: skip
            if value not in known:
                raise FrontDoorError(f"--{name} {value!r}: expected {', '.join(known)}.")
        if self.depth and self.what != "nerfstudio":
            raise FrontDoorError(f"--depth: {self.what} has no place for depth; only nerfstudio has.")
        if self.masks != "valid" and self.what != "nerfstudio":
            raise FrontDoorError(f"--masks: {self.what} has no place for masks; only nerfstudio has.")
        if self.pictures != "jpg" and self.what not in FOLDERS:
            raise FrontDoorError(f"--pictures: {self.what} holds no pictures; {', '.join(FOLDERS)} do.")
        if self.voxel is not None and self.what != "mesh":
            raise FrontDoorError(f"--voxel: {self.what} has no voxels; only mesh has.")
        if self.voxel is not None and not 0 < self.voxel < np.inf:
            raise FrontDoorError(f"--voxel {self.voxel}: expected a length above 0.")


@dataclass(frozen=True)
class ExportJob:
    """An export at work: the records of the folder, each read once, and where the files go."""

    folder: Path
    document: dict[str, Any]
    frames: geometry_file.Frames
    request: ConvertRequest
    new_from_canonical: Float[np.ndarray, "4 4"]  # canonical world to the one that was asked for
    pictures: PosedPictures

    @property
    def kept(self) -> list[int]:
        """Frames that have a pose."""
        rows: list[int] = np.flatnonzero(np.isfinite(self.frames.world_from_camera).all(axis=(1, 2))).tolist()
        return rows


def job_of(folder: Path, request: ConvertRequest) -> ExportJob:
    """Read what every export needs."""
    document, frames = recording_file.read(folder), geometry_file.read_frames(folder)
    world = recording_file.world_from_json(document["world"])
    source_from_canonical = np.linalg.inv(world.world_from_source_world)
    original_from_source = recording_file.original_from_source_world(document)
    way, metric = np.eye(4), world.metric
    if request.world != "canonical":
        way = source_from_canonical
    if request.world == "original":
        way = original_from_source @ source_from_canonical
        metric = metric and abs(Similarity.of(original_from_source).scale - 1) < SAME_SCALE
    canonical = _pictures(folder, document, frames, request, original_from_source @ source_from_canonical)
    told = canonical if request.world == "canonical" else in_world(canonical, way, metric)
    return ExportJob(folder, document, frames, request, way, told)


def _pictures(
    folder: Path,
    document: dict[str, Any],
    frames: geometry_file.Frames,
    request: ConvertRequest,
    original_from_canonical: Float[np.ndarray, "4 4"],
) -> PosedPictures:
    """The finished recording as exporters take it, in the canonical world."""
    world = recording_file.world_from_json(document["world"])
    points = None
    if request.what in (*FOLDERS, "points", "ply"):
        points = model_exports.points_of(folder, frames.world_from_camera[:, :3, 3])
    ending = "jpg" if request.pictures == "none" else request.pictures
    return PosedPictures(
        camera=recording_file.camera_from_json(document["canonical_camera"]),
        names=tuple(f"images/{frame:06d}.{ending}" for frame in range(len(frames.timestamps_ns))),
        timestamps_ns=frames.timestamps_ns,
        world_from_camera=frames.world_from_camera,
        metric=world.metric,
        # An up that is only estimated is not handed on: these formats would say it is known.
        up=np.array([0.0, 0.0, 1.0]) if world.gravity is Gravity.KNOWN else None,
        points_in_world=None if points is None else points.points_in_world,
        colours=None if points is None else points.rgb,
        normals_in_world=None if points is None else points.normals_in_world.astype(np.float64),
        original_from_world=original_from_canonical,
    )


def write_pictures(part: Path, job: ExportJob, frames: list[int]) -> list[str]:
    """The canonical video's frames as single pictures."""
    if job.request.pictures == "none":
        return []
    from geo.video import VideoFrames

    pictures, path = job.pictures, job.folder / layout.VIDEO
    width, height = pictures.camera.size_wh_px
    with VideoFrames(path) as video:
        if len(video) != len(pictures.names):
            raise FrontDoorError(f"{path}: {len(video)} frames, {len(pictures.names)} poses.")
        for frame in frames:
            write_image(part / pictures.names[frame], np.ascontiguousarray(video.read(frame)[:height, :width]))
    return [pictures.names[frame] for frame in frames]
