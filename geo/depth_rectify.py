"""Depth images of any camera model in the pixels of a pinhole with the same optical centre.

Between pixel centres a surface is taken as a plane through three neighbouring pixels: on a plane m . X = 1, so a point
at distance r along the unit ray u has 1 / r = m . u. A target ray d (its z is 1) that is w1 u1 + w2 u2 + w3 u3 of the
three source rays thus meets the plane at 1 / z = w1 / r1 + w2 / r2 + w3 / r3, whatever the lens. The weights depend on
the two cameras alone and are worked out once.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int32

from geo.cameras import Camera, PinholeCamera
from geo.cameras.distorted import DistortedCamera
from geo.depth import MAX_REL_JUMP, check_depth_size
from geo.errors import CameraError, GeoError
from geo.recording import DepthSource
from geo.view import check_rotation, source_pixels

MAX_FOV_DEG = 110.0
_MAX_SIDE_PX = 8192
_ROWS = 64  # target rows at a time: keeps the work space small


def pinhole_for(camera: Camera, max_fov_deg: float = MAX_FOV_DEG) -> PinholeCamera:
    """A pinhole that shows what a camera sees, at the density that its picture has in the centre.

    It looks along the same axis and is as large as the lens' valid field of view asks for, up to ``max_fov_deg`` (each
    side up to half of that). A pinhole is returned as it is.

    Raises:
        CameraError: no pixel of the camera looks into that field of view. GeoError: a limit outside (0, 180).
    """
    if not 0 < max_fov_deg < 180:
        raise GeoError(f"max_fov_deg = {max_fov_deg} must lie in (0, 180): a pinhole sees less than half of everything")
    if isinstance(camera, PinholeCamera):
        return camera
    focal = camera.undistorted if isinstance(camera, DistortedCamera) else camera.resized(camera.size_wh_px)
    fx, fy = (float(value) for value in focal.params[:2])
    x, y = np.meshgrid(np.linspace(-0.5, camera.width_px - 0.5, 257), np.linspace(-0.5, camera.height_px - 0.5, 257))
    rays = camera.unproject(np.stack([x, y], axis=-1)).directions
    with np.errstate(invalid="ignore", divide="ignore"):
        slopes = np.where(rays[..., 2:] > 1e-9, rays[..., :2] / rays[..., 2:], np.nan)
    reach = np.tan(np.radians(max_fov_deg) / 2)
    # A ray beyond the limit still says that its side is seen up to the limit.
    slopes = np.clip(slopes[np.isfinite(slopes).all(axis=-1)], -reach, reach)
    if not len(slopes):
        raise CameraError(
            f"{camera.model} {camera.size_wh_px}: no pixel looks forward, so no pinhole shows its picture"
        )
    low, high = slopes.min(axis=0), slopes.max(axis=0)
    width, height = (
        int(min(max(2, 2 * np.ceil(f * (b - a) / 2)), _MAX_SIDE_PX))
        for f, a, b in zip((fx, fy), low, high, strict=True)
    )
    cx, cy = (
        float(side - 1) / 2 - f * m for side, f, m in zip((width, height), (fx, fy), (low + high) / 2, strict=True)
    )
    return PinholeCamera(width, height, fx, fy, float(cx), float(cy))


def rectified_depth(
    frames: DepthSource,
    camera: Camera,
    target: PinholeCamera,
    kind: Literal["z", "ray"] = "z",
    source_from_target: Float[np.ndarray, "3 3"] | None = None,
) -> DepthSource:
    """Depth images brought to a target pinhole with the same optical centre; read when asked for.

    Inside a surface the result is exact on planes. Where the three pixels around a target pixel do not lie on one
    surface (``geo.depth.MAX_REL_JUMP``), the depth of the nearest one counts, unmixed: no pixel lies between two
    surfaces.

    Args:
        frames: Images in pixels of ``camera``, NaN (or 0, negative, infinite) where there is nothing.
        camera: Of any model; ``z`` depth says nothing of rays at and beyond 90 degrees, ``ray`` does.
        target: The pinhole of the result.
        kind: What the images hold: ``z`` along the camera's optical axis, or ``ray``, distance along each pixel's ray.
        source_from_target: Rotation that takes directions in the target's axes to the camera's; None: the same axes.

    Returns:
        A source whose images hold z along the target's optical axis, in the dtype of the images read; NaN where there
        is no depth or the lens has no pixel.

    Raises:
        GeoError: another kind. PoseError: no rotation. CameraError: the target shows nothing that the lens sees.
    """
    if kind not in ("z", "ray"):
        raise GeoError(f"depth kind {kind!r} must be 'z' (along the optical axis) or 'ray' (along each pixel's ray)")
    rotation = np.eye(3) if source_from_target is None else check_rotation(source_from_target, "source_from_target")
    return RectifiedDepth(frames, camera, target, _make_table(camera, target, rotation, kind))


@dataclass(frozen=True)
class _DepthTable:
    """What does not change from image to image.

    Triples are: the nearest source pixel, its neighbour left or right, and the one above or below, each towards the
    target pixel's place.
    """

    range_of_depth: Float[np.ndarray, "h w"]  # distance along the ray per unit of depth; NaN: no such depth
    pixels: Int32[np.ndarray, "H W 3"]  # flat source pixels; -1: the lens has no pixel there
    weights: Float[np.ndarray, "H W 3"]  # 1 / z = sum of weights / ranges; NaN: only the nearest is known
    z_of_nearest: Float[np.ndarray, "H W"]  # z along the target's axis per unit of the nearest pixel's range


@dataclass(frozen=True)
class RectifiedDepth(DepthSource):
    """Depth images of a distorted camera as a pinhole shows them; made by ``rectified_depth``."""

    source: DepthSource
    camera: Camera
    target: PinholeCamera
    table: _DepthTable

    def __len__(self) -> int:
        return len(self.source)

    def read(self, index: int) -> Float[np.ndarray, "H W"]:
        """Depth along the target's +z; NaN where there is none.

        Raises:
            ShapeError: the image does not have its camera's size.
        """
        depth = self.source.read(index)
        check_depth_size(depth, self.camera, f"depth image {index}")
        return rectify_depth_image(depth, self.table)


def rectify_depth_image(depth: Float[np.ndarray, "h w"], table: _DepthTable) -> Float[np.ndarray, "H W"]:
    """One image; see ``rectified_depth``."""
    with np.errstate(invalid="ignore"):
        usable = (depth > 0) & np.isfinite(depth)
        ranges = np.where(usable, depth * table.range_of_depth, np.nan).ravel()
    out = np.empty(table.pixels.shape[:2], dtype=depth.dtype)
    for start in range(0, len(out), _ROWS):
        rows = slice(start, start + _ROWS)
        out[rows] = _pull(ranges, table.pixels[rows], table.weights[rows], table.z_of_nearest[rows])
    return out


def _pull(
    ranges: Float[np.ndarray, "S"],
    pixels: Int32[np.ndarray, "R W 3"],
    weights: Float[np.ndarray, "R W 3"],
    z_of_nearest: Float[np.ndarray, "R W"],
) -> Float[np.ndarray, "R W"]:
    corners = np.where(pixels >= 0, ranges[pixels], np.nan)
    low, high = corners.min(axis=-1), corners.max(axis=-1)  # NaN if one is
    with np.errstate(invalid="ignore", divide="ignore"):
        inverse = (weights / corners).sum(axis=-1)
        one_surface = (high - low <= MAX_REL_JUMP * low) & (inverse > 0)
        z = np.where(one_surface, 1 / inverse, corners[..., 0] * z_of_nearest)
        return np.where(z > 0, z, np.nan)


def _make_table(
    camera: Camera, target: PinholeCamera, source_from_target: Float[np.ndarray, "3 3"], kind: str
) -> _DepthTable:
    source_rays = camera.unproject(camera.pixel_grid()).directions
    if kind == "z":
        with np.errstate(invalid="ignore", divide="ignore"):
            range_of_depth = np.where(source_rays[..., 2] > 1e-9, 1 / source_rays[..., 2], np.nan)
    else:
        range_of_depth = np.where(np.isfinite(source_rays[..., 2]), 1.0, np.nan)
    shape = (target.height_px, target.width_px)
    pixels = np.full((*shape, 3), -1, dtype=np.int32)
    weights, z_of_nearest = np.full((*shape, 3), np.nan), np.full(shape, np.nan)
    for start in range(0, shape[0], _ROWS):
        rows = slice(start, min(start + _ROWS, shape[0]))
        strip = target.cropped(0, start, (target.width_px, rows.stop - start))
        there = source_pixels(camera, strip, source_from_target)
        pixels[rows] = _triples(there.pixels_xy, there.valid, np.isfinite(range_of_depth))
        corner_rays = source_rays.reshape(-1, 3)[np.maximum(pixels[rows], 0)]
        target_rays = strip.normalised_points(strip.pixel_grid()) @ source_from_target.T
        weights[rows] = _weights(target_rays, corner_rays)
        z_of_nearest[rows] = corner_rays[..., 0, :] @ source_from_target[:, 2]
    if (pixels < 0).all():
        raise CameraError(
            f"the target pinhole {target.size_wh_px} shows nothing of what the {camera.model} camera sees; turn it, or "
            "take pinhole_for(camera)"
        )
    return _DepthTable(range_of_depth, pixels, weights, z_of_nearest)


def _triples(
    source_xy: Float[np.ndarray, "R W 2"], valid: Bool[np.ndarray, "R W"], has_ray: Bool[np.ndarray, "h w"]
) -> Int32[np.ndarray, "R W 3"]:
    """Nearest source pixel and its two neighbours towards the place; the other way where there is no ray."""
    height, width = has_ray.shape
    places = np.where(valid[..., None], source_xy, 0.0)
    last = np.array([width - 1, height - 1])
    nearest = np.clip(np.floor(places + 0.5), 0, last).astype(np.int64)
    x, y = nearest[..., 0], nearest[..., 1]
    framed = np.pad(has_ray, 1)  # neighbours outside the image have no ray
    right, down = np.where(places >= nearest, 1, -1)[..., 0], np.where(places >= nearest, 1, -1)[..., 1]
    right = np.where(framed[y + 1, x + 1 + right], right, -right)
    down = np.where(framed[y + 1 + down, x + 1], down, -down)
    beside, below = np.clip(x + right, 0, width - 1), np.clip(y + down, 0, height - 1)
    flat = np.stack([y * width + x, y * width + beside, below * width + x], axis=-1)
    return np.where(valid[..., None], flat, -1).astype(np.int32)


def _weights(rays: Float[np.ndarray, "R W 3"], corners: Float[np.ndarray, "R W 3 3"]) -> Float[np.ndarray, "R W 3"]:
    """Weights w with ray = w1 corner1 + w2 corner2 + w3 corner3, by Cramer's rule; NaN where they lie in one plane."""
    a, b, c = corners[..., 0, :], corners[..., 1, :], corners[..., 2, :]
    # With the differences to the first corner the small determinant keeps its digits.
    db, dc = b - a, c - a
    with np.errstate(invalid="ignore", divide="ignore"):
        volume = (a * np.cross(db, dc)).sum(axis=-1)
        w_b = (a * np.cross(rays, dc)).sum(axis=-1) / volume
        w_c = (a * np.cross(db, rays)).sum(axis=-1) / volume
        total = (rays * np.cross(db, dc)).sum(axis=-1) / volume  # ray = total a + w_b db + w_c dc
        out = np.stack([total - w_b - w_c, w_b, w_c], axis=-1)
    return np.where(np.isfinite(out).all(axis=-1, keepdims=True), out, np.nan)
