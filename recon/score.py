"""One number that says how well a model explains views it was not fitted to."""

from collections.abc import Sequence

import numpy as np

from recon.backend import Background, Renderer, packed, splat_camera
from recon.losses import MIN_ALPHA, exposure_fit
from recon.records import SplatModel
from recon.views import View

_WORST_DEPTH = 0.1  # relative error; worse, or no depth where the sensor sees, counts as this
_COLOUR_SHARE = 0.1


def held_out_score(
    model: SplatModel, views: Sequence[View], renderer: Renderer, background: Background, everywhere: bool
) -> float:
    """Mean over views of the mean relative depth error (capped at 10 %) plus a tenth of the colour error.

    Pixels that the sensor sees and the model does not cover count as 10 % wrong, so that pruning all does not win.
    ``everywhere``: colours count on all static pixels, else where the model shows a surface.
    """
    total = []
    for view in views:
        camera = splat_camera(view.camera, view.world_from_camera)
        gaussians = packed(model, view.world_from_camera)
        image = renderer.forward(gaussians, camera, background)
        surface = image.alpha > MIN_ALPHA
        seen = view.static & np.isfinite(view.z_depth_m)
        z = renderer.plane_depth_sum(image, camera) / np.maximum(image.alpha, 1e-6)
        with np.errstate(invalid="ignore"):
            error = np.where(surface, np.abs(z - view.z_depth_m) / view.z_depth_m, _WORST_DEPTH)
        depth = float(np.minimum(error[seen], _WORST_DEPTH).mean()) if seen.any() else 0.0
        mask = view.static if everywhere else view.static & surface
        target = view.rgb.astype(np.float32) / np.float32(255)
        gain, offset = exposure_fit(image.rgb, target, mask)
        colour = float(np.abs(image.rgb[mask] * gain + offset - target[mask]).mean()) if mask.any() else 1.0
        total.append(depth + _COLOUR_SHARE * colour)
    return float(np.mean(total))
