"""Depth from pictures and poses alone."""

from dataclasses import replace

import numpy as np
import pytest

from recon.config import ReconstructConfig
from recon.reconstruct import reconstruct
from recon.render import render, surface_depth
from recon.sweep import _plane_homography, neighbours_of, sweep_noise, sweep_views
from recon.views import View


def texture(points):
    """Grey levels of surface points: waves of some 15 to 40 cm in many directions."""
    rng = np.random.default_rng(5)
    waves = sum(np.sin(points @ rng.normal(size=3) * 22 + rng.uniform(0, 6)) for _ in range(6))
    return (127 + 18 * np.repeat(np.asarray(waves)[..., None], 3, axis=-1)).clip(0, 255).astype(np.uint8)


def views_of(scene, frames=None, scale=1.0):
    canonical, camera = scene.canonical, scene.canonical.camera
    out = []
    for frame in frames if frames is not None else range(len(canonical.timestamps_ns)):
        pose = canonical.world_from_camera[frame].copy()
        rays = camera.normalised_points(camera.pixel_grid()) * scene.z_depth_m[frame][..., None]
        rgb = texture(rays @ pose[:3, :3].T + pose[:3, 3])
        pose[:3, 3] *= scale
        nothing = np.full((72, 96), np.nan, np.float32)
        out.append(View(frame, rgb, nothing, np.ones((72, 96), bool), camera, pose))
    return out


@pytest.fixture(scope="module")
def swept(room):
    """Sixteen views of the floor and the wall."""
    return sweep_views(views_of(room))


def test_depth_of_floor_and_wall_to_a_percent(room, swept):
    error = [np.abs(view.z_depth_m / exact - 1) for view, exact in zip(swept, room.z_depth_m, strict=True)]
    known = np.isfinite(error)
    assert known.mean() > 0.4
    assert np.nanmedian(error) < 0.01 and np.nanpercentile(error, 95) < 0.04


def test_depth_follows_the_unit_of_the_poses(room, swept):
    seven = sweep_views(views_of(room, scale=7.0))
    for small, large in zip(swept, seven, strict=True):
        both = np.isfinite(small.z_depth_m) & np.isfinite(large.z_depth_m)
        assert both.sum() > 0.85 * np.isfinite(small.z_depth_m).sum()
        same = np.abs(large.z_depth_m[both] / (7 * small.z_depth_m[both]) - 1) < 0.01
        assert same.mean() > 0.97  # warping rounds places to 1/32 px: a winner may flip here and there
    noise, wide = sweep_noise(swept), sweep_noise(seven)
    assert wide.sigma_m(np.array([14.0])) == pytest.approx(7 * noise.sigma_m(np.array([2.0])), rel=0.02)


def test_no_texture_one_place_or_two_views_give_no_depth(room):
    plain = [replace(view, rgb=np.full_like(view.rgb, 90)) for view in views_of(room)]
    still = [replace(view, world_from_camera=room.canonical.world_from_camera[0]) for view in views_of(room)]
    for views in (plain, still, views_of(room, [0, 8]), []):
        assert all(np.isnan(view.z_depth_m).all() for view in sweep_views(views))


def test_masked_pixels_get_no_depth(room):
    views = views_of(room)
    views[5].static[:, :48] = False
    found = sweep_views(views)[5].z_depth_m
    assert np.isnan(found[:, :48]).all() and np.isfinite(found[:, 48:]).any()


def test_a_sideways_step_moves_a_planes_pixels_by_focal_length_times_step_over_depth(room):
    """The camera of the scene has a focal length of 70 px."""
    first = replace(views_of(room, [0])[0], world_from_camera=np.eye(4))
    aside = np.eye(4)
    aside[0, 3] = 0.1
    a, b = first, replace(first, world_from_camera=aside)
    there = _plane_homography(a, b, 1 / 2.0) @ [50.0, 30.0, 1.0]
    assert there[:2] / there[2] == pytest.approx([50.0 - 70.0 * 0.1 / 2.0, 30.0])


def test_neighbours_look_the_same_way_from_elsewhere(room):
    views = views_of(room)
    turned = views[3].world_from_camera.copy()
    turned[:3, :3] = turned[:3, :3] @ [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]
    turned[0, 3] += 0.01
    views += [replace(views[3], world_from_camera=turned)]  # near, but turned away
    views += [replace(views[3], world_from_camera=views[3].world_from_camera.copy())]  # the same place again
    chosen = neighbours_of(3, views)
    assert chosen[0] in (2, 4) and len(set(chosen)) == 5 and not {3, 16, 17} & set(chosen)


def test_a_scene_without_sensor_is_reconstructed_from_its_pictures_if_asked_to(scene_of):
    scene = scene_of(14, sensor=False)
    scene.canonical.frames.images[:] = [view.rgb for view in views_of(scene)]
    config = ReconstructConfig(
        width_px=96, sweep_width_px=96, dynamic_width_px=64, max_gaussians=4000, iterations=60, check_every=30,
        keyframe_step_m=0.02, device="cpu", from_pictures=True,
    )  # fmt: skip
    found = reconstruct(scene.canonical, config)
    assert any("plane sweep" in note for note in found.report.notes) and found.report.psnr_held_out_db > 20
    assert np.isnan(found.report.depth_abs_rel_held_out)  # there is no sensor to measure against
    frame = found.report.held_out_frames[0]
    z = surface_depth(render(found.model, scene.canonical.camera, scene.canonical.world_from_camera[frame]))
    error = np.abs(z / scene.z_depth_m[frame] - 1)
    assert np.isfinite(error).mean() > 0.6 and np.nanmedian(error) < 0.015


def test_pictures_that_agree_on_no_depth_are_a_reason_not_a_crash(scene_of):
    scene = scene_of(2, sensor=False)
    config = ReconstructConfig(width_px=96, sweep_width_px=96, device="cpu", from_pictures=True, iterations=10)
    found = reconstruct(scene.canonical, config)
    assert not len(found.model.means_in_world) and "agree on no depth" in found.report.notes[0]
