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
LOG2_E = 1.4426950408889634

TILE_PX = 16
"""Side of a tile. Smaller ones cost more binning, larger ones more pixels that no gaussian touches."""
RECORD_FLOATS = 16
"""One record is one cache line of 64 bytes, see ``Field``."""

# Columns of a record (float32). MEAN_X, MEAN_Y in pixels; the conic is scaled so that
# log2(alpha) = LOG2_OPACITY - (CONIC_XX dx^2 + CONIC_XY dx dy + CONIC_YY dy^2).
MEAN_X, MEAN_Y, CONIC_XX, CONIC_XY, CONIC_YY, LOG2_OPACITY, RED, GREEN, BLUE, DEPTH = range(10)
HALF_WIDTH, HALF_HEIGHT = 10, 11
"""Half sides of the box in which alpha reaches ``ALPHA_MIN``, pixels."""

# Columns of the tile rectangle of a gaussian (int32), and where its gradient rows begin.
TILE_X0, TILE_Y0, TILE_COLUMNS, TILE_ROWS = range(4)

# Sums that a (tile, gaussian) pair hands to the projection's backward pass.
# V = alpha dL/dalpha, w = blending weight, g = pixel gradients, d = pixel - mean.
(SUM_V, SUM_VX, SUM_VY, SUM_VXX, SUM_VXY, SUM_VYY, SUM_WR, SUM_WG, SUM_WB, SUM_WZ) = range(10)
SUM_FLOATS = 12
