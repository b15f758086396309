"""MPS calibration over time (``online_calibration.jsonl``) and what the services say of their run (``summary.json``).

Source: projectaria_tools, "MPS Output" pages (online calibration), ``core/mps/OnlineCalibrationsReader.cpp``.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from geo.errors import RecordingError, TimeError
from geo.nearest import nearest_row
from geo.readers.json_values import finite_numbers, parsed_json
from geo.readers.mps.columns import TIME_COLUMN
from geo.readers.mps.lines import line_blocks
from geo.readers.pose_rows import PoseRow, poses_from_rows
from geo.readers.text_files import read_text, shown

_NS_PER_US = 1000
_MAX_NUMBER = 1e300
_MAX_US = (2**63 - 1) // _NS_PER_US
_PARAMETERS = {"FisheyeRadTanThinPrism": (15, 16), "KannalaBrandtK3": (7, 8)}


@dataclass(frozen=True)
class OnlineCamera:
    """A camera as it was at one time. ``model`` and ``params`` are the file's own, at the size of the recorded stream.

    ``FisheyeRadTanThinPrism`` is FISHEYE624: f cu cv k0..k5 p0 p1 s0..s3 (16 parameters: fx fy). The file does not give
    the size of the image.
    """

    label: str
    serial: str
    model: str
    params: Float[np.ndarray, "P"]
    device_from_camera: Float[np.ndarray, "4 4"]


@dataclass(frozen=True)
class OnlineImu:
    """Where an inertial unit was at one time. Biases and scales are in the file and not read."""

    label: str
    device_from_imu: Float[np.ndarray, "4 4"]


@dataclass(frozen=True)
class CalibrationRecord:
    """Cameras and inertial units by label, as they were at one time of the device clock."""

    timestamp_ns: int
    cameras: dict[str, OnlineCamera]
    imus: dict[str, OnlineImu]


@dataclass(frozen=True)
class OnlineCalibration:
    """Records in rising time."""

    timestamps_ns: Int64[np.ndarray, "N"]
    records: tuple[CalibrationRecord, ...]

    def nearest(self, query_ns: int, tolerance_ns: int) -> CalibrationRecord | None:
        """Record nearest in time, the earlier one of two; None beyond the tolerance (never clamped)."""
        row = nearest_row(self.timestamps_ns, query_ns, tolerance_ns)
        return None if row is None else self.records[row]


@dataclass(frozen=True)
class MpsSummary:
    """What a service says of its run: version, and the status of its stages (``SUCCESS``, ...)."""

    version: str | None
    statuses: dict[str, str]


def read_online_calibration(path: Path, warnings: list[str]) -> OnlineCalibration:
    """``online_calibration.jsonl``: one record a line.

    Cameras and inertial units that the file calls not calibrated are left out, with a warning.

    Raises:
        RecordingError: unreadable, a line that is cut off or no JSON, parts missing or of another kind, no record.
        PoseError: a rotation that is not unit. TimeError: two different records with one time stamp.
    """
    found: dict[int, tuple[int, str, CalibrationRecord]] = {}
    skipped: dict[str, int] = {}
    for first, texts in line_blocks(path):
        for number, text in enumerate(texts, start=first):
            line = text.rstrip("\0").strip()
            if not line:
                continue
            record = _record(line, path, number, skipped)
            before = found.setdefault(record.timestamp_ns, (number, line, record))
            if before[1] != line:
                raise TimeError(
                    f"{path} lines {before[0]} and {number} have the same time stamp {record.timestamp_ns} ns but "
                    "different calibrations; remove one of them"
                )
    if not found:
        raise RecordingError(f"{path} holds no calibration; is it cut off? Fetch it anew")
    for label, count in skipped.items():
        warnings.append(f"{path.name}: {shown(label)} is not calibrated in {count} records and left out there")
    stamps = sorted(found)
    return OnlineCalibration(np.array(stamps, dtype=np.int64), tuple(found[stamp][2] for stamp in stamps))


def _record(line: str, path: Path, number: int, skipped: dict[str, int]) -> CalibrationRecord:
    where = f"{path} line {number}"
    value = parsed_json(line, where)
    stamp = _part(value, TIME_COLUMN, int, where)
    if not 0 <= stamp <= _MAX_US:
        raise RecordingError(f"{where}: {TIME_COLUMN} = {stamp} is no time of the device clock in microseconds")
    cameras: dict[str, OnlineCamera] = {}
    imus: dict[str, OnlineImu] = {}
    for kind in ("CameraCalibrations", "ImuCalibrations"):
        for i, entry in enumerate(_part(value, kind, list, where)):
            spot = f"{where}: {kind}[{i}]"
            label = _part(entry, "Label", str, spot)
            if label in (cameras if kind == "CameraCalibrations" else imus):
                raise RecordingError(f"{spot}: {shown(label)} is there twice")
            if not _part(entry, "Calibrated", bool, spot):
                skipped[label] = skipped.get(label, 0) + 1
            elif kind == "CameraCalibrations":
                cameras[label] = _camera(entry, label, path, number, spot)
            else:
                imus[label] = OnlineImu(label, _transform(entry, "T_Device_Imu", path, number, spot))
    return CalibrationRecord(stamp * _NS_PER_US, cameras, imus)


def _camera(entry: Any, label: str, path: Path, number: int, spot: str) -> OnlineCamera:
    projection = _part(entry, "Projection", dict, spot)
    model = _part(projection, "Name", str, spot)
    params = finite_numbers(_part(projection, "Params", list, spot), None, f"{spot}.Params", _MAX_NUMBER)
    if model not in _PARAMETERS:
        raise RecordingError(f"{spot}: unknown projection {shown(model)}; known are {', '.join(_PARAMETERS)}")
    if len(params) not in _PARAMETERS[model]:
        raise RecordingError(f"{spot}: {model} has {_PARAMETERS[model]} parameters, here are {len(params)}")
    serial = _part(entry, "SerialNumber", str, spot)
    pose = _transform(entry, "T_Device_Camera", path, number, spot)
    return OnlineCamera(label, serial, model, np.array(params, dtype=np.float64), pose)


def _transform(entry: Any, key: str, path: Path, number: int, spot: str) -> Float[np.ndarray, "4 4"]:
    """{"Translation": [x, y, z], "UnitQuaternion": [w, [x, y, z]]}."""
    value = _part(entry, key, dict, spot)
    translation = finite_numbers(
        _part(value, "Translation", list, spot), None, f"{spot}.{key}.Translation", _MAX_NUMBER
    )
    quat = _part(value, "UnitQuaternion", list, spot)
    if len(translation) != 3 or len(quat) != 2 or not isinstance(quat[1], list) or len(quat[1]) != 3:
        raise RecordingError(f"{spot}: {key} is no translation [x, y, z] with a quaternion [w, [x, y, z]]")
    x, y, z = translation
    w, i, j, k = finite_numbers([quat[0], *quat[1]], None, f"{spot}.{key}.UnitQuaternion", _MAX_NUMBER)
    return np.asarray(poses_from_rows([PoseRow(number, (x, y, z), (w, i, j, k))], path, [])[0])


def _part(value: Any, key: str, kind: type, where: str) -> Any:
    """A part of a JSON object, of the kind that it has to be."""
    if not isinstance(value, dict) or key not in value:
        raise RecordingError(f"{where} has no {key}; is it another file, or from another version?")
    part = value[key]
    if not isinstance(part, kind) or (kind is int and isinstance(part, bool)):
        raise RecordingError(f"{where}: {key} = {shown(str(part))} is no {kind.__name__}")
    return part


def read_summary(path: Path, warnings: list[str]) -> MpsSummary:
    """``summary.json``: stages that did not succeed, and their own warnings and errors, are added to ``warnings``.

    Raises:
        RecordingError: unreadable, or no JSON object.
    """
    value = parsed_json(read_text(path), str(path))
    if not isinstance(value, dict):
        raise RecordingError(f"{path} is no JSON object; is it another file?")
    statuses: dict[str, str] = {}
    for stage, entry in value.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("status"), str):
            continue
        statuses[stage] = entry["status"]
        notes = [note for key in ("errors", "warnings") if isinstance(entry.get(key), list) for note in entry[key]]
        if entry["status"] != "SUCCESS":
            warnings.append(f"{path.name}: {shown(stage)} ended with {shown(entry['status'])}")
        warnings.extend(f"{path.name}: {shown(stage)}: {str(note)[:200]}" for note in notes)
    version = value.get("version")
    return MpsSummary(version if isinstance(version, str) else None, statuses)
