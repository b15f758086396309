"""From a model's name and numbers to a camera: the name decides, nothing is guessed."""

from collections.abc import Sequence

import numpy as np

from geo.cameras.base import Camera
from geo.cameras.distorted import DistortedCamera
from geo.cameras.fov import FovCamera
from geo.cameras.kannala_brandt import KannalaBrandtCamera
from geo.cameras.pinhole import PinholeCamera
from geo.cameras.prism_fisheye import Fisheye624Camera, ThinPrismFisheyeCamera
from geo.cameras.radtan import RadTanCamera
from geo.cameras.sphere import DoubleSphereCamera, EucmCamera, OmniCamera
from geo.errors import CameraError

_RADTAN = "fx fy cx cy k1 k2 p1 p2 [k3 [k4 k5 k6]]"
_KB = "fx fy cx cy k1 k2 k3 k4"
_F624 = "f cu cv | fx fy cx cy, then k0 k1 k2 k3 k4 k5 p0 p1 s0 s1 s2 s3"
_OMNI = "fx fy cx cy xi k1 k2 p1 p2"

# name -> (what it is, parameter names, allowed counts)
CAMERA_MODELS: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "PINHOLE": ("pinhole", "fx fy cx cy [skew]", (4, 5)),
    "SIMPLE_PINHOLE": ("pinhole", "f cx cy", (3,)),
    "OPENCV": ("radtan", _RADTAN, (8, 9, 12)),
    "RADTAN": ("radtan", _RADTAN, (8, 9, 12)),
    "FULL_OPENCV": ("radtan", "fx fy cx cy k1 k2 p1 p2 k3 k4 k5 k6", (12,)),
    "SIMPLE_RADIAL": ("radtan", "f cx cy k", (4,)),
    "RADIAL": ("radtan", "f cx cy k1 k2", (5,)),
    "KB3": ("kannala-brandt", _KB, (8,)),
    "KB4": ("kannala-brandt", _KB, (8,)),
    "OPENCV_FISHEYE": ("kannala-brandt", _KB, (8,)),
    "SIMPLE_RADIAL_FISHEYE": ("kannala-brandt", "f cx cy k", (4,)),
    "RADIAL_FISHEYE": ("kannala-brandt", "f cx cy k1 k2", (5,)),
    "FISHEYE624": ("fisheye624", _F624, (15, 16)),
    "RAD_TAN_THIN_PRISM_FISHEYE": ("fisheye624", "fx fy cx cy k0 k1 k2 k3 k4 k5 p0 p1 s0 s1 s2 s3", (16,)),
    "THIN_PRISM_FISHEYE": ("thin-prism-fisheye", "fx fy cx cy k1 k2 p1 p2 k3 k4 sx1 sy1", (12,)),
    "FOV": ("fov", "fx fy cx cy omega", (5,)),
    "DOUBLE_SPHERE": ("double-sphere", "fx fy cx cy xi alpha", (6,)),
    "DS": ("double-sphere", "fx fy cx cy xi alpha", (6,)),
    "EUCM": ("eucm", "fx fy cx cy alpha beta", (6,)),
    "OMNI": ("omni", _OMNI, (9,)),
    "MEI": ("omni", _OMNI, (9,)),
}

_KINDS: dict[str, type[DistortedCamera]] = {
    "radtan": RadTanCamera,
    "kannala-brandt": KannalaBrandtCamera,
    "fisheye624": Fisheye624Camera,
    "thin-prism-fisheye": ThinPrismFisheyeCamera,
    "fov": FovCamera,
    "double-sphere": DoubleSphereCamera,
    "eucm": EucmCamera,
    "omni": OmniCamera,
}


def _wrong_count(name: str, values: list[float]) -> CameraError:
    """What the model takes, what was given, and which models take as many (FIELD R8)."""
    _, names, counts = CAMERA_MODELS[name]
    expected = " or ".join(str(count) for count in counts)
    alike: dict[str, list[str]] = {}
    for other, (_, other_names, other_counts) in CAMERA_MODELS.items():
        if len(values) in other_counts and other != name:
            alike.setdefault(other_names, []).append(other)
    if alike:
        fits = "; ".join(f"{' = '.join(models)} ({listed})" for listed, models in alike.items())
        hint = f"Is it another model? {len(values)} parameters fit {fits}"
    else:
        hint = f"No model has {len(values)}. Known are {', '.join(sorted(CAMERA_MODELS))}"
    return CameraError(f"camera model {name} has {expected} parameters ({names}), got {len(values)}: {values}. {hint}")


def _with_two_focal_lengths(name: str, values: list[float]) -> list[float]:
    """One focal length written twice where the list names one, and COLMAP's short lists filled with zeros."""
    shared = name in ("SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL", "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE")
    if not shared and not (name == "FISHEYE624" and len(values) == 15):
        return values
    full = [values[0], *values]
    if name in ("SIMPLE_RADIAL", "RADIAL", "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE"):
        full += [0.0] * (8 - len(full))
    return full


def camera_from_params(
    model: str,
    size_wh_px: tuple[int, int],
    params: Sequence[float | int] | np.ndarray,
    valid_theta_rad: float | None = None,
    valid_radius_px: float | None = None,
) -> Camera:
    """Build a camera from the name of its model, image size and parameters (pixel centres at whole numbers).

    Look-alike lists of the same length (OPENCV and KB4, DOUBLE_SPHERE and EUCM, RADTAN with k3 and OMNI) cannot be
    told apart by their numbers: the name decides.

    Args:
        model: One of ``CAMERA_MODELS``; upper and lower case are the same.
        size_wh_px: Width and height of the image.
        params: In the order that ``CAMERA_MODELS`` gives for the model. COLMAP's half pixel is its reader's business.
        valid_theta_rad: The calibration's own limit on the angle from the optical axis.
        valid_radius_px: The calibration's own limit on the distance from the principal point, in pixels of this
            image (Project Aria's valid radius); with two focal lengths it counts along x.

    Raises:
        CameraError: unknown model, wrong number of parameters, impossible values.
    """
    name = str(model).upper()
    if name not in CAMERA_MODELS:
        raise CameraError(f"unknown camera model {model!r}; known are {', '.join(sorted(CAMERA_MODELS))}")
    family, _, counts = CAMERA_MODELS[name]
    values = [float(value) for value in np.asarray(params, dtype=np.float64).ravel()]
    if len(values) not in counts:
        raise _wrong_count(name, values)
    values = _with_two_focal_lengths(name, values)
    width, height = int(size_wh_px[0]), int(size_wh_px[1])
    if family == "pinhole":
        if valid_theta_rad is not None or valid_radius_px is not None:
            raise CameraError(f"camera model {name} has no valid angle or radius: leave them out")
        return PinholeCamera(width, height, *values)
    fx, fy, cx, cy, *distortion = values
    radius = None if valid_radius_px is None or not fx > 0 else float(valid_radius_px) / fx
    return _KINDS[family](width, height, fx, fy, cx, cy, tuple(distortion), valid_theta_rad, radius)
