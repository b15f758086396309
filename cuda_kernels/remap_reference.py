"""Plain float64 statements of what the remap kernels do; slow, without rounding, obviously right."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

KEYS_A = -0.5
"""Keys' free parameter. -1/2 is the one value whose error falls with the third power of the pixel size (it reproduces
parabolas) and the one that rings least; the -3/4 of some image libraries sharpens and does not even keep straight
ramps straight. Source: Keys (1981), eq. 4 and section IV."""


def samples_inside(source_xy: Float[np.ndarray, "h w 2"], size_wh_px: tuple[int, int]) -> Bool[np.ndarray, "h w"]:
    """True where a sample lies on the image [-1/2, W - 1/2] x [-1/2, H - 1/2]."""
    width, height = size_wh_px
    x, y = source_xy[..., 0], source_xy[..., 1]
    with np.errstate(invalid="ignore"):
        return np.asarray((x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5))


def remap_bilinear_reference(
    image: UInt8[np.ndarray, "H W *channels"],
    source_xy: Float[np.ndarray, "h w 2"],
    valid: Bool[np.ndarray, "h w"],
) -> Float[np.ndarray, "h w *channels"]:
    """The plain statement of what ``remap_bilinear`` does."""
    return np.asarray(_separable(image, source_xy, valid, lambda t: [1 - t, t], first=0))


def remap_bicubic_reference(
    image: UInt8[np.ndarray, "H W *channels"],
    source_xy: Float[np.ndarray, "h w 2"],
    valid: Bool[np.ndarray, "h w"],
) -> Float[np.ndarray, "h w *channels"]:
    """The plain statement of what ``remap_bicubic`` does: Keys' kernel, border pixels repeated outwards, cut to 0..255.

    Source: Keys (1981), eq. 4, with a = ``KEYS_A``.
    """
    return np.asarray(np.clip(_separable(image, source_xy, valid, keys_weights, first=-1), 0.0, 255.0))


def keys_weights(t: Float[np.ndarray, "*shape"]) -> list[Float[np.ndarray, "*shape"]]:
    """Weights of the pixels at -1, 0, 1, 2 for a sample at t in [0, 1]; their sum is 1."""

    def near(s: Any) -> Any:  # |s| <= 1
        return ((KEYS_A + 2) * s - (KEYS_A + 3)) * s * s + 1

    def far(s: Any) -> Any:  # 1 <= |s| <= 2
        return ((KEYS_A * s - 5 * KEYS_A) * s + 8 * KEYS_A) * s - 4 * KEYS_A

    return [far(1 + t), near(t), near(1 - t), far(2 - t)]


def _separable(image: np.ndarray, source_xy: np.ndarray, valid: np.ndarray, weights_of: Any, first: int) -> np.ndarray:
    """Sum over a square of pixels, weights by row times weights by column; 0 where there is no sample."""
    height, width = image.shape[:2]
    inside = valid & samples_inside(source_xy, (width, height))
    x = np.clip(np.where(inside, source_xy[..., 0], 0.0), 0, width - 1)
    y = np.clip(np.where(inside, source_xy[..., 1], 0.0), 0, height - 1)
    x0, y0 = np.minimum(x.astype(np.int64), width - 2), np.minimum(y.astype(np.int64), height - 2)
    trailing = (1,) * (image.ndim - 2)
    total = np.zeros((*inside.shape, *image.shape[2:]))
    for j, along_y in enumerate(weights_of(y - y0)):
        rows = np.clip(y0 + first + j, 0, height - 1)
        for i, along_x in enumerate(weights_of(x - x0)):
            columns = np.clip(x0 + first + i, 0, width - 1)
            total += (along_y * along_x).reshape(*inside.shape, *trailing) * image[rows, columns].astype(np.float64)
    return np.where(inside.reshape(*inside.shape, *trailing), total, 0.0)


def nearest_pixels(
    source_xy: Float[np.ndarray, "h w 2"], size_wh_px: tuple[int, int]
) -> tuple[Bool[np.ndarray, "h w"], Int[np.ndarray, "h w"], Int[np.ndarray, "h w"]]:
    """Whether a sample lies on the image; column and row of the pixel whose square [-1/2, 1/2) holds it, else 0."""
    width, height = size_wh_px
    x, y = source_xy[..., 0], source_xy[..., 1]
    with np.errstate(invalid="ignore"):
        inside = (x >= -0.5) & (x < width - 0.5) & (y >= -0.5) & (y < height - 0.5)
    column = np.floor(np.where(inside, x, 0.0) + 0.5).astype(np.int64)
    row = np.floor(np.where(inside, y, 0.0) + 0.5).astype(np.int64)
    return np.asarray(inside), column, row


def remap_nearest(image: np.ndarray, source_xy: Float[np.ndarray, "h w 2"], fill: Any) -> np.ndarray:
    """Nearest pixel of an image of any dtype (masks, labels); ``fill`` where the map is NaN or off the image."""
    inside, column, row = nearest_pixels(source_xy, (image.shape[1], image.shape[0]))
    out = image[row, column].copy()
    out[~inside] = fill
    return np.asarray(out)
