"""From 3D gaussians to 2D ones and back: per gaussian, in float64, no image involved.

Source: Zwicker et al. (2001), eq. 9 and 29 (local affine approximation); limits of the linearisation and blur as in
gsplat ``Utils.cuh``. The lenses are in ``lens``. Matrices are spelled out in scalars: numba allocates small arrays on
the heap.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import math

import numba
import numpy as np

from cuda_kernels.jit import jit
from cuda_kernels.splat import simd
from cuda_kernels.splat.lens import FLAGS, fisheye, fisheye_backward, pinhole, pinhole_backward
from cuda_kernels.splat.rules import (
    ACROSS,
    ALPHA_MIN,
    DEPTH,
    HALF_HEIGHT,
    HALF_WIDTH,
    LOG2_E,
    LOG2_OPACITY,
    MEAN_X,
    MEAN_Y,
    ROW_FLOATS,
    SLOPE_X,
    SLOPE_Y,
    SUM_V,
    SUM_VX,
    SUM_VXX,
    SUM_VXY,
    SUM_VY,
    SUM_VYY,
    SUM_WB,
    SUM_WG,
    SUM_WR,
    SUM_WZ,
)

HIDDEN, DRAWN, BROKEN = 0, 1, 2
LOG_SCALE_MAX = 88.72283  # natural log of the largest float32
QUAT_NORM_MIN = 1e-8
CHUNK = 512  # gaussians whose contributions to the camera's gradient are summed first; fixed, so threads change nothing
AHEAD, MOST_AHEAD = 3, 8  # gaussians whose gradient rows, and how many of each, are fetched before they are needed
FLAT_FLOATS = HALF_HEIGHT + 1


@jit(error_model="numpy", inline="always")
def _rotation(qw, qx, qy, qz):
    """World-from-gaussian rotation of a unit quaternion, row by row."""
    return (
        1.0 - 2.0 * (qy * qy + qz * qz),
        2.0 * (qx * qy - qw * qz),
        2.0 * (qx * qz + qw * qy),
        2.0 * (qx * qy + qw * qz),
        1.0 - 2.0 * (qx * qx + qz * qz),
        2.0 * (qy * qz - qw * qx),
        2.0 * (qx * qz - qw * qy),
        2.0 * (qy * qz + qw * qx),
        1.0 - 2.0 * (qx * qx + qy * qy),
    )


@jit(error_model="numpy", inline="always")
def _is_sound(means, quats, log_scales, logits, colors, i):
    """Whether a row can be drawn at all."""
    total = logits[i] * 0.0  # NaN or infinity times zero is NaN
    for k in range(3):
        total += means[i, k] * 0.0 + log_scales[i, k] * 0.0 + colors[i, k] * 0.0
    norm2 = 0.0
    for k in range(4):
        norm2 += np.float64(quats[i, k]) * np.float64(quats[i, k])
    scale_ok = max(log_scales[i, 0], log_scales[i, 1], log_scales[i, 2]) < LOG_SCALE_MAX
    return total == 0.0 and scale_ok and QUAT_NORM_MIN * QUAT_NORM_MIN < norm2 < math.inf


@jit(error_model="numpy", parallel=True, fastmath=FLAGS)
def project(means, quats, log_scales, logits, colors, camera):
    """2D gaussians (the first columns of a record, colour left out) and a status per row: HIDDEN, DRAWN or BROKEN."""
    count = means.shape[0]
    flat = np.empty((count, FLAT_FLOATS), dtype=np.float32)
    status = np.empty(count, dtype=np.uint8)
    r00, r01, r02, r10, r11, r12, r20, r21, r22 = (
        camera[0], camera[1], camera[2], camera[3], camera[4], camera[5], camera[6], camera[7], camera[8],
    )  # fmt: skip
    near, eps, width, height = camera[16], camera[21], camera[22], camera[23]
    bent, cos_limit = camera[24] > 0.0, camera[29]
    for i in numba.prange(count):
        flat[i, :] = 0.0
        if not _is_sound(means, quats, log_scales, logits, colors, i):
            status[i] = BROKEN
            continue
        status[i] = HIDDEN
        wx, wy, wz = np.float64(means[i, 0]), np.float64(means[i, 1]), np.float64(means[i, 2])
        x = r00 * wx + r01 * wy + r02 * wz + camera[9]
        y = r10 * wx + r11 * wy + r12 * wz + camera[10]
        z = r20 * wx + r21 * wy + r22 * wz + camera[11]
        opacity = 1.0 / (1.0 + math.exp(-np.float64(logits[i])))
        depth = math.sqrt(x * x + y * y + z * z) if bent else z
        if depth < near or opacity < ALPHA_MIN or (bent and z < cos_limit * depth):
            continue
        qw, qx, qy, qz = (
            np.float64(quats[i, 0]),
            np.float64(quats[i, 1]),
            np.float64(quats[i, 2]),
            np.float64(quats[i, 3]),
        )
        inv = 1.0 / math.sqrt(qw * qw + qx * qx + qy * qy + qz * qz)
        g00, g01, g02, g10, g11, g12, g20, g21, g22 = _rotation(qw * inv, qx * inv, qy * inv, qz * inv)
        # rows of P = J camera_from_world, then U = P R S, so that the covariance is U U^T
        if bent:
            mean_x, mean_y, j00, j01, j02, j10, j11, j12 = fisheye(x, y, z, camera)
        else:
            mean_x, mean_y, j00, j01, j02, j10, j11, j12 = pinhole(x, y, z, camera)
        p00, p01, p02 = (
            j00 * r00 + j01 * r10 + j02 * r20,
            j00 * r01 + j01 * r11 + j02 * r21,
            j00 * r02 + j01 * r12 + j02 * r22,
        )
        p10, p11, p12 = (
            j10 * r00 + j11 * r10 + j12 * r20,
            j10 * r01 + j11 * r11 + j12 * r21,
            j10 * r02 + j11 * r12 + j12 * r22,
        )
        s0, s1, s2 = (
            math.exp(np.float64(log_scales[i, 0])),
            math.exp(np.float64(log_scales[i, 1])),
            math.exp(np.float64(log_scales[i, 2])),
        )
        u00, u01, u02 = (
            (p00 * g00 + p01 * g10 + p02 * g20) * s0,
            (p00 * g01 + p01 * g11 + p02 * g21) * s1,
            (p00 * g02 + p01 * g12 + p02 * g22) * s2,
        )
        u10, u11, u12 = (
            (p10 * g00 + p11 * g10 + p12 * g20) * s0,
            (p10 * g01 + p11 * g11 + p12 * g21) * s1,
            (p10 * g02 + p11 * g12 + p12 * g22) * s2,
        )
        cov_xx = u00 * u00 + u01 * u01 + u02 * u02 + eps
        cov_xy = u00 * u10 + u01 * u11 + u02 * u12
        cov_yy = u10 * u10 + u11 * u11 + u12 * u12 + eps
        det = cov_xx * cov_yy - cov_xy * cov_xy
        if not 0.0 < det < math.inf:
            continue
        reach = math.sqrt(max(2.0 * math.log(opacity / ALPHA_MIN), 0.0))
        half_w, half_h = reach * math.sqrt(cov_xx), reach * math.sqrt(cov_yy)
        if mean_x + half_w < 0.0 or mean_x - half_w > width - 1.0:
            continue
        if mean_y + half_h < 0.0 or mean_y - half_h > height - 1.0:
            continue
        status[i] = DRAWN
        slope_y = math.sqrt(0.5 * LOG2_E * cov_xx / det)
        flat[i, MEAN_X], flat[i, MEAN_Y], flat[i, DEPTH] = mean_x, mean_y, depth
        flat[i, ACROSS] = math.sqrt(0.5 * LOG2_E / cov_xx)
        flat[i, SLOPE_X], flat[i, SLOPE_Y] = -0.5 * LOG2_E * cov_xy / (det * slope_y), slope_y
        flat[i, LOG2_OPACITY] = math.log(opacity) * LOG2_E
        flat[i, HALF_WIDTH], flat[i, HALF_HEIGHT] = half_w, half_h
    return flat, status


@jit(error_model="numpy", parallel=True, fastmath=FLAGS)
def project_backward(means, quats, log_scales, logits, colors, camera, order, rows, first_row):
    """Add up the gradient rows of each gaussian, in order, and chain them to all parameters and the camera."""
    count = means.shape[0]
    d_means = np.empty((count, 3), dtype=np.float32)
    d_quats = np.empty((count, 4), dtype=np.float32)
    d_log_scales = np.empty((count, 3), dtype=np.float32)
    d_logits = np.empty(count, dtype=np.float32)
    d_colors = np.empty((count, 3), dtype=np.float32)
    d_norm = np.empty(count, dtype=np.float32)
    chunks = (count + CHUNK - 1) // CHUNK
    twists = np.zeros((chunks, 6), dtype=np.float64)
    # rows of the caller's arrays in order, so that only the gradient rows are fetched from here and there
    rank_of = np.full(count + AHEAD, -1, dtype=np.int32)
    for rank in range(order.shape[0]):
        rank_of[order[rank]] = rank
    flat_rows = rows.reshape(-1)
    r00, r01, r02, r10, r11, r12, r20, r21, r22 = (
        camera[0], camera[1], camera[2], camera[3], camera[4], camera[5], camera[6], camera[7], camera[8],
    )  # fmt: skip
    eps, bent = camera[21], camera[24] > 0.0
    for chunk in numba.prange(chunks):
        t0, t1, t2, t3, t4, t5 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        sums = np.empty(ROW_FLOATS, dtype=np.float32)
        for i in range(chunk * CHUNK, min(count, (chunk + 1) * CHUNK)):
            rank, soon = rank_of[i], rank_of[i + AHEAD]
            if soon >= 0:
                for k in range(first_row[soon], min(first_row[soon + 1], first_row[soon] + MOST_AHEAD)):
                    simd.prefetch(flat_rows, k * ROW_FLOATS)
            if rank < 0:
                d_means[i, :], d_quats[i, :], d_log_scales[i, :], d_colors[i, :] = 0.0, 0.0, 0.0, 0.0
                d_logits[i], d_norm[i] = 0.0, 0.0
                continue
            total = simd.splat(np.float32(0.0))
            for k in range(first_row[rank], first_row[rank + 1]):
                total = total + simd.load(flat_rows, k * ROW_FLOATS)
            simd.store(sums, 0, total)
            v, vx, vy = np.float64(sums[SUM_V]), np.float64(sums[SUM_VX]), np.float64(sums[SUM_VY])
            vxx, vxy, vyy = np.float64(sums[SUM_VXX]), np.float64(sums[SUM_VXY]), np.float64(sums[SUM_VYY])
            d_depth = np.float64(sums[SUM_WZ])
            d_colors[i, 0], d_colors[i, 1], d_colors[i, 2] = sums[SUM_WR], sums[SUM_WG], sums[SUM_WB]
            opacity = 1.0 / (1.0 + math.exp(-np.float64(logits[i])))
            d_logits[i] = (1.0 - opacity) * v
            # the forward projection again
            wx, wy, wz = np.float64(means[i, 0]), np.float64(means[i, 1]), np.float64(means[i, 2])
            x = r00 * wx + r01 * wy + r02 * wz + camera[9]
            y = r10 * wx + r11 * wy + r12 * wz + camera[10]
            z = r20 * wx + r21 * wy + r22 * wz + camera[11]
            qw, qx, qy, qz = (
                np.float64(quats[i, 0]),
                np.float64(quats[i, 1]),
                np.float64(quats[i, 2]),
                np.float64(quats[i, 3]),
            )
            inv = 1.0 / math.sqrt(qw * qw + qx * qx + qy * qy + qz * qz)
            qw, qx, qy, qz = qw * inv, qx * inv, qy * inv, qz * inv
            g00, g01, g02, g10, g11, g12, g20, g21, g22 = _rotation(qw, qx, qy, qz)
            if bent:
                _, _, j00, j01, j02, j10, j11, j12 = fisheye(x, y, z, camera)
            else:
                _, _, j00, j01, j02, j10, j11, j12 = pinhole(x, y, z, camera)
            p00, p01, p02 = (
                j00 * r00 + j01 * r10 + j02 * r20,
                j00 * r01 + j01 * r11 + j02 * r21,
                j00 * r02 + j01 * r12 + j02 * r22,
            )
            p10, p11, p12 = (
                j10 * r00 + j11 * r10 + j12 * r20,
                j10 * r01 + j11 * r11 + j12 * r21,
                j10 * r02 + j11 * r12 + j12 * r22,
            )
            s0, s1, s2 = (
                math.exp(np.float64(log_scales[i, 0])),
                math.exp(np.float64(log_scales[i, 1])),
                math.exp(np.float64(log_scales[i, 2])),
            )
            w00, w01, w02 = (
                p00 * g00 + p01 * g10 + p02 * g20,
                p00 * g01 + p01 * g11 + p02 * g21,
                p00 * g02 + p01 * g12 + p02 * g22,
            )
            w10, w11, w12 = (
                p10 * g00 + p11 * g10 + p12 * g20,
                p10 * g01 + p11 * g11 + p12 * g21,
                p10 * g02 + p11 * g12 + p12 * g22,
            )
            u00, u01, u02, u10, u11, u12 = w00 * s0, w01 * s1, w02 * s2, w10 * s0, w11 * s1, w12 * s2
            cov_xx = u00 * u00 + u01 * u01 + u02 * u02 + eps
            cov_xy = u00 * u10 + u01 * u11 + u02 * u12
            cov_yy = u10 * u10 + u11 * u11 + u12 * u12 + eps
            det = cov_xx * cov_yy - cov_xy * cov_xy
            a, b, c = cov_yy / det, -cov_xy / det, cov_xx / det
            # dL/dsigma = -V per pixel, sigma = (a dx^2 + 2 b dx dy + c dy^2) / 2
            d_mx, d_my = a * vx + b * vy, b * vx + c * vy
            d_norm[i] = math.sqrt(d_mx * d_mx + d_my * d_my)
            d_a, d_b, d_c = -0.5 * vxx, -0.5 * vxy, -0.5 * vyy
            # dL/dcov = -Q (dL/dQ) Q for the inverse Q, symmetric
            h00, h01 = a * d_a + b * d_b, a * d_b + b * d_c
            h10, h11 = b * d_a + c * d_b, b * d_b + c * d_c
            k00, k01, k11 = -(h00 * a + h01 * b), -(h00 * b + h01 * c), -(h10 * b + h11 * c)
            # dL/dU = 2 K U, dL/dW = dL/dU S
            e00, e01, e02 = (
                2.0 * (k00 * u00 + k01 * u10) * s0,
                2.0 * (k00 * u01 + k01 * u11) * s1,
                2.0 * (k00 * u02 + k01 * u12) * s2,
            )
            e10, e11, e12 = (
                2.0 * (k01 * u00 + k11 * u10) * s0,
                2.0 * (k01 * u01 + k11 * u11) * s1,
                2.0 * (k01 * u02 + k11 * u12) * s2,
            )
            d_log_scales[i, 0] = e00 * w00 + e10 * w10
            d_log_scales[i, 1] = e01 * w01 + e11 * w11
            d_log_scales[i, 2] = e02 * w02 + e12 * w12
            # dL/dR = P^T dL/dW
            m00, m01, m02 = p00 * e00 + p10 * e10, p00 * e01 + p10 * e11, p00 * e02 + p10 * e12
            m10, m11, m12 = p01 * e00 + p11 * e10, p01 * e01 + p11 * e11, p01 * e02 + p11 * e12
            m20, m21, m22 = p02 * e00 + p12 * e10, p02 * e01 + p12 * e11, p02 * e02 + p12 * e12
            d_qw = 2.0 * (qx * (m21 - m12) + qy * (m02 - m20) + qz * (m10 - m01))
            d_qx = 2.0 * (qy * (m01 + m10) + qz * (m02 + m20) + qw * (m21 - m12)) - 4.0 * qx * (m11 + m22)
            d_qy = 2.0 * (qx * (m01 + m10) + qz * (m12 + m21) + qw * (m02 - m20)) - 4.0 * qy * (m00 + m22)
            d_qz = 2.0 * (qx * (m02 + m20) + qy * (m12 + m21) + qw * (m10 - m01)) - 4.0 * qz * (m00 + m11)
            along = qw * d_qw + qx * d_qx + qy * d_qy + qz * d_qz
            d_quats[i, 0], d_quats[i, 1] = (d_qw - qw * along) * inv, (d_qx - qx * along) * inv
            d_quats[i, 2], d_quats[i, 3] = (d_qy - qy * along) * inv, (d_qz - qz * along) * inv
            # dL/dP = dL/dW R^T, dL/dJ = dL/dP world_from_camera
            q00, q01, q02 = (
                e00 * g00 + e01 * g01 + e02 * g02,
                e00 * g10 + e01 * g11 + e02 * g12,
                e00 * g20 + e01 * g21 + e02 * g22,
            )
            q10, q11, q12 = (
                e10 * g00 + e11 * g01 + e12 * g02,
                e10 * g10 + e11 * g11 + e12 * g12,
                e10 * g20 + e11 * g21 + e12 * g22,
            )
            d_j00, d_j01, d_j02 = (
                q00 * r00 + q01 * r01 + q02 * r02,
                q00 * r10 + q01 * r11 + q02 * r12,
                q00 * r20 + q01 * r21 + q02 * r22,
            )
            d_j10, d_j11, d_j12 = (
                q10 * r00 + q11 * r01 + q12 * r02,
                q10 * r10 + q11 * r11 + q12 * r12,
                q10 * r20 + q11 * r21 + q12 * r22,
            )
            if bent:
                d_x, d_y, d_z = fisheye_backward(x, y, z, camera, d_mx, d_my, d_j00, d_j01, d_j02, d_j10, d_j11, d_j12)
                d_ray = d_depth / math.sqrt(x * x + y * y + z * z)
                d_x, d_y, d_z = d_x + d_ray * x, d_y + d_ray * y, d_z + d_ray * z
            else:
                d_x, d_y, d_z = pinhole_backward(x, y, z, camera, d_mx, d_my, d_j00, d_j01, d_j02, d_j10, d_j11, d_j12)
                d_z += d_depth
            d_means[i, 0] = r00 * d_x + r10 * d_y + r20 * d_z
            d_means[i, 1] = r01 * d_x + r11 * d_y + r21 * d_z
            d_means[i, 2] = r02 * d_x + r12 * d_y + r22 * d_z
            # rotation of the camera: moves the centre, and turns the covariance through N = J^T dL/dJ
            n01, n02 = j00 * d_j01 + j10 * d_j11, j00 * d_j02 + j10 * d_j12
            n10, n12 = j01 * d_j00 + j11 * d_j10, j01 * d_j02 + j11 * d_j12
            n20, n21 = j02 * d_j00 + j12 * d_j10, j02 * d_j01 + j12 * d_j11
            t0 += y * d_z - z * d_y + n21 - n12
            t1 += z * d_x - x * d_z + n02 - n20
            t2 += x * d_y - y * d_x + n10 - n01
            t3 += d_x
            t4 += d_y
            t5 += d_z
        twists[chunk, 0], twists[chunk, 1], twists[chunk, 2] = t0, t1, t2
        twists[chunk, 3], twists[chunk, 4], twists[chunk, 5] = t3, t4, t5
    twist = np.zeros(6, dtype=np.float64)
    for chunk in range(chunks):
        twist += twists[chunk]
    return d_means, d_quats, d_log_scales, d_logits, d_colors, d_norm, twist
