"""Depth images seen from another pinhole: every source pixel is a small patch of a plane, nearest surface wins.

    source pixel (u, v) with inverse depth q and its gradient (qu, qv): in a pinhole a plane has an inverse depth that
    is linear in the pixel, so the patch [u +- 1/2] x [v +- 1/2] is a quad of the plane n . X = 1. Its four corners
    are projected into the target; every target pixel centre inside takes the depth of the plane along its own ray.

The gradient uses neighbours on the same surface only (relative jump below ``max_rel_jump``), the smaller slope of the
two sides, so no patch reaches across a depth edge.
"""

import numpy as np
from jaxtyping import Float, Float32, Shaped

from cuda_kernels import reproject_rules as rules
from cuda_kernels.errors import KernelError
from cuda_kernels.jit import jit

_MARGIN_PX = rules.MARGIN_PX


def reproject_z_depth(
    z_depth_m: Float32[np.ndarray, "H W"],
    source_fxfycxcy_px: Float[np.ndarray, "4"],
    target_fxfycxcy_px: Float[np.ndarray, "4"],
    target_size_wh_px: tuple[int, int],
    target_from_source: Float[np.ndarray, "4 4"],
    max_rel_jump: float,
    min_z_m: float,
) -> Float32[np.ndarray, "h w"]:
    """Depth along the target's +z at every target pixel; NaN where no source pixel lands.

    Args:
        z_depth_m: Depth along the source's +z; NaN or <= 0 is none.
        source_fxfycxcy_px: Focal lengths and principal point of the source; pixel centres at whole numbers.
        target_fxfycxcy_px: The same of the target.
        target_size_wh_px: Width and height of the result.
        target_from_source: Rigid transform between the two camera frames.
        max_rel_jump: Neighbours whose depths differ by more than this part of the nearer one are different surfaces.
        min_z_m: Points nearer to the target's image plane than this are dropped.

    Raises:
        KernelError: arrays of other shapes.
    """
    check_arguments(z_depth_m, source_fxfycxcy_px, target_fxfycxcy_px, target_from_source)
    width, height = target_size_wh_px
    out = np.full((height, width), np.inf, dtype=np.float32)
    matrix = np.ascontiguousarray(target_from_source, dtype=np.float64)
    depth = np.ascontiguousarray(z_depth_m, dtype=np.float32)
    _reproject_cpu(depth, source_fxfycxcy_px, target_fxfycxcy_px, matrix, max_rel_jump, min_z_m, out)
    out[np.isinf(out)] = np.nan
    return out


def check_arguments(
    z_depth_m: Shaped[np.ndarray, "..."],
    source_fxfycxcy_px: Shaped[np.ndarray, "..."],
    target_fxfycxcy_px: Shaped[np.ndarray, "..."],
    target_from_source: Shaped[np.ndarray, "..."],
) -> None:
    """Refuse arrays of other shapes.

    Raises:
        KernelError: naming them.
    """
    shapes = [np.shape(a) for a in (source_fxfycxcy_px, target_fxfycxcy_px, target_from_source)]
    if np.ndim(z_depth_m) != 2 or shapes != [(4,), (4,), (4, 4)]:
        raise KernelError(
            f"expected an [H, W] depth image, 4 numbers a camera and a 4x4 transform, got depth {np.shape(z_depth_m)}, "
            f"cameras {shapes[0]} and {shapes[1]}, transform {shapes[2]}"
        )


_inverse = jit()(rules.inverse)
_slope = jit(inline="always")(rules.slope)
_plane = jit(inline="always")(rules.plane_in_target)
_corner = jit(inline="always")(rules.corner_in_target)
_turn = jit()(rules.turn_of)
_is_inside = jit(inline="always")(rules.is_inside)
_depth_at = jit()(rules.depth_at)


@jit()
def _reproject_cpu(
    depth: np.ndarray,
    k_source: np.ndarray,
    k_target: np.ndarray,
    matrix: np.ndarray,
    max_rel_jump: float,
    min_z: float,
    out: np.ndarray,
) -> None:
    height, width = depth.shape
    fx, fy, cx, cy = k_source
    px, py = np.empty(4), np.empty(4)
    for v in range(height):
        yn = (v - cy) / fy
        for u in range(width):
            q = _inverse(depth[v, u])
            if q == 0.0:
                continue
            left = _inverse(depth[v, u - 1]) if u > 0 else 0.0
            right = _inverse(depth[v, u + 1]) if u + 1 < width else 0.0
            above = _inverse(depth[v - 1, u]) if v > 0 else 0.0
            below = _inverse(depth[v + 1, u]) if v + 1 < height else 0.0
            qu, qv = _slope(q, left, right, max_rel_jump), _slope(q, above, below, max_rel_jump)
            xn = (u - cx) / fx
            behind = False
            z_low, z_high = np.inf, 0.0
            u_low, u_high, v_low, v_high = np.inf, -np.inf, np.inf, -np.inf
            for k in range(4):
                px[k], py[k], z = _corner(q, qu, qv, xn, yn, fx, fy, k, matrix, k_target)
                if not z > min_z:
                    behind = True
                    break
                z_low, z_high = min(z_low, z), max(z_high, z)
                u_low, u_high = min(u_low, px[k]), max(u_high, px[k])
                v_low, v_high = min(v_low, py[k]), max(v_high, py[k])
            if behind:
                continue
            plane = _plane(q, qu, qv, xn, yn, fx, fy, matrix)
            _fill(px, py, u_low, u_high, v_low, v_high, plane, z_low, z_high, k_target, out)


@jit(inline="always")
def _fill(
    px: np.ndarray,
    py: np.ndarray,
    u_low: float,
    u_high: float,
    v_low: float,
    v_high: float,
    plane: tuple[float, float, float, float],
    z_low: float,
    z_high: float,
    k_target: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write a patch where it is nearer than what is there."""
    rows, cols = out.shape
    if u_high < -1.0 or v_high < -1.0 or u_low > cols or v_low > rows:
        return
    m0, m1, m2, offset = plane
    turn = _turn(px, py)
    for row in range(max(0, int(np.ceil(v_low - _MARGIN_PX))), min(rows - 1, int(np.floor(v_high + _MARGIN_PX))) + 1):
        for col in range(
            max(0, int(np.ceil(u_low - _MARGIN_PX))), min(cols - 1, int(np.floor(u_high + _MARGIN_PX))) + 1
        ):
            if _is_inside(px, py, turn, col, row):
                z = _depth_at(m0, m1, m2, offset, z_low, z_high, col, row, k_target)
                if z < out[row, col]:
                    out[row, col] = z
