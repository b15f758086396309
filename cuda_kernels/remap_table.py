"""Maps of source pixels packed for the remap kernels (no numba here)."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int32, Shaped, UInt16

from cuda_kernels.errors import KernelError
from cuda_kernels.remap_reference import (
    nearest_pixels,
    remap_bicubic_reference,
    remap_bilinear_reference,
    remap_nearest,
    samples_inside,
)

__all__ = [
    "NearestTable",
    "RemapTable",
    "make_nearest_table",
    "make_table",
    "remap_bicubic_reference",
    "remap_bilinear_reference",
    "remap_nearest",
]

FRACTION_BITS = 11
_ONE = 1 << FRACTION_BITS


@dataclass(frozen=True)
class RemapTable:
    """Where each target pixel comes from in a source image of one size, to 1/2048 of a pixel."""

    source_size_wh_px: tuple[int, int]
    offsets: Int32[np.ndarray, "H W"]  # source pixel at the upper left, counted along the rows; -1 = no source pixel
    fractions: UInt16[np.ndarray, "H W 2"]  # from there right and down, in 1/2048: 0..2048

    @property
    def valid(self) -> Bool[np.ndarray, "H W"]:
        """False where the source has no pixel."""
        return np.asarray(self.offsets >= 0)

    def check(self, image: Shaped[np.ndarray, "..."]) -> None:
        """Refuse an image that the table was not made for: uint8, [H, W, 3] or [H, W].

        Raises:
            KernelError: naming both sizes.
        """
        width, height = self.source_size_wh_px
        if image.shape not in ((height, width, 3), (height, width)) or image.dtype != np.uint8:
            raise KernelError(
                f"image is {image.dtype} {image.shape}, the map was made for uint8 {(height, width, 3)} "
                f"or {(height, width)}"
            )


@dataclass(frozen=True)
class NearestTable:
    """The source pixel whose square each target pixel falls into; exact, from the float64 map."""

    source_size_wh_px: tuple[int, int]
    offsets: Int32[np.ndarray, "H W"]  # source pixel, counted along the rows; -1 = none

    @property
    def valid(self) -> Bool[np.ndarray, "H W"]:
        """False where the source has no pixel."""
        return np.asarray(self.offsets >= 0)

    def check(self, image: Shaped[np.ndarray, "..."]) -> None:
        """Refuse an image that the table was not made for: integers or truth values, [H, W].

        Raises:
            KernelError: naming both sizes.
        """
        width, height = self.source_size_wh_px
        if image.shape != (height, width) or image.dtype.kind not in "biu":
            raise KernelError(
                f"label image is {image.dtype} {image.shape}, the map was made for integers {(height, width)}"
            )


def make_table(
    source_xy: Float[np.ndarray, "H W 2"], valid: Bool[np.ndarray, "H W"], source_size_wh_px: tuple[int, int]
) -> RemapTable:
    """Pack a map for the bilinear and the bicubic kernels.

    Args:
        source_xy: Source pixel (x, y) of each target pixel, centres at whole numbers. Samples in the outer half pixel
            take the border pixel.
        valid: False where there is none; samples off the source image are invalid as well.
        source_size_wh_px: At least 2 x 2 pixels and below 2^31 bytes.

    Raises:
        KernelError: sizes that do not fit.
    """
    width, height = source_size_wh_px
    _check_sizes(source_xy, valid, source_size_wh_px)
    x, y = source_xy[..., 0], source_xy[..., 1]
    inside = samples_inside(source_xy, source_size_wh_px) & valid
    x = np.clip(np.where(inside, x, 0.0), 0, width - 1)
    y = np.clip(np.where(inside, y, 0.0), 0, height - 1)
    # Rounding to the grid first keeps the fraction in [0, 1]; the last column is reached with fraction 1.
    xi, yi = np.rint(x * _ONE).astype(np.int64), np.rint(y * _ONE).astype(np.int64)
    x0, y0 = np.minimum(xi >> FRACTION_BITS, width - 2), np.minimum(yi >> FRACTION_BITS, height - 2)
    fractions = np.stack([xi - (x0 << FRACTION_BITS), yi - (y0 << FRACTION_BITS)], axis=-1).astype(np.uint16)
    return RemapTable(source_size_wh_px, np.where(inside, y0 * width + x0, -1).astype(np.int32), fractions)


def make_nearest_table(
    source_xy: Float[np.ndarray, "H W 2"], valid: Bool[np.ndarray, "H W"], source_size_wh_px: tuple[int, int]
) -> NearestTable:
    """Pack a map for label images: the pixel whose square [-1/2, 1/2) holds the sample, as ``remap_nearest`` takes it.

    Arguments and errors as in ``make_table``.
    """
    width = source_size_wh_px[0]
    _check_sizes(source_xy, valid, source_size_wh_px)
    inside, column, row = nearest_pixels(source_xy, source_size_wh_px)
    inside = inside & valid
    return NearestTable(source_size_wh_px, np.where(inside, row * width + column, -1).astype(np.int32))


def _check_sizes(source_xy: np.ndarray, valid: np.ndarray, source_size_wh_px: tuple[int, int]) -> None:
    width, height = source_size_wh_px
    if width < 2 or height < 2 or width * height * 3 >= 2**31:
        raise KernelError(f"source image {width}x{height} must have at least 2x2 pixels and below 2^31 bytes")
    if source_xy.shape != (*valid.shape, 2):
        raise KernelError(f"map has shape {source_xy.shape}, its mask {valid.shape}: the same [H, W] is needed")


def checked_fill(dtype: np.dtype, fill: int) -> np.generic:
    """The value for pixels without a source, in a label image's own dtype.

    Raises:
        KernelError: the dtype cannot hold it.
    """
    kind = np.dtype(dtype)
    lowest, highest = (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    if not lowest <= fill <= highest:
        raise KernelError(f"fill {fill} does not fit the label image's {kind}: {lowest} to {highest}")
    return kind.type(fill)  # type: ignore[no-any-return]
