"""Where a point of the camera frame lands, how the lens bends its surroundings, and the way back: two lenses.

Each lens gives the 2D mean and the Jacobian J of the projection (row by row), and takes gradients by both back to the
point. The packed camera of ``api._packed_camera`` holds fx, fy, cx, cy at 12, limits of x/z and y/z at 17 (pinhole),
k1 .. k4 at 25 (fisheye).

Pinhole: J is linearised no farther out than the limits. Fisheye (Kannala-Brandt): with w = x^2 + y^2, theta =
atan2(sqrt(w), z), r(theta) = theta + k1 theta^3 + ..., D = w + z^2 and s(w, z) = r / sqrt(w), u = fx s x + cx, so that

    J = [fx (s + x^2 q)   fx x y q         -fx x h]        q = 2 ds/dw = (z h - s) / w
        [fy x y q         fy (s + y^2 q)   -fy y h]        h = -ds/dz  = r' / D

Near the axis q and its slope are 0 / 0; there they come from the series of s in t^2 = w / z^2.

Source: Zwicker et al. (2001), eq. 29; Kannala & Brandt (2006), eq. 6; the fisheye Jacobian written out here is that of
gsplat 1.5.3 ``Utils.cuh`` ``fisheye_proj`` where k1 .. k4 are zero.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import math

from cuda_kernels.jit import jit

FLAGS = {"contract", "nsz"}
SERIES_T2 = 1e-4  # below, the series; truncated terms and cancellation are then both about 1e-8 of the slope of q


@jit(error_model="numpy", inline="always")
def pinhole(x, y, z, camera):
    """Mean and Jacobian of a pinhole."""
    fx, fy = camera[12], camera[13]
    ux = min(max(x / z, camera[17]), camera[18])
    uy = min(max(y / z, camera[19]), camera[20])
    return (
        fx * x / z + camera[14],
        fy * y / z + camera[15],
        fx / z,
        0.0,
        -fx * ux / z,
        0.0,
        fy / z,
        -fy * uy / z,
    )


@jit(error_model="numpy", inline="always")
def pinhole_backward(x, y, z, camera, d_mx, d_my, d_j00, d_j01, d_j02, d_j10, d_j11, d_j12):
    """Gradient by the point."""
    fx, fy, rz = camera[12], camera[13], 1.0 / z
    ux = min(max(x * rz, camera[17]), camera[18])
    uy = min(max(y * rz, camera[19]), camera[20])
    # J02 = -fx ux / z; ux = x / z moves with x and z only inside its limits
    inside_x = 1.0 if camera[17] <= x * rz <= camera[18] else 0.0
    inside_y = 1.0 if camera[19] <= y * rz <= camera[20] else 0.0
    d_x = fx * rz * d_mx - inside_x * fx * rz * rz * d_j02
    d_y = fy * rz * d_my - inside_y * fy * rz * rz * d_j12
    d_z = ((1.0 + inside_x) * fx * ux * d_j02 + (1.0 + inside_y) * fy * uy * d_j12) * rz * rz
    d_z -= (fx * x * d_mx + fy * y * d_my + fx * d_j00 + fy * d_j11) * rz * rz
    return d_x, d_y, d_z


@jit(error_model="numpy", fastmath=FLAGS)
def _bend(w, z, camera):
    """s, h, q of the fisheye and the slopes dh/dw, dh/dz, dq/dw (ds/dw = q/2, ds/dz = -h, dq/dz = -2 dh/dw)."""
    k1, k2, k3, k4 = camera[25], camera[26], camera[27], camera[28]
    rho, over_d = math.sqrt(w), 1.0 / (w + z * z)
    theta = math.atan2(rho, z)
    t2 = theta * theta
    ratio = 1.0 + t2 * (k1 + t2 * (k2 + t2 * (k3 + t2 * k4)))  # r / theta
    slope = 1.0 + t2 * (3.0 * k1 + t2 * (5.0 * k2 + t2 * (7.0 * k3 + t2 * 9.0 * k4)))  # r'
    curve = 6.0 * k1 + t2 * (20.0 * k2 + t2 * (42.0 * k3 + t2 * 72.0 * k4))  # r'' / theta
    near_axis = z > 0.0 and w < SERIES_T2 * z * z
    over_z, tangent2 = 0.0, 0.0
    if near_axis:
        over_z = 1.0 / z
        tangent2 = w * over_z * over_z
        spread = over_z * (1.0 + tangent2 * (-1.0 / 3.0 + tangent2 * (0.2 - tangent2 / 7.0)))
    else:
        spread = theta / rho
    s, h = ratio * spread, slope * over_d
    bent = curve * spread
    h_w = (bent * z - 2.0 * slope) * 0.5 * over_d * over_d
    h_z = -(bent * w + 2.0 * z * slope) * over_d * over_d
    if near_axis:
        a, b = k1 - 1.0 / 3.0, 0.2 - k1 + k2
        c = -1.0 / 7.0 + (14.0 / 15.0) * k1 - (5.0 / 3.0) * k2 + k3
        over_z3 = over_z * over_z * over_z
        q = over_z3 * (2.0 * a + tangent2 * (4.0 * b + tangent2 * 6.0 * c))
        q_w = over_z3 * over_z * over_z * (4.0 * b + tangent2 * 12.0 * c)
    else:
        q = (z * h - s) / w
        q_w = (z * h_w - 1.5 * q) / w
    return s, h, q, h_w, h_z, q_w


@jit(error_model="numpy", fastmath=FLAGS)
def fisheye(x, y, z, camera):
    """Mean and Jacobian of a Kannala-Brandt fisheye; the point must not lie straight behind."""
    fx, fy = camera[12], camera[13]
    s, h, q, _, _, _ = _bend(x * x + y * y, z, camera)
    return (
        fx * s * x + camera[14],
        fy * s * y + camera[15],
        fx * (s + x * x * q),
        fx * x * y * q,
        -fx * x * h,
        fy * x * y * q,
        fy * (s + y * y * q),
        -fy * y * h,
    )


@jit(error_model="numpy", fastmath=FLAGS)
def fisheye_backward(x, y, z, camera, d_mx, d_my, d_j00, d_j01, d_j02, d_j10, d_j11, d_j12):
    """Gradient by the point."""
    fx, fy = camera[12], camera[13]
    s, h, q, h_w, h_z, q_w = _bend(x * x + y * y, z, camera)
    g_mx, g_my = fx * d_mx, fy * d_my
    g00, g01, g02 = fx * d_j00, fx * d_j01, fx * d_j02
    g10, g11, g12 = fy * d_j10, fy * d_j11, fy * d_j12
    mixed = g01 + g10
    # gradients by s, h, q, then by w and z, then by what of x and y stands beside them
    d_s = x * g_mx + y * g_my + g00 + g11
    d_h = -(x * g02 + y * g12)
    d_q = x * x * g00 + x * y * mixed + y * y * g11
    d_w = 0.5 * q * d_s + h_w * d_h + q_w * d_q
    d_z = -h * d_s + h_z * d_h - 2.0 * h_w * d_q
    d_x = s * g_mx + q * (2.0 * x * g00 + y * mixed) - h * g02 + 2.0 * x * d_w
    d_y = s * g_my + q * (2.0 * y * g11 + x * mixed) - h * g12 + 2.0 * y * d_w
    return d_x, d_y, d_z
