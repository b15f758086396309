"""Compositing backwards, walking front to back again with one scalar suffix per pixel."""

import numba
import numpy as np

from cuda_kernels.jit import jit
from cuda_kernels.splat.rules import (
    ALPHA_MAX,
    ALPHA_MIN,
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
    RED,
    SUM_FLOATS,
    TILE_COLUMNS,
    TILE_PX,
    TILE_X0,
    TILE_Y0,
    TRANSMITTANCE_MIN,
)

FLAGS = {"contract", "nsz"}


def composite_backward(records, rects, first_row, tile_start, tile_ranks, image, grads, background):  # type: ignore[no-untyped-def]
    d_rgb, d_alpha, d_depth = grads
    paper = d_rgb @ background
    suffix = (
        (image.rgb * d_rgb).sum(axis=-1, dtype=np.float32) - paper + image.depth_sum * d_depth + image.alpha * d_alpha
    )
    rows = _backward_rows(records, rects, first_row, tile_start, tile_ranks, suffix, d_rgb, d_alpha - paper, d_depth)
    return _sum_rows(rows, first_row)


@jit(parallel=True, error_model="numpy", fastmath=FLAGS)
def _backward_rows(records, rects, first_row, tile_start, tile_ranks, suffix, d_rgb, d_cover, d_depth):  # type: ignore[no-untyped-def]
    height, width = suffix.shape
    columns = (width + TILE_PX - 1) // TILE_PX
    rows = np.zeros((first_row[-1], SUM_FLOATS), dtype=np.float32)
    for tile in numba.prange(tile_start.shape[0] - 1):
        ty, tx = tile // columns, tile % columns
        trans = np.ones((TILE_PX, TILE_PX), dtype=np.float32)
        rest = np.zeros((TILE_PX, TILE_PX), dtype=np.float32)
        h, w_px = min(height - ty * TILE_PX, TILE_PX), min(width - tx * TILE_PX, TILE_PX)
        for y in range(h):
            for x in range(w_px):
                rest[y, x] = suffix[ty * TILE_PX + y, tx * TILE_PX + x]
        for k in range(tile_start[tile], tile_start[tile + 1]):
            rank = tile_ranks[k]
            rec = records[rank]
            slot = first_row[rank] + (ty - rects[rank, TILE_Y0]) * rects[rank, TILE_COLUMNS] + tx - rects[rank, TILE_X0]
            for ly in range(h):
                y = ty * TILE_PX + ly
                dy = y - rec[MEAN_Y]
                if abs(dy) > rec[HALF_HEIGHT]:
                    continue
                for lx in range(w_px):
                    x = tx * TILE_PX + lx
                    dx = x - rec[MEAN_X]
                    before = trans[ly, lx]
                    if abs(dx) > rec[HALF_WIDTH] or before <= 0.0:
                        continue
                    power = rec[LOG2_OPACITY] - (
                        rec[CONIC_XX] * dx * dx + rec[CONIC_XY] * dx * dy + rec[CONIC_YY] * dy * dy
                    )
                    raw = 2.0**power
                    alpha = np.float32(min(raw, ALPHA_MAX))
                    if alpha < ALPHA_MIN:
                        continue
                    after = before * (np.float32(1.0) - alpha)
                    if after <= TRANSMITTANCE_MIN:
                        trans[ly, lx] = 0.0
                        continue
                    w = before * alpha
                    q = (
                        rec[RED] * d_rgb[y, x, 0]
                        + rec[GREEN] * d_rgb[y, x, 1]
                        + rec[BLUE] * d_rgb[y, x, 2]
                        + rec[DEPTH] * d_depth[y, x]
                        + d_cover[y, x]
                    )
                    rest[ly, lx] -= w * q
                    trans[ly, lx] = after
                    v = np.float32(0.0)
                    if raw < ALPHA_MAX:
                        v = alpha * (before * q - rest[ly, lx] / (np.float32(1.0) - alpha))
                    rows[slot, 0] += v
                    rows[slot, 1] += v * dx
                    rows[slot, 2] += v * dy
                    rows[slot, 3] += v * dx * dx
                    rows[slot, 4] += v * dx * dy
                    rows[slot, 5] += v * dy * dy
                    rows[slot, 6] += w * d_rgb[y, x, 0]
                    rows[slot, 7] += w * d_rgb[y, x, 1]
                    rows[slot, 8] += w * d_rgb[y, x, 2]
                    rows[slot, 9] += w * d_depth[y, x]
    return rows


@jit(parallel=True, error_model="numpy")
def _sum_rows(rows, first_row):  # type: ignore[no-untyped-def]
    sums = np.zeros((first_row.shape[0] - 1, SUM_FLOATS), dtype=np.float32)
    for rank in numba.prange(sums.shape[0]):
        for row in range(first_row[rank], first_row[rank + 1]):
            for k in range(SUM_FLOATS):
                sums[rank, k] += rows[row, k]
    return sums
