"""The arithmetic of a reprojected patch, written once and compiled for CPU and GPU; see ``cuda_kernels.reproject``.

Plain functions that call no others, so that either compiler can take them.
"""

import math
from typing import Any

MARGIN_PX = 0.08  # quads of neighbouring patches need not share corners: this closes the hairlines between them


def inverse(z: float) -> float:
    """1 / z, or 0 for no depth (NaN, zero, negative, infinite)."""
    return 1.0 / float(z) if z > 0.0 and z < math.inf else 0.0


def slope(q: float, before: float, after: float, max_rel_jump: float) -> float:
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


def plane_in_target(
    q: float, qu: float, qv: float, xn: float, yn: float, fx: float, fy: float, matrix: Any
) -> tuple[float, float, float, float]:
    """The patch's plane in the target: (m0, m1, m2) . X = offset.

    Inverse depth is q(x, y) = a x + b y + c in normalised coordinates, so the plane is (a, b, c) . X = 1 in the
    source; with X_s = R^T (X_t - t) it is m . X_t = 1 + m . t with m = R (a, b, c).
    """
    a, b = qu * fx, qv * fy
    c = q - a * xn - b * yn
    m0 = matrix[0, 0] * a + matrix[0, 1] * b + matrix[0, 2] * c
    m1 = matrix[1, 0] * a + matrix[1, 1] * b + matrix[1, 2] * c
    m2 = matrix[2, 0] * a + matrix[2, 1] * b + matrix[2, 2] * c
    return m0, m1, m2, 1.0 + m0 * matrix[0, 3] + m1 * matrix[1, 3] + m2 * matrix[2, 3]


def corner_in_target(
    q: float, qu: float, qv: float, xn: float, yn: float, fx: float, fy: float, k: int, matrix: Any, k_target: Any
) -> tuple[float, float, float]:
    """Pixel (u, v) and depth of the patch's k-th corner in the target, in the order of a walk around it."""
    du = -0.5 if k == 0 or k == 3 else 0.5
    dv = -0.5 if k < 2 else 0.5
    z = 1.0 / (q + qu * du + qv * dv)
    x, y = (xn + du / fx) * z, (yn + dv / fy) * z
    depth = matrix[2, 0] * x + matrix[2, 1] * y + matrix[2, 2] * z + matrix[2, 3]
    along_x = matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2] * z + matrix[0, 3]
    along_y = matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2] * z + matrix[1, 3]
    safe = depth if depth > 0.0 else 1.0  # the caller drops what lies behind
    return k_target[0] * along_x / safe + k_target[2], k_target[1] * along_y / safe + k_target[3], depth


def turn_of(px: Any, py: Any) -> float:
    """1 or -1: a patch seen from its back turns the other way round."""
    area = 0.0
    for k in range(4):
        n = (k + 1) % 4
        area += px[k] * py[n] - px[n] * py[k]
    return 1.0 if area >= 0.0 else -1.0


def is_inside(px: Any, py: Any, turn: float, col: int, row: int) -> bool:
    """Whether a target pixel's centre lies in the quad, widened by the margin."""
    inside = True
    for k in range(4):
        n = (k + 1) % 4
        dx, dy = px[n] - px[k], py[n] - py[k]
        cross = turn * (dx * (row - py[k]) - dy * (col - px[k]))
        if cross < -MARGIN_PX * math.sqrt(dx * dx + dy * dy):
            inside = False
            break
    return inside


def depth_at(
    m0: float, m1: float, m2: float, offset: float, z_low: float, z_high: float, col: int, row: int, k_target: Any
) -> float:
    """Depth of the plane along a target pixel's ray.

    Within the margin the plane goes on, but never further than the patch is deep (grazing views).
    """
    lean = m0 * (col - k_target[2]) / k_target[0] + m1 * (row - k_target[3]) / k_target[1] + m2
    z = offset / lean if lean != 0.0 else z_low
    deep = z_high - z_low
    return min(max(z, z_low - deep), z_high + deep) if z > 0.0 else z_high
