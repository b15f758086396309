"""``egospatial export --what nerfstudio|colmap|plain|tum|points|mesh|splats``: a finished recording for other tools.

What is exported is the canonical view: pinhole pictures, their poses, the splats or what is made of them, on request
the fused depth. ``world`` says in which world it is told: ``canonical`` (that of every other result here; the default),
``source`` (that of the recording's own files: the turn to +z up is undone), ``original`` (also what these files say
about an older world is undone: nerfstudio's applied_transform and applied_scale).
"""

from dataclasses import replace
from pathlib import Path

from egospatial import model_exports
from egospatial.errors import FrontDoorError
from egospatial.export_job import FOLDERS, ConvertRequest, ExportJob, Progress, job_of, write_pictures
from egospatial.nerfstudio_export import write_nerfstudio
from egospatial.replacing import folder_beside
from egospatial.store import layout
from egospatial.store.atomic import write_failure
from geo.exporters import PosedPictures, write_colmap, write_plain

FILES = {"tum": "poses.txt", "points": "points.ply", "ply": "points.ply", "mesh": "mesh.ply", "splats": layout.SPLATS}
CONVERTERS = (*FOLDERS, "tum", "points", "mesh", "splats")  # "ply" is the older name of "points"
_WRITTEN = {  # what an export's folder holds, first what it always holds
    "nerfstudio": ("transforms.json", "images", "masks", "depth", "sparse_pc.ply"),
    "colmap": ("sparse", "images"),
    "plain": ("recording.json", "trajectory.csv", "images"),
}


def convert(folder: Path, request: ConvertRequest, target: Path | None, progress: Progress | None = None) -> list[Path]:
    """Write the export; gives the files written.

    Raises:
        FrontDoorError: the target is there already and ``force`` is not set. StoreError: a result is missing or
            damaged. GeoError: the format cannot hold the recording. ReconError: splats that cannot be handed on.
    """
    path = target or folder / "export" / FILES.get(request.what, request.what)
    if path.exists() and not request.force:
        raise FrontDoorError(f"{path}: is there already; give --force to replace it, or another --to.")
    job = job_of(folder, request)
    if request.what in FOLDERS:
        sources = [folder / name for name in (layout.RECORDING, layout.GEOMETRY, layout.VIDEO, layout.SPLATS)]
        with folder_beside(path, _is_export, sources) as part:
            names = _FOLDER_WRITERS[request.what](part, job)
        return [path / name for name in names]
    if path.is_dir():
        raise FrontDoorError(f"{path}: {request.what} is one file, and cannot go there; give the name of a file.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_failure(path, error) or error from error
    return [_write_file(path, job, progress)]


def _is_export(folder: Path) -> bool:
    """True for a folder that holds one of the exports and nothing else."""
    names = {entry.name for entry in folder.iterdir()}
    return any(known[0] in names and names <= set(known) for known in _WRITTEN.values())


def _write_file(path: Path, job: ExportJob, progress: Progress | None) -> Path:
    what, request = job.request.what, job.request
    if what == "tum":
        return _write_tum(path, job.pictures)
    if what == "splats":
        return model_exports.write_splats(path, job.folder, request.format, job.new_from_canonical)
    if what == "mesh":
        return model_exports.write_mesh(
            path, job.folder, job.document, job.frames, job.new_from_canonical, request.voxel, progress
        )
    return model_exports.write_points_ply(path, job.folder, job.pictures)


def _write_tum(path: Path, pictures: PosedPictures) -> Path:
    from geo.readers.trajectory_files import write_tum
    from geo.trajectory import Trajectory

    known = pictures.known()
    write_tum(path, Trajectory(known.timestamps_ns, known.world_from_camera))
    return path


def _to_colmap(part: Path, job: ExportJob) -> list[str]:
    (part / "sparse" / "0").mkdir(parents=True)
    written = write_pictures(part, job, job.kept)
    bare = replace(job.pictures, names=tuple(name.removeprefix("images/") for name in job.pictures.names))
    files = write_colmap(part / "sparse" / "0", bare)
    return [*(str(path.relative_to(part)) for path in files), *written]


def _to_plain(part: Path, job: ExportJob) -> list[str]:
    """All frames: the layout has gaps, so frames without a pose stay."""
    written = write_pictures(part, job, list(range(len(job.pictures.names))))
    ending = Path(job.pictures.names[0]).suffix
    pattern = {"images": f"images/%06d{ending}", "first": 0}
    files = write_plain(part, job.document["recording_id"], job.pictures, pattern)
    return [*(path.name for path in files), *written]


_FOLDER_WRITERS = {"nerfstudio": write_nerfstudio, "colmap": _to_colmap, "plain": _to_plain}
