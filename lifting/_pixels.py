"""Small operations on masks: resize, erode, contours, connected depth."""

import numpy as np
from jaxtyping import Bool, Float, Int64

_NEIGHBOURS = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))
_LINKS = ((0, 1), (1, 0), (1, 1), (1, -1), (0, 2), (2, 0))  # across one missing pixel, too


def bounds(mask: Bool[np.ndarray, "H W"], margin: int) -> tuple[int, int, int, int] | None:
    """Rows and columns (r0, r1, c0, c1) of what is True, widened by ``margin``; None for an empty mask."""
    rows = np.flatnonzero(mask.any(axis=1))
    if len(rows) == 0:
        return None
    cols = np.flatnonzero(mask.any(axis=0))
    height, width = mask.shape
    return (
        max(0, int(rows[0]) - margin),
        min(height, int(rows[-1]) + 1 + margin),
        max(0, int(cols[0]) - margin),
        min(width, int(cols[-1]) + 1 + margin),
    )


def resize_mask(mask: Bool[np.ndarray, "H W"], size_wh_px: tuple[int, int]) -> Bool[np.ndarray, "h w"]:
    """Majority of the covered pixels when shrinking by a whole factor, else nearest pixel centre."""
    height, width = mask.shape
    new_width, new_height = size_wh_px
    if (height, width) == (new_height, new_width):
        return mask
    if height % new_height == 0 and width % new_width == 0:
        fy, fx = height // new_height, width // new_width
        counts = np.add.reduceat(
            np.add.reduceat(mask.astype(np.int32), np.arange(0, height, fy), axis=0),
            np.arange(0, width, fx),
            axis=1,
        )
        return np.asarray(2 * counts >= fy * fx)
    rows = np.minimum(((np.arange(new_height) + 0.5) * height / new_height).astype(np.int64), height - 1)
    cols = np.minimum(((np.arange(new_width) + 0.5) * width / new_width).astype(np.int64), width - 1)
    return np.asarray(mask[rows][:, cols])


def shifted(image: np.ndarray, dv: int, du: int, fill: object) -> np.ndarray:
    """``out[v, u] = image[v + dv, u + du]``, ``fill`` outside."""
    height, width = image.shape[:2]
    out = np.full_like(image, fill)
    r0, r1 = max(0, -dv), min(height, height - dv)
    c0, c1 = max(0, -du), min(width, width - du)
    if r0 < r1 and c0 < c1:
        out[r0:r1, c0:c1] = image[r0 + dv : r1 + dv, c0 + du : c1 + du]
    return out


def erode(mask: Bool[np.ndarray, "H W"]) -> Bool[np.ndarray, "H W"]:
    """True where all eight neighbours are True; the image border counts as True outside."""
    out = mask.copy()
    for dv, du in _NEIGHBOURS:
        out &= shifted(mask, dv, du, True)
    return out


def dilate(mask: Bool[np.ndarray, "H W"]) -> Bool[np.ndarray, "H W"]:
    """True where any of eight neighbours is True."""
    out = mask.copy()
    for dv, du in _NEIGHBOURS:
        out |= shifted(mask, dv, du, False)
    return out


def core_and_rim(mask: Bool[np.ndarray, "H W"]) -> tuple[Bool[np.ndarray, "H W"], Bool[np.ndarray, "H W"]]:
    """Core: the eroded mask plus thin parts that erosion would delete. Rim: the rest of the mask."""
    eroded = erode(mask)
    core = eroded | (mask & ~dilate(eroded))
    return core, mask & ~core


def nearest_step(values: Float[np.ndarray, "H W"], reference: Float[np.ndarray, "H W"]) -> Float[np.ndarray, "H W"]:
    """Smallest absolute difference between a pixel and the finite ``reference`` of its neighbours; inf if none."""
    best = np.full(values.shape, np.inf)
    for dv, du in _NEIGHBOURS:
        step = np.abs(values - shifted(reference, dv, du, np.nan))
        best = np.fmin(best, step)
    return np.where(np.isnan(best), np.inf, best)


def depth_components(
    z_depth_m: Float[np.ndarray, "H W"], use: Bool[np.ndarray, "H W"], gap_m: float
) -> tuple[Int64[np.ndarray, "K 2"], Int64[np.ndarray, "K"]]:
    """Pixels (v, u) in use and the number of the connected surface each belongs to.

    Two pixels at most two apart are connected if their depths differ by less than ``gap_m``.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pixels = np.argwhere(use)
    index = np.full(use.shape, -1, dtype=np.int64)
    index[use] = np.arange(len(pixels))
    depth = np.where(use, z_depth_m, np.nan)
    starts, ends = [], []
    for dv, du in _LINKS:
        with np.errstate(invalid="ignore"):
            linked = np.abs(depth - shifted(depth, dv, du, np.nan)) < gap_m
        starts.append(index[linked])
        ends.append(shifted(index, dv, du, -1)[linked])
    row, col = np.concatenate(starts), np.concatenate(ends)
    graph = coo_array((np.ones(len(row), dtype=np.int8), (row, col)), shape=(len(pixels), len(pixels)))
    _, labels = connected_components(graph, directed=False)
    return pixels.astype(np.int64), labels.astype(np.int64)
