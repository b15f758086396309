"""A splat model told in another world: moved, turned and scaled, its colours turned with it."""

import numpy as np
from jaxtyping import Float

from cuda_kernels.splat.sh import sh_basis
from geo import se3
from geo.errors import PoseError
from geo.exporters import Similarity
from recon.errors import ReconError
from recon.records import SplatModel

_DIRECTIONS = 64  # more than the 16 functions of degree 3; the fit below is exact, not approximate


def transform_model(model: SplatModel, new_from_old: Float[np.ndarray, "4 4"]) -> SplatModel:
    """The same scene in another world: what a camera sees that is moved with it stays the same.

    Centres move as points, log scales grow by the logarithm of the scale, quaternions are turned from the left, and
    the spherical harmonics of degree 1 to 3 are turned by the matrix of the rotation in each degree.

    Args:
        model: Any degree up to 3.
        new_from_old: A similarity: rotation times scale, and a translation.

    Raises:
        ReconError: the matrix is no similarity (it mirrors, shears, stretches or is not finite).
    """
    try:
        way = Similarity.of(new_from_old)
    except PoseError as error:
        raise ReconError(f"splats cannot be moved by this matrix: {error}") from error
    if not np.isfinite(way.translation).all():
        raise ReconError("splats cannot be moved by this matrix: its translation is not finite")
    quat = se3.quat_wxyz_from_rotation(way.rotation)
    return SplatModel(
        means_in_world=way.points(model.means_in_world.astype(np.float64)).astype(np.float32),
        log_scales=(model.log_scales + np.log(way.scale)).astype(np.float32),
        quats_wxyz=_product(quat, model.quats_wxyz.astype(np.float64)).astype(np.float32),
        opacity_logits=model.opacity_logits,
        sh_coeffs=turned_sh(model.sh_coeffs, way.rotation).astype(np.float32),
    )


def turned_sh(
    sh_coeffs: Float[np.ndarray, "N K 3"], new_from_old_rotation: Float[np.ndarray, "3 3"]
) -> Float[np.ndarray, "N K 3"]:
    """Coefficients of the same colours in turned axes: new(R d) = old(d) for every direction d.

    Each degree's functions span a space that a rotation maps to itself (Ramamoorthi and Hanrahan 2001, section 3.2), so
    its matrix M, basis(R d) M = basis(d), follows exactly from any directions that tell the functions apart.
    """
    degree = {1: 0, 4: 1, 9: 2, 16: 3}.get(sh_coeffs.shape[1])
    if degree is None:
        raise ReconError(f"{sh_coeffs.shape[1]} coefficients per channel; expected 1, 4, 9 or 16 (degree 0 to 3)")
    out = np.asarray(sh_coeffs, dtype=np.float64).copy()
    directions = _spread_directions()
    old, new = sh_basis(directions, degree), sh_basis(directions @ new_from_old_rotation.T, degree)
    for order in range(1, degree + 1):
        rows = slice(order**2, (order + 1) ** 2)
        new_from_old = np.linalg.lstsq(new[:, rows], old[:, rows], rcond=None)[0]
        out[:, rows] = np.einsum("ij,njc->nic", new_from_old, out[:, rows])
    return out


def _spread_directions() -> Float[np.ndarray, "D 3"]:
    """A Fibonacci sphere."""
    i = np.arange(_DIRECTIONS) + 0.5
    z = 1 - 2 * i / _DIRECTIONS
    angle = np.pi * (1 + np.sqrt(5)) * i
    radius = np.sqrt(1 - z * z)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=1)


def _product(left: Float[np.ndarray, "4"], right: Float[np.ndarray, "N 4"]) -> Float[np.ndarray, "N 4"]:
    """Hamilton product of quaternions, w first; the right ones may have any length, which stays."""
    w, v = left[0], left[1:]
    scalar = w * right[:, :1] - right[:, 1:] @ v[:, None]
    vector = w * right[:, 1:] + right[:, :1] * v + np.cross(v, right[:, 1:])
    return np.concatenate([scalar, vector], axis=1)
