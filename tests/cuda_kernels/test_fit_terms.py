"""Terms of the fit per pixel and per gaussian: against NumPy line by line, and by hand."""

import numba
import numpy as np
import pytest

from cuda_kernels.fit_terms import PixelWeights, add_shape_terms, exposed_pictures, pixel_terms

WEIGHTS = PixelWeights(colour=0.5, similarity=0.2, depth=3.0, depth_huber=0.02, alpha=0.7)
SHAPE = (37, 41)


def pictures(seed=0):
    """exposed, target, ssim, d_ssim, rgb, alpha, depth_sum, mask, sensor_z, trust."""
    rng = np.random.default_rng(seed)
    alpha = rng.uniform(0.3, 1.0, SHAPE)
    z = rng.uniform(1, 3, SHAPE)
    sensor = z * rng.uniform(0.95, 1.05, SHAPE)
    sensor[rng.random(SHAPE) < 0.2] = np.nan
    mask = rng.random(SHAPE) > 0.15
    colours = [rng.random((*SHAPE, 3)).astype(np.float32) for _ in range(5)]
    exposed, target = colours[0] * mask[..., None], colours[1] * mask[..., None]
    images = [exposed, target, *colours[2:], *(a.astype(np.float32) for a in (alpha, alpha * z))]
    return [*images, mask, sensor.astype(np.float32), rng.random(SHAPE).astype(np.float32)]


def numpy_terms(exposed, target, ssim, d_ssim, rgb, alpha, depth_sum, mask, sensor_z, trust, gain, weights):
    """The same in float64, term after term over whole pictures."""
    exposed, target, rgb, alpha, depth_sum, z, trust = (
        a.astype(np.float64) for a in (exposed, target, rgb, alpha, depth_sum, sensor_z, trust)
    )
    seen = np.isfinite(z)
    d_predicted = (weights.colour * np.sign(exposed - target) - weights.similarity * d_ssim) * mask[..., None]
    error = (depth_sum / alpha - z) / z
    size, bend = np.abs(error), weights.depth_huber
    huber = np.where(size < bend, size**2 / (2 * bend), size - bend / 2)
    both = seen & mask
    d_expected = np.where(both, weights.depth * trust * np.clip(error / bend, -1, 1) / z, 0.0)
    loss = weights.colour * np.abs(exposed - target).sum() + weights.similarity * (1.0 - ssim.astype(float)).sum()
    loss += weights.alpha * (1 - alpha)[seen].sum() + weights.depth * (trust * huber)[both].sum()
    return (
        loss,
        d_predicted * gain,
        np.where(seen, -weights.alpha, 0.0) - d_expected * depth_sum / alpha**2,
        d_expected / alpha,
        (d_predicted * rgb).sum(axis=(0, 1)),
        d_predicted.sum(axis=(0, 1)),
    )


def test_pixel_terms_agree_with_numpy():
    images, gain = pictures(), np.array([1.2, 0.8, 1.0])
    ours, truth = pixel_terms(*images, gain, WEIGHTS), numpy_terms(*images, gain, WEIGHTS)
    names = ("loss", "d_rgb", "d_alpha", "d_depth_sum", "d_gain", "d_offset")
    for name, right in zip(names, truth, strict=True):
        mine = np.asarray(getattr(ours, name))
        assert np.abs(mine - right).max() < 1e-5 * np.abs(right).max(), name
    assert {ours.d_rgb.dtype, ours.d_alpha.dtype, ours.d_depth_sum.dtype} == {np.dtype(np.float32)}


def test_pictures_are_exposed_inside_the_mask_and_black_outside():
    _, target, *_, mask, _, _ = pictures()
    rgb = pictures(1)[4]
    gain, offset = np.array([1.1, 0.9, 1.0]), np.array([0.05, 0.0, -0.1])
    ours, theirs = exposed_pictures(rgb, target, mask, gain, offset)
    assert np.abs(ours - (rgb * gain + offset) * mask[..., None]).max() < 1e-6
    assert np.array_equal(theirs, target * mask[..., None])


def test_one_pixel_by_hand():
    """Residual 0.25 in one channel; expected depth 2.2 against 2: error 0.1, beyond the bend of 0.02, slope 1 / 2."""
    grey = np.full((1, 1, 3), 0.5, np.float32)
    ours = grey + np.array([0.25, 0, 0], np.float32)
    one, alpha = np.ones((1, 1), np.float32), np.full((1, 1), 0.8, np.float32)
    weights = PixelWeights(colour=1.0, similarity=0.0, depth=1.0, depth_huber=0.02, alpha=0.0)
    terms = pixel_terms(
        ours, grey, grey, grey, ours, alpha, alpha * np.float32(2.2), one > 0, 2 * one, one, np.ones(3), weights
    )
    assert terms.loss == pytest.approx(0.25 + 0.1 - 0.01, abs=1e-6)
    assert terms.d_rgb[0, 0].tolist() == [1.0, 0.0, 0.0]
    assert terms.d_depth_sum[0, 0] == pytest.approx(0.5 / 0.8)
    assert terms.d_alpha[0, 0] == pytest.approx(-0.5 * 2.2 / 0.8)
    assert terms.d_gain == pytest.approx([0.75, 0, 0]) and terms.d_offset == pytest.approx([1, 0, 0])


def test_shape_terms_by_hand():
    """Five columns: a logit of 0, then log scales. One row too long by its second axis, one too round."""
    values = np.array([[0.0, -3, 1, -2, 9], [0.0, -1, -1.1, -1.2, 9], [0.0, -9, -1, -2, 9]], np.float32)
    gradient = np.zeros((2, 5), np.float32)
    rows, limit = np.array([0, 1]), np.array([0.5, 0.5, 0.5], np.float32)
    add_shape_terms(gradient, values, rows, limit, (1, 0), (4.0, 2.0, 6.0), 0.5)
    opacity = 4.0 / 2 * 0.25
    assert gradient[0] == pytest.approx([opacity, 0, 1, 0, 0])  # exp(-1) is flatter than one half
    assert gradient[1] == pytest.approx([opacity, 0, -3, 3, 0])  # exp(-0.1) is not: thinnest up, middle down


@pytest.mark.parametrize("scales", [(-1.0, -1.0, -1.0), (-1.0, -1.0, -2.0), (-2.0, -1.0, -1.0), (-1.0, -2.0, -1.0)])
def test_of_equal_axes_the_first_is_the_thinner(scales):
    gradient = np.zeros((1, 4), np.float32)
    values = np.array([[0.0, *scales]], np.float32)
    add_shape_terms(gradient, values, np.array([0]), np.full(1, 9, np.float32), (1, 0), (0.0, 0.0, 1.0), 0.01)
    thin, middle, _ = np.argsort(scales, kind="stable")
    wanted = np.zeros(3)
    wanted[thin], wanted[middle] = 1, -1
    assert gradient[0, 1:].tolist() == wanted.tolist()


def test_any_number_of_threads_gives_the_same_bytes():
    images, available = pictures(), numba.get_num_threads()
    results = set()
    try:
        for threads in range(1, available + 1):
            numba.set_num_threads(threads)
            terms = pixel_terms(*images, np.ones(3), WEIGHTS)
            results.add(b"".join(np.asarray(value).tobytes() for value in vars(terms).values()))
    finally:
        numba.set_num_threads(available)
    assert len(results) == 1
