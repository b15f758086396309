"""Points as PLY: float64 coordinates, float32 normals, 8-bit colours; opened by MeshLab, CloudCompare, Open3D."""

import contextlib
import os
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8

from geo.errors import RecordingError, ShapeError


def write_points(
    path: Path,
    points_in_world: Float[np.ndarray, "P 3"],
    colours: UInt8[np.ndarray, "P 3"] | None = None,
    normals_in_world: Float[np.ndarray, "P 3"] | None = None,
) -> Path:
    """Write binary little-endian PLY; the file appears whole or not at all.

    Normals are unit vectors; 0 0 0 is unknown.

    Raises:
        ShapeError: points or normals that are not finite. RecordingError: it cannot be written.
    """
    columns = [("double", "<f8", ("x", "y", "z"), points_in_world)]
    if normals_in_world is not None:
        columns.append(("float", "<f4", ("nx", "ny", "nz"), normals_in_world))
    for kind, _, _, values in columns:
        bad = int((~np.isfinite(values).all(axis=1)).sum())
        if bad:
            raise ShapeError(f"{path}: {bad} {'points' if kind == 'double' else 'normals'} are not finite")
    if colours is not None:
        columns.append(("uchar", "u1", ("red", "green", "blue"), colours))
    header = "".join(f"property {kind} {name}\n" for kind, _, names, _ in columns for name in names)
    rows = np.zeros(len(points_in_world), dtype=[(name, code) for _, code, names, _ in columns for name in names])
    for _, _, names, values in columns:
        for i, name in enumerate(names):
            rows[name] = values[:, i]
    head = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(rows)}\n{header}end_header\n"
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(head.encode("ascii") + rows.tobytes())
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise RecordingError(f"{path} cannot be written: {error.strerror}") from error
    return path
