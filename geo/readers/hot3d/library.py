"""HOT3D's object library: names in ``instance.json``, meshes as ``<uid>.glb`` in metres.

It is looked for in the sequence's folder (``object_library``, ``assets``) and nowhere above it: a reader does not leave
the folder it was given. Where the library is elsewhere, ``EGOSPATIAL_HOT3D_LIBRARY`` names it.
"""

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from geo.errors import RecordingError
from geo.readers.json_values import json_object

ENVIRONMENT = "EGOSPATIAL_HOT3D_LIBRARY"
_FOLDERS = ("object_library", "assets")
_NAMES = "instance.json"
_GLB_MAGIC, _JSON_CHUNK = b"glTF", b"JSON"
_MAX_M = 1e3
_MAX_DEPTH = 32


def find_library(folder: Path) -> Path | None:
    """The library's folder, or None.

    Raises:
        RecordingError: the environment names a folder that does not exist.
    """
    named = os.environ.get(ENVIRONMENT)
    if named:
        if not Path(named).is_dir():
            raise RecordingError(f"{ENVIRONMENT} = {named!r} is no folder; name the one that holds {_NAMES}")
        return Path(named)
    for name in _FOLDERS:
        if (folder / name).is_dir() and (folder / name).resolve().is_relative_to(folder.resolve()):
            return folder / name
    return None


def read_names(library: Path) -> dict[str, str]:
    """Names by uid.

    Raises:
        RecordingError: ``instance.json`` is damaged, or an entry has no name.
    """
    path = library / _NAMES
    if not path.is_file():
        return {}
    names = {}
    for uid, entry in json_object(path).items():
        name = entry.get("instance_name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name:
            raise RecordingError(f"{path}: instance {uid[:40]!r} has no instance_name; is it another file?")
        names[uid] = name
    return names


def mesh_bounds(path: Path) -> Float[np.ndarray, "2 3"]:
    """Lower and upper corner of a GLB mesh in its own axes, from the bounds that the format requires it to state.

    A part that is turned inside the file gives the box of its turned bounds, which may be larger than the mesh.

    Raises:
        RecordingError: no GLB, cut off, damaged, or without a mesh.

    Source: Khronos, glTF 2.0 specification, "Binary glTF Layout" and "Accessors Bounds".
    """
    try:
        document = _document(path)
        corners: list[np.ndarray] = []
        scene = document["scenes"][document.get("scene", 0)]
        for node in scene["nodes"]:
            _collect(document, node, np.eye(4), corners, 0)
        points = np.concatenate(corners)
        if not np.isfinite(points).all():
            raise ValueError("bounds are not finite")
    except RecordingError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise RecordingError(f"mesh {path} is damaged or holds no mesh ({type(error).__name__}: {error})") from error
    return np.stack([points.min(axis=0), points.max(axis=0)])


def _document(path: Path) -> Any:
    """The JSON chunk of a GLB."""
    try:
        with path.open("rb") as file:
            head = file.read(20)
            if len(head) < 20 or head[:4] != _GLB_MAGIC or head[16:20] != _JSON_CHUNK:
                raise RecordingError(f"mesh {path} is no GLB file")
            _, total, length = struct.unpack("<III", head[4:16])
            if path.stat().st_size < total:
                raise RecordingError(f"mesh {path} is cut off ({path.stat().st_size} of {total} bytes); fetch it anew")
            return json.loads(file.read(min(length, total)))
    except OSError as error:
        raise RecordingError(f"mesh {path} cannot be read: {error.strerror}") from error


def _collect(
    document: Any, index: int, parent: Float[np.ndarray, "4 4"], corners: list[np.ndarray], depth: int
) -> None:
    """Corners of the bounds of all parts below a node, in the scene's axes."""
    if depth > _MAX_DEPTH:
        raise ValueError("nodes within nodes without end")
    node = document["nodes"][index]
    own = _node_matrix(node)
    if not (np.abs(own) < _MAX_M).all() or not (np.abs(parent) < _MAX_M).all():
        raise ValueError("a part is more than a kilometre away or larger, or its place is no number")
    matrix = parent @ own
    if "mesh" in node:
        for part in document["meshes"][node["mesh"]]["primitives"]:
            bounds = document["accessors"][part["attributes"]["POSITION"]]
            box = np.array([bounds["min"], bounds["max"]], dtype=np.float64)
            if not (np.abs(box) < _MAX_M).all():
                raise ValueError("a part is larger than a kilometre, or no number")
            grid = np.stack(np.meshgrid(*box.T, indexing="ij"), axis=-1).reshape(-1, 3)
            corners.append(grid @ matrix[:3, :3].T + matrix[:3, 3])
    for child in node.get("children", []):
        _collect(document, child, matrix, corners, depth + 1)


def _node_matrix(node: Any) -> Float[np.ndarray, "4 4"]:
    """parent_from_node: a matrix (column after column), or translation, rotation (x, y, z, w) and scale."""
    from geo import se3

    if "matrix" in node:
        return np.array(node["matrix"], dtype=np.float64).reshape(4, 4).T
    x, y, z, w = (float(value) for value in node.get("rotation", (0, 0, 0, 1)))
    out = np.eye(4)
    rotation = se3.rotation_from_quat_wxyz(np.array([w, x, y, z]))
    out[:3, :3] = rotation * np.array(node.get("scale", (1, 1, 1)), dtype=np.float64)
    out[:3, 3] = node.get("translation", (0, 0, 0))
    return out
