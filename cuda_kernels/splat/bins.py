"""Which gaussians touch which tile, front to back.

Depths of the drawn gaussians are radix-sorted once; walking gaussians in that order fills every tile's list in depth
order, so the (many more) intersections are never sorted.
"""

import numba
import numpy as np

from cuda_kernels.jit import jit
from cuda_kernels.splat import projection as p
from cuda_kernels.splat.rules import (
    BLUE,
    CONIC_XX,
    CONIC_XY,
    CONIC_YY,
    DEPTH,
    GREEN,
    HALF_HEIGHT,
    HALF_WIDTH,
    LOG2_OPACITY,
    MEAN_X,
    MEAN_Y,
    RECORD_FLOATS,
    RED,
    TILE_COLUMNS,
    TILE_PX,
    TILE_ROWS,
    TILE_X0,
    TILE_Y0,
)

BANDS = 16  # of tile rows that are filled apart from each other; fixed, so threads change nothing
DIGIT_BITS = 11


@jit(error_model="numpy")
def depth_order(flat, status):  # type: ignore[no-untyped-def]
    """Indices of the drawn gaussians, near to far; equal depths keep the order of the rows.

    The bits of a positive float sort as an integer; three passes of 11 bits (least significant digit first).
    """
    count = status.shape[0]
    drawn = 0
    for i in range(count):
        drawn += status[i] == p.DRAWN
    depths = np.empty(drawn, dtype=np.float32)
    order = np.empty(drawn, dtype=np.int32)
    k = 0
    for i in range(count):
        if status[i] == p.DRAWN:
            depths[k] = flat[i, p.FLAT_Z]
            order[k] = i
            k += 1
    keys = depths.view(np.uint32)
    keys_next, order_next = np.empty_like(keys), np.empty_like(order)
    buckets = np.empty(1 << DIGIT_BITS, dtype=np.int64)
    for digit in range(3):
        shift = np.uint32(digit * DIGIT_BITS)
        mask = np.uint32((1 << DIGIT_BITS) - 1)
        buckets[:] = 0
        for k in range(drawn):
            buckets[(keys[k] >> shift) & mask] += 1
        start = 0
        for bucket in range(buckets.shape[0]):
            size = buckets[bucket]
            buckets[bucket] = start
            start += size
        for k in range(drawn):
            bucket = (keys[k] >> shift) & mask
            slot = buckets[bucket]
            buckets[bucket] = slot + 1
            keys_next[slot], order_next[slot] = keys[k], order[k]
        keys, keys_next = keys_next, keys
        order, order_next = order_next, order
    return order


@jit(parallel=True, error_model="numpy")
def ordered_records(flat, order, colors, width, height):  # type: ignore[no-untyped-def]
    """Records and tile rectangles by depth rank, and where each rank's gradient rows begin (one row per tile)."""
    drawn = order.shape[0]
    records = np.empty((drawn, RECORD_FLOATS), dtype=np.float32)
    rects = np.empty((drawn, 4), dtype=np.int32)
    for rank in numba.prange(drawn):
        i = order[rank]
        mean_x, mean_y = flat[i, p.FLAT_X], flat[i, p.FLAT_Y]
        half_w, half_h = flat[i, p.FLAT_HALF_W], flat[i, p.FLAT_HALF_H]
        records[rank, MEAN_X], records[rank, MEAN_Y] = mean_x, mean_y
        records[rank, CONIC_XX], records[rank, CONIC_XY] = flat[i, p.FLAT_A], flat[i, p.FLAT_B]
        records[rank, CONIC_YY], records[rank, LOG2_OPACITY] = flat[i, p.FLAT_C], flat[i, p.FLAT_LOG2_OPACITY]
        records[rank, RED], records[rank, GREEN], records[rank, BLUE] = colors[i, 0], colors[i, 1], colors[i, 2]
        records[rank, DEPTH] = flat[i, p.FLAT_Z]
        records[rank, HALF_WIDTH], records[rank, HALF_HEIGHT] = half_w, half_h
        records[rank, 12:] = 0.0
        first_x = int(max(np.ceil(mean_x - half_w), np.float32(0.0))) // TILE_PX
        first_y = int(max(np.ceil(mean_y - half_h), np.float32(0.0))) // TILE_PX
        last_x = int(min(np.floor(mean_x + half_w), np.float32(width - 1))) // TILE_PX
        last_y = int(min(np.floor(mean_y + half_h), np.float32(height - 1))) // TILE_PX
        rects[rank, TILE_X0], rects[rank, TILE_Y0] = first_x, first_y
        rects[rank, TILE_COLUMNS] = max(last_x - first_x + 1, 0)
        rects[rank, TILE_ROWS] = max(last_y - first_y + 1, 0)
    first_row = np.empty(drawn + 1, dtype=np.int64)
    first_row[0] = 0
    for rank in range(drawn):
        first_row[rank + 1] = first_row[rank] + rects[rank, TILE_COLUMNS] * rects[rank, TILE_ROWS]
    return records, rects, first_row


@jit(parallel=True, error_model="numpy")
def tile_lists(rects, tiles_xy):  # type: ignore[no-untyped-def]
    """Per tile (row-major) the depth ranks that touch it, ascending: start offsets and the lists behind each other."""
    columns, rows = tiles_xy
    drawn = rects.shape[0]
    counts = np.zeros(columns * rows + 1, dtype=np.int64)
    for band in numba.prange(BANDS):
        top, bottom = rows * band // BANDS, rows * (band + 1) // BANDS
        for rank in range(drawn):
            y0, x0 = rects[rank, TILE_Y0], rects[rank, TILE_X0]
            y1, x1 = y0 + rects[rank, TILE_ROWS], x0 + rects[rank, TILE_COLUMNS]
            for ty in range(max(y0, top), min(y1, bottom)):
                for tx in range(x0, x1):
                    counts[ty * columns + tx + 1] += 1
    start = np.cumsum(counts)
    cursor = start.copy()
    ranks = np.empty(start[-1], dtype=np.int32)
    for band in numba.prange(BANDS):
        top, bottom = rows * band // BANDS, rows * (band + 1) // BANDS
        for rank in range(drawn):
            y0, x0 = rects[rank, TILE_Y0], rects[rank, TILE_X0]
            y1, x1 = y0 + rects[rank, TILE_ROWS], x0 + rects[rank, TILE_COLUMNS]
            for ty in range(max(y0, top), min(y1, bottom)):
                for tx in range(x0, x1):
                    ranks[cursor[ty * columns + tx]] = rank
                    cursor[ty * columns + tx] += 1
    return start, ranks
