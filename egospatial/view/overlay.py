"""A frame with what is known of it: masks, outlines, labels, boxes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, UInt8

from egospatial.view.colours import object_colour
from egospatial.view.project import box_edges, project_segments
from geo.boxes import Box3
from geo.cameras import PinholeCamera

_MIN_WIDTH_PX = 768  # smaller pictures are enlarged before anything is drawn on them
_FAR_PX = 20000  # OpenCV draws with 16-bit fractions; ends further out are cut


@dataclass(frozen=True)
class Marked:
    """What to draw of one object."""

    object_id: int
    label: str
    mask: Bool[np.ndarray, "H W"] | None = None
    box: Box3 | None = None
    note: str = ""


def overlay(
    image: UInt8[np.ndarray, "H W 3"],
    camera: PinholeCamera,
    world_from_camera: Float[np.ndarray, "4 4"],
    objects: Sequence[Marked],
    width_px: int | None = None,
) -> UInt8[np.ndarray, "h w 3"]:
    """Draw masks (tinted, outlined), boxes (thin lines) and labels; what was given stays unchanged.

    ``width_px`` draws at another size, so that lines and text keep theirs; small pictures are always enlarged.
    """
    wanted = width_px or max(camera.width_px, _MIN_WIDTH_PX)
    canvas, camera, objects = _resized(image, camera, objects, wanted)
    for item in objects:
        if item.mask is not None and item.mask.any():
            _tint(canvas, item.mask, object_colour(item.object_id))
    scale = canvas.shape[1] / 1024
    posed = bool(np.isfinite(world_from_camera).all())
    for item in objects:
        if posed and item.box is not None and np.isfinite(item.box.center_in_world).all():
            pixels = project_segments(camera, world_from_camera, box_edges(item.box))
            draw_segments(canvas, pixels, object_colour(item.object_id), max(1, round(1.5 * scale)))
    taken: list[tuple[int, int, int, int]] = []
    for item in objects:
        anchor = _anchor(item, camera, world_from_camera)
        if anchor is not None:
            put_text(canvas, f"{item.label} {item.note}".strip(), anchor, object_colour(item.object_id), scale, taken)
    return canvas


def _resized(
    image: UInt8[np.ndarray, "H W 3"], camera: PinholeCamera, objects: Sequence[Marked], width_px: int
) -> tuple[UInt8[np.ndarray, "h w 3"], PinholeCamera, list[Marked]]:
    import cv2

    size = (width_px, max(1, round(camera.height_px * width_px / camera.width_px)))
    if size == camera.size_wh_px:
        return image.copy(), camera, list(objects)
    method = cv2.INTER_AREA if width_px < camera.width_px else cv2.INTER_CUBIC
    canvas = np.ascontiguousarray(cv2.resize(image, size, interpolation=method))

    def fit(mask: Bool[np.ndarray, "H W"]) -> Bool[np.ndarray, "h w"]:
        fitted: Bool[np.ndarray, "h w"] = cv2.resize(mask.astype(np.float32), size, interpolation=cv2.INTER_AREA) >= 0.5
        return fitted

    fitted = [replace(item, mask=None if item.mask is None else fit(item.mask)) for item in objects]
    return canvas, camera.resized(size), fitted


def _tint(canvas: UInt8[np.ndarray, "H W 3"], mask: Bool[np.ndarray, "H W"], colour: tuple[int, int, int]) -> None:
    import cv2

    canvas[mask] = (0.55 * canvas[mask] + 0.45 * np.array(colour)).astype(np.uint8)
    outlines, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(canvas, outlines, -1, colour, 1, cv2.LINE_AA)


def draw_segments(
    canvas: UInt8[np.ndarray, "H W 3"], pixels: Float[np.ndarray, "S 2 2"], colour: tuple[int, int, int], width_px: int
) -> None:
    """Draw projected segments into a picture."""
    import cv2

    for (x0, y0), (x1, y1) in np.clip(np.nan_to_num(pixels), -_FAR_PX, _FAR_PX).round().astype(int):
        cv2.line(canvas, (int(x0), int(y0)), (int(x1), int(y1)), colour, width_px, cv2.LINE_AA)


def _anchor(item: Marked, camera: PinholeCamera, world_from_camera: Float[np.ndarray, "4 4"]) -> tuple[int, int] | None:
    """Above the mask; else at the box's centre, if it is in the picture."""
    if item.mask is not None and item.mask.any():
        rows, cols = np.nonzero(item.mask)
        return int(cols.mean()), max(int(rows.min()) - 6, 10)
    if item.box is None or not np.isfinite(world_from_camera).all():
        return None
    centre = item.box.center_in_world
    pixels = project_segments(camera, world_from_camera, np.stack([centre, centre])[None])
    if len(pixels) == 0 or not camera.in_image(pixels[0, 0]):
        return None
    return int(pixels[0, 0, 0]), int(pixels[0, 0, 1])


def put_text(
    canvas: UInt8[np.ndarray, "H W 3"],
    text: str,
    anchor_xy: tuple[int, int],
    colour: tuple[int, int, int],
    scale: float,
    taken: list[tuple[int, int, int, int]] | None = None,
) -> None:
    """White text over a point on a plate in a darkened colour, kept inside the picture.

    ``taken`` holds the plates drawn so far (x0, y0, x1, y1): a new one moves up or down until it is free.
    """
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size=max(12, round(17 * scale)))
    left, top, right, bottom = font.getbbox(text)
    width, height = int(right - left) + 8, int(bottom - top) + 8
    if width > canvas.shape[1] or height > canvas.shape[0]:
        return
    x = int(np.clip(anchor_xy[0] - width // 2, 0, canvas.shape[1] - width))
    y = _free_row(x, anchor_xy[1] - height, width, height, canvas.shape[0], taken or [])
    if taken is not None:
        taken.append((x, y, x + width, y + height))
    tint = 0.4 * np.array(colour) if colour != (255, 255, 255) else np.full(3, 20.0)
    plate = Image.fromarray((0.2 * canvas[y : y + height, x : x + width] + 0.8 * tint).astype(np.uint8))
    ImageDraw.Draw(plate).text((4 - left, 4 - top), text, font=font, fill=(255, 255, 255))
    canvas[y : y + height, x : x + width] = np.asarray(plate)


def _free_row(
    x: int, y: int, width: int, height: int, canvas_height: int, taken: list[tuple[int, int, int, int]]
) -> int:
    """The row nearest to y at which a plate covers no other; y itself where there is no such row."""
    lowest = canvas_height - height
    y = int(np.clip(y, 0, lowest))
    for step in range(0, canvas_height, 4):
        for row in (y - step, y + step):
            clear = all(x >= x1 or x + width <= x0 or row >= y1 or row + height <= y0 for x0, y0, x1, y1 in taken)
            if 0 <= row <= lowest and clear:
                return row
    return y
