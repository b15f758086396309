"""3D pictures without any graphics driver: our own splat rasteriser, and lines that hide behind what it drew."""

import numpy as np
from jaxtyping import Float32, UInt8

from egospatial.view.overlay import draw_segments, put_text
from egospatial.view.project import project_segments
from egospatial.view.scene import Scene, viewer_camera
from geo import se3
from geo.cameras import PinholeCamera
from recon.records import SplatModel

_HIDDEN_SHARE = 0.03  # a line this much deeper than the surface before it is drawn faint
_PIECES = 12  # pieces of a segment that are tested one by one


def draw_scene(
    scene: Scene, model: SplatModel | None, width_px: int = 1280, height_px: int = 800
) -> UInt8[np.ndarray, "H W 3"]:
    """Splats, boxes, trajectories and labels from the scene's viewpoint."""
    camera = viewer_camera(width_px, height_px)
    canvas = np.full((height_px, width_px, 3), 24, dtype=np.uint8)
    z_depth_m = np.full((height_px, width_px), np.inf, dtype=np.float32)
    if model is not None and len(model.means_in_world):
        from recon.render import render

        seen = render(model, camera, scene.world_from_viewer, background=(0.09, 0.09, 0.09))
        canvas = (seen.rgb * 255).round().astype(np.uint8)
        z_depth_m = np.where(np.isfinite(seen.median_z_m), seen.median_z_m, np.inf).astype(np.float32)
    return draw_lines(scene, canvas, z_depth_m, camera)


def draw_lines(
    scene: Scene, canvas: UInt8[np.ndarray, "H W 3"], z_depth_m: Float32[np.ndarray, "H W"], camera: PinholeCamera
) -> UInt8[np.ndarray, "H W 3"]:
    """Lines over a picture: bold in front of its depth, faint behind."""
    canvas = np.ascontiguousarray(canvas)
    faint, bold = canvas.copy(), []
    camera_from_world = se3.inverse(scene.world_from_viewer)
    for segment, rgb in zip(scene.segments_in_world, scene.segment_rgb, strict=True):
        colour = (round(255 * rgb[0]), round(255 * rgb[1]), round(255 * rgb[2]))
        steps = np.linspace(0, 1, _PIECES + 1)[:, None]
        points = segment[0] + steps * (segment[1] - segment[0])
        pieces = np.stack([points[:-1], points[1:]], axis=1)
        front = _in_front(se3.transform_points(camera_from_world, pieces.mean(axis=1)), camera, z_depth_m)
        draw_segments(faint, project_segments(camera, scene.world_from_viewer, pieces[~front]), colour, 1)
        bold.append((project_segments(camera, scene.world_from_viewer, pieces[front]), colour))
    canvas = (0.6 * canvas + 0.4 * faint).astype(np.uint8)
    for pixels, colour in bold:
        draw_segments(canvas, pixels, colour, 2)
    taken: list[tuple[int, int, int, int]] = []
    for anchor, label in zip(scene.label_points_in_world, scene.labels, strict=True):
        pixels = project_segments(camera, scene.world_from_viewer, np.stack([anchor, anchor])[None])
        if len(pixels) and camera.in_image(pixels[0, 0]):
            put_text(canvas, label, (int(pixels[0, 0, 0]), int(pixels[0, 0, 1]) - 4), (255, 255, 255), 0.8, taken)
    return canvas


def _in_front(points_in_camera: np.ndarray, camera: PinholeCamera, z_depth_m: Float32[np.ndarray, "H W"]) -> np.ndarray:
    projected = camera.project(points_in_camera)
    with np.errstate(invalid="ignore"):
        inside = projected.valid & camera.in_image(projected.pixels_xy)
    pixels = np.where(inside[:, None], projected.pixels_xy, 0).round().astype(int)
    surface = z_depth_m[np.clip(pixels[:, 1], 0, camera.height_px - 1), np.clip(pixels[:, 0], 0, camera.width_px - 1)]
    front: np.ndarray = inside & (points_in_camera[:, 2] <= surface * (1 + _HIDDEN_SHARE))
    return front
