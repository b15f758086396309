"""How much light each splat gives to each view: what a view really sees, not what may fall into its picture."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from recon.backend import Renderer, packed, splat_camera
from recon.records import SplatModel
from recon.views import View

SEEN_WEIGHT_PX = 0.02
"""A view sees a splat if the splat's blending weights in it sum to this many pixels at least."""


@dataclass(frozen=True)
class SplatSupport:
    """Per splat: how many views see it, and its blending weights summed over all static pixels of all views."""

    views: Int64[np.ndarray, "N"]
    weight_px: Float64[np.ndarray, "N"]


def view_weights(model: SplatModel, view: View, renderer: Renderer) -> Float64[np.ndarray, "N"]:
    """Blending weights alpha * transmittance of each splat, summed over a view's static pixels, in pixels.

    The picture is linear in the colours, and the weights are its coefficients: the gradient of the sum of a picture's
    red channel by the splats' red is just that sum of weights. Splats behind opaque ones, outside the picture, or on
    pixels where something moves get 0.
    """
    if not len(model.means_in_world):
        return np.zeros(0)
    camera = splat_camera(view.camera, view.world_from_camera)
    image = renderer.forward(packed(model, view.world_from_camera), camera, (0.0, 0.0, 0.0))
    ones = np.repeat(view.static[:, :, None].astype(np.float32), 3, axis=2)
    nothing = np.zeros(view.static.shape, dtype=np.float32)
    return np.asarray(renderer.backward(image, ones, nothing, nothing).colors[:, 0], dtype=np.float64)


def splat_support(model: SplatModel, views: Sequence[View], renderer: Renderer) -> SplatSupport:
    """Weights of all views; see ``view_weights``. Views at half size do: a splat's weight shrinks with the pixels."""
    seen = np.zeros(len(model.means_in_world), dtype=np.int64)
    total = np.zeros(len(model.means_in_world))
    for view in views:
        weights = view_weights(model, view, renderer)
        seen += weights >= SEEN_WEIGHT_PX
        total += weights
    return SplatSupport(seen, total)
