"""``egospatial export --what nerfstudio|colmap|tum|plain|ply``: a finished recording on its way to another tool.

What is exported is the canonical view: pinhole pictures, their poses, the splats' centres as points, on request the
fused depth. ``world`` says in which world it is told: ``canonical`` (that of every other result here; the default),
``source`` (that of the recording's own files: the turn to +z up is undone), ``original`` (also what these files say
about an older world is undone: nerfstudio's applied_transform and applied_scale).
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from egospatial.errors import FrontDoorError
from egospatial.replacing import folder_beside
from egospatial.store import geometry_file, layout, recording_file, splats_file
from egospatial.store.atomic import missing, write_bytes, write_failure
from egospatial.view.images import write_image
from geo.exporters import (
    PosedPictures,
    Similarity,
    in_world,
    transforms_document,
    write_colmap,
    write_nerfstudio,
    write_plain,
    write_points,
)
from geo.world import Gravity

CONVERTERS = ("nerfstudio", "colmap", "plain", "tum", "ply")
WORLDS = ("canonical", "source", "original")
PICTURES = ("jpg", "png", "none")
_WRITTEN = {  # what an export's folder holds, first what it always holds
    "nerfstudio": ("transforms.json", "images", "masks", "depth"),
    "colmap": ("sparse", "images"),
    "plain": ("recording.json", "trajectory.csv", "images"),
}
_MIN_OPACITY = 0.5
_MASK = "masks/valid.png"


@dataclass(frozen=True)
class ConvertRequest:
    """What to write and how."""

    what: str
    world: str = "canonical"
    pictures: str = "jpg"
    depth: bool = False
    force: bool = False

    def __post_init__(self) -> None:
        """Refuse what is not there."""
        if self.world not in WORLDS:
            raise FrontDoorError(f"--world {self.world!r}: expected {', '.join(WORLDS)}.")
        if self.pictures not in PICTURES:
            raise FrontDoorError(f"--pictures {self.pictures!r}: expected {', '.join(PICTURES)}.")
        if self.depth and self.what != "nerfstudio":
            raise FrontDoorError(f"--depth: {self.what} has no place for depth; only nerfstudio has.")


def convert(folder: Path, request: ConvertRequest, target: Path | None) -> list[Path]:
    """Write the export; gives the files written.

    Raises:
        FrontDoorError: the target is there already and ``force`` is not set. StoreError: a result is missing or
            damaged. GeoError: the format cannot hold the recording.
    """
    document = recording_file.read(folder)
    pictures = pictures_of(folder, document, request)
    single = {"tum": "poses.txt", "ply": "points.ply"}.get(request.what)
    path = target or folder / "export" / (single or request.what)
    sources = [folder / layout.RECORDING, folder / layout.GEOMETRY, folder / layout.VIDEO]
    if path.exists() and not request.force:
        raise FrontDoorError(f"{path}: is there already; give --force to replace it, or another --to.")
    if single is None:
        with folder_beside(path, _is_export, sources) as part:
            names = _WRITERS[request.what](part, folder, document, pictures, request)
        return [path / name for name in names]
    if path.is_dir():
        raise FrontDoorError(f"{path}: {request.what} is one file, and cannot go there; give the name of a file.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_failure(path, error) or error from error
    return [_write_points(path, folder, pictures) if request.what == "ply" else _write_tum(path, pictures)]


def _is_export(folder: Path) -> bool:
    """True for a folder that holds one of the exports and nothing else."""
    names = {entry.name for entry in folder.iterdir()}
    return any(known[0] in names and names <= set(known) for known in _WRITTEN.values())


def pictures_of(folder: Path, document: dict[str, Any], request: ConvertRequest) -> PosedPictures:
    """The finished recording as exporters take it, in the world that was asked for."""
    frames = geometry_file.read_frames(folder)
    world = recording_file.world_from_json(document["world"])
    world_from_source = world.world_from_source_world
    original_from_source = recording_file.original_from_source_world(document)
    points, colours = _splat_points(folder)
    ending = "jpg" if request.pictures == "none" else request.pictures
    canonical = PosedPictures(
        camera=recording_file.camera_from_json(document["canonical_camera"]),
        names=tuple(f"images/{frame:06d}.{ending}" for frame in range(len(frames.timestamps_ns))),
        timestamps_ns=frames.timestamps_ns,
        world_from_camera=frames.world_from_camera,
        metric=world.metric,
        # An up that is only estimated is not handed on: these formats would say it is known.
        up=np.array([0.0, 0.0, 1.0]) if world.gravity is Gravity.KNOWN else None,
        points_in_world=points,
        colours=colours,
        original_from_world=original_from_source @ np.linalg.inv(world_from_source),
    )
    if request.world == "canonical":
        return canonical
    way = np.linalg.inv(world_from_source)
    metric = world.metric
    if request.world == "original":
        way = original_from_source @ way
        metric = metric and abs(Similarity.of(original_from_source).scale - 1) < 1e-9
    return in_world(canonical, way, metric)


def _splat_points(folder: Path) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Centres and colours of the splats that are more solid than not; None before the reconstruct stage."""
    if not (folder / layout.SPLATS).is_file():
        return None, None
    from recon.model import SH_C0

    model = splats_file.read_splats(folder)
    solid = model.opacity_logits > np.log(_MIN_OPACITY / (1 - _MIN_OPACITY))
    colours = np.clip(np.rint((0.5 + SH_C0 * model.sh_coeffs[solid, 0]) * 255), 0, 255).astype(np.uint8)
    return model.means_in_world[solid].astype(np.float64), colours


def _write_tum(path: Path, pictures: PosedPictures) -> Path:
    from geo.readers.trajectory_files import write_tum
    from geo.trajectory import Trajectory

    known = pictures.known()
    write_tum(path, Trajectory(known.timestamps_ns, known.world_from_camera))
    return path


def _write_points(path: Path, folder: Path, pictures: PosedPictures) -> Path:
    if pictures.points_in_world is None:
        raise missing(folder / layout.SPLATS)
    return write_points(path, pictures.points_in_world, pictures.colours)


def _write_pictures(
    part: Path, folder: Path, pictures: PosedPictures, kept: list[int], request: ConvertRequest
) -> list[str]:
    """The canonical video's frames as single pictures."""
    if request.pictures == "none":
        return []
    from geo.video import VideoFrames

    width, height = pictures.camera.size_wh_px
    with VideoFrames(folder / layout.VIDEO) as video:
        if len(video) != len(pictures.names):
            raise FrontDoorError(f"{folder / layout.VIDEO}: {len(video)} frames, {len(pictures.names)} poses.")
        for frame in kept:
            write_image(part / pictures.names[frame], np.ascontiguousarray(video.read(frame)[:height, :width]))
    return [pictures.names[frame] for frame in kept]


def _kept(pictures: PosedPictures) -> list[int]:
    rows: list[int] = np.flatnonzero(np.isfinite(pictures.world_from_camera).all(axis=(1, 2))).tolist()
    return rows


def _to_nerfstudio(
    part: Path, folder: Path, document: dict[str, Any], pictures: PosedPictures, request: ConvertRequest
) -> list[str]:
    kept = _kept(pictures)
    names = _write_pictures(part, folder, pictures, kept, request)
    frames = geometry_file.read_frames(folder)
    write_image(part / _MASK, np.repeat(frames.valid_mask[..., None] * np.uint8(255), 3, axis=2))
    depth, unit = _write_depth(part, folder, pictures, kept, request) if request.depth else (None, 0.001)
    write_nerfstudio(part / "transforms.json", transforms_document(pictures, depth, unit, _MASK))
    listed = [name for name in depth or [] if name is not None]
    return ["transforms.json", _MASK, *names, *listed]


def _write_depth(
    part: Path, folder: Path, pictures: PosedPictures, kept: list[int], request: ConvertRequest
) -> tuple[list[str | None], float]:
    """Fused depth as 16-bit PNG: counts times the unit are lengths in the unit of the poses; 0 is none."""
    reader = geometry_file.DepthReader(folder)
    poses = geometry_file.read_frames(folder).world_from_camera
    scale = 1.0
    if request.world == "original":
        scale = Similarity.of(recording_file.original_from_source_world(recording_file.read(folder))).scale
    names: list[str | None] = [None] * len(poses)
    import cv2

    for frame in kept:
        stored = geometry_file.linear_counts(reader.read(frame), reader.unit_m)[0]
        names[frame] = f"depth/{frame:06d}.png"
        write_bytes(part / f"depth/{frame:06d}.png", cv2.imencode(".png", stored)[1].tobytes())
    return names, reader.unit_m * scale


def _to_colmap(
    part: Path, folder: Path, document: dict[str, Any], pictures: PosedPictures, request: ConvertRequest
) -> list[str]:
    (part / "sparse" / "0").mkdir(parents=True)
    written = _write_pictures(part, folder, pictures, _kept(pictures), request)
    bare = replace(pictures, names=tuple(name.removeprefix("images/") for name in pictures.names))
    files = write_colmap(part / "sparse" / "0", bare)
    return [*(str(path.relative_to(part)) for path in files), *written]


def _to_plain(
    part: Path, folder: Path, document: dict[str, Any], pictures: PosedPictures, request: ConvertRequest
) -> list[str]:
    """All frames: the layout has gaps, so frames without a pose stay."""
    everything = list(range(len(pictures.names)))
    written = _write_pictures(part, folder, pictures, everything, request)
    ending = Path(pictures.names[0]).suffix
    pattern = {"images": f"images/%06d{ending}", "first": 0}
    files = write_plain(part, document["recording_id"], pictures, pattern)
    return [*(path.name for path in files), *written]


_WRITERS = {"nerfstudio": _to_nerfstudio, "colmap": _to_colmap, "plain": _to_plain}
