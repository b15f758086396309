"""Median depth and spread of depth along each pixel's ray: a pass of its own, so that fitting never pays for it."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

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
    DEPTH,
    LOG2_OPACITY,
    MEAN_X,
    MEAN_Y,
    RECORD_FLOATS,
    SLOPE_X,
    SLOPE_Y,
    TILE_PX,
    TRANSMITTANCE_MIN,
)

PLANES = 5  # transmittance, weighted sums of z - z0 and of its square, median, z0 (the first depth, each pixel its own)


@jit(error_model="numpy")
def _measure_tile(buffer, base, records, entries, first, last, left, top, halves):
    """Like the forward kernel's tile, with depths (relative to the first one blended, against cancellation)."""
    zero, half_light, one = simd.splat(np.float32(0.0)), simd.splat(np.float32(0.5)), simd.splat(np.float32(1.0))
    two = simd.splat(np.float32(BLOCK_ROWS))
    cut, cap = simd.splat(LOG2_ALPHA_MIN), simd.splat(np.float32(ALPHA_MAX))
    least = simd.splat(np.float32(TRANSMITTANCE_MIN))
    for k in range(first, last):
        at = np.int64(entries[k, 0]) * RECORD_FLOATS
        code = entries[k, 1]
        simd.prefetch(records, np.int64(entries[min(k + AHEAD, last - 1), 0]) * RECORD_FLOATS)
        mean_x, mean_y = records[at + MEAN_X], records[at + MEAN_Y]
        across, slope_x, slope_y = (
            simd.splat(records[at + ACROSS]),
            simd.splat(records[at + SLOPE_X]),
            simd.splat(records[at + SLOPE_Y]),
        )
        log2_opacity = simd.splat(records[at + LOG2_OPACITY])
        depth = simd.splat(records[at + DEPTH])
        for half in range(halves):
            block, end = (code >> (8 * half)) & 15, (code >> (8 * half + 4)) & 15
            dy = simd.lanes_y() + simd.splat(np.float32(top + 2 * block) - mean_y)
            dx = simd.lanes_x() + simd.splat(np.float32(left + 8 * half) - mean_x)
            scaled = across * dx
            column = simd.fnma(scaled, scaled, log2_opacity)
            lean = slope_x * dx
            while block < end:
                slant = simd.fma(slope_y, dy, lean)
                power = simd.fnma(slant, slant, column)
                p = base + half * HALF_PLANE + block * simd.LANES
                trans = simd.load(buffer, p)
                alpha = simd.minimum(simd.exp2(power), cap)
                after = simd.fnma(alpha, trans, trans)
                reached = power >= cut
                blended = reached & (after > least)
                z0 = simd.select(blended & (trans >= one), depth, simd.load(buffer, p + 4 * PLANE))
                simd.store(buffer, p + 4 * PLANE, z0)
                behind = depth - z0
                moment = simd.select(blended, alpha * trans, zero) * behind
                simd.store(buffer, p + PLANE, simd.load(buffer, p + PLANE) + moment)
                simd.store(buffer, p + 2 * PLANE, simd.fma(moment, behind, simd.load(buffer, p + 2 * PLANE)))
                crossing = blended & (trans > half_light) & (half_light >= after)
                simd.store(buffer, p + 3 * PLANE, simd.select(crossing, depth, simd.load(buffer, p + 3 * PLANE)))
                stopped = simd.select(reached, simd.negative_abs(trans), trans)
                simd.store(buffer, p, simd.select(blended, after, stopped))
                dy = dy + two
                block += 1


@jit(error_model="numpy", parallel=True)
def depth_statistics(records, tile_start, tile_end, entries, tile_order, shape, shares):
    """Median z (NaN where more than half the light passes) and variance of z (NaN where nothing was blended)."""
    height, width = shape
    columns = (width + TILE_PX - 1) // TILE_PX
    median_z = np.full((height, width), np.float32(np.nan), dtype=np.float32)
    variance_z = np.full((height, width), np.float32(np.nan), dtype=np.float32)
    flat = records.reshape(-1)
    for worker in numba.prange(shares.shape[0] - 1):
        buffer = np.empty(PLANES * PLANE + simd.LANES, dtype=np.float32)
        base = aligned_start(buffer)
        for turn in range(shares[worker], shares[worker + 1]):
            tile = tile_order[turn]
            if tile_start[tile] == tile_end[tile]:
                continue
            left, top = (tile % columns) * TILE_PX, (tile // columns) * TILE_PX
            wide, tall = min(width - left, TILE_PX), min(height - top, TILE_PX)
            halves = (wide + HALF_PX - 1) // HALF_PX
            buffer[:] = 0.0
            for ly in range(tall):
                for lx in range(wide):
                    buffer[base + pixel_index(lx, ly)] = 1.0
            _measure_tile(buffer, base, flat, entries, tile_start[tile], tile_end[tile], left, top, halves)
            for ly in range(tall):
                for lx in range(wide):
                    p = base + pixel_index(lx, ly)
                    alpha = 1.0 - abs(buffer[p])
                    if alpha > 0.0:
                        mean = buffer[p + PLANE] / alpha
                        variance_z[top + ly, left + lx] = max(buffer[p + 2 * PLANE] / alpha - mean * mean, 0.0)
                    if alpha >= 0.5:
                        median_z[top + ly, left + lx] = buffer[p + 3 * PLANE]
    return median_z, variance_z
