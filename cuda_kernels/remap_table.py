"""Maps of source pixels packed for the remap kernels, and their plain float64 reference (no numba here)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int32, UInt8, UInt16

from cuda_kernels.errors import KernelError

FRACTION_BITS = 11
_ONE = 1 << FRACTION_BITS


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

    def check(self, image: UInt8[np.ndarray, "H W 3"]) -> None:
        """Refuse an image that the table was not made for.

        Raises:
            KernelError: naming both sizes.
        """
        width, height = self.source_size_wh_px
        if image.shape != (height, width, 3) or image.dtype != np.uint8:
            raise KernelError(f"image is {image.dtype} {image.shape}, the map was made for uint8 {(height, width, 3)}")


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
        raise KernelError(f"map has shape {source_xy.shape}, its mask {valid.shape}: the same [H, W] is needed")
    x, y = source_xy[..., 0], source_xy[..., 1]
    with np.errstate(invalid="ignore"):
        inside = valid & (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)
    x = np.clip(np.where(inside, x, 0.0), 0, width - 1)
    y = np.clip(np.where(inside, y, 0.0), 0, height - 1)
    # Rounding to the grid first keeps the fraction in [0, 1]; the last column is reached with fraction 1.
    xi, yi = np.rint(x * _ONE).astype(np.int64), np.rint(y * _ONE).astype(np.int64)
    x0, y0 = np.minimum(xi >> FRACTION_BITS, width - 2), np.minimum(yi >> FRACTION_BITS, height - 2)
    fractions = np.stack([xi - (x0 << FRACTION_BITS), yi - (y0 << FRACTION_BITS)], axis=-1).astype(np.uint16)
    return RemapTable(source_size_wh_px, np.where(inside, (y0 * width + x0) * 3, -1).astype(np.int32), fractions)


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
