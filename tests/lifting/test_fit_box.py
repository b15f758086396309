"""Boxes of point sets, degenerate ones first (field problem L1)."""

import numpy as np
import pytest

from geo.boxes import contains
from lifting.fit_box import fit_box

_PLANE = np.c_[np.array(np.meshgrid([0, 0.3, 1], [0, 0.2, 0.5])).reshape(2, -1).T, np.zeros(9)]
_TETRA = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]]


def turn(yaw: float, pitch: float = 0.0) -> np.ndarray:
    c, s, cp, sp = np.cos(yaw), np.sin(yaw), np.cos(pitch), np.sin(pitch)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])


@pytest.mark.parametrize("has_up", [True, False])
@pytest.mark.parametrize(
    ("points", "sides"),
    [
        ([[1, 2, 3]], [0, 0, 0]),
        ([[0, 0, 0], [1, 0, 0]], [1, 0, 0]),
        (np.c_[np.linspace(0, 1, 50), np.zeros((50, 2))], [1, 0, 0]),
        (_PLANE, [1, 0.5, 0]),
        (np.ones((30, 3)), [0, 0, 0]),
    ],
    ids=["one", "two", "line", "plane", "equal"],
)
def test_degenerate_points_give_flat_boxes_not_errors(points, sides, has_up):
    fit = fit_box(np.asarray(points, float), has_up)
    assert fit.box is not None
    assert np.allclose(np.sort(fit.box.extent_m)[::-1], sides, atol=1e-9)


def test_no_points_give_no_box_but_a_reason():
    fit = fit_box(np.zeros((0, 3)), True)
    assert fit.box is None and "no points" in fit.reason


def test_only_broken_points_give_no_box_and_are_counted():
    fit = fit_box(np.array([[np.nan] * 3, [np.inf, 0, 0]]), False)
    assert fit.box is None and fit.dropped_points == 2


@pytest.mark.parametrize("has_up", [True, False])
def test_broken_points_are_dropped_and_counted(has_up):
    clean = fit_box(np.array(_TETRA, float), has_up)
    broken = fit_box(np.vstack([_TETRA, [[np.nan] * 3], [[np.inf, 0, 0]]]), has_up)
    assert (broken.used_points, broken.dropped_points) == (5, 2)
    assert broken.box is not None and clean.box is not None
    assert np.array_equal(broken.box.extent_m, clean.box.extent_m)


@pytest.mark.parametrize("has_up", [True, False])
def test_three_points_make_a_finite_flat_box_around_them(has_up):
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0.0]])
    box = fit_box(points, has_up).box
    assert box is not None and np.isfinite(box.extent_m).all() and box.extent_m.min() < 1e-9
    assert contains(box, points, 1e-9).all()


@pytest.mark.parametrize("degrees", [0.0, 17.0, 45.0, 89.0, 133.0])
def test_a_turned_cuboid_is_recovered(degrees):
    """Surface of a 3 x 2 x 1 cuboid (dense grid), turned about z: sides 3, 2, 1 and the same turn modulo 180."""
    rng = np.random.default_rng(0)
    local = rng.uniform(-0.5, 0.5, (4000, 3))
    local[np.arange(4000), rng.integers(0, 3, 4000)] = rng.choice([-0.5, 0.5], 4000)
    points = (local * [3, 2, 1]) @ turn(np.radians(degrees)).T + [5, -1, 2]
    box = fit_box(points, True).box
    assert box is not None
    assert np.allclose(box.extent_m, [3, 2, 1], atol=0.03) and np.allclose(box.center_in_world, [5, -1, 2], atol=0.02)
    axis = box.world_from_box_rotation[:, 0]
    expected = turn(np.radians(degrees))[:, 0]
    assert abs(axis @ expected) > np.cos(np.radians(1.0))


def test_without_up_a_leaning_cuboid_keeps_its_sides():
    """With up the same points need a taller box: 10 degrees of tilt lift one end of the 3 long side."""
    rng = np.random.default_rng(1)
    local = rng.uniform(-0.5, 0.5, (3000, 3)) * [3, 2, 1]
    points = local @ turn(0.4, 0.3).T
    free, upright = fit_box(points, False).box, fit_box(points, True).box
    assert free is not None and upright is not None
    assert np.allclose(free.extent_m, [3, 2, 1], atol=0.12)
    assert upright.extent_m[2] > 1.4
    assert np.isclose(np.linalg.det(free.world_from_box_rotation), 1.0)


def test_quantiles_cut_a_few_strays_off():
    """Two strays 1 m away on 1000 points of a unit square: cut at 1 %, kept at 0 %."""
    rng = np.random.default_rng(2)
    points = np.vstack([rng.uniform(0, 1, (1000, 3)), [[2, 0.5, 0.5], [0.5, 0.5, 2]]])
    loose, tight = fit_box(points, True, 0.0).box, fit_box(points, True, 0.01).box
    assert loose is not None and tight is not None
    assert loose.extent_m.max() > 1.9 and tight.extent_m.max() < 1.01


def test_boxes_never_leave_the_finite(subtests=None):
    """Random small clouds, with repeats and extreme scales."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        count = int(rng.integers(1, 12))
        points = rng.normal(size=(count, 3)) * 10.0 ** rng.integers(-6, 4)
        points[:, rng.integers(0, 3)] *= rng.choice([0.0, 1.0])
        for has_up in (True, False):
            box = fit_box(points, has_up).box
            assert box is not None
            assert np.isfinite(box.center_in_world).all() and np.isfinite(box.extent_m).all()
            scale = max(1.0, float(np.abs(points).max()))
            assert contains(box, points, 1e-9 * scale).all()
