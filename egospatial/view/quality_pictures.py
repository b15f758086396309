"""Pictures of the quality report: held-out frames in a row with their errors, and what was taken out as floating."""

import numpy as np
from jaxtyping import Float32, UInt8

from egospatial.view.colours import depth_picture, depth_range
from egospatial.view.overlay import put_text
from recon.quality_records import FloaterPictures, FramePictures

TILE_PX = 360  # width of one picture of a row
DEPTH_LIMIT = 0.05  # relative depth error at which the colours end
COLOUR_LIMIT = 0.3  # difference of colour (0..1) at which they end
_BAR_PX = 74
_GREY = 96  # nothing to compare
_WHITE = (255, 255, 255)


def frame_row(pictures: FramePictures, unit: str = "m") -> UInt8[np.ndarray, "H W 3"]:
    """Picture, rendering, static depth and error map of a frame side by side, with the error's colour bar.

    Depth errors are signed (blue: static nearer than the sensor, red: farther, white: equal), colour errors go from
    white to red; grey is where nothing can be compared.
    """
    limits = depth_range(pictures.z_depth_m)
    signed = pictures.error_is_depth
    limit = DEPTH_LIMIT if signed else COLOUR_LIMIT
    what = "depth error, share" if signed else "colour error, 0 to 1"
    tiles = [
        _tile(pictures.rgb, f"frame {pictures.frame}"),
        _tile(pictures.rendered, pictures.why),
        _tile(depth_picture(pictures.z_depth_m, limits), f"depth {limits[0]:.2f} to {limits[1]:.2f} {unit}"),
        _tile(error_picture(pictures.relative_error, limit, signed=signed), what, nearest=True),
    ]
    return np.concatenate([*tiles, colour_bar(tiles[0].shape[0], limit, signed=signed)], axis=1)


def floater_row(pictures: FloaterPictures) -> UInt8[np.ndarray, "H W 3"]:
    """Before, after, and what was removed in red, from the view that lost most."""
    tiles = [
        _tile(pictures.before, f"before, view of frame {pictures.frame}"),
        _tile(pictures.after, "after"),
        _tile(pictures.removed_in_red, "removed in red"),
    ]
    return np.concatenate(tiles, axis=1)


def error_picture(
    error: Float32[np.ndarray, "H W"], limit: float, *, signed: bool = True
) -> UInt8[np.ndarray, "H W 3"]:
    """Error in colours, saturated at ``limit``: blue below zero, red above, white at zero; grey where it is NaN."""
    with np.errstate(invalid="ignore"):
        level = np.clip(error / limit, -1.0 if signed else 0.0, 1.0)[:, :, None]
    above = np.array([255.0, 40.0, 30.0]) - 255.0
    below = np.array([30.0, 70.0, 255.0]) - 255.0
    known = np.isfinite(level)
    level = np.where(known, level, 0.0)
    colours = 255.0 + np.maximum(level, 0) * above + np.maximum(-level, 0) * below
    return np.asarray(np.where(known, colours, _GREY).round(), dtype=np.uint8)


def colour_bar(height_px: int, limit: float, *, signed: bool = True) -> UInt8[np.ndarray, "H w 3"]:
    """Scale beside an error map, largest error on top."""
    bar = np.full((height_px, _BAR_PX, 3), 24, dtype=np.uint8)
    top, bottom = 24, height_px - 24
    ramp = np.linspace(limit, -limit if signed else 0.0, bottom - top, dtype=np.float32)[:, None]
    bar[top:bottom, 8:24] = error_picture(np.repeat(ramp, 16, axis=1), limit, signed=signed)
    marks = (limit, limit / 2, 0.0, -limit / 2, -limit) if signed else (limit, limit / 2, 0.0)
    for number, value in enumerate(marks):
        row = top + round(number * (bottom - top - 1) / (len(marks) - 1))
        text = f"{value:+.1%}" if signed else f"{value:.2f}"
        put_text(bar, text, (_BAR_PX, row + 10), _WHITE, 0.6)
    return bar


def _tile(image: UInt8[np.ndarray, "H W 3"], text: str, *, nearest: bool = False) -> UInt8[np.ndarray, "h w 3"]:
    import cv2

    size = (TILE_PX, max(1, round(image.shape[0] * TILE_PX / image.shape[1])))
    method = cv2.INTER_NEAREST if nearest else cv2.INTER_CUBIC
    tile = np.ascontiguousarray(cv2.resize(image, size, interpolation=method))
    put_text(tile, text, (0, 24), _WHITE, 0.75)
    return tile
