"""Which row of a rising clock is nearest to a time; of two equally near ones the earlier."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64


def nearest_row(timestamps_ns: Int64[np.ndarray, "N"], query_ns: int, tolerance_ns: int) -> int | None:
    """Row whose stamp is nearest to one time; None beyond the tolerance (never clamped) or without a row.

    Args:
        timestamps_ns: Rising.
        query_ns: The time, on the same clock.
        tolerance_ns: A row exactly so far away still counts.
    """
    right = int(np.searchsorted(timestamps_ns, query_ns))
    around: Sequence[int] = [row for row in (right - 1, right) if 0 <= row < len(timestamps_ns)]
    if not around:
        return None
    best = min(around, key=lambda row: abs(int(timestamps_ns[row]) - query_ns))
    return best if abs(int(timestamps_ns[best]) - query_ns) <= tolerance_ns else None


def nearest_rows(timestamps_ns: Int64[np.ndarray, "N"], queries_ns: Int64[np.ndarray, "Q"]) -> Int64[np.ndarray, "Q"]:
    """Row whose stamp is nearest to each of many times, however far away; the caller has a tolerance of its own.

    Args:
        timestamps_ns: Rising, at least one.
        queries_ns: Times on the same clock, in any order.
    """
    right = np.clip(np.searchsorted(timestamps_ns, queries_ns), 1, max(1, len(timestamps_ns) - 1))
    left = right - 1
    right = np.minimum(right, len(timestamps_ns) - 1)
    right_is_nearer = np.abs(timestamps_ns[right] - queries_ns) < np.abs(queries_ns - timestamps_ns[left])
    return np.where(right_is_nearer, right, left).astype(np.int64)
