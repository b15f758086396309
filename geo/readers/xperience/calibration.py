"""The rig of an episode: four fisheyes and the rectified stereo pair made of the first two, all seen from the body.

``T_c_b`` takes body to camera 0, ``T_cn_cnm1`` is Kalibr's (the previous camera to this one), ``T_c0_b`` of ``cam01``
takes body to the rectified left camera, whose partner sits ``baseline`` further along the rectified x axis. ``K`` is
four numbers fx fy cx cy. The fisheyes are Kannala-Brandt (KB4) with four coefficients ``D``. The loader published with
the data has a second function that inverts ``T_cn_cnm1``; it is the wrong one, as the rectified pair proves: with
Kalibr's meaning, cam1's centre coincides with the rectified right camera's.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from geo import se3
from geo.cameras import Camera, PinholeCamera, camera_from_params
from geo.errors import CameraError, RecordingError
from geo.readers.xperience.hdf5_values import Hdf5Values

ANNOTATION = "annotation.hdf5"
LEFT, RIGHT = "stereo_left", "stereo_right"
FISHEYES = ("fisheye_cam0", "fisheye_cam1", "fisheye_cam2", "fisheye_cam3")
CAMERA_NAMES = (LEFT, RIGHT, *FISHEYES)
STEREO_SIZE_WH_PX = (512, 512)  # what the published viewer has for the rectified pair
_EQUIDISTANT = ("equidistant", "equi", "fisheye", "kb4", "kannala_brandt", "kannala-brandt", "opencv_fisheye")
_COINCIDE_M = 0.01
_MAX_METRES = 10.0  # between two cameras on one head


@dataclass(frozen=True)
class Fisheye:
    """One fisheye as calibrated; its image size is not in the file, only its video knows it."""

    intrinsics: tuple[float, float, float, float]  # fx fy cx cy
    distortion: tuple[float, float, float, float]  # k1..k4 of KB4
    camera_from_body: Float[np.ndarray, "4 4"]

    def camera(self, size_wh_px: tuple[int, int]) -> Camera:
        """The camera for images of this size.

        Raises:
            CameraError: impossible numbers.
        """
        return camera_from_params("KB4", size_wh_px, [*self.intrinsics, *self.distortion])


@dataclass(frozen=True)
class XperienceRig:
    """All cameras, seen from the body (``a_from_b`` as everywhere)."""

    intrinsics: tuple[float, float, float, float]  # fx fy cx cy of the rectified pair
    baseline_m: float
    left_from_body: Float[np.ndarray, "4 4"] | None  # None: the file has no T_c0_b, the body is the left camera itself
    fisheyes: dict[str, Fisheye]

    def stereo_camera(self, size_wh_px: tuple[int, int]) -> PinholeCamera:
        """The rectified pinhole for images of this size, for which ``cam01``'s K is.

        Raises:
            CameraError: impossible numbers.
        """
        return PinholeCamera(*size_wh_px, *self.intrinsics)

    def camera_from_body(self, name: str) -> Float[np.ndarray, "4 4"]:
        """Body to a camera of ``CAMERA_NAMES``.

        Raises:
            RecordingError: the file does not hold that camera.
        """
        if name in self.fisheyes:
            return self.fisheyes[name].camera_from_body
        left = np.eye(4) if self.left_from_body is None else self.left_from_body
        if name == LEFT:
            return left
        if name == RIGHT:
            right_from_left = np.eye(4)
            right_from_left[0, 3] = -self.baseline_m
            return se3.compose(right_from_left, left)
        raise RecordingError(
            f"the calibration has no camera {name!r}; it has {', '.join([LEFT, RIGHT, *self.fisheyes])}"
        )

    def body_from_camera(self, name: str) -> Float[np.ndarray, "4 4"]:
        """A camera of ``CAMERA_NAMES`` to body; see ``camera_from_body``."""
        return se3.inverse(self.camera_from_body(name))


def read_rig(folder: Path, warnings: list[str]) -> XperienceRig:
    """Calibration of an episode folder.

    Args:
        folder: The folder that holds ``annotation.hdf5``.
        warnings: Cameras that are missing, and cameras that contradict each other, are added here.

    Raises:
        RecordingError: unreadable, or something has another form. CameraError: impossible numbers, or a camera model
            that is none of the format's. PoseError: a transform that is not rigid.
    """
    with Hdf5Values(folder / ANNOTATION) as file:
        return rig_of(file, warnings)


def rig_of(file: Hdf5Values, warnings: list[str]) -> XperienceRig:
    """Calibration in an open file; see ``read_rig``."""
    intrinsics = _four(file, "calibration/cam01/K")
    baseline = file.scalar("calibration/cam01/baseline")
    if not 0 < baseline < 1:
        raise RecordingError(f"{file.path}: calibration/cam01/baseline = {baseline} must lie in (0, 1) m")
    if not file.has("calibration/cam01/T_c0_b"):
        warnings.append(
            f"{file.path.name}: no calibration/cam01/T_c0_b: the poses are taken as the left camera's (as the "
            "published loader does), and the fisheyes, which hang on the body, are left out"
        )
        return XperienceRig(intrinsics, baseline, None, {})
    rig = XperienceRig(intrinsics, baseline, _transform(file, "calibration/cam01/T_c0_b"), _fisheyes(file, warnings))
    warnings.extend(_contradictions(rig, file.path))
    return rig


def _fisheyes(file: Hdf5Values, warnings: list[str]) -> dict[str, Fisheye]:
    """The fisheyes that the file holds, each by its own T_c_b or along Kalibr's chain."""
    found: dict[str, Fisheye] = {}
    for number, name in enumerate(FISHEYES):
        group = f"calibration/cam{number}"
        if not file.has(group):
            warnings.append(f"{file.path.name}: no {group}; {name} is left out")
            continue
        _check_model(file, group)
        if file.has(f"{group}/T_c_b"):
            camera_from_body = _transform(file, f"{group}/T_c_b")
        elif number and FISHEYES[number - 1] in found:
            step = _transform(file, f"{group}/T_cn_cnm1")
            camera_from_body = se3.compose(step, found[FISHEYES[number - 1]].camera_from_body)
        else:
            warnings.append(f"{file.path.name}: nothing ties {group} to the body; {name} is left out")
            continue
        fisheye = Fisheye(_four(file, f"{group}/K"), _four(file, f"{group}/D"), camera_from_body)
        try:
            fisheye.camera((2, 2))  # the numbers are checked now, the size comes with the video
        except CameraError as error:
            raise CameraError(f"{file.path}: {group}: {error}") from error
        found[name] = fisheye
    return found


def _check_model(file: Hdf5Values, group: str) -> None:
    """Two strings whose names are not certain; where they are there, they have to say KB4."""
    for key, known in (("camera_model", ("pinhole", "fisheye", "kb4")), ("distortion_model", _EQUIDISTANT)):
        if not file.has(f"{group}/{key}"):
            continue
        value = file.texts(f"{group}/{key}")[0].strip()
        if value.lower() not in known:
            raise CameraError(
                f"{file.path}: {group}/{key} = {value[:40]!r}; the format's fisheyes are Kannala-Brandt (KB4), written "
                f"{' or '.join(known)}"
            )


def _four(file: Hdf5Values, name: str) -> tuple[float, float, float, float]:
    """Four finite numbers; a 3x3 matrix is another layout."""
    values = file.floats(name, (4,))
    if not (np.abs(values) < 1e6).all():
        raise CameraError(f"{file.path}: {name} = {values.tolist()} must be four numbers of sensible size")
    a, b, c, d = values.tolist()
    if name.endswith("/K") and not (a > 0 and b > 0):
        raise CameraError(f"{file.path}: {name} = {values.tolist()} must be fx fy cx cy with positive focal lengths")
    return a, b, c, d


def _transform(file: Hdf5Values, name: str) -> Float[np.ndarray, "4 4"]:
    """A rigid transform of a size that fits on a head."""
    matrix = file.floats(name, (4, 4))
    if not (np.abs(matrix) <= _MAX_METRES).all():
        raise RecordingError(f"{file.path}: {name} moves by more than {_MAX_METRES:g} m or holds NaN; is it damaged?")
    return se3.check_rigid(matrix, f"{name} of {file.path}")


def _contradictions(rig: XperienceRig, path: Path) -> list[str]:
    """Cam0 makes the left rectified camera, cam1 the right one: their centres have to coincide."""
    found = []
    for fisheye, stereo in zip(FISHEYES[:2], (LEFT, RIGHT), strict=True):
        if fisheye in rig.fisheyes:
            apart = rig.body_from_camera(fisheye)[:3, 3] - rig.body_from_camera(stereo)[:3, 3]
            distance = float(np.linalg.norm(apart))
            if distance > _COINCIDE_M:
                found.append(
                    f"{path.name}: {fisheye} sits {1000 * distance:.0f} mm from {stereo}, of which it is the source; "
                    "is a transform the inverse of what it should be?"
                )
    return found
