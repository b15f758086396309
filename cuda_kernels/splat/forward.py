"""Compositing front to back, tile by tile."""

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
    TILE_PX,
    TRANSMITTANCE_MIN,
)

FLAGS = {"contract", "nsz"}


def composite(records, tile_start, tile_ranks, shape, background, statistics):  # type: ignore[no-untyped-def]
    return _composite(records, tile_start, tile_ranks, shape, background)


@jit(parallel=True, error_model="numpy", fastmath=FLAGS)
def _composite(records, tile_start, tile_ranks, shape, background):  # type: ignore[no-untyped-def]
    height, width = shape
    columns = (width + TILE_PX - 1) // TILE_PX
    rgb = np.empty((height, width, 3), dtype=np.float32)
    alpha_out = np.empty((height, width), dtype=np.float32)
    depth_sum = np.empty((height, width), dtype=np.float32)
    median_z = np.empty((height, width), dtype=np.float32)
    variance_z = np.empty((height, width), dtype=np.float32)
    for tile in numba.prange(tile_start.shape[0] - 1):
        for y in range((tile // columns) * TILE_PX, min(height, (tile // columns + 1) * TILE_PX)):
            for x in range((tile % columns) * TILE_PX, min(width, (tile % columns + 1) * TILE_PX)):
                trans = np.float32(1.0)
                r = g = b = zsum = np.float32(0.0)
                z_first, shifted, shifted2 = np.float32(np.nan), 0.0, 0.0
                median = np.float32(np.nan)
                for k in range(tile_start[tile], tile_start[tile + 1]):
                    rec = records[tile_ranks[k]]
                    dx, dy = x - rec[MEAN_X], y - rec[MEAN_Y]
                    if abs(dy) > rec[HALF_HEIGHT] or abs(dx) > rec[HALF_WIDTH]:
                        continue
                    power = rec[LOG2_OPACITY] - (
                        rec[CONIC_XX] * dx * dx + rec[CONIC_XY] * dx * dy + rec[CONIC_YY] * dy * dy
                    )
                    alpha = np.float32(min(2.0**power, ALPHA_MAX))
                    if alpha < ALPHA_MIN:
                        continue
                    after = trans * (np.float32(1.0) - alpha)
                    if after <= TRANSMITTANCE_MIN:
                        break
                    w = trans * alpha
                    r += w * rec[RED]
                    g += w * rec[GREEN]
                    b += w * rec[BLUE]
                    zsum += w * rec[DEPTH]
                    if np.isnan(z_first):
                        z_first = rec[DEPTH]
                    shifted += w * (rec[DEPTH] - z_first)
                    shifted2 += w * (rec[DEPTH] - z_first) ** 2
                    if trans > 0.5 >= after:
                        median = rec[DEPTH]
                    trans = after
                rgb[y, x, 0] = r + trans * background[0]
                rgb[y, x, 1] = g + trans * background[1]
                rgb[y, x, 2] = b + trans * background[2]
                total = np.float32(1.0) - trans
                alpha_out[y, x] = total
                depth_sum[y, x] = zsum
                median_z[y, x] = median
                variance_z[y, x] = np.nan
                if total > 0.0:
                    variance_z[y, x] = max(shifted2 / total - (shifted / total) ** 2, 0.0)
    return rgb, alpha_out, depth_sum, median_z, variance_z
