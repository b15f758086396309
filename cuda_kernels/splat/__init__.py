"""3D Gaussian splatting on a CPU: arrays in, images and gradients out. numba is loaded on the first call."""

from cuda_kernels.splat.api import plane_depth_sum, rasterize, rasterize_backward
from cuda_kernels.splat.sh import SeenGradients, eval_sh, eval_sh_backward, seen_colors, seen_colors_backward
from cuda_kernels.splat.types import DepthStatistics, SplatCamera, SplatGradients, SplatImage

__all__ = [
    "DepthStatistics",
    "SeenGradients",
    "SplatCamera",
    "SplatGradients",
    "SplatImage",
    "eval_sh",
    "eval_sh_backward",
    "plane_depth_sum",
    "rasterize",
    "rasterize_backward",
    "seen_colors",
    "seen_colors_backward",
]
