"""What every rasteriser takes and offers; imported by both sides of ``recon.backend``."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Float32

from cuda_kernels.splat import SplatCamera, SplatGradients, SplatImage

Background = tuple[float, float, float]


@dataclass(frozen=True)
class Gaussians:
    """Parameters of a ``SplatModel`` with the colours already seen from the camera."""

    means_in_world: Float32[np.ndarray, "N 3"]
    quats_wxyz: Float32[np.ndarray, "N 4"]
    log_scales: Float32[np.ndarray, "N 3"]
    opacity_logits: Float32[np.ndarray, "N"]
    colors: Float32[np.ndarray, "N 3"]


@runtime_checkable
class Renderer(Protocol):
    """Draw, and go back."""

    name: str

    def forward(
        self, gaussians: Gaussians, camera: SplatCamera, background: Background, depth_statistics: bool = False
    ) -> SplatImage:
        """Colour, alpha, accumulated depth; with ``depth_statistics`` also median and variance of depth."""
        ...

    def backward(
        self,
        image: SplatImage,
        d_rgb: Float[np.ndarray, "H W 3"],
        d_alpha: Float[np.ndarray, "H W"],
        d_depth_sum: Float[np.ndarray, "H W"],
    ) -> SplatGradients:
        """Gradients by the Gaussians, from gradients by the images."""
        ...

    def plane_depth_sum(self, image: SplatImage, camera: SplatCamera) -> Float32[np.ndarray, "H W"]:
        """Accumulated depth along the splats' planes instead of their centres'; see ``cuda_kernels.splat``."""
        ...
