"""Depth images: units, the kinds of nothing, z against ray, points, sampling, another camera's view.

``z_depth_m`` is along the camera's +z, ``ray_distance_m`` along the pixel's ray. No depth is NaN.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float32, Num, Shaped

from geo import se3
from geo.cameras import Camera, PinholeCamera
from geo.errors import CameraError, GeoError, ShapeError

MAX_REL_JUMP = 0.05  # neighbouring pixels further apart than 5 % of the nearer depth are two surfaces


def check_depth_size(depth: Shaped[np.ndarray, "..."], camera: Camera, what: str = "z_depth_m") -> None:
    """Refuse a depth image that does not have its camera's size.

    Raises:
        ShapeError: naming both sizes.
    """
    if depth.shape != (camera.height_px, camera.width_px):
        raise ShapeError(
            f"{what} has shape {depth.shape}, but its camera is {camera.width_px}x{camera.height_px} (W x H). "
            "Pass the depth's own camera, or `camera.resized(...)`."
        )


def unproject(z_depth_m: Float[np.ndarray, "H W"], camera: Camera) -> Float[np.ndarray, "H W 3"]:
    """Lift a depth image to points in the camera frame.

    Pixels without depth (0, negative or NaN) and pixels without a ray in front give NaN points, so that the grid
    keeps its shape.

    Args:
        z_depth_m: Depth along +z, NOT distance along the ray; see ``ray_to_z_depth``.
        camera: Camera of the image.

    Returns:
        Points in the camera frame in the depth's unit, indexed [v, u].

    Raises:
        ShapeError: if the depth image and the camera's size disagree.

    Source: Hartley & Zisserman (2004), the inverse of eq. 6.1.
    """
    check_depth_size(z_depth_m, camera)
    depth = np.where(z_depth_m > 0, z_depth_m, np.nan).astype(np.float64)
    if isinstance(camera, PinholeCamera):
        return camera.normalised_points(camera.pixel_grid()) * depth[..., None]
    directions = camera.unproject(camera.pixel_grid()).directions
    with np.errstate(invalid="ignore", divide="ignore"):
        distance = np.where(directions[..., 2] > 1e-9, depth / directions[..., 2], np.nan)
    return directions * distance[..., None]


def _cosine(camera: Camera) -> Float[np.ndarray, "H W"]:
    """Forward part of each pixel's unit ray; NaN where it does not look forward."""
    cosine = camera.unproject(camera.pixel_grid()).directions[..., 2]
    with np.errstate(invalid="ignore"):
        return np.where(cosine > 1e-9, cosine, np.nan)


def ray_to_z_depth(ray_distance_m: Float[np.ndarray, "H W"], camera: Camera) -> Float[np.ndarray, "H W"]:
    """Distance along each pixel's ray to depth along +z (FIELD L3); NaN stays NaN, rays beyond 90 degrees give NaN."""
    check_depth_size(ray_distance_m, camera, "ray_distance_m")
    return np.asarray(ray_distance_m * _cosine(camera), dtype=ray_distance_m.dtype)


def z_to_ray_distance(z_depth_m: Float[np.ndarray, "H W"], camera: Camera) -> Float[np.ndarray, "H W"]:
    """Depth along +z to distance along each pixel's ray; the inverse of ``ray_to_z_depth``."""
    check_depth_size(z_depth_m, camera)
    return np.asarray(z_depth_m / _cosine(camera), dtype=z_depth_m.dtype)


def clean_depth(
    raw: Num[np.ndarray, "H W"],
    unit_m: float,
    max_depth_m: float = 20.0,
    invalid: Sequence[float] = (),
) -> Float32[np.ndarray, "H W"]:
    """Metres with NaN for "nothing", from any raw depth image (FIELD L2).

    Nothing are: 0, NaN, infinity, negative numbers, 65535 in a uint16 image, depths beyond ``max_depth_m``, and the
    raw values listed in ``invalid``.

    Args:
        raw: Depth or distance as stored.
        unit_m: Metres of one raw count: 0.001 for millimetres, 1.0 for metres. Never guessed from the dtype.
        max_depth_m: Larger is nothing.
        invalid: Further raw values that mean nothing.

    Raises:
        GeoError: if the unit is not a positive finite number.
    """
    if not (np.isfinite(unit_m) and unit_m > 0):
        raise GeoError(f"unit_m = {unit_m} must be a positive number of metres: 0.001 for mm, 1.0 for metres")
    depth = raw.astype(np.float64) * unit_m
    with np.errstate(invalid="ignore"):
        bad = ~np.isfinite(depth) | (depth <= 0) | (depth > max_depth_m)
    if raw.dtype == np.uint16:
        bad |= raw == 65535
    for value in invalid:
        bad |= raw == value
    return np.where(bad, np.nan, depth).astype(np.float32)


def _plain_pinhole(camera: Camera, what: str) -> Float[np.ndarray, "4"]:
    """Focal lengths and principal point of a pinhole for the kernel.

    Raises:
        CameraError: if it is another model or has skew.
    """
    if not isinstance(camera, PinholeCamera) or camera.skew_px:
        raise CameraError(f"the {what} camera of a depth reprojection must be a pinhole without skew, not {camera}")
    return camera.params[:4]


def reproject_depth(
    z_depth_m: Float[np.ndarray, "H W"],
    source_camera: PinholeCamera,
    target_camera: PinholeCamera,
    target_from_source: Float[np.ndarray, "4 4"],
    max_rel_jump: float = MAX_REL_JUMP,
    min_z_m: float = 1e-3,
) -> Float32[np.ndarray, "h w"]:
    """Depth image as another camera would see it: nearest surface wins, no holes in surfaces, no bridges over edges.

    A source pixel is a patch of a plane whose slope comes from neighbours on the same surface; a target pixel whose
    centre falls into the patch takes the plane's depth along its own ray (exact on planes).

    Args:
        z_depth_m: Depth along the source camera's +z; NaN or <= 0 is none.
        source_camera: Camera of ``z_depth_m``.
        target_camera: Camera of the result.
        target_from_source: Takes points in the source camera's frame to the target camera's.
        max_rel_jump: Neighbours further apart than this part of the nearer depth are two surfaces.
        min_z_m: Points nearer than this to the target's image plane are dropped.

    Returns:
        float32 depth along the target camera's +z, NaN where no source pixel lands.

    Raises:
        ShapeError, CameraError, PoseError: sizes differ; a camera is no plain pinhole; the transform is not rigid.
    """
    from cuda_kernels.reproject import reproject_z_depth  # numba: imported where it is needed

    check_depth_size(z_depth_m, source_camera)
    rigid = se3.check_rigid(target_from_source, "target_from_source")
    return reproject_z_depth(
        z_depth_m.astype(np.float32, copy=False),
        _plain_pinhole(source_camera, "source"),
        _plain_pinhole(target_camera, "target"),
        target_camera.size_wh_px,
        rigid,
        max_rel_jump,
        min_z_m,
    )


def sample_depth(
    z_depth_m: Float[np.ndarray, "H W"],
    pixels_xy: Float[np.ndarray, "*batch 2"],
    interpolate: bool = True,
    max_rel_jump: float = MAX_REL_JUMP,
) -> Float[np.ndarray, "*batch"]:
    """Depth at pixels between the centres, never mixed across an edge or with "nothing".

    Where the four pixels around lie on one surface, inverse depth is interpolated (exact on planes); elsewhere, and
    with ``interpolate=False``, the nearest pixel counts. NaN outside the image and where the nearest pixel has none.
    """
    height, width = z_depth_m.shape
    x, y = np.asarray(pixels_xy[..., 0], dtype=np.float64), np.asarray(pixels_xy[..., 1], dtype=np.float64)
    with np.errstate(invalid="ignore"):
        inside = np.asarray((x >= -0.5) & (x < width - 0.5) & (y >= -0.5) & (y < height - 0.5))
    x, y = np.where(inside, x, 0.0), np.where(inside, y, 0.0)
    depth = np.where(z_depth_m > 0, z_depth_m, np.nan).astype(np.float64)
    nearest = depth[np.floor(y + 0.5).astype(np.int64), np.floor(x + 0.5).astype(np.int64)]
    out = np.where(inside, nearest, np.nan)
    if not interpolate:
        return np.asarray(out)
    x0, y0 = np.clip(np.floor(x), 0, width - 1).astype(np.int64), np.clip(np.floor(y), 0, height - 1).astype(np.int64)
    x1, y1 = np.minimum(x0 + 1, width - 1), np.minimum(y0 + 1, height - 1)
    wx, wy = np.clip(x - x0, 0, 1), np.clip(y - y0, 0, 1)
    corners = np.stack([depth[y0, x0], depth[y0, x1], depth[y1, x0], depth[y1, x1]])
    low, high = corners.min(axis=0), corners.max(axis=0)  # NaN if any is NaN
    with np.errstate(invalid="ignore"):
        smooth = inside & (high - low <= max_rel_jump * low)
    weights = np.stack([(1 - wx) * (1 - wy), wx * (1 - wy), (1 - wx) * wy, wx * wy])
    with np.errstate(divide="ignore", invalid="ignore"):
        mixed = 1.0 / (weights / corners).sum(axis=0)
    return np.asarray(np.where(smooth, mixed, out))
