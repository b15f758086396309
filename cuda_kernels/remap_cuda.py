"""GPU twin of ``cuda_kernels.remap``; runs in numba's simulator (``NUMBA_ENABLE_CUDASIM=1``) where there is no GPU.

Import it where it is used only: it imports ``numba.cuda``.
"""

import inspect
from typing import Any

import numpy as np
from jaxtyping import UInt8
from numba import cuda

from cuda_kernels.errors import KernelError
from cuda_kernels.remap import _blend
from cuda_kernels.remap_table import RemapTable

_BLOCK = (16, 16)
_blend_cuda = cuda.jit(device=True)(inspect.unwrap(_blend))


def _remap_pixel(source: Any, stride: Any, offsets: Any, fractions: Any, out: Any) -> None:
    """One target pixel a thread."""
    col, row = cuda.grid(2)
    if row >= offsets.shape[0] or col >= offsets.shape[1]:
        return
    at = offsets[row, col]
    if at < 0:
        for channel in range(3):
            out[row, col, channel] = 0
        return
    fx, fy = np.uint32(fractions[row, col, 0]), np.uint32(fractions[row, col, 1])
    low = at + stride
    for channel in range(3):
        out[row, col, channel] = _blend_cuda(
            np.uint32(source[at + channel]),
            np.uint32(source[at + channel + 3]),
            np.uint32(source[low + channel]),
            np.uint32(source[low + channel + 3]),
            fx,
            fy,
        )


_remap_kernel = cuda.jit(inspect.unwrap(_remap_pixel))


def remap_cuda(image: UInt8[np.ndarray, "H W 3"], table: RemapTable) -> UInt8[np.ndarray, "h w 3"]:
    """Like ``cuda_kernels.remap.remap_bilinear``, bit for bit, on the GPU.

    Raises:
        KernelError: no CUDA device, or an image of another size than the table's source.
    """
    if not cuda.is_available():
        raise KernelError("remap_cuda needs a CUDA device (or NUMBA_ENABLE_CUDASIM=1); use remap_bilinear instead")
    table.check(image)
    rows, cols = table.offsets.shape
    source = cuda.to_device(np.ascontiguousarray(image).reshape(-1))
    offsets, fractions = cuda.to_device(table.offsets), cuda.to_device(table.fractions)
    out = cuda.to_device(np.zeros((rows, cols, 3), dtype=np.uint8))
    grid = (-(-cols // _BLOCK[0]), -(-rows // _BLOCK[1]))
    _remap_kernel[grid, _BLOCK](source, table.source_size_wh_px[0] * 3, offsets, fractions, out)
    return np.asarray(out.copy_to_host())
