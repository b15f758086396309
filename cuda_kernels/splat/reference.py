"""The rule once more, in plain NumPy and float64: slow, and written to be checked against the formulas by eye.

Nothing here is shared with the kernels but the constants. Tests hold every kernel against it.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int64

from cuda_kernels.splat.rules import ALPHA_MAX, ALPHA_MIN, EPS2D_PX2, FOV_MARGIN, TRANSMITTANCE_MIN
from cuda_kernels.splat.types import SplatCamera


@dataclass(frozen=True)
class ReferenceImage:
    """What ``rasterize`` gives, in float64."""

    rgb: Float[np.ndarray, "H W 3"]
    alpha: Float[np.ndarray, "H W"]
    depth_sum: Float[np.ndarray, "H W"]
    median_z: Float[np.ndarray, "H W"]
    variance_z: Float[np.ndarray, "H W"]


@dataclass(frozen=True)
class Projected:
    """2D gaussians of the drawn rows, near to far."""

    rows: Int64[np.ndarray, "M"]
    means_xy: Float[np.ndarray, "M 2"]
    conics: Float[np.ndarray, "M 2 2"]
    z: Float[np.ndarray, "M"]


def sound_rows(
    means_in_world: Float[np.ndarray, "N 3"],
    quats_wxyz: Float[np.ndarray, "N 4"],
    log_scales: Float[np.ndarray, "N 3"],
    opacity_logits: Float[np.ndarray, "N"],
    colors: Float[np.ndarray, "N 3"],
) -> Bool[np.ndarray, "N"]:
    """Rows that can be drawn: finite, a quaternion that is not zero, scales that float32 can hold."""
    ok = np.isfinite(opacity_logits)
    for columns in (means_in_world, quats_wxyz, log_scales, colors):
        ok = ok & np.isfinite(columns).all(axis=1)
    with np.errstate(over="ignore"):
        ok &= np.isfinite(np.exp(np.asarray(log_scales, dtype=np.float32))).all(axis=1)
    return np.asarray(ok & (np.linalg.norm(quats_wxyz, axis=1) > 1e-8))


def rotation_matrices(quats_wxyz: Float[np.ndarray, "N 4"]) -> Float[np.ndarray, "N 3 3"]:
    """Rotation of each quaternion of any length."""
    w, x, y, z = (quats_wxyz / np.linalg.norm(quats_wxyz, axis=1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), -1, 0)


def project_reference(
    means_in_world: Float[np.ndarray, "N 3"],
    quats_wxyz: Float[np.ndarray, "N 4"],
    log_scales: Float[np.ndarray, "N 3"],
    camera: SplatCamera,
) -> Projected:
    """Local affine projection (Zwicker et al. 2001, eq. 29) of sound rows in front of the near plane."""
    rotation, translation = camera.camera_from_world[:3, :3], camera.camera_from_world[:3, 3]
    in_camera = means_in_world @ rotation.T + translation
    rows = np.flatnonzero(in_camera[:, 2] >= camera.near_m)
    rows = rows[np.argsort(in_camera[rows, 2], kind="stable")]
    x, y, z = in_camera[rows].T
    axes = rotation @ rotation_matrices(quats_wxyz[rows]) * np.exp(log_scales[rows])[:, None, :]
    covariances = axes @ np.swapaxes(axes, 1, 2)
    slope_x = _limited(x / z, camera.width_px, camera.fx_px, camera.cx_px)
    slope_y = _limited(y / z, camera.height_px, camera.fy_px, camera.cy_px)
    jacobians = np.zeros((len(rows), 2, 3))
    jacobians[:, 0, 0], jacobians[:, 0, 2] = camera.fx_px / z, -camera.fx_px * slope_x / z
    jacobians[:, 1, 1], jacobians[:, 1, 2] = camera.fy_px / z, -camera.fy_px * slope_y / z
    flat = jacobians @ covariances @ np.swapaxes(jacobians, 1, 2) + EPS2D_PX2 * np.eye(2)
    means_xy = np.stack([camera.fx_px * x / z + camera.cx_px, camera.fy_px * y / z + camera.cy_px], axis=1)
    return Projected(rows, means_xy, np.linalg.inv(flat), z)


def rasterize_reference(
    means_in_world: Float[np.ndarray, "N 3"],
    quats_wxyz: Float[np.ndarray, "N 4"],
    log_scales: Float[np.ndarray, "N 3"],
    opacity_logits: Float[np.ndarray, "N"],
    colors: Float[np.ndarray, "N 3"],
    camera: SplatCamera,
    background: Float[np.ndarray, "3"],
) -> ReferenceImage:
    """``rasterize``, one gaussian at a time over the whole image. Rows must be sound (see ``sound_rows``)."""
    projected = project_reference(means_in_world, quats_wxyz, log_scales, camera)
    opacities = 1.0 / (1.0 + np.exp(-np.asarray(opacity_logits, dtype=np.float64)))
    v, u = np.mgrid[0 : camera.height_px, 0 : camera.width_px].astype(np.float64)
    light = np.ones_like(u)
    closed = np.zeros(u.shape, dtype=bool)
    rgb, z_sum, z2_sum = np.zeros((*u.shape, 3)), np.zeros_like(u), np.zeros_like(u)
    median = np.full(u.shape, np.nan)
    for row, (mean_x, mean_y), conic, z in zip(
        projected.rows, projected.means_xy, projected.conics, projected.z, strict=True
    ):
        dx, dy = u - mean_x, v - mean_y
        sigma = 0.5 * (conic[0, 0] * dx * dx + conic[1, 1] * dy * dy) + conic[0, 1] * dx * dy
        alpha = np.minimum(opacities[row] * np.exp(-sigma), ALPHA_MAX)
        reached = (alpha >= ALPHA_MIN) & ~closed
        after = light * (1.0 - alpha)
        closed |= reached & (after <= TRANSMITTANCE_MIN)
        reached &= ~closed
        weight = np.where(reached, light * alpha, 0.0)
        rgb += weight[..., None] * colors[row]
        z_sum, z2_sum = z_sum + weight * z, z2_sum + weight * z * z
        median = np.where(reached & (light > 0.5) & (after <= 0.5), z, median)
        light = np.where(reached, after, light)
    cover = 1.0 - light
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = np.where(cover > 0, np.maximum(z2_sum / cover - (z_sum / cover) ** 2, 0.0), np.nan)
    return ReferenceImage(rgb + light[..., None] * np.asarray(background), cover, z_sum, median, variance)


def _limited(slope: Float[np.ndarray, "M"], size_px: int, focal_px: float, center_px: float) -> Float[np.ndarray, "M"]:
    """Slope x/z, kept within the field of view plus its margin (image from -0.5 to size - 0.5)."""
    margin = FOV_MARGIN * 0.5 * size_px / focal_px
    return np.asarray(
        np.clip(slope, (-0.5 - center_px) / focal_px - margin, (size_px - 0.5 - center_px) / focal_px + margin)
    )
