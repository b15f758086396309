"""Pull an image through a map of source pixels: bilinear, uint8 RGB, one arithmetic for CPU and GPU.

A ``RemapTable`` is made once per view: for every target pixel the byte offset of the source pixel at its upper left and
two fractions of 11 bits. The blend is exact in 32-bit integers (8 + 11 + 11 bits) and rounded once, so a result is
within half a grey level plus 255 / 2048 of the float64 reference. Twins: ``_remap_cpu`` (numba),
``cuda_kernels.remap_cuda`` (numba.cuda), ``remap_bilinear_reference`` (NumPy, float64).
"""

from typing import Any

import numba
import numpy as np
from jaxtyping import UInt8

from cuda_kernels.jit import jit
from cuda_kernels.remap_table import FRACTION_BITS, RemapTable, make_table, remap_bilinear_reference, remap_nearest

__all__ = ["RemapTable", "make_table", "remap_bilinear", "remap_bilinear_reference", "remap_nearest"]

_BITS = FRACTION_BITS
_ONE = 1 << _BITS
_ROUND = 1 << (2 * _BITS - 1)


def remap_bilinear(image: UInt8[np.ndarray, "H W 3"], table: RemapTable) -> UInt8[np.ndarray, "h w 3"]:
    """Target image of a source image; pixels without a source are 0.

    Raises:
        KernelError: the image does not have the table's source size.
    """
    table.check(image)
    out = np.empty((*table.offsets.shape, 3), dtype=np.uint8)
    _remap_cpu(
        np.ascontiguousarray(image).reshape(-1), table.source_size_wh_px[0] * 3, table.offsets, table.fractions, out
    )
    return out


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
