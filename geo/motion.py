"""A trajectory at other times and in other frames: resampling, rolling shutter, gravity, body to camera."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int64

from geo import se3
from geo.errors import PoseError, TimeError
from geo.trajectory import DEFAULT_MAX_GAP_NS, Trajectory
from geo.world import turn_to_z_up

_MAX_ROWS = 65536
_MAX_READOUT_NS = 10_000_000_000


@dataclass(frozen=True)
class Resampled:
    """A trajectory at other times, and which of the asked times have no pose (outside, or inside a gap)."""

    trajectory: Trajectory
    missing_ns: Int64[np.ndarray, "M"]


def resample(
    trajectory: Trajectory, timestamps_ns: Int64[np.ndarray, "Q"], max_gap_ns: int = DEFAULT_MAX_GAP_NS
) -> Resampled:
    """Poses at given times, interpolated on the shorter arc and in a straight line (see ``Trajectory.poses_at``).

    Times outside the trajectory or inside a gap longer than ``max_gap_ns`` get no pose and are listed; the result is
    sorted, and a time that is asked twice is in it once.

    Raises:
        TimeError: no time lies within the trajectory's range (two clocks, most likely).
    """
    poses = trajectory.poses_at(timestamps_ns, max_gap_ns)
    known = np.isfinite(poses).all(axis=(1, 2))
    return Resampled(
        Trajectory.from_rows(timestamps_ns[known], poses[known], "resampled"), np.unique(timestamps_ns[~known])
    )


def row_times(
    timestamps_ns: Int64[np.ndarray, "F"],
    readout_ns: int,
    rows: int,
    stamped_row: Literal["first", "middle"],
) -> Int64[np.ndarray, "F R"]:
    """When each row of each image of a rolling shutter was taken, to the nearest nanosecond.

    Row r is taken at stamp + readout (r - r0) / (rows - 1), where r0 is the row that the stamp speaks of: 0 for
    "first", (rows - 1) / 2 for "middle" (between two rows if their number is even).

    Args:
        timestamps_ns: Stamp of each image; with exposure time, the stamp of mid-exposure of that row.
        readout_ns: From the first row to the last; negative if the last row is read first; 0 is a global shutter.
        rows: Height of the image as it was read out, before any crop or resize.
        stamped_row: What the camera's stamp speaks of; the data sheet says, it is not guessed.

    Raises:
        TimeError: an impossible number of rows, a readout of more than ten seconds, or an unknown ``stamped_row``.
    """
    if stamped_row not in ("first", "middle"):
        raise TimeError(f"stamped_row = {stamped_row!r}; it is the 'first' or the 'middle' row")
    if not 1 <= rows <= _MAX_ROWS:
        raise TimeError(f"rows = {rows} is no height of an image; expected 1..{_MAX_ROWS}")
    if abs(readout_ns) > _MAX_READOUT_NS:
        raise TimeError(f"readout_ns = {readout_ns} is more than ten seconds; is it in nanoseconds?")
    if rows == 1:
        return np.asarray(timestamps_ns, dtype=np.int64)[:, None]
    twice = 2 * np.arange(rows, dtype=np.int64) - (rows - 1 if stamped_row == "middle" else 0)
    period = 2 * (rows - 1)
    offsets = (readout_ns * twice + rows - 1) // period  # nearest; a tie goes to the later
    return np.asarray(timestamps_ns, dtype=np.int64)[:, None] + offsets


def row_poses(
    trajectory: Trajectory,
    timestamps_ns: Int64[np.ndarray, "F"],
    readout_ns: int,
    rows: int,
    stamped_row: Literal["first", "middle"],
    max_gap_ns: int = DEFAULT_MAX_GAP_NS,
) -> Float[np.ndarray, "F R 4 4"]:
    """Pose of the body at every row of every image; NaN where there is none. See ``row_times``.

    Raises:
        TimeError: see ``row_times``, and no overlap in time with the trajectory.
    """
    times = row_times(timestamps_ns, readout_ns, rows, stamped_row)
    return trajectory.poses_at(times.reshape(-1), max_gap_ns).reshape(*times.shape, 4, 4)


def up_from_gravity(gravity_in_world: Float[np.ndarray, "3"]) -> Float[np.ndarray, "3"]:
    """Unit up of a gravity vector, which points DOWN: -g / |g| (FIELD P11). Any unit, any length.

    Raises:
        PoseError: zero or not finite: then gravity is not known, and nothing else stands in for it.
    """
    gravity = np.asarray(gravity_in_world, dtype=np.float64)
    length = float(np.abs(gravity).max())
    if not (np.isfinite(length) and length > 1e-12):
        raise PoseError(f"gravity {gravity.tolist()} is no direction; leave gravity unknown instead")
    scaled = gravity / length
    return np.asarray(-scaled / np.linalg.norm(scaled))


@dataclass(frozen=True)
class ZUp:
    """A trajectory in a world whose +z is up, and the turn that took it there."""

    trajectory: Trajectory
    world_from_source_world: Float[np.ndarray, "4 4"]


def aligned_to_gravity(trajectory: Trajectory, up_in_world: Float[np.ndarray, "3"]) -> ZUp:
    """Turn the world by the smallest rotation about its origin that takes ``up_in_world`` (any length) to +z.

    Heights are up . x before and z after. Directions that are known only in a body frame have to be taken to the world
    first; gravity vectors point down, see ``up_from_gravity``.

    Raises:
        PoseError: ``up_in_world`` is zero or not finite.
    """
    up = -up_from_gravity(up_in_world)
    turn = turn_to_z_up(up)
    return ZUp(in_other_world(trajectory, turn), turn)


def in_other_world(trajectory: Trajectory, new_from_old: Float[np.ndarray, "4 4"]) -> Trajectory:
    """The same motion told in another world frame: new_from_body = new_from_old world_from_body.

    Raises:
        PoseError: ``new_from_old`` is no rigid transform.
    """
    rigid = se3.check_rigid(new_from_old, "new_from_old")
    return Trajectory(trajectory.timestamps_ns, se3.compose(rigid, trajectory.world_from_body))


def of_mounted(trajectory: Trajectory, body_from_camera: Float[np.ndarray, "4 4"]) -> Trajectory:
    """Trajectory of a camera (or anything else) fixed to the body: world_from_body body_from_camera.

    Raises:
        PoseError: ``body_from_camera`` is no rigid transform.
    """
    rigid = se3.check_rigid(body_from_camera, "body_from_camera")
    return Trajectory(trajectory.timestamps_ns, se3.compose(trajectory.world_from_body, rigid))


def shifted_in_time(trajectory: Trajectory, shift_ns: int) -> Trajectory:
    """The same motion on another clock: every stamp plus ``shift_ns`` (Kalibr: t_imu = t_cam + shift).

    Raises:
        TimeError: the stamps would leave 64 bits.
    """
    stamps = trajectory.timestamps_ns
    if len(stamps) and not (-(2**63) <= int(stamps[0]) + shift_ns and int(stamps[-1]) + shift_ns < 2**63):
        raise TimeError(f"shift_ns = {shift_ns} takes stamps {stamps[0]} to {stamps[-1]} out of 64 bits")
    return Trajectory(stamps + np.int64(shift_ns) if len(stamps) else stamps, trajectory.world_from_body)
