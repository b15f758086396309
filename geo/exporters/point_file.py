"""Points as a PLY file: float64 coordinates, 8-bit colours; opened by MeshLab, CloudCompare, Open3D."""

import contextlib
import os
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8

from geo.errors import RecordingError, ShapeError


def write_points(
    path: Path, points_in_world: Float[np.ndarray, "P 3"], colours: UInt8[np.ndarray, "P 3"] | None = None
) -> Path:
    """Write binary little-endian PLY; the file appears whole or not at all.

    Raises:
        ShapeError: points that are not finite. RecordingError: it cannot be written.
    """
    if not np.isfinite(points_in_world).all():
        raise ShapeError(f"{path}: {int((~np.isfinite(points_in_world).all(axis=1)).sum())} points are not finite")
    fields = [(axis, "<f8") for axis in "xyz"]
    header = "".join(f"property double {axis}\n" for axis in "xyz")
    if colours is not None:
        fields += [(name, "u1") for name in ("red", "green", "blue")]
        header += "".join(f"property uchar {name}\n" for name in ("red", "green", "blue"))
    rows = np.zeros(len(points_in_world), dtype=fields)
    for i, axis in enumerate("xyz"):
        rows[axis] = points_in_world[:, i]
    if colours is not None:
        for i, name in enumerate(("red", "green", "blue")):
            rows[name] = colours[:, i]
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
