"""What an episode holds beyond a ``Recording``: body keypoints, IMU samples, the height of the floor.

These are read on demand; no stage uses them. MANO and SMPL-H parameters are not read.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int64

from geo.errors import RecordingError, TimeError
from geo.readers.xperience.calibration import ANNOTATION
from geo.readers.xperience.hdf5_values import Hdf5Values
from geo.readers.xperience.motion import read_names, read_stamps

_GROUND = (("ground_height", 1.0), ("floor_z", 1.0), ("body_height", -1.0))


@dataclass(frozen=True)
class BodyTrack:
    """52 keypoints of SMPL-H (parents as its model has them) in world; NaN = not seen."""

    timestamps_ns: Int64[np.ndarray, "N"]
    keypoints_in_world: Float[np.ndarray, "N 52 3"]
    contact_probability: Float[np.ndarray, "N 21"]  # of joints 1..21 with the ground; NaN = not said


@dataclass(frozen=True)
class ImuTrack:
    """Samples of the inertial unit, in its own axes, which the format does not tie to a camera; units as stored."""

    timestamps_ns: Int64[np.ndarray, "M"]
    accel_xyz: Float[np.ndarray, "M 3"]
    gyro_xyz: Float[np.ndarray, "M 3"]
    frame_rows: Int64[np.ndarray, "N"] | None  # row of the sample that belongs to each frame


def read_body(folder: Path, warnings: list[str]) -> BodyTrack:
    """Body keypoints of an episode folder; a row with NaN, or of zeros only, is one without a body.

    Raises:
        RecordingError: unreadable, not there, or of another shape. TimeError: the frames have no times.
    """
    with Hdf5Values(folder / ANNOTATION) as file:
        names = read_names(file)
        stamps = read_stamps(file, names, warnings)
        points = _per_frame(file, "full_body_mocap/keypoints", (len(names), 52, 3))
        bad = ~np.isfinite(points).all(axis=(1, 2)) | (points == 0).all(axis=(1, 2))
        points[bad] = np.nan
        contacts = np.full((len(names), 21), np.nan)
        if file.has("full_body_mocap/contacts"):
            contacts = _per_frame(file, "full_body_mocap/contacts", (len(names), 21))
        return BodyTrack(stamps, points, contacts)


def _per_frame(file: Hdf5Values, name: str, shape: tuple[int, ...]) -> Float[np.ndarray, "N ..."]:
    """Rows of a dataset that may carry one more dimension of length 1 in front."""
    more = file.dataset(name).ndim == len(shape) + 1
    return file.floats(name, (1, *shape) if more else shape).reshape(shape)


def read_imu(folder: Path) -> ImuTrack:
    """IMU samples of an episode folder.

    Raises:
        RecordingError: unreadable, not there, or of another shape. TimeError: times that fall.
    """
    with Hdf5Values(folder / ANNOTATION) as file:
        stamps = file.whole("imu/device_timestamp_ns", (None,))
        if (np.diff(stamps) < 0).any():
            raise TimeError(f"{file.path}: imu/device_timestamp_ns falls at row {int(np.argmax(np.diff(stamps) < 0))}")
        shape = (len(stamps), 3)
        accel, gyro = file.floats("imu/accel_xyz", shape), file.floats("imu/gyro_xyz", shape)
        rows = file.whole("imu/keyframe_indices", (None,)) if file.has("imu/keyframe_indices") else None
        if rows is not None and ((rows < 0) | (rows >= len(stamps))).any():
            raise RecordingError(
                f"{file.path}: imu/keyframe_indices names rows that do not exist ({len(stamps)} samples)"
            )
        return ImuTrack(stamps, accel, gyro, rows)


def read_ground_height(folder: Path) -> float | None:
    """World z of the floor in metres, or None where the file does not say (the published viewer then draws -1.75).

    Raises:
        RecordingError: unreadable.
    """
    with Hdf5Values(folder / ANNOTATION) as file:
        for prefix in ("", "metadata/"):
            for name, sign in _GROUND:
                if file.has(prefix + name):
                    return sign * file.scalar(prefix + name)
    return None
