"""The static scene of a finished folder as one file: splats (standard or compressed PLY), points, a mesh.

Each is told in the world that was asked for: centres and vertices are moved, splats with their scales, rotations and
colours; see ``converters``.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from egospatial.errors import FrontDoorError
from egospatial.store import geometry_file, layout, recording_file, splats_file
from egospatial.store.atomic import atomic_path, missing
from geo.cameras import PinholeCamera
from geo.exporters import PosedPictures, Similarity, write_points

if TYPE_CHECKING:
    from collections.abc import Callable

    from recon.mesh import MeshConfig, TriangleMesh
    from recon.point_cloud import SplatPoints

SPLAT_FORMATS = ("ply", "compressed")


def points_of(folder: Path, camera_centres_in_world: Float[np.ndarray, "C 3"]) -> "SplatPoints | None":
    """Centres, colours and normals of the solid splats; None before the reconstruct stage."""
    if not (folder / layout.SPLATS).is_file():
        return None
    from recon.point_cloud import splat_points

    return splat_points(splats_file.read_splats(folder), camera_centres_in_world)


def write_points_ply(path: Path, folder: Path, pictures: PosedPictures) -> Path:
    """The points of the pictures.

    Raises:
        StoreError: the reconstruct stage has not run. FrontDoorError: its model is empty.
    """
    if pictures.points_in_world is None:
        raise missing(folder / layout.SPLATS)
    if not len(pictures.points_in_world):
        raise FrontDoorError(f"{folder / layout.SPLATS}: {_why_empty(folder)}")
    return write_points(path, pictures.points_in_world, pictures.colours, pictures.normals_in_world)


def write_splats(path: Path, folder: Path, format_name: str, new_from_canonical: Float[np.ndarray, "4 4"]) -> Path:
    """splats.ply itself, or told in another world, or compressed.

    Raises:
        FrontDoorError: an unknown format. StoreError: no splats.ply. ReconError: it is damaged, the matrix is no
            similarity, or the extra for compressed files is missing.
    """
    if format_name not in SPLAT_FORMATS:
        raise FrontDoorError(f"--format {format_name!r}: splats come as {' or '.join(SPLAT_FORMATS)}.")
    model = splats_file.read_splats(folder)  # refuses a damaged file before it is handed on
    moved = not np.array_equal(new_from_canonical, np.eye(4))
    if moved:
        from recon.transform import transform_model

        model = transform_model(model, new_from_canonical)
    with atomic_path(path) as temporary:
        if format_name == "compressed":
            from recon.compressed import compressed_bytes
            from recon.model import drop_bad

            temporary.write_bytes(compressed_bytes(drop_bad(model).model))
        elif moved:
            from recon.ply import write_splat_ply

            write_splat_ply(temporary, model)
        else:
            shutil.copyfile(folder / layout.SPLATS, temporary)
    return path


def write_mesh(
    path: Path,
    folder: Path,
    document: dict[str, Any],
    frames: geometry_file.Frames,
    new_from_canonical: Float[np.ndarray, "4 4"],
    voxel_m: float | None,
    progress: "Callable[[int, int, str], None] | None" = None,
) -> Path:
    """Mesh of the static scene, as the keyframes of the fit (held-out ones too) see it.

    Raises:
        FrontDoorError: an empty model; or the scale is unknown and no voxel is given. StoreError: the reconstruct stage
            has not run. ReconError: no surface, or more memory needed than allowed.
    """
    from recon.mesh import mesh_of_model, write_mesh_ply

    reconstruction = splats_file.read(folder)
    if not len(reconstruction.model.means_in_world):
        raise FrontDoorError(f"{folder / layout.SPLATS}: {_why_empty(folder)}")
    camera = recording_file.camera_from_json(document["canonical_camera"])
    if not isinstance(camera, PinholeCamera):
        raise FrontDoorError(f"{folder}: its canonical camera is no pinhole; run the rectify stage again.")
    report = reconstruction.report
    looked_at = sorted({*report.keyframes, *report.held_out_frames}) or range(len(frames.timestamps_ns))
    poses = frames.world_from_camera[list(looked_at)]
    config = _mesh_config(folder, document, reconstruction.model.means_in_world, voxel_m)
    mesh = _moved(mesh_of_model(reconstruction.model, camera, poses, config, progress), new_from_canonical)
    with atomic_path(path) as temporary:
        write_mesh_ply(temporary, mesh)
    return path


def _mesh_config(
    folder: Path, document: dict[str, Any], means_in_world: Float[np.ndarray, "N 3"], voxel_m: float | None
) -> "MeshConfig":
    from recon.mesh import MeshConfig

    if voxel_m is not None:
        return MeshConfig(voxel_m=voxel_m)
    if not document["world"]["metric"]:
        low, high = np.nanquantile(means_in_world, (0.05, 0.95), axis=0)
        raise FrontDoorError(
            f"{folder}: the scale is unknown, so no voxel can be chosen; give --voxel in the unit of the poses "
            f"(nine in ten splats lie within {float(np.max(high - low)):.3g} of it)."
        )
    return MeshConfig()


def _moved(mesh: "TriangleMesh", new_from_old: Float[np.ndarray, "4 4"]) -> "TriangleMesh":
    if np.array_equal(new_from_old, np.eye(4)):
        return mesh
    way = Similarity.of(new_from_old)
    return replace(
        mesh,
        vertices_in_world=way.points(mesh.vertices_in_world.astype(np.float64)).astype(np.float32),
        normals_in_world=(mesh.normals_in_world @ way.rotation.T).astype(np.float32),
    )


def _why_empty(folder: Path) -> str:
    """Why there is nothing to hand on, in the words of the reconstruct stage's report."""
    try:
        notes = splats_file.read(folder).report.notes
    except FrontDoorError:
        notes = ()
    return (
        f"holds no solid splat ({notes[0]})." if notes else "holds no solid splat; see the reconstruct stage's notes."
    )
