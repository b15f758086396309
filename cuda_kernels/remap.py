"""Pull an image through a map of source pixels: bilinear, uint8 RGB, one arithmetic for CPU and GPU.

A ``RemapTable`` is made once per view: for every target pixel the byte offset of the source pixel at its upper left and
two fractions of 11 bits. The blend is exact in 32-bit integers (8 + 11 + 11 bits) and rounded once, so a result is
within half a grey level plus 255 / 2048 of the float64 reference. Twins: ``_remap_cpu`` (numba), ``remap_cuda``
(numba.cuda), ``remap_bilinear_reference`` (NumPy, float64).
"""

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from jaxtyping import Bool, Float, Int32, UInt8, UInt16

from cuda_kernels.errors import KernelError
from cuda_kernels.jit import jit

_BITS = 11
_ONE = 1 << _BITS
_ROUND = 1 << (2 * _BITS - 1)


@dataclass(frozen=True)
class RemapTable:
    """Where each target pixel comes from in a source image of one size."""

    source_size_wh_px: tuple[int, int]
    offsets: Int32[np.ndarray, "H W"]  # bytes into the source image; -1 = no source pixel
    fractions: UInt16[np.ndarray, "H W 2"]  # right and down, in 1/2048

    @property
    def valid(self) -> Bool[np.ndarray, "H W"]:
        """False where the source has no pixel."""
        return np.asarray(self.offsets >= 0)


def make_table(
    source_xy: Float[np.ndarray, "H W 2"], valid: Bool[np.ndarray, "H W"], source_size_wh_px: tuple[int, int]
) -> RemapTable:
    """Pack a map for the kernels.

    Args:
        source_xy: Source pixel (x, y) of each target pixel, centres at whole numbers. Samples in the outer half pixel
            take the border pixel.
        valid: False where there is none; samples off the source image are invalid as well.
        source_size_wh_px: At least 2 x 2 pixels and below 2^31 bytes.

    Raises:
        KernelError: sizes that do not fit.
    """
    width, height = source_size_wh_px
    if width < 2 or height < 2 or width * height * 3 >= 2**31:
        raise KernelError(f"source image {width}x{height} must have at least 2x2 pixels and below 2^31 bytes")
    if source_xy.shape != (*valid.shape, 2):
        raise KernelError(f"map has shape {source_xy.shape}, its mask {valid.shape}")
    x, y = source_xy[..., 0], source_xy[..., 1]
    with np.errstate(invalid="ignore"):
        inside = valid & (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)
    x = np.clip(np.where(inside, x, 0.0), 0, width - 1)
    y = np.clip(np.where(inside, y, 0.0), 0, height - 1)
    # Rounding to the grid first keeps the fraction in [0, 1]; the last column is reached with fraction 1.
    xi, yi = np.rint(x * _ONE).astype(np.int64), np.rint(y * _ONE).astype(np.int64)
    x0, y0 = np.minimum(xi >> _BITS, width - 2), np.minimum(yi >> _BITS, height - 2)
    fractions = np.stack([xi - (x0 << _BITS), yi - (y0 << _BITS)], axis=-1).astype(np.uint16)
    return RemapTable(source_size_wh_px, np.where(inside, (y0 * width + x0) * 3, -1).astype(np.int32), fractions)


def remap_bilinear(image: UInt8[np.ndarray, "H W 3"], table: RemapTable) -> UInt8[np.ndarray, "h w 3"]:
    """Target image of a source image; pixels without a source are 0.

    Raises:
        KernelError: the image does not have the table's source size.
    """
    width, height = table.source_size_wh_px
    if image.shape != (height, width, 3) or image.dtype != np.uint8:
        raise KernelError(f"image is {image.dtype} {image.shape}, the map was made for uint8 {(height, width, 3)}")
    out = np.empty((*table.offsets.shape, 3), dtype=np.uint8)
    _remap_cpu(np.ascontiguousarray(image).reshape(-1), width * 3, table.offsets, table.fractions, out)
    return out


def remap_bilinear_reference(
    image: UInt8[np.ndarray, "H W 3"],
    source_xy: Float[np.ndarray, "h w 2"],
    valid: Bool[np.ndarray, "h w"],
) -> Float[np.ndarray, "h w 3"]:
    """The plain statement of what ``remap_bilinear`` does, in float64 and without rounding."""
    height, width = image.shape[:2]
    x, y = source_xy[..., 0], source_xy[..., 1]
    with np.errstate(invalid="ignore"):
        inside = valid & (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)
    x, y = np.clip(np.where(inside, x, 0.0), 0, width - 1), np.clip(np.where(inside, y, 0.0), 0, height - 1)
    x0, y0 = np.minimum(x.astype(np.int64), width - 2), np.minimum(y.astype(np.int64), height - 2)
    wx, wy = (x - x0)[..., None], (y - y0)[..., None]
    pixels = image.astype(np.float64)
    top = pixels[y0, x0] * (1 - wx) + pixels[y0, x0 + 1] * wx
    bottom = pixels[y0 + 1, x0] * (1 - wx) + pixels[y0 + 1, x0 + 1] * wx
    return np.where(inside[..., None], top * (1 - wy) + bottom * wy, 0.0)


def remap_nearest(image: np.ndarray, source_xy: Float[np.ndarray, "h w 2"], fill: Any) -> np.ndarray:
    """Nearest pixel of an image of any dtype (masks, labels); ``fill`` where the map is NaN or off the image."""
    height, width = image.shape[:2]
    x, y = source_xy[..., 0], source_xy[..., 1]
    with np.errstate(invalid="ignore"):
        inside = (x >= -0.5) & (x < width - 0.5) & (y >= -0.5) & (y < height - 0.5)
    xi = np.floor(np.where(inside, x, 0.0) + 0.5).astype(np.int64)
    yi = np.floor(np.where(inside, y, 0.0) + 0.5).astype(np.int64)
    out = image[yi, xi].copy()
    out[~inside] = fill
    return np.asarray(out)


def _blend(a: Any, b: Any, c: Any, d: Any, fx: Any, fy: Any) -> Any:
    """Bilinear mix of four grey levels; written once, compiled for both machines."""
    top = a * (_ONE - fx) + b * fx
    bottom = c * (_ONE - fx) + d * fx
    return (top * (_ONE - fy) + bottom * fy + _ROUND) >> (2 * _BITS)


_blend_cpu = jit(inline="always")(_blend)


@jit(parallel=True)
def _remap_cpu(source: np.ndarray, stride: int, offsets: np.ndarray, fractions: np.ndarray, out: np.ndarray) -> None:
    rows, cols = offsets.shape
    for row in numba.prange(rows):
        for col in range(cols):
            at = offsets[row, col]
            if at < 0:
                out[row, col, 0] = 0
                out[row, col, 1] = 0
                out[row, col, 2] = 0
                continue
            fx, fy = np.uint32(fractions[row, col, 0]), np.uint32(fractions[row, col, 1])
            low = at + stride
            for channel in range(3):
                out[row, col, channel] = _blend_cpu(
                    np.uint32(source[at + channel]),
                    np.uint32(source[at + channel + 3]),
                    np.uint32(source[low + channel]),
                    np.uint32(source[low + channel + 3]),
                    fx,
                    fy,
                )
