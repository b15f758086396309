"""Depth of moving objects where the sensor has holes: the registered model, seen from the frame's camera."""

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from geo import se3
from geo.cameras import PinholeCamera
from lifting.config import LiftConfig
from lifting.register import BodyModel, Registration


def predict_depth(
    model: BodyModel,
    pose: Registration,
    camera: PinholeCamera,
    world_from_camera: Float64[np.ndarray, "4 4"],
    mask: Bool[np.ndarray, "h w"],
    sensor_z_m: Float[np.ndarray, "h w"],
    config: LiftConfig,
) -> tuple[Int64[np.ndarray, "K 2"], Float[np.ndarray, "K"]]:
    """Pixels (v, u) of the mask without sensor depth, and the depth that the model gives them.

    The nearest model point in the image among those that face the camera decides, corrected by the median
    difference between model and sensor where both are; without a model the nearest sensor pixel of the same mask.
    Pixels further than six pixels from any such point stay empty.
    """
    from scipy.spatial import cKDTree

    holes = np.argwhere(mask & ~np.isfinite(sensor_z_m))
    seen = np.argwhere(mask & np.isfinite(sensor_z_m))
    seen_z = sensor_z_m[seen[:, 0], seen[:, 1]].astype(np.float64)
    if len(seen):
        middle = float(np.median(seen_z))
        sane = np.abs(seen_z - middle) < float(np.linalg.norm(model.extent_m)) / 2 + config.depth_gap_m
        seen, seen_z = seen[sane], seen_z[sane]
    if len(holes) == 0:
        return holes.astype(np.int64), np.zeros(0)
    pixels, z = _front_points(model, pose, camera, world_from_camera)
    if len(z) and len(seen) >= config.min_depth_pixels:
        gap, index = cKDTree(pixels).query(seen)
        near = gap < 3.0
        if near.sum() >= 5:
            z = z + np.median(seen_z[near] - z[index[near]])
    support = np.concatenate([pixels, seen.astype(np.float64)])
    values = np.concatenate([z, seen_z])
    if len(values) == 0:
        return np.zeros((0, 2), dtype=np.int64), np.zeros(0)
    near_count = min(3, len(values))
    gap, index = cKDTree(support).query(holes, k=near_count)
    gap, index = gap.reshape(len(holes), -1), index.reshape(len(holes), -1)
    kept = gap[:, 0] <= 6.0
    z_holes = np.median(values[index[kept]], axis=1)
    return holes[kept].astype(np.int64), z_holes


def _front_points(
    model: BodyModel, pose: Registration, camera: PinholeCamera, world_from_camera: Float64[np.ndarray, "4 4"]
) -> tuple[Float64[np.ndarray, "K 2"], Float64[np.ndarray, "K"]]:
    """Model points that no other model point hides: pixels (v, u) and depth."""
    if model.tree is None:
        return np.zeros((0, 2)), np.zeros(0)
    world = pose.center_in_world + model.points_in_box @ pose.rotation.T
    in_camera = se3.transform_points(se3.inverse(world_from_camera), world)
    projection = camera.project(in_camera)
    ok = projection.valid & camera.in_image(np.nan_to_num(projection.pixels_xy, nan=-9.0))
    pixels, z = projection.pixels_xy[ok][:, ::-1], in_camera[ok, 2]
    if len(z) == 0:
        return pixels, z
    cell_px = max(3.0, 0.012 * camera.fx_px / float(np.median(z)))
    _, inverse = np.unique(np.floor(pixels / cell_px).astype(np.int64), axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    nearest = np.full(int(inverse.max()) + 1, np.inf)
    np.minimum.at(nearest, inverse, z)
    front = z <= nearest[inverse] + 0.015 * max(1e-9, float(np.median(z)))
    return pixels[front], z[front]
