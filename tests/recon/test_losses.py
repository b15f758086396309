"""Gradients of the fit's terms against central differences in float64 steps."""

from dataclasses import replace

import numpy as np
import pytest

from recon.config import ReconstructConfig
from recon.losses import exposure_fit, ssim_with_gradient, view_loss
from recon.sensor import SensorNoise

NOISE = SensorNoise()
CONFIG = ReconstructConfig(ssim_weight=0.2)


def pictures(seed=0):
    rng = np.random.default_rng(seed)
    shape = (14, 15)
    rgb, target = rng.random((2, *shape, 3))
    alpha = rng.uniform(0.4, 1.0, shape)
    z = rng.uniform(1.0, 2.0, shape)
    sensor = z * rng.uniform(0.97, 1.03, shape)
    sensor[rng.random(shape) < 0.2] = np.nan
    static = rng.random(shape) > 0.1
    return [a.astype(np.float32) for a in (rgb, alpha, alpha * z, target, sensor)] + [static]


def loss_of(rgb, alpha, depth_sum, target, sensor, static, gain, offset):
    return view_loss(rgb, alpha, depth_sum, target, sensor, static, gain, offset, CONFIG, NOISE)


def test_every_gradient_agrees_with_central_differences():
    images, gain, offset = pictures(), np.array([1.1, 0.9, 1.0]), np.array([0.02, 0.0, -0.01])
    terms = loss_of(*images, gain, offset)
    rng = np.random.default_rng(3)
    analytic = {0: terms.d_rgb, 1: terms.d_alpha, 2: terms.d_depth_sum}
    for which, gradient in analytic.items():
        direction = rng.standard_normal(images[which].shape).astype(np.float32)
        step = 2e-4
        values = []
        for sign in (1, -1):
            moved = list(images)
            moved[which] = images[which] + np.float32(sign * step) * direction
            values.append(loss_of(*moved, gain, offset).loss)
        numeric = (values[0] - values[1]) / (2 * step)
        assert float((gradient * direction).sum()) == pytest.approx(numeric, rel=0.03), which
    for name, gradient in (("gain", terms.d_gain), ("offset", terms.d_offset)):
        for channel in range(3):
            values = []
            for sign in (1, -1):
                g, o = gain.copy(), offset.copy()
                (g if name == "gain" else o)[channel] += sign * 1e-3
                values.append(loss_of(*images, g, o).loss)
            assert gradient[channel] == pytest.approx((values[0] - values[1]) / 2e-3, rel=0.05, abs=2e-4)


def test_ssim_of_equal_pictures_is_one_and_flat():
    image = np.random.default_rng(0).random((20, 20, 3)).astype(np.float32)
    ssim, gradient = ssim_with_gradient(image, image)
    np.testing.assert_allclose(ssim, 1.0, atol=1e-4)
    assert np.abs(gradient).max() < 0.05


def test_moving_pixels_and_holes_pull_at_nothing():
    rgb, alpha, depth_sum, target, sensor, static = pictures()
    static[:] = False
    terms = loss_of(rgb, alpha, depth_sum, target, sensor, static, np.ones(3), np.zeros(3))
    assert not terms.d_rgb.any() and not terms.d_alpha.any() and not terms.d_depth_sum.any()


def test_where_the_model_shows_nothing_its_colour_is_not_pulled_but_opacity_is():
    rgb, _, depth_sum, target, sensor, static = pictures()
    alpha = np.full(depth_sum.shape, 0.1, dtype=np.float32)
    terms = loss_of(rgb, alpha, depth_sum, target, sensor, static, np.ones(3), np.zeros(3))
    assert not terms.d_rgb.any() and not terms.d_depth_sum.any()
    assert (terms.d_alpha[static & np.isfinite(sensor)] < 0).all()


def test_everywhere_pulls_at_colours_of_empty_pixels_and_asks_for_opacity_without_a_sensor():
    """No sensor: every static pixel's colour counts, however little covers it, and each asks for alpha alike."""
    rgb, _, depth_sum, target, sensor, static = pictures()
    alpha = np.full(depth_sum.shape, 0.1, dtype=np.float32)
    sensor[:] = np.nan
    given = (rgb, alpha, depth_sum, target, sensor, static, np.ones(3), np.zeros(3), CONFIG, NOISE)
    terms = view_loss(*given, everywhere=True)
    assert (terms.d_rgb[static] != 0).all() and not terms.d_rgb[~static].any()
    np.testing.assert_allclose(
        terms.d_alpha, np.where(static, -CONFIG.picture_alpha_weight / static.size, 0), rtol=1e-6
    )
    assert not view_loss(*given).d_alpha.any() and not view_loss(*given).d_rgb.any()


def test_one_outlier_pulls_no_harder_than_a_small_error():
    """Huber: beyond 2 % the slope is constant."""
    rgb, alpha, depth_sum, target, sensor, static = pictures()
    static[:] = True
    sensor[:] = depth_sum / alpha
    sensor[3, 3] *= 0.9
    sensor[5, 5] *= 0.5
    terms = loss_of(rgb, alpha, depth_sum, target, sensor, static, np.ones(3), np.zeros(3))
    slopes = [float(terms.d_depth_sum[v, v] * alpha[v, v] * sensor[v, v]) for v in (3, 5)]
    assert slopes[0] == pytest.approx(slopes[1], rel=0.3)


def test_exposure_is_found_exactly_where_there_is_one():
    rgb = np.random.default_rng(0).random((8, 8, 3)).astype(np.float32)
    gain, offset = exposure_fit(
        rgb, (rgb * [1.2, 0.8, 1.0] + [0.1, 0.0, -0.05]).astype(np.float32), np.ones((8, 8), bool)
    )
    np.testing.assert_allclose(gain, [1.2, 0.8, 1.0], atol=1e-4)
    np.testing.assert_allclose(offset, [0.1, 0.0, -0.05], atol=1e-4)
    gain, offset = exposure_fit(rgb, rgb, np.zeros((8, 8), bool))
    assert gain.tolist() == [1, 1, 1] and offset.tolist() == [0, 0, 0]


def test_colours_do_not_make_splats_creep_where_no_sensor_sees():
    """Half covered pixels: the sensor's are pulled at, the others are not until the model is as opaque as 0.9."""
    rgb, _, depth_sum, target, sensor, static = pictures()
    static[:] = True
    seen = np.isfinite(sensor)
    for alpha, pulled in ((0.6, seen), (0.95, np.ones_like(seen))):
        cover = np.full(depth_sum.shape, alpha, dtype=np.float32)
        flat = replace(CONFIG, ssim_weight=0.0)
        terms = view_loss(rgb, cover, depth_sum, target, sensor, static, np.ones(3), np.zeros(3), flat, NOISE)
        np.testing.assert_array_equal((terms.d_rgb != 0).all(axis=2), pulled)
