"""The fit's terms on torch tensors, gradients by autograd; the same numbers as ``recon.losses`` (held by a test).

Import this module where it is used only: it imports torch.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from recon.config import ReconstructConfig
from recon.losses import _REFERENCE_RELATIVE_SIGMA, MIN_ALPHA
from recon.sensor import SensorNoise
from recon.views import View

_SSIM_C1, _SSIM_C2 = 0.01**2, 0.03**2  # Wang et al. (2004), dynamic range 1
_SSIM_WINDOW, _SSIM_SIGMA = 11, 1.5


@dataclass(frozen=True)
class Target:
    """A view on the device."""

    rgb: Any  # [H, W, 3], 0..1
    static: Any  # [H, W] bool
    seen: Any  # [H, W] bool: static, and the sensor sees a surface
    z_depth_m: Any  # [H, W], 1 where not seen
    trust: Any  # [H, W], weight of the depth term by the sensor's noise
    colour_share: float


def target_of(view: View, noise: SensorNoise, device: str) -> Target:
    """Copy a view to a device, once."""
    seen = view.static & np.isfinite(view.z_depth_m)
    z = np.where(seen, view.z_depth_m, 1.0).astype(np.float32)
    trust = np.clip(_REFERENCE_RELATIVE_SIGMA * z / noise.sigma_m(z), 0.1, 1.0).astype(np.float32)

    def moved(array: np.ndarray) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    rgb = moved(view.rgb).float() / 255.0
    return Target(rgb, moved(view.static), moved(seen), moved(z), moved(trust), view.colour_share)


def view_loss_torch(
    rgb: Any,
    alpha: Any,
    depth_sum: Any,
    target: Target,
    gain: Any,
    offset: Any,
    config: ReconstructConfig,
    everywhere: bool = False,
) -> Any:
    """Scalar loss of a rendering; see ``recon.losses.view_loss`` for what the terms mean."""
    pixels = alpha.numel()
    surface = alpha.detach() > MIN_ALPHA
    shown = torch.where(target.seen, surface, alpha.detach() > config.unseen_alpha)
    mask = (target.static if everywhere else target.static & shown)[..., None].float()
    predicted, picture = (rgb * gain + offset) * mask, target.rgb * mask
    loss = config.colour_weight * target.colour_share / (3 * pixels) * (predicted - picture).abs().sum()
    if config.ssim_weight > 0:
        share = config.ssim_weight * target.colour_share / (2 * 3 * pixels)
        loss = loss + share * (1 - ssim_map(predicted, picture)).sum()
    opaque = target.static if everywhere else target.seen
    alpha_weight = config.picture_alpha_weight if everywhere else config.alpha_weight
    loss = loss + alpha_weight / pixels * ((1 - alpha) * opaque).sum()
    use = target.seen & surface
    expected = depth_sum / torch.where(use, alpha, torch.ones_like(alpha))
    error = torch.where(use, (expected - target.z_depth_m) / target.z_depth_m, torch.zeros_like(alpha))
    huber = torch.nn.functional.huber_loss(
        error, torch.zeros_like(error), reduction="none", delta=config.depth_huber
    )  # torch's is depth_huber times ours
    return loss + config.depth_weight / (pixels * config.depth_huber) * (target.trust * huber).sum()


def ssim_map(x: Any, y: Any) -> Any:
    """SSIM of two pictures [H, W, 3] (0..1). Outside counts as 0. Source: Wang et al. (2004), eq. 13."""
    mu_x, mu_y, mean_xx, mean_yy, mean_xy = _blur(torch.stack([x, y, x * x, y * y, x * y]))
    upper = (2 * mu_x * mu_y + _SSIM_C1) * (2 * (mean_xy - mu_x * mu_y) + _SSIM_C2)
    lower = (mu_x**2 + mu_y**2 + _SSIM_C1) * ((mean_xx - mu_x**2) + (mean_yy - mu_y**2) + _SSIM_C2)
    return upper / lower


def _blur(images: Any) -> Any:
    """Gaussian window of [K, H, W, 3], zeros outside: rows, then columns."""
    offsets = torch.arange(_SSIM_WINDOW, dtype=torch.float32, device=images.device) - _SSIM_WINDOW // 2
    window = torch.exp(-(offsets**2) / (2 * _SSIM_SIGMA**2))
    window = window / window.sum()
    count, height, width, channels = images.shape
    planes = images.permute(0, 3, 1, 2).reshape(count * channels, 1, height, width)
    half = _SSIM_WINDOW // 2
    planes = torch.nn.functional.conv2d(planes, window[None, None, None, :], padding=(0, half))
    planes = torch.nn.functional.conv2d(planes, window[None, None, :, None], padding=(half, 0))
    return planes.reshape(count, channels, height, width).permute(0, 2, 3, 1)


def regulariser_torch(
    log_scales: Any, logits: Any, initial_log_scale: Any, visible: Any, config: ReconstructConfig
) -> Any:
    """Scalar: mean opacity, excess size and thickness of the visible splats; see ``recon.regularise``."""
    share = visible.float() / visible.sum().clamp(min=1)
    loss = config.opacity_weight * (torch.sigmoid(logits) * share).sum()
    limit = (initial_log_scale + config.scale_slack)[:, None]
    loss = loss + config.scale_weight * ((log_scales - limit).clamp(min=0) * share[:, None]).sum()
    ordered = log_scales.sort(dim=1, stable=True).values
    thickness = (ordered[:, 0] - ordered[:, 1] - float(np.log(config.max_flatness))).clamp(min=0)
    return loss + config.flatness_weight * (thickness * share).sum()
