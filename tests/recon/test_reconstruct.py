"""The stage from recording to report."""

from dataclasses import replace

import numpy as np
import pytest

from geo.world import World
from recon.config import PRESETS, ReconstructConfig
from recon.errors import ReconError
from recon.reconstruct import reconstruct
from recon.render import render, surface_depth
from recon.report import Quality, calibrate_noise

CONFIG = ReconstructConfig(
    width_px=96,
    dynamic_width_px=64,
    max_gaussians=2500,
    iterations=40,
    check_every=20,
    keyframe_step_m=0.02,
    device="cpu",
)


@pytest.fixture(scope="module")
def result(ball_scene):
    """The ball scene, reconstructed once."""
    calls = []
    return reconstruct(ball_scene.canonical, CONFIG, lambda *a: calls.append(a)), calls


def test_the_room_is_there_and_the_ball_is_not(ball_scene, result):
    """Static depth of every fourth frame against the exact depth of the empty room, ball pixels included."""
    reconstruction, _ = result
    canonical = ball_scene.canonical
    error = []
    for frame in range(0, 20, 4):
        z = surface_depth(render(reconstruction.model, canonical.camera, canonical.world_from_camera[frame]))
        error.append((np.abs(z - ball_scene.static_z_depth_m[frame]) / ball_scene.static_z_depth_m[frame]).ravel())
    error = np.concatenate(error)
    error = error[np.isfinite(error)]
    assert np.median(error) < 0.005
    assert (error > 0.1).mean() < 0.01


def test_the_report_speaks_of_frames_that_the_fit_never_saw(result):
    report = result[0].report
    assert report.held_out_frames and not set(report.held_out_frames) & set(report.keyframes)
    assert report.depth_median_error_m < 0.01 and report.coverage > 0.97
    assert report.psnr_held_out_db > 20 and report.picture_psnr_held_out_db > 18
    assert report.gaussians == len(result[0].model.means_in_world)


def test_progress_ends_each_part_at_its_total(result):
    calls = result[1]
    assert {what for _, _, what in calls} == {"survey", "views", "poses", "fit"}
    assert ("fit", 40, 40) in {(what, done, total) for done, total, what in calls}


def test_without_a_sensor_the_result_is_empty_and_says_why(scene_of):
    reconstruction = reconstruct(scene_of(5, sensor=False).canonical, CONFIG)
    assert not len(reconstruction.model.means_in_world)
    assert reconstruction.dynamic.masks.shape[0] == 5
    assert "no sensor depth" in reconstruction.report.notes[0] and "from_pictures" in reconstruction.report.notes[0]
    assert np.isnan(reconstruction.report.psnr_held_out_db)


def test_without_any_pose_the_result_is_empty_and_says_why(scene_of, without_poses):
    reconstruction = reconstruct(without_poses(scene_of(5).canonical, range(5)), CONFIG)
    assert not len(reconstruction.model.means_in_world) and "no frame has a pose" in reconstruction.report.notes[0]


def test_a_sensor_that_saw_nothing_is_no_crash(scene_of):
    reconstruction = reconstruct(scene_of(5, holes=1.1).canonical, CONFIG)
    assert not len(reconstruction.model.means_in_world) and "no splat could be placed" in reconstruction.report.notes[0]


def test_a_world_without_scale_is_said_to_have_none(scene_of):
    canonical = scene_of(6).canonical
    small = replace(CONFIG, iterations=2)
    loose = replace(canonical, world=World.without_up(metric=False))
    assert any("not metric" in note for note in reconstruct(loose, small).report.notes)
    assert not any("not metric" in note for note in reconstruct(canonical, small).report.notes)


def test_zero_iterations_give_the_first_model(scene_of):
    reconstruction = reconstruct(scene_of(8).canonical, replace(CONFIG, iterations=0))
    assert reconstruction.report.iterations == 0 and reconstruction.report.depth_median_error_m < 0.02


def test_the_noise_that_is_measured_is_the_noise_that_was_there():
    """Residuals with sigma = 2 mm + 5 mm z^2."""
    rng = np.random.default_rng(0)
    z = rng.uniform(0.5, 3.0, 20_000)
    residual = rng.standard_normal(20_000) * (0.002 + 0.005 * z**2)
    floor, share = calibrate_noise(Quality(*[0.0] * 7, z, residual))
    assert floor == pytest.approx(0.002, abs=0.001) and share == pytest.approx(0.005, rel=0.1)
    assert calibrate_noise(Quality(*[0.0] * 7, z[:10], residual[:10])) is None


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"width_px": 0}, "width_px is 0"),
        ({"held_out_every": 1}, "every frame would be held out"),
        ({"densify": "more"}, "use none, adaptive or mcmc"),
        ({"sh_degree": 4}, "use 0 to 3"),
        ({"densify_every": 0}, "densify_every is 0"),
        ({"device": "tpu"}, "use auto, cpu or cuda"),
        ({"min_sensor_z_m": 9.0}, "in this order"),
    ],
)
def test_impossible_settings_are_refused_with_their_name(setting, message):
    with pytest.raises(ReconError, match=message):
        ReconstructConfig(**setting)


def test_presets_are_there():
    assert set(PRESETS) == {"draft", "standard", "fine"} and PRESETS["standard"] == ReconstructConfig()
