"""MPS eye gaze in the central pupil frame (CPF), in both of its versions.

CPF: origin midway between the pupils, +x left, +y up, +z forward (the files put the left eye at +x). Angles are those
of the direction's shadows: tan(yaw) = x / z, tan(pitch) = y / z, so the direction is (tan yaw, tan pitch, 1) over its
length. ``depth_m`` is the distance along it, not z. Where each eye has a yaw (and both one pitch), the combined yaw is
tan(yaw) = (tan(left) + tan(right)) / 2, the direction from midway between symmetric eyes to where their rays meet. MPS
cuts depths at 4 m: ``depth_m`` = 4 says 4 m or more.

Source: projectaria_tools, "MPS Output - Eye Gaze", ``core/mps/EyeGazeReader.h`` (checked against the functions
``get_eyegaze_point_at_depth`` and ``compute_depth_and_combined_gaze_direction`` of its Python package).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int64

from geo.errors import RecordingError
from geo.readers.mps.columns import TIME_COLUMN, Rows, Table, open_table, order_in_time

_PITCH = ("pitch_rads_cpf", "pitch_low_rads_cpf", "pitch_high_rads_cpf")
_YAW = ("yaw_rads_cpf", "yaw_low_rads_cpf", "yaw_high_rads_cpf")
_DEPTH = "depth_m"
_MAX_DEPTH_M = 1000.0
_SESSION = "session_uid"


@dataclass(frozen=True)
class EyeSide:
    """One eye: where it is, where it looks, and between which yaws with the model's confidence; NaN = unknown."""

    origin_in_cpf: Float[np.ndarray, "N 3"]
    yaw_rad: Float[np.ndarray, "N"]
    yaw_interval_rad: Float[np.ndarray, "N 2"]


@dataclass(frozen=True)
class MpsGaze:
    """Gaze at rising times of the device clock, in CPF; NaN = unknown.

    ``yaw_interval_rad`` is NaN where the file has intervals per eye only; then ``left`` and ``right`` hold them.
    """

    timestamps_ns: Int64[np.ndarray, "N"]
    yaw_rad: Float[np.ndarray, "N"]
    pitch_rad: Float[np.ndarray, "N"]
    depth_m: Float[np.ndarray, "N"]
    yaw_interval_rad: Float[np.ndarray, "N 2"]
    pitch_interval_rad: Float[np.ndarray, "N 2"]
    left: EyeSide | None = None
    right: EyeSide | None = None
    session_uids: tuple[str, ...] = ()

    def directions_in_cpf(self) -> Float[np.ndarray, "N 3"]:
        """Unit directions; NaN where unknown."""
        return gaze_direction(self.yaw_rad, self.pitch_rad)

    def points_in_cpf(self) -> Float[np.ndarray, "N 3"]:
        """Points that are looked at, in metres; NaN where the direction or the depth is unknown."""
        return np.asarray(self.directions_in_cpf() * self.depth_m[:, None])

    def rays_meet_ahead(self) -> Bool[np.ndarray, "N"]:
        """True where the rays of the two eyes, seen from above, meet in front of both.

        False where they meet behind the head, never, or where there is one yaw only. A ``depth_m`` beside False is no
        distance that these rays could have told.
        """
        if self.left is None or self.right is None:
            return np.zeros(len(self.timestamps_ns), dtype=bool)
        slope_l, slope_r = np.tan(self.left.yaw_rad), np.tan(self.right.yaw_rad)
        (x_l, z_l), (x_r, z_r) = self.left.origin_in_cpf[:, [0, 2]].T, self.right.origin_in_cpf[:, [0, 2]].T
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            z = (x_r - x_l + z_l * slope_l - z_r * slope_r) / (slope_l - slope_r)
            ahead = np.isfinite(z) & (z > np.maximum(z_l, z_r))
        return np.asarray(ahead)


def gaze_direction(yaw_rad: Float[np.ndarray, "N"], pitch_rad: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N 3"]:
    """Unit directions in CPF of yaw and pitch, see the head of this file; NaN in, NaN out."""
    ray = np.stack([np.tan(yaw_rad), np.tan(pitch_rad), np.ones_like(yaw_rad)], axis=1)
    return np.asarray(ray / np.linalg.norm(ray, axis=1, keepdims=True))


def read_gaze(path: Path, warnings: list[str]) -> MpsGaze:
    """``eyegaze.csv`` and its later names: one yaw, or a yaw per eye (``left_yaw_rads_cpf``, ...).

    Cells that are empty or not finite are unknown; so is a depth of 0 or less.

    Args:
        path: The file, gzipped or not.
        warnings: Unknown columns, doubtful depths and several sessions are named here.

    Raises:
        RecordingError: unreadable, cut off, columns missing, numbers that are none, angles of 90 degrees and more,
            depths over 1 km.
        TimeError: two rows with one time stamp and different numbers.
    """
    table = open_table(path)
    both_eyes = "left_yaw_rads_cpf" in table.header or "right_yaw_rads_cpf" in table.header
    if both_eyes and _YAW[0] in table.header:
        raise RecordingError(
            f"{path} line 1: columns {_YAW[0]} and left_yaw_rads_cpf together are those of Aria Gen 2, which is not "
            "read yet; Gen 1 tables have one or the other"
        )
    return _per_eye(table, warnings) if both_eyes else _combined(table, warnings)


def _ordered(table: Table, numbers: tuple[str, ...], warnings: list[str]) -> tuple[Rows, Int64[np.ndarray, "K"]]:
    """All rows and the order to take them in; angles checked."""
    groups = {"session": (_SESSION,)}
    session = table.check((TIME_COLUMN, *numbers), warnings, groups)
    rows = table.rows(numbers, (_SESSION,) if session else ())
    for name in numbers:
        values = rows.numbers[name]
        values[~np.isfinite(values)] = np.nan
        if name.endswith("_rads_cpf"):
            wide = np.flatnonzero(np.abs(values) >= np.pi / 2)
            if len(wide):
                raise RecordingError(
                    f"{rows.path} line {rows.lines[wide[0]]} column {name} = {values[wide[0]]:g} is 90 degrees or "
                    "more; is it in degrees?"
                )
    depth = rows.numbers[_DEPTH]
    far = np.flatnonzero(depth > _MAX_DEPTH_M)
    if len(far):
        raise RecordingError(
            f"{rows.path} line {rows.lines[far[0]]} column {_DEPTH} = {depth[far[0]]:g} is over {_MAX_DEPTH_M:g} m; is "
            "it in metres?"
        )
    depth[~(depth > 0)] = np.nan
    sessions = set(rows.texts.get(_SESSION, ()))
    if len(sessions) > 1:
        warnings.append(f"{rows.path.name}: {len(sessions)} sessions; each has an eye calibration of its own")
    return rows, order_in_time(rows, rows.stack(numbers))


def _gaze(
    rows: Rows,
    order: Int64[np.ndarray, "K"],
    yaw: Float[np.ndarray, "K"],
    yaw_interval: Float[np.ndarray, "K 2"],
    sides: tuple[EyeSide, EyeSide] | None,
) -> MpsGaze:
    left, right = sides or (None, None)
    return MpsGaze(
        rows.stamps_ns[order],
        yaw,
        rows.numbers[_PITCH[0]][order],
        rows.numbers[_DEPTH][order],
        yaw_interval,
        rows.stack(_PITCH[1:])[order],
        left,
        right,
        tuple(dict.fromkeys(rows.texts.get(_SESSION, ()))),
    )


def _combined(table: Table, warnings: list[str]) -> MpsGaze:
    rows, order = _ordered(table, (*_YAW, *_PITCH, _DEPTH), warnings)
    return _gaze(rows, order, rows.numbers[_YAW[0]][order], rows.stack(_YAW[1:])[order], None)


def _per_eye(table: Table, warnings: list[str]) -> MpsGaze:
    yaws = {side: tuple(f"{side}_{name}" for name in _YAW) for side in ("left", "right")}
    origins = {side: tuple(f"t{axis}_{side}_eye_cpf" for axis in "xyz") for side in ("left", "right")}
    numbers = (*yaws["left"], *yaws["right"], *_PITCH, _DEPTH, *origins["left"], *origins["right"])
    rows, order = _ordered(table, numbers, warnings)
    left, right = (
        EyeSide(
            rows.stack(origins[side])[order],
            rows.numbers[yaws[side][0]][order],
            rows.stack(yaws[side][1:])[order],
        )
        for side in ("left", "right")
    )
    yaw = np.arctan((np.tan(left.yaw_rad) + np.tan(right.yaw_rad)) / 2)
    gaze = _gaze(rows, order, yaw, np.full((len(order), 2), np.nan), (left, right))
    doubtful = np.isfinite(gaze.depth_m) & np.isfinite(yaw) & ~gaze.rays_meet_ahead()
    if doubtful.any():
        warnings.append(
            f"{rows.path.name}: in {int(doubtful.sum())} of {len(order)} rows the rays of the two eyes do not meet "
            "ahead, yet a depth is given; it is kept as it is (see rays_meet_ahead)"
        )
    return gaze
