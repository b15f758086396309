"""Rigid transforms as 4x4 float64 matrices named ``a_from_b``.

``points_in_a = transform(a_from_b, points_in_b)``. Rows of poses that are unknown are NaN; NaN goes in,
NaN comes out, nothing is guessed.
"""

import numpy as np
from jaxtyping import Bool, Float

from geo.errors import PoseError

_MIN_QUAT_NORM = 1e-8
_EPS = np.finfo(np.float64).eps


def compose(*transforms: Float[np.ndarray, "*#batch 4 4"]) -> Float[np.ndarray, "*batch 4 4"]:
    """Chain transforms: ``compose(a_from_b, b_from_c)`` is ``a_from_c``."""
    out = np.asarray(transforms[0], dtype=np.float64)
    for factor in transforms[1:]:
        out = out @ np.asarray(factor, dtype=np.float64)
    return out


def inverse(a_from_b: Float[np.ndarray, "*batch 4 4"]) -> Float[np.ndarray, "*batch 4 4"]:
    """Return ``b_from_a`` by transposing the rotation (no matrix inversion)."""
    matrix = np.asarray(a_from_b, dtype=np.float64)
    rotation_t = np.swapaxes(matrix[..., :3, :3], -1, -2)
    out = np.zeros_like(matrix)
    out[..., :3, :3] = rotation_t
    out[..., :3, 3] = -np.einsum("...ij,...j->...i", rotation_t, matrix[..., :3, 3])
    out[..., 3, 3] = 1.0
    return out


def transform_points(
    a_from_b: Float[np.ndarray, "4 4"], points_in_b: Float[np.ndarray, "*batch 3"]
) -> Float[np.ndarray, "*batch 3"]:
    """Take points from frame b to frame a."""
    matrix = np.asarray(a_from_b, dtype=np.float64)
    return points_in_b @ matrix[:3, :3].T + matrix[:3, 3]


def from_rotation_translation(
    rotation: Float[np.ndarray, "*batch 3 3"], translation_m: Float[np.ndarray, "*batch 3"]
) -> Float[np.ndarray, "*batch 4 4"]:
    """Assemble ``a_from_b`` from a rotation matrix and the origin of b in a."""
    rotation = np.asarray(rotation, dtype=np.float64)
    out = np.zeros((*rotation.shape[:-2], 4, 4))
    out[..., :3, :3] = rotation
    out[..., :3, 3] = translation_m
    out[..., 3, 3] = 1.0
    return out


def rotation_from_quat_wxyz(quat_wxyz: Float[np.ndarray, "*batch 4"]) -> Float[np.ndarray, "*batch 3 3"]:
    """Rotation matrix of a quaternion (w, x, y, z) of any positive length; zero or NaN gives NaN."""
    quat = np.asarray(quat_wxyz, dtype=np.float64)
    norm = np.linalg.norm(quat, axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        quat = np.where(norm > _MIN_QUAT_NORM, quat / norm, np.nan)
    w, x, y, z = np.moveaxis(quat, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def quat_wxyz_from_rotation(rotation: Float[np.ndarray, "*batch 3 3"]) -> Float[np.ndarray, "*batch 4"]:
    """Unit quaternion (w, x, y, z), w >= 0, of a rotation matrix.

    Source: Shepperd (1978): of the four squared components the largest is taken first, so that no
    division is by a small number.
    """
    r = np.asarray(rotation, dtype=np.float64)
    m00, m11, m22 = r[..., 0, 0], r[..., 1, 1], r[..., 2, 2]
    squares = np.stack([m00 + m11 + m22, m00, m11, m22], axis=-1)
    bad = np.asarray(~np.isfinite(squares).all(axis=-1))
    choice = np.argmax(np.where(bad[..., None], 0.0, squares), axis=-1)
    s01, s02, s12 = (r[..., i, j] + r[..., j, i] for i, j in ((0, 1), (0, 2), (1, 2)))
    d01, d02, d12 = (r[..., j, i] - r[..., i, j] for i, j in ((0, 1), (0, 2), (1, 2)))
    candidates = np.stack(
        [
            np.stack([1 + m00 + m11 + m22, d12, -d02, d01], axis=-1),
            np.stack([d12, 1 + m00 - m11 - m22, s01, s02], axis=-1),
            np.stack([-d02, s01, 1 - m00 + m11 - m22, s12], axis=-1),
            np.stack([d01, s02, s12, 1 - m00 - m11 + m22], axis=-1),
        ],
        axis=-2,
    )
    quat = np.take_along_axis(candidates, choice[..., None, None], axis=-2)[..., 0, :]
    quat = quat / np.linalg.norm(quat, axis=-1, keepdims=True)
    quat = np.where(quat[..., :1] < 0, -quat, quat)
    return np.where(bad[..., None], np.nan, quat)


def rotation_from_axis_angle(axis_angle_rad: Float[np.ndarray, "*batch 3"]) -> Float[np.ndarray, "*batch 3 3"]:
    """Rodrigues' formula; exact to rounding near zero as well."""
    vector = np.asarray(axis_angle_rad, dtype=np.float64)
    angle = np.linalg.norm(vector, axis=-1)
    half = angle / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = np.where(angle > _EPS, np.sin(half) / angle, 0.5)
    quat = np.concatenate([np.cos(half)[..., None], vector * scale[..., None]], axis=-1)
    return rotation_from_quat_wxyz(quat)


def axis_angle_from_rotation(rotation: Float[np.ndarray, "*batch 3 3"]) -> Float[np.ndarray, "*batch 3"]:
    """Axis times angle (0 to pi) of a rotation matrix."""
    quat = quat_wxyz_from_rotation(rotation)
    sine = np.linalg.norm(quat[..., 1:], axis=-1)
    angle = 2 * np.arctan2(sine, quat[..., 0])
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = np.where(sine > _EPS, angle / sine, 2.0)
    return quat[..., 1:] * scale[..., None]


def slerp_rotation(
    rotation_0: Float[np.ndarray, "*batch 3 3"],
    rotation_1: Float[np.ndarray, "*batch 3 3"],
    fraction: Float[np.ndarray, "*batch"],
) -> Float[np.ndarray, "*batch 3 3"]:
    """Interpolate on the shorter arc: ``R0 exp(s log(R0^T R1))``."""
    relative = np.swapaxes(rotation_0, -1, -2) @ rotation_1
    step = axis_angle_from_rotation(relative) * np.asarray(fraction)[..., None]
    return np.asarray(rotation_0 @ rotation_from_axis_angle(step))


def interpolate(
    a_from_b_0: Float[np.ndarray, "*batch 4 4"],
    a_from_b_1: Float[np.ndarray, "*batch 4 4"],
    fraction: Float[np.ndarray, "*batch"],
) -> Float[np.ndarray, "*batch 4 4"]:
    """Interpolate rotation on the shorter arc and the origin of b in a straight line."""
    weight = np.asarray(fraction, dtype=np.float64)[..., None]
    origin = (1 - weight) * a_from_b_0[..., :3, 3] + weight * a_from_b_1[..., :3, 3]
    rotation = slerp_rotation(a_from_b_0[..., :3, :3], a_from_b_1[..., :3, :3], fraction)
    return from_rotation_translation(rotation, origin)


def is_rigid(a_from_b: Float[np.ndarray, "*batch 4 4"], tolerance: float = 1e-4) -> Bool[np.ndarray, "*batch"]:
    """True where the matrix is a proper rigid transform to the tolerance (NaN is not)."""
    matrix = np.asarray(a_from_b, dtype=np.float64)
    rotation = matrix[..., :3, :3]
    finite = np.asarray(np.isfinite(matrix).all(axis=(-1, -2)))
    safe = np.where(finite[..., None, None], rotation, np.eye(3))
    with np.errstate(all="ignore"):  # numbers far from a rotation's may overflow, or have a determinant of 0
        gram = safe @ np.swapaxes(safe, -1, -2)
        orthonormal = np.abs(gram - np.eye(3)).max(axis=(-1, -2)) <= tolerance
        proper = np.linalg.det(safe) > 0
    last_row = np.abs(np.where(finite[..., None], matrix[..., 3, :], 0.0) - [0, 0, 0, 1]).max(axis=-1) <= tolerance
    return np.asarray(finite & orthonormal & proper & last_row)


def check_rigid(a_from_b: Float[np.ndarray, "4 4"], name: str, tolerance: float = 1e-3) -> Float[np.ndarray, "4 4"]:
    """Return the transform with its rotation made exactly orthonormal, or raise.

    Raises:
        PoseError: if it is not finite, or further than ``tolerance`` from a rigid transform.
    """
    matrix = np.asarray(a_from_b, dtype=np.float64)
    if matrix.shape != (4, 4) or not bool(is_rigid(matrix, tolerance)):
        raise PoseError(
            f"{name} is not a rigid 4x4 transform (rotation orthonormal with determinant +1, last row 0 0 0 1):\n"
            f"{matrix}\nCheck rows against columns, and that no scale or mirror is left in it."
        )
    u, _, vt = np.linalg.svd(matrix[:3, :3])
    return from_rotation_translation(u @ vt, matrix[:3, 3])
