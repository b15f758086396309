"""nerfstudio's transforms.json: the inverse of ``geo.readers.nerfstudio``.

Poses are camera to world with OpenGL camera axes, ``cx`` and ``cy`` count from the corner of the first pixel. What the
recording's own files said about an older world (``original_from_world``) is said again as ``applied_transform`` and
``applied_scale``: file = applied_scale * (applied_transform @ original). ``metric``, ``up`` and ``timestamp_ns`` are
keys of this project; other readers pass over them.

Source: nerfstudio documentation, "Data conventions".
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from geo.cameras import Camera, PinholeCamera
from geo.errors import CameraError
from geo.exporters.records import PosedPictures, Similarity
from geo.readers.text_files import write_text

_OPENGL_FROM_CAMERA = np.diag([1.0, -1.0, -1.0, 1.0])
_HALF_PIXEL = 0.5
_NAMES = {"OPENCV": ("k1", "k2", "p1", "p2", "k3"), "KB4": ("k1", "k2", "k3", "k4")}


def transforms_document(
    pictures: PosedPictures,
    depth_names: Sequence[str | None] | None = None,
    depth_unit: float = 0.001,
    mask_name: str | Sequence[str | None] | None = None,
    points_name: str | None = None,
) -> dict[str, Any]:
    """The document; pictures without a pose are left out.

    Args:
        pictures: What to write; ``up`` is written where it is known.
        depth_names: A 16-bit PNG for every picture (None: that one has none), in the order of the pictures.
        depth_unit: What one count of these is in the unit of the poses.
        mask_name: One mask for all pictures, or one for every picture (None: that one has none), black where nothing
            is to be seen.
        points_name: A PLY of points in the world of the poses, from which splats are begun (``ply_file_path``).

    Raises:
        CameraError: nerfstudio has no such lens. PoseError: no pose, or ``original_from_world`` is no similarity.
    """
    kept = np.isfinite(pictures.world_from_camera).all(axis=(1, 2))
    known = pictures.known()
    depth = [None] * len(pictures.names) if depth_names is None else list(depth_names)
    document = {**_camera(known.camera), "metric": known.metric}
    if known.up is not None:
        document["up"] = known.up.tolist()
    document.update(_applied(known))
    if depth_names is not None:
        document["depth_unit_scale_factor"] = depth_unit
    if points_name is not None:
        document["ply_file_path"] = points_name
    masks = [mask_name] * len(kept) if mask_name is None or isinstance(mask_name, str) else list(mask_name)
    frames = []
    matrices = known.world_from_camera @ _OPENGL_FROM_CAMERA
    rows = zip(known.names, known.timestamps_ns.tolist(), matrices, np.flatnonzero(kept).tolist(), strict=True)
    for name, stamp, matrix, row in rows:
        frame: dict[str, Any] = {"file_path": name, "transform_matrix": matrix.tolist(), "timestamp_ns": stamp}
        for key, file in (("depth_file_path", depth[row]), ("mask_path", masks[row])):
            if file is not None:
                frame[key] = file
        frames.append(frame)
    return {**document, "frames": frames}


def write_nerfstudio(path: Path, document: dict[str, Any]) -> Path:
    """Write ``transforms_document``'s result as transforms.json.

    Raises:
        RecordingError: it cannot be written.
    """
    write_text(path, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    return path


def _camera(camera: Camera) -> dict[str, Any]:
    """Intrinsics by name."""
    fx, fy, cx, cy, *rest = camera.params.tolist()
    document: dict[str, Any] = {
        "camera_model": {"PINHOLE": "PINHOLE", "OPENCV": "OPENCV", "KB4": "OPENCV_FISHEYE"}.get(camera.model),
        "w": camera.width_px, "h": camera.height_px, "fl_x": fx, "fl_y": fy,
        "cx": cx + _HALF_PIXEL, "cy": cy + _HALF_PIXEL,
    }  # fmt: skip
    names = () if isinstance(camera, PinholeCamera) else _NAMES.get(camera.model, ())
    if document["camera_model"] is None or len(rest) > len(names):
        raise CameraError(
            f"nerfstudio has no lens for {camera.model} with {len(rest)} coefficients; export the rectified view"
        )
    return {**document, **dict(zip(names, rest, strict=False))}


def _applied(pictures: PosedPictures) -> dict[str, Any]:
    """applied_transform and applied_scale, where there is an older world."""
    older = pictures.original_from_world
    if older is None or (older == np.eye(4)).all():
        return {}
    way = Similarity.of(np.linalg.inv(older))  # world = scale * (rotation original + translation / scale)
    rows = np.concatenate([way.rotation, way.translation[:, None] / way.scale], axis=1)
    return {"applied_transform": rows.tolist(), "applied_scale": way.scale}
