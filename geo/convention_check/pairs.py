"""Which frames are compared: pairs near and far in time, spread over the recording, whatever the poses say."""

import numpy as np
from jaxtyping import Float, Int64

from geo.trajectory import Trajectory

MAX_PAIRS = 30
_GAPS_S = (0.0, 0.35, 1.0, 2.5)
_PARTS = (1, 12, 8, 4)  # a gap is never longer than this part of the recording
_ALL_PAIRS_UP_TO = 8


def posed_rows(trajectory: Trajectory, timestamps_ns: Int64[np.ndarray, "N"]) -> Int64[np.ndarray, "P"]:
    """Rows whose time has a pose; none if the two clocks do not overlap."""
    if len(timestamps_ns) == 0 or len(trajectory.timestamps_ns) == 0:
        return np.zeros(0, dtype=np.int64)
    first, last = trajectory.timestamps_ns[[0, -1]]
    if not ((timestamps_ns >= first) & (timestamps_ns <= last)).any():
        return np.zeros(0, dtype=np.int64)
    known = np.isfinite(trajectory.poses_at(timestamps_ns)).all(axis=(1, 2))
    return np.flatnonzero(known).astype(np.int64)


def poses_of(trajectory: Trajectory, timestamps_ns: Int64[np.ndarray, "Q"]) -> Float[np.ndarray, "Q 4 4"]:
    """Poses at times; all NaN where the trajectory is empty or elsewhere in time."""
    if len(posed_rows(trajectory, timestamps_ns)) == 0:
        return np.full((len(timestamps_ns), 4, 4), np.nan)
    return trajectory.poses_at(timestamps_ns)


def frame_pairs(timestamps_ns: Int64[np.ndarray, "N"], limit: int = MAX_PAIRS) -> Int64[np.ndarray, "P 2"]:
    """Pairs of rows (earlier, later).

    A few frames give all their pairs. Otherwise gaps of one frame, 0.35 s, 1 s and 2.5 s (in long recordings) start at
    places spread evenly: the head moves slowly at one time and fast at another, and some gap suits each.
    """
    count = len(timestamps_ns)
    if count < 2:
        return np.zeros((0, 2), dtype=np.int64)
    if count <= _ALL_PAIRS_UP_TO:
        rows = np.stack(np.triu_indices(count, 1), axis=-1)
        return rows[:limit].astype(np.int64)
    step_s = max(float(np.median(np.diff(timestamps_ns))) * 1e-9, 1e-6)
    pairs: set[tuple[int, int]] = set()
    per_gap = limit // len(_GAPS_S)
    for number, (gap_s, part) in enumerate(zip(_GAPS_S, _PARTS, strict=True)):
        rows_apart = max(1, min(round(gap_s / step_s), count // part))
        starts = np.linspace(0, count - 1 - rows_apart, per_gap + 2)[1:-1] + number * 0.37
        pairs |= {(min(int(start), count - 1 - rows_apart), rows_apart) for start in starts}
    return np.array(sorted((start, start + apart) for start, apart in pairs), dtype=np.int64)
