"""Splats at points that SLAM or structure from motion measured, and guesses beside them."""

from dataclasses import replace

import numpy as np
import pytest

from geo.recording import ScenePoints
from recon.backend import CpuRenderer
from recon.config import ReconstructConfig
from recon.guess import guess_unseen
from recon.model import select
from recon.points import points_noise, splats_from_points
from recon.reconstruct import reconstruct
from recon.records import DynamicMasks
from recon.render import render, surface_depth
from recon.views import load_views

CONFIG = ReconstructConfig(
    width_px=96, sweep_width_px=96, dynamic_width_px=64, max_gaussians=4000, iterations=80, check_every=40,
    keyframe_step_m=0.02, device="cpu", from_pictures=True,
)  # fmt: skip


def points_of(scene, count, seed=0, scale=1.0):
    """Random pixels of random frames, at their exact depth."""
    rng = np.random.default_rng(seed)
    canonical, camera = scene.canonical, scene.canonical.camera
    frames = rng.integers(0, len(canonical.timestamps_ns), count)
    pixels = np.stack([rng.integers(0, camera.width_px, count), rng.integers(0, camera.height_px, count)], axis=1)
    z = scene.z_depth_m[frames, pixels[:, 1], pixels[:, 0]]
    rays = camera.normalised_points(pixels.astype(float)) * z[:, None]
    poses = canonical.world_from_camera[frames]
    places = np.einsum("nij,nj->ni", poses[:, :3, :3], rays) + poses[:, :3, 3]
    return ScenePoints(places * scale, np.full(count, np.nan))


@pytest.fixture(scope="module")
def bare(scene_of):
    """Fourteen frames without a depth sensor."""
    return scene_of(14, sensor=False)


@pytest.fixture(scope="module")
def views(bare):
    dynamic = DynamicMasks(np.zeros((14, 6, 8), dtype=bool))
    return load_views(bare.canonical, range(14), dynamic, CONFIG)


def test_splats_stand_at_the_points_in_the_pictures_colours(bare, views):
    points = points_of(bare, 600)
    model = splats_from_points(points, views, CONFIG).model
    away = np.abs(model.means_in_world[:, None] - points.points_in_world[None]).sum(axis=2).min(axis=1)
    assert 550 < len(model.means_in_world) <= 600 and away.max() < 1e-5
    red = ScenePoints(points.points_in_world, points.sigma_m, np.tile(np.array([255, 0, 0], np.uint8), (600, 1)))
    given = splats_from_points(red, views, CONFIG).model
    assert 0.5 + 0.28209479 * given.sh_coeffs[:, 0] == pytest.approx(np.tile([1.0, 0, 0], (len(given.sh_coeffs), 1)))


def test_far_away_unsure_and_unseen_points_are_left_out(bare, views):
    points = points_of(bare, 400)
    odd = np.array([[0.0, 1.0, 40.0], [0.0, -5.0, 1.0], [0.05, 1.2, 1.0]])  # lonely above, behind, in the air
    sigma = np.concatenate([points.sigma_m, [np.nan, np.nan, 0.5]])
    more = ScenePoints(np.concatenate([points.points_in_world, odd]), sigma)
    model = splats_from_points(more, views, CONFIG).model
    for place in odd:
        assert np.linalg.norm(model.means_in_world - place, axis=1).min() > 0.01
    assert len(splats_from_points(more, views, replace(CONFIG, max_gaussians=100)).model.means_in_world) <= 100


@pytest.mark.parametrize("count", [0, 5])
def test_too_few_points_give_no_splats(bare, views, count):
    assert not len(splats_from_points(points_of(bare, count), views, CONFIG).model.means_in_world)


def test_noise_is_in_the_points_own_unit(bare, views):
    near, far = points_noise(points_of(bare, 300), views), points_noise(points_of(bare, 300, scale=10.0), views)
    assert far.floor_m == pytest.approx(10 * near.floor_m, rel=0.15)


def test_what_no_point_covers_is_filled_at_the_depth_beside_it(bare, views):
    """Points right of x = 0 alone: the left half of the wall and the floor starts as guesses near the true depth."""
    points = points_of(bare, 4000)
    places = points.points_in_world[points.points_in_world[:, 0] > 0]
    right = ScenePoints(places, np.full(len(places), np.nan))
    config = replace(CONFIG, max_gaussians=6000)
    initial = splats_from_points(right, views, config)
    found = guess_unseen(initial, views, views, config, points_noise(right, views), CpuRenderer())
    before, after = (covered(model, views) for model in (initial.model, found.initial.model))
    assert before < 0.75 and after > 0.97
    guesses = select(
        found.initial.model, np.arange(len(initial.model.means_in_world), len(found.initial.model.means_in_world))
    )
    assert len(guesses.means_in_world) == found.count > 50
    assert (guesses.means_in_world[:, 0] < 0.2).mean() > 0.9
    full = replace(config, max_gaussians=len(initial.model.means_in_world))
    assert guess_unseen(initial, views, views, full, points_noise(right, views), CpuRenderer()).count == 0


def covered(model, views):
    return float(np.mean([(render(model, v.camera, v.world_from_camera).alpha > 0.5).mean() for v in views]))


def test_a_recording_with_points_and_no_sensor_is_reconstructed_from_them(bare):
    canonical = replace(bare.canonical, points=points_of(bare, 1500))
    found = reconstruct(canonical, CONFIG)
    assert any("measured points" in note for note in found.report.notes)
    assert not any("sweep" in note for note in found.report.notes)
    frame = found.report.held_out_frames[0]
    z = surface_depth(render(found.model, canonical.camera, canonical.world_from_camera[frame]))
    error = np.abs(z / bare.z_depth_m[frame] - 1)
    assert np.isfinite(error).mean() > 0.95 and np.nanmedian(error) < 0.02
    assert found.report.picture_psnr_held_out_db > 22


def test_points_are_not_used_where_there_is_a_sensor_or_nobody_asked(scene_of, bare):
    sensed = scene_of(8)
    with_sensor = reconstruct(replace(sensed.canonical, points=points_of(sensed, 500)), replace(CONFIG, iterations=5))
    assert not any("points" in note for note in with_sensor.report.notes)
    unasked = replace(bare.canonical, points=points_of(bare, 500))
    assert not len(reconstruct(unasked, replace(CONFIG, from_pictures=False)).model.means_in_world)
