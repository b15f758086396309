"""Terms of the fit with their gradients by the rendered images, in closed form."""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float, Float32

from cuda_kernels.fit_terms import PixelTerms, PixelWeights, exposed_pictures, pixel_terms
from cuda_kernels.ssim import ssim_with_gradient
from recon.config import ReconstructConfig
from recon.sensor import SensorNoise

MIN_ALPHA = 0.3  # below this a pixel shows no surface of the model: its colour and depth pull at nothing
_REFERENCE_RELATIVE_SIGMA = 0.004  # a depth pixel at least this good has weight 1


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
) -> PixelTerms:
    """Colour L1 (and SSIM) under an affine exposure, relative Huber depth, opacity where the sensor sees a surface.

    ``gain * rgb + offset`` is compared with the picture. The terms are means over all pixels of the image, so that
    a view with few usable pixels weighs less. ``colour_share`` weakens the colours of a blurred view. Colours pull
    where the model shows a surface; with ``everywhere`` (no sensor, which says what is there) on all static pixels,
    and all of these ask for opacity, so that the background does not pass for a surface.
    """
    pixels = alpha.size
    least = np.where(np.isfinite(sensor_z_m), np.float32(MIN_ALPHA), np.float32(config.unseen_alpha))
    mask = static if everywhere else static & (alpha > least)
    exposed, masked_target = exposed_pictures(rgb, target_rgb, mask, gain, offset)
    similarity = config.ssim_weight * colour_share / (2 * 3 * pixels)
    if similarity > 0:
        ssim, d_ssim = ssim_with_gradient(exposed, masked_target)
    else:
        ssim, d_ssim = np.ones_like(exposed), np.zeros_like(exposed)
    measured = static & (alpha > MIN_ALPHA) if everywhere else static
    z = np.where(measured, sensor_z_m, np.float32(np.nan))
    trust = np.clip(_REFERENCE_RELATIVE_SIGMA * z / noise.sigma_m(z), 0.1, 1.0).astype(np.float32)
    weights = PixelWeights(
        colour=config.colour_weight * colour_share / (3 * pixels),
        similarity=similarity,
        depth=config.depth_weight / pixels,
        depth_huber=config.depth_huber,
        alpha=0.0 if everywhere else config.alpha_weight / pixels,
    )
    terms = pixel_terms(exposed, masked_target, ssim, d_ssim, rgb, alpha, depth_sum, mask, z, trust, gain, weights)
    if not everywhere:
        return terms
    pull = config.picture_alpha_weight / pixels
    d_alpha = (terms.d_alpha - np.float32(pull) * static).astype(np.float32)
    return replace(terms, loss=terms.loss + pull * float((1 - alpha[static]).sum()), d_alpha=d_alpha)


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
