"""MPS trajectory and semi-dense points: one world per ``graph_uid``, gravity aligned, in metres.

Source: projectaria_tools, "MPS output - Trajectory" and "MPS Output - Semi-Dense Point Cloud",
``core/mps/Trajectory.h`` and ``core/mps/utils.py`` (``filter_points_from_confidence`` for the thresholds).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int64

from geo.errors import PoseError, RecordingError
from geo.motion import up_from_gravity
from geo.readers.mps.columns import TIME_COLUMN, Rows, open_table
from geo.readers.pose_rows import PoseRow, poses_from_rows
from geo.readers.text_files import shown
from geo.trajectory import Trajectory

MAX_INVERSE_DISTANCE_STD = 0.001  # 1/m
MAX_DISTANCE_STD_M = 0.05
_POSE = tuple(f"{name}_world_device" for name in ("tx", "ty", "tz", "qx", "qy", "qz", "qw"))
_GRAVITY = tuple(f"gravity_{axis}_world" for axis in "xyz")
_QUALITY = "quality_score"
_GRAPH = "graph_uid"
_IGNORED = (
    "utc_timestamp_ns",
    *(f"device_linear_velocity_{axis}_device" for axis in "xyz"),
    *(f"angular_velocity_{axis}_device" for axis in "xyz"),
)
_GEO = ("geo_available", *(f"{name}_ecef_device" for name in ("tx", "ty", "tz", "qx", "qy", "qz", "qw")))
_POINT = ("px_world", "py_world", "pz_world")
_STDS = ("inv_dist_std", "dist_std")
_GRAVITY_RANGE = (5.0, 15.0)  # m/s^2
_SAME_DIRECTION = np.cos(np.radians(0.5))
_ROWS_AT_ONCE = 65536


@dataclass(frozen=True)
class MpsTrajectory:
    """Poses of the device in the world of one graph.

    ``trajectory`` is world_from_device in the device clock. ``quality`` belongs to its rows: above 0, at most 1, more
    is better. ``up_in_world`` is the unit direction against gravity, None if the file does not say.
    """

    trajectory: Trajectory
    quality: Float[np.ndarray, "N"]
    up_in_world: Float[np.ndarray, "3"] | None
    graph_uid: str


@dataclass(frozen=True)
class MpsPoints:
    """Semi-dense points in the world of one graph, with standard deviations along the ray that first saw them."""

    uids: Int64[np.ndarray, "N"]
    points_in_world: Float[np.ndarray, "N 3"]
    inverse_distance_std: Float[np.ndarray, "N"]  # 1/m
    distance_std_m: Float[np.ndarray, "N"]
    graph_uid: str


def read_closed_loop(path: Path, warnings: list[str], min_quality: float | int = 0) -> MpsTrajectory:
    """``closed_loop_trajectory.csv``, with or without geo columns (which are not read), gzipped or not.

    Rows of quality 0, of unknown quality or below ``min_quality``, and rows whose pose is not finite are gaps. Where
    the file holds more than one graph (worlds that have nothing to do with each other), the one with most poses is
    kept.

    Args:
        path: The file.
        warnings: Gaps, graphs that are left out and unknown columns are added here.
        min_quality: Lowest quality score of a pose, 0..1.

    Raises:
        RecordingError: unreadable, cut off, columns missing, numbers that are none, no pose left.
        PoseError: a quaternion that is not unit, a position out of this world, gravity that is none or turns.
        TimeError: two rows with one time stamp and different poses.
    """
    table = open_table(path)
    table.check((_GRAPH, TIME_COLUMN, *_POSE, *_GRAVITY, _QUALITY), warnings, {"geo": _GEO}, _IGNORED)
    rows = table.rows((*_POSE, *_GRAVITY, _QUALITY), (_GRAPH,))
    quality = rows.numbers[_QUALITY]
    wrong = np.flatnonzero(quality > 1)
    if len(wrong):
        raise RecordingError(
            f"{path} line {rows.lines[wrong[0]]} column {_QUALITY} = {quality[wrong[0]]} is no score from 0 to 1; "
            "are the columns shifted?"
        )
    poses = rows.stack(_POSE)
    with np.errstate(invalid="ignore", over="ignore"):
        good = (quality > 0) & (quality >= min_quality)
        finite = np.isfinite(poses).all(axis=1) & (np.abs(poses[:, 3:]).max(axis=1) > 1e-8)
    graph, in_graph = _longest_graph(rows.texts[_GRAPH], good & finite, path, warnings)
    _warn(path, warnings, int((in_graph & ~good).sum()), len(quality), f"quality 0, unknown or below {min_quality:g}")
    _warn(path, warnings, int((in_graph & good & ~finite).sum()), len(quality), "no finite pose")
    kept = np.flatnonzero(in_graph & good & finite)
    stamps, lines = rows.stamps_ns[kept], rows.lines[kept].tolist()
    transforms = _transforms(poses[kept], lines, path, warnings)
    trajectory = Trajectory.from_rows(stamps, transforms, str(path), row_names=lines)
    order = np.argsort(stamps, kind="stable")
    first = order[np.searchsorted(stamps[order], trajectory.timestamps_ns)]
    return MpsTrajectory(trajectory, quality[kept][first], _up(rows, kept, warnings), graph)


def _warn(path: Path, warnings: list[str], count: int, total: int, what: str) -> None:
    if count:
        warnings.append(f"{path.name}: {count} of {total} rows are gaps ({what})")


def _longest_graph(
    graphs: list[str], usable: Bool[np.ndarray, "R"], path: Path, warnings: list[str]
) -> tuple[str, Bool[np.ndarray, "R"]]:
    """The graph with most usable rows (the earlier of two), and which rows are its own."""
    names = list(dict.fromkeys(graphs))
    numbers = {name: i for i, name in enumerate(names)}
    index = np.array([numbers[name] for name in graphs], dtype=np.int64)
    counts = np.bincount(index[usable], minlength=len(names))
    best = int(np.argmax(counts))
    if not counts[best]:
        raise RecordingError(f"{path} has no usable pose ({len(graphs)} rows); without poses nothing can be placed")
    if len(names) > 1:
        warnings.append(_left_out(path, names[best], {n: int(c) for n, c in zip(names, counts, strict=True)}, "poses"))
    return names[best], index == best


def _left_out(path: Path, best: str, counts: Mapping[str, int], what: str) -> str:
    rest = sum(counts.values()) - counts[best]
    return (
        f"{path.name}: {len(counts)} graphs whose worlds do not fit together; kept is {shown(best)} with "
        f"{counts[best]} {what}, {rest} {what} of the others are left out"
    )


def _transforms(
    poses: Float[np.ndarray, "K 7"], lines: list[int], path: Path, warnings: list[str]
) -> Float[np.ndarray, "K 4 4"]:
    """Rows tx ty tz qx qy qz qw as transforms, some at a time."""
    out = np.empty((len(poses), 4, 4))
    for start in range(0, len(poses), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        rows = [
            PoseRow(line, (tx, ty, tz), (qw, qx, qy, qz))
            for line, (tx, ty, tz, qx, qy, qz, qw) in zip(lines[part], poses[part].tolist(), strict=True)
        ]
        out[part] = poses_from_rows(rows, path, warnings)
    return out


def _up(rows: Rows, kept: Int64[np.ndarray, "K"], warnings: list[str]) -> Float[np.ndarray, "3"] | None:
    """The one direction against gravity; None with a warning where no row has gravity."""
    gravity = rows.stack(_GRAVITY)[kept]
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.linalg.norm(gravity, axis=1)
        known = np.flatnonzero(np.isfinite(gravity).all(axis=1) & (length != 0))
        if not len(known):
            warnings.append(f"{rows.path.name}: no row has gravity; which way is up is not known")
            return None
        odd = known[~((length[known] >= _GRAVITY_RANGE[0]) & (length[known] <= _GRAVITY_RANGE[1]))]
    if len(odd):
        raise PoseError(
            f"{rows.path} line {rows.lines[kept[odd[0]]]}: gravity {gravity[odd[0]].tolist()} is not that of the earth "
            "in m/s^2; are the columns shifted?"
        )
    directions = gravity[known] / length[known, None]
    mean = directions.mean(axis=0)
    turned = directions @ mean < _SAME_DIRECTION * np.linalg.norm(mean)
    if turned.any() or not mean.any():
        far = int(known[int(np.argmin(directions @ mean))])
        raise PoseError(
            f"{rows.path} line {rows.lines[kept[far]]}: gravity {gravity[far].tolist()} points elsewhere than in the "
            "other rows; in the world of one graph it is one direction. Is the file damaged?"
        )
    return up_from_gravity(mean) + 0.0


def read_points(
    path: Path,
    warnings: list[str],
    graph_uid: str | None = None,
    max_inverse_distance_std: float | int = MAX_INVERSE_DISTANCE_STD,
    max_distance_std_m: float | int = MAX_DISTANCE_STD_M,
) -> MpsPoints:
    """``global_points.csv.gz`` (``semidense_points.csv.gz``): points of which neither deviation is above its limit.

    The file is read in blocks; memory grows with the points that are kept, not with the file. Points that are not
    finite or whose deviations are unknown are dropped.

    Args:
        path: The file.
        warnings: Dropped points, graphs that are left out and unknown columns are added here.
        graph_uid: World of the points, ``MpsTrajectory.graph_uid``; None takes the graph with most points.
        max_inverse_distance_std: Largest one in 1/m. ``math.inf`` takes all.
        max_distance_std_m: Largest one in metres, likewise.

    Raises:
        RecordingError: unreadable, cut off, columns missing, numbers that are none, one point twice, no point of this
            graph, no point within the limits.
    """
    table = open_table(path)
    table.check(("uid", _GRAPH, *_POINT, *_STDS), warnings)
    kept: dict[str, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
    counts: dict[str, int] = {}
    unknown = 0
    for block in table.blocks():
        graphs = np.array([cell.strip() for cell in block.cells[_GRAPH]])
        uids = block.integers("uid")
        values = np.stack([block.numbers(name) for name in (*_POINT, *_STDS)], axis=1)
        finite = np.isfinite(values).all(axis=1)
        unknown += int((~finite).sum())
        good = finite & (values[:, 3] <= max_inverse_distance_std) & (values[:, 4] <= max_distance_std_m)
        good &= (values[:, 3:] >= 0).all(axis=1)
        for name in dict.fromkeys(graphs.tolist()):
            mine = graphs == name
            counts[name] = counts.get(name, 0) + int(mine.sum())
            chosen = mine & good
            kept.setdefault(name, []).append((uids[chosen], values[chosen], np.array(block.lines)[chosen]))
    best = graph_uid if graph_uid is not None else max(counts, key=lambda name: counts[name])
    if best not in counts:
        names = ", ".join(shown(name) for name in list(counts)[:5])
        raise RecordingError(
            f"{path} has no point of graph {shown(best)}, only of {names}; is it of another recording?"
        )
    if len(counts) > 1:
        warnings.append(_left_out(path, best, counts, "points"))
    if unknown:
        warnings.append(f"{path.name}: {unknown} points without a finite position and deviation are left out")
    uids = np.concatenate([part[0] for part in kept[best]])
    values = np.concatenate([part[1] for part in kept[best]])
    lines = np.concatenate([part[2] for part in kept[best]])
    if not len(uids):
        raise RecordingError(
            f"{path}: none of {counts[best]} points has inv_dist_std <= {max_inverse_distance_std:g} and dist_std <= "
            f"{max_distance_std_m:g}; raise the limits"
        )
    single = _unique(uids, values, lines, path)
    return MpsPoints(uids[single], values[single, :3], values[single, 3], values[single, 4], best)


def _unique(
    uids: Int64[np.ndarray, "K"], values: Float[np.ndarray, "K 5"], lines: Int64[np.ndarray, "K"], path: Path
) -> Int64[np.ndarray, "U"]:
    """Rows in the order of the file, equal ones once."""
    order = np.argsort(uids, kind="stable")
    same = np.flatnonzero(np.diff(uids[order]) == 0) + 1
    for i in same.tolist():
        before, row = int(order[i - 1]), int(order[i])
        if not np.array_equal(values[before], values[row]):
            raise RecordingError(f"{path} lines {lines[before]} and {lines[row]}: point {uids[row]} is at two places")
    return np.sort(np.delete(order, same))
