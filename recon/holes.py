"""Holes of a depth image that lie between two pixels of one surface."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Int64

_MAX_JUMP_SHARE = 0.05  # the two sides belong to one surface if they differ by less


@dataclass(frozen=True)
class Filled:
    """Depth put into holes (NaN elsewhere), and half the difference of the two supporting pixels."""

    z_depth_m: Float32[np.ndarray, "h w"]
    spread_m: Float32[np.ndarray, "h w"]


def fill_between(
    z_depth_m: Float32[np.ndarray, "h w"],
    support: Bool[np.ndarray, "h w"],
    holes: Bool[np.ndarray, "h w"],
    most_px: int,
) -> Filled:
    """Interpolate holes along rows and columns between the nearest pixels with depth.

    Both of these must be ``support`` pixels of similar depth and at most ``most_px`` apart; a pixel with depth that
    is no support (background) in between ends the search. Inverse depth is interpolated (exact on planes); where row
    and column both answer, the shorter gap counts.
    """
    row = _along_rows(z_depth_m, support, holes, most_px)
    column = _along_rows(z_depth_m.T, support.T, holes.T, most_px)
    use_column = column.gap.T < row.gap
    return Filled(
        np.where(use_column, column.z.T, row.z).astype(np.float32),
        np.where(use_column, column.spread.T, row.spread).astype(np.float32),
    )


@dataclass(frozen=True)
class _Scan:
    z: Float32[np.ndarray, "h w"]
    spread: Float32[np.ndarray, "h w"]
    gap: Int64[np.ndarray, "h w"]


def _along_rows(z: np.ndarray, support: np.ndarray, holes: np.ndarray, most_px: int) -> _Scan:
    height, width = z.shape
    column = np.broadcast_to(np.arange(width), (height, width))
    valid = np.isfinite(z)
    left = np.maximum.accumulate(np.where(valid, column, -1), axis=1)
    right = np.minimum.accumulate(np.where(valid, column, width)[:, ::-1], axis=1)[:, ::-1]
    inside = holes & (left >= 0) & (right < width) & (right - left - 1 <= most_px)
    rows = np.arange(height)[:, None]
    a, b = np.clip(left, 0, width - 1), np.clip(right, 0, width - 1)
    z_a, z_b = z[rows, a], z[rows, b]
    with np.errstate(invalid="ignore", divide="ignore"):
        good = inside & support[rows, a] & support[rows, b]
        good &= np.abs(z_a - z_b) <= _MAX_JUMP_SHARE * np.minimum(z_a, z_b)
        share = (column - a) / np.maximum(b - a, 1)
        between = 1.0 / ((1 - share) / z_a + share / z_b)
    gap = np.where(good, right - left, np.iinfo(np.int64).max)
    nan = np.float32(np.nan)
    return _Scan(np.where(good, between, nan).astype(np.float32), np.where(good, np.abs(z_a - z_b) / 2, nan), gap)
