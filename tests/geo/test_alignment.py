"""Alignment, association, absolute and relative error: closed-form motions and scipy as the judge."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

from geo import se3
from geo.alignment import Alignment, absolute_error, align_points, associate, relative_error
from geo.errors import PoseError, TimeError
from geo.motion import in_other_world, of_mounted
from geo.trajectory import Trajectory

NOW = 1_718_892_641_002_929_366
MS = 1_000_000


def stamps_ms(*values) -> np.ndarray:
    return NOW + np.array(values, dtype=np.int64) * MS


def circle(count: int = 101, radius: float = 2.0, rise: float = 0.5) -> Trajectory:
    """A helix of one turn, facing along it; one pose every 100 ms."""
    angle = np.linspace(0, 2 * np.pi, count)
    position = np.stack([radius * np.cos(angle), radius * np.sin(angle), rise * angle], axis=1)
    rotation = se3.rotation_from_axis_angle(np.stack([angle * 0, angle * 0, angle], axis=1))
    return Trajectory.from_rows(
        stamps_ms(*range(0, 100 * count, 100)), se3.from_rotation_translation(rotation, position)
    )


def line_along_x(positions, times_ms=None) -> Trajectory:
    times_ms = range(0, 100 * len(positions), 100) if times_ms is None else times_ms
    poses = np.tile(np.eye(4), (len(positions), 1, 1))
    poses[:, 0, 3] = positions
    return Trajectory.from_rows(stamps_ms(*times_ms), poses)


# --- Umeyama ------------------------------------------------------------------------------------------------------


def test_a_quarter_turn_by_hand():
    """(1,0,0), (0,2,0), (0,0,3) turned by 90 degrees about z, doubled and moved by (1, 1, 1)."""
    source = np.array([[1.0, 0, 0], [0, 2, 0], [0, 0, 3]])
    target = np.array([[1.0, 3, 1], [-3, 1, 1], [1, 1, 7]])
    found = align_points(source, target, with_scale=True)
    np.testing.assert_allclose(found.rotation, [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-12)
    np.testing.assert_allclose(found.translation, [1, 1, 1], atol=1e-12)
    assert found.scale == pytest.approx(2)


@pytest.mark.parametrize("count", [3, 4, 50])
@pytest.mark.parametrize("seed", range(4))
def test_an_exact_similarity_is_found_again(seed, count):
    rng = np.random.default_rng(seed)
    source = rng.normal(0, 3, (count, 3)) + 1e3
    rotation, translation = Rotation.random(random_state=seed).as_matrix(), rng.normal(0, 100, 3)
    for scale, with_scale in ((1.0, False), (1.0, True), (0.003, True), (250.0, True)):
        found = align_points(source, scale * source @ rotation.T + translation, with_scale)
        np.testing.assert_allclose(found.rotation, rotation, atol=1e-9)
        assert found.scale == pytest.approx(scale, rel=1e-9)
        np.testing.assert_allclose(found.points(source), scale * source @ rotation.T + translation, atol=1e-8)


@pytest.mark.parametrize("with_scale", [False, True])
@pytest.mark.parametrize("flat", [False, True])
def test_noisy_points_no_other_alignment_is_better(with_scale, flat):
    """scipy's Kabsch agrees on the rotation; a free minimiser finds nothing smaller. Flat sets as well."""
    rng = np.random.default_rng(5)
    source = rng.normal(0, 1, (40, 3)) * [1, 1, 0 if flat else 1]
    rotation = Rotation.random(random_state=5)
    target = 1.7 * rotation.apply(source) + [4, 5, 6] + rng.normal(0, 0.2, (40, 3))
    found = align_points(source, target, with_scale)
    kabsch, _ = Rotation.align_vectors(target - target.mean(axis=0), source - source.mean(axis=0))
    np.testing.assert_allclose(found.rotation, kabsch.as_matrix(), atol=1e-6)

    def cost(p):
        scale = p[6] if with_scale else 1.0
        return float(((scale * Rotation.from_rotvec(p[:3]).apply(source) + p[3:6] - target) ** 2).sum())

    best = cost([*Rotation.from_matrix(found.rotation).as_rotvec(), *found.translation, found.scale])
    start = [*rotation.as_rotvec(), 4, 5, 6, 1.7]
    assert best <= minimize(cost, start, method="BFGS").fun * (1 + 1e-9)
    assert best == pytest.approx(float(((found.points(source) - target) ** 2).sum()))


def test_mirrored_points_get_a_rotation_and_never_a_reflection():
    """Also where the mirror would fit exactly. A cube's corners have three equal spreads: no turn undoes it best."""
    rng = np.random.default_rng(1)
    source = rng.normal(0, [3, 2, 1], (30, 3))
    for mirror in (np.diag([1.0, 1, -1]), np.diag([1.0, -1, 1]), -np.eye(3)):
        found = align_points(source, source @ mirror.T, with_scale=True)
        assert np.linalg.det(found.rotation) == pytest.approx(1) and found.scale > 0
    cube = np.array([[x, y, z] for x in (-1.0, 1) for y in (-1.0, 1) for z in (-1.0, 1)])
    with pytest.raises(PoseError, match="mirror image"):
        align_points(cube, -cube)


def test_umeyama_1991_the_papers_example():
    """Section V of the paper: source (0,0), (1,0), (0,2); target (0,0), (-1,0), (0,2), here in the plane z = 0.

    In the plane the best rotation is [[0.832, 0.555], [-0.555, 0.832]] with scale 0.721 (det = -1 before the sign is
    turned). In space the same points are a half turn about y, exactly, with scale 1.
    """
    source = np.array([[0.0, 0, 0], [1, 0, 0], [0, 2, 0]])
    target = np.array([[0.0, 0, 0], [-1, 0, 0], [0, 2, 0]])
    found = align_points(source, target, with_scale=True)
    np.testing.assert_allclose(found.rotation, np.diag([-1.0, 1, -1]), atol=1e-12)
    assert found.scale == pytest.approx(1)
    np.testing.assert_allclose(found.translation, 0, atol=1e-12)


@pytest.mark.parametrize(
    ("source", "target", "fault"),
    [
        (np.zeros((2, 3)), np.zeros((2, 3)), "at least 3 points, got 2"),
        (np.eye(3), np.zeros((2, 3)), "matched points; got 3 and 2"),
        (np.full((3, 3), np.nan), np.eye(3), "finite"),
        (np.zeros((5, 3)), np.random.default_rng(0).normal(size=(5, 3)), "source points lie on one line"),
        (np.full((5, 3), 1e6), np.random.default_rng(0).normal(size=(5, 3)), "source points lie on one line"),
        (np.outer(np.arange(5.0), [1, 2, 3]), np.random.default_rng(0).normal(size=(5, 3)), "source points lie on one"),
        (np.random.default_rng(0).normal(size=(5, 3)), np.outer(np.arange(5.0), [1, 2, 3]) + 1e5, "target points lie"),
        (
            np.outer(np.arange(9.0), [1, 2, 3]) + np.random.default_rng(0).normal(0, 1e-5, (9, 3)),
            np.eye(9)[:, :3],
            "aside",
        ),
    ],
)
@pytest.mark.parametrize("with_scale", [False, True])
def test_degenerate_points_are_refused(source, target, fault, with_scale):
    with pytest.raises(PoseError, match=fault):
        align_points(source, target, with_scale)


@pytest.mark.parametrize("size", [1e-9, 1e-3, 1.0, 1e6])
def test_alignment_does_not_depend_on_the_unit(size):
    rng = np.random.default_rng(2)
    source, rotation = rng.normal(size=(10, 3)) * size, Rotation.random(random_state=2).as_matrix()
    found = align_points(source, 3 * source @ rotation.T, with_scale=True)
    np.testing.assert_allclose(found.rotation, rotation, atol=1e-9)
    assert found.scale == pytest.approx(3)


def test_aligned_poses_stay_rigid_under_scale():
    poses = circle().world_from_body
    moved = Alignment(Rotation.random(random_state=1).as_matrix(), np.array([1.0, 2, 3]), 5.0).poses(poses)
    assert se3.is_rigid(moved, 1e-9).all()
    step = np.linalg.norm(np.diff(poses[:, :3, 3], axis=0), axis=1)
    np.testing.assert_allclose(np.linalg.norm(np.diff(moved[:, :3, 3], axis=0), axis=1), 5 * step)


# --- association --------------------------------------------------------------------------------------------------


def test_association_by_hand():
    """Nearest first, each once: 100 -> 104, 200 -> 199; 210 would be 11 away from 199, which is taken."""
    pairs = associate(stamps_ms(0, 100, 200, 210, 400), stamps_ms(30, 104, 199, 401, 500), 20 * MS)
    assert pairs.rows_a.tolist() == [1, 2, 4] and pairs.rows_b.tolist() == [1, 2, 3]


def test_association_is_exact_beyond_2_to_the_53():
    pairs = associate(np.array([NOW, NOW + 60], dtype=np.int64), np.array([NOW + 50, NOW + 90], dtype=np.int64), 30)
    assert pairs.rows_a.tolist() == [1] and pairs.rows_b.tolist() == [0]


@pytest.mark.parametrize("seed", range(10))
def test_association_is_one_to_one_rising_and_symmetric(seed):
    rng = np.random.default_rng(seed)
    a, b = (np.unique(rng.integers(0, 10_000, 120)).astype(np.int64) for _ in range(2))
    there, back = associate(a, b, 60), associate(b, a, 60)
    assert (np.diff(there.rows_a) > 0).all() and (np.diff(there.rows_b) > 0).all()
    assert (np.abs(a[there.rows_a] - b[there.rows_b]) <= 60).all()
    assert abs(len(there.rows_a) - len(back.rows_a)) <= 2  # ties may fall differently
    free_a, free_b = np.delete(a, there.rows_a), np.delete(b, there.rows_b)
    gaps = np.abs(free_a[:, None] - free_b[None])
    for i, j in np.argwhere(gaps <= 60):  # what is left over and near is cut off by a matched row in between
        low, high = sorted((free_a[i], free_b[j]))
        assert ((a[there.rows_a] >= low) & (a[there.rows_a] <= high)).any() or (
            (b[there.rows_b] >= low) & (b[there.rows_b] <= high)
        ).any()


def test_p5_two_clocks_match_nothing_and_both_ranges_are_said():
    device = np.array([5_000_123_000, 5_001_123_000], dtype=np.int64)
    with pytest.raises(TimeError, match=rf"from 5000123000 to 5001123000 ns, the second from {NOW} to {NOW + 5}"):
        associate(device, np.array([NOW, NOW + 5], dtype=np.int64), 10 * MS)
    for bad in (np.array([2, 1], dtype=np.int64), np.array([1, 1], dtype=np.int64)):
        with pytest.raises(TimeError, match="first list of times does not rise"):
            associate(bad, device, 1)
    with pytest.raises(TimeError, match="second list of times is empty"):
        associate(device, device[:0], 1)
    with pytest.raises(TimeError, match="negative"):
        associate(device, device, -1)


# --- absolute error -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("align", ["se3", "sim3"])
def test_the_same_motion_in_another_world_has_no_error(align):
    truth = circle()
    move = se3.from_rotation_translation(Rotation.random(random_state=3).as_matrix(), np.array([10.0, -20, 5]))
    estimate = in_other_world(truth, move)
    if align == "sim3":
        poses = estimate.world_from_body.copy()
        poses[:, :3, 3] *= 0.1
        estimate = Trajectory(estimate.timestamps_ns, poses)
    error = absolute_error(estimate, truth, align)
    assert error.translation.max < 1e-9 and error.rotation_deg.max < 1e-6
    assert error.alignment.scale == pytest.approx(10 if align == "sim3" else 1)
    assert len(error.timestamps_ns) == 101 and error.unmatched_estimate == error.unmatched_reference == 0
    with pytest.raises((PoseError, TypeError), match="sim2"):
        absolute_error(estimate, truth, "sim2")  # type: ignore[arg-type]


def test_statistics_by_hand_without_alignment():
    """Errors 0, 3, 4, 0, 12 m: rmse = 13 / sqrt 5, mean 3.8, median 3, max 12."""
    error = absolute_error(line_along_x([0, 4, 6, 3, 16]), line_along_x([0, 1, 2, 3, 4]), "none")
    assert error.translation.rmse == pytest.approx(13 / np.sqrt(5))
    assert (error.translation.mean, error.translation.median, error.translation.max) == (3.8, 3.0, 12.0)
    assert error.translation_errors.tolist() == [0, 3, 4, 0, 12] and error.rotation_deg.max == 0


@pytest.mark.parametrize("degrees", [1e-4, 1.0, 90.0, 179.0])
def test_a_constant_turn_of_the_body_is_rotation_error_only(degrees):
    truth = circle()
    axis = np.array([0.6, 0.0, 0.8])
    turn = se3.from_rotation_translation(se3.rotation_from_axis_angle(axis * np.radians(degrees)), np.zeros(3))
    error = absolute_error(of_mounted(truth, turn), truth, "se3")
    assert error.translation.max < 1e-9
    assert error.rotation_deg.rmse == pytest.approx(degrees, rel=1e-6)
    assert error.rotation_deg.median == pytest.approx(degrees, rel=1e-6)


def test_unmatched_poses_are_counted_and_lines_are_refused():
    truth = circle()
    half = Trajectory(truth.timestamps_ns[:40] + 4 * MS, truth.world_from_body[:40])
    error = absolute_error(half, truth, "se3")
    assert (len(error.timestamps_ns), error.unmatched_estimate, error.unmatched_reference) == (40, 0, 61)
    assert error.translation.max < 1e-9
    with pytest.raises(PoseError, match="lie on one line"):
        absolute_error(line_along_x([0, 1, 2, 3]), line_along_x([0, 1, 2, 3]), "se3")
    with pytest.raises(TimeError, match="Two clocks"):
        absolute_error(Trajectory(truth.timestamps_ns - NOW, truth.world_from_body), truth, "se3")


# --- relative error -----------------------------------------------------------------------------------------------


def drifting(rate: float) -> tuple[Trajectory, Trajectory]:
    """1 m/s along x for 10 s, and an estimate that goes (1 + rate) m/s."""
    x = np.arange(101) * 0.1
    return line_along_x(x * (1 + rate)), line_along_x(x)


@pytest.mark.parametrize(
    ("step", "unit", "metres", "count"), [(10, "frames", 1.0, 91), (2.0, "seconds", 2.0, 81), (3.0, "metres", 3.0, 71)]
)
def test_a_constant_drift_of_one_percent(step, unit, metres, count):
    error = relative_error(*drifting(0.01), step, unit)
    assert len(error.starts_ns) == count
    for value in (error.translation.rmse, error.translation.median, error.translation.max):
        assert value == pytest.approx(0.01 * metres)
    assert error.rotation_deg.max == 0
    assert ((error.ends_ns - error.starts_ns) == round(metres * 1e9)).all()


def test_relative_error_needs_no_alignment_and_takes_a_scale():
    truth = circle()
    move = se3.from_rotation_translation(Rotation.random(random_state=4).as_matrix(), np.array([10.0, -20, 5]))
    assert relative_error(in_other_world(truth, move), truth, 1, "frames").translation.max < 1e-9
    poses = truth.world_from_body.copy()
    poses[:, :3, 3] /= 7
    small = Trajectory(truth.timestamps_ns, poses)
    assert relative_error(small, truth, 5, "frames").translation.max > 0.1
    assert relative_error(small, truth, 5, "frames", estimate_scale=7.0).translation.max < 1e-9


def test_a_gyroscope_that_drifts_half_a_degree_a_second():
    t = np.arange(101) * 0.1
    spin = se3.rotation_from_axis_angle(np.stack([t * 0, t * 0, np.radians(0.5) * t], axis=1))
    estimate = Trajectory(stamps_ms(*range(0, 10_100, 100)), se3.from_rotation_translation(spin, np.zeros((101, 3))))
    error = relative_error(estimate, line_along_x(np.zeros(101)), 4.0, "seconds")
    assert error.rotation_deg.rmse == pytest.approx(2.0) and error.translation.max == 0


def test_steps_over_gaps_and_standstill():
    """A gap of 3 s holds no step of 1 s; at a standstill every pose begins a step of the same metre."""
    times = [0, 500, 1000, 4000, 4500, 5000]
    x = [t / 1000 for t in times]
    error = relative_error(line_along_x(x, times), line_along_x(x, times), 1.0, "seconds")
    assert ((error.starts_ns - NOW) // MS).tolist() == [0, 4000]
    still = line_along_x([0, 0, 0, 0.5, 1, 1])
    error = relative_error(still, still, 1.0, "metres")
    assert ((error.starts_ns - NOW) // MS).tolist() == [0, 100, 200]
    assert ((error.ends_ns - NOW) // MS).tolist() == [400, 400, 400]


@pytest.mark.parametrize(
    ("step", "unit", "fault"),
    [
        (1000, "frames", "no two of the 101 matched poses are 1000 frames apart"),
        (60.0, "seconds", "are 60 seconds apart"),
        (11.0, "metres", "are 11 metres apart"),
        (0.0, "metres", "must be positive"),
        (1.5, "frames", "positive and whole"),
        (float("nan"), "seconds", "must be positive"),
        (1.0, "yards", "frames.*seconds.*metres"),
    ],
)
def test_impossible_steps_are_refused(step, unit, fault):
    with pytest.raises((PoseError, TypeError), match=fault):  # TypeError: shapes and types are checked in tests
        relative_error(*drifting(0.0), step, unit)
