"""What splats should be like whatever the pictures say: no more opaque, larger or thicker than they need to be."""

import numpy as np
from jaxtyping import Float32

from recon.config import ReconstructConfig
from recon.model import sigmoid


def opacity_slope(logits: Float32[np.ndarray, "M"], config: ReconstructConfig) -> Float32[np.ndarray, "M"]:
    """Gradient of the mean opacity by the logits."""
    opacity = sigmoid(logits)
    return np.asarray(config.opacity_weight / max(len(logits), 1) * opacity * (1 - opacity), dtype=np.float32)


def scale_slope(
    log_scales: Float32[np.ndarray, "M 3"], initial_log_scale: Float32[np.ndarray, "M"], config: ReconstructConfig
) -> Float32[np.ndarray, "M 3"]:
    """Gradient of the size and flatness terms by the log scales.

    Size: what an axis exceeds the splat's initial size (and a slack) by. Flatness: what the log ratio of the thinnest
    to the middle axis exceeds its limit by.
    """
    count = max(len(log_scales), 1)
    excess = log_scales > (initial_log_scale + config.scale_slack)[:, None]
    slope = (config.scale_weight / count * excess).astype(np.float32)
    order = np.argsort(log_scales, axis=1, kind="stable")
    everyone = np.arange(len(log_scales))
    thin, middle = order[:, 0], order[:, 1]
    thick = log_scales[everyone, thin] - log_scales[everyone, middle] > np.log(config.max_flatness)
    push = (config.flatness_weight / count * thick).astype(np.float32)
    slope[everyone, thin] += push
    slope[everyone, middle] -= push
    return slope
