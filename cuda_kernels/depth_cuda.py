"""Per-pixel work on depth images, for a GPU: points in the world, the choice of a surface, static and sensor fused.

The CPU does the same with NumPy in ``geo.depth``, ``recon.render`` and ``recon.fuse``, to whose functions the tests
hold these kernels. Arrays and numbers come in, nothing of those rooms is known here. NaN is no depth, in and out.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, UInt8
from numba import cuda

from cuda_kernels.cuda_launch import check_device, launch, result, to_device
from cuda_kernels.errors import KernelError

NONE, STATIC, SENSOR, BOTH, OBJECT = range(5)  # as recon.records.DepthOrigin, by test


@dataclass(frozen=True)
class Surface:
    """One depth per pixel, and the standard deviation that what lies along the ray gives it."""

    z_depth_m: Float32[np.ndarray, "H W"]
    spread_m: Float32[np.ndarray, "H W"]


@dataclass(frozen=True)
class Fused:
    """Depth of one frame. ``moves``: masked or contradicted pixels, whose sensor holes are still open."""

    z_depth_m: Float32[np.ndarray, "H W"]
    sigma_m: Float32[np.ndarray, "H W"]
    origin: UInt8[np.ndarray, "H W"]
    moves: Bool[np.ndarray, "H W"]


def unproject_cuda(
    z_depth_m: Float[np.ndarray, "H W"],
    fx_fy_cx_cy_skew_px: Float[np.ndarray, "5"],
    world_from_camera: Float[np.ndarray, "4 4"],
) -> Float64[np.ndarray, "H W 3"]:
    """Points in the world of a pinhole's depth image; NaN where the depth is 0, negative or NaN.

    Args:
        z_depth_m: Depth along the camera's +z.
        fx_fy_cx_cy_skew_px: Focal lengths, principal point and skew; pixel centres at whole numbers.
        world_from_camera: Rigid pose.

    Raises:
        KernelError: no CUDA device, or shapes do not fit.

    Source: Hartley & Zisserman (2004), the inverse of eq. 6.1.
    """
    if z_depth_m.ndim != 2 or fx_fy_cx_cy_skew_px.shape != (5,) or world_from_camera.shape != (4, 4):
        raise KernelError(f"expected an [H, W] depth image, 5 numbers and a 4x4 pose, got depth {z_depth_m.shape}")
    check_device("geo.depth.unproject")
    out = cuda.device_array((z_depth_m.size, 3), dtype=np.float64)
    camera, pose = (to_device(np.asarray(a, dtype=np.float64)) for a in (fx_fy_cx_cy_skew_px, world_from_camera))
    launch(_unproject, z_depth_m.size, to_device(z_depth_m.reshape(-1)), z_depth_m.shape[1], camera, pose, out)
    return result(out).reshape(*z_depth_m.shape, 3)


def choose_surface_cuda(
    expected_z_m: Float32[np.ndarray, "H W"],
    median_z_m: Float32[np.ndarray, "H W"],
    variance_z_m2: Float32[np.ndarray, "H W"],
    *,
    split_share: float,
    split_floor_m: float,
    least_gap_m: float,
    sure_share: float,
) -> Surface:
    """The "edge" choice of ``recon.render.surface_depth`` and the spread of ``recon.render.ray_spread``.

    The median where |expected - median| exceeds ``split_share`` of it and ``split_floor_m``, else the expected depth.

    Raises:
        KernelError: no CUDA device, or images of different sizes.
    """
    shape = _one_shape(expected_z_m=expected_z_m, median_z_m=median_z_m, variance_z_m2=variance_z_m2)
    check_device("recon.render.surface_depth")
    images = [to_device(image.reshape(-1)) for image in (expected_z_m, median_z_m, variance_z_m2)]
    z, spread = (cuda.device_array(expected_z_m.size, dtype=np.float32) for _ in range(2))
    limits = (split_share, split_floor_m, least_gap_m, sure_share)
    launch(_choose, expected_z_m.size, *images, *map(float, limits), z, spread)
    return Surface(result(z).reshape(shape), result(spread).reshape(shape))


def fuse_depth_cuda(
    static_z_m: Float32[np.ndarray, "H W"],
    static_sigma_m: Float32[np.ndarray, "H W"],
    sensor_z_m: Float32[np.ndarray, "H W"],
    sensor_sigma_m: Float32[np.ndarray, "H W"],
    dynamic: Bool[np.ndarray, "H W"],
    object_z_m: Float32[np.ndarray, "H W"],
    *,
    disagreement_m: float,
    disagreement_sigmas: float,
    disagreement_radius_px: int,
    object_sigma_m: float,
) -> Fused:
    """The rule of ``recon.fuse.combine`` without its last step: sensor holes on what moves are left open (NONE).

    Raises:
        KernelError: no CUDA device, images of different sizes, or a negative radius.
    """
    images = (static_z_m, static_sigma_m, sensor_z_m, sensor_sigma_m, object_z_m)
    shape = _one_shape(
        static_z_m=static_z_m, static_sigma_m=static_sigma_m, sensor_z_m=sensor_z_m, sensor_sigma_m=sensor_sigma_m,
        dynamic=dynamic, object_z_m=object_z_m,
    )  # fmt: skip
    if disagreement_radius_px < 0:
        raise KernelError(f"disagreement_radius_px is {disagreement_radius_px}; it must not be negative")
    check_device("recon.fuse.combine")
    count, width = dynamic.size, shape[1]
    static, static_sigma, sensor, sensor_sigma, lifted = (to_device(image.reshape(-1)) for image in images)
    agree, contradicts, eroded, moves, origin = (cuda.device_array(count, dtype=np.uint8) for _ in range(5))
    z, sigma = (cuda.device_array(count, dtype=np.float32) for _ in range(2))
    limits = float(disagreement_m), float(disagreement_sigmas)
    launch(_agree, count, static, static_sigma, sensor, sensor_sigma, *limits, agree, contradicts)
    launch(_erode, count, contradicts, width, disagreement_radius_px, eroded)
    launch(_dilate_or, count, eroded, width, disagreement_radius_px, to_device(dynamic.reshape(-1)), moves)
    launch(
        _fuse, count, static, static_sigma, sensor, sensor_sigma, lifted, agree, moves, float(object_sigma_m), z, sigma,
        origin,
    )  # fmt: skip
    depth, error, kind, moving = (result(array).reshape(shape) for array in (z, sigma, origin, moves))
    return Fused(depth, error, kind, moving != 0)


def _one_shape(**images: np.ndarray) -> tuple[int, int]:
    """The [H, W] that all images share.

    Raises:
        KernelError: they do not; names them.
    """
    shapes = {name: image.shape for name, image in images.items()}
    if len(set(shapes.values())) != 1 or len(next(iter(shapes.values()))) != 2:
        raise KernelError(f"images of one size [H, W] are wanted, got {shapes}")
    height, width = next(iter(shapes.values()))
    return height, width


@cuda.jit
def _unproject(depth: Any, width: int, camera: Any, pose: Any, out: Any) -> None:
    at = cuda.grid(1)
    if at >= depth.size:
        return
    v, u = at // width, at % width
    z = float(depth[at])
    if not z > 0.0:  # NaN compares False
        for k in range(3):
            out[at, k] = math.nan
        return
    y = (v - camera[3]) / camera[1]
    x = (u - camera[2] - camera[4] * y) / camera[0]
    for k in range(3):
        out[at, k] = pose[k, 0] * (x * z) + pose[k, 1] * (y * z) + pose[k, 2] * z + pose[k, 3]


@cuda.jit
def _choose(
    expected: Any, median: Any, variance: Any, share: float, floor: float, least_gap: float, sure: float, z: Any,
    spread: Any,
) -> None:  # fmt: skip
    at = cuda.grid(1)
    if at >= expected.size:
        return
    mean, middle, square = float(expected[at]), float(median[at]), float(variance[at])
    gap = abs(mean - middle)
    z[at] = middle if math.isfinite(middle) and gap > max(floor, share * middle) else mean
    if math.isnan(gap) or math.isnan(square):
        spread[at] = math.nan
        return
    square = max(square, 0.0)
    distance = square / gap + gap if gap > least_gap else 0.0  # to the other surface
    doubt = max((gap / distance if distance > 0.0 else 0.0) - sure, 0.0)
    spread[at] = math.sqrt(min(square, gap * gap) + doubt * distance * distance)


@cuda.jit
def _agree(
    static: Any, static_sigma: Any, sensor: Any, sensor_sigma: Any, fixed: float, sigmas: float, agree: Any,
    contradicts: Any,
) -> None:  # fmt: skip
    at = cuda.grid(1)
    if at >= static.size:
        return
    a, b = float(static[at]), float(sensor[at])
    agree[at], contradicts[at] = 0, 0
    if math.isfinite(a) and math.isfinite(b):
        limit = fixed + sigmas * math.hypot(float(static_sigma[at]), float(sensor_sigma[at]))
        # a large spread along the ray must not hide that something stands in front; NaN agrees with nothing
        near = abs(b - a) <= limit and abs(b - a) <= fixed + 0.05 * a
        agree[at], contradicts[at] = near, not near


@cuda.jit
def _erode(mask: Any, width: int, radius: int, out: Any) -> None:
    """1 where the whole square around is 1; outside the image counts as 0."""
    at = cuda.grid(1)
    if at >= mask.size:
        return
    v, u, height = at // width, at % width, mask.size // width
    whole = 1
    for row in range(v - radius, v + radius + 1):
        for col in range(u - radius, u + radius + 1):
            if row < 0 or col < 0 or row >= height or col >= width or mask[row * width + col] == 0:
                whole = 0
    out[at] = whole


@cuda.jit
def _dilate_or(mask: Any, width: int, radius: int, other: Any, out: Any) -> None:
    """1 where any pixel of the square around is 1, or ``other`` holds."""
    at = cuda.grid(1)
    if at >= mask.size:
        return
    v, u, height = at // width, at % width, mask.size // width
    some = 1 if other[at] else 0
    for row in range(max(v - radius, 0), min(v + radius + 1, height)):
        for col in range(max(u - radius, 0), min(u + radius + 1, width)):
            if mask[row * width + col] != 0:
                some = 1
    out[at] = some


@cuda.jit
def _fuse(
    static: Any, static_sigma: Any, sensor: Any, sensor_sigma: Any, lifted: Any, agree: Any, moves: Any,
    lifted_sigma: float, z: Any, sigma: Any, origin: Any,
) -> None:  # fmt: skip
    at = cuda.grid(1)
    if at >= static.size:
        return
    a, b = float(static[at]), float(sensor[at])
    error_a, error_b = float(static_sigma[at]), float(sensor_sigma[at])
    has_a, has_b, still = math.isfinite(a), math.isfinite(b), moves[at] == 0
    z[at], sigma[at], origin[at] = math.nan, math.nan, NONE
    if agree[at] != 0:
        weight_a, weight_b = 1.0 / (error_a * error_a), 1.0 / (error_b * error_b)
        z[at] = (a * weight_a + b * weight_b) / (weight_a + weight_b)
        sigma[at], origin[at] = 1.0 / math.sqrt(weight_a + weight_b), BOTH
    elif still and has_a and has_b:  # along an edge: the surer one, and half the difference as its error
        doubt = abs(b - a) / 2
        if error_b < error_a:
            z[at], sigma[at], origin[at] = b, _larger(error_b, doubt), SENSOR
        else:
            z[at], sigma[at], origin[at] = a, _larger(error_a, doubt), STATIC
    elif has_b:
        z[at], sigma[at], origin[at] = b, error_b, SENSOR
    elif still and has_a:
        z[at], sigma[at], origin[at] = a, error_a, STATIC
    if not has_b and math.isfinite(lifted[at]):
        z[at], sigma[at], origin[at] = float(lifted[at]), lifted_sigma, OBJECT


@cuda.jit(device=True)
def _larger(a: float, b: float) -> float:
    """Like ``numpy.fmax``: NaN loses."""
    if math.isnan(a):
        return b
    return b if b > a else a
