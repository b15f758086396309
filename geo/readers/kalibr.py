"""Kalibr's camchain.yaml: cameras of a rig, how they hang together, and their clock against the IMU's.

Transforms are Kalibr's T_a_b, which takes b to a: ``T_cn_cnm1`` the previous camera (n - 1) to this one,
``T_cam_imu`` the IMU to the camera. ``timeshift_cam_imu`` is in seconds with t_imu = t_cam + shift. The centre of the
first pixel is (0, 0), as here. "equidistant" is the Kannala-Brandt fisheye (KB4), "radtan" OpenCV's plain model
(FIELD R8).

Source: Kalibr wiki, "yaml formats" and "Supported models".
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from geo import se3
from geo.cameras import Camera, camera_from_params
from geo.errors import CameraError, PoseError, RecordingError
from geo.readers.text_files import number_of, read_text, shown

_NS = 1_000_000_000
_CAMERA = re.compile(r"cam(\d{1,4})", re.ASCII)
_TRANSFORMS = ("T_cn_cnm1", "T_cam_imu")
_APART_M, _APART_RAD = 1e-3, 2e-3
_MAX_SHIFT_S = 3600.0


@dataclass(frozen=True)
class _Lens:
    """A pair of Kalibr's models: what its numbers are called, and the model here with its order of them ("0": zero)."""

    intrinsics: str
    coefficients: str
    model: str
    order: str


# (camera_model, distortion_model) -> how to read it. geo.cameras has every one of them.
_LENSES: dict[tuple[str, str], _Lens] = {
    ("pinhole", "none"): _Lens("fu fv pu pv", "", "PINHOLE", "fu fv pu pv"),
    ("pinhole", "radtan"): _Lens("fu fv pu pv", "k1 k2 r1 r2", "RADTAN", "fu fv pu pv k1 k2 r1 r2"),
    ("pinhole", "equidistant"): _Lens("fu fv pu pv", "k1 k2 k3 k4", "KB4", "fu fv pu pv k1 k2 k3 k4"),
    ("pinhole", "fov"): _Lens("fu fv pu pv", "w", "FOV", "fu fv pu pv w"),
    ("omni", "none"): _Lens("xi fu fv pu pv", "", "OMNI", "fu fv pu pv xi 0 0 0 0"),
    ("omni", "radtan"): _Lens("xi fu fv pu pv", "k1 k2 r1 r2", "OMNI", "fu fv pu pv xi k1 k2 r1 r2"),
    ("ds", "none"): _Lens("xi alpha fu fv pu pv", "", "DOUBLE_SPHERE", "fu fv pu pv xi alpha"),
    ("eucm", "none"): _Lens("alpha beta fu fv pu pv", "", "EUCM", "fu fv pu pv alpha beta"),
}
_SPELLINGS = {"equi": "equidistant"}


@dataclass(frozen=True)
class KalibrCamera:
    """One camera of a chain; None for what the file does not say."""

    name: str
    camera: Camera
    camera_from_previous: Float[np.ndarray, "4 4"] | None  # T_cn_cnm1
    camera_from_imu: Float[np.ndarray, "4 4"] | None  # T_cam_imu
    imu_minus_camera_ns: int | None  # timeshift_cam_imu: t_imu = t_cam + this
    topic: str | None


@dataclass(frozen=True)
class CameraChain:
    """Cameras in the order of their numbers, from cam0 on."""

    cameras: tuple[KalibrCamera, ...]
    source: Path

    def camera_from_first(self, index: int) -> Float[np.ndarray, "4 4"]:
        """Take cam0's coordinates to those of camera ``index``: along the chain, or by way of the IMU.

        Raises:
            PoseError: the file holds neither.
        """
        out = np.eye(4)
        for entry in self.cameras[1 : index + 1]:
            if entry.camera_from_previous is None:
                break
            out = entry.camera_from_previous @ out
        else:
            return out
        first, last = self.cameras[0].camera_from_imu, self.cameras[index].camera_from_imu
        if first is None or last is None:
            raise PoseError(
                f"{self.source}: nothing takes cam0 to {self.cameras[index].name}: it needs T_cn_cnm1 from cam1 on, or "
                "T_cam_imu of both"
            )
        return se3.compose(last, se3.inverse(first))


def read_kalibr(path: Path, warnings: list[str]) -> CameraChain:
    """Read a camchain.yaml, with or without IMU.

    Args:
        path: The file.
        warnings: What was ignored, and transforms that contradict each other, are added here.

    Raises:
        RecordingError: unreadable, no YAML, no cam0, a camera number left out or given twice, an entry of another form
            or missing. CameraError: a camera model or its numbers.
        PoseError: a transform that is not rigid.
    """
    data, lines = _load(path)
    found: dict[int, str] = {}
    for key in data:
        match = _CAMERA.fullmatch(key)
        if match:
            if int(match[1]) in found:
                raise RecordingError(f"{path} line {lines[key]}: {found[int(match[1])]} and {key} are the same camera")
            found[int(match[1])] = key
        else:
            warnings.append(f"{path.name} line {lines[key]}: {shown(key)} is no camera and is ignored")
    if sorted(found) != list(range(len(found))) or not found:
        raise RecordingError(
            f"{path} holds cameras {', '.join(found[n] for n in sorted(found)) or 'none'}; a chain counts cam0, cam1, "
            "... without a gap, since every camera is given by the one before"
        )
    cameras = tuple(_camera(_Entry(path, found[n], data[found[n]], lines), n, warnings) for n in sorted(found))
    chain = CameraChain(cameras, path)
    _compare_ways(chain, warnings)
    return chain


def _load(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Content, and the lines of "cam0" and "cam0.resolution"; a name that comes twice is refused, not overwritten."""
    import yaml

    text = read_text(path)
    if text.startswith("%YAML:"):  # OpenCV's first line, which is no YAML
        text = "#" + text
    lines: dict[str, int] = {}
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if not isinstance(root, yaml.MappingNode):
            raise RecordingError(f"{path} is no camchain: it must be a table of cameras cam0, cam1, ...")
        for key, value in root.value:
            _note(lines, str(key.value), key.start_mark.line + 1, path)
            for inner, _ in value.value if isinstance(value, yaml.MappingNode) else []:
                _note(lines, f"{key.value}.{inner.value}", inner.start_mark.line + 1, path)
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise RecordingError(f"{path} is no YAML: {' '.join(str(error).split())}; is it cut off?") from error
    except (ValueError, TypeError, OverflowError, AttributeError, RecursionError) as error:
        if isinstance(error, RecordingError):
            raise
        raise RecordingError(f"{path} holds a value that YAML cannot read: {error}") from error
    if not isinstance(data, dict):
        raise RecordingError(f"{path} is no camchain: it must be a table of cameras cam0, cam1, ...")
    return {str(key): value for key, value in data.items()}, {**{str(key): 1 for key in data}, **lines}


def _note(lines: dict[str, int], key: str, line: int, path: Path) -> None:
    if key in lines:
        raise RecordingError(f"{path} lines {lines[key]} and {line} both give {shown(key)}; remove one")
    lines[key] = line


@dataclass(frozen=True)
class _Entry:
    """One camera's table, with the places of its values."""

    path: Path
    name: str
    value: Any
    lines: dict[str, int]

    def where(self, key: str) -> str:
        """File, line and name of a value (of the camera, where the value is missing)."""
        line = self.lines.get(f"{self.name}.{key}", self.lines.get(self.name, 1))
        return f"{self.path} line {line}: {self.name}.{key}"

    def word(self, key: str) -> str:
        """A name, in lower case."""
        value = self.value.get(key)
        if not isinstance(value, str):
            raise RecordingError(f"{self.where(key)} must be a name, got {shown(repr(value))}")
        return value.strip().lower()

    def numbers(self, key: str, names: str) -> dict[str, float]:
        """A list of numbers, by their names."""
        value, expected = self.value.get(key), names.split()
        if value is None and not expected:
            return {}
        if not isinstance(value, list) or len(value) != len(expected):
            got = f"{len(value)} numbers" if isinstance(value, list) else shown(repr(value))
            raise CameraError(f"{self.where(key)} must be [{', '.join(expected)}], got {got}")
        return {name: self.number(item, f"{key}.{name}", key) for name, item in zip(expected, value, strict=True)}

    def number(self, value: Any, what: str, key: str) -> float:
        """A finite number; YAML 1.1 takes ``8e-05`` (no point) for text, which is meant as a number all the same."""
        where = f"{self.where(key).removesuffix(key)}{what}"
        if isinstance(value, str):
            value = number_of(value.strip(), where)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
            raise RecordingError(f"{where} must be a finite number, got {shown(repr(value))}")
        return float(value)

    def transform(self, key: str) -> Float[np.ndarray, "4 4"] | None:
        """A rigid transform, its rotation made exactly orthonormal; None where it is not given."""
        value = self.value.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != 4 or any(not isinstance(r, list) or len(r) != 4 for r in value):
            raise RecordingError(f"{self.where(key)} must be a 4x4 matrix, row by row")
        return se3.check_rigid(np.array([[self.number(x, key, key) for x in row] for row in value]), self.where(key))


def _camera(entry: _Entry, number: int, warnings: list[str]) -> KalibrCamera:
    """One camera."""
    if not isinstance(entry.value, dict):
        raise RecordingError(f"{entry.path} line {entry.lines[entry.name]}: {entry.name} must be a table")
    for key in entry.value:
        if isinstance(key, str) and key.startswith("T_") and key not in _TRANSFORMS:
            warnings.append(f"{entry.where(key)} is none of {', '.join(_TRANSFORMS)} and is ignored")
    previous = entry.transform("T_cn_cnm1")
    if previous is not None and number == 0:
        warnings.append(f"{entry.where('T_cn_cnm1')} has no camera before it and is ignored")
        previous = None
    shift, topic = entry.value.get("timeshift_cam_imu"), entry.value.get("rostopic")
    return KalibrCamera(
        entry.name,
        _lens(entry),
        previous,
        entry.transform("T_cam_imu"),
        None if shift is None else _shift_ns(entry, shift),
        topic if isinstance(topic, str) else None,
    )


def _shift_ns(entry: _Entry, value: Any) -> int:
    """Seconds to nanoseconds; a duration of milliseconds, so a float holds it to far below one nanosecond."""
    key = "timeshift_cam_imu"
    seconds = entry.number(value, key, key)
    if abs(seconds) > _MAX_SHIFT_S:
        raise RecordingError(f"{entry.where(key)} = {seconds:g} s is more than an hour; is it in seconds?")
    return round(Fraction(repr(seconds)) * _NS)


def _lens(entry: _Entry) -> Camera:
    """Camera of the two models and their numbers."""
    distortion = entry.value.get("distortion_model")
    kind = entry.word("camera_model"), "none" if distortion is None else entry.word("distortion_model")
    kind = kind[0], _SPELLINGS.get(kind[1], kind[1])
    if kind not in _LENSES:
        known = ", ".join("+".join(pair) for pair in _LENSES)
        raise CameraError(f"{entry.where('camera_model')}: {'+'.join(kind)} is no model of Kalibr; known are {known}")
    lens = _LENSES[kind]
    values = entry.numbers("intrinsics", lens.intrinsics) | entry.numbers("distortion_coeffs", lens.coefficients)
    size = entry.numbers("resolution", "width height")
    if any(side != int(side) for side in size.values()):
        raise CameraError(f"{entry.where('resolution')} must be whole numbers of pixels, got {list(size.values())}")
    params = [0.0 if name == "0" else values[name] for name in lens.order.split()]
    try:
        return camera_from_params(lens.model, (int(size["width"]), int(size["height"])), params)
    except CameraError as error:
        raise CameraError(f"{entry.where('intrinsics')}: {error}") from error


def _compare_ways(chain: CameraChain, warnings: list[str]) -> None:
    """Where a camera is tied to the one before both directly and by way of the IMU, the two should agree."""
    for before, entry in zip(chain.cameras, chain.cameras[1:], strict=False):
        if entry.camera_from_previous is None or entry.camera_from_imu is None or before.camera_from_imu is None:
            continue
        apart = se3.inverse(entry.camera_from_previous) @ entry.camera_from_imu @ se3.inverse(before.camera_from_imu)
        metres = float(np.linalg.norm(apart[:3, 3]))
        angle = float(np.linalg.norm(se3.axis_angle_from_rotation(apart[:3, :3])))
        if metres > _APART_M or angle > _APART_RAD:
            warnings.append(
                f"{chain.source.name}: T_cn_cnm1 of {entry.name} and the two T_cam_imu contradict each other by "
                f"{1000 * metres:.1f} mm and {np.degrees(angle):.2f} degrees; is one of them the inverse?"
            )
