"""Poses through time: integer nanoseconds, gaps that stay gaps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from geo import se3
from geo.errors import PoseError, TimeError
from geo.nearest import nearest_row

_EQUAL_POSE_TOLERANCE = 1e-9
DEFAULT_MAX_GAP_NS = 300_000_000


@dataclass(frozen=True)
class Trajectory:
    """Sorted, unique time stamps with a finite rigid pose each; build it with ``Trajectory.from_rows``."""

    timestamps_ns: Int64[np.ndarray, "N"]
    world_from_body: Float[np.ndarray, "N 4 4"]

    @staticmethod
    def from_rows(
        timestamps_ns: Int64[np.ndarray, "N"],
        world_from_body: Float[np.ndarray, "N 4 4"],
        source: str = "trajectory",
        row_names: Sequence[int] | None = None,
    ) -> "Trajectory":
        """Sort rows, merge equal ones; rows with NaN are gaps and are left out.

        Raises:
            TimeError: equal stamps with different poses (both row numbers named), or time stamps not int64.
            PoseError: a finite row that is no rigid transform.

        ``row_names`` are the line numbers that messages use; None counts rows from 0.
        """
        stamps = np.asarray(timestamps_ns)
        if stamps.dtype != np.int64:
            raise TimeError(f"{source}: time stamps have dtype {stamps.dtype}, need int64 nanoseconds")
        rows = np.flatnonzero(np.isfinite(world_from_body).all(axis=(1, 2)))
        rows = rows[np.argsort(stamps[rows], kind="stable")]
        poses = np.asarray(world_from_body, dtype=np.float64)
        names = range(len(stamps)) if row_names is None else row_names
        bent = rows[~se3.is_rigid(poses[rows], 1e-3)]
        if len(bent):
            row = int(bent[0])
            raise PoseError(f"{source} row {names[row]}: not a rigid transform:\n{poses[row]}")
        keep: list[int] = []
        for row in rows.tolist():
            if keep and stamps[keep[-1]] == stamps[row]:
                if np.abs(poses[keep[-1]] - poses[row]).max() > _EQUAL_POSE_TOLERANCE:
                    raise TimeError(
                        f"{source} rows {names[keep[-1]]} and {names[row]} have the same time stamp {stamps[row]} ns "
                        "but different poses; remove one of them"
                    )
                continue
            keep.append(row)
        return Trajectory(stamps[keep], poses[keep])

    def poses_at(
        self, query_ns: Int64[np.ndarray, "Q"], max_gap_ns: int = DEFAULT_MAX_GAP_NS
    ) -> Float[np.ndarray, "Q 4 4"]:
        """Interpolated poses; NaN outside the range and inside gaps longer than ``max_gap_ns``.

        A query that hits a stamp exactly gets that pose even beside a gap.

        Raises:
            TimeError: if no query lies within the trajectory's range: two clocks, most likely.
        """
        query = np.asarray(query_ns, dtype=np.int64)
        out = np.full((len(query), 4, 4), np.nan)
        if len(query) == 0 or len(self.timestamps_ns) == 0:
            return out
        first, last = int(self.timestamps_ns[0]), int(self.timestamps_ns[-1])
        inside = (query >= first) & (query <= last)
        if not inside.any():
            raise TimeError(
                f"no overlap in time: images run from {query.min()} to {query.max()} ns, poses from {first} to "
                f"{last} ns. Two clocks or two units? Give both in the device clock in nanoseconds."
            )
        left = np.clip(np.searchsorted(self.timestamps_ns, query, side="right") - 1, 0, len(self.timestamps_ns) - 1)
        exact = inside & (self.timestamps_ns[left] == query)
        out[exact] = self.world_from_body[left[exact]]
        right = np.minimum(left + 1, len(self.timestamps_ns) - 1)
        span = self.timestamps_ns[right] - self.timestamps_ns[left]
        between = inside & ~exact & (span > 0) & (span <= max_gap_ns)
        i, j = left[between], right[between]
        fraction = (query[between] - self.timestamps_ns[i]) / span[between]
        out[between] = se3.interpolate(self.world_from_body[i], self.world_from_body[j], fraction)
        return out

    def nearest(self, query_ns: int, tolerance_ns: int) -> int | None:
        """Row whose stamp is nearest, the earlier one of two; None beyond the tolerance (never clamped)."""
        return nearest_row(self.timestamps_ns, query_ns, tolerance_ns)

    def gaps(self, max_gap_ns: int = DEFAULT_MAX_GAP_NS) -> Int64[np.ndarray, "G 2"]:
        """Start and end of every span longer than ``max_gap_ns`` without a pose."""
        wide = np.flatnonzero(np.diff(self.timestamps_ns) > max_gap_ns)
        return np.stack([self.timestamps_ns[wide], self.timestamps_ns[wide + 1]], axis=-1)
