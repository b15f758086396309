"""Depth along the plane of each gaussian instead of its centre's depth: no steps on surfaces seen at a slant.

For each pixel a gaussian has a depth at which it is densest along the ray. To first order that is a plane over the
picture, the regression of z on the pixel under the projected covariance. With centre depths the nearer of two splats
on a slanted surface covers the farther one where it is farther itself, and the mean comes out too near.
Source: ray space of Zwicker et al. (2001); depth at the peak as in Zhang et al. (2024), RaDe-GS.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import math

import numba
import numpy as np

from cuda_kernels.jit import jit
from cuda_kernels.splat.lens import FLAGS
from cuda_kernels.splat.projection import _rotation

LEAST_VARIANCE_PX2 = 0.05  # a gaussian thinner than this on the picture tells no slope across


@jit(error_model="numpy", parallel=True, fastmath=FLAGS)
def depth_planes(means, quats, log_scales, camera, order):
    """Per drawn gaussian, in depth order: depth at the principal point's pixel, and depth per pixel along u and v."""
    drawn = order.shape[0]
    planes = np.empty((drawn, 3), dtype=np.float32)
    r00, r01, r02, r10, r11, r12, r20, r21, r22 = (
        camera[0], camera[1], camera[2], camera[3], camera[4], camera[5], camera[6], camera[7], camera[8],
    )  # fmt: skip
    fx, fy = camera[12], camera[13]
    for rank in numba.prange(drawn):
        i = order[rank]
        wx, wy, wz = np.float64(means[i, 0]), np.float64(means[i, 1]), np.float64(means[i, 2])
        x = r00 * wx + r01 * wy + r02 * wz + camera[9]
        y = r10 * wx + r11 * wy + r12 * wz + camera[10]
        z = r20 * wx + r21 * wy + r22 * wz + camera[11]
        qw, qx, qy, qz = (
            np.float64(quats[i, 0]),
            np.float64(quats[i, 1]),
            np.float64(quats[i, 2]),
            np.float64(quats[i, 3]),
        )
        inv = 1.0 / math.sqrt(qw * qw + qx * qx + qy * qy + qz * qz)
        g00, g01, g02, g10, g11, g12, g20, g21, g22 = _rotation(qw * inv, qx * inv, qy * inv, qz * inv)
        uu, vv, uv, zu, zv = LEAST_VARIANCE_PX2, LEAST_VARIANCE_PX2, 0.0, 0.0, 0.0
        for axis in range(3):
            if axis == 0:
                gx, gy, gz = g00, g10, g20
            elif axis == 1:
                gx, gy, gz = g01, g11, g21
            else:
                gx, gy, gz = g02, g12, g22
            size = math.exp(np.float64(log_scales[i, axis]))
            ax = (r00 * gx + r01 * gy + r02 * gz) * size
            ay = (r10 * gx + r11 * gy + r12 * gz) * size
            az = (r20 * gx + r21 * gy + r22 * gz) * size
            on_u, on_v = fx / z * (ax - x / z * az), fy / z * (ay - y / z * az)
            uu += on_u * on_u
            vv += on_v * on_v
            uv += on_u * on_v
            zu += az * on_u
            zv += az * on_v
        det = uu * vv - uv * uv
        slope_u, slope_v = (vv * zu - uv * zv) / det, (uu * zv - uv * zu) / det
        planes[rank, 0] = z - slope_u * fx * x / z - slope_v * fy * y / z
        planes[rank, 1], planes[rank, 2] = slope_u, slope_v
        if not math.isfinite(planes[rank, 0] + planes[rank, 1] + planes[rank, 2]):
            planes[rank, 0], planes[rank, 1], planes[rank, 2] = z, 0.0, 0.0
    return planes
