"""HOT3D's clock against the glasses' own (Aria): the truth is in time code, MPS is in device time (FIELD P5).

With the VRS file the glasses themselves know how the two go together. Without it the poses tell: the truth of the
headset is a choice of MPS' closed-loop poses (one every millisecond), to the last digit, so that each pair of equal
positions bounds the offset to half a millisecond either way.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from geo.readers.mps.slam import MpsTrajectory
from geo.trajectory import Trajectory

_EQUAL_M = 1e-6
_MIN_PAIRS = 3
_MAX_SPREAD_NS = 2_000_000


@dataclass(frozen=True)
class ClockOffset:
    """``device = recording + offset_ns``; ``spread_ns``: how far the pairs disagree."""

    offset_ns: int
    spread_ns: int
    pairs: int

    def to_recording(self, device_ns: Int64[np.ndarray, "N"]) -> Int64[np.ndarray, "N"]:
        """Device times on the recording's clock."""
        return np.asarray(device_ns - self.offset_ns)


def offset_by_poses(
    headset: Trajectory, closed_loop: MpsTrajectory, path: Path, warnings: list[str]
) -> ClockOffset | None:
    """Offset of the clocks, if the two trajectories are the same poses of the same world; else None with a warning."""
    from scipy.spatial import cKDTree

    given = closed_loop.trajectory
    away, rows = cKDTree(given.world_from_body[:, :3, 3]).query(headset.world_from_body[:, :3, 3])
    same = np.flatnonzero(away <= _EQUAL_M)
    turned = np.abs(given.world_from_body[rows[same], :3, :3] - headset.world_from_body[same, :3, :3]).max(axis=(1, 2))
    same = same[turned <= 1e-4]
    offsets = given.timestamps_ns[rows[same]] - headset.timestamps_ns[same]
    if len(same) >= max(_MIN_PAIRS, len(away) // 2):
        middle = int(np.sort(offsets)[len(offsets) // 2])
        near = offsets[np.abs(offsets - middle) <= _MAX_SPREAD_NS]
        if 2 * len(near) > len(offsets):
            low, high = int(near.min()), int(near.max())
            return ClockOffset(low + (high - low) // 2, high - low, len(near))
    warnings.append(
        f"{path.name}: its poses are not those of the headset ({len(same)} of {len(away)} are the same); clock, "
        "gravity and gaze cannot be taken from MPS"
    )
    return None
