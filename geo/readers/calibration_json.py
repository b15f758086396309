"""calibration.json beside RGB-D data: matrices by name, and the camera of a calibration matrix."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from geo.cameras import PinholeCamera
from geo.errors import GeoError, RecordingError


def matrix_entry(
    data: dict[str, Any], name: str, shape: tuple[int, int], path: Path
) -> Float[np.ndarray, "R C"] | None:
    """A matrix under its name or with the ending ``_estimated``; None where there is neither.

    Raises:
        RecordingError: it has another shape, or holds something that is no finite number.
    """
    value = data.get(name, data.get(f"{name}_estimated"))
    if value is None:
        return None
    try:
        matrix = np.array(value, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        matrix = np.zeros(0)
    if matrix.shape != shape or not np.isfinite(matrix).all():
        raise RecordingError(f"{name} in {path} must be a {shape[0]}x{shape[1]} matrix of numbers")
    return matrix


def pinhole_of(k: Float[np.ndarray, "3 3"], size_wh_px: tuple[int, int], what: str) -> PinholeCamera:
    """Camera of a calibration matrix, refused where the images cannot be what was calibrated.

    Raises:
        RecordingError: the principal point is outside the middle 40 %, or the matrix is none of a camera.
    """
    width, height = size_wh_px
    cx, cy = float(k[0, 2]), float(k[1, 2])
    if not (0.3 * width <= cx <= 0.7 * width and 0.3 * height <= cy <= 0.7 * height):
        raise RecordingError(
            f"{what} are {width}x{height}, but the calibration's principal point is ({cx:g}, {cy:g}): "
            "they do not belong together; was one of them resized or cropped?"
        )
    try:
        return PinholeCamera(width, height, float(k[0, 0]), float(k[1, 1]), cx, cy, float(k[0, 1]))
    except GeoError as error:
        raise RecordingError(f"calibration of {what}: {error}") from error
