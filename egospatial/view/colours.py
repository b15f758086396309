"""Colours that stay with an object's id, and depth in colours."""

import colorsys

import numpy as np
from jaxtyping import Float, UInt8

_GOLDEN = 0.6180339887498949  # steps of the golden ratio keep neighbouring ids apart on the colour circle


def object_colour(object_id: int) -> tuple[int, int, int]:
    """RGB 0..255 of an object id, always the same."""
    hue = (0.08 + object_id * _GOLDEN) % 1.0
    strong = 0.95 if object_id % 2 else 0.72
    red, green, blue = colorsys.hsv_to_rgb(hue, strong, 1.0)
    return round(255 * red), round(255 * green), round(255 * blue)


def depth_range(z_depth_m: Float[np.ndarray, "h w"]) -> tuple[float, float]:
    """Near and far end of a colour scale: the 2nd and 98th percentile; (0, 1) without depth."""
    known = z_depth_m[np.isfinite(z_depth_m)]
    if len(known) == 0:
        return 0.0, 1.0
    near, far = (float(value) for value in np.quantile(known, [0.02, 0.98]))
    return near, max(far, near + 1e-6)


def depth_picture(
    z_depth_m: Float[np.ndarray, "h w"], limits_m: tuple[float, float] | None = None
) -> UInt8[np.ndarray, "h w 3"]:
    """RGB picture of depth, near red, far blue, linear in 1 / depth; black where there is none."""
    import cv2

    near, far = limits_m or depth_range(z_depth_m)
    known = np.isfinite(z_depth_m)
    with np.errstate(invalid="ignore", divide="ignore"):
        inverse = (1 / z_depth_m - 1 / far) / max(1 / max(near, 1e-6) - 1 / far, 1e-9)
    level = np.where(known, np.clip(inverse, 0, 1) * 255, 0).astype(np.uint8)
    picture: UInt8[np.ndarray, "h w 3"] = cv2.applyColorMap(level, cv2.COLORMAP_TURBO)[..., ::-1].copy()
    picture[~known] = 0
    return picture
