"""Which gaussians touch which tile, front to back.

Depths of the drawn gaussians are radix-sorted once; walking gaussians in that order fills every tile's list in depth
order, so the (many more) intersections are never sorted.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import functools
import math

import numba
import numpy as np
from jaxtyping import Int64

from cuda_kernels.jit import jit
from cuda_kernels.splat.blocks import aligned_start
from cuda_kernels.splat.projection import DRAWN, FLAT_FLOATS
from cuda_kernels.splat.rules import (
    ACROSS,
    ALPHA_MIN,
    BLOCK_ROWS,
    BLUE,
    DEPTH,
    FIRST_ROW,
    GREEN,
    HALF_HEIGHT,
    HALF_WIDTH,
    LOG2_OPACITY,
    MEAN_X,
    MEAN_Y,
    RECORD_FLOATS,
    RED,
    SLOPE_X,
    SLOPE_Y,
    TILE_COLUMNS,
    TILE_PX,
    TILE_X0,
    TILE_Y0,
)

DIGIT_BITS = 11
TILE_ITSELF = 16  # entries that take as long as setting up a tile and writing it out
CHUNKS = 16  # runs of depth ranks that fill the lists side by side; fixed, so threads change nothing
HALF_PX = TILE_PX // 2
HALF_BITS = 8  # of a span code: first block, one past the last block, 4 bits each
SLACK_PX = 0.01  # the spans are computed in other roundings than the pixels
LOG2_ALPHA_MIN = math.log2(ALPHA_MIN)


@functools.lru_cache(maxsize=16)
def nearby_order(width: int, height: int) -> Int64[np.ndarray, "T"]:
    """Tiles of an image along a Z curve, so that what one tile has fetched the next ones find in the cache.

    Neighbours share most of their gaussians: in any order that jumps about, every record and gradient row comes from
    memory (and its page from the page tables) once for each tile.
    """
    columns, rows = (width + TILE_PX - 1) // TILE_PX, (height + TILE_PX - 1) // TILE_PX
    y, x = np.divmod(np.arange(columns * rows, dtype=np.int64), columns)
    key = np.zeros(columns * rows, dtype=np.int64)
    for bit in range(max(columns, rows).bit_length()):
        key |= ((x >> bit & 1) << (2 * bit)) | ((y >> bit & 1) << (2 * bit + 1))
    return np.argsort(key, kind="stable")


def even_shares(
    tile_start: Int64[np.ndarray, "T1"], tile_order: Int64[np.ndarray, "T"], workers: int
) -> Int64[np.ndarray, "W1"]:
    """Where in the order each worker begins, such that all have about as much to do; then the end."""
    done = np.cumsum(np.diff(tile_start)[tile_order] + TILE_ITSELF)
    goals = done[-1] * np.arange(1, workers) / workers
    return np.concatenate([[0], np.searchsorted(done, goals), [len(tile_order)]]).astype(np.int64)


@jit(error_model="numpy")
def depth_order(flat, status):
    """Indices of the drawn gaussians, near to far; equal depths keep the order of the rows.

    The bits of a positive float sort as an integer; three passes of 11 bits (least significant digit first).
    """
    count = status.shape[0]
    drawn = 0
    for i in range(count):
        drawn += status[i] == DRAWN
    depths = np.empty(drawn, dtype=np.float32)
    order = np.empty(drawn, dtype=np.int32)
    k = 0
    for i in range(count):
        if status[i] == DRAWN:
            depths[k] = flat[i, DEPTH]
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


@jit(error_model="numpy", parallel=True)
def ordered_records(flat, order, colors, width, height):
    """Records by depth rank, and where each rank's gradient rows begin: one row per tile of its rectangle."""
    drawn = order.shape[0]
    floats = np.empty((drawn + 1) * RECORD_FLOATS, dtype=np.float32)
    begin = aligned_start(floats)  # a record in two cache lines would cost twice
    records = floats[begin : begin + drawn * RECORD_FLOATS].reshape((drawn, RECORD_FLOATS))
    integers = records.view(np.int32)
    first_row = np.empty(drawn + 1, dtype=np.int64)
    for rank in numba.prange(drawn):
        i = order[rank]
        for k in range(FLAT_FLOATS):
            records[rank, k] = flat[i, k]
        records[rank, RED], records[rank, GREEN], records[rank, BLUE] = colors[i, 0], colors[i, 1], colors[i, 2]
        mean_x, mean_y = np.float64(flat[i, MEAN_X]), np.float64(flat[i, MEAN_Y])
        half_w, half_h = np.float64(flat[i, HALF_WIDTH]) + SLACK_PX, np.float64(flat[i, HALF_HEIGHT]) + SLACK_PX
        x0 = math.ceil(max(mean_x - half_w, 0.0)) // TILE_PX
        y0 = math.ceil(max(mean_y - half_h, 0.0)) // TILE_PX
        x1 = math.floor(min(mean_x + half_w, width - 1.0)) // TILE_PX + 1
        y1 = math.floor(min(mean_y + half_h, height - 1.0)) // TILE_PX + 1
        integers[rank, TILE_X0], integers[rank, TILE_Y0], integers[rank, TILE_COLUMNS] = x0, y0, max(x1 - x0, 0)
        first_row[rank + 1] = max(x1 - x0, 0) * max(y1 - y0, 0)
    first_row[0] = 0
    for rank in range(drawn):
        integers[rank, FIRST_ROW] = first_row[rank]
        first_row[rank + 1] += first_row[rank]
    return records, first_row


@jit(error_model="numpy", inline="always")
def _ellipse(record):
    """Where a gaussian has an alpha of at least ALPHA_MIN: an ellipse around its mean, in the terms of _half_span."""
    across, slope_x, slope_y = np.float64(record[ACROSS]), np.float64(record[SLOPE_X]), np.float64(record[SLOPE_Y])
    reach2 = max(np.float64(record[LOG2_OPACITY]) - LOG2_ALPHA_MIN, 0.0)
    half_w = math.sqrt(reach2) / across
    apex = -slope_x / math.sqrt(across * across + slope_x * slope_x) * half_w  # dx of the highest point
    return (
        np.float64(record[MEAN_X]),
        np.float64(record[MEAN_Y]),
        across * across,
        slope_x,
        1.0 / slope_y,
        reach2,
        half_w,
        apex,
    )


@jit(error_model="numpy", inline="always")
def _half_span(ellipse, left, top, blocks):
    """Blocks of a tile's half that an ellipse reaches: first + 16 * (last + 1), or 0 for none.

    The half's columns cut a slab dx in [a, b] out of it. Over the slab the upper branch of the ellipse is highest at
    its apex or, if that lies outside, at the nearer end; the lower likewise.
    """
    mean_x, mean_y, across2, slope_x, inverse, reach2, half_w, apex = ellipse
    a, b = max(left - mean_x, -half_w), min(left + (HALF_PX - 1) - mean_x, half_w)
    if a > b + 2 * SLACK_PX:
        return 0
    at_top, at_bottom = min(max(apex, a), b), min(max(-apex, a), b)
    rise = math.sqrt(max(reach2 - across2 * at_top * at_top, 0.0))
    fall = math.sqrt(max(reach2 - across2 * at_bottom * at_bottom, 0.0))
    low = max(mean_y - top - (fall + slope_x * at_bottom) * inverse - SLACK_PX, 0.0)
    high = min(mean_y - top + (rise - slope_x * at_top) * inverse + SLACK_PX, TILE_PX - 1.0)
    first, last = math.ceil(low), math.floor(high)
    if first > last:
        return 0
    return first // BLOCK_ROWS + 16 * min(last // BLOCK_ROWS + 1, blocks)


@jit(error_model="numpy", parallel=True)
def tile_lists(records, first_row, size_wh):
    """Per tile (row-major) what it draws, front to back: start offsets, and entries (depth rank, span code).

    Each chunk of depth ranks counts what it puts into every tile; then it knows where its share of each list begins.
    """
    width, height = size_wh
    columns, rows = (width + TILE_PX - 1) // TILE_PX, (height + TILE_PX - 1) // TILE_PX
    drawn, tiles = records.shape[0], columns * rows
    integers = records.view(np.int32)
    spans = np.empty(first_row[-1], dtype=np.uint16)
    counts = np.zeros((CHUNKS, tiles), dtype=np.int32)
    for chunk in numba.prange(CHUNKS):
        for rank in range(drawn * chunk // CHUNKS, drawn * (chunk + 1) // CHUNKS):
            row, x0, across = first_row[rank], integers[rank, TILE_X0], integers[rank, TILE_COLUMNS]
            ty = integers[rank, TILE_Y0]
            ellipse = _ellipse(records[rank])
            while row < first_row[rank + 1]:
                top = np.float64(ty * TILE_PX)
                blocks = (min(height - ty * TILE_PX, TILE_PX) + BLOCK_ROWS - 1) // BLOCK_ROWS
                for tx in range(x0, x0 + across):
                    left = np.float64(tx * TILE_PX)
                    span = _half_span(ellipse, left, top, blocks)
                    span |= _half_span(ellipse, left + HALF_PX, top, blocks) << HALF_BITS
                    spans[row] = span
                    counts[chunk, ty * columns + tx] += span > 0
                    row += 1
                ty += 1
    start = np.empty(tiles + 1, dtype=np.int64)
    total = 0
    for tile in range(tiles):
        start[tile] = total
        for chunk in range(CHUNKS):
            size = counts[chunk, tile]
            counts[chunk, tile] = total
            total += size
    start[tiles] = total
    entries = np.empty((total, 2), dtype=np.int32)
    for chunk in numba.prange(CHUNKS):
        for rank in range(drawn * chunk // CHUNKS, drawn * (chunk + 1) // CHUNKS):
            row, x0, across = first_row[rank], integers[rank, TILE_X0], integers[rank, TILE_COLUMNS]
            tile = integers[rank, TILE_Y0] * columns + x0
            while row < first_row[rank + 1]:
                for k in range(across):
                    if spans[row]:
                        slot = counts[chunk, tile + k]
                        counts[chunk, tile + k] = slot + 1
                        entries[slot, 0], entries[slot, 1] = rank, spans[row]
                    row += 1
                tile += columns
    return start, entries, spans
