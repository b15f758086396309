"""Splats as a plain point cloud: centres, colours, and normals where a splat is flat enough to have one."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, UInt8

from geo import se3
from recon.model import drop_bad, rgb_from_sh0, select
from recon.records import SplatModel

MIN_OPACITY = 0.5
_FLAT = 0.5  # thickness over middle axis; above, the thinnest axis says nothing of a surface


@dataclass(frozen=True)
class SplatPoints:
    """Centres of the solid splats in the world frame. A normal of 0 0 0 is unknown."""

    points_in_world: Float[np.ndarray, "P 3"]
    rgb: UInt8[np.ndarray, "P 3"]
    normals_in_world: Float32[np.ndarray, "P 3"]


def splat_points(
    model: SplatModel, camera_centres_in_world: Float[np.ndarray, "C 3"], min_opacity: float = MIN_OPACITY
) -> SplatPoints:
    """Centres, base colours and normals of the splats that are more opaque than ``min_opacity``.

    A splat's normal is its thinnest axis if that is less than half of the middle one, turned towards the nearest
    camera: surfaces are seen from their outside. Without cameras no side is known, and no normal. Rows that cannot be
    rendered are left out.

    Args:
        model: Splats.
        camera_centres_in_world: Where the wearer was; NaN rows are left out.
        min_opacity: Between 0 and 1.
    """
    model = drop_bad(model).model
    opaque = np.flatnonzero(model.opacity_logits > np.log(min_opacity / (1 - min_opacity)))
    model = select(model, opaque)
    points = model.means_in_world.astype(np.float64)
    rgb = np.clip(np.rint(rgb_from_sh0(model.sh_coeffs) * 255), 0, 255).astype(np.uint8)
    known = np.isfinite(camera_centres_in_world).all(axis=1)
    return SplatPoints(points, rgb, _normals(model, points, camera_centres_in_world[known]))


def _normals(
    model: SplatModel, points: Float[np.ndarray, "P 3"], cameras: Float[np.ndarray, "C 3"]
) -> Float32[np.ndarray, "P 3"]:
    normals = np.zeros(points.shape, dtype=np.float32)
    if not len(points) or not len(cameras):
        return normals
    from scipy.spatial import cKDTree

    order = np.argsort(model.log_scales, axis=1, kind="stable")
    thickness = np.diff(np.take_along_axis(model.log_scales, order[:, :2], axis=1), axis=1)[:, 0]
    flat = np.flatnonzero(thickness > -np.log(_FLAT))
    unit = model.quats_wxyz[flat].astype(np.float64)
    axes = se3.rotation_from_quat_wxyz(unit / np.linalg.norm(unit, axis=1, keepdims=True))
    thinnest = np.take_along_axis(axes, order[flat, :1, None].transpose(0, 2, 1), axis=2)[:, :, 0]
    to_camera = cameras[cKDTree(cameras).query(points[flat])[1]] - points[flat]
    side = np.where((thinnest * to_camera).sum(axis=1) < 0, -1.0, 1.0)
    normals[flat] = thinnest * side[:, None]
    return normals
