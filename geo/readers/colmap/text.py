"""The text form of a COLMAP model: cameras.txt, images.txt (``geo.readers.sfm_poses``), points3D.txt.

Source: COLMAP documentation, "Output Format", text.
"""

from pathlib import Path

import numpy as np

from geo.cameras import Camera
from geo.errors import RecordingError
from geo.readers.colmap.cameras import camera_of
from geo.readers.colmap.records import ColmapPoints, SparseModel, points_of
from geo.readers.sfm_poses import read_colmap_images
from geo.readers.text_files import data_lines, number_of, read_text, shown, whole_of

_MAX_SIDE = 1 << 31


def read_text_model(folder: Path, warnings: list[str]) -> SparseModel:
    """cameras.txt, images.txt and points3D.txt of a folder; the last need not be there.

    Raises:
        RecordingError, CameraError, PoseError: what is wrong, with file and line.
    """
    points = folder / "points3D.txt"
    return SparseModel(
        _cameras(folder / "cameras.txt"),
        read_colmap_images(folder / "images.txt", warnings),
        _points(points, warnings) if points.is_file() else _none(),
    )


def _none() -> ColmapPoints:
    return ColmapPoints(np.zeros((0, 3)), np.zeros((0, 3), dtype=np.uint8), np.zeros(0))


def _cameras(path: Path) -> dict[int, Camera]:
    """CAMERA_ID MODEL WIDTH HEIGHT PARAMS[]."""
    out: dict[int, Camera] = {}
    lines: dict[int, int] = {}
    for line, text in data_lines(read_text(path)):
        where = f"{path} line {line}"
        cells = text.split()
        if len(cells) < 5:
            raise RecordingError(
                f"{where}: expected 'CAMERA_ID MODEL WIDTH HEIGHT PARAMS[]', got {shown(text)}; is it cut off?"
            )
        camera_id = whole_of(cells[0], f"{where}: CAMERA_ID")
        if camera_id in out:
            raise RecordingError(f"{path} lines {lines[camera_id]} and {line} have the same CAMERA_ID {camera_id}")
        size = tuple(
            whole_of(cell, f"{where}: {name}") for cell, name in zip(cells[2:4], ("WIDTH", "HEIGHT"), strict=True)
        )
        params = [number_of(cell, f"{where}: parameter {i}") for i, cell in enumerate(cells[4:], start=1)]
        out[camera_id] = camera_of(cells[1], (min(size[0], _MAX_SIDE), min(size[1], _MAX_SIDE)), params, where)
        lines[camera_id] = line
    if not out:
        raise RecordingError(f"{path} holds no camera; is it cut off?")
    return out


def _points(path: Path, warnings: list[str]) -> ColmapPoints:
    """POINT3D_ID X Y Z R G B ERROR TRACK[] as (IMAGE_ID, POINT2D_IDX)."""
    points: list[list[float]] = []
    colours: list[list[int]] = []
    errors: list[float] = []
    seen: dict[int, int] = {}
    for line, text in data_lines(read_text(path)):
        where = f"{path} line {line}"
        cells = text.split(maxsplit=8)
        if len(cells) < 8 or (len(cells) == 9 and len(cells[8].split()) % 2):
            raise RecordingError(
                f"{where}: expected 'POINT3D_ID X Y Z R G B ERROR TRACK[]', got {shown(text)}; is it cut off?"
            )
        point_id = whole_of(cells[0], f"{where}: POINT3D_ID")
        if point_id in seen:
            raise RecordingError(f"{path} lines {seen[point_id]} and {line} have the same POINT3D_ID {point_id}")
        seen[point_id] = line
        points.append([number_of(cell, f"{where}: {axis}") for cell, axis in zip(cells[1:4], "XYZ", strict=True)])
        colours.append([_grey(cell, f"{where}: {name}") for cell, name in zip(cells[4:7], "RGB", strict=True)])
        errors.append(number_of(cells[7], f"{where}: ERROR"))
    return points_of(
        np.array(points, dtype=np.float64).reshape(-1, 3),
        np.array(colours, dtype=np.uint8).reshape(-1, 3),
        np.array(errors, dtype=np.float64),
        path.name,
        warnings,
    )


def _grey(text: str, what: str) -> int:
    """A colour value."""
    value = whole_of(text, what)
    if not 0 <= value <= 255:
        raise RecordingError(f"{what} = {value} is no colour value; expected 0..255")
    return value
