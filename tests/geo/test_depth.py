"""Depth images: points, sampling, and another camera's view."""

import numpy as np
import pytest

from geo.cameras import KannalaBrandtCamera, PinholeCamera
from geo.depth import clean_depth, ray_to_z_depth, reproject_depth, sample_depth, unproject, z_to_ray_distance
from geo.errors import GeoError, PoseError, ShapeError
from geo.se3 import rotation_from_axis_angle

SOURCE = PinholeCamera(96, 72, 60.0, 60.0, 47.5, 35.5)


def plane_depth(camera: PinholeCamera, normal, offset: float) -> np.ndarray:
    """Depth of the plane normal . X = offset."""
    depth = offset / (camera.normalised_points(camera.pixel_grid()) @ np.asarray(normal, float))
    return np.where(depth > 0, depth, np.nan)


def pose(translation, axis_angle=(0.0, 0.0, 0.0)) -> np.ndarray:
    out = np.eye(4)
    out[:3, :3] = rotation_from_axis_angle(np.array(axis_angle, float))
    out[:3, 3] = translation
    return out


def test_points_lie_on_the_surface_that_was_seen():
    normal = np.array([0.3, -0.4, 1.0])
    points = unproject(plane_depth(SOURCE, normal, 2.0), SOURCE)
    np.testing.assert_allclose(points @ normal, 2.0, atol=1e-12)


def test_pixels_without_depth_give_nan_points_and_the_grid_keeps_its_shape():
    depth = np.full((72, 96), 2.0)
    depth[3, 4], depth[5, 6] = 0.0, np.nan
    points = unproject(depth, SOURCE)
    assert points.shape == (72, 96, 3)
    assert np.isnan(points[3, 4]).all() and np.isnan(points[5, 6]).all() and np.isfinite(points[0, 0]).all()


def test_a_fisheye_has_z_depth_only_in_front():
    camera = KannalaBrandtCamera(100, 100, 25.0, 25.0, 49.5, 49.5, (0.0, 0.0, 0.0, 0.0))
    distance = np.full((100, 100), 2.0)
    z = ray_to_z_depth(distance, camera)
    directions = camera.unproject(camera.pixel_grid()).directions
    front = directions[..., 2] > 0.01
    np.testing.assert_allclose(z[front], 2.0 * directions[..., 2][front])
    assert np.isnan(z[directions[..., 2] < 0]).all()
    np.testing.assert_allclose(z_to_ray_distance(z, camera)[front], 2.0)
    np.testing.assert_allclose(np.linalg.norm(unproject(z, camera), axis=-1)[front], 2.0)


def test_size_of_image_and_camera_must_agree():
    with pytest.raises(ShapeError, match=r"shape \(48, 64\), but its camera is 96x72"):
        unproject(np.ones((48, 64)), SOURCE)


@pytest.mark.parametrize("unit", [0.0, -0.001, float("nan")])
def test_a_unit_that_is_no_length_is_refused(unit):
    with pytest.raises(GeoError, match="unit_m"):
        clean_depth(np.ones((2, 2)), unit)


def test_listed_values_and_far_depths_are_nothing():
    raw = np.array([[100, 8191, 30_000]], dtype=np.uint16)
    assert np.isfinite(clean_depth(raw, 0.001, invalid=(8191.0,))).tolist() == [[True, False, False]]


# --- another camera's view ------------------------------------------------------------------------------------


@pytest.mark.parametrize("normal", [[0, 0, 1], [0.3, -0.5, 1.0], [-0.8, 0.1, 1.0]])
def test_a_plane_seen_from_elsewhere_is_the_same_plane(normal):
    """Exact on planes, whatever their slope: the target's depth is worked out from the moved plane."""
    target = PinholeCamera(130, 120, 90.0, 90.0, 64.5, 59.5)
    target_from_source = pose([0.05, -0.02, 0.1], [0.1, -0.05, 0.2])
    seen = reproject_depth(plane_depth(SOURCE, normal, 2.0), SOURCE, target, target_from_source)
    moved = target_from_source[:3, :3] @ np.asarray(normal, float)
    expected = plane_depth(target, moved, 2.0 + moved @ target_from_source[:3, 3])
    known = np.isfinite(seen)
    assert known.mean() > 0.5
    np.testing.assert_allclose(seen[known], expected[known], rtol=3e-6, atol=0)


@pytest.mark.parametrize("density", [0.4, 1.0, 3.3])
def test_a_surface_has_no_holes_at_any_density(density):
    from scipy import ndimage

    focal, width, height = 60.0 * density, int(96 * density), int(72 * density)
    target = PinholeCamera(width, height, focal, focal, (width - 1) / 2, (height - 1) / 2)
    depth = plane_depth(SOURCE, [0.5, 0.3, 1.0], 2.0)
    seen = np.isfinite(reproject_depth(depth, SOURCE, target, pose([0.02, 0, 0], [0, 0, 0.5])))
    assert (ndimage.binary_fill_holes(seen) == seen).all()
    assert seen.mean() > 0.6


def test_the_nearer_surface_wins_and_is_not_seen_through():
    """A 1 m card before a 3 m wall, target denser than the source and 10 cm aside: no wall within the card."""
    depth = np.full((72, 96), 3.0)
    depth[20:50, 30:60] = 1.0
    target = PinholeCamera(384, 288, 240.0, 240.0, 191.5, 143.5)
    seen = reproject_depth(depth, SOURCE, target, pose([0.1, 0.0, 0.0]))
    # the card's pixels 30..59 at z = 1 cover u = 240 (x + 0.1) + 191.5 for x from (29.5-47.5)/60 to (59.5-47.5)/60
    left, right = 240 * (-18 / 60 + 0.1) + 191.5, 240 * (12 / 60 + 0.1) + 191.5
    top, bottom = 240 * (-16 / 60) + 143.5, 240 * (14 / 60) + 143.5
    inside = seen[int(top) + 2 : int(bottom) - 1, int(left) + 2 : int(right) - 1]
    np.testing.assert_allclose(inside, 1.0, atol=1e-6)
    near = np.isfinite(seen) & (seen < 2)
    rows, cols = np.nonzero(near)
    assert abs(cols.min() - left) <= 1 and abs(cols.max() - right) <= 1
    assert abs(rows.min() - top) <= 1 and abs(rows.max() - bottom) <= 1


def test_depth_edges_are_not_bridged():
    """Between the card and the wall behind it there is nothing, not a slope: only the two depths occur."""
    depth = np.full((72, 96), 3.0)
    depth[20:50, 30:60] = 1.0
    seen = reproject_depth(depth, SOURCE, SOURCE, pose([0.2, 0.0, 0.0]))
    known = seen[np.isfinite(seen)]
    assert (np.isclose(known, 1.0, atol=1e-5) | np.isclose(known, 3.0, atol=1e-5)).all()
    uncovered = np.isnan(seen[25:45]).sum(axis=1)
    assert (uncovered >= 60 * 0.2 * (1 - 1 / 3) - 2).all()  # the wall strip that the card hid: 8 px


def test_no_depth_stays_no_depth():
    depth = np.full((72, 96), 2.0)
    depth[10:20, 10:20] = np.nan
    seen = reproject_depth(depth, SOURCE, SOURCE, np.eye(4))
    assert np.isnan(seen[10:20, 10:20]).all()
    np.testing.assert_allclose(np.delete(seen, slice(10, 20), axis=0), 2.0)
    assert np.isnan(reproject_depth(np.full((72, 96), np.nan), SOURCE, SOURCE, np.eye(4))).all()


def test_surfaces_behind_the_target_are_dropped():
    assert np.isnan(reproject_depth(np.full((72, 96), 1.0), SOURCE, SOURCE, pose([0, 0, -1.5]))).all()


def test_reprojection_refuses_what_it_cannot_do():
    depth = np.full((72, 96), 2.0)
    fisheye = KannalaBrandtCamera(96, 72, 60.0, 60.0, 47.5, 35.5, (0.0, 0.0, 0.0, 0.0))
    with pytest.raises(Exception, match=r"pinhole|PinholeCamera|type"):
        reproject_depth(depth, SOURCE, fisheye, np.eye(4))  # type: ignore[arg-type]
    with pytest.raises(PoseError, match="target_from_source is not a rigid"):
        reproject_depth(depth, SOURCE, SOURCE, 2 * np.eye(4))
    with pytest.raises(ShapeError):
        reproject_depth(depth[1:], SOURCE, SOURCE, np.eye(4))


# --- sampling ---------------------------------------------------------------------------------------------------


def test_sampling_between_pixels_is_exact_on_a_slanted_plane():
    normal = [0.5, 0.2, 1.0]
    depth = plane_depth(SOURCE, normal, 2.0)
    points = np.array([[40.3, 30.7], [50.5, 20.5], [0.25, 0.75]])
    expected = 2.0 / (SOURCE.normalised_points(points) @ np.array(normal))
    np.testing.assert_allclose(sample_depth(depth, points), expected, rtol=1e-12)


def test_sampling_never_mixes_two_surfaces_or_nothing():
    depth = np.full((4, 4), 1.0)
    depth[:, 2:] = 3.0
    assert sample_depth(depth, np.array([[1.4, 1.0], [1.6, 1.0]])).tolist() == [1.0, 3.0]
    depth[1, 1] = np.nan
    assert sample_depth(depth, np.array([0.4, 1.0])) == 1.0
    assert np.isnan(sample_depth(depth, np.array([0.6, 1.0])))


def test_sampling_outside_the_image_is_nan_and_borders_count_as_inside():
    depth = np.full((4, 6), 2.0)
    points = np.array([[-0.5, 0.0], [5.4, 3.4], [5.5, 0.0], [-0.6, 0.0], [np.nan, 1.0]])
    assert np.isfinite(sample_depth(depth, points)).tolist() == [True, True, False, False, False]
    assert sample_depth(depth, points[0], interpolate=False) == 2.0
