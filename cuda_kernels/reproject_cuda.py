"""GPU twin of ``cuda_kernels.reproject``: one thread a source pixel, the nearest surface by an atomic minimum.

A minimum does not depend on the order of the threads, so the result is the same every time. Import this module where
it is used only: it imports ``numba.cuda``.
"""

import inspect
import math
from typing import Any

import numpy as np
from jaxtyping import Float, Float32
from numba import cuda, float64

from cuda_kernels import reproject_rules as rules
from cuda_kernels.cuda_launch import check_device, launch, result, to_device
from cuda_kernels.reproject import check_arguments

_MARGIN_PX = rules.MARGIN_PX
_inverse = cuda.jit(device=True)(inspect.unwrap(rules.inverse))
_slope = cuda.jit(device=True)(inspect.unwrap(rules.slope))
_plane = cuda.jit(device=True)(inspect.unwrap(rules.plane_in_target))
_corner = cuda.jit(device=True)(inspect.unwrap(rules.corner_in_target))
_turn = cuda.jit(device=True)(inspect.unwrap(rules.turn_of))
_is_inside = cuda.jit(device=True)(inspect.unwrap(rules.is_inside))
_depth_at = cuda.jit(device=True)(inspect.unwrap(rules.depth_at))


def reproject_z_depth_cuda(
    z_depth_m: Float32[np.ndarray, "H W"],
    source_fxfycxcy_px: Float[np.ndarray, "4"],
    target_fxfycxcy_px: Float[np.ndarray, "4"],
    target_size_wh_px: tuple[int, int],
    target_from_source: Float[np.ndarray, "4 4"],
    max_rel_jump: float,
    min_z_m: float,
) -> Float32[np.ndarray, "h w"]:
    """Like ``cuda_kernels.reproject.reproject_z_depth``, on the GPU.

    Raises:
        KernelError: no CUDA device, or arrays of other shapes.
    """
    check_arguments(z_depth_m, source_fxfycxcy_px, target_fxfycxcy_px, target_from_source)
    check_device("cuda_kernels.reproject")
    width, height = target_size_wh_px
    out = to_device(np.full(height * width, np.inf, dtype=np.float32))
    numbers = [
        to_device(np.asarray(array, dtype=np.float64))
        for array in (source_fxfycxcy_px, target_fxfycxcy_px, target_from_source)
    ]
    depth = to_device(z_depth_m.astype(np.float32, copy=False).reshape(-1))
    limits = float(max_rel_jump), float(min_z_m)
    launch(_reproject, z_depth_m.size, depth, z_depth_m.shape[1], *numbers, *limits, width, height, out)
    z = result(out).reshape(height, width)
    return np.where(np.isinf(z), np.float32(np.nan), z)


@cuda.jit
def _reproject(
    depth: Any, width: int, k_source: Any, k_target: Any, matrix: Any, max_rel_jump: float, min_z: float, cols: int,
    rows: int, out: Any,
) -> None:  # fmt: skip
    at = cuda.grid(1)
    if at >= depth.size:
        return
    v, u = at // width, at % width
    q = _inverse(depth[at])
    if q == 0.0:
        return
    left = _inverse(depth[at - 1]) if u > 0 else 0.0
    right = _inverse(depth[at + 1]) if u + 1 < width else 0.0
    above = _inverse(depth[at - width]) if v > 0 else 0.0
    below = _inverse(depth[at + width]) if at + width < depth.size else 0.0
    qu, qv = _slope(q, left, right, max_rel_jump), _slope(q, above, below, max_rel_jump)
    fx, fy = k_source[0], k_source[1]
    xn, yn = (u - k_source[2]) / fx, (v - k_source[3]) / fy
    px, py = cuda.local.array(4, float64), cuda.local.array(4, float64)
    z_low, z_high = math.inf, 0.0
    u_low, u_high, v_low, v_high = math.inf, -math.inf, math.inf, -math.inf
    for k in range(4):
        px[k], py[k], z = _corner(q, qu, qv, xn, yn, fx, fy, k, matrix, k_target)
        if not z > min_z:
            return
        z_low, z_high = min(z_low, z), max(z_high, z)
        u_low, u_high = min(u_low, px[k]), max(u_high, px[k])
        v_low, v_high = min(v_low, py[k]), max(v_high, py[k])
    if u_high < -1.0 or v_high < -1.0 or u_low > cols or v_low > rows:
        return
    m0, m1, m2, offset = _plane(q, qu, qv, xn, yn, fx, fy, matrix)
    turn = _turn(px, py)
    first_row, last_row = max(0, math.ceil(v_low - _MARGIN_PX)), min(rows - 1, math.floor(v_high + _MARGIN_PX))
    first_col, last_col = max(0, math.ceil(u_low - _MARGIN_PX)), min(cols - 1, math.floor(u_high + _MARGIN_PX))
    for row in range(first_row, last_row + 1):
        for col in range(first_col, last_col + 1):
            if _is_inside(px, py, turn, col, row):
                seen = _depth_at(m0, m1, m2, offset, z_low, z_high, col, row, k_target)
                cuda.atomic.min(out, row * cols + col, np.float32(seen))
