"""What goes into and comes out of the splat rasteriser."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32


@dataclass(frozen=True)
class SplatCamera:
    """Pinhole view. The centre of pixel (0, 0) is at (0.0, 0.0); axes +x right, +y down, +z forward.

    ``camera_from_world`` takes world points to camera points; ``near_m``: gaussians whose centre is closer along
    +z are not drawn.
    """

    fx_px: float
    fy_px: float
    cx_px: float
    cy_px: float
    width_px: int
    height_px: int
    camera_from_world: Float[np.ndarray, "4 4"]
    near_m: float = 0.01


@dataclass(frozen=True)
class DepthStatistics:
    """Depth along a pixel's ray, beyond its mean. NaN where nothing was blended (``median_z``: too little)."""

    median_z: Float32[np.ndarray, "H W"]  # z of the gaussian at which transmittance falls to one half
    variance_z: Float32[np.ndarray, "H W"]  # variance of z under the blending weights, world units squared


@dataclass(frozen=True)
class SplatImage:
    """One rendering and what its backward pass needs.

    ``depth_sum`` is accumulated, not expected, depth: ``expected_z`` divides it by alpha.
    """

    rgb: Float32[np.ndarray, "H W 3"]  # composited on the background
    alpha: Float32[np.ndarray, "H W"]  # 1 - transmittance
    depth_sum: Float32[np.ndarray, "H W"]  # sum of weight * z, world units along +z
    visible: Bool[np.ndarray, "N"]  # gaussians that reach alpha 1/255 at some pixel centre's box
    dropped: int  # rows with NaN, infinite or zero-length parameters, not drawn
    statistics: DepthStatistics | None = None
    saved: Any = field(default=None, repr=False, compare=False)

    def expected_z(self, alpha_min: float = 0.5) -> Float32[np.ndarray, "H W"]:
        """Mean depth under the blending weights; NaN where alpha is below ``alpha_min`` (never divided there)."""
        enough = self.alpha >= max(alpha_min, 1e-6)
        return np.where(enough, self.depth_sum / np.where(enough, self.alpha, 1.0), np.nan).astype(np.float32)


@dataclass(frozen=True)
class SplatGradients:
    """Gradients of a loss with respect to the inputs of ``rasterize``; zero for gaussians not drawn."""

    means_in_world: Float32[np.ndarray, "N 3"]
    quats_wxyz: Float32[np.ndarray, "N 4"]
    log_scales: Float32[np.ndarray, "N 3"]
    opacity_logits: Float32[np.ndarray, "N"]
    colors: Float32[np.ndarray, "N 3"]
    mean2d_norm: Float32[np.ndarray, "N"]  # length of the gradient by the 2D mean, per pixel; for densification
    camera_twist: Float[
        np.ndarray, "6"
    ]  # by xi, camera_from_world -> exp(xi) camera_from_world; (rotation, translation)
