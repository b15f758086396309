"""Structural similarity of two pictures and its gradient, in one sweep over the rows each way.

    per row: the eleven rows around it weigh into five sums (x, y, xx, yy, xy), a line buffer of a few kilobytes; eleven
    shifted reads of that buffer finish the blur, and the row's similarity and its three slopes are written. A second
    sweep blurs the slopes the same way. Colours lie side by side in memory, so a shift of one pixel is C floats and all
    channels go through the same sixteen lanes.

Source: Wang et al. (2004), eq. 13, with the 11x11 Gaussian window of sigma 1.5 px of its section III-B.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg"

import numba
import numpy as np
from jaxtyping import Float, Float32

from cuda_kernels.errors import KernelError
from cuda_kernels.jit import jit
from cuda_kernels.splat import simd

C1, C2 = 0.01**2, 0.03**2  # K1, K2 of the paper for pictures between 0 and 1
WINDOW_PX, SIGMA_PX = 11, 1.5
REACH = WINDOW_PX // 2
_TAPS = np.exp(-0.5 * (np.arange(-REACH, REACH + 1) / SIGMA_PX) ** 2)
TAPS = (_TAPS / _TAPS.sum()).astype(np.float32)
LANES = 16  # of simd
ROWS_A_TURN = 16  # rows that a worker takes at a time; rows do not depend on each other, so this changes nothing


def ssim_with_gradient(
    x: Float32[np.ndarray, "H W C"], y: Float32[np.ndarray, "H W C"]
) -> tuple[Float32[np.ndarray, "H W C"], Float32[np.ndarray, "H W C"]]:
    """SSIM of two pictures per pixel and channel, and the gradient of its sum over the picture by ``x``.

    What lies outside the picture counts as 0 in both. Same arrays, same bytes, for any number of threads.

    Args:
        x: Picture between 0 and 1 (the constants of the formula mean that range; nothing is clipped).
        y: What it is compared with.

    Returns:
        The map, 1 where both agree, and the gradient. NaN spreads as far as the window reaches, twice.

    Raises:
        KernelError: the shapes differ or are not [H, W, C].
    """
    if x.ndim != 3 or x.shape != y.shape:
        raise KernelError(f"SSIM compares two [H, W, C] pictures of one size, got {x.shape} and {y.shape}.")
    height, width, channels = x.shape
    if width * channels < LANES or height == 0:
        ssim, gradient = ssim_reference(x, y)
        return ssim.astype(np.float32), gradient.astype(np.float32)
    flat = [np.ascontiguousarray(array, dtype=np.float32).reshape(height, -1) for array in (x, y)]
    ssim, gradient = np.empty_like(flat[0]), np.empty_like(flat[0])
    slopes = np.empty((3, *flat[0].shape), dtype=np.float32)
    _ssim_cpu(*flat, channels, numba.get_num_threads(), ssim, slopes, gradient)
    return ssim.reshape(x.shape), gradient.reshape(x.shape)


def ssim_reference(
    x: Float[np.ndarray, "H W C"], y: Float[np.ndarray, "H W C"]
) -> tuple[Float[np.ndarray, "H W C"], Float[np.ndarray, "H W C"]]:
    """``ssim_with_gradient`` in float64, written to be checked against the formulas by eye."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    mu_x, mu_y = _blur(x), _blur(y)
    a1 = 2 * mu_x * mu_y + C1
    a2 = 2 * (_blur(x * y) - mu_x * mu_y) + C2
    b1 = mu_x**2 + mu_y**2 + C1
    b2 = _blur(x * x) - mu_x**2 + _blur(y * y) - mu_y**2 + C2
    ssim = a1 * a2 / (b1 * b2)
    d_mu = 2 * mu_y * (a2 - a1) / (b1 * b2) - 2 * mu_x * ssim / b1 + 2 * mu_x * ssim / b2
    # the window is symmetric and zeros lie outside, so the blur is its own transpose
    gradient = _blur(d_mu) + 2 * x * _blur(-ssim / b2) + y * _blur(2 * a1 / (b1 * b2))
    return ssim, gradient


def _blur(image: Float[np.ndarray, "H W C"]) -> Float[np.ndarray, "H W C"]:
    """The window's weighted mean, zeros outside."""
    taps, (height, width) = _TAPS / _TAPS.sum(), image.shape[:2]
    padded = np.pad(image, ((REACH, REACH), (REACH, REACH), (0, 0)))
    down = sum(taps[k] * padded[k : k + height] for k in range(WINDOW_PX))
    return np.asarray(sum(taps[k] * down[:, k : k + width] for k in range(WINDOW_PX)))


@jit(error_model="numpy", inline="always")
def _across(lines, at, channels):
    """Finish a blur: eleven reads of a line buffer, one pixel apart."""
    total = simd.splat(np.float32(0.0))
    for k in range(WINDOW_PX):
        total = simd.fma(simd.splat(TAPS[k]), simd.load(lines, at + k * channels), total)
    return total


@jit(error_model="numpy")
def _ssim_row(x, y, row, width, height, channels, lines, stride, ssim, slopes):
    """Similarity and its slopes by the three means, of one row. The last sixteen lanes may overlap those before."""
    zero, two = simd.splat(np.float32(0.0)), simd.splat(np.float32(2.0))
    c1, c2 = simd.splat(np.float32(C1)), simd.splat(np.float32(C2))
    first, last = max(row - REACH, 0), min(row + REACH + 1, height)
    margin, plane = REACH * channels, width * height
    blocks = (width + LANES - 1) // LANES
    for block in range(blocks):
        at = min(block * LANES, width - LANES)
        sum_x, sum_y, sum_xx, sum_yy, sum_xy = zero, zero, zero, zero, zero
        for source in range(first, last):
            tap = simd.splat(TAPS[source - row + REACH])
            value_x, value_y = simd.load(x, source * width + at), simd.load(y, source * width + at)
            tap_x, tap_y = tap * value_x, tap * value_y
            sum_x, sum_y = sum_x + tap_x, sum_y + tap_y
            sum_xx, sum_yy = simd.fma(tap_x, value_x, sum_xx), simd.fma(tap_y, value_y, sum_yy)
            sum_xy = simd.fma(tap_x, value_y, sum_xy)
        simd.store(lines, margin + at, sum_x)
        simd.store(lines, margin + at + stride, sum_y)
        simd.store(lines, margin + at + 2 * stride, sum_xx)
        simd.store(lines, margin + at + 3 * stride, sum_yy)
        simd.store(lines, margin + at + 4 * stride, sum_xy)
    for block in range(blocks):
        at = min(block * LANES, width - LANES)
        mu_x, mu_y = _across(lines, at, channels), _across(lines, at + stride, channels)
        mean_xx, mean_yy = _across(lines, at + 2 * stride, channels), _across(lines, at + 3 * stride, channels)
        mean_xy = _across(lines, at + 4 * stride, channels)
        both, squares = mu_x * mu_y, simd.fma(mu_x, mu_x, mu_y * mu_y)
        a1, a2 = simd.fma(two, both, c1), simd.fma(two, mean_xy - both, c2)
        b1, b2 = squares + c1, (mean_xx + mean_yy) - squares + c2
        over_b1, over_b2 = simd.reciprocal(b1), simd.reciprocal(b2)
        over = over_b1 * over_b2
        similar = a1 * a2 * over
        here = row * width + at
        simd.store(ssim, here, similar)
        twice = two * mu_x * similar
        slope = simd.fma(two * mu_y, (a2 - a1) * over, twice * (over_b2 - over_b1))
        simd.store(slopes, here, slope)
        simd.store(slopes, here + plane, simd.fnma(similar, over_b2, zero))
        simd.store(slopes, here + 2 * plane, two * a1 * over)


@jit(error_model="numpy")
def _gradient_row(x, y, row, width, height, channels, lines, stride, slopes, gradient):
    """Blur the three slopes and put them together, one row."""
    zero, two = simd.splat(np.float32(0.0)), simd.splat(np.float32(2.0))
    first, last = max(row - REACH, 0), min(row + REACH + 1, height)
    margin, plane = REACH * channels, width * height
    blocks = (width + LANES - 1) // LANES
    for block in range(blocks):
        at = min(block * LANES, width - LANES)
        sum_0, sum_1, sum_2 = zero, zero, zero
        for source in range(first, last):
            tap, here = simd.splat(TAPS[source - row + REACH]), source * width + at
            sum_0 = simd.fma(tap, simd.load(slopes, here), sum_0)
            sum_1 = simd.fma(tap, simd.load(slopes, here + plane), sum_1)
            sum_2 = simd.fma(tap, simd.load(slopes, here + 2 * plane), sum_2)
        simd.store(lines, margin + at, sum_0)
        simd.store(lines, margin + at + stride, sum_1)
        simd.store(lines, margin + at + 2 * stride, sum_2)
    for block in range(blocks):
        at = min(block * LANES, width - LANES)
        here = row * width + at
        total = _across(lines, at, channels)
        total = simd.fma(two * simd.load(x, here), _across(lines, at + stride, channels), total)
        total = simd.fma(simd.load(y, here), _across(lines, at + 2 * stride, channels), total)
        simd.store(gradient, here, total)


@jit(error_model="numpy", parallel=True)
def _ssim_cpu(x, y, channels, workers, ssim, slopes, gradient):
    """Fill the map, its slopes and the gradient; arrays are [H, W C]."""
    height, width = x.shape
    stride = width + 2 * REACH * channels
    flat_x, flat_y, flat_ssim = x.reshape(-1), y.reshape(-1), ssim.reshape(-1)
    flat_slopes, flat_gradient = slopes.reshape(-1), gradient.reshape(-1)
    turns = (height + ROWS_A_TURN - 1) // ROWS_A_TURN
    for worker in numba.prange(workers):
        lines = np.zeros(5 * stride, dtype=np.float32)
        for turn in range(worker, turns, workers):
            for row in range(turn * ROWS_A_TURN, min(height, (turn + 1) * ROWS_A_TURN)):
                _ssim_row(flat_x, flat_y, row, width, height, channels, lines, stride, flat_ssim, flat_slopes)
    for worker in numba.prange(workers):
        lines = np.zeros(5 * stride, dtype=np.float32)
        for turn in range(worker, turns, workers):
            for row in range(turn * ROWS_A_TURN, min(height, (turn + 1) * ROWS_A_TURN)):
                _gradient_row(flat_x, flat_y, row, width, height, channels, lines, stride, flat_slopes, flat_gradient)
