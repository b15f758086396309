"""The comma-separated tables of the plain layout: trajectory, gaze, hands. Errors name the file and the line."""

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from geo.errors import RecordingError
from geo.readers.pose_rows import PoseRow, poses_from_rows
from geo.readers.text_files import read_text
from geo.recording import GazeTrack, HandTrack
from geo.trajectory import Trajectory

TRAJECTORY_COLUMNS = ("timestamp_ns", "tx", "ty", "tz", "qw", "qx", "qy", "qz")
GAZE_COLUMNS = ("timestamp_ns", "x_px", "y_px")
HAND_COLUMNS = ("timestamp_ns", "side", "joint", "x_m", "y_m", "z_m")
HAND_JOINTS = 21
_INT64 = 2**63


@dataclass(frozen=True)
class Table:
    """Rows of a table as text by column, with the line each came from."""

    path: Path
    rows: list[dict[str, str]]
    lines: list[int]

    def number(self, row: int, column: str) -> float:
        """A number; an empty cell is NaN."""
        text = self.rows[row].get(column, "").strip()
        if not text:
            return math.nan
        try:
            return float(text)
        except ValueError:
            raise RecordingError(f"{self.path} line {self.lines[row]}: {column} = {text!r} is no number") from None

    def integer(self, row: int, column: str) -> int:
        """A whole number, exact whatever its size (nanoseconds never pass through floats; FIELD P4)."""
        text = self.rows[row].get(column, "").strip()
        try:
            value = int(text)
        except ValueError:
            raise RecordingError(
                f"{self.path} line {self.lines[row]}: {column} = {text!r} is no whole number"
            ) from None
        if not -_INT64 <= value < _INT64:
            raise RecordingError(f"{self.path} line {self.lines[row]}: {column} = {value} does not fit 64 bits")
        return value


def read_table(path: Path, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> Table:
    """Read a table whose first line names its columns (BOM, CRLF and gzip are no matter).

    Raises:
        RecordingError: missing or unreadable file, missing or unknown columns, rows of another length.
    """
    text = read_text(path)
    try:
        lines = list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise RecordingError(f"{path} is no text table: {error}") from error
    header = [name.strip() for name in lines[0]] if lines else []
    missing = [name for name in required if name not in header]
    unknown = [name for name in header if name not in required + optional]
    if missing or unknown or len(set(header)) != len(header):
        raise RecordingError(f"{path} line 1: columns are {header}; expected {','.join(required + optional)}")
    rows, numbers = [], []
    for number, cells in enumerate(lines[1:], start=2):
        if not cells or (len(cells) == 1 and not cells[0].strip()):
            continue
        if len(cells) != len(header):
            raise RecordingError(
                f"{path} line {number} has {len(cells)} cells, the header {len(header)}; is it cut off?"
            )
        rows.append(dict(zip(header, cells, strict=True)))
        numbers.append(number)
    return Table(path, rows, numbers)


def read_trajectory(path: Path, warnings: list[str]) -> Trajectory:
    """``trajectory.csv``: world_from_reference, one row per known pose; rows with NaN are gaps (warned of).

    Raises:
        RecordingError, TimeError, PoseError: see ``read_table``, ``poses_from_rows`` and ``Trajectory.from_rows``.
    """
    table = read_table(path, TRAJECTORY_COLUMNS)
    count = len(table.rows)
    stamps = np.array([table.integer(i, "timestamp_ns") for i in range(count)], dtype=np.int64)
    rows = []
    for i in range(count):
        tx, ty, tz, qw, qx, qy, qz = (table.number(i, name) for name in TRAJECTORY_COLUMNS[1:])
        rows.append(PoseRow(table.lines[i], (tx, ty, tz), (qw, qx, qy, qz)))
    poses = poses_from_rows(rows, path, warnings)
    return Trajectory.from_rows(stamps, poses, str(path), row_names=table.lines)


def read_gaze(path: Path) -> GazeTrack:
    """``gaze.csv``: pixels of the reference camera's source image; empty cells are unknown.

    Raises:
        RecordingError: see ``read_table``.
    """
    table = read_table(path, GAZE_COLUMNS, ("depth_m",))
    count = len(table.rows)
    stamps = np.array([table.integer(i, "timestamp_ns") for i in range(count)], dtype=np.int64)
    points = np.array([[table.number(i, "x_px"), table.number(i, "y_px")] for i in range(count)]).reshape(count, 2)
    depth = np.array([table.number(i, "depth_m") for i in range(count)], dtype=np.float64)
    points[~np.isfinite(points).all(axis=1)] = np.nan
    depth[~(np.isfinite(depth) & (depth > 0))] = np.nan
    order = np.argsort(stamps, kind="stable")
    return GazeTrack(stamps[order], points[order], depth[order])


def read_hands(path: Path) -> tuple[HandTrack, ...]:
    """``hands.csv``: one row per joint, in world; joints that are not listed are NaN.

    Raises:
        RecordingError: see ``read_table``; a side or joint number that does not exist, a joint given twice.
    """
    table = read_table(path, HAND_COLUMNS, ("confidence",))
    by_side: dict[str, dict[int, dict[int, tuple[float, ...]]]] = {"left": {}, "right": {}}
    for i, row in enumerate(table.rows):
        side, joint = row["side"].strip(), table.integer(i, "joint")
        if side not in by_side or not 0 <= joint < HAND_JOINTS:
            raise RecordingError(
                f"{path} line {table.lines[i]}: side {side!r} joint {joint}; sides are left and right, joints 0..20"
            )
        joints = by_side[side].setdefault(table.integer(i, "timestamp_ns"), {})
        if joint in joints:
            raise RecordingError(f"{path} line {table.lines[i]}: {side} joint {joint} is given twice at this time")
        joints[joint] = tuple(table.number(i, name) for name in ("x_m", "y_m", "z_m", "confidence"))
    return tuple(_hand(side, frames) for side, frames in by_side.items() if frames)


def _hand(side: str, frames: dict[int, dict[int, tuple[float, ...]]]) -> HandTrack:
    """Arrays of one side in rising time; the confidence of a time is the mean over its joints."""
    stamps = sorted(frames)
    values = np.full((len(stamps), HAND_JOINTS, 4), np.nan)
    for t, stamp in enumerate(stamps):
        for joint, numbers in frames[stamp].items():
            values[t, joint] = numbers
    joints = values[..., :3].copy()
    joints[~np.isfinite(joints).all(axis=2)] = np.nan
    known = np.isfinite(values[..., 3])
    total = np.where(known, values[..., 3], 0.0).sum(axis=1)
    confidence = np.where(known.any(axis=1), total / np.maximum(known.sum(axis=1), 1), np.nan)
    return HandTrack(side, np.array(stamps, dtype=np.int64), joints, confidence)
