"""Compositing front to back, tile by tile."""
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
    some_light_left,
)
from cuda_kernels.splat.rules import (
    ACROSS,
    ALPHA_MAX,
    BLOCK_ROWS,
    BLUE,
    DEPTH,
    GREEN,
    LOG2_OPACITY,
    MEAN_X,
    MEAN_Y,
    RECORD_FLOATS,
    RED,
    SLOPE_X,
    SLOPE_Y,
    TILE_PX,
    TRANSMITTANCE_MIN,
)

CHECK_EVERY = 16  # gaussians, for light left
PLANES = 5  # transmittance, red, green, blue, depth


@jit(error_model="numpy")
def _blend_tile(buffer, base, records, entries, first, last, left, top, halves):
    """Blend a tile's gaussians into its planes until no pixel takes any more; returns where in the list that was."""
    zero = simd.splat(np.float32(0.0))
    two = simd.splat(np.float32(BLOCK_ROWS))
    cut, cap = simd.splat(LOG2_ALPHA_MIN), simd.splat(np.float32(ALPHA_MAX))
    least = simd.splat(np.float32(TRANSMITTANCE_MIN))
    for k in range(first, last):
        if (k - first) % CHECK_EVERY == CHECK_EVERY - 1 and not some_light_left(buffer, base):
            return k
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
        red, green, blue = (
            simd.splat(records[at + RED]),
            simd.splat(records[at + GREEN]),
            simd.splat(records[at + BLUE]),
        )
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
                weight = simd.select(blended, alpha * trans, zero)
                simd.store(buffer, p + PLANE, simd.fma(weight, red, simd.load(buffer, p + PLANE)))
                simd.store(buffer, p + 2 * PLANE, simd.fma(weight, green, simd.load(buffer, p + 2 * PLANE)))
                simd.store(buffer, p + 3 * PLANE, simd.fma(weight, blue, simd.load(buffer, p + 3 * PLANE)))
                simd.store(buffer, p + 4 * PLANE, simd.fma(weight, depth, simd.load(buffer, p + 4 * PLANE)))
                stopped = simd.select(reached, simd.negative_abs(trans), trans)
                simd.store(buffer, p, simd.select(blended, after, stopped))
                dy = dy + two
                block += 1
    return last


@jit(error_model="numpy", parallel=True)
def composite(records, tile_start, entries, tile_order, shape, background, shares):
    """Colour, alpha, accumulated depth, and up to where each tile's list was read.

    Worker w draws tile_order[shares[w]:shares[w + 1]], each tile by itself.
    """
    height, width = shape
    columns = (width + TILE_PX - 1) // TILE_PX
    rgb = np.empty((height, width, 3), dtype=np.float32)
    alpha = np.empty((height, width), dtype=np.float32)
    depth_sum = np.empty((height, width), dtype=np.float32)
    tile_end = np.empty(tile_order.shape[0], dtype=np.int64)
    flat = records.reshape(-1)
    for worker in numba.prange(shares.shape[0] - 1):
        buffer = np.empty(PLANES * PLANE + simd.LANES, dtype=np.float32)
        base = aligned_start(buffer)
        for turn in range(shares[worker], shares[worker + 1]):
            tile = tile_order[turn]
            left, top = (tile % columns) * TILE_PX, (tile // columns) * TILE_PX
            wide, tall = min(width - left, TILE_PX), min(height - top, TILE_PX)
            halves = (wide + HALF_PX - 1) // HALF_PX
            buffer[:] = 0.0  # pixels outside the image stay without light
            for ly in range(tall):
                for lx in range(wide):
                    buffer[base + pixel_index(lx, ly)] = 1.0
            first, last = tile_start[tile], tile_start[tile + 1]
            tile_end[tile] = _blend_tile(buffer, base, flat, entries, first, last, left, top, halves)
            for ly in range(tall):
                for lx in range(wide):
                    p = base + pixel_index(lx, ly)
                    trans = abs(buffer[p])
                    rgb[top + ly, left + lx, 0] = buffer[p + PLANE] + trans * background[0]
                    rgb[top + ly, left + lx, 1] = buffer[p + 2 * PLANE] + trans * background[1]
                    rgb[top + ly, left + lx, 2] = buffer[p + 3 * PLANE] + trans * background[2]
                    alpha[top + ly, left + lx] = np.float32(1.0) - trans
                    depth_sum[top + ly, left + lx] = buffer[p + 4 * PLANE]
    return rgb, alpha, depth_sum, tile_end
