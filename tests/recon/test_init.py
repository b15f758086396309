"""The first model lies on the surface, once, flat, within the budget, in one exposure."""

import numpy as np
import pytest

from recon.config import ReconstructConfig
from recon.dynamic import estimate_dynamic
from recon.init import flatten_layers, initialise, surface_splats
from recon.records import DynamicMasks
from recon.sensor import SensorNoise
from recon.survey import survey
from recon.views import load_views

CONFIG = ReconstructConfig(width_px=96, max_gaussians=4000)


def views_of(scene, dynamic=None):
    count = len(scene.canonical.timestamps_ns)
    dynamic = dynamic or DynamicMasks(np.zeros((count, 6, 8), dtype=bool))
    return load_views(scene.canonical, range(count), dynamic, CONFIG)


def distance_to_room(points):
    """Distance to the floor z = 0 or the wall y = 2, whichever is nearer."""
    return np.minimum(np.abs(points[:, 2]), np.abs(points[:, 1] - 2.0))


def test_splats_lie_on_the_surfaces_within_the_budget(room):
    model = initialise(views_of(room), CONFIG).model
    assert 500 < len(model.means_in_world) <= 4000
    assert np.quantile(distance_to_room(model.means_in_world), 0.95) < 0.01


def test_splats_are_thin_along_the_surface_normal(room):
    from geo import se3

    model = initialise(views_of(room), CONFIG).model
    thin = np.argmin(model.log_scales, axis=1)
    assert (thin == 2).all()
    rotation = se3.rotation_from_quat_wxyz(model.quats_wxyz.astype(np.float64))
    on_wall = np.abs(model.means_in_world[:, 1] - 2.0) < 0.005
    wall_normals = rotation[on_wall & (model.means_in_world[:, 2] > 0.2), :, 2]
    assert np.quantile(np.abs(wall_normals[:, 1]), 0.05) > 0.95


def test_noise_in_many_views_makes_one_layer_not_many(scene_of):
    """16 views with 2 cm of noise: the spread of splats about the surface is far below the sensor's."""
    noisy = initialise(views_of(scene_of(16, noise_m=0.02)), CONFIG).model
    assert np.median(distance_to_room(noisy.means_in_world)) < 0.005


def test_flattening_moves_points_along_the_normal_and_no_further_than_three_sigmas():
    rng = np.random.default_rng(0)
    plane = np.stack([*(rng.random((2, 800))), 0.01 * rng.standard_normal(800)], axis=1)
    plane[0, 2] = 0.5  # an outlier stays one
    weight = np.full(800, 0.01**-2)
    flat = flatten_layers(plane, weight, np.full(800, 0.03), SensorNoise())
    assert np.abs(flat[1:, 2]).mean() < 0.4 * np.abs(plane[1:, 2]).mean()
    assert np.abs(flat[1:, :2] - plane[1:, :2]).max() < 0.02
    assert flat[0, 2] > 0.4


def test_exposure_is_taken_out_of_the_colours(scene_of):
    """Brightness changes by up to 1.67 between frames; gains are found up to one common factor."""
    scene = scene_of(12, exposure=True)
    views = views_of(scene)
    initial = initialise(views, CONFIG)
    plain = views_of(scene_of(12))
    true = np.array([v.rgb.mean() / p.rgb.mean() for v, p in zip(views, plain, strict=True)])
    found = initial.gains.mean(axis=1)
    np.testing.assert_allclose(found / found.mean(), true / true.mean(), rtol=0.04)


def test_what_moves_is_left_out(ball_scene):
    small = survey(ball_scene.canonical, ReconstructConfig(dynamic_width_px=64))
    dynamic = estimate_dynamic(ball_scene.canonical, small, ReconstructConfig(dynamic_width_px=64))
    model = initialise(views_of(ball_scene, dynamic), CONFIG).model
    assert (distance_to_room(model.means_in_world) > 0.1).mean() < 0.005
    everything = initialise(views_of(ball_scene), CONFIG).model
    assert (distance_to_room(everything.means_in_world) > 0.1).mean() > 0.05, "the check can fail"


def test_no_depth_gives_an_empty_model(scene_of):
    initial = initialise(views_of(scene_of(3, sensor=False)), CONFIG)
    assert len(initial.model.means_in_world) == 0 and initial.gains.shape == (3, 3)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_few_points_become_round_splats(count):
    model = surface_splats(np.zeros((count, 3)), np.zeros((count, 3)), np.full(count, 0.02))
    assert len(model.means_in_world) == count and np.isfinite(model.log_scales).all()
