"""Work on run-length masks without unpacking them."""

import numpy as np
from jaxtyping import Bool, Float, Int64

from tracking.records import Rle


def area(rle: Rle) -> int:
    """Pixels in the mask."""
    return int(rle.counts[1::2].sum())


def intersection(a: Rle, b: Rle) -> int:
    """Pixels in both masks, from the runs alone."""
    starts_a, ends_a = _runs(a)
    starts_b, ends_b = _runs(b)
    if len(starts_a) == 0 or len(starts_b) == 0:
        return 0
    return int((_covered(starts_b, ends_b, ends_a) - _covered(starts_b, ends_b, starts_a)).sum())


def iou(a: Rle, b: Rle) -> float:
    """Intersection over union; 0 where both are empty (nothing is shared)."""
    common = intersection(a, b)
    union = area(a) + area(b) - common
    return common / union if union else 0.0


def contains(rle: Rle, point_xy: tuple[float, float]) -> bool:
    """True if the pixel under a point is in the mask."""
    return distance_px(rle, point_xy) == 0.0


def distance_px(rle: Rle, point_xy: tuple[float, float]) -> float:
    """Distance from a point to the nearest pixel of the mask (0 inside, inf if empty)."""
    starts, ends = _runs(rle)
    if len(starts) == 0:
        return float("inf")
    height = rle.size_hw[0]
    first, last = starts // height, (ends - 1) // height
    # A run may go on into the next columns: cut it there.
    spans = last - first + 1
    columns = np.repeat(first, spans) + _ramp(spans)
    low = np.maximum(np.repeat(starts, spans) - columns * height, 0)
    high = np.minimum(np.repeat(ends, spans) - columns * height, height) - 1
    dx = np.maximum(np.abs(columns - point_xy[0]) - 0.5, 0.0)
    dy = np.maximum(np.maximum(low - 0.5 - point_xy[1], point_xy[1] - high - 0.5), 0.0)
    return float(np.sqrt((dx**2 + dy**2).min()))


def bounds(rle: Rle) -> tuple[int, int, int, int] | None:
    """Box x0, y0, x1, y1 (first and last pixel) of the mask; None if empty."""
    starts, ends = _runs(rle)
    if len(starts) == 0:
        return None
    height = rle.size_hw[0]
    across = (starts // height) != ((ends - 1) // height)
    top = 0 if across.any() else int((starts % height).min())
    bottom = height - 1 if across.any() else int(((ends - 1) % height).max())
    return int(starts[0] // height), top, int((ends[-1] - 1) // height), bottom


def logits_to_mask(logits: Float[np.ndarray, "h w"], size_wh_px: tuple[int, int]) -> Bool[np.ndarray, "H W"]:
    """Resize the logits, then cut at zero (probability one half); the 0/1 mask is never resized."""
    import cv2

    full = np.asarray(logits, np.float32)
    if (full.shape[1], full.shape[0]) != tuple(size_wh_px):
        full = np.asarray(cv2.resize(full, size_wh_px, interpolation=cv2.INTER_LINEAR))
    return np.asarray(full > 0)


def _runs(rle: Rle) -> tuple[Int64[np.ndarray, "R"], Int64[np.ndarray, "R"]]:
    edges = np.cumsum(rle.counts)
    starts, ends = edges[0:-1:2], edges[1::2]
    return starts, ends


def _covered(starts: np.ndarray, ends: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Mask pixels before each position."""
    before = np.concatenate([[0], np.cumsum(ends - starts)])
    index = np.searchsorted(starts, at, side="right")
    last = np.maximum(index - 1, 0)
    inside = np.clip(ends[last] - at, 0, None)
    return np.where(index > 0, before[index] - inside, 0)


def _ramp(spans: np.ndarray) -> np.ndarray:
    return np.asarray(np.arange(int(spans.sum())) - np.repeat(np.cumsum(spans) - spans, spans))
