"""GPU twins of ``cuda_kernels.remap``.

They run in numba's simulator (``NUMBA_ENABLE_CUDASIM=1``) where there is no GPU. Import this module where it is used
only: it imports ``numba.cuda``.
"""

import inspect
from typing import Any

import numpy as np
from jaxtyping import Shaped, UInt8
from numba import cuda

from cuda_kernels.cuda_launch import check_device, launch, result, to_device
from cuda_kernels.remap_rules import blend, cubic_row, cubic_rows, cubic_weights
from cuda_kernels.remap_table import NearestTable, RemapTable, checked_fill

_blend = cuda.jit(device=True)(inspect.unwrap(blend))
_cubic_row = cuda.jit(device=True)(inspect.unwrap(cubic_row))
_cubic_rows = cuda.jit(device=True)(inspect.unwrap(cubic_rows))


def remap_bilinear_cuda(
    image: UInt8[np.ndarray, "H W *channels"], table: RemapTable
) -> UInt8[np.ndarray, "h w *channels"]:
    """Like ``cuda_kernels.remap.remap_bilinear``, bit for bit, on the GPU.

    Raises:
        KernelError: no CUDA device, or an image of another size than the table's source.
    """
    return _interpolate(_bilinear, image, table)


def remap_bicubic_cuda(
    image: UInt8[np.ndarray, "H W *channels"], table: RemapTable
) -> UInt8[np.ndarray, "h w *channels"]:
    """Like ``cuda_kernels.remap.remap_bicubic``, bit for bit, on the GPU.

    Raises:
        KernelError: no CUDA device, or an image of another size than the table's source.
    """
    return _interpolate(_bicubic, image, table, cubic_weights())


def remap_labels_cuda(
    image: Shaped[np.ndarray, "H W"], table: NearestTable, fill: int = 0
) -> Shaped[np.ndarray, "h w"]:
    """Like ``cuda_kernels.remap.remap_labels``, on the GPU.

    Raises:
        KernelError: no CUDA device, another size than the table's source, no integers, or ``fill`` does not fit.
    """
    table.check(image)
    filler = checked_fill(image.dtype, fill)
    return _run(_nearest, image[..., None], table, (filler,)).reshape(table.offsets.shape)


def _interpolate(kernel: Any, image: np.ndarray, table: RemapTable, *weights: np.ndarray) -> np.ndarray:
    """Pictures with or without channels: [h, w, ...]."""
    table.check(image)
    width, height = table.source_size_wh_px
    fractions = table.fractions.reshape(-1, 2)
    flat = _run(kernel, image.reshape(height, width, -1), table, (fractions, *weights))
    return flat.reshape(*table.offsets.shape, *image.shape[2:])


def _run(kernel: Any, image: np.ndarray, table: RemapTable | NearestTable, extra: tuple[Any, ...]) -> np.ndarray:
    """Copy to the device, one thread a target pixel, copy back: [pixels, channels]."""
    check_device("cuda_kernels.remap")
    count = table.offsets.size
    moved = [to_device(value) if isinstance(value, np.ndarray) else value for value in extra]
    out = cuda.device_array((count, image.shape[2]), dtype=image.dtype)
    launch(kernel, count, to_device(image), to_device(table.offsets.reshape(-1)), *moved, out)
    return result(out)


@cuda.jit
def _bilinear(source: Any, offsets: Any, fractions: Any, out: Any) -> None:
    at = cuda.grid(1)
    if at >= offsets.size:
        return
    offset, width = offsets[at], source.shape[1]
    if offset < 0:
        for k in range(out.shape[1]):
            out[at, k] = 0
        return
    y, x = offset // width, offset % width
    fx, fy = np.int32(fractions[at, 0]), np.int32(fractions[at, 1])
    for k in range(out.shape[1]):
        out[at, k] = _blend(
            np.int32(source[y, x, k]),
            np.int32(source[y, x + 1, k]),
            np.int32(source[y + 1, x, k]),
            np.int32(source[y + 1, x + 1, k]),
            fx,
            fy,
        )


@cuda.jit
def _bicubic(source: Any, offsets: Any, fractions: Any, weights: Any, out: Any) -> None:
    at = cuda.grid(1)
    if at >= offsets.size:
        return
    offset, height, width = offsets[at], source.shape[0], source.shape[1]
    if offset < 0:
        for k in range(out.shape[1]):
            out[at, k] = 0
        return
    y, x = offset // width, offset % width
    x0, x1, x3 = max(x - 1, 0), x + 1, min(x + 2, width - 1)
    y0, y1, y3 = max(y - 1, 0), y + 1, min(y + 2, height - 1)
    along_x, along_y = fractions[at, 0], fractions[at, 1]
    a, b = np.int32(weights[along_x, 0]), np.int32(weights[along_x, 1])
    c, d = np.int32(weights[along_x, 2]), np.int32(weights[along_x, 3])
    e, f = np.int32(weights[along_y, 0]), np.int32(weights[along_y, 1])
    g, h = np.int32(weights[along_y, 2]), np.int32(weights[along_y, 3])
    for k in range(out.shape[1]):
        row0 = _row_sum(source, y0, x0, x, x1, x3, k, a, b, c, d)
        row1 = _row_sum(source, y, x0, x, x1, x3, k, a, b, c, d)
        row2 = _row_sum(source, y1, x0, x, x1, x3, k, a, b, c, d)
        row3 = _row_sum(source, y3, x0, x, x1, x3, k, a, b, c, d)
        out[at, k] = _cubic_rows(row0, row1, row2, row3, e, f, g, h)


@cuda.jit(device=True)
def _row_sum(source: Any, y: Any, x0: Any, x1: Any, x2: Any, x3: Any, k: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    return _cubic_row(
        np.int32(source[y, x0, k]),
        np.int32(source[y, x1, k]),
        np.int32(source[y, x2, k]),
        np.int32(source[y, x3, k]),
        a,
        b,
        c,
        d,
    )


@cuda.jit
def _nearest(source: Any, offsets: Any, fill: Any, out: Any) -> None:
    at = cuda.grid(1)
    if at >= offsets.size:
        return
    offset = offsets[at]
    out[at, 0] = source[offset // source.shape[1], offset % source.shape[1], 0] if offset >= 0 else fill
