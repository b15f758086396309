"""Compositing backwards, walking front to back again with one scalar suffix per pixel.

With q_k = c_k . g_rgb + z_k g_depth + (g_alpha - background . g_rgb), a pixel's loss changes as sum_k w_k q_k. What
lies behind gaussian k, R_k = sum_{j>k} w_j q_j, is the total less what was passed; then
dL/dalpha_k = T_k q_k - R_k / (1 - alpha_k).
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import math

import numba
import numpy as np

from cuda_kernels.jit import jit
from cuda_kernels.splat import simd
from cuda_kernels.splat.blocks import (
    AHEAD,
    HALF_PLANE,
    HALF_PX,
    LOG2_ALPHA_MIN,
    PLANE,
    aligned_start,
    pixel_index,
)
from cuda_kernels.splat.rules import (
    ACROSS,
    ALPHA_MAX,
    BLOCK_ROWS,
    BLUE,
    DEPTH,
    FIRST_ROW,
    GREEN,
    LOG2_OPACITY,
    MEAN_X,
    MEAN_Y,
    RECORD_FLOATS,
    RED,
    ROW_FLOATS,
    SLOPE_X,
    SLOPE_Y,
    TILE_COLUMNS,
    TILE_PX,
    TILE_X0,
    TILE_Y0,
    TRANSMITTANCE_MIN,
)

PLANES = 7  # transmittance, rest behind, gradients by red, green, blue, depth, cover
LOG2_ALPHA_MAX = np.float32(math.log2(ALPHA_MAX))


@jit(error_model="numpy", inline="always")
def _row_of(integers, at, left, top):
    """Where the gradient row of a record for a tile begins, in floats."""
    tx, ty = left // TILE_PX - integers[at + TILE_X0], top // TILE_PX - integers[at + TILE_Y0]
    return np.int64(integers[at + FIRST_ROW] + ty * integers[at + TILE_COLUMNS] + tx) * ROW_FLOATS


@jit(error_model="numpy")
def _tile_rows(buffer, base, records, integers, entries, first, last, left, top, halves, rows):
    """Write the gradient rows of a tile's list from first to last."""
    zero = simd.splat(np.float32(0.0))
    one = simd.splat(np.float32(1.0))
    two = simd.splat(np.float32(BLOCK_ROWS))
    cut, cap = simd.splat(LOG2_ALPHA_MIN), simd.splat(np.float32(ALPHA_MAX))
    least, unclamped = simd.splat(np.float32(TRANSMITTANCE_MIN)), simd.splat(LOG2_ALPHA_MAX)
    for k in range(first, last):
        at = np.int64(entries[k, 0]) * RECORD_FLOATS
        code = entries[k, 1]
        simd.prefetch(records, np.int64(entries[min(k + AHEAD, last - 1), 0]) * RECORD_FLOATS)
        row = _row_of(integers, at, left, top)
        soon = np.int64(entries[min(k + AHEAD // 2, last - 1), 0]) * RECORD_FLOATS
        simd.prefetch(rows, _row_of(integers, soon, left, top))
        mean_x, mean_y = records[at + MEAN_X], records[at + MEAN_Y]
        across, slope_x, slope_y = (
            simd.splat(records[at + ACROSS]),
            simd.splat(records[at + SLOPE_X]),
            simd.splat(records[at + SLOPE_Y]),
        )
        log2_opacity = simd.splat(records[at + LOG2_OPACITY])
        red, green, blue = (
            simd.splat(records[at + RED]),
            simd.splat(records[at + GREEN]),
            simd.splat(records[at + BLUE]),
        )
        depth = simd.splat(records[at + DEPTH])
        v, vx, vy, vxx, vxy, vyy = zero, zero, zero, zero, zero, zero
        wr, wg, wb, wz = zero, zero, zero, zero
        for half in range(halves):
            block, end = (code >> (8 * half)) & 15, (code >> (8 * half + 4)) & 15
            dy = simd.lanes_y() + simd.splat(np.float32(top + 2 * block) - mean_y)
            dx = simd.lanes_x() + simd.splat(np.float32(left + 8 * half) - mean_x)
            scaled = across * dx
            column = simd.fnma(scaled, scaled, log2_opacity)
            lean = slope_x * dx
            v0, v1 = zero, zero  # of this half; dx is the same in all its blocks
            while block < end:
                slant = simd.fma(slope_y, dy, lean)
                power = simd.fnma(slant, slant, column)
                p = base + half * HALF_PLANE + block * simd.LANES
                trans = simd.load(buffer, p)
                alpha = simd.minimum(simd.exp2(power), cap)
                after = simd.fnma(alpha, trans, trans)
                reached = power >= cut
                blended = reached & (after > least)
                weight = simd.select(blended, alpha * trans, zero)
                stopped = simd.select(reached, simd.negative_abs(trans), trans)
                simd.store(buffer, p, simd.select(blended, after, stopped))
                g_red, g_green = simd.load(buffer, p + 2 * PLANE), simd.load(buffer, p + 3 * PLANE)
                g_blue, g_depth = simd.load(buffer, p + 4 * PLANE), simd.load(buffer, p + 5 * PLANE)
                q = simd.fma(red, g_red, simd.load(buffer, p + 6 * PLANE))
                q = simd.fma(green, g_green, q)
                q = simd.fma(blue, g_blue, q)
                q = simd.fma(depth, g_depth, q)
                wr, wg = simd.fma(weight, g_red, wr), simd.fma(weight, g_green, wg)
                wb, wz = simd.fma(weight, g_blue, wb), simd.fma(weight, g_depth, wz)
                rest = simd.fnma(weight, q, simd.load(buffer, p + PLANE))
                simd.store(buffer, p + PLANE, rest)
                d_alpha = simd.fnma(rest, simd.reciprocal(one - alpha), trans * q)
                part = simd.select(blended & (power < unclamped), alpha * d_alpha, zero)
                part_y = part * dy
                v0 = v0 + part
                v1 = v1 + part_y
                vyy = simd.fma(part_y, dy, vyy)
                dy = dy + two
                block += 1
            v = v + v0
            vy = vy + v1
            part_x = v0 * dx
            vx = vx + part_x
            vxx = simd.fma(part_x, dx, vxx)
            vxy = simd.fma(v1, dx, vxy)
        simd.store(rows, row, simd.sums_of_lanes((v, vx, vy, vxx, vxy, vyy, wr, wg, wb, wz)))


@jit(error_model="numpy", parallel=True)
def gradient_rows(rows, records, tile_start, tile_end, entries, spans, tile_order, images, grads, background, shares):
    """Fill one row of sums (columns SUM_*) per gaussian and tile of its rectangle."""
    rgb, alpha, depth_sum = images
    d_rgb, d_alpha, d_depth = grads
    height, width = alpha.shape
    columns = (width + TILE_PX - 1) // TILE_PX
    for k in numba.prange(spans.shape[0]):
        if spans[k] == 0:
            rows[k, :] = 0.0
    flat, integers, flat_rows = records.reshape(-1), records.view(np.int32).reshape(-1), rows.reshape(-1)
    for worker in numba.prange(shares.shape[0] - 1):
        buffer = np.empty(PLANES * PLANE + simd.LANES, dtype=np.float32)
        base = aligned_start(buffer)
        for turn in range(shares[worker], shares[worker + 1]):
            tile = tile_order[turn]
            left, top = (tile % columns) * TILE_PX, (tile // columns) * TILE_PX
            wide, tall = min(width - left, TILE_PX), min(height - top, TILE_PX)
            halves = (wide + HALF_PX - 1) // HALF_PX
            buffer[:] = 0.0
            for ly in range(tall):
                for lx in range(wide):
                    y, x, p = top + ly, left + lx, base + pixel_index(lx, ly)
                    red, green, blue = d_rgb[y, x, 0], d_rgb[y, x, 1], d_rgb[y, x, 2]
                    cover = d_alpha[y, x] - (red * background[0] + green * background[1] + blue * background[2])
                    buffer[p] = 1.0
                    buffer[p + PLANE] = (
                        red * (rgb[y, x, 0] - background[0])
                        + green * (rgb[y, x, 1] - background[1])
                        + blue * (rgb[y, x, 2] - background[2])
                        + depth_sum[y, x] * d_depth[y, x]
                        + alpha[y, x] * d_alpha[y, x]
                    )
                    buffer[p + 2 * PLANE], buffer[p + 3 * PLANE], buffer[p + 4 * PLANE] = red, green, blue
                    buffer[p + 5 * PLANE], buffer[p + 6 * PLANE] = d_depth[y, x], cover
            first, last = tile_start[tile], tile_end[tile]
            _tile_rows(buffer, base, flat, integers, entries, first, last, left, top, halves, flat_rows)
            for k in range(last, tile_start[tile + 1]):  # behind the last light
                row = _row_of(integers, np.int64(entries[k, 0]) * RECORD_FLOATS, left, top)
                flat_rows[row : row + ROW_FLOATS] = 0.0
