"""From a model's name and numbers to a camera: the name decides, nothing is guessed."""

from collections.abc import Sequence

import numpy as np

from geo.cameras.base import Camera
from geo.cameras.kannala_brandt import KannalaBrandtCamera
from geo.cameras.pinhole import PinholeCamera
from geo.cameras.radtan import RadTanCamera
from geo.errors import CameraError

# name -> (what it is, parameter names, allowed counts)
CAMERA_MODELS: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "PINHOLE": ("pinhole", "fx fy cx cy [skew]", (4, 5)),
    "OPENCV": ("radtan", "fx fy cx cy k1 k2 p1 p2 [k3 [k4 k5 k6]]", (8, 9, 12)),
    "RADTAN": ("radtan", "fx fy cx cy k1 k2 p1 p2 [k3 [k4 k5 k6]]", (8, 9, 12)),
    "FULL_OPENCV": ("radtan", "fx fy cx cy k1 k2 p1 p2 k3 k4 k5 k6", (12,)),
    "KB3": ("kannala-brandt", "fx fy cx cy k1 k2 k3 k4", (8,)),
    "KB4": ("kannala-brandt", "fx fy cx cy k1 k2 k3 k4", (8,)),
    "OPENCV_FISHEYE": ("kannala-brandt", "fx fy cx cy k1 k2 k3 k4", (8,)),
}


def camera_from_params(
    model: str,
    size_wh_px: tuple[int, int],
    params: Sequence[float | int] | np.ndarray,
    valid_theta_rad: float | None = None,
) -> Camera:
    """Build a camera from the name of its model, image size and parameters (pixel centres at whole numbers).

    Args:
        model: One of ``CAMERA_MODELS``; upper and lower case are the same.
        size_wh_px: Width and height of the image.
        params: In the order that ``CAMERA_MODELS`` gives for the model.
        valid_theta_rad: The calibration's own limit on the angle from the optical axis.

    Raises:
        CameraError: unknown model, wrong number of parameters, impossible values.
    """
    name = str(model).upper()
    if name not in CAMERA_MODELS:
        raise CameraError(f"unknown camera model {model!r}; known are {', '.join(sorted(CAMERA_MODELS))}")
    family, names, counts = CAMERA_MODELS[name]
    values = [float(value) for value in np.asarray(params, dtype=np.float64).ravel()]
    if len(values) not in counts:
        expected = " or ".join(str(count) for count in counts)
        raise CameraError(
            f"camera model {name} has {expected} parameters ({names}), got {len(values)}: {values}. "
            f"Is it another model? Known are {', '.join(sorted(CAMERA_MODELS))}"
        )
    width, height = int(size_wh_px[0]), int(size_wh_px[1])
    if family == "pinhole":
        if valid_theta_rad is not None:
            raise CameraError("camera model PINHOLE has no valid angle: leave valid_theta out")
        return PinholeCamera(width, height, *values)
    kind = RadTanCamera if family == "radtan" else KannalaBrandtCamera
    fx, fy, cx, cy, *distortion = values
    return kind(width, height, fx, fy, cx, cy, tuple(distortion), valid_theta_rad)
