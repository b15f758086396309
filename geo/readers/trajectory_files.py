"""Trajectories in files of their own: TUM, EuRoC, g2o, CSV. The format is named by the caller, never guessed.

| format | a row | separator |
|---|---|---|
| ``tum`` | seconds tx ty tz qx qy qz qw | blanks |
| ``euroc`` | nanoseconds, tx, ty, tz, qw, qx, qy, qz [, further columns, ignored] | commas |
| ``csv`` | this project's trajectory.csv (docs/formats.md): timestamp_ns,tx,ty,tz,qw,qx,qy,qz under a header | commas |
| g2o | VERTEX_SE3:QUAT id x y z qx qy qz qw (no time: see ``read_g2o``) | blanks |

Every row is world_from_body: the position of the body in the world (metres, if the file's are) and the rotation that
takes body axes to world axes. Rows that hold NaN or a zero quaternion are gaps, with a warning; rows may come in any
order; equal rows merge, rows that contradict each other are an error that names both lines (FIELD P6). Byte order mark,
CRLF and gzip are no matter.

Sources: TUM RGB-D benchmark, "File Formats"; EuRoC MAV data set, ``state_groundtruth_estimate0/data.csv``; g2o wiki,
"File Format SLAM 3D".
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int64

from geo.errors import PoseError, RecordingError, TimeError
from geo.readers.pose_rows import PoseRow, poses_from_rows, quats_for_writing
from geo.readers.tables import TRAJECTORY_COLUMNS
from geo.readers.tables import read_trajectory as read_csv
from geo.readers.text_files import (
    data_lines,
    nanoseconds_of,
    number_of,
    read_text,
    seconds_text,
    shown,
    whole_of,
    write_text,
)
from geo.trajectory import Trajectory

_TUM = ("tx", "ty", "tz", "qx", "qy", "qz", "qw")
_EUROC = ("tx", "ty", "tz", "qw", "qx", "qy", "qz")
_EUROC_HEADER = (
    "#timestamp [ns],p_RS_R_x [m],p_RS_R_y [m],p_RS_R_z [m],q_RS_w [],q_RS_x [],q_RS_y [],q_RS_z []"  # w first
)
_VERTEX = "VERTEX_SE3:QUAT"
_QUIET_TAGS = ("EDGE", "FIX", "PARAMS")  # parts of a graph that hold no pose
_NS = 1_000_000_000
_EQUAL_POSE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class NumberedPoses:
    """Poses that carry numbers instead of times, the numbers rising and unique.

    The body is what the file speaks of: the body of a g2o graph's vertices, the camera of EPIC-Fields' frames.
    ``names`` are the entries that the numbers come from, as far as the format has names.
    """

    numbers: Int64[np.ndarray, "N"]
    world_from_body: Float[np.ndarray, "N 4 4"]
    names: tuple[str, ...] = ()

    @staticmethod
    def from_rows(
        numbers: Int64[np.ndarray, "N"],
        world_from_body: Float[np.ndarray, "N 4 4"],
        source: str,
        places: tuple[str, ...],
        names: tuple[str, ...] = (),
    ) -> "NumberedPoses":
        """Sort by number, merge equal rows, leave NaN rows (gaps) out; ``places`` name rows in messages.

        Raises:
            RecordingError: one number with different poses; both places are named.
        """
        rows = np.flatnonzero(np.isfinite(world_from_body).all(axis=(1, 2)))
        keep: list[int] = []
        for row in rows[np.argsort(numbers[rows], kind="stable")].tolist():
            if keep and numbers[keep[-1]] == numbers[row]:
                if np.abs(world_from_body[keep[-1]] - world_from_body[row]).max() > _EQUAL_POSE_TOLERANCE:
                    raise RecordingError(
                        f"{source}: {places[keep[-1]]} and {places[row]} have the same number {numbers[row]} but "
                        "different poses; remove one of them"
                    )
                continue
            keep.append(row)
        return NumberedPoses(numbers[keep], world_from_body[keep], tuple(names[i] for i in keep) if names else ())

    def at_rate(self, rate_hz: float | int | Fraction, start_ns: int = 0, first_number: int = 0) -> Trajectory:
        """Trajectory in which number n has the time ``start_ns`` + (n - ``first_number``) / ``rate_hz``, exact.

        Raises:
            TimeError: a rate that is not positive, or times that do not fit 64-bit nanoseconds.
        """
        rate = rate_hz if isinstance(rate_hz, Fraction) else _fraction(rate_hz)
        if rate <= 0:
            raise TimeError(f"rate_hz = {rate_hz} must be positive and finite")
        stamps = [start_ns + round((number - first_number) * _NS / rate) for number in self.numbers.tolist()]
        if any(not -(2**63) <= stamp < 2**63 for stamp in stamps):
            raise TimeError(
                f"numbers {self.numbers[0]} to {self.numbers[-1]} at {rate_hz} Hz do not fit 64-bit nanoseconds; "
                "are these frame numbers?"
            )
        return Trajectory.from_rows(
            np.array(stamps, dtype=np.int64), self.world_from_body, "numbered poses", self.numbers.tolist()
        )


def _fraction(rate_hz: float | int) -> Fraction:
    """The decimal number that was meant (29.97, not its nearest float); 0 for what is no rate."""
    return Fraction(str(rate_hz)) if np.isfinite(rate_hz) else Fraction(0)


def _row(cells: list[str], order: tuple[str, ...], path: Path, line: int) -> PoseRow:
    """Seven cells, named by the format's order, as a row in ours."""
    v = {name: number_of(text, f"{path} line {line}: {name}") for name, text in zip(order, cells, strict=True)}
    return PoseRow(line, (v["tx"], v["ty"], v["tz"]), (v["qw"], v["qx"], v["qy"], v["qz"]))


def _trajectory(stamps: list[int], rows: list[PoseRow], path: Path, warnings: list[str]) -> Trajectory:
    """Sorted and checked."""
    poses = poses_from_rows(rows, path, warnings)
    lines = [int(row.place) for row in rows]
    return Trajectory.from_rows(np.array(stamps, dtype=np.int64), poses, str(path), row_names=lines)


def read_tum(path: Path, warnings: list[str]) -> Trajectory:
    """TUM: ``seconds tx ty tz qx qy qz qw``, blanks between, ``#`` begins a comment; world_from_body.

    Seconds are read as decimal text to the nanosecond (FIELD P4).

    Args:
        path: The file.
        warnings: Gaps are added here.

    Raises:
        RecordingError: unreadable, a row of another form, no pose at all. TimeError: clashing rows.
        PoseError: quaternions that are not unit, see ``poses_from_rows``.
    """
    stamps: list[int] = []
    rows: list[PoseRow] = []
    for line, text in data_lines(read_text(path)):
        cells = text.split()
        if len(cells) != 8:
            hint = "; commas mean CSV or EuRoC" if "," in text else "; is it cut off?"
            raise RecordingError(
                f"{path} line {line} has {len(cells)} cells; a TUM row is 'seconds tx ty tz qx qy qz qw'{hint}"
            )
        stamps.append(nanoseconds_of(cells[0], f"{path} line {line}: time"))
        rows.append(_row(cells[1:], _TUM, path, line))
    return _trajectory(stamps, rows, path, warnings)


def read_euroc(path: Path, warnings: list[str]) -> Trajectory:
    """EuRoC: ``ns, tx, ty, tz, qw, qx, qy, qz``, further columns ignored, ``#`` begins the header; world_from_body.

    Args:
        path: The file.
        warnings: Gaps are added here.

    Raises:
        RecordingError: unreadable, a row of another form or length than the first, a header whose names contradict
            this order, no pose at all. TimeError: clashing rows. PoseError: see ``poses_from_rows``.
    """
    text = read_text(path)
    _check_euroc_header(text, path)
    stamps: list[int] = []
    rows: list[PoseRow] = []
    width = 0
    for line, content in data_lines(text):
        cells = [cell.strip() for cell in content.split(",")]
        width = width or len(cells)
        if len(cells) < 8 or len(cells) != width:
            expected = f"the first row {width}; is it cut off" if width >= 8 else "fewer than 8; are there commas"
            raise RecordingError(
                f"{path} line {line} has {len(cells)} cells, {expected}? A EuRoC row is 'ns,tx,ty,tz,qw,qx,qy,qz,...'"
            )
        stamps.append(_euroc_stamp(cells[0], path, line))
        rows.append(_row(cells[1:8], _EUROC, path, line))
    return _trajectory(stamps, rows, path, warnings)


def _euroc_stamp(text: str, path: Path, line: int) -> int:
    """Whole nanoseconds; anything with a point is another unit or went through a float."""
    try:
        return whole_of(text, f"{path} line {line}: time")
    except RecordingError as error:
        raise RecordingError(f"{error}; EuRoC times are whole nanoseconds") from None


def _check_euroc_header(text: str, path: Path) -> None:
    """Where a header names the quaternion's columns, they must come as w x y z."""
    for line, content in enumerate(text.split("\n"), start=1):
        if not content.strip().startswith("#"):
            return
        names = [re.sub(r"\[.*?\]", "", cell).strip().lower() for cell in content.strip("# \t").split(",")]
        found = "".join(name[-1] for name in names[4:8] if re.fullmatch(r"(.*_)?q(.*_)?[wxyz]", name))
        if len(found) == 4 and found != "wxyz":
            raise RecordingError(
                f"{path} line {line}: the header gives the quaternion as {' '.join(found)}, EuRoC's order is w x y z; "
                "reorder the columns"
            )


def read_g2o(path: Path, warnings: list[str]) -> NumberedPoses:
    """g2o: the lines ``VERTEX_SE3:QUAT id x y z qx qy qz qw`` as world_from_body by id; edges are ignored.

    Args:
        path: The file.
        warnings: Gaps, and lines of kinds that are neither vertex nor edge, are added here.

    Raises:
        RecordingError: unreadable, a vertex of another form, one id with different poses (both lines named), no pose.
        PoseError: quaternions that are not unit, see ``poses_from_rows``.
    """
    numbers: list[int] = []
    rows: list[PoseRow] = []
    others: dict[str, int] = {}
    for line, text in data_lines(read_text(path)):
        tag, *cells = text.split()
        if tag == _VERTEX:
            if len(cells) != 8:
                raise RecordingError(
                    f"{path} line {line}: {_VERTEX} has {len(cells)} values, expected 'id x y z qx qy qz qw'; "
                    "is it cut off?"
                )
            numbers.append(whole_of(cells[0], f"{path} line {line}: id"))
            rows.append(_row(cells[1:], _TUM, path, line))
        elif not tag.startswith(_QUIET_TAGS):
            others[tag] = others.get(tag, 0) + 1
    if not rows:
        listed = ", ".join(shown(tag) for tag in list(others)[:5]) or "edges only, or nothing"
        raise RecordingError(f"{path} has no {_VERTEX} line (it has {listed}); without poses nothing can be placed")
    if others:
        listed = ", ".join(f"{count} x {shown(tag)}" for tag, count in list(others.items())[:5])
        warnings.append(f"{path.name}: lines that are no {_VERTEX} and no edge are ignored ({listed})")
    poses = poses_from_rows(rows, path, warnings)
    places = tuple(f"line {row.place}" for row in rows)
    return NumberedPoses.from_rows(np.array(numbers, dtype=np.int64), poses, str(path), places)


def _numbers(pose: Float[np.ndarray, "4 4"], quat_wxyz: Float[np.ndarray, "4"], order: tuple[str, ...]) -> list[str]:
    """Seven numbers in a format's order, each in the shortest form that reads back to the same float."""
    values = dict(zip(_EUROC, [*pose[:3, 3].tolist(), *quat_wxyz.tolist()], strict=True))
    return [repr(values[name]) for name in order]


def _write(
    path: Path,
    keys: list[str],
    poses: Float[np.ndarray, "N 4 4"],
    order: tuple[str, ...],
    separator: str,
    header: str = "",
) -> None:
    """Rows of key and seven numbers; nothing is written if there is nothing, or something broken, to write."""
    if not keys:
        raise PoseError(f"{path}: there is no pose to write")
    if not np.isfinite(poses).all():
        raise PoseError(f"{path}: a pose is not finite; leave gaps out")
    quats = quats_for_writing(poses[:, :3, :3])
    lines = [
        separator.join([key, *_numbers(pose, quat, order)]) for key, pose, quat in zip(keys, poses, quats, strict=True)
    ]
    write_text(path, "\n".join([header, *lines] if header else lines) + "\n")


def write_tum(path: Path, trajectory: Trajectory) -> None:
    """Write TUM rows (seconds with nine places, exact); gzipped if the name ends in ``.gz``.

    Raises:
        PoseError: no pose to write. RecordingError: the file cannot be written.
    """
    keys = [seconds_text(stamp) for stamp in trajectory.timestamps_ns.tolist()]
    _write(path, keys, trajectory.world_from_body, _TUM, " ", "# timestamp_s tx ty tz qx qy qz qw")


def write_euroc(path: Path, trajectory: Trajectory) -> None:
    """Write EuRoC rows under their header; see ``write_tum``."""
    keys = [str(stamp) for stamp in trajectory.timestamps_ns.tolist()]
    _write(path, keys, trajectory.world_from_body, _EUROC, ",", _EUROC_HEADER)


def write_csv(path: Path, trajectory: Trajectory) -> None:
    """Write this project's trajectory.csv; see ``write_tum``."""
    keys = [str(stamp) for stamp in trajectory.timestamps_ns.tolist()]
    _write(path, keys, trajectory.world_from_body, TRAJECTORY_COLUMNS[1:], ",", ",".join(TRAJECTORY_COLUMNS))


def write_g2o(path: Path, poses: NumberedPoses) -> None:
    """Write the vertices of a graph without edges; see ``write_tum``."""
    keys = [f"{_VERTEX} {number}" for number in poses.numbers.tolist()]
    _write(path, keys, poses.world_from_body, _TUM, " ")


@dataclass(frozen=True)
class TrajectoryFormat:
    """Reader and writer of one format of timed poses."""

    read: Callable[[Path, list[str]], Trajectory]
    write: Callable[[Path, Trajectory], None]


TRAJECTORY_FORMATS: dict[str, TrajectoryFormat] = {
    "tum": TrajectoryFormat(read_tum, write_tum),
    "euroc": TrajectoryFormat(read_euroc, write_euroc),
    "csv": TrajectoryFormat(read_csv, write_csv),
}


def _format(name: str) -> TrajectoryFormat:
    if name not in TRAJECTORY_FORMATS:
        raise RecordingError(f"unknown trajectory format {name!r}; known are {', '.join(TRAJECTORY_FORMATS)}")
    return TRAJECTORY_FORMATS[name]


def read_trajectory_file(path: Path, format_name: str, warnings: list[str]) -> Trajectory:
    """Read timed poses, world_from_body, in the named format (``TRAJECTORY_FORMATS``).

    Raises:
        RecordingError: unknown format, and what the format's own reader raises.
    """
    return _format(format_name).read(path, warnings)


def write_trajectory_file(path: Path, format_name: str, trajectory: Trajectory) -> None:
    """Write timed poses in the named format.

    Raises:
        RecordingError: unknown format, or the file cannot be written. PoseError: no pose to write.
    """
    _format(format_name).write(path, trajectory)
