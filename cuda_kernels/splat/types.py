"""What goes into and comes out of the splat rasteriser."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32

from cuda_kernels.errors import KernelError


@dataclass(frozen=True)
class SplatCamera:
    """Pinhole or fisheye view. The centre of pixel (0, 0) is at (0.0, 0.0); axes +x right, +y down, +z forward.

    ``camera_from_world`` takes world points to camera points; ``near_m``: gaussians whose centre is closer (along
    +z, for a fisheye along the ray) are not drawn.

    ``kb4`` makes it a Kannala-Brandt fisheye: with theta the angle from +z and r = theta + k1 theta^3 + k2 theta^5 +
    k3 theta^7 + k4 theta^9, u = fx r cos(phi) + cx, v = fy r sin(phi) + cy. Centres at and beyond 90 degrees are drawn
    like others, up to the least of ``valid_theta_rad``, the curve's turning point, and 30 % beyond the farthest
    corner. Depth is then the distance along the ray: +z is none there.
    """

    fx_px: float
    fy_px: float
    cx_px: float
    cy_px: float
    width_px: int
    height_px: int
    camera_from_world: Float[np.ndarray, "4 4"]
    near_m: float = 0.01
    kb4: tuple[float, float, float, float] | None = None
    valid_theta_rad: float | None = None


@dataclass(frozen=True)
class DepthStatistics:
    """Depth along a pixel's ray, beyond its mean. NaN where nothing was blended (``median_z``: too little).

    Of a fisheye view both are of the distance along the ray instead of z.
    """

    median_z: Float32[np.ndarray, "H W"]  # z of the gaussian at which transmittance falls to one half
    variance_z: Float32[np.ndarray, "H W"]  # variance of z under the blending weights, world units squared


@dataclass(frozen=True)
class SplatImage:
    """One rendering and what its backward pass needs.

    ``depth_sum`` is accumulated, not expected, depth: ``expected_z`` (pinhole) or ``expected_ray_distance`` (fisheye)
    divide it by alpha.
    """

    rgb: Float32[np.ndarray, "H W 3"]  # composited on the background
    alpha: Float32[np.ndarray, "H W"]  # 1 - transmittance
    depth_sum: Float32[np.ndarray, "H W"]  # sum of weight * depth, world units, along +z or (fisheye) the ray
    visible: Bool[np.ndarray, "N"]  # gaussians that reach alpha 1/255 at some pixel centre's box
    dropped: int  # rows with NaN, infinite or zero-length parameters, not drawn
    statistics: DepthStatistics | None = None
    saved: Any = field(default=None, repr=False, compare=False)
    along_ray: bool = False  # depths are distances from the camera (fisheye), not along +z

    def expected_z(self, alpha_min: float = 0.5) -> Float32[np.ndarray, "H W"]:
        """Mean depth along +z under the blending weights; NaN where alpha is below ``alpha_min`` (never divided there).

        Raises:
            KernelError: a fisheye view, which has ray distances.
        """
        if self.along_ray:
            raise KernelError("a fisheye view has no depth along +z; use expected_ray_distance.")
        return self._expected(alpha_min)

    def expected_ray_distance(self, alpha_min: float = 0.5) -> Float32[np.ndarray, "H W"]:
        """Mean distance from the camera under the blending weights; NaN where alpha is below ``alpha_min``.

        Raises:
            KernelError: a pinhole view, which has depths along +z.
        """
        if not self.along_ray:
            raise KernelError("a pinhole view has depth along +z; use expected_z.")
        return self._expected(alpha_min)

    def _expected(self, alpha_min: float) -> Float32[np.ndarray, "H W"]:
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
