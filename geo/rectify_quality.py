"""How good a rectified view is: what of it has a source, how its pixels are stretched, how exact its map is."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cuda_kernels.remap_table import FRACTION_BITS, RemapTable, make_table
from geo.cameras import Camera, PinholeCamera
from geo.rectify import remap_table

STEPS = 1 << FRACTION_BITS  # of the packed map in one pixel
_ROWS = 64  # at a time: keeps the work space small
_ROUND_TRIP_SIDE = 512


@dataclass(frozen=True)
class RectifyQuality:
    """Figures of one view; NaN where nothing was there to measure."""

    coverage: float  # share of the view's pixels with a source pixel
    density_min: float  # source pixels per pixel of the view, by area; below 1 the view shows less than it has pixels
    density_median: float
    density_max: float  # above 1 the view loses detail
    table_error_px: float  # largest distance between the packed map and the exact projection, in source pixels
    round_trip_error_px: float  # largest |project(unproject(pixel)) - pixel| over the source's valid region

    @property
    def text(self) -> str:
        """One line for people."""
        return (
            f"coverage {100 * self.coverage:.2f} %, source pixels per pixel {self.density_min:.3g} to "
            f"{self.density_max:.3g} (median {self.density_median:.3g}), map within {self.table_error_px:.2g} px, "
            f"round trip within {self.round_trip_error_px:.1g} px"
        )


def rectify_quality(
    source: Camera, target: PinholeCamera, source_from_target: Float[np.ndarray, "3 3"]
) -> RectifyQuality:
    """Measure a view (same optical centre) on all its pixels; the round trip on at most 512 x 512 source pixels."""
    table = remap_table(source, target, source_from_target)
    valid, packed = table.valid, packed_pixels(table)
    densities, table_error = [], np.nan
    for start in range(0, target.height_px, _ROWS):
        rows = slice(start, min(start + _ROWS, target.height_px))
        strip = target.cropped(0, start, (target.width_px, rows.stop - start))
        points = (strip.normalised_points(strip.pixel_grid()) @ source_from_target.T)[valid[rows]]
        if not len(points):
            continue
        densities.append(_density(source, target, source_from_target, points))
        exact = source.project(points).pixels_xy
        # Places in the outer half pixel take the border pixel: that is no error of the map.
        exact = np.clip(exact, 0, np.array(source.size_wh_px, dtype=np.float64) - 1)
        table_error = float(np.fmax(table_error, np.hypot(*(packed[rows][valid[rows]] - exact).T).max()))
    density = np.concatenate(densities) if densities else np.full(1, np.nan)
    return RectifyQuality(
        coverage=float(valid.mean()),
        density_min=float(density.min()),
        density_median=float(np.median(density)),
        density_max=float(density.max()),
        table_error_px=table_error,
        round_trip_error_px=round_trip_error_px(source),
    )


def packed_pixels(table: RemapTable) -> Float[np.ndarray, "H W 2"]:
    """Source pixel (x, y) that a packed map stands for; NaN where it has none."""
    width = table.source_size_wh_px[0]
    # What an offset counts (pixels, or bytes of them) is the kernels' affair: one row down tells.
    one_row = make_table(np.array([[[0.0, 1.0]]]), np.ones((1, 1), dtype=bool), (width, 3)).offsets
    first = np.maximum(table.offsets, 0) // (int(one_row[0, 0]) // width)
    places = np.stack([first % width, first // width], axis=-1) + table.fractions.astype(np.float64) / STEPS
    return np.where(table.valid[..., None], places, np.nan)


def round_trip_error_px(source: Camera) -> float:
    """Largest |project(unproject(pixel)) - pixel| of the pixels with a ray, evenly thinned out to 512 x 512."""
    sides = (min(side, _ROUND_TRIP_SIDE) for side in source.size_wh_px)
    x, y = (np.unique(np.rint(np.linspace(0, n - 1, k))) for n, k in zip(source.size_wh_px, sides, strict=True))
    pixels = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    rays = source.unproject(pixels)
    back = source.project(rays.directions[rays.valid])
    if not len(back.valid):
        return float("nan")
    if not back.valid.all():
        return float("inf")  # a pixel whose own ray has no pixel
    return float(np.hypot(*(back.pixels_xy - pixels[rays.valid]).T).max())


def _density(
    source: Camera,
    target: PinholeCamera,
    source_from_target: Float[np.ndarray, "3 3"],
    points: Float[np.ndarray, "N 3"],
) -> Float[np.ndarray, "N"]:
    """Area in source pixels that one target pixel shows: the determinant of d(source pixel) / d(target pixel)."""
    direction_by_pixel = source_from_target @ np.linalg.inv(target.matrix)[:, :2]
    by_pixel = source.jacobian(points) @ direction_by_pixel
    return np.asarray(np.abs(np.linalg.det(by_pixel)))
