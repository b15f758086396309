"""Box geometry against values worked out by hand and against brute force."""

import numpy as np
import pytest

from geo import se3
from geo.boxes import (
    Box3,
    aabb,
    box_from_aabb,
    contains,
    corners,
    intersection_volume,
    iou_3d,
    point_distance,
    surface_distance,
)
from geo.errors import GeoError

ABOUT_Z_45 = se3.rotation_from_axis_angle(np.array([0.0, 0.0, np.pi / 4]))
UNIT = box_from_aabb(np.zeros(3), np.ones(3))


def box(center, extent, rotation=None) -> Box3:
    return Box3(np.array(center, float), np.array(extent, float), np.eye(3) if rotation is None else rotation)


def random_box(rng, spread=0.3) -> Box3:
    return Box3(rng.normal(size=3) * spread, rng.uniform(0.2, 1, 3), se3.rotation_from_quat_wxyz(rng.normal(size=4)))


def test_corners_follow_their_numbers():
    """Bit 0 is x, bit 1 is y, bit 2 is z."""
    found = corners(box([0, 0, 0], [2, 4, 6]))
    assert found[0].tolist() == [-1, -2, -3] and found[1].tolist() == [1, -2, -3]
    assert found[2].tolist() == [-1, 2, -3] and found[7].tolist() == [1, 2, 3]


def test_aabb_of_a_turned_cube_is_wider_by_root_two():
    low, high = aabb(box([1, 2, 3], [1, 1, 1], ABOUT_Z_45))
    np.testing.assert_allclose(high - low, [np.sqrt(2), np.sqrt(2), 1])
    np.testing.assert_allclose((low + high) / 2, [1, 2, 3])


def test_containment_and_point_distance():
    turned = box([0, 0, 0], [1, 1, 1], ABOUT_Z_45)
    points = np.array([[0.7, 0, 0], [0.4, 0.4, 0], [0, 0, 0.5]])
    assert contains(turned, points).tolist() == [True, False, True]
    assert point_distance(UNIT, np.array([[4.0, 5.0, 0.5], [0.5, 0.5, 0.5]])).tolist() == [5.0, 0.0]  # 3-4-5


def test_iou_of_a_cube_with_itself_turned_by_45_degrees():
    """The common part is a regular octagon of area 2 (root 2 - 1) = 0.8284: IoU = 0.8284 / (2 - 0.8284) = 1 / root 2."""
    turned = box([0.5, 0.5, 0.5], [1, 1, 1], ABOUT_Z_45)
    assert iou_3d(UNIT, turned) == pytest.approx(1 / np.sqrt(2), abs=1e-12)
    assert iou_3d(UNIT, UNIT) == pytest.approx(1.0, abs=1e-12)


def test_iou_of_shifted_and_nested_boxes():
    assert iou_3d(UNIT, box([1.0, 0.5, 0.5], [1, 1, 1])) == pytest.approx(0.5 / 1.5)
    assert iou_3d(UNIT, box([0.5, 0.5, 0.5], [0.5, 0.5, 0.5])) == pytest.approx(0.125)
    assert iou_3d(UNIT, box([1.5, 0.5, 0.5], [1, 1, 1])) == 0.0  # faces touch
    assert iou_3d(UNIT, box([5, 0, 0], [1, 1, 1])) == 0.0


def test_common_volume_agrees_with_counting_random_points():
    rng = np.random.default_rng(0)
    for _ in range(6):
        a, b = random_box(rng), random_box(rng)
        low, high = aabb(a)
        points = rng.uniform(low, high, (200_000, 3))
        counted = float((contains(a, points) & contains(b, points)).mean() * np.prod(high - low))
        volume = intersection_volume(a, b)
        assert volume == pytest.approx(counted, abs=0.01 * max(a.volume_m3, 1e-3) + 1e-3)
        assert intersection_volume(b, a) == pytest.approx(volume, abs=1e-12)


def test_flat_boxes_have_no_volume_unless_a_thickness_is_stated():
    plate = box([0.5, 0.5, 0.5], [1, 1, 0])
    assert iou_3d(plate, plate) == 0.0
    assert iou_3d(plate, plate, min_thickness_m=0.01) == pytest.approx(1.0)
    assert iou_3d(plate, UNIT) == 0.0
    assert np.isfinite(iou_3d(plate, box([0.5, 0.5, 0.5], [0, 0, 0], ABOUT_Z_45)))


def test_surface_distance_by_hand():
    assert surface_distance(UNIT, box([4.5, 5.5, 0.5], [1, 1, 1])) == pytest.approx(5.0)  # gaps 3 and 4
    assert surface_distance(UNIT, box([0.9, 0.5, 0.5], [1, 1, 1])) == 0.0
    # a cube on its edge above a plane: its edge is root 2 / 2 below its centre
    about_x_45 = se3.rotation_from_axis_angle(np.array([np.pi / 4, 0.0, 0.0]))
    assert surface_distance(UNIT, box([0.5, 0.5, 2.0], [1, 1, 1], about_x_45)) == pytest.approx(1 - np.sqrt(0.5))


def test_crossed_edges_are_nearest_at_their_middles():
    """Two needles at right angles, 0.3 apart: no corner is near."""
    a, b = box([0, 0, 0], [2, 0, 0]), box([0, 0, 0.3], [0, 2, 0])
    assert surface_distance(a, b) == pytest.approx(0.3)


def test_surface_distance_agrees_with_a_general_minimiser():
    from scipy.optimize import minimize

    rng = np.random.default_rng(5)
    for _ in range(12):
        a, b = random_box(rng, 1.2), random_box(rng, 1.2)
        half = np.concatenate([a.extent_m, b.extent_m]) / 2

        def gap(x, a=a, b=b):
            p = a.center_in_world + a.world_from_box_rotation @ x[:3]
            q = b.center_in_world + b.world_from_box_rotation @ x[3:]
            return float(((p - q) ** 2).sum())

        found = minimize(
            gap, np.zeros(6), bounds=list(zip(-half, half, strict=True)), options={"ftol": 1e-15, "gtol": 1e-10}
        )
        assert surface_distance(a, b) == pytest.approx(np.sqrt(found.fun), abs=2e-4)
        assert surface_distance(b, a) == pytest.approx(surface_distance(a, b), abs=1e-12)


@pytest.mark.parametrize("extent", [[0, 0, 0], [1, 0, 0], [1, 1, 0]])
def test_boxes_without_thickness_have_distances(extent):
    assert surface_distance(box([0, 0, 3], extent), UNIT) == pytest.approx(2.0)
    assert surface_distance(box([0.5, 0.5, 0.5], extent), UNIT) == 0.0


def test_an_unknown_box_has_unknown_distances():
    unknown = box([np.nan, 0, 0], [1, 1, 1])
    assert np.isnan(surface_distance(unknown, UNIT)) and np.isnan(iou_3d(unknown, UNIT))
    assert not contains(unknown, np.zeros((1, 3))).any()


def test_corners_in_the_wrong_order_are_refused():
    with pytest.raises(GeoError, match="lies above"):
        box_from_aabb(np.ones(3), np.zeros(3))
