"""What the text and the binary form of a COLMAP model both hold, before it becomes a recording."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8

from geo.cameras import Camera
from geo.errors import RecordingError
from geo.readers.sfm_poses import NamedPoses

_MAX_COORDINATE = 1e9


@dataclass(frozen=True)
class ColmapPoints:
    """points3D: coordinates in the model's world, colours, mean reprojection error in pixels (-1: unknown)."""

    points: Float[np.ndarray, "P 3"]
    colours: UInt8[np.ndarray, "P 3"]
    errors_px: Float[np.ndarray, "P"]


@dataclass(frozen=True)
class SparseModel:
    """Cameras by id, poses by image name, points (empty where the model has none)."""

    cameras: dict[int, Camera]
    images: NamedPoses
    points: ColmapPoints


def points_of(
    points: Float[np.ndarray, "P 3"],
    colours: UInt8[np.ndarray, "P 3"],
    errors_px: Float[np.ndarray, "P"],
    name: str,
    warnings: list[str],
) -> ColmapPoints:
    """Points that can be; the others are counted in a warning and left out."""
    with np.errstate(invalid="ignore"):
        known = (np.abs(points) <= _MAX_COORDINATE).all(axis=1)
    lost = int((~known).sum())
    if lost:
        warnings.append(f"{name}: {lost} of {len(points)} points are not finite or out of this world, and left out")
    return ColmapPoints(points[known], colours[known], errors_px[known])


def check_camera_ids(cameras: dict[int, Camera], images: NamedPoses, where: str) -> None:
    """Every image's camera must be there.

    Raises:
        RecordingError: one is not; the image is named.
    """
    for name, camera_id in zip(images.names, images.camera_ids.tolist(), strict=True):
        if camera_id not in cameras:
            raise RecordingError(
                f"{where}: image {name!r} has camera {camera_id}, which the cameras file does not hold "
                f"(it has {', '.join(map(str, list(cameras)[:10])) or 'none'}); do the files belong together?"
            )
