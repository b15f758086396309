"""SSIM and its gradient: against the float64 reference, finite differences, OpenCV, and numbers worked out by hand."""

import inspect

import numba
import numpy as np
import pytest

from cuda_kernels.errors import KernelError
from cuda_kernels.ssim import C1, C2, TAPS, ssim_reference, ssim_with_gradient


def pair(height, width, channels=3, seed=0):
    """A picture and a disturbed copy."""
    rng = np.random.default_rng(seed)
    x = rng.random((height, width, channels))
    return x.astype(np.float32), np.clip(0.7 * x + 0.3 * rng.random(x.shape), 0, 1).astype(np.float32)


@pytest.mark.parametrize(
    "shape", [(40, 33, 3), (7, 50, 3), (1, 16, 1), (64, 17, 1), (30, 6, 3), (16, 9, 4), (5, 4, 3), (50, 2, 2)]
)
def test_map_and_gradient_agree_with_the_float64_reference(shape):
    """Widths that are no multiple of sixteen, pictures smaller than the window, and ones too narrow for the lanes."""
    x, y = pair(*shape, seed=sum(shape))
    ssim, gradient = ssim_with_gradient(x, y)
    true_ssim, true_gradient = ssim_reference(x, y)
    assert ssim.shape == gradient.shape == shape
    assert np.abs(ssim - true_ssim).max() < 2e-5
    assert np.abs(gradient - true_gradient).max() < 2e-5 * max(1.0, np.abs(true_gradient).max())


def test_the_gradient_is_the_slope_of_the_sum():
    x, y = (array.astype(np.float64) for array in pair(19, 23, seed=3))
    gradient = ssim_with_gradient(x.astype(np.float32), y.astype(np.float32))[1]
    rng = np.random.default_rng(0)
    for index in map(tuple, rng.integers(0, x.shape, (60, 3))):
        ends = []
        for step in (1e-6, -1e-6):
            moved = x.copy()
            moved[index] += step
            ends.append(ssim_reference(moved, y)[0].sum())
        assert gradient[index] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-4)


def test_window_is_that_of_the_paper():
    """OpenCV's Gaussian of 11 px and sigma 1.5 px with zeros outside gives the same map."""
    import cv2

    x, y = (array.astype(np.float64) for array in pair(31, 29, seed=1))

    def blur(image):
        return cv2.GaussianBlur(image, (11, 11), 1.5, borderType=cv2.BORDER_CONSTANT)

    mu_x, mu_y = blur(x), blur(y)
    up = (2 * mu_x * mu_y + C1) * (2 * (blur(x * y) - mu_x * mu_y) + C2)
    down = (mu_x**2 + mu_y**2 + C1) * (blur(x * x) - mu_x**2 + blur(y * y) - mu_y**2 + C2)
    assert np.abs(ssim_reference(x, y)[0] - up / down).max() < 1e-9


def test_flat_pictures_differ_in_luminance_alone():
    """Far from the border both are constant: (2 a b + C1) / (a^2 + b^2 + C1) with a = 0.2, b = 0.6."""
    x, y = np.full((40, 40, 1), 0.2, np.float32), np.full((40, 40, 1), 0.6, np.float32)
    ssim = ssim_with_gradient(x, y)[0]
    assert ssim[20, 20, 0] == pytest.approx((2 * 0.12 + 1e-4) / (0.04 + 0.36 + 1e-4), abs=1e-4)
    assert TAPS.sum() == pytest.approx(1.0, abs=1e-6)


def test_a_picture_is_like_itself_and_pulls_nowhere():
    x = pair(30, 30)[0]
    ssim, gradient = ssim_with_gradient(x, x)
    assert np.abs(ssim - 1).max() < 1e-5
    assert np.abs(gradient).max() < 1e-3


def test_channels_do_not_mix():
    x, y = pair(24, 40)
    whole = ssim_with_gradient(x, y)
    for channel in range(3):
        alone = ssim_with_gradient(x[..., channel : channel + 1], y[..., channel : channel + 1])
        for a, b in zip(whole, alone, strict=True):
            assert np.abs(a[..., channel] - b[..., 0]).max() < 1e-6 * max(1.0, np.abs(b).max())


def test_a_broken_pixel_spreads_no_farther_than_two_windows():
    x, y = pair(60, 60)
    x[30, 30, 1] = np.nan
    ssim, gradient = ssim_with_gradient(x, y)
    assert np.isnan(ssim[30, 30, 1]) and np.isnan(gradient[30, 30, 1])
    bad = np.isnan(ssim) | np.isnan(gradient)
    rows, columns, channels = np.nonzero(bad)
    assert (np.abs(rows - 30) <= 10).all() and (np.abs(columns - 30) <= 10).all() and (channels == 1).all()


def test_any_number_of_threads_gives_the_same_bytes():
    x, y = pair(101, 77, seed=4)
    available = numba.get_num_threads()
    results = []
    try:
        for threads in range(1, available + 1):
            numba.set_num_threads(threads)
            results.append(ssim_with_gradient(x, y))
    finally:
        numba.set_num_threads(available)
    assert all(a.tobytes() == b.tobytes() for other in results[1:] for a, b in zip(results[0], other, strict=True))


def test_the_callers_arrays_stay_unchanged():
    x, y = pair(20, 20)
    before = x.copy(), y.copy()
    ssim_with_gradient(x, y)
    assert np.array_equal(x, before[0]) and np.array_equal(y, before[1])


def test_pictures_of_two_sizes_are_refused():
    with pytest.raises(KernelError, match=r"one size, got \(4, 5, 3\) and \(4, 6, 3\)"):
        inspect.unwrap(ssim_with_gradient)(np.zeros((4, 5, 3), np.float32), np.zeros((4, 6, 3), np.float32))
