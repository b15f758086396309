"""COLMAP text: cameras.txt, images.txt, points3D.txt; the inverse of ``geo.readers.colmap``.

Numbers are written in the shortest form that reads back to the same float. Points carry no tracks: which picture saw
which point is not known here.

Source: COLMAP documentation, "Output Format", text.
"""

from pathlib import Path

import numpy as np

from geo import se3
from geo.errors import PoseError
from geo.exporters.records import PosedPictures
from geo.readers.colmap.cameras import model_of
from geo.readers.pose_rows import quats_for_writing
from geo.readers.text_files import write_text

_NO_ERROR = "-1"  # reprojection error: not computed


def write_colmap(folder: Path, pictures: PosedPictures) -> list[Path]:
    """Write the three files into an existing folder; pictures without a pose are left out.

    Raises:
        CameraError: COLMAP has no such camera model. PoseError: no pose. RecordingError: a file cannot be written.
    """
    known = pictures.known()
    model = model_of(known.camera)
    params = " ".join(map(repr, model.params))
    cameras = [
        "# Camera list with one line of data per camera:",
        "#   CAMERA_ID, MODEL, WIDTH, HEIGHT, PARAMS[]",
        f"1 {model.name} {known.camera.width_px} {known.camera.height_px} {params}",
    ]
    files = {"cameras.txt": cameras, "images.txt": _images(known), "points3D.txt": _points(known)}
    for name, lines in files.items():
        write_text(folder / name, "\n".join(lines) + "\n")
    return [folder / name for name in files]


def _images(pictures: PosedPictures) -> list[str]:
    """Two lines an image, the second empty: there are no observations."""
    for name in pictures.names:
        if not name.strip() or "\n" in name:
            raise PoseError(f"{name!r} is no name that images.txt can hold")
    camera_from_world = se3.inverse(pictures.world_from_camera)
    lines = [
        "# Image list with two lines of data per image:",
        "#   IMAGE_ID, QW, QX, QY, QZ, TX, TY, TZ, CAMERA_ID, NAME",
        "#   POINTS2D[] as (X, Y, POINT3D_ID)",
        f"# Number of images: {len(pictures.names)}",
    ]
    quats = quats_for_writing(camera_from_world[:, :3, :3])
    for i, (name, quat, pose) in enumerate(zip(pictures.names, quats, camera_from_world, strict=True), start=1):
        numbers = " ".join(map(repr, [*quat.tolist(), *pose[:3, 3].tolist()]))
        lines += [f"{i} {numbers} 1 {name}", ""]
    return lines


def _points(pictures: PosedPictures) -> list[str]:
    """One line a point; grey where colours are unknown."""
    lines = [
        "# 3D point list with one line of data per point:",
        "#   POINT3D_ID, X, Y, Z, R, G, B, ERROR, TRACK[] as (IMAGE_ID, POINT2D_IDX)",
    ]
    points = pictures.points_in_world
    if points is None:
        return lines
    colours = np.full((len(points), 3), 128, dtype=np.uint8) if pictures.colours is None else pictures.colours
    lines.append(f"# Number of points: {len(points)}")
    for i, (point, colour) in enumerate(zip(points.tolist(), colours.tolist(), strict=True), start=1):
        lines.append(f"{i} {' '.join(map(repr, point))} {' '.join(map(str, colour))} {_NO_ERROR}")
    return lines
