"""Contact sheets: several frames side by side, each as picture with masks over its depth."""

import numpy as np
from jaxtyping import UInt8

from egospatial.view.colours import depth_picture, depth_range
from egospatial.view.finished import Finished
from egospatial.view.overlay import put_text


def depth_view(
    finished: Finished, frame: int, limits_m: tuple[float, float] | None = None, width_px: int | None = None
) -> UInt8[np.ndarray, "h w 3"]:
    """Depth of a frame in colours with its range written on it; black before the depth stage."""
    import cv2

    if finished.depth is None:
        return np.zeros((finished.camera.height_px // 2, finished.camera.width_px // 2, 3), np.uint8)
    z_depth_m = finished.depth.read(frame).z_depth_m
    limits = limits_m or depth_range(z_depth_m)
    picture = depth_picture(z_depth_m, limits)
    if width_px is not None:
        height = max(1, round(picture.shape[0] * width_px / picture.shape[1]))
        picture = np.ascontiguousarray(cv2.resize(picture, (width_px, height), interpolation=cv2.INTER_NEAREST))
    scale = picture.shape[1] / 1024
    unit = "m" if finished.document["world"]["metric"] else "units"
    text = f"{limits[0]:.2f} (red) to {limits[1]:.2f} {unit} (blue)"
    put_text(picture, text, (picture.shape[1] // 2, picture.shape[0] - 4), (255, 255, 255), scale)
    return picture


def contact_sheet(finished: Finished, columns: int = 4, tile_width_px: int = 480) -> UInt8[np.ndarray, "H W 3"]:
    """Frames spread over the recording: masks, boxes and labels above, depth below."""
    import cv2

    count = min(columns * 2, len(finished))
    frames = np.linspace(0, len(finished) - 1, count).round().astype(int)
    tiles = []
    for frame in frames:
        top = finished.overlay(int(frame), tile_width_px, notes=False)
        below = cv2.resize(depth_view(finished, int(frame), None, tile_width_px), (top.shape[1], top.shape[0]))
        seconds = (finished.frames.timestamps_ns[frame] - finished.frames.timestamps_ns[0]) / 1e9
        put_text(top, f"frame {frame}, {seconds:.1f} s", (0, top.shape[0]), (255, 255, 255), 0.7)
        tiles.append(np.concatenate([top, below]))
    blank = np.zeros_like(tiles[0])
    tiles += [blank] * (-len(tiles) % columns)
    rows = [np.concatenate(tiles[i : i + columns], axis=1) for i in range(0, len(tiles), columns)]
    return np.concatenate(rows)
