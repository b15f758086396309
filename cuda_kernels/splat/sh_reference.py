"""Real spherical harmonics as 3D Gaussian splatting uses them, in plain NumPy and float64.

Order and signs of the basis as in 3DGS and gsplat (Sloan 2013, "Efficient Spherical Harmonic Evaluation"):
degree 1 is (-y, z, -x), and so on.
"""

import numpy as np
from jaxtyping import Float

from cuda_kernels.errors import KernelError

SH_C0 = 0.28209479177387814
LENGTH_MIN = 1e-12
"""A direction shorter than this is none: its unit vector shrinks to zero, only the constant term is left."""


def sh_basis(directions: Float[np.ndarray, "N 3"], degree: int) -> Float[np.ndarray, "N K"]:
    """Values of the first (degree + 1)^2 basis functions at unit directions."""
    if degree not in (0, 1, 2, 3):
        raise KernelError(f"SH degree {degree} is not supported; use 0 to 3.")
    x, y, z = directions[:, 0], directions[:, 1], directions[:, 2]
    rows = [np.full_like(x, SH_C0)]
    if degree >= 1:
        rows += [-0.4886025119029199 * y, 0.4886025119029199 * z, -0.4886025119029199 * x]
    if degree >= 2:
        rows += [
            1.0925484305920792 * x * y,
            -1.0925484305920792 * y * z,
            0.31539156525252005 * (2 * z * z - x * x - y * y),
            -1.0925484305920792 * x * z,
            0.5462742152960396 * (x * x - y * y),
        ]
    if degree >= 3:
        rows += [
            -0.5900435899266435 * y * (3 * x * x - y * y),
            2.890611442640554 * x * y * z,
            -0.4570457994644658 * y * (4 * z * z - x * x - y * y),
            0.3731763325901154 * z * (2 * z * z - 3 * x * x - 3 * y * y),
            -0.4570457994644658 * x * (4 * z * z - x * x - y * y),
            1.445305721320277 * z * (x * x - y * y),
            -0.5900435899266435 * x * (x * x - 3 * y * y),
        ]
    return np.asarray(np.stack(rows, axis=1))


def eval_sh_reference(
    sh_coeffs: Float[np.ndarray, "N K 3"], directions: Float[np.ndarray, "N 3"], degree: int
) -> Float[np.ndarray, "N 3"]:
    """``eval_sh``: max(0, 0.5 + sum of coefficient * basis)."""
    return np.asarray(np.maximum(_raw_colour(sh_coeffs, directions, degree), 0.0))


def eval_sh_backward_reference(
    sh_coeffs: Float[np.ndarray, "N K 3"],
    directions: Float[np.ndarray, "N 3"],
    d_colors: Float[np.ndarray, "N 3"],
    degree: int,
) -> tuple[Float[np.ndarray, "N K 3"], Float[np.ndarray, "N 3"]]:
    """``eval_sh_backward``, term by term."""
    d_raw = np.where(_raw_colour(sh_coeffs, directions, degree) > 0.0, d_colors, 0.0)
    length = np.linalg.norm(directions, axis=1, keepdims=True)
    unit = directions / np.maximum(length, LENGTH_MIN)
    d_coeffs = np.zeros(sh_coeffs.shape)
    count = (degree + 1) ** 2
    d_coeffs[:, :count] = sh_basis(unit, degree)[:, :, None] * d_raw[:, None, :]
    per_basis = np.einsum("nkc,nc->nk", sh_coeffs[:, :count], d_raw)
    d_unit = np.einsum("nk,nki->ni", per_basis, _sh_basis_slope(unit, degree))
    return d_coeffs, (d_unit - unit * (unit * d_unit).sum(axis=1, keepdims=True)) / np.maximum(length, LENGTH_MIN)


def _raw_colour(
    sh_coeffs: Float[np.ndarray, "N K 3"], directions: Float[np.ndarray, "N 3"], degree: int
) -> Float[np.ndarray, "N 3"]:
    unit = directions / np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), LENGTH_MIN)
    return np.asarray(0.5 + np.einsum("nk,nkc->nc", sh_basis(unit, degree), sh_coeffs[:, : (degree + 1) ** 2]))


def _sh_basis_slope(directions: Float[np.ndarray, "N 3"], degree: int) -> Float[np.ndarray, "N K 3"]:
    """Derivatives of the polynomials of ``sh_basis`` by x, y, z."""
    x, y, z = directions[:, 0], directions[:, 1], directions[:, 2]
    zero = np.zeros_like(x)
    c1, c2 = 0.4886025119029199, 1.0925484305920792
    rows = [(zero, zero, zero)]
    if degree >= 1:
        rows += [(zero, zero - c1, zero), (zero, zero, zero + c1), (zero - c1, zero, zero)]
    if degree >= 2:
        c20, c22 = 0.31539156525252005, 0.5462742152960396
        rows += [
            (c2 * y, c2 * x, zero),
            (zero, -c2 * z, -c2 * y),
            (-2 * c20 * x, -2 * c20 * y, 4 * c20 * z),
            (-c2 * z, zero, -c2 * x),
            (2 * c22 * x, -2 * c22 * y, zero),
        ]
    if degree >= 3:
        c33, c32, c31, c30, cd = (
            0.5900435899266435,
            2.890611442640554,
            0.4570457994644658,
            0.3731763325901154,
            1.445305721320277,
        )
        rows += [
            (-6 * c33 * x * y, -3 * c33 * (x * x - y * y), zero),
            (c32 * y * z, c32 * x * z, c32 * x * y),
            (2 * c31 * x * y, -c31 * (4 * z * z - x * x - 3 * y * y), -8 * c31 * y * z),
            (-6 * c30 * x * z, -6 * c30 * y * z, 3 * c30 * (2 * z * z - x * x - y * y)),
            (-c31 * (4 * z * z - 3 * x * x - y * y), 2 * c31 * x * y, -8 * c31 * x * z),
            (2 * cd * x * z, -2 * cd * y * z, cd * (x * x - y * y)),
            (-3 * c33 * (x * x - y * y), 6 * c33 * x * y, zero),
        ]
    return np.stack([np.stack(row, axis=1) for row in rows], axis=1)
