"""Pull an image through a map of source pixels: bilinear, bicubic, nearest; one arithmetic for CPU and GPU.

A table is made once per view (``make_table``, ``make_nearest_table``); ``cuda_kernels.remap_rules`` says how a pixel is
worked out and how far from the float64 reference that can be. Twins: here (numba), ``cuda_kernels.remap_cuda``
(numba.cuda), ``cuda_kernels.remap_reference`` (NumPy, float64). Colour images go four pixels at a time
(``cuda_kernels.remap_simd``), with the same bytes as one at a time.
"""

from typing import Any

import numba
import numpy as np
from jaxtyping import Shaped, UInt8

from cuda_kernels.jit import jit
from cuda_kernels.remap_rules import blend, cubic_row, cubic_rows, cubic_weights
from cuda_kernels.remap_simd import blend_four, prefetch
from cuda_kernels.remap_table import (
    NearestTable,
    RemapTable,
    checked_fill,
    make_nearest_table,
    make_table,
    remap_bicubic_reference,
    remap_bilinear_reference,
    remap_nearest,
)

__all__ = [
    "NearestTable",
    "RemapTable",
    "make_nearest_table",
    "make_table",
    "remap_bicubic",
    "remap_bicubic_reference",
    "remap_bilinear",
    "remap_bilinear_reference",
    "remap_labels",
    "remap_nearest",
]

_BLOCK = 4096  # pixels that a thread takes at a time; a multiple of four
_ROWS_AHEAD = 4  # source rows asked for before they are needed; 1 to 8 were tried with cold caches
_CUBIC = cubic_weights().reshape(-1)

_blend = jit(inline="always")(blend)
_cubic_row = jit(inline="always")(cubic_row)
_cubic_rows = jit(inline="always")(cubic_rows)


def remap_bilinear(image: UInt8[np.ndarray, "H W *channels"], table: RemapTable) -> UInt8[np.ndarray, "h w *channels"]:
    """Target image of a colour [H, W, 3] or grey [H, W] image; pixels without a source are 0.

    Raises:
        KernelError: the image does not have the table's source size.
    """
    table.check(image)
    out = np.empty((*table.offsets.shape, *image.shape[2:]), dtype=np.uint8)
    source = np.ascontiguousarray(image).reshape(-1)
    kernel = _bilinear_colour if image.ndim == 3 else _bilinear_grey
    kernel(source, table.source_size_wh_px[0], table.offsets.reshape(-1), table.fractions.reshape(-1), out.reshape(-1))
    return out


def remap_bicubic(image: UInt8[np.ndarray, "H W *channels"], table: RemapTable) -> UInt8[np.ndarray, "h w *channels"]:
    """Like ``remap_bilinear``, with Keys' kernel over 4 x 4 pixels: sharper, and about ten times the work.

    Raises:
        KernelError: the image does not have the table's source size.
    """
    table.check(image)
    out = np.empty((*table.offsets.shape, *image.shape[2:]), dtype=np.uint8)
    source, channels = np.ascontiguousarray(image).reshape(-1), image.size // (image.shape[0] * image.shape[1])
    offsets, fractions = table.offsets.reshape(-1), table.fractions.reshape(-1)
    _bicubic(source, table.source_size_wh_px, channels, offsets, fractions, _CUBIC, out.reshape(-1))
    return out


def remap_labels(image: Shaped[np.ndarray, "H W"], table: NearestTable, fill: int = 0) -> Shaped[np.ndarray, "h w"]:
    """Label image or mask (integers or truth values) as seen in the target, values never mixed.

    Raises:
        KernelError: the image does not have the table's source size, no integers, or ``fill`` does not fit its dtype.
    """
    table.check(image)
    filler = checked_fill(image.dtype, fill)
    out = np.empty(table.offsets.shape, dtype=image.dtype)
    _nearest(np.ascontiguousarray(image).reshape(-1), table.offsets.reshape(-1), filler, out.reshape(-1))
    return out


@jit(parallel=True, nogil=True)
def _bilinear_colour(source: Any, width: Any, offsets: Any, fractions: Any, out: Any) -> None:
    count = offsets.size
    for block in numba.prange((count + _BLOCK - 1) // _BLOCK):
        first = np.int64(block) * _BLOCK
        end = min(first + _BLOCK, count)
        for quad in range((end - first) // 4):
            four = first + 4 * quad
            prefetch(source, 3 * (np.int64(offsets[four]) + _ROWS_AHEAD * width))
            blend_four(source, offsets, fractions, out, four, 3 * width, source.size)
        for at in range(first + (end - first) // 4 * 4, end):
            _one_pixel(source, 3, width, offsets, fractions, out, at)


@jit(parallel=True, nogil=True)
def _bilinear_grey(source: Any, width: Any, offsets: Any, fractions: Any, out: Any) -> None:
    for at in numba.prange(offsets.size):
        _one_pixel(source, 1, width, offsets, fractions, out, at)


@jit(inline="always")
def _one_pixel(
    source: Any,
    channels: Any,
    width: Any,
    offsets: Any,
    fractions: Any,
    out: Any,
    at: Any,
) -> None:
    """One target pixel by the plain rule: what ``blend_four`` does for four."""
    offset = offsets[at]
    fx, fy = np.int32(fractions[2 * at]), np.int32(fractions[2 * at + 1])
    for channel in range(channels):
        if offset < 0:
            out[channels * at + channel] = 0
            continue
        top = channels * np.int64(offset) + channel
        low = top + channels * width
        out[channels * at + channel] = _blend(
            np.int32(source[top]),
            np.int32(source[top + channels]),
            np.int32(source[low]),
            np.int32(source[low + channels]),
            fx,
            fy,
        )


@jit(parallel=True, nogil=True)
def _bicubic(
    source: Any,
    size_wh: Any,
    channels: Any,
    offsets: Any,
    fractions: Any,
    weights: Any,
    out: Any,
) -> None:
    width, height = size_wh
    for at in numba.prange(offsets.size):
        offset = np.int64(offsets[at])
        if offset < 0:
            for k in range(channels):
                out[channels * at + k] = 0
            continue
        y = offset // width
        x = offset - y * width
        # Steps to the left and right neighbours, and the starts of the four rows; the border is repeated outwards.
        left, right, far = channels * max(x - 1, 0), channels * (x + 1), channels * min(x + 2, width - 1)
        here, row = channels * x, channels * width
        row0, row1 = row * max(y - 1, 0), row * y
        row2, row3 = row * (y + 1), row * min(y + 2, height - 1)
        fx, fy = 4 * np.int64(fractions[2 * at]), 4 * np.int64(fractions[2 * at + 1])
        a, b = np.int32(weights[fx]), np.int32(weights[fx + 1])
        c, d = np.int32(weights[fx + 2]), np.int32(weights[fx + 3])
        for k in range(channels):
            out[channels * at + k] = _cubic_rows(
                _row_sum(source, row0 + k, left, here, right, far, a, b, c, d),
                _row_sum(source, row1 + k, left, here, right, far, a, b, c, d),
                _row_sum(source, row2 + k, left, here, right, far, a, b, c, d),
                _row_sum(source, row3 + k, left, here, right, far, a, b, c, d),
                np.int32(weights[fy]),
                np.int32(weights[fy + 1]),
                np.int32(weights[fy + 2]),
                np.int32(weights[fy + 3]),
            )


@jit(inline="always")
def _row_sum(
    source: Any, start: Any, left: Any, here: Any, right: Any, far: Any, a: Any, b: Any, c: Any, d: Any
) -> Any:
    return _cubic_row(
        np.int32(source[np.uint64(start + left)]),
        np.int32(source[np.uint64(start + here)]),
        np.int32(source[np.uint64(start + right)]),
        np.int32(source[np.uint64(start + far)]),
        a,
        b,
        c,
        d,
    )


@jit(parallel=True, nogil=True)
def _nearest(source: Any, offsets: Any, fill: Any, out: Any) -> None:
    for at in numba.prange(offsets.size):
        offset = offsets[at]
        out[at] = source[offset] if offset >= 0 else fill
