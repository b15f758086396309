"""Median and variance of depth along each pixel's ray, on a GPU, from the lists that a tile rasteriser has made.

gsplat's 3DGS mode blends colours and depths but tells neither; its projected gaussians and tile lists stay on the
device, and one more walk over them gives both. The rule is that of ``cuda_kernels.splat`` (``rules``), in float64.
Import this module where it is used only: it imports ``numba.cuda``.
"""

import math
from typing import Any

import numpy as np
from numba import cuda

from cuda_kernels.cuda_launch import check_device, launch, result, to_device
from cuda_kernels.errors import KernelError
from cuda_kernels.splat import DepthStatistics
from cuda_kernels.splat.rules import ALPHA_MAX, ALPHA_MIN, TRANSMITTANCE_MIN

_ALPHA_MAX, _ALPHA_MIN, _LIGHT_MIN = ALPHA_MAX, ALPHA_MIN, TRANSMITTANCE_MIN


def depth_statistics_cuda(
    means_px: Any,
    conics: Any,
    opacities: Any,
    z: Any,
    tile_start: Any,
    entries: Any,
    size_wh_px: tuple[int, int],
    tile_px: int,
    first_centre_px: float,
) -> DepthStatistics:
    """What ``rasterize(..., depth_statistics=True)`` adds, as NumPy arrays.

    Arrays may lie on the device (anything with ``__cuda_array_interface__``) or in NumPy.

    Args:
        means_px: [N, 2] float32, projected centres.
        conics: [N, 3] float32, inverse 2D covariances: xx, xy, yy.
        opacities: [N] float32, 0..1.
        z: [N] float32, depth along +z.
        tile_start: [rows, columns] int32, where each tile's list begins; it ends where the next one begins.
        entries: [K] int32, rows of the gaussians, near to far, tile after tile.
        size_wh_px: Size of the image.
        tile_px: Side of a tile.
        first_centre_px: Where the first pixel's centre lies in the measure of ``means_px`` (gsplat: 0.5).

    Raises:
        KernelError: no CUDA device, or shapes do not fit.
    """
    width, height = size_wh_px
    count, tiles = means_px.shape[0], (-(-height // tile_px), -(-width // tile_px))
    shapes = tuple(tuple(a.shape) for a in (means_px, conics, opacities, z, tile_start))
    wanted = ((count, 2), (count, 3), (count,), (count,), tiles)
    if shapes != wanted or len(entries.shape) != 1:
        raise KernelError(f"projected gaussians and tile lists have shapes {shapes}, expected {wanted}")
    check_device("cuda_kernels.splat.rasterize")
    median, variance = (cuda.device_array(width * height, dtype=np.float32) for _ in range(2))
    arrays = [to_device(a) for a in (means_px, conics, opacities, z, tile_start, entries)]
    launch(_measure, width * height, *arrays, width, tile_px, float(first_centre_px), median, variance)
    return DepthStatistics(result(median).reshape(height, width), result(variance).reshape(height, width))


@cuda.jit
def _measure(
    means: Any, conics: Any, opacities: Any, z: Any, tile_start: Any, entries: Any, width: int, tile_px: int,
    centre: float, median: Any, variance: Any,
) -> None:  # fmt: skip
    at = cuda.grid(1)
    if at >= median.size:
        return
    v, u = at // width, at % width
    row, column = v // tile_px, u // tile_px
    columns = tile_start.shape[1]
    following = row * columns + column + 1
    first, last = tile_start[row, column], entries.size
    if following < tile_start.size:
        last = tile_start[following // columns, following % columns]
    light, middle, z0, first_moment, second_moment = 1.0, math.nan, 0.0, 0.0, 0.0
    for k in range(first, last):
        g = entries[k]
        dx, dy = float(means[g, 0]) - (u + centre), float(means[g, 1]) - (v + centre)
        power = 0.5 * (conics[g, 0] * dx * dx + conics[g, 2] * dy * dy) + conics[g, 1] * dx * dy
        alpha = min(_ALPHA_MAX, opacities[g] * math.exp(-power))
        if power < 0.0 or alpha < _ALPHA_MIN:
            continue
        after = light * (1.0 - alpha)
        if after <= _LIGHT_MIN:
            break
        depth = float(z[g])
        if light == 1.0:
            z0 = depth  # sums are taken relative to the first depth, against cancellation
        weight = light * alpha
        first_moment += weight * (depth - z0)
        second_moment += weight * (depth - z0) * (depth - z0)
        if light > 0.5 and after <= 0.5:
            middle = depth
        light = after
    median[at] = middle
    if light < 1.0:
        mean = first_moment / (1.0 - light)
        variance[at] = max(second_moment / (1.0 - light) - mean * mean, 0.0)
    else:
        variance[at] = math.nan
