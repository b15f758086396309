"""An object segmented in one frame, and what the ways to get there share: crops, components, the rim."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32

from tracking.base import Prompt
from tracking.embedded.frames import Crop, Roi
from tracking.embedded.plane import Plane, sensor_sigma_m
from tracking.embedded.surroundings import Surroundings


@dataclass(frozen=True)
class Seed:
    """A segmented object in one frame."""

    crop: Crop
    logits: Float32[np.ndarray, "h w"]
    plane: Plane | None
    flat: bool  # so thin over its support that depth cannot tell the two apart
    quality: float  # 0..1
    surroundings: Surroundings | None = None  # what many frames say of its surface

    @property
    def mask(self) -> Bool[np.ndarray, "h w"]:
        """Where the logits are positive."""
        return self.logits > 0


@dataclass(frozen=True)
class SeedTask:
    """What is to be segmented, and within which bounds."""

    prompt: Prompt
    up_in_world: Float[np.ndarray, "3"] | None
    max_side_px: int  # longest side of the crop
    max_object_m: float
    taken: Bool[np.ndarray, "H W"] | None  # canonical pixels of other objects
    max_views: int  # frames fused around the prompt's

    def blocked(self, crop: Crop) -> Bool[np.ndarray, "h w"]:
        """Crop pixels that cannot be the object's."""
        return ~crop.valid if self.taken is None else ~crop.valid | cut_mask(self.taken, crop.roi)


def crop_points_in_world(crop: Crop, world_from_camera: Float[np.ndarray, "4 4"]) -> Float32[np.ndarray, "h w 3"]:
    """Points of a crop's depth in world, NaN where there is none."""
    camera, (height, width) = crop.camera, crop.size_hw
    x = ((np.arange(width) - camera.cx_px) / camera.fx_px).astype(np.float32)
    y = ((np.arange(height) - camera.cy_px) / camera.fy_px).astype(np.float32)
    points = np.stack([x[None, :] * crop.z_m, y[:, None] * crop.z_m, crop.z_m], axis=-1)
    return points @ world_from_camera[:3, :3].T.astype(np.float32) + world_from_camera[:3, 3].astype(np.float32)


def cut_mask(mask: Bool[np.ndarray, "H W"], roi: Roi) -> Bool[np.ndarray, "h w"]:
    """A mask of the canonical picture inside a crop."""
    import cv2

    part = mask[roi.y0 : roi.y1, roi.x0 : roi.x1].astype(np.float32)
    return np.asarray(cv2.resize(part, roi.size_wh, interpolation=cv2.INTER_AREA) > 0.5)


def disc(size_hw: tuple[int, int], xy: Float[np.ndarray, "2"], radius: float) -> Float[np.ndarray, "h w"]:
    """1 within ``radius`` pixels of a crop pixel, else 0."""
    v, u = np.mgrid[0 : size_hw[0], 0 : size_hw[1]]
    return np.asarray((u - xy[0]) ** 2 + (v - xy[1]) ** 2 <= radius**2, float)


def keep_component(logits: Float[np.ndarray, "h w"], points_xy: Float[np.ndarray, "P 2"]) -> Float[np.ndarray, "h w"]:
    """Keep the parts of the positive region that hold (or lie nearest) a point; fill enclosed holes."""
    import cv2

    mask = (logits > 0).astype(np.uint8)
    count, labels = cv2.connectedComponents(mask, connectivity=4)
    if count > 2:
        keep = set()
        v, u = np.nonzero(labels)
        for x, y in points_xy:
            nearest = int(np.argmin((v - y) ** 2 + (u - x) ** 2))
            keep.add(int(labels[v[nearest], u[nearest]]))
        logits = np.where((labels > 0) & ~np.isin(labels, sorted(keep)), -0.5, logits)
    return fill_holes(logits)


def fill_holes(logits: Float[np.ndarray, "h w"], max_share: float = 0.08) -> Float[np.ndarray, "h w"]:
    """Close holes that are small beside the object (a mug's handle keeps its hole)."""
    import cv2

    outside = (logits <= 0).astype(np.uint8)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(outside, connectivity=4)
    area = float((logits > 0).sum())
    height, width = logits.shape
    for label in range(1, count):
        x, y, w, h, size = stats[label]
        touches = x == 0 or y == 0 or x + w == width or y + h == height
        if not touches and size <= max_share * area:
            logits = np.where(labels == label, 0.5, logits)
    return logits


def rim_strength(
    crop: Crop,
    inner: Bool[np.ndarray, "h w"],
    outer: Bool[np.ndarray, "h w"],
    ground: Bool[np.ndarray, "h w"] | None = None,
) -> float:
    """Mean, over the rim, of the evidence that the object ends there: 0..1.

    Where depth is known on both sides, a step or the support beyond the rim is what counts, and colour alone (a print,
    a label) little; where it is not known, or without ``ground`` (flat things), colour counts in full.
    """
    if not inner.any() or not outer.any():
        return 0.0
    known = np.isfinite(crop.z_m)
    z_m = np.where(known, crop.z_m, 0)[..., None]
    colour_in, _ = _mean_of(crop.features, inner)
    colour_out, _ = _mean_of(crop.features, outer)
    contrast = (np.abs(colour_in - colour_out).sum(-1)[inner] / 0.5).clip(0, 1)
    if ground is None:
        return float(contrast.mean())
    z_in, n_in = _mean_of(z_m, inner & known)
    z_out, n_out = _mean_of(z_m, outer & known)
    limit = 0.012 + 1.5 * sensor_sigma_m(np.maximum(z_in[..., 0], 0.1))
    step = (np.abs(z_in - z_out)[..., 0] / limit)[inner].clip(0, 1)
    on_ground, _ = _mean_of(ground[..., None].astype(np.float32), outer & known)
    ends = np.maximum(np.where(step > 0.5, step, 0), on_ground[..., 0][inner])
    both = ((n_in >= 2) & (n_out >= 2))[inner]
    shape = np.maximum(ends * (0.7 + 0.3 * contrast), 0.35 * contrast)
    return float(np.where(both, shape, contrast).mean())


def _mean_of(image: np.ndarray, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean of the marked pixels in a 5x5 window around each pixel, and how many they are."""
    import cv2

    count = np.asarray(cv2.boxFilter(where.astype(np.float32), -1, (5, 5), normalize=False))
    masked = np.where(where[..., None], image, 0).astype(np.float32)
    total = np.asarray(cv2.boxFilter(masked, -1, (5, 5), normalize=False)).reshape(image.shape)
    return total / np.maximum(count, 1)[..., None], count
