"""The comma-separated tables of the plain layout: trajectory, gaze, hands. Errors name the file and the line."""

import csv
import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from geo.errors import RecordingError
from geo.readers.pose_rows import poses_from_numbers
from geo.readers.text_files import read_text
from geo.recording import GazeTrack, HandTrack
from geo.trajectory import Trajectory

TRAJECTORY_COLUMNS = ("timestamp_ns", "tx", "ty", "tz", "qw", "qx", "qy", "qz")
GAZE_COLUMNS = ("timestamp_ns", "x_px", "y_px")
HAND_COLUMNS = ("timestamp_ns", "side", "joint", "x_m", "y_m", "z_m")
HAND_JOINTS = 21
_INT64 = 2**63


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table as text by column, with the line that it came from."""

    path: Path
    line: int
    cells: dict[str, str]

    def number(self, column: str) -> float:
        """A number; an empty cell is NaN."""
        text = self.cells.get(column, "").strip()
        if not text:
            return math.nan
        try:
            return float(text)
        except ValueError:
            raise RecordingError(f"{self.path} line {self.line}: {column} = {text!r} is no number") from None

    def integer(self, column: str) -> int:
        """A whole number, exact whatever its size (nanoseconds never pass through floats; FIELD P4)."""
        text = self.cells.get(column, "").strip()
        try:
            value = int(text)
        except ValueError:
            raise RecordingError(f"{self.path} line {self.line}: {column} = {text!r} is no whole number") from None
        if not -_INT64 <= value < _INT64:
            raise RecordingError(f"{self.path} line {self.line}: {column} = {value} does not fit 64 bits")
        return value


def table_rows(path: Path, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> Iterator[Row]:
    """Rows of a table whose first line names its columns (BOM, CRLF and gzip are no matter), one at a time.

    A long table costs its text and what the caller keeps of the rows.

    Raises:
        RecordingError: missing or unreadable file, missing or unknown columns, rows of another length.
    """
    lines = csv.reader(_lines(read_text(path)))
    try:
        header = [name.strip() for name in next(lines, [])]
        missing = [name for name in required if name not in header]
        unknown = [name for name in header if name not in required + optional]
        if missing or unknown or len(set(header)) != len(header):
            raise RecordingError(f"{path} line 1: columns are {header}; expected {','.join(required + optional)}")
        for number, cells in enumerate(lines, start=2):
            if not cells or (len(cells) == 1 and not cells[0].strip()):
                continue
            if len(cells) != len(header):
                raise RecordingError(
                    f"{path} line {number} has {len(cells)} cells, the header {len(header)}; is it cut off?"
                )
            yield Row(path, number, dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise RecordingError(f"{path} is no text table: {error}") from error


def _lines(text: str) -> Iterator[str]:
    """Lines with their ends, cut one by one."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def read_trajectory(path: Path, warnings: list[str]) -> Trajectory:
    """``trajectory.csv``: world_from_reference, one row per known pose; rows with NaN are gaps (warned of).

    Raises:
        RecordingError, TimeError, PoseError: see ``table_rows``, ``poses_from_numbers`` and ``Trajectory.from_rows``.
    """
    stamps, lines, numbers = array("q"), array("q"), array("d")
    for row in table_rows(path, TRAJECTORY_COLUMNS):
        stamps.append(row.integer("timestamp_ns"))
        lines.append(row.line)
        numbers.extend(row.number(name) for name in TRAJECTORY_COLUMNS[1:])
    values = np.array(numbers, dtype=np.float64).reshape(-1, 7)
    poses = poses_from_numbers(values[:, :3], values[:, 3:], lines, path, warnings)
    return Trajectory.from_rows(np.array(stamps, dtype=np.int64), poses, str(path), row_names=lines)


def read_gaze(path: Path) -> GazeTrack:
    """``gaze.csv``: pixels of the reference camera's source image; empty cells are unknown.

    Raises:
        RecordingError: see ``table_rows``.
    """
    times, numbers = array("q"), array("d")
    for row in table_rows(path, GAZE_COLUMNS, ("depth_m",)):
        times.append(row.integer("timestamp_ns"))
        numbers.extend(row.number(name) for name in ("x_px", "y_px", "depth_m"))
    stamps, values = np.array(times, dtype=np.int64), np.array(numbers, dtype=np.float64).reshape(-1, 3)
    points, depth = values[:, :2].copy(), values[:, 2].copy()
    points[~np.isfinite(points).all(axis=1)] = np.nan
    depth[~(np.isfinite(depth) & (depth > 0))] = np.nan
    order = np.argsort(stamps, kind="stable")
    return GazeTrack(stamps[order], points[order], depth[order])


def read_hands(path: Path) -> tuple[HandTrack, ...]:
    """``hands.csv``: one row per joint, in world; joints that are not listed are NaN.

    Raises:
        RecordingError: see ``table_rows``; a side or joint number that does not exist, a joint given twice.
    """
    by_side: dict[str, dict[int, dict[int, tuple[float, ...]]]] = {"left": {}, "right": {}}
    for row in table_rows(path, HAND_COLUMNS, ("confidence",)):
        side, joint = row.cells["side"].strip(), row.integer("joint")
        if side not in by_side or not 0 <= joint < HAND_JOINTS:
            raise RecordingError(
                f"{path} line {row.line}: side {side!r} joint {joint}; sides are left and right, joints 0..20"
            )
        joints = by_side[side].setdefault(row.integer("timestamp_ns"), {})
        if joint in joints:
            raise RecordingError(f"{path} line {row.line}: {side} joint {joint} is given twice at this time")
        joints[joint] = tuple(row.number(name) for name in ("x_m", "y_m", "z_m", "confidence"))
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
