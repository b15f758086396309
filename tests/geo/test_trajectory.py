"""Poses through time."""

import numpy as np
import pytest

from geo import se3
from geo.errors import PoseError, TimeError
from geo.trajectory import Trajectory

MS = 1_000_000


def line(times_ms, xs=None) -> Trajectory:
    """A body that moves along x."""
    xs = [t / 1000 for t in times_ms] if xs is None else xs
    poses = np.tile(np.eye(4), (len(times_ms), 1, 1))
    poses[:, 0, 3] = xs
    return Trajectory.from_rows(np.array(times_ms, dtype=np.int64) * MS, poses)


def about_z(degrees) -> np.ndarray:
    return se3.rotation_from_axis_angle(np.array([0.0, 0.0, np.radians(degrees)]))


def test_sorting_does_not_change_answers():
    shuffled, ordered = line([200, 0, 100]), line([0, 100, 200])
    queries = np.array([50, 150], dtype=np.int64) * MS
    np.testing.assert_array_equal(shuffled.poses_at(queries), ordered.poses_at(queries))


def test_rotation_is_interpolated_on_the_short_way_round():
    poses = se3.from_rotation_translation(np.stack([about_z(170), about_z(-170)]), np.zeros((2, 3)))
    middle = Trajectory.from_rows(np.array([0, 100], dtype=np.int64), poses).poses_at(np.array([50], dtype=np.int64))
    np.testing.assert_allclose(middle[0, :3, :3], about_z(180), atol=1e-12)


def test_rows_with_nan_are_gaps():
    poses = np.stack([np.eye(4)] * 3)
    poses[1, 0, 3] = np.nan
    assert len(Trajectory.from_rows(np.array([0, 1, 2], dtype=np.int64), poses).timestamps_ns) == 2


def test_a_pose_that_is_no_rotation_is_refused_with_its_row():
    poses = np.stack([np.eye(4), np.diag([1.0, 1.0, -1.0, 1.0])])
    with pytest.raises(PoseError, match="row 17: not a rigid"):
        Trajectory.from_rows(np.array([0, 1], dtype=np.int64), poses, row_names=[16, 17])


def test_float_stamps_are_refused():
    with pytest.raises((TimeError, TypeError), match=r"int64|type"):
        Trajectory.from_rows(np.array([0.0, 1.0]), np.stack([np.eye(4)] * 2))  # type: ignore[arg-type]


def test_nearest_is_nearest_and_never_clamped():
    trajectory = line([0, 100, 300])
    assert trajectory.nearest(140 * MS, 100 * MS) == 1
    assert trajectory.nearest(210 * MS, 100 * MS) == 2
    assert trajectory.nearest(200 * MS, 100 * MS) == 1  # a tie goes to the earlier
    assert trajectory.nearest(450 * MS, 100 * MS) is None
    assert line([]).nearest(0, 10) is None


def test_gaps_are_named():
    assert line([0, 100, 500, 600, 1000]).gaps(300 * MS).tolist() == [[100 * MS, 500 * MS], [600 * MS, 1000 * MS]]


def test_empty_queries_and_empty_trajectories():
    assert line([0, 100]).poses_at(np.zeros(0, np.int64)).shape == (0, 4, 4)
    assert np.isnan(line([]).poses_at(np.array([5], dtype=np.int64))).all()
