"""Terms of the fit with their gradients by the rendered images, in closed form."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32

from cuda_kernels.ssim import ssim_with_gradient
from recon.config import ReconstructConfig
from recon.sensor import SensorNoise

MIN_ALPHA = 0.3  # below this a pixel shows no surface of the model: its colour and depth pull at nothing
_REFERENCE_RELATIVE_SIGMA = 0.004  # a depth pixel at least this good has weight 1


@dataclass(frozen=True)
class ImageGradients:
    """Loss of one view and its gradients by the rendering and by the exposure."""

    loss: float
    d_rgb: Float32[np.ndarray, "H W 3"]
    d_alpha: Float32[np.ndarray, "H W"]
    d_depth_sum: Float32[np.ndarray, "H W"]
    d_gain: Float[np.ndarray, "3"]
    d_offset: Float[np.ndarray, "3"]


def view_loss(
    rgb: Float32[np.ndarray, "H W 3"],
    alpha: Float32[np.ndarray, "H W"],
    depth_sum: Float32[np.ndarray, "H W"],
    target_rgb: Float32[np.ndarray, "H W 3"],
    sensor_z_m: Float32[np.ndarray, "H W"],
    static: Bool[np.ndarray, "H W"],
    gain: Float[np.ndarray, "3"],
    offset: Float[np.ndarray, "3"],
    config: ReconstructConfig,
    noise: SensorNoise,
    colour_share: float = 1.0,
    everywhere: bool = False,
) -> ImageGradients:
    """Colour L1 (and SSIM) under an affine exposure, relative Huber depth, opacity where the sensor sees a surface.

    ``gain * rgb + offset`` is compared with the picture. The terms are means over all pixels of the image, so that
    a view with few usable pixels weighs less. ``colour_share`` weakens the colours of a blurred view. Colours pull
    where the model shows a surface; with ``everywhere`` (no sensor, which says what is there) on all static pixels,
    and all of these ask for opacity, so that the background does not pass for a surface.
    """
    pixels = alpha.size
    surface = alpha > MIN_ALPHA
    coloured = static if everywhere else static & surface
    colour_mask = coloured.astype(np.float32)[:, :, None]
    predicted = (rgb * gain + offset).astype(np.float32)
    residual = (predicted - target_rgb) * colour_mask
    weight = config.colour_weight * colour_share / (3 * pixels)
    loss = weight * float(np.abs(residual).sum())
    d_predicted = np.sign(residual) * np.float32(weight)
    if config.ssim_weight > 0:
        mixed = predicted * colour_mask, target_rgb * colour_mask
        ssim, d_ssim = ssim_with_gradient(*mixed)
        scale = config.ssim_weight * colour_share / (2 * 3 * pixels)
        loss += scale * float((1 - ssim).sum())
        d_predicted -= np.float32(scale) * d_ssim * colour_mask
    d_rgb = (d_predicted * gain).astype(np.float32)

    seen = static & np.isfinite(sensor_z_m)
    d_alpha = np.zeros_like(alpha)
    opaque, alpha_weight = (static, config.picture_alpha_weight) if everywhere else (seen, config.alpha_weight)
    d_alpha[opaque] = -alpha_weight / pixels
    loss += alpha_weight / pixels * float((1 - alpha[opaque]).sum())

    use = seen & surface
    z, a = sensor_z_m[use], alpha[use]
    expected = depth_sum[use] / a
    error = (expected - z) / z
    good = np.clip(_REFERENCE_RELATIVE_SIGMA * z / noise.sigma_m(z), 0.1, 1.0)
    slope = np.clip(error / config.depth_huber, -1.0, 1.0)
    size = np.abs(error)
    huber = np.where(size < config.depth_huber, error**2 / (2 * config.depth_huber), size - config.depth_huber / 2)
    loss += config.depth_weight / pixels * float((good * huber).sum())
    d_expected = config.depth_weight / pixels * good * slope / z
    d_depth_sum = np.zeros_like(alpha)
    d_depth_sum[use] = d_expected / a
    d_alpha[use] -= d_expected * expected / a
    return ImageGradients(
        loss,
        d_rgb,
        d_alpha,
        d_depth_sum,
        np.einsum("hwc,hwc->c", d_predicted, rgb, dtype=np.float64),
        d_predicted.sum(axis=(0, 1), dtype=np.float64),
    )


def exposure_fit(
    rgb: Float32[np.ndarray, "H W 3"], target_rgb: Float32[np.ndarray, "H W 3"], mask: Bool[np.ndarray, "H W"]
) -> tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3"]]:
    """Gain and offset per channel that take a rendering closest (least squares) to a picture; else identity."""
    gain, offset = np.ones(3), np.zeros(3)
    if mask.sum() < 16:
        return gain, offset
    for channel in range(3):
        x, y = rgb[mask][:, channel].astype(np.float64), target_rgb[mask][:, channel].astype(np.float64)
        spread = float(((x - x.mean()) ** 2).sum())
        if spread > 1e-9:
            gain[channel] = float(((x - x.mean()) * (y - y.mean())).sum()) / spread
            offset[channel] = y.mean() - gain[channel] * x.mean()
    return gain, offset
