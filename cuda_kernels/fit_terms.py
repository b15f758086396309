"""Terms of a splat fit, compiled: what every pixel and every gaussian adds to the loss's gradient.

Sums over pixels are taken row by row and then over the rows, so the number of threads changes nothing.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg"

from dataclasses import dataclass

import numba
import numpy as np
from jaxtyping import Bool, Float, Float32, Int64

from cuda_kernels.jit import jit

_LOSS, _GAIN, _OFFSET = 0, 1, 4  # columns of the sums of a row


@dataclass(frozen=True)
class PixelWeights:
    """Weights of the pixel terms, all already divided by the number of pixels (and channels)."""

    colour: float  # of |gain rgb + offset - target|
    similarity: float  # of 1 - SSIM
    depth: float  # of the Huber term of the relative error of expected depth
    depth_huber: float  # relative error at which that term turns from quadratic to linear
    alpha: float  # of 1 - alpha where the sensor sees


@dataclass(frozen=True)
class PixelTerms:
    """Loss of one picture and its gradients by the rendering and by the affine exposure."""

    loss: float
    d_rgb: Float32[np.ndarray, "H W 3"]
    d_alpha: Float32[np.ndarray, "H W"]
    d_depth_sum: Float32[np.ndarray, "H W"]
    d_gain: Float[np.ndarray, "3"]
    d_offset: Float[np.ndarray, "3"]


def exposed_pictures(
    rgb: Float32[np.ndarray, "H W 3"],
    target_rgb: Float32[np.ndarray, "H W 3"],
    mask: Bool[np.ndarray, "H W"],
    gain: Float[np.ndarray, "3"],
    offset: Float[np.ndarray, "3"],
) -> tuple[Float32[np.ndarray, "H W 3"], Float32[np.ndarray, "H W 3"]]:
    """Pictures gain rgb + offset, and the target, both zero outside the mask: what SSIM compares."""
    ours, theirs = np.empty(rgb.shape, dtype=np.float32), np.empty(rgb.shape, dtype=np.float32)
    affine = np.concatenate([gain, offset]).astype(np.float32)
    _expose(*map(np.ascontiguousarray, (rgb, target_rgb, mask)), affine, ours, theirs)
    return ours, theirs


def pixel_terms(
    exposed: Float32[np.ndarray, "H W 3"],
    masked_target: Float32[np.ndarray, "H W 3"],
    ssim: Float32[np.ndarray, "H W 3"],
    d_ssim: Float32[np.ndarray, "H W 3"],
    rgb: Float32[np.ndarray, "H W 3"],
    alpha: Float32[np.ndarray, "H W"],
    depth_sum: Float32[np.ndarray, "H W"],
    mask: Bool[np.ndarray, "H W"],
    sensor_z: Float32[np.ndarray, "H W"],
    trust: Float32[np.ndarray, "H W"],
    gain: Float[np.ndarray, "3"],
    weights: PixelWeights,
) -> PixelTerms:
    """Colour L1 and SSIM inside the mask, relative Huber depth where a sensor sees and the mask holds, opacity.

    Args:
        exposed: First of ``exposed_pictures``.
        masked_target: Second of it.
        ssim: Similarity of the two, per pixel and channel.
        d_ssim: Gradient of its sum by ``exposed``.
        rgb: The rendering.
        alpha: Its coverage.
        depth_sum: Its accumulated depth.
        mask: Pixels whose colour and depth count.
        sensor_z: Measured depth, NaN where there is none or it must not count.
        trust: Weight of each measured depth.
        gain: Exposure, as given to ``exposed_pictures``.
        weights: Of the terms.
    """
    shape = alpha.shape
    d_rgb = np.empty(rgb.shape, dtype=np.float32)
    d_alpha, d_depth_sum = np.empty(shape, dtype=np.float32), np.empty(shape, dtype=np.float32)
    sums = np.zeros((shape[0], 7), dtype=np.float64)
    given = (exposed, masked_target, ssim, d_ssim, rgb, alpha, depth_sum, mask, sensor_z, trust)
    images = tuple(map(np.ascontiguousarray, given))
    numbers = weights.colour, weights.similarity, weights.depth, weights.depth_huber, weights.alpha
    _add_pixels(images, np.asarray(gain, np.float32), np.array(numbers, np.float64), d_rgb, d_alpha, d_depth_sum, sums)
    total = sums.sum(axis=0)
    return PixelTerms(
        float(total[_LOSS]), d_rgb, d_alpha, d_depth_sum, total[_GAIN:_OFFSET].copy(), total[_OFFSET:].copy()
    )


def add_shape_terms(
    gradient: Float32[np.ndarray, "M C"],
    values: Float32[np.ndarray, "N C"],
    rows: Int64[np.ndarray, "M"],
    scale_limit: Float32[np.ndarray, "N"],
    columns: tuple[int, int],
    weights: tuple[float, float, float],
    max_flatness: float,
) -> None:
    """Add, in place, the gradients of three terms that keep gaussians in shape, each a mean over the named rows.

    Mean opacity; excess of each log scale over ``scale_limit``; log ratio of the thinnest axis to the middle one above
    ``max_flatness`` (among equal axes the first counts as the thinner).

    Args:
        gradient: Gradients of the rows, packed as ``values`` is.
        values: Packed parameters.
        rows: Rows of ``values`` that ``gradient`` belongs to.
        scale_limit: Largest log scale of each gaussian that costs nothing.
        columns: First column of the three log scales, and column of the opacity logit.
        weights: Of opacity, scale and flatness.
        max_flatness: Thickness over middle axis that costs nothing.
    """
    count = max(len(rows), 1)
    shares = np.array([weight / count for weight in weights], dtype=np.float32)
    _add_shape(gradient, values, rows, scale_limit, columns[0], columns[1], shares, np.float32(np.log(max_flatness)))


@jit(error_model="numpy", parallel=True)
def _expose(rgb, target, mask, affine, ours, theirs):
    for v in numba.prange(rgb.shape[0]):
        for u in range(rgb.shape[1]):
            keep = np.float32(1.0) if mask[v, u] else np.float32(0.0)
            for c in range(3):
                ours[v, u, c] = (rgb[v, u, c] * affine[c] + affine[3 + c]) * keep
                theirs[v, u, c] = target[v, u, c] * keep


@jit(error_model="numpy", parallel=True)
def _add_pixels(images, gain, numbers, d_rgb, d_alpha, d_depth_sum, sums):
    exposed, masked_target, ssim, d_ssim, rgb, alpha, depth_sum, mask, sensor_z, trust = images
    colour, similarity = np.float32(numbers[0]), np.float32(numbers[1])
    depth_weight, bend, alpha_weight = numbers[2], numbers[3], numbers[4]
    for v in numba.prange(alpha.shape[0]):
        absolute, dissimilar, rest = 0.0, 0.0, 0.0
        for u in range(alpha.shape[1]):
            inside = mask[v, u]
            for c in range(3):
                residual = exposed[v, u, c] - masked_target[v, u, c]
                absolute += abs(residual)
                dissimilar += np.float32(1.0) - ssim[v, u, c]
                slope = np.float32(0.0)
                if inside:
                    slope = np.float32(np.sign(residual)) * colour - similarity * d_ssim[v, u, c]
                d_rgb[v, u, c] = slope * gain[c]
                sums[v, _GAIN + c] += slope * rgb[v, u, c]
                sums[v, _OFFSET + c] += slope
            d_a, d_sum = 0.0, 0.0
            z = np.float64(sensor_z[v, u])
            if z == z:
                d_a = -alpha_weight
                rest += alpha_weight * (1.0 - alpha[v, u])
                if inside:
                    cover = np.float64(alpha[v, u])
                    expected = depth_sum[v, u] / cover
                    error = (expected - z) / z
                    size = abs(error)
                    huber = size * size / (2.0 * bend) if size < bend else size - 0.5 * bend
                    weight = depth_weight * trust[v, u]
                    rest += weight * huber
                    d_expected = weight * min(max(error / bend, -1.0), 1.0) / z
                    d_sum = d_expected / cover
                    d_a -= d_expected * expected / cover
            d_alpha[v, u], d_depth_sum[v, u] = d_a, d_sum
        sums[v, _LOSS] = numbers[0] * absolute + numbers[1] * dissimilar + rest


@jit(error_model="numpy", parallel=True)
def _add_shape(gradient, values, rows, scale_limit, first, logit, shares, log_flatness):
    half, one = np.float32(0.5), np.float32(1.0)
    for m in numba.prange(rows.shape[0]):
        i = rows[m]
        opacity = half * (one + np.tanh(half * values[i, logit]))
        gradient[m, logit] += shares[0] * opacity * (one - opacity)
        a, b, c = values[i, first], values[i, first + 1], values[i, first + 2]
        for k in range(3):
            if values[i, first + k] > scale_limit[i]:
                gradient[m, first + k] += shares[1]
        thin = 0 if a <= b and a <= c else (1 if b <= c else 2)
        thick = 2 if c >= a and c >= b else (1 if b >= a else 0)
        middle = 3 - thin - thick
        if values[i, first + thin] - values[i, first + middle] > log_flatness:
            gradient[m, first + thin] += shares[2]
            gradient[m, first + middle] -= shares[2]
