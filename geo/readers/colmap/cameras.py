"""COLMAP's camera models: names, numbers in binary files, parameter lists; half a pixel ends here.

COLMAP puts the centre of the first pixel at (0.5, 0.5): our principal point is half a pixel less. No model's distortion
counts in pixels, so nothing else changes.

Source: COLMAP documentation, "Camera Models"; the numbers are those of its binary format.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from geo.cameras import Camera, PinholeCamera, camera_from_params
from geo.errors import CameraError

# name -> (number in cameras.bin, count of parameters, position of cx, model here); cy follows cx in every list
_MODELS: dict[str, tuple[int, int, int, str]] = {
    "SIMPLE_PINHOLE": (0, 3, 1, "SIMPLE_PINHOLE"),
    "PINHOLE": (1, 4, 2, "PINHOLE"),
    "SIMPLE_RADIAL": (2, 4, 1, "SIMPLE_RADIAL"),
    "RADIAL": (3, 5, 1, "RADIAL"),
    "OPENCV": (4, 8, 2, "OPENCV"),
    "OPENCV_FISHEYE": (5, 8, 2, "OPENCV_FISHEYE"),
    "FULL_OPENCV": (6, 12, 2, "FULL_OPENCV"),
    "FOV": (7, 5, 2, "FOV"),
    "SIMPLE_RADIAL_FISHEYE": (8, 4, 1, "SIMPLE_RADIAL_FISHEYE"),
    "RADIAL_FISHEYE": (9, 5, 1, "RADIAL_FISHEYE"),
    "THIN_PRISM_FISHEYE": (10, 12, 2, "THIN_PRISM_FISHEYE"),
    "RAD_TAN_THIN_PRISM_FISHEYE": (11, 16, 2, "RAD_TAN_THIN_PRISM_FISHEYE"),
    "SIMPLE_FISHEYE": (14, 3, 1, "SIMPLE_RADIAL_FISHEYE"),
    "FISHEYE": (15, 4, 2, "OPENCV_FISHEYE"),
    "EUCM": (16, 6, 2, "EUCM"),
}
# read to know their length, and refused: no camera here has their formula
_FOREIGN: dict[str, tuple[int, int]] = {
    "SIMPLE_DIVISION": (12, 4), "DIVISION": (13, 5), "EQUIRECTANGULAR": (17, 2)
}  # fmt: skip
_ZEROS = {"SIMPLE_FISHEYE": 1, "FISHEYE": 4}  # equidistant: our model's coefficients, all zero
_HALF_PIXEL = 0.5
PARAMETER_COUNTS = {number: count for number, count, *_ in _MODELS.values()} | dict(_FOREIGN.values())
MODEL_NAMES = {number: name for name, (number, *_) in _MODELS.items()} | {n: name for name, (n, _) in _FOREIGN.items()}

# our model -> COLMAP's model with the same list of parameters after fx fy cx cy
_OUT = {
    "PINHOLE": "PINHOLE",
    "KB4": "OPENCV_FISHEYE",
    "FISHEYE624": "RAD_TAN_THIN_PRISM_FISHEYE",
    "THIN_PRISM_FISHEYE": "THIN_PRISM_FISHEYE",
    "FOV": "FOV",
    "EUCM": "EUCM",
}


def camera_of(model: str, size_wh_px: tuple[int, int], params: Sequence[float], where: str) -> Camera:
    """Our camera of COLMAP's model and numbers.

    Raises:
        CameraError: a model without a counterpart here, a wrong number of parameters, impossible values; ``where`` is
            named.
    """
    name = model.upper()
    if name not in _MODELS:
        raise CameraError(f"{where}: camera model {model[:40]!r} is not known here; known are {', '.join(_MODELS)}")
    _, count, at, ours = _MODELS[name]
    if len(params) != count:
        raise CameraError(f"{where}: {name} has {count} parameters, got {len(params)}; is the file cut off?")
    values = [float(value) for value in params]
    values[at] -= _HALF_PIXEL
    values[at + 1] -= _HALF_PIXEL
    if name == "FOV" and values[4] == 0:
        ours, values = "PINHOLE", values[:4]  # the formula's limit
    if name in _ZEROS:
        values += [0.0] * _ZEROS[name]
    try:
        return camera_from_params(ours, size_wh_px, values)
    except CameraError as error:
        raise CameraError(f"{where}: {error}") from error


@dataclass(frozen=True)
class ColmapModel:
    """A camera as COLMAP names and counts it."""

    name: str
    params: tuple[float, ...]


def model_of(camera: Camera) -> ColmapModel:
    """COLMAP's name and parameters of our camera; half a pixel added.

    Raises:
        CameraError: COLMAP has no such model.
    """
    fx, fy, cx, cy, *rest = (float(value) for value in camera.params)
    head = (fx, fy, cx + _HALF_PIXEL, cy + _HALF_PIXEL)
    name = _radtan_name(camera) if camera.model in ("OPENCV", "RADTAN") else _OUT.get(camera.model)
    if name is None or (isinstance(camera, PinholeCamera) and any(rest)):
        skewed = " with skew" if isinstance(camera, PinholeCamera) else ""
        raise CameraError(f"COLMAP has no camera model for {camera.model}{skewed}; export the rectified pinhole view")
    if isinstance(camera, PinholeCamera):
        return ColmapModel("PINHOLE", head)
    if name == "FULL_OPENCV":
        rest += [0.0] * (8 - len(rest))
    return ColmapModel(name, (*head, *rest))


def _radtan_name(camera: Camera) -> str:
    """OPENCV holds k1 k2 p1 p2; anything more needs FULL_OPENCV."""
    return "OPENCV" if len(camera.params) <= 8 else "FULL_OPENCV"
