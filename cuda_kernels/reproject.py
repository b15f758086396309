"""Depth images seen from another pinhole: every source pixel is a small patch of a plane, nearest surface wins.

    source pixel (u, v) with inverse depth q and its gradient (qu, qv): in a pinhole a plane has an inverse depth that
    is linear in the pixel, so the patch [u +- 1/2] x [v +- 1/2] is a quad of the plane n . X = 1. Its four corners
    are projected into the target; every target pixel centre inside takes the depth of the plane along its own ray.

The gradient uses neighbours on the same surface only (relative jump below ``max_rel_jump``), the smaller slope of the
two sides, so no patch reaches across a depth edge.
"""

import numpy as np
from jaxtyping import Float, Float32

from cuda_kernels.errors import KernelError
from cuda_kernels.jit import jit

_MARGIN_PX = 0.08  # quads of neighbouring patches need not share corners: this closes the hairlines between them
_CORNER_U = np.array([-0.5, 0.5, 0.5, -0.5])
_CORNER_V = np.array([-0.5, -0.5, 0.5, 0.5])


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
    if z_depth_m.ndim != 2 or source_fxfycxcy_px.shape != (4,) or target_fxfycxcy_px.shape != (4,):
        raise KernelError(f"expected an [H, W] depth image and 4 numbers a camera, got depth {z_depth_m.shape}")
    width, height = target_size_wh_px
    out = np.full((height, width), np.inf, dtype=np.float32)
    matrix = np.ascontiguousarray(target_from_source, dtype=np.float64)
    depth = np.ascontiguousarray(z_depth_m, dtype=np.float32)
    _reproject_cpu(depth, source_fxfycxcy_px, target_fxfycxcy_px, matrix, max_rel_jump, min_z_m, out)
    out[np.isinf(out)] = np.nan
    return out


@jit(inline="always")
def _slope(q: float, before: float, after: float, max_rel_jump: float) -> float:
    """Slope of inverse depth from the neighbours on the same surface: the smaller one where both are."""
    limit = max_rel_jump * q
    back, ahead = q - before, after - q
    has_back, has_ahead = before > 0.0 and abs(back) <= limit, after > 0.0 and abs(ahead) <= limit
    if has_back and has_ahead:
        return back if abs(back) < abs(ahead) else ahead
    if has_back:
        return back
    if has_ahead:
        return ahead
    return 0.0


@jit()
def _inverse(z: float) -> float:
    """1 / z, or 0 for no depth."""
    return 1.0 / z if z > 0.0 else 0.0  # NaN compares False


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
    gx, gy, ex, ey = k_target
    r00, r01, r02, tx = matrix[0]
    r10, r11, r12, ty = matrix[1]
    r20, r21, r22, tz = matrix[2]
    px, py = np.empty(4), np.empty(4)
    for v in range(height):
        yn = (v - cy) / fy
        for u in range(width):
            q = _inverse(depth[v, u])
            if q == 0.0 or not np.isfinite(q):
                continue
            left = _inverse(depth[v, u - 1]) if u > 0 else 0.0
            right = _inverse(depth[v, u + 1]) if u + 1 < width else 0.0
            above = _inverse(depth[v - 1, u]) if v > 0 else 0.0
            below = _inverse(depth[v + 1, u]) if v + 1 < height else 0.0
            qu, qv = _slope(q, left, right, max_rel_jump), _slope(q, above, below, max_rel_jump)
            xn = (u - cx) / fx
            # q(x, y) = a x + b y + c in normalised coordinates, so the plane is (a, b, c) . X = 1.
            a, b = qu * fx, qv * fy
            c = q - a * xn - b * yn
            # In the target: X_s = R^T (X_t - t), so m . X_t = 1 + m . t with m = R n.
            m0, m1, m2 = r00 * a + r01 * b + r02 * c, r10 * a + r11 * b + r12 * c, r20 * a + r21 * b + r22 * c
            offset = 1.0 + m0 * tx + m1 * ty + m2 * tz
            behind = False
            z_low, z_high = np.inf, 0.0
            u_low, u_high, v_low, v_high = np.inf, -np.inf, np.inf, -np.inf
            for k in range(4):
                du, dv = _CORNER_U[k], _CORNER_V[k]
                z = 1.0 / (q + qu * du + qv * dv)
                x, y = (xn + du / fx) * z, (yn + dv / fy) * z
                zt = r20 * x + r21 * y + r22 * z + tz
                if not zt > min_z:
                    behind = True
                    break
                pu = gx * (r00 * x + r01 * y + r02 * z + tx) / zt + ex
                pv = gy * (r10 * x + r11 * y + r12 * z + ty) / zt + ey
                px[k], py[k] = pu, pv
                z_low, z_high = min(z_low, zt), max(z_high, zt)
                u_low, u_high = min(u_low, pu), max(u_high, pu)
                v_low, v_high = min(v_low, pv), max(v_high, pv)
            if behind:
                continue
            _fill(px, py, u_low, u_high, v_low, v_high, m0, m1, m2, offset, z_low, z_high, gx, gy, ex, ey, out)


@jit(inline="always")
def _fill(
    px: np.ndarray,
    py: np.ndarray,
    u_low: float,
    u_high: float,
    v_low: float,
    v_high: float,
    m0: float,
    m1: float,
    m2: float,
    offset: float,
    z_low: float,
    z_high: float,
    gx: float,
    gy: float,
    ex: float,
    ey: float,
    out: np.ndarray,
) -> None:
    """Write a patch where it is nearer than what is there."""
    rows, cols = out.shape
    if u_high < -1.0 or v_high < -1.0 or u_low > cols or v_low > rows:
        return
    area = 0.0
    for k in range(4):
        n = (k + 1) % 4
        area += px[k] * py[n] - px[n] * py[k]
    turn = 1.0 if area >= 0.0 else -1.0  # a patch seen from its back turns the other way round
    for row in range(max(0, int(np.ceil(v_low - _MARGIN_PX))), min(rows - 1, int(np.floor(v_high + _MARGIN_PX))) + 1):
        for col in range(
            max(0, int(np.ceil(u_low - _MARGIN_PX))), min(cols - 1, int(np.floor(u_high + _MARGIN_PX))) + 1
        ):
            inside = True
            for k in range(4):
                n = (k + 1) % 4
                dx, dy = px[n] - px[k], py[n] - py[k]
                cross = turn * (dx * (row - py[k]) - dy * (col - px[k]))
                if cross < -_MARGIN_PX * np.sqrt(dx * dx + dy * dy):
                    inside = False
                    break
            if not inside:
                continue
            slope = m0 * (col - ex) / gx + m1 * (row - ey) / gy + m2
            z = offset / slope if slope != 0.0 else z_low
            # Within the margin the plane goes on, but never further than the patch is deep (grazing views).
            deep = z_high - z_low
            z = min(max(z, z_low - deep), z_high + deep) if z > 0.0 else z_high
            if z < out[row, col]:
                out[row, col] = z
