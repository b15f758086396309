"""View-dependent colour: spherical harmonics to degree 3, and gradients by coefficients, centres and camera.

Twins: ``sh_kernels`` (numba), ``sh_reference`` (NumPy, float64; order and signs of the basis are stated there).
"""
# mypy: disable-error-code="no-untyped-call"

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32

from cuda_kernels.errors import KernelError
from cuda_kernels.splat.sh_reference import SH_C0, sh_basis
from cuda_kernels.splat.types import SplatCamera

__all__ = ["SH_C0", "SeenGradients", "eval_sh", "eval_sh_backward", "seen_colors", "seen_colors_backward", "sh_basis"]


@dataclass(frozen=True)
class SeenGradients:
    """What ``seen_colors`` adds to the gradients of ``rasterize_backward``."""

    sh_coeffs: Float32[np.ndarray, "N K 3"]
    means_in_world: Float32[np.ndarray, "N 3"]
    camera_twist: Float[np.ndarray, "6"]  # as in SplatGradients; turning the camera on the spot changes no colour


def eval_sh(
    sh_coeffs: Float[np.ndarray, "N K 3"], directions: Float[np.ndarray, "N 3"], degree: int | None = None
) -> Float32[np.ndarray, "N 3"]:
    """RGB seen along directions: max(0, 0.5 + sum of coefficient * basis).

    Args:
        sh_coeffs: K = (degree + 1)^2 coefficients per channel.
        directions: From the camera's centre to the gaussian, world frame, any length but zero.
        degree: Use only up to this degree; None uses all that ``sh_coeffs`` holds.

    Returns:
        Colours, not negative (3DGS clamps at 0), not limited above. Same bytes for any number of threads.

    Raises:
        KernelError: K is not 1, 4, 9 or 16, or holds less than ``degree`` asks for.
    """
    from cuda_kernels.splat.sh_kernels import colors

    return np.asarray(colors(*_checked(sh_coeffs, directions), _used_degree(sh_coeffs, degree)))


def eval_sh_backward(
    sh_coeffs: Float[np.ndarray, "N K 3"],
    directions: Float[np.ndarray, "N 3"],
    d_colors: Float[np.ndarray, "N 3"],
    degree: int | None = None,
) -> tuple[Float32[np.ndarray, "N K 3"], Float32[np.ndarray, "N 3"]]:
    """Gradients by the coefficients and by the (unnormalised) directions, from the gradient by ``eval_sh``'s colours.

    With directions = mean - camera centre, the second is also what the means get on top of ``rasterize_backward``.
    """
    from cuda_kernels.splat.sh_kernels import colors_backward

    used = _used_degree(sh_coeffs, degree)
    if d_colors.shape != directions.shape:
        raise KernelError(f"d_colors has shape {d_colors.shape}, expected {directions.shape}.")
    slopes = np.ascontiguousarray(d_colors, dtype=np.float32)
    d_coeffs, d_directions = colors_backward(*_checked(sh_coeffs, directions), slopes, used)
    return d_coeffs, d_directions


def seen_colors(
    sh_coeffs: Float[np.ndarray, "N K 3"],
    means_in_world: Float[np.ndarray, "N 3"],
    camera: SplatCamera,
    degree: int | None = None,
) -> Float32[np.ndarray, "N 3"]:
    """Colours of gaussians as a camera sees them, for ``rasterize``; see ``eval_sh``."""
    return eval_sh(sh_coeffs, _directions(means_in_world, camera), degree)


def seen_colors_backward(
    sh_coeffs: Float[np.ndarray, "N K 3"],
    means_in_world: Float[np.ndarray, "N 3"],
    camera: SplatCamera,
    d_colors: Float[np.ndarray, "N 3"],
    degree: int | None = None,
) -> SeenGradients:
    """Gradients through ``seen_colors``, from ``SplatGradients.colors``; add those by means and twist to the others.

    The camera's centre -R^T t moves by -R^T v under the twist (w, v), all means against it by R^T v.
    """
    d_coeffs, d_means = eval_sh_backward(sh_coeffs, _directions(means_in_world, camera), d_colors, degree)
    push = camera.camera_from_world[:3, :3] @ d_means.sum(axis=0, dtype=np.float64)
    return SeenGradients(d_coeffs, d_means, np.concatenate([np.zeros(3), push]))


def _directions(means_in_world: Float[np.ndarray, "N 3"], camera: SplatCamera) -> Float32[np.ndarray, "N 3"]:
    """From the camera's centre to the means; subtracted in float64, far from the origin too."""
    rotation, translation = camera.camera_from_world[:3, :3], camera.camera_from_world[:3, 3]
    return np.asarray(means_in_world + rotation.T @ translation, dtype=np.float32)


def _used_degree(sh_coeffs: Float[np.ndarray, "N K 3"], degree: int | None) -> int:
    held = {1: 0, 4: 1, 9: 2, 16: 3}.get(sh_coeffs.shape[1])
    if held is None:
        raise KernelError(f"sh_coeffs has {sh_coeffs.shape[1]} coefficients per channel; expected 1, 4, 9 or 16.")
    if degree is not None and not 0 <= degree <= held:
        raise KernelError(f"degree {degree} asked for, but sh_coeffs holds degree {held}.")
    return held if degree is None else degree


def _checked(
    sh_coeffs: Float[np.ndarray, "N K 3"], directions: Float[np.ndarray, "N 3"]
) -> tuple[Float32[np.ndarray, "N K 3"], Float32[np.ndarray, "N 3"]]:
    if len(sh_coeffs) != len(directions):
        raise KernelError(f"{len(sh_coeffs)} gaussians have coefficients, {len(directions)} a direction.")
    return np.ascontiguousarray(sh_coeffs, dtype=np.float32), np.ascontiguousarray(directions, dtype=np.float32)
