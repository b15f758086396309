"""Real spherical harmonics as 3D Gaussian splatting uses them: view-dependent colour, and back.

Order and signs of the basis as in 3DGS and gsplat (Sloan 2013, "Efficient Spherical Harmonic Evaluation"):
degree 1 is (-y, z, -x), and so on.
"""

import numpy as np
from jaxtyping import Float, Float32

from cuda_kernels.errors import KernelError

SH_C0 = 0.28209479177387814


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


def eval_sh(
    sh_coeffs: Float[np.ndarray, "N K 3"], directions: Float[np.ndarray, "N 3"], degree: int | None = None
) -> Float32[np.ndarray, "N 3"]:
    """RGB seen along directions: max(0, 0.5 + sum of coefficient * basis).

    Args:
        sh_coeffs: K = (degree + 1)^2 coefficients per channel.
        directions: From the camera's centre to the gaussian, world frame, any length but zero.
        degree: Use only up to this degree; None uses all that ``sh_coeffs`` holds.

    Returns:
        Colours, not negative (3DGS clamps at 0), not limited above.

    Raises:
        KernelError: K is not 1, 4, 9 or 16, or holds less than ``degree`` asks for.
    """
    return np.asarray(np.maximum(_raw_colour(sh_coeffs, directions, degree), 0.0), dtype=np.float32)


def eval_sh_backward(
    sh_coeffs: Float[np.ndarray, "N K 3"],
    directions: Float[np.ndarray, "N 3"],
    d_colors: Float[np.ndarray, "N 3"],
    degree: int | None = None,
) -> tuple[Float32[np.ndarray, "N K 3"], Float32[np.ndarray, "N 3"]]:
    """Gradients by the coefficients and by the (unnormalised) directions, from the gradient by ``eval_sh``'s colours.

    With directions = mean - camera centre, the second is also what the means get on top of ``rasterize_backward``.
    """
    used = _used_degree(sh_coeffs, degree)
    d_raw = np.where(_raw_colour(sh_coeffs, directions, used) > 0.0, d_colors, 0.0)
    length = np.linalg.norm(directions, axis=1, keepdims=True)
    unit = directions / np.maximum(length, 1e-12)
    d_coeffs = np.zeros(sh_coeffs.shape, dtype=np.float32)
    count = (used + 1) ** 2
    d_coeffs[:, :count] = sh_basis(unit, used)[:, :, None] * d_raw[:, None, :]
    if used == 0:
        return d_coeffs, np.zeros(directions.shape, dtype=np.float32)
    per_basis = np.einsum("nkc,nc->nk", sh_coeffs[:, :count], d_raw)
    d_unit = np.einsum("nk,nki->ni", per_basis, _sh_basis_slope(unit, used))
    d_directions = (d_unit - unit * (unit * d_unit).sum(axis=1, keepdims=True)) / np.maximum(length, 1e-12)
    return d_coeffs, d_directions.astype(np.float32)


def _used_degree(sh_coeffs: Float[np.ndarray, "N K 3"], degree: int | None) -> int:
    held = {1: 0, 4: 1, 9: 2, 16: 3}.get(sh_coeffs.shape[1])
    if held is None:
        raise KernelError(f"sh_coeffs has {sh_coeffs.shape[1]} coefficients per channel; expected 1, 4, 9 or 16.")
    if degree is not None and not 0 <= degree <= held:
        raise KernelError(f"degree {degree} asked for, but sh_coeffs holds degree {held}.")
    return held if degree is None else degree


def _raw_colour(
    sh_coeffs: Float[np.ndarray, "N K 3"], directions: Float[np.ndarray, "N 3"], degree: int | None
) -> Float[np.ndarray, "N 3"]:
    used = _used_degree(sh_coeffs, degree)
    if used == 0:
        return np.asarray(0.5 + SH_C0 * sh_coeffs[:, 0])
    unit = directions / np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-12)
    return np.asarray(0.5 + np.einsum("nk,nkc->nc", sh_basis(unit, used), sh_coeffs[:, : (used + 1) ** 2]))


def _sh_basis_slope(directions: Float[np.ndarray, "N 3"], degree: int) -> Float[np.ndarray, "N K 3"]:
    """Derivatives of the polynomials of ``sh_basis`` by x, y, z."""
    x, y, z = directions[:, 0], directions[:, 1], directions[:, 2]
    zero = np.zeros_like(x)
    c1, c2 = 0.4886025119029199, 1.0925484305920792
    rows = [(zero, zero, zero), (zero, zero - c1, zero), (zero, zero, zero + c1), (zero - c1, zero, zero)]
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
