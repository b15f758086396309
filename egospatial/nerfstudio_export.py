"""The folder that nerfstudio trains from: transforms.json, pictures, masks, depth, and points to begin with."""

from pathlib import Path

import numpy as np

from egospatial import model_exports
from egospatial.errors import FrontDoorError
from egospatial.export_job import SAME_SCALE, ExportJob, write_pictures
from egospatial.store import geometry_file, layout, splats_file
from egospatial.store.atomic import write_bytes
from egospatial.view.images import write_image
from geo.exporters import Similarity, transforms_document
from geo.exporters import write_nerfstudio as write_document

_MASK = "masks/valid.png"
_POINTS = "sparse_pc.ply"


def write_nerfstudio(part: Path, job: ExportJob) -> list[str]:
    """Fill a folder; gives the names of the files."""
    names = write_pictures(part, job, job.kept)
    masks, mask_files = _write_masks(part, job)
    depth, unit = _write_depth(part, job) if job.request.depth else (None, 0.001)
    points = None
    if job.pictures.points_in_world is not None and len(job.pictures.points_in_world):
        model_exports.write_points_ply(part / _POINTS, job.folder, job.pictures)
        points = _POINTS
    write_document(part / "transforms.json", transforms_document(job.pictures, depth, unit, masks, points))
    listed = [name for name in depth or [] if name is not None]
    return ["transforms.json", *mask_files, *([points] if points else []), *names, *listed]


def _write_masks(part: Path, job: ExportJob) -> tuple[str | list[str | None] | None, list[str]]:
    """Masks, black where a trainer should not look: what the lens does not show; with "static" also what may move."""
    if job.request.masks == "none":
        return None, []
    valid = job.frames.valid_mask
    if job.request.masks == "valid":
        write_image(part / _MASK, _grey(valid))
        return _MASK, [_MASK]
    moving = splats_file.read(job.folder).dynamic
    if len(moving.masks) != len(job.pictures.names):
        raise FrontDoorError(
            f"{job.folder / layout.RECONSTRUCTION}: masks of {len(moving.masks)} frames for {len(job.pictures.names)}; "
            "run the reconstruct stage again."
        )
    names: list[str | None] = [None] * len(job.pictures.names)
    for frame in job.kept:
        names[frame] = f"masks/{frame:06d}.png"
        write_image(part / f"masks/{frame:06d}.png", _grey(valid & ~moving.at(frame, (valid.shape[1], valid.shape[0]))))
    return names, [name for name in names if name is not None]


def _grey(mask: np.ndarray) -> np.ndarray:
    return np.repeat(mask[..., None] * np.uint8(255), 3, axis=2)


def _write_depth(part: Path, job: ExportJob) -> tuple[list[str | None], float]:
    """Fused depth as 16-bit PNG: counts times the unit are lengths in the unit of the poses; 0 is none."""
    import cv2

    reader = geometry_file.DepthReader(job.folder)
    names: list[str | None] = [None] * len(job.pictures.names)
    for frame in job.kept:
        stored = geometry_file.linear_counts(reader.read(frame), reader.unit_m)[0]
        names[frame] = f"depth/{frame:06d}.png"
        write_bytes(part / f"depth/{frame:06d}.png", cv2.imencode(".png", stored)[1].tobytes())
    scale = Similarity.of(job.new_from_canonical).scale
    return names, reader.unit_m * (1.0 if abs(scale - 1) < SAME_SCALE else scale)
