"""Spherical harmonics per gaussian, compiled: the formulas of ``sh_reference``, one gaussian after the other."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import math

import numba
import numpy as np

from cuda_kernels.jit import jit
from cuda_kernels.splat.lens import FLAGS
from cuda_kernels.splat.sh_reference import LENGTH_MIN, SH_C0

CHUNK = 512  # gaussians that share a scratch
C1, C20, C21, C22 = 0.4886025119029199, 0.31539156525252005, 1.0925484305920792, 0.5462742152960396
C30, C31, C32, C33, C3D = (
    0.3731763325901154,
    0.4570457994644658,
    2.890611442640554,
    0.5900435899266435,
    1.445305721320277,
)


@jit(error_model="numpy", inline="always")
def _fill_basis(basis, x, y, z, degree):
    """Values of the first (degree + 1)^2 functions at a unit vector."""
    basis[0] = SH_C0
    if degree >= 1:
        basis[1], basis[2], basis[3] = -C1 * y, C1 * z, -C1 * x
    if degree >= 2:
        xx, yy, zz = x * x, y * y, z * z
        basis[4], basis[5], basis[7] = C21 * x * y, -C21 * y * z, -C21 * x * z
        basis[6], basis[8] = C20 * (2.0 * zz - xx - yy), C22 * (xx - yy)
        if degree >= 3:
            basis[9], basis[15] = -C33 * y * (3.0 * xx - yy), -C33 * x * (xx - 3.0 * yy)
            basis[10], basis[14] = C32 * x * y * z, C3D * z * (xx - yy)
            basis[11], basis[13] = -C31 * y * (4.0 * zz - xx - yy), -C31 * x * (4.0 * zz - xx - yy)
            basis[12] = C30 * z * (2.0 * zz - 3.0 * xx - 3.0 * yy)


@jit(error_model="numpy", inline="always")
def _slope(p, x, y, z, degree):
    """Gradient by x, y, z of the sum of p_k times function k, as polynomials off the sphere too."""
    d_x, d_y, d_z = -C1 * p[3], -C1 * p[1], C1 * p[2]
    if degree >= 2:
        d_x += C21 * (y * p[4] - z * p[7]) - 2.0 * C20 * x * p[6] + 2.0 * C22 * x * p[8]
        d_y += C21 * (x * p[4] - z * p[5]) - 2.0 * C20 * y * p[6] - 2.0 * C22 * y * p[8]
        d_z += -C21 * (y * p[5] + x * p[7]) + 4.0 * C20 * z * p[6]
    if degree >= 3:
        xx, yy, zz, xy = x * x, y * y, z * z, x * y
        d_x += -6.0 * C33 * xy * p[9] + C32 * y * z * p[10] + 2.0 * C31 * xy * p[11] - 6.0 * C30 * x * z * p[12]
        d_x += -C31 * (4.0 * zz - 3.0 * xx - yy) * p[13] + 2.0 * C3D * x * z * p[14] - 3.0 * C33 * (xx - yy) * p[15]
        d_y += -3.0 * C33 * (xx - yy) * p[9] + C32 * x * z * p[10] - C31 * (4.0 * zz - xx - 3.0 * yy) * p[11]
        d_y += -6.0 * C30 * y * z * p[12] + 2.0 * C31 * xy * p[13] - 2.0 * C3D * y * z * p[14] + 6.0 * C33 * xy * p[15]
        d_z += C32 * xy * p[10] - 8.0 * C31 * z * (y * p[11] + x * p[13])
        d_z += 3.0 * C30 * (2.0 * zz - xx - yy) * p[12] + C3D * (xx - yy) * p[14]
    return d_x, d_y, d_z


@jit(error_model="numpy", inline="always")
def _unit(directions, i):
    """Unit vector and one over the length."""
    x, y, z = np.float64(directions[i, 0]), np.float64(directions[i, 1]), np.float64(directions[i, 2])
    inverse = 1.0 / max(math.sqrt(x * x + y * y + z * z), LENGTH_MIN)
    return x * inverse, y * inverse, z * inverse, inverse


@jit(error_model="numpy", parallel=True, fastmath=FLAGS)
def colors(coeffs, directions, degree):
    """Colours along directions."""
    count, used = coeffs.shape[0], (degree + 1) * (degree + 1)
    out = np.empty((count, 3), dtype=np.float32)
    for chunk in numba.prange((count + CHUNK - 1) // CHUNK):
        basis = np.empty(16, dtype=np.float64)
        for i in range(chunk * CHUNK, min(count, (chunk + 1) * CHUNK)):
            x, y, z, _ = _unit(directions, i)
            _fill_basis(basis, x, y, z, degree)
            red, green, blue = 0.5, 0.5, 0.5
            for k in range(used):
                red += basis[k] * coeffs[i, k, 0]
                green += basis[k] * coeffs[i, k, 1]
                blue += basis[k] * coeffs[i, k, 2]
            out[i, 0], out[i, 1], out[i, 2] = max(red, 0.0), max(green, 0.0), max(blue, 0.0)
    return out


@jit(error_model="numpy", parallel=True, fastmath=FLAGS)
def colors_backward(coeffs, directions, d_colors, degree):
    """Gradients by the coefficients and the directions."""
    count, held, used = coeffs.shape[0], coeffs.shape[1], (degree + 1) * (degree + 1)
    d_coeffs = np.empty(coeffs.shape, dtype=np.float32)
    d_directions = np.empty((count, 3), dtype=np.float32)
    for chunk in numba.prange((count + CHUNK - 1) // CHUNK):
        basis, pull = np.empty(16, dtype=np.float64), np.zeros(16, dtype=np.float64)
        for i in range(chunk * CHUNK, min(count, (chunk + 1) * CHUNK)):
            x, y, z, inverse = _unit(directions, i)
            _fill_basis(basis, x, y, z, degree)
            red, green, blue = 0.5, 0.5, 0.5
            for k in range(used):
                red += basis[k] * coeffs[i, k, 0]
                green += basis[k] * coeffs[i, k, 1]
                blue += basis[k] * coeffs[i, k, 2]
            d_red = d_colors[i, 0] if red > 0.0 else np.float32(0.0)
            d_green = d_colors[i, 1] if green > 0.0 else np.float32(0.0)
            d_blue = d_colors[i, 2] if blue > 0.0 else np.float32(0.0)
            for k in range(used):
                pull[k] = coeffs[i, k, 0] * d_red + coeffs[i, k, 1] * d_green + coeffs[i, k, 2] * d_blue
                d_coeffs[i, k, 0], d_coeffs[i, k, 1], d_coeffs[i, k, 2] = (
                    basis[k] * d_red,
                    basis[k] * d_green,
                    basis[k] * d_blue,
                )
            for k in range(used, held):
                d_coeffs[i, k, 0], d_coeffs[i, k, 1], d_coeffs[i, k, 2] = 0.0, 0.0, 0.0
            d_x, d_y, d_z = _slope(pull, x, y, z, degree)
            along = d_x * x + d_y * y + d_z * z
            d_directions[i, 0] = (d_x - along * x) * inverse
            d_directions[i, 1] = (d_y - along * y) * inverse
            d_directions[i, 2] = (d_z - along * z) * inverse
    return d_coeffs, d_directions
