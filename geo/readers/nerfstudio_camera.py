"""The camera of a transforms.json: intrinsics by name, per frame or shared, in the three dialects that are in use.

nerfstudio names the lens in ``camera_model``. instant-ngp does not: distortion coefficients mean OPENCV there, unless
``is_fisheye`` is true; its oldest files have ``camera_angle_x`` instead of a focal length. The principal point counts
from the corner of the first pixel, so ours is half a pixel less (docs/conventions.md, Pixels).

Sources: nerfstudio documentation, "Data conventions"; instant-ngp, "Tips for training NeRF models".
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from geo.cameras import Camera, camera_from_params
from geo.errors import CameraError

# model -> coefficients that it has; any other one must be absent or 0
_COEFFICIENTS: dict[str, tuple[str, ...]] = {
    "PINHOLE": (),
    "SIMPLE_PINHOLE": (),
    "SIMPLE_RADIAL": ("k1",),
    "RADIAL": ("k1", "k2"),
    "OPENCV": ("k1", "k2", "p1", "p2", "k3"),
    "OPENCV_FISHEYE": ("k1", "k2", "k3", "k4"),
}
_ALL_COEFFICIENTS = ("k1", "k2", "k3", "k4", "k5", "k6", "p1", "p2")
_OTHER_LENSES = ("equirectangular", "latlong", "orthographic", "ftheta_p0")
NUMBER_KEYS = ("w", "h", "fl_x", "fl_y", "cx", "cy", "camera_angle_x", "camera_angle_y", *_ALL_COEFFICIENTS)
CAMERA_KEYS = (*NUMBER_KEYS, "camera_model", "is_fisheye", *_OTHER_LENSES)
_EQUAL = 1e-9


@dataclass(frozen=True)
class Intrinsics:
    """One frame's camera: name of the model for ``camera_from_params``, size, and its parameters in our pixels."""

    model: str
    size_wh_px: tuple[int, int]
    params: tuple[float, ...]
    centred: bool  # the principal point was not given, and taken as the image's centre

    def equals(self, other: "Intrinsics") -> bool:
        """The same camera, numbers within 1e-9."""
        return (
            (self.model, self.size_wh_px, len(self.params)) == (other.model, other.size_wh_px, len(other.params))
            and max(abs(a - b) for a, b in zip(self.params, other.params, strict=True)) <= _EQUAL
        )  # fmt: skip

    def camera(self, where: str) -> Camera:
        """The camera.

        Raises:
            CameraError: impossible values; ``where`` is named.
        """
        try:
            return camera_from_params(self.model, self.size_wh_px, self.params)
        except CameraError as error:
            raise CameraError(f"{where}: {error}") from error


def intrinsics_of(entry: Mapping[str, Any], default_size_wh_px: tuple[int, int], where: str) -> Intrinsics:
    """Intrinsics of a frame.

    Args:
        entry: The keys of ``CAMERA_KEYS``, a frame's own before the shared ones.
        default_size_wh_px: Size of the images, for files without ``w`` and ``h``.
        where: File and frame, for messages.

    Raises:
        CameraError: a lens that is not known here, coefficients that the named lens does not have, no focal length,
            a size that is no whole number.
    """
    model = _model(entry, where)
    size = _size(entry, default_size_wh_px, where)
    fx, fy = _focal(entry, size, where)
    centred = "cx" not in entry or "cy" not in entry
    cx = _number(entry, "cx", where) if "cx" in entry else size[0] / 2
    cy = _number(entry, "cy", where) if "cy" in entry else size[1] / 2
    values = {name: _number(entry, name, where) for name in _ALL_COEFFICIENTS if name in entry}
    names = _COEFFICIENTS[model]
    foreign = [f"{name} = {value:g}" for name, value in values.items() if value != 0 and name not in names]
    if foreign:
        raise CameraError(
            f"{where}: camera_model {model} has {'the coefficients ' + ' '.join(names) if names else 'no distortion'}, "
            f"but there is {', '.join(foreign)}; name the model that the numbers were calibrated for"
        )
    params = [fx, fy, cx - 0.5, cy - 0.5]
    if model == "OPENCV_FISHEYE":
        return Intrinsics(model, size, (*params, *(values.get(name, 0.0) for name in names)), centred)
    k1, k2, p1, p2, k3 = (values.get(name, 0.0) for name in ("k1", "k2", "p1", "p2", "k3"))
    if not any((k1, k2, p1, p2, k3)):
        return Intrinsics("PINHOLE", size, tuple(params), centred)
    return Intrinsics("OPENCV", size, (*params, k1, k2, p1, p2, *([k3] if k3 else [])), centred)


def _model(entry: Mapping[str, Any], where: str) -> str:
    """Name of the lens; see the module's docstring for files that do not name it."""
    known = ", ".join(_COEFFICIENTS)
    for key in _OTHER_LENSES:
        if entry.get(key) not in (None, False):
            raise CameraError(f"{where}: {key} says a lens that is not known here; known are {known}")
    fisheye = entry.get("is_fisheye") is True
    if "camera_model" not in entry:
        return "OPENCV_FISHEYE" if fisheye else "OPENCV"
    name = str(entry["camera_model"]).upper()
    if name not in _COEFFICIENTS:
        raise CameraError(f"{where}: camera_model {entry['camera_model']!r} is not known here; known are {known}")
    if fisheye and name != "OPENCV_FISHEYE":
        raise CameraError(f"{where}: camera_model {name} contradicts is_fisheye = true; remove one of them")
    return name


def _number(entry: Mapping[str, Any], name: str, where: str) -> float:
    """A finite number (JSON numbers may be larger than a float holds)."""
    try:
        value = float(entry[name])
    except OverflowError:
        value = math.inf
    if not math.isfinite(value) or abs(value) > 1e9:
        raise CameraError(f"{where}: {name} = {str(entry[name])[:40]} cannot be; is the file damaged?")
    return value


def _size(entry: Mapping[str, Any], default_wh_px: tuple[int, int], where: str) -> tuple[int, int]:
    if ("w" in entry) != ("h" in entry):
        raise CameraError(f"{where}: w and h belong together; one of them is missing")
    if "w" not in entry:
        return default_wh_px
    width, height = _number(entry, "w", where), _number(entry, "h", where)
    if width != int(width) or height != int(height) or min(width, height) < 1:
        raise CameraError(f"{where}: w = {width:g}, h = {height:g} is no image size")
    return int(width), int(height)


def _focal(entry: Mapping[str, Any], size_wh_px: tuple[int, int], where: str) -> tuple[float, float]:
    """Focal lengths in pixels, from the opening angle where a file has no other; fy is fx where only that is given."""
    found: list[float | None] = []
    for name, angle_name, length in (
        ("fl_x", "camera_angle_x", size_wh_px[0]), ("fl_y", "camera_angle_y", size_wh_px[1])
    ):  # fmt: skip
        if name in entry:
            found.append(_number(entry, name, where))
        elif angle_name in entry:
            angle = _number(entry, angle_name, where)
            if not 0 < angle < math.pi:
                raise CameraError(f"{where}: {angle_name} = {angle:g} must be an angle between 0 and pi in radians")
            found.append(length / (2 * math.tan(angle / 2)))
        else:
            found.append(None)
    fx, fy = found
    if fx is None:
        raise CameraError(f"{where}: no focal length; give fl_x and fl_y in pixels, or camera_angle_x in radians")
    return fx, fx if fy is None else fy
