"""MPS hands: 21 landmarks, or wrist and palm only, per side in the device frame (metres).

| joint here | Aria's landmark |
|---|---|
| 0 wrist | 5 WRIST |
| 1 base of the thumb (carpometacarpal joint) | none: NaN |
| 2, 3, 4 thumb | 6 THUMB_INTERMEDIATE, 7 THUMB_DISTAL, 0 THUMB_FINGERTIP |
| 5..8 index finger | 8 INDEX_PROXIMAL, 9 INDEX_INTERMEDIATE, 10 INDEX_DISTAL, 1 INDEX_FINGERTIP |
| 9..12 middle finger | 11, 12, 13, 2 |
| 13..16 ring finger | 14, 15, 16, 3 |
| 17..20 little finger | 17, 18, 19, 4 |

Aria's landmark 20, PALM_CENTER, is no joint and is kept apart. Source: projectaria_tools, "MPS Output - Hand Tracking"
and the enum ``mps.hand_tracking.HandLandmark``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int64

from geo.errors import RecordingError
from geo.readers.mps.columns import TIME_COLUMN, Rows, Table, open_table, order_in_time
from geo.readers.pose_rows import PoseRow, poses_from_rows
from geo.recording import HandTrack
from geo.trajectory import DEFAULT_MAX_GAP_NS, Trajectory

_NONE = -1
ARIA_LANDMARK_OF_JOINT = (5, _NONE, 6, 7, 0, 8, 9, 10, 1, 11, 12, 13, 2, 14, 15, 16, 3, 17, 18, 19, 4)
ARIA_PALM = 20
_WRIST = 5
_LANDMARKS = 21
_MAX_REACH_M = 10.0
_AXES = "xyz"
_SIDES = ("left", "right")


@dataclass(frozen=True)
class MpsHand:
    """One hand at rising times of the device clock, in the device frame; NaN = not seen, or not in the file."""

    side: str  # "left" or "right"
    timestamps_ns: Int64[np.ndarray, "T"]
    joints_in_device: Float[np.ndarray, "T 21 3"]  # order: see the head of this file
    palm_in_device: Float[np.ndarray, "T 3"]
    confidence: Float[np.ndarray, "T"]  # above 0, at most 1; NaN = not seen
    device_from_wrist: Float[np.ndarray, "T 4 4"]
    palm_normal_in_device: Float[np.ndarray, "T 3"]
    wrist_normal_in_device: Float[np.ndarray, "T 3"]


def read_hands(path: Path, warnings: list[str]) -> tuple[MpsHand, MpsHand]:
    """Left and right hand of ``hand_tracking_results.csv`` or ``wrist_and_palm_poses.csv``, either version of each.

    Wrist and palm files tell the wrist (joint 0) and the palm; the other joints are NaN. A confidence of 0 or less, or
    none, is a hand that was not seen: all of it is NaN, whatever numbers stand beside it.

    Args:
        path: The file, gzipped or not.
        warnings: Unknown columns, and a file in which no hand was seen, are named here.

    Raises:
        RecordingError: unreadable, cut off, columns missing, numbers that are none, a confidence above 1, a hand more
            than 10 m from the device.
        PoseError: a wrist rotation that is not unit. TimeError: two rows with one time stamp and different numbers.
    """
    table = open_table(path)
    with_landmarks = any("_landmark_" in name for name in table.header)
    columns = {side: _SideColumns(side, with_landmarks) for side in _SIDES}
    required = [TIME_COLUMN, *(name for side in columns.values() for name in side.required())]
    groups = {
        "poses": tuple(name for side in columns.values() for name in side.pose()),
        "normals": tuple(name for side in columns.values() for name in (*side.normal("palm"), *side.normal("wrist"))),
    }
    present = table.check(required, warnings, groups)
    numbers = [*required[1:], *(name for group in sorted(present) for name in groups[group])]
    rows = _rows(table, numbers)
    order = order_in_time(rows, rows.stack(numbers))
    left, right = (_hand(rows, order, columns[side], present, warnings) for side in _SIDES)
    if not (np.isfinite(left.confidence).any() or np.isfinite(right.confidence).any()):
        warnings.append(f"{path.name}: no hand is seen in any of {len(order)} rows")
    return left, right


def _rows(table: Table, numbers: list[str]) -> Rows:
    rows = table.rows(numbers)
    for values in rows.numbers.values():
        values[~np.isfinite(values)] = np.nan
    return rows


@dataclass(frozen=True)
class _SideColumns:
    """Names of one side's columns."""

    side: str
    with_landmarks: bool

    def confidence(self) -> str:
        return f"{self.side}_tracking_confidence"

    def points(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Aria's landmark numbers with their three columns."""
        if self.with_landmarks:
            for number in range(_LANDMARKS):
                yield number, tuple(f"t{axis}_{self.side}_landmark_{number}_device" for axis in _AXES)
        else:
            for number, name in ((_WRIST, "wrist"), (ARIA_PALM, "palm")):
                yield number, tuple(f"t{axis}_{self.side}_{name}_device" for axis in _AXES)

    def required(self) -> list[str]:
        return [self.confidence(), *(name for _, names in self.points() for name in names)]

    def pose(self) -> tuple[str, ...]:
        if not self.with_landmarks:
            return ()
        return tuple(f"{name}_{self.side}_device_wrist" for name in ("tx", "ty", "tz", "qx", "qy", "qz", "qw"))

    def normal(self, part: str) -> tuple[str, ...]:
        return tuple(f"n{axis}_{self.side}_{part}_device" for axis in _AXES)


def _hand(
    rows: Rows, order: Int64[np.ndarray, "T"], columns: _SideColumns, present: frozenset[str], warnings: list[str]
) -> MpsHand:
    """One side; everything is NaN where it was not seen."""
    confidence = rows.numbers[columns.confidence()][order]
    lines = rows.lines[order]
    seen = confidence > 0
    _refuse(confidence > 1, rows, lines, columns.confidence(), "is no confidence up to 1; are the columns shifted?")
    count = len(order)
    aria = np.full((count, _LANDMARKS + 1, 3), np.nan)  # the last stays NaN: Aria has no such joint
    for number, names in columns.points():
        aria[seen, number] = rows.stack(names)[order][seen]
        far = seen & (np.abs(aria[:, number]) > _MAX_REACH_M).any(axis=1)
        _refuse(
            far, rows, lines, names[0], f"or its y or z is over {_MAX_REACH_M:g} m from the device; is it in metres?"
        )
    aria[~np.isfinite(aria).all(axis=2)] = np.nan
    normals = {part: np.full((count, 3), np.nan) for part in ("palm", "wrist")}
    if "normals" in present:
        for part, values in normals.items():
            values[seen] = rows.stack(columns.normal(part))[order][seen]
            values[~(np.isfinite(values).all(axis=1) & values.any(axis=1))] = np.nan
    poses = np.full((count, 4, 4), np.nan)
    if "poses" in present:
        _fill_poses(poses, rows.stack(columns.pose())[order], seen, lines, rows.path, warnings)
    return MpsHand(
        columns.side,
        rows.stamps_ns[order],
        aria[:, list(ARIA_LANDMARK_OF_JOINT)],
        aria[:, ARIA_PALM],
        np.where(seen, confidence, np.nan),
        poses,
        normals["palm"],
        normals["wrist"],
    )


def _refuse(bad: Bool[np.ndarray, "T"], rows: Rows, lines: Int64[np.ndarray, "T"], column: str, what: str) -> None:
    if bad.any():
        line = int(lines[int(np.argmax(bad))])
        value = float(rows.numbers[column][int(np.flatnonzero(rows.lines == line)[0])])
        raise RecordingError(f"{rows.path} line {line} column {column} = {value:g} {what}")


def _fill_poses(
    poses: Float[np.ndarray, "T 4 4"],
    values: Float[np.ndarray, "T 7"],
    seen: Bool[np.ndarray, "T"],
    lines: Int64[np.ndarray, "T"],
    path: Path,
    warnings: list[str],
) -> None:
    """Wrist poses tx ty tz qx qy qz qw of the rows that have one."""
    usable = np.flatnonzero(seen & np.isfinite(values).all(axis=1) & (np.abs(values[:, 3:]).max(axis=1) > 1e-8))
    if len(usable):
        listed = [
            PoseRow(int(lines[i]), (tx, ty, tz), (qw, qx, qy, qz))
            for i, (tx, ty, tz, qx, qy, qz, qw) in zip(usable, values[usable].tolist(), strict=True)
        ]
        poses[usable] = poses_from_rows(listed, path, warnings)


def hand_track(hand: MpsHand, world_from_device: Trajectory, max_gap_ns: int = DEFAULT_MAX_GAP_NS) -> HandTrack:
    """The hand's joints in world, at its own times; NaN where the hand or the device's pose is not known.

    Args:
        hand: One side, in the device frame.
        world_from_device: Poses in the same clock (``slam.read_closed_loop``).
        max_gap_ns: Longest gap between poses that is bridged.

    Raises:
        TimeError: the two have no time in common: two recordings or two clocks (FIELD P5).
    """
    poses = world_from_device.poses_at(hand.timestamps_ns, max_gap_ns)
    joints = np.einsum("tij,tkj->tki", poses[:, :3, :3], hand.joints_in_device) + poses[:, None, :3, 3]
    return HandTrack(
        hand.side,
        hand.timestamps_ns,
        joints,
        np.where(np.isfinite(poses).all(axis=(1, 2)), hand.confidence, np.nan),
    )
