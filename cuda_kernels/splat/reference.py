"""The rule once more, in plain NumPy and float64: slow, and written to be checked against the formulas by eye.

Nothing here is shared with the kernels but the constants. Tests hold every kernel against it.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int64

from cuda_kernels.splat.rules import ALPHA_MAX, ALPHA_MIN, EPS2D_PX2, FOV_MARGIN, THETA_MAX_RAD, TRANSMITTANCE_MIN
from cuda_kernels.splat.types import SplatCamera


@dataclass(frozen=True)
class ReferenceImage:
    """What ``rasterize`` gives, in float64; of a fisheye with distances in place of z."""

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
    z: Float[np.ndarray, "M"]  # of a fisheye the distance


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
    """Local affine projection (Zwicker et al. 2001, eq. 29) of sound rows in front of the near plane (or sphere)."""
    rotation, translation = camera.camera_from_world[:3, :3], camera.camera_from_world[:3, 3]
    in_camera = means_in_world @ rotation.T + translation
    depth = in_camera[:, 2] if camera.kb4 is None else np.linalg.norm(in_camera, axis=1)
    near = depth >= camera.near_m
    if camera.kb4 is not None:
        near &= np.arctan2(np.hypot(in_camera[:, 0], in_camera[:, 1]), in_camera[:, 2]) <= _largest_angle(camera)
    rows = np.flatnonzero(near)
    rows = rows[np.argsort(depth[rows], kind="stable")]
    axes = rotation @ rotation_matrices(quats_wxyz[rows]) * np.exp(log_scales[rows])[:, None, :]
    covariances = axes @ np.swapaxes(axes, 1, 2)
    through = _through_pinhole if camera.kb4 is None else _through_fisheye
    means_xy, jacobians = through(in_camera[rows], camera)
    flat = jacobians @ covariances @ np.swapaxes(jacobians, 1, 2) + EPS2D_PX2 * np.eye(2)
    return Projected(rows, means_xy, np.linalg.inv(flat), depth[rows])


def _through_pinhole(
    in_camera: Float[np.ndarray, "M 3"], camera: SplatCamera
) -> tuple[Float[np.ndarray, "M 2"], Float[np.ndarray, "M 2 3"]]:
    """Means and Jacobians, these linearised within the field of view and its margin."""
    x, y, z = in_camera.T
    slope_x = _limited(x / z, camera.width_px, camera.fx_px, camera.cx_px)
    slope_y = _limited(y / z, camera.height_px, camera.fy_px, camera.cy_px)
    jacobians = np.zeros((len(z), 2, 3))
    jacobians[:, 0, 0], jacobians[:, 0, 2] = camera.fx_px / z, -camera.fx_px * slope_x / z
    jacobians[:, 1, 1], jacobians[:, 1, 2] = camera.fy_px / z, -camera.fy_px * slope_y / z
    return np.stack([camera.fx_px * x / z + camera.cx_px, camera.fy_px * y / z + camera.cy_px], axis=1), jacobians


def _through_fisheye(
    in_camera: Float[np.ndarray, "M 3"], camera: SplatCamera
) -> tuple[Float[np.ndarray, "M 2"], Float[np.ndarray, "M 2 3"]]:
    """Means and Jacobians in the directions that suit a lens: outwards, around the axis, along the axis.

    A step outwards turns theta by z / (rho^2 + z^2), a step along the axis by -rho / (rho^2 + z^2), and both move the
    image point outwards by r'(theta) times that; a step around moves it around by r / rho.
    """
    k1, k2, k3, k4 = np.asarray(camera.kb4, dtype=np.float64)
    x, y, z = in_camera.T
    rho = np.hypot(x, y)
    theta = np.arctan2(rho, z)
    radius = theta + k1 * theta**3 + k2 * theta**5 + k3 * theta**7 + k4 * theta**9
    slope = 1 + 3 * k1 * theta**2 + 5 * k2 * theta**4 + 7 * k3 * theta**6 + 9 * k4 * theta**8
    on_axis = rho == 0
    far = np.where(on_axis, 1.0, rho)
    outwards = np.stack([np.where(on_axis, 1.0, x / far), np.where(on_axis, 0.0, y / far)], axis=1)
    around = np.stack([-outwards[:, 1], outwards[:, 0]], axis=1)
    distance2 = rho**2 + z**2
    turn = np.where(on_axis, 1 / np.where(z == 0, 1.0, z), radius / far)
    focal = np.array([camera.fx_px, camera.fy_px])
    jacobians = np.empty((len(z), 2, 3))
    across = slope * z / distance2
    jacobians[:, :, :2] = across[:, None, None] * outwards[:, :, None] * outwards[:, None, :]
    jacobians[:, :, :2] += turn[:, None, None] * around[:, :, None] * around[:, None, :]
    jacobians[:, :, 2] = -(slope * rho / distance2)[:, None] * outwards
    means_xy = radius[:, None] * outwards * focal + [camera.cx_px, camera.cy_px]
    return means_xy, jacobians * focal[:, None]


def _largest_angle(camera: SplatCamera) -> float:
    """Up to where centres are drawn: searched on a fine grid of angles."""
    k1, k2, k3, k4 = np.asarray(camera.kb4, dtype=np.float64)
    theta = np.linspace(0.0, THETA_MAX_RAD, 20_001)
    radius = theta + k1 * theta**3 + k2 * theta**5 + k3 * theta**7 + k4 * theta**9
    falls = np.flatnonzero(np.diff(radius) <= 0)
    turning = theta[falls[0]] if len(falls) else THETA_MAX_RAD
    u = np.array([-0.5, camera.width_px - 0.5])[:, None] - camera.cx_px
    v = np.array([-0.5, camera.height_px - 0.5]) - camera.cy_px
    beyond = np.flatnonzero((radius >= np.hypot(u / camera.fx_px, v / camera.fy_px).max()) & (theta <= turning))
    corner = theta[beyond[0]] if len(beyond) else turning
    stated = np.inf if camera.valid_theta_rad is None else camera.valid_theta_rad
    return float(min(corner * (1 + FOV_MARGIN), turning, stated))


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
