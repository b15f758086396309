"""Figures of the quality report against numbers that were put in, and what it says where it knows nothing."""

from dataclasses import replace

import numpy as np
import pytest

from recon.backend import CpuRenderer
from recon.config import ReconstructConfig
from recon.init import initialise
from recon.model import empty_model
from recon.per_view import ExposureTrack
from recon.quality_report import quality_report
from recon.records import DynamicMasks
from recon.render import render, surface_depth
from recon.views import load_views

CONFIG = ReconstructConfig(width_px=96, max_gaussians=2500, device="cpu")
RENDERER = CpuRenderer()


@pytest.fixture(scope="module")
def model_and_views(room):
    """A model, and views that show just what it draws: their pictures and sensor depth are its own."""
    dynamic = DynamicMasks(np.zeros((16, 6, 8), dtype=bool))
    views = load_views(room.canonical, range(0, 16, 2), dynamic, CONFIG)
    model = initialise(views, CONFIG).model
    own = []
    for view in views:
        drawn = render(model, view.camera, view.world_from_camera)
        rgb = (drawn.rgb * 255).round().astype(np.uint8)
        own.append(replace(view, rgb=rgb, z_depth_m=surface_depth(drawn)))
    return model, own


def report_of(model, views, **options):
    return quality_report(model, views, RENDERER, **options)


def test_a_model_measured_on_its_own_pictures_is_right(model_and_views):
    """Only the rounding to 8 bits is left: 20 log10(255) + 10 log10(12) = 58.9 dB, the smooth clipping apart."""
    overall = report_of(*model_and_views).overall
    assert overall.psnr_db > 55 and overall.ssim > 0.999
    assert overall.depth_abs_rel == overall.depth_rmse_m == overall.depth_median_error_m == 0
    assert overall.delta_105 == overall.delta_125 == overall.coverage == 1


def test_depth_ten_percent_too_far_is_ten_percent_wrong(model_and_views):
    """z = 1.1 sensor: abs-rel 0.1, no pixel within 1.05, all within 1.25; the error is sensor / 10."""
    model, views = model_and_views
    near = [replace(view, z_depth_m=view.z_depth_m / np.float32(1.1)) for view in views]
    overall = report_of(model, near).overall
    sensor = np.concatenate([view.z_depth_m[np.isfinite(view.z_depth_m)] for view in near]).astype(np.float64)
    assert overall.depth_abs_rel == pytest.approx(0.1, rel=1e-4)
    assert (overall.delta_105, overall.delta_125) == (0, 1)
    assert overall.depth_rmse_m == pytest.approx(0.1 * np.sqrt((sensor**2).mean()), rel=1e-4)
    assert overall.depth_median_error_m == pytest.approx(0.1 * np.median(sensor), rel=1e-4)
    assert overall.pixels == len(sensor)


def test_coverage_counts_pixels_that_the_sensor_sees_and_the_model_does_not(model_and_views):
    """The sensor also sees where the model has nothing: those pixels are what is missing."""
    model, views = model_and_views
    full = [replace(view, z_depth_m=np.full_like(view.z_depth_m, 2.0)) for view in views]
    covered = np.mean([np.isfinite(view.z_depth_m) for view in views])
    assert report_of(model, full).overall.coverage == pytest.approx(covered)
    assert report_of(model, full).overall.picture_coverage == pytest.approx(covered)


def test_exposure_does_not_count_but_colour_does(model_and_views):
    model, views = model_and_views
    darker = [replace(view, rgb=(view.rgb * 0.6 + 20).round().astype(np.uint8)) for view in views]
    assert report_of(model, darker).overall.psnr_db > 50
    noisy = [replace(view, rgb=_noisy(view.rgb)) for view in views]
    overall = report_of(model, noisy).overall
    assert overall.psnr_db == pytest.approx(20 * np.log10(1 / 0.04), abs=0.3), "noise of 0.04 is 28.0 dB"
    assert overall.ssim < 0.9


def _noisy(rgb):
    noise = np.random.default_rng(int(rgb[5, 5, 0])).normal(0, 0.04 * 255, rgb.shape)
    return np.clip(rgb + noise, 0, 255).round().astype(np.uint8)


def test_the_strict_psnr_takes_the_exposure_of_the_neighbours(model_and_views):
    """Pictures 20 % darker: right with the track that says so, 20 % off in every pixel with one that does not."""
    model, views = model_and_views
    darker = [replace(view, rgb=(view.rgb * 0.8).round().astype(np.uint8)) for view in views]
    frames = np.array([0, 15])
    told = ExposureTrack(frames, np.full((2, 3), 0.8), np.zeros((2, 3)))
    silent = ExposureTrack(frames, np.ones((2, 3)), np.zeros((2, 3)))
    assert report_of(model, darker, exposures=told).overall.picture_psnr_db > 45
    assert report_of(model, darker, exposures=silent).overall.picture_psnr_db < 25
    bare = report_of(model, darker)
    assert np.isnan(bare.overall.picture_psnr_db) and "exposures" in bare.reasons["picture_psnr_db"]


@pytest.mark.parametrize(("stretch", "expected"), [(1.0, 0.90), (3.0, 0.90)])
def test_the_band_holds_ninety_percent_of_normal_residuals(model_and_views, stretch, expected):
    """The spread is measured on the other half of the frames, so it follows the noise whatever its size."""
    model, views = model_and_views
    rng = np.random.default_rng(3)
    noisy = []
    for view in views:
        noise = rng.normal(0, 1, view.z_depth_m.shape) * stretch * (0.02 + 0.005 * view.z_depth_m**2)
        noisy.append(replace(view, z_depth_m=(view.z_depth_m + noise).astype(np.float32)))
    report = report_of(model, noisy)
    assert report.overall.in_band_90 == pytest.approx(expected, abs=0.03)


def test_a_band_from_calm_frames_does_not_hold_a_frame_that_is_off(model_and_views):
    """Every second frame's residuals are five times as large: P(|5 x| < 1.645) = 0.26 there, all inside elsewhere."""
    model, views = model_and_views
    rng = np.random.default_rng(4)
    noisy = [
        replace(v, z_depth_m=(v.z_depth_m + (1 + 4 * (i % 2)) * rng.normal(0, 0.02, v.z_depth_m.shape)).astype("f4"))
        for i, v in enumerate(views)
    ]
    shares = [frame.in_band_90 for frame in report_of(model, noisy).frames]
    assert max(shares[1::2]) < 0.4 and min(shares[0::2]) > 0.99


def test_without_a_sensor_depth_is_not_measured_and_the_reason_is_given(model_and_views):
    model, views = model_and_views
    blind = [replace(view, z_depth_m=np.full_like(view.z_depth_m, np.nan)) for view in views]
    report = report_of(model, blind)
    for name in ("depth_abs_rel", "depth_rmse_m", "depth_median_error_m", "delta_105", "delta_125", "in_band_90"):
        assert np.isnan(getattr(report.overall, name)) and report.reasons[name] == "no sensor depth in these frames"
    assert np.isnan(report.overall.coverage) and "coverage" in report.reasons
    assert report.overall.psnr_db > 55 and report.overall.picture_coverage > 0.85
    assert not any(shown.error_is_depth for shown in report.worst)


def test_an_empty_model_and_no_frames_are_reports_with_reasons(model_and_views):
    model, views = model_and_views
    empty = report_of(empty_model(), views)
    assert np.isnan(empty.overall.psnr_db) and empty.reasons["psnr_db"] == "the model is empty"
    assert empty.overall.coverage == 0 and empty.reasons["depth_abs_rel"] == "the model is empty"
    none = report_of(model, [])
    assert np.isnan(none.overall.psnr_db) and none.reasons["psnr_db"] == "no frame was measured"
    assert none.frames == () and none.worst == () and none.reasons["consistency"] == "no frame was measured"


def test_moving_pixels_are_not_judged(model_and_views):
    """The left half may move, and its picture and depth are all wrong."""
    model, views = model_and_views

    def spoiled(view):
        rgb, z, static = view.rgb.copy(), view.z_depth_m.copy(), view.static.copy()
        rgb[:, :48], z[:, :48], static[:, :48] = 0, 0.3, False
        return replace(view, rgb=rgb, z_depth_m=z, static=static)

    overall = report_of(model, [spoiled(view) for view in views]).overall
    assert overall.psnr_db > 55 and overall.ssim > 0.999 and overall.depth_abs_rel == 0
    assert overall.static_share == pytest.approx(0.5)


def test_the_worst_frames_come_first_and_a_typical_one_last(model_and_views):
    model, views = model_and_views
    bad = list(views)
    bad[3] = replace(views[3], z_depth_m=views[3].z_depth_m * np.float32(0.9))
    bad[6] = replace(views[6], rgb=_noisy(views[6].rgb))
    report = report_of(model, bad, pictures=3)
    assert [shown.frame for shown in report.worst[:2]] == [views[3].frame, views[6].frame]
    assert "depth" in report.worst[0].why and "PSNR" in report.worst[1].why and "typical" in report.worst[2].why
    error = report.worst[0].relative_error
    assert np.nanmedian(error) == pytest.approx(1 / 0.9 - 1, rel=1e-3), "signed: static is farther"
    assert report_of(model, bad, pictures=0).worst == ()


def test_static_depth_agrees_with_itself_between_frames(model_and_views):
    report = report_of(*model_and_views)
    assert report.consistency_median_rel < 0.01 and report.consistency_seen_through < 0.01


def test_the_caller_s_words_are_handed_through(model_and_views):
    report = report_of(*model_and_views, held_out=False, metric=False)
    assert not report.held_out and not report.metric and "weights" in report.reasons["lpips"]
