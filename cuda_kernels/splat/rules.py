"""Constants of the compositing rule, as gsplat 1.5 has them, so that models are exchangeable.

Source: Kerbl et al. (2023), eq. 2-5, and gsplat 1.5.3 ``csrc/RasterizeToPixels3DGSFwd.cu`` (alpha limits, order of the
tests) and ``include/Utils.cuh`` (``persp_proj``, ``add_blur``).
"""

ALPHA_MAX = 0.999
"""Alpha is clamped to this; where it is, the gaussian's shape and opacity get no gradient."""
ALPHA_MIN = 1.0 / 255.0
"""A pixel where a gaussian has less alpha than this skips it."""
TRANSMITTANCE_MIN = 1e-4
"""The gaussian that would leave no more than this is not blended, nor any behind it."""
EPS2D_PX2 = 0.3
"""Added to the diagonal of every projected covariance, square pixels: the screen-space low-pass."""
FOV_MARGIN = 0.3
"""Beyond this share of the half field of view outside the image, the projection is linearised at the margin."""
THETA_MAX_RAD = 0.95 * 3.141592653589793
"""A fisheye draws no centre farther round than this: straight behind, the image of a point is a circle."""
LOG2_E = 1.4426950408889634

TILE_PX = 16
"""Side of a tile: two halves of 8 columns, each of 8 blocks of 8 columns and 2 rows, the lanes of ``simd.f32x16``."""
BLOCK_ROWS = 2
CACHE_LINE_BYTES = 64
RECORD_FLOATS = 16
"""One record is one cache line of 64 bytes."""

# Columns of a record, float32. With d = pixel - mean,
# log2(alpha) = LOG2_OPACITY - (ACROSS dx)^2 - (SLOPE_X dx + SLOPE_Y dy)^2, the Cholesky factors of the conic: no
# cancellation between large terms as in a dx^2 + 2 b dx dy + c dy^2 of a long thin gaussian.
MEAN_X, MEAN_Y, ACROSS, SLOPE_X, SLOPE_Y, LOG2_OPACITY, RED, GREEN, BLUE, DEPTH, HALF_WIDTH, HALF_HEIGHT = range(12)
# The rest of the record, int32 in the same memory: the rectangle of tiles it may touch, and its first gradient row.
TILE_X0, TILE_Y0, TILE_COLUMNS, FIRST_ROW = range(12, 16)

# Sums over pixels that a (tile, gaussian) pair hands to the projection's backward pass. v = alpha dL/dalpha,
# w = blending weight, g = gradients of the pixel, d = pixel - mean.
SUM_V, SUM_VX, SUM_VY, SUM_VXX, SUM_VXY, SUM_VYY, SUM_WR, SUM_WG, SUM_WB, SUM_WZ = range(10)
ROW_FLOATS = 16
"""A gradient row is one cache line too; no two tiles share one."""
