"""The smaller parts: circles, filled holes, smoothing, clouds, surfaces, containment, runs."""

import numpy as np
import pytest

from geo.boxes import Box3
from lifting._cloud import VoxelCloud
from lifting._fill import carry_on
from lifting._pixels import core_and_rim, depth_components, resize_mask
from lifting.relations import runs, share_inside
from lifting.round import fit_circle, round_box
from lifting.smooth import smooth_centers


def half_cylinder(radius=0.04, height=0.12, count=2000, noise=0.003, center=(1.0, 2.0, 0.86)):
    """The side of an upright cylinder that faces -y."""
    rng = np.random.default_rng(0)
    angle, z = rng.uniform(-np.pi, 0, count), rng.uniform(-height / 2, height / 2, count)
    points = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), z]) + center
    return points + noise * rng.normal(size=points.shape)


def test_the_circle_through_an_arc_is_found_in_spite_of_strays():
    """A third of a circle of radius 5 about (3, -2), one point in ten elsewhere."""
    rng = np.random.default_rng(1)
    angle = rng.uniform(0, 2 * np.pi / 3, 300)
    points = np.column_stack([3 + 5 * np.cos(angle), -2 + 5 * np.sin(angle)])
    points[::10] = rng.uniform(-5, 8, (30, 2))
    circle = fit_circle(points, 0.01)
    assert circle is not None
    assert np.allclose(circle.center_xy, [3, -2], atol=0.02) and abs(circle.radius_m - 5) < 0.02


def test_points_on_a_line_are_no_circle():
    assert fit_circle(np.column_stack([np.linspace(0, 1, 40), np.zeros(40)]), 0.001) is None


def test_half_a_jar_is_completed_to_a_whole_one():
    """Seen box: 8 x 4 x 12 cm, 2 cm too near. Whole: 8 x 8 x 12 cm about the axis."""
    points = half_cylinder()
    seen = Box3(np.array([1.0, 1.98, 0.86]), np.array([0.08, 0.04, 0.12]), np.eye(3))
    whole = round_box(seen, points, np.array([1.0, 0.5]), 0.004)
    assert whole is not None
    assert np.allclose(whole.center_in_world, [1, 2, 0.86], atol=0.004)
    assert np.allclose(whole.extent_m, [0.08, 0.08, 0.12], atol=0.008)


def test_the_front_of_a_box_is_not_completed_to_something_round():
    rng = np.random.default_rng(2)
    front = np.column_stack([rng.uniform(-0.04, 0.04, 800), np.full(800, -0.04), rng.uniform(-0.06, 0.06, 800)])
    side = np.column_stack([np.full(600, 0.04), rng.uniform(-0.04, 0.04, 600), rng.uniform(-0.06, 0.06, 600)])
    points = np.vstack([front, side]) + 0.003 * rng.normal(size=(1400, 3))
    box = Box3(np.zeros(3), np.array([0.08, 0.08, 0.12]), np.eye(3))
    assert round_box(box, points, np.array([1.0, -1.0]), 0.004) is None
    assert round_box(box, front + 0.003 * rng.normal(size=front.shape), np.array([0.0, -1.0]), 0.004) is None


def test_holes_continue_the_plane_beside_them():
    """Depth of a tilted plane, 1/z = 1 + 0.01 u: the missing column is exact, a hole 9 pixels away stays empty."""
    v, u = np.mgrid[0:10, 0:10]
    known = np.column_stack([v.ravel(), u.ravel()]).astype(np.int64)
    z = 1.0 / (1 + 0.01 * known[:, 1])
    holes = np.array([[5, 11], [5, 19]])
    where, depth = carry_on(holes, known, z, 3.0, 0.5)
    assert where.tolist() == [[5, 11]] and np.isclose(depth[0], 1 / 1.11, atol=0.004)


def test_carried_depth_stays_near_its_neighbours():
    known = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    _, depth = carry_on(np.array([[0, 3]]), known, np.array([1.0, 1.4, 1.0, 1.4]), 3.0, 0.02)
    assert abs(depth[0] - 1 / np.mean([1, 1, 1 / 1.4, 1 / 1.4])) <= 0.02 + 1e-12


def test_erosion_keeps_thin_parts():
    mask = np.zeros((20, 20), bool)
    mask[5:15, 5:15] = True
    mask[9:11, 15:20] = True  # a handle, two pixels thick
    core, rim = core_and_rim(mask)
    assert core[6:14, 6:14].all() and not core[5, 5:15].any() and core[9:11, 17:20].all()
    assert (core | rim).sum() == mask.sum() and not (core & rim).any()


def test_a_mask_is_shrunk_by_majority():
    mask = np.zeros((4, 4), bool)
    mask[0, 0] = mask[0, 2] = mask[1, 3] = True
    assert resize_mask(mask, (2, 2)).tolist() == [[False, True], [False, False]]
    assert resize_mask(mask, (4, 4)) is mask and resize_mask(mask, (3, 3)).shape == (3, 3)


def test_surfaces_at_different_depth_are_different_components():
    z = np.full((6, 9), 1.0)
    z[:, 4:] = 1.2
    _, labels = depth_components(z, np.ones((6, 9), bool), 0.05)
    assert len(np.unique(labels)) == 2 and sorted(np.bincount(labels).tolist()) == [24, 30]
    _, joined = depth_components(z, np.ones((6, 9), bool), 0.3)
    assert len(np.unique(joined)) == 1


def test_the_shift_of_a_moved_cloud_is_measured():
    rng = np.random.default_rng(3)
    points = rng.uniform(-0.05, 0.05, (800, 3))
    cloud = VoxelCloud(0.006)
    cloud.add(points)
    moved = cloud.shift_of(points + np.array([0.02, 0.0, -0.01]))
    assert np.allclose(moved, [0.02, 0.0, -0.01], atol=0.006)
    part = points[points[:, 0] < 0.0]  # half of it is hidden: its median is 2.5 cm off
    assert np.linalg.norm(cloud.shift_of(part)) < 0.004


def test_an_empty_cloud_is_infinitely_far():
    assert np.isinf(VoxelCloud(0.01).distances(np.zeros((2, 3)))).all()


def test_smoothing_keeps_a_straight_path_and_bridges_a_gap():
    """Constant velocity, noise 1 cm: the smoothed error is below the raw one, and widest in the gap."""
    rng = np.random.default_rng(4)
    times = np.arange(40) / 10
    truth = np.column_stack([0.3 * times, -0.1 * times, 0.0 * times])
    seen = truth + 0.01 * rng.normal(size=truth.shape)
    seen[20:24] = np.nan
    covariance = np.tile(np.eye(3) * 1e-4, (40, 1, 1))
    smooth, spread = smooth_centers(times, seen, covariance, 0.5)
    raw = np.nanmean(np.linalg.norm(seen - truth, axis=1))
    assert np.linalg.norm(smooth - truth, axis=1).mean() < 0.75 * raw
    sigma = np.sqrt(np.trace(spread, axis1=1, axis2=2))
    assert sigma[21:23].min() > sigma[10:18].max()


def test_one_wild_measurement_does_not_bend_the_path():
    times = np.arange(30) / 10
    seen = np.column_stack([0.2 * times, 0 * times, 0 * times])
    seen[15] = [0.3, 2.0, 0.0]
    smooth, _ = smooth_centers(times, seen, np.tile(np.eye(3) * 1e-4, (30, 1, 1)), 0.5)
    assert abs(smooth[15, 1]) < 0.15


@pytest.mark.parametrize(
    ("offset", "share"), [((0, 0, 0.0), 1.0), ((0.3, 0, 0), 0.0), ((0.09, 0, 0.0), 0.6), ((0, 0, 0.13), 0.0)]
)
def test_the_share_inside_a_container(offset, share):
    """A 10 cm cube in a tray of 20 x 20 x 16 cm (inner half-width 9.2 cm); sample points 2 cm apart.

    9 cm aside: x of the samples is 5, 7, 9, 11, 13 cm, three of five inside. 13 cm up: it stands on the rim.
    """
    tray = Box3(np.zeros(3), np.array([0.2, 0.2, 0.16]), np.eye(3))
    cube = Box3(np.array(offset, float), np.full(3, 0.1), np.eye(3))
    assert np.isclose(share_inside(cube, tray, 0.008), share, atol=1e-9)


def test_runs_have_hysteresis_bridges_and_a_shortest_length():
    """At 10 Hz: begins at 0.8, lasts while 0.5, breaks below; a 0.2 s break is bridged, a 0.3 s run is too short."""
    times = np.arange(40) / 10
    values = np.zeros(40)
    values[2:20] = 0.6
    values[5] = 0.9
    values[12] = 0.1
    values[13] = 0.85
    values[30:33] = 0.9
    assert runs(values, 0.8, 0.5, times, 1.0) == [(5, 19)]
    values[15:] = np.nan
    assert runs(values, 0.8, 0.5, times, 0.5) == [(5, 14)]
