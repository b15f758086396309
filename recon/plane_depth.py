"""Depth along the plane of each splat instead of its centre's depth: no steps on surfaces seen at a slant.

A Gaussian seen from a camera has, for each pixel, a depth at which it is densest. To first order that is a plane over
the picture: z + slope_u (u - mean_u) + slope_v (v - mean_v), the regression of z on the pixel under the projected
covariance. Blending planes needs three channels (offset and the two slopes), so any rasteriser's colours will do.
Source: the ray-space Gaussian of Zwicker et al. (2001); depth where it peaks as in Zhang et al. (2024), RaDe-GS.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Float32

from cuda_kernels.splat import SplatCamera
from geo import se3
from recon.backend import Gaussians, Renderer

_LEAST_VARIANCE_PX2 = 0.05  # a splat thinner than this on the picture tells no slope across


def planes_of(gaussians: Gaussians, camera: SplatCamera) -> Float32[np.ndarray, "N 3"]:
    """Per Gaussian depth at the picture's centre, and depth per pixel along u and v; zeros behind the camera.

    Args:
        gaussians: In world; rows must be sound (no NaN, no zero quaternion).
        camera: A pinhole view.
    """
    points = se3.transform_points(camera.camera_from_world, gaussians.means_in_world.astype(np.float64))
    front = points[:, 2] > camera.near_m
    x, y, z = (np.where(front, points[:, axis], 1.0) for axis in range(3))
    axes = camera.camera_from_world[:3, :3] @ se3.rotation_from_quat_wxyz(gaussians.quats_wxyz.astype(np.float64))
    spread = axes * np.exp(gaussians.log_scales.astype(np.float64))[:, None, :]  # covariance = spread spread^T
    on_u = (camera.fx_px / z)[:, None] * (spread[:, 0] - (x / z)[:, None] * spread[:, 2])
    on_v = (camera.fy_px / z)[:, None] * (spread[:, 1] - (y / z)[:, None] * spread[:, 2])
    uu = np.einsum("nk,nk->n", on_u, on_u) + _LEAST_VARIANCE_PX2
    vv = np.einsum("nk,nk->n", on_v, on_v) + _LEAST_VARIANCE_PX2
    uv = np.einsum("nk,nk->n", on_u, on_v)
    zu, zv = np.einsum("nk,nk->n", spread[:, 2], on_u), np.einsum("nk,nk->n", spread[:, 2], on_v)
    determinant = uu * vv - uv * uv
    slope_u, slope_v = (vv * zu - uv * zv) / determinant, (uu * zv - uv * zu) / determinant
    # a plane may not run further than the splat itself is long
    u, v = camera.fx_px * x / z, camera.fy_px * y / z  # from the principal point
    planes = np.stack([z - slope_u * u - slope_v * v, slope_u, slope_v], axis=1)
    return np.where(front[:, None] & np.isfinite(planes).all(axis=1, keepdims=True), planes, 0.0).astype(np.float32)


def plane_depth_sum(gaussians: Gaussians, camera: SplatCamera, renderer: Renderer) -> Float[np.ndarray, "H W"]:
    """Sum over the blended Gaussians of weight times their plane's depth; divide by alpha for the mean."""
    planes = planes_of(gaussians, camera)
    image = renderer.forward(replace(gaussians, colors=planes), camera, (0.0, 0.0, 0.0)).rgb.astype(np.float64)
    u = np.arange(camera.width_px) - camera.cx_px
    v = np.arange(camera.height_px) - camera.cy_px
    return np.asarray(image[..., 0] + image[..., 1] * u + image[..., 2] * v[:, None])
