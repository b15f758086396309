"""A frame with what is known of it: masks, outlines, labels, boxes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, UInt8

from egospatial.view.colours import object_colour
from egospatial.view.project import box_edges, project_segments
from geo.boxes import Box3
from geo.cameras import PinholeCamera

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
) -> UInt8[np.ndarray, "H W 3"]:
    """Draw masks (tinted, outlined), boxes (thin lines) and labels; the picture given stays unchanged."""
    canvas = image.copy()
    for item in objects:
        if item.mask is not None and item.mask.any():
            _tint(canvas, item.mask, object_colour(item.object_id))
    scale = max(canvas.shape[1] / 1024, 0.35)
    posed = bool(np.isfinite(world_from_camera).all())
    for item in objects:
        if posed and item.box is not None and np.isfinite(item.box.center_in_world).all():
            draw_segments(canvas, project_segments(camera, world_from_camera, box_edges(item.box)),
                          object_colour(item.object_id), max(1, round(1.5 * scale)))  # fmt: skip
    for item in objects:
        _label(canvas, item, camera, world_from_camera, scale)
    return canvas


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


def _label(
    canvas: UInt8[np.ndarray, "H W 3"], item: Marked, camera: PinholeCamera,
    world_from_camera: Float[np.ndarray, "4 4"], scale: float,
) -> None:  # fmt: skip
    anchor = _anchor(item, camera, world_from_camera)
    if anchor is None:
        return
    text = f"{item.label} {item.note}".strip()
    put_text(canvas, text, anchor, object_colour(item.object_id), scale)


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
    canvas: UInt8[np.ndarray, "H W 3"], text: str, anchor_xy: tuple[int, int], colour: tuple[int, int, int],
    scale: float,
) -> None:  # fmt: skip
    """White text over a point on a plate in a darkened colour, kept inside the picture."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size=max(12, round(17 * scale)))
    left, top, right, bottom = font.getbbox(text)
    width, height = int(right - left) + 8, int(bottom - top) + 8
    if width > canvas.shape[1] or height > canvas.shape[0]:
        return
    x = int(np.clip(anchor_xy[0] - width // 2, 0, canvas.shape[1] - width))
    y = int(np.clip(anchor_xy[1] - height, 0, canvas.shape[0] - height))
    tint = 0.4 * np.array(colour) if colour != (255, 255, 255) else np.full(3, 20.0)
    plate = Image.fromarray((0.2 * canvas[y : y + height, x : x + width] + 0.8 * tint).astype(np.uint8))
    ImageDraw.Draw(plate).text((4 - left, 4 - top), text, font=font, fill=(255, 255, 255))
    canvas[y : y + height, x : x + width] = np.asarray(plate)
