"""A camera as the projection kernels read it: one row of numbers, checked."""

import math

import numpy as np
from jaxtyping import Float

from cuda_kernels.errors import KernelError
from cuda_kernels.splat.rules import EPS2D_PX2, FOV_MARGIN, THETA_MAX_RAD
from cuda_kernels.splat.types import SplatCamera


def packed_camera(camera: SplatCamera) -> Float[np.ndarray, "C"]:
    """Numbers of a camera, and where: rotation 0, translation 9, fx fy cx cy 12, near 16, limits of x/z and y/z for the
    linearisation 17, eps 21, width height 22, fisheye or not 24, k1 .. k4 25, cosine of the largest angle drawn 29.

    Raises:
        KernelError: the camera cannot be rendered; says why.
    """  # noqa: D205
    transform = np.asarray(camera.camera_from_world, dtype=np.float64)
    width, height = camera.width_px, camera.height_px
    fx, fy, cx, cy = camera.fx_px, camera.fy_px, camera.cx_px, camera.cy_px
    if transform.shape != (4, 4) or not np.isfinite(transform).all():
        raise KernelError("camera_from_world must be a finite 4x4 matrix; frames without a pose cannot be rendered.")
    if width < 1 or height < 1 or not all(map(math.isfinite, (fx, fy, cx, cy))) or fx <= 0 or fy <= 0:
        raise KernelError(f"camera {width}x{height} px with fx {fx}, fy {fy}, cx {cx}, cy {cy} cannot be rendered.")
    if not camera.near_m > 0:
        raise KernelError(f"near_m must be positive, got {camera.near_m}.")
    # gsplat's limits in its own convention, where the image covers [0, W] and the principal point is half a pixel on
    margin_x, margin_y = FOV_MARGIN * 0.5 * width / fx, FOV_MARGIN * 0.5 * height / fy
    limits = (
        -(cx + 0.5) / fx - margin_x,
        (width - cx - 0.5) / fx + margin_x,
        -(cy + 0.5) / fy - margin_y,
        (height - cy - 0.5) / fy + margin_y,
    )
    pose = [*transform[:3, :3].ravel(), *transform[:3, 3]]
    if camera.kb4 is None:
        lens = [0.0, 0.0, 0.0, 0.0, 0.0, -1.0]
    else:
        lens = [1.0, *camera.kb4, math.cos(_largest_angle(camera, camera.kb4))]
    return np.array([*pose, fx, fy, cx, cy, camera.near_m, *limits, EPS2D_PX2, width, height, *lens], dtype=np.float64)


def _largest_angle(camera: SplatCamera, kb4: tuple[float, float, float, float]) -> float:
    """Angle from the axis up to which centres are drawn."""
    if not all(map(math.isfinite, kb4)):
        raise KernelError(f"kb4 must be four finite numbers k1 .. k4, got {kb4}.")
    if camera.valid_theta_rad is not None and not camera.valid_theta_rad > 0:
        raise KernelError(f"valid_theta_rad must be positive, got {camera.valid_theta_rad}.")
    odd = np.array([1.0, *kb4])  # of theta, theta^3, ...
    turning = min(_first_root(odd * np.arange(1, 10, 2)), THETA_MAX_RAD)
    edges_x = (-0.5 - camera.cx_px, camera.width_px - 0.5 - camera.cx_px)
    edges_y = (-0.5 - camera.cy_px, camera.height_px - 0.5 - camera.cy_px)
    corner = max(math.hypot(x / camera.fx_px, y / camera.fy_px) for x in edges_x for y in edges_y)
    theta = np.linspace(0.0, turning, 4097)
    radii = theta * np.polynomial.polynomial.polyval(theta * theta, odd)
    seen = float(theta[min(int(np.searchsorted(radii, corner)), 4096)])  # the curve rises up to its turning point
    limits = (seen * (1.0 + FOV_MARGIN), turning, camera.valid_theta_rad)
    return min(limit for limit in limits if limit is not None)


def _first_root(slope: Float[np.ndarray, "K"]) -> float:
    """Smallest positive theta at which a polynomial in theta^2 is zero; infinity if there is none."""
    roots = np.polynomial.polynomial.polyroots(np.trim_zeros(slope, "b"))
    real = roots.real[(np.abs(roots.imag) < 1e-9) & (roots.real > 0)]
    return math.sqrt(float(real.min())) if len(real) else math.inf
