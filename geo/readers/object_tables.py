"""Tables that ADT and HOT3D share: poses of objects through time, and 2D boxes.

Columns are found by name; a row that is cut off, a number that is none, one object twice at one time with two poses:
all are errors with file and line. Times are whole nanoseconds and never pass through a float (FIELD P4).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int64

from geo.errors import RecordingError
from geo.readers.mps.columns import open_table
from geo.readers.pose_rows import PoseRow, poses_from_rows
from geo.readers.text_files import shown
from geo.trajectory import Trajectory

TIME = "timestamp[ns]"
UID = "object_uid"
POSE = ("t_wo_x[m]", "t_wo_y[m]", "t_wo_z[m]", "q_wo_w", "q_wo_x", "q_wo_y", "q_wo_z")
BOX = ("x_min[pixel]", "x_max[pixel]", "y_min[pixel]", "y_max[pixel]")
_VISIBILITY = "visibility_ratio[%]"
STATIC_STAMP = -1


@dataclass(frozen=True)
class ObjectRows:
    """Columns of a table as arrays, in the order of the file."""

    path: Path
    lines: Int64[np.ndarray, "R"]
    uids: list[str]
    timestamps_ns: Int64[np.ndarray, "R"]
    numbers: Float[np.ndarray, "R C"]
    texts: dict[str, list[str]]


def read_rows(
    path: Path,
    numbers: Sequence[str],
    warnings: list[str],
    texts: Sequence[str] = (),
    uid: str | None = UID,
) -> ObjectRows:
    """Columns of a table with an object (unless ``uid`` is None) and a time per row.

    Raises:
        RecordingError: see ``geo.readers.mps.columns``; a time that is negative (-1 says static), a uid that is empty.
    """
    table = open_table(path)
    named = () if uid is None else (uid,)
    table.check((*named, TIME, *numbers, *texts), warnings)
    lines: list[int] = []
    uids: list[str] = []
    stamps: list[np.ndarray] = []
    values: list[np.ndarray] = []
    strings: dict[str, list[str]] = {name: [] for name in texts}
    for block in table.blocks():
        lines += block.lines
        uids += [] if uid is None else [cell.strip() for cell in block.cells[uid]]
        stamps.append(block.integers(TIME))
        columns = [block.numbers(name) for name in numbers]
        values.append(np.stack(columns, axis=1) if columns else np.empty((len(block.lines), 0)))
        for name in texts:
            strings[name] += [cell.strip() for cell in block.cells[name]]
    all_stamps = np.concatenate(stamps)
    bad = np.flatnonzero(all_stamps < STATIC_STAMP)
    if len(bad):
        raise RecordingError(f"{path} line {lines[bad[0]]}: {TIME} = {all_stamps[bad[0]]} is no time of a clock")
    empty = [line for line, name in zip(lines, uids, strict=False) if not name]
    if empty:
        raise RecordingError(f"{path} line {empty[0]}: {uid} is empty; is the row cut off?")
    return ObjectRows(path, np.array(lines, dtype=np.int64), uids, all_stamps, np.concatenate(values), strings)


@dataclass(frozen=True)
class ObjectPoses:
    """Poses of one object (or of the headset) at rising times; ``static``: one pose, whatever the time."""

    uid: str
    static: bool
    timestamps_ns: Int64[np.ndarray, "T"]
    world_from_object: Float[np.ndarray, "T 4 4"]


def read_object_poses(path: Path, warnings: list[str]) -> dict[str, ObjectPoses]:
    """Poses by uid, in the order in which the file first names them. Rows without a finite pose are gaps.

    Raises:
        RecordingError: see ``read_rows``; an object that is static and at a time as well. PoseError: a quaternion that
            is not unit. TimeError: one object at one time with two poses.
    """
    rows = read_rows(path, POSE, warnings)
    listed = [
        PoseRow(line, (x, y, z), (qw, qx, qy, qz))
        for line, (x, y, z, qw, qx, qy, qz) in zip(rows.lines.tolist(), rows.numbers.tolist(), strict=True)
    ]
    poses = poses_from_rows(listed, path, warnings)
    groups: dict[str, list[int]] = {}
    for row, uid in enumerate(rows.uids):
        groups.setdefault(uid, []).append(row)
    out = {}
    for uid, members in groups.items():
        index = np.array(members)
        static = rows.timestamps_ns[index] == STATIC_STAMP
        if static.any() and not static.all():
            line = int(rows.lines[index[int(np.argmax(static))]])
            raise RecordingError(f"{path} line {line}: object {shown(uid)} is static (-1) here and at a time elsewhere")
        track = Trajectory.from_rows(
            rows.timestamps_ns[index], poses[index], f"{path} object {uid}", rows.lines[index].tolist()
        )
        if len(track.timestamps_ns):
            out[uid] = ObjectPoses(uid, bool(static.any()), track.timestamps_ns, track.world_from_body)
    return out


@dataclass(frozen=True)
class Boxes2d:
    """2D boxes as a data set gives them, in pixels of the pictures AS STORED (not turned upright).

    ``box_xyxy_px`` may leave the picture; ``visibility`` is 0..1, NaN = not said.
    """

    stream_ids: list[str]
    uids: list[str]
    timestamps_ns: Int64[np.ndarray, "N"]
    box_xyxy_px: Float[np.ndarray, "N 4"]
    visibility: Float[np.ndarray, "N"]

    def of_stream(self, stream_id: str) -> Bool[np.ndarray, "N"]:
        """True for the boxes of a stream."""
        return np.array([name == stream_id for name in self.stream_ids], dtype=bool)


def read_boxes_2d(path: Path, warnings: list[str]) -> Boxes2d:
    """``2d_bounding_box.csv`` of ADT, ``box2d_objects.csv`` of HOT3D.

    Raises:
        RecordingError: see ``read_rows``; a box that is inside out.
    """
    rows = read_rows(path, (*BOX, _VISIBILITY), warnings, ("stream_id",))
    box = rows.numbers[:, [0, 2, 1, 3]]
    turned = np.flatnonzero((box[:, 0] > box[:, 2]) | (box[:, 1] > box[:, 3]))
    if len(turned):
        raise RecordingError(f"{path} line {rows.lines[turned[0]]}: box {box[turned[0]].tolist()} is inside out")
    return Boxes2d(rows.texts["stream_id"], rows.uids, rows.timestamps_ns, box, rows.numbers[:, 4])
