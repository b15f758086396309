"""What the forward and the backward kernel share: a tile's blocks, and the arithmetic of a pixel.

A tile's planes (transmittance, colours, ...) lie behind each other in one flat buffer, 256 floats each, ordered half,
block, lane. A block is 8 columns and 2 rows, the lanes of ``simd.f32x16``.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import math

import numpy as np

from cuda_kernels.jit import jit
from cuda_kernels.splat import simd
from cuda_kernels.splat.rules import ALPHA_MIN, CACHE_LINE_BYTES, TILE_PX

PIXELS = TILE_PX * TILE_PX
PLANE = PIXELS + 2 * simd.LANES  # apart by no divisor of 4096 bytes: a load would wait for a store to another plane
HALF_PX = TILE_PX // 2
HALF_PLANE = PIXELS // 2
LOG2_ALPHA_MIN = np.float32(math.log2(ALPHA_MIN))
AHEAD = 16  # entries of a tile's list, for fetching records (and half as far, rows) before they are needed


@jit(error_model="numpy", inline="always")
def aligned_start(buffer):
    """First index of a float32 buffer that begins a cache line; the buffer needs 16 floats to spare."""
    return (-buffer.ctypes.data % CACHE_LINE_BYTES) // 4


@jit(error_model="numpy", inline="always")
def pixel_index(lx, ly):
    """Index within a plane of the pixel at column lx, row ly of a tile."""
    return (lx // 8) * HALF_PLANE + (ly // 2) * simd.LANES + (ly % 2) * 8 + lx % 8


@jit(error_model="numpy", inline="always")
def some_light_left(buffer, trans_plane):
    """Whether some pixel of the tile still takes gaussians: done ones have their transmittance negated."""
    zero = simd.splat(np.float32(0.0))
    left = simd.load(buffer, trans_plane) > zero
    for block in range(1, PIXELS // simd.LANES):
        left = left | (simd.load(buffer, trans_plane + block * simd.LANES) > zero)
    return simd.any_lane(left)
