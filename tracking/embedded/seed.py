"""From a point (or box, or mask) to the object's mask in the seed frame.

The object is what hangs together around the point: in space (above its support, no depth step), in colour,
and at a size that a hand can move. Several sizes are tried; the mask whose rim lies on real edges wins.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Float32

from tracking.base import Prompt
from tracking.embedded._kernels import geodesic
from tracking.embedded.field import colour_bins, colour_logits, colour_model, signed_distance, smooth_logits
from tracking.embedded.frames import Crop, FrameStore, Roi, make_roi
from tracking.embedded.fused_seed import seed_from_surroundings
from tracking.embedded.motion import hands_at
from tracking.embedded.plane import Plane, find_support, sensor_sigma_m
from tracking.embedded.refine import hand_logits
from tracking.embedded.segment import (
    Seed,
    SeedTask,
    crop_points_in_world,
    disc,
    fill_holes,
    keep_component,
    rim_strength,
)

__all__ = ["Seed", "crop_points_in_world", "depth_at", "fill_holes", "keep_component", "rim_strength", "segment_seed"]

_NO_DEPTH_HALF_SHARE = 0.16  # of the picture's width, half a side of the crop where depth is not known
_NO_DEPTH_RADII = (0.08, 0.14, 0.22, 0.32)  # of the crop's longer side, sizes tried where depth is not known
_LARGER_BONUS = 0.015  # quality per doubling of the area
_RADII_M = (0.03, 0.05, 0.08, 0.12, 0.17)  # m, sizes tried
_COLOUR_LEADS = (1.0, 0.2)  # share of colour: by colour; by shape, for things of several colours


@dataclass(frozen=True)
class _Scene:
    """The prompt's crop and what is known in it whatever the object's size."""

    crop: Crop
    points_xy: Float[np.ndarray, "P 2"]  # the prompt's points in crop pixels
    positive: Bool[np.ndarray, "P"]
    box_xyxy_px: Float[np.ndarray, "4"] | None  # canonical pixels
    blocked: Bool[np.ndarray, "h w"]  # cannot be the object's
    plane: Plane | None
    flat: bool
    geometry: Float32[np.ndarray, "h w"]  # logits from space
    z_seed_m: float  # NaN where depth is not known

    @property
    def metres_per_px(self) -> float:
        """Size of a crop pixel at the seed; NaN where depth is not known."""
        return self.z_seed_m / self.crop.camera.fx_px if np.isfinite(self.z_seed_m) else float("nan")


def depth_at(crop: Crop, xy: Float[np.ndarray, "2"], radius_px: int = 2) -> float:
    """Median depth around a crop pixel, NaN where nothing is known."""
    u, v = round(float(xy[0])), round(float(xy[1]))
    for reach in (radius_px, 2 * radius_px, 4 * radius_px):
        patch = crop.z_m[max(0, v - reach) : v + reach + 1, max(0, u - reach) : u + reach + 1]
        values = patch[np.isfinite(patch)]
        if len(values) >= 3:
            return float(np.percentile(values, 40))
    return float("nan")


def segment_seed(
    store: FrameStore,
    prompt: Prompt,
    up_in_world: Float[np.ndarray, "3"] | None,
    max_side_px: int,
    max_object_m: float,
    taken: Bool[np.ndarray, "H W"] | None = None,
    max_views: int = 24,
) -> Seed | None:
    """Segment the prompted object; None if the prompt lies outside the picture.

    From up to ``max_views`` frames around the prompt's (see ``surroundings``), else from the prompt's frame alone.
    """
    roi = _first_roi(store, prompt, max_side_px, max_object_m)
    if roi is None:
        return None
    task = SeedTask(prompt, up_in_world, max_side_px, max_object_m, taken, max_views)
    fused = seed_from_surroundings(store, task)
    if fused is not None:
        return fused
    crop = store.crop(prompt.frame, roi)
    crop = _with_filled_depth(store, prompt.frame, crop)
    if prompt.mask is not None:
        return _from_mask(store, prompt, crop, up_in_world)
    seed = _segment(store, task, crop)
    tight = _tighter_roi(seed, store, max_side_px)
    if tight is not None:
        crop = _with_filled_depth(store, prompt.frame, store.crop(prompt.frame, tight))
        seed = _segment(store, task, crop)
    return seed


def _first_roi(store: FrameStore, prompt: Prompt, max_side_px: int, max_object_m: float) -> Roi | None:
    width, height = store.image_wh
    if prompt.mask is not None and prompt.mask.any():
        v, u = np.nonzero(prompt.mask)
        center = ((u.min() + u.max()) / 2, (v.min() + v.max()) / 2)
        pad = 12 + 0.3 * max(np.ptp(u), np.ptp(v))
        return make_roi(center, (np.ptp(u) / 2 + pad, np.ptp(v) / 2 + pad), (width, height), max_side_px)
    if prompt.box_xyxy_px is not None:
        x0, y0, x1, y1 = (float(value) for value in prompt.box_xyxy_px)
        half = (0.7 * (x1 - x0) + 8, 0.7 * (y1 - y0) + 8)
        return make_roi(((x0 + x1) / 2, (y0 + y1) / 2), half, (width, height), max_side_px)
    x, y = prompt.points_xy_px[prompt.positive][0]
    probe = make_roi((x, y), (24.0, 24.0), (width, height), max_side_px)
    if probe is None:
        return None
    crop = _with_filled_depth(store, prompt.frame, store.crop(prompt.frame, probe))
    z = depth_at(crop, probe.to_roi(np.array([x, y])))
    side = _NO_DEPTH_HALF_SHARE * width
    if np.isfinite(z):
        side = float(np.clip(0.75 * max_object_m * store.canonical.camera.fx_px / max(z, 0.1), 24, 0.4 * width))
    return make_roi((x, y), (side, side), (width, height), max_side_px)


def _tighter_roi(seed: Seed, store: FrameStore, max_side_px: int) -> Roi | None:
    """A crop that shows a small object at full resolution; None where the first one does already."""
    roi = seed.crop.roi
    if roi.scale >= 0.99 or not seed.mask.any():
        return None
    v, u = np.nonzero(seed.mask)
    corner = roi.from_roi(np.array([[u.min(), v.min()], [u.max(), v.max()]], float))
    pad = 14 + 0.5 * float((corner[1] - corner[0]).max())
    half = (corner[1] - corner[0]) / 2 + pad
    tight = make_roi(tuple(corner.mean(0)), (half[0], half[1]), store.image_wh, max_side_px)
    return tight if tight is not None and tight.scale > 1.15 * roi.scale else None


def _with_filled_depth(store: FrameStore, frame: int, crop: Crop) -> Crop:
    """A crop that is mostly hole takes the static scene's depth."""
    static = store.static_crop(frame, crop.roi) if np.isfinite(crop.z_m).mean() < 0.4 else None
    if static is None:
        return crop
    return replace(crop, z_m=np.where(np.isfinite(crop.z_m), crop.z_m, static))


def _from_mask(store: FrameStore, prompt: Prompt, crop: Crop, up_in_world: Float[np.ndarray, "3"] | None) -> Seed:
    import cv2

    assert prompt.mask is not None
    roi = crop.roi
    part = prompt.mask[roi.y0 : roi.y1, roi.x0 : roi.x1].astype(np.float32)
    mask = cv2.resize(part, roi.size_wh, interpolation=cv2.INTER_AREA) > 0.5
    logits = signed_distance(mask).clip(-4, 4)
    plane, flat = None, False
    pose = store.pose(prompt.frame)
    if pose is not None and np.isfinite(crop.z_m[mask]).sum() > 5:
        points = crop_points_in_world(crop, pose)
        inside = mask & np.isfinite(crop.z_m)
        center = np.median(points[inside], axis=0).astype(float)
        plane = find_support(points, center, pose[:3, 3], up_in_world, exclude=mask)
        flat = plane is not None and _is_flat(plane, points, inside, crop)
    return Seed(crop, logits, plane, flat, 1.0)


def _is_flat(plane: Plane, points: np.ndarray, inside: np.ndarray, crop: Crop) -> bool:
    height = float(np.percentile(plane.height_m(points[inside]), 75))
    return height < max(0.006, 2.0 * float(sensor_sigma_m(np.median(crop.z_m[inside]))))


def _segment(store: FrameStore, task: SeedTask, crop: Crop) -> Seed:
    scene = _scene(store, task, crop)
    best: Seed | None = None
    leads = _COLOUR_LEADS[:1] if scene.flat or not np.isfinite(scene.z_seed_m) else _COLOUR_LEADS
    for colour_lead in leads:
        distance = _geodesic_from(crop, scene.points_xy[scene.positive], scene.geometry, colour_lead)
        for radius in _radii_px(crop, scene.metres_per_px, task.max_object_m):
            seed = _grow(scene, distance, radius, colour_lead)
            if best is None or _preference(seed) > _preference(best):
                best = seed
    assert best is not None
    return best


def _scene(store: FrameStore, task: SeedTask, crop: Crop) -> _Scene:
    prompt, pose = task.prompt, store.pose(task.prompt.frame)
    points_xy = crop.roi.to_roi(prompt.points_xy_px)
    plane, flat, geometry = None, False, np.zeros(crop.size_hw, np.float32)
    z_seed = depth_at(crop, points_xy[prompt.positive][0])
    if pose is not None and np.isfinite(z_seed):
        points = crop_points_in_world(crop, pose)
        u, v = points_xy[prompt.positive][0]
        ray = crop.camera.normalised_points(np.array([u, v])) * z_seed
        seed_in_world = pose[:3, :3] @ ray + pose[:3, 3]
        plane = find_support(points, seed_in_world, pose[:3, 3], task.up_in_world)
        geometry, flat = _geometry_logits(points, crop, plane, seed_in_world, z_seed, task.max_object_m)
        geometry = geometry + hand_logits(points, hands_at(store, prompt.frame))
    blocked = task.blocked(crop)
    return _Scene(crop, points_xy, prompt.positive, prompt.box_xyxy_px, blocked, plane, flat, geometry, z_seed_m=z_seed)


def _preference(seed: Seed) -> float:
    """Quality, and the larger of two about equally good: a print is part of a thing more often than a thing itself."""
    return seed.quality + _LARGER_BONUS * float(np.log2(max(1, int(seed.mask.sum()))))


def _beyond(crop: Crop, z_seed: float, radius_m: float) -> np.ndarray:
    """Against pixels that lie much deeper or nearer than an object of this radius reaches."""
    if not np.isfinite(radius_m):
        return np.zeros(crop.size_hw, np.float32)
    limit = 1.8 * radius_m + 0.02 + float(sensor_sigma_m(z_seed))
    return np.where(np.abs(crop.z_m - z_seed) > limit, np.float32(-2.5), np.float32(0.0))


def _radii_px(crop: Crop, metres_per_px: float, max_object_m: float) -> list[float]:
    if np.isfinite(metres_per_px):
        return [r / metres_per_px for r in _RADII_M if r <= 0.6 * max_object_m]
    side = max(crop.size_hw)
    return [share * side for share in _NO_DEPTH_RADII]


def _geometry_logits(
    points: np.ndarray, crop: Crop, plane: Plane | None, seed_in_world: np.ndarray, z_seed: float, max_object_m: float
) -> tuple[np.ndarray, bool]:
    """What space says about each pixel: too far away, on the support, or standing over it."""
    known = np.isfinite(crop.z_m)
    far = np.linalg.norm(points - seed_in_world, axis=-1)
    logits = np.where(known & (far > max_object_m), -4.0, 0.0)
    flat = False
    if plane is not None:
        height = plane.height_m(points)
        sigma = sensor_sigma_m(np.where(known, crop.z_m, 1.0))
        threshold = np.maximum(0.005, 1.7 * sigma)
        near = far < 0.03
        seed_heights = height[known & near] if (known & near).any() else np.array([plane.height_m(seed_in_world)])
        flat = bool(np.median(seed_heights) < max(0.006, 2.0 * float(sensor_sigma_m(z_seed))))
        if not flat:
            over = ((height - threshold) / threshold).clip(-1.5, 1.0)
            logits = logits + np.where(known, 1.6 * over, 0.0)
    return logits.astype(np.float32), flat


def _grow(scene: _Scene, distance: Float32[np.ndarray, "h w"], radius_px: float, colour_lead: float) -> Seed:
    """One size hypothesis: geodesic ball, colour models from it, smooth field, twice refined."""
    crop = scene.crop
    geometry = scene.geometry + _beyond(crop, scene.z_seed_m, radius_px * scene.metres_per_px)
    prior = ((radius_px - distance) / (0.35 * radius_px)).clip(-3.0, 1.5)
    if scene.box_xyxy_px is not None:
        prior = np.where(_inside_box(crop, scene.box_xyxy_px), prior, -5.0)
    hard = np.where(scene.blocked, -6.0, 0.0)
    for xy in scene.points_xy[~scene.positive]:
        hard = hard - 8.0 * disc(crop.size_hw, xy, 0.2 * radius_px + 1)
    for xy in scene.points_xy[scene.positive]:
        hard = hard + 6.0 * disc(crop.size_hw, xy, 1.5)
    bins = colour_bins(crop.features)
    logits = prior + geometry + hard
    for round_ in range(3):
        mask = logits > (1.0 if round_ == 0 else 0.0)
        outside = logits < (-1.0 if round_ == 0 else 0.0)
        if mask.sum() < 4 or outside.sum() < 4:
            break
        model_in, model_out = colour_model(bins[mask]), colour_model(bins[outside])
        unary = 0.6 * prior + geometry + hard + (0.3 + 0.7 * colour_lead) * colour_logits(bins, model_in, model_out)
        logits = smooth_logits(unary.astype(np.float32), crop.features, crop.z_m)
    logits = keep_component(logits, scene.points_xy[scene.positive])
    quality = _quality(crop, logits, geometry, scene.flat, radius_px)
    return Seed(crop, logits.astype(np.float32), scene.plane, scene.flat, quality)


def _inside_box(crop: Crop, box_xyxy_px: np.ndarray) -> np.ndarray:
    corners = crop.roi.to_roi(box_xyxy_px.reshape(2, 2))
    v, u = np.mgrid[0 : crop.size_hw[0], 0 : crop.size_hw[1]]
    return np.asarray((u >= corners[0, 0]) & (u <= corners[1, 0]) & (v >= corners[0, 1]) & (v <= corners[1, 1]))


def _geodesic_from(crop: Crop, points_xy: np.ndarray, geometry: np.ndarray, colour_lead: float) -> np.ndarray:
    """Path length in pixels, dearer across colour edges, depth steps and the support surface."""
    import cv2

    features = crop.features * np.array([0.5, 1.0, 1.0], np.float32) * np.float32(colour_lead)
    z_m = cv2.medianBlur(np.where(np.isfinite(crop.z_m), crop.z_m, 0).astype(np.float32), 5)
    z_m = np.where(z_m > 0, z_m, np.nan)
    limit = 0.02 + 2.0 * sensor_sigma_m(float(np.nanmedian(z_m))) if np.isfinite(z_m).any() else 0.02

    def cost(a: tuple[slice, slice], b: tuple[slice, slice]) -> np.ndarray:
        colour = np.abs(features[a] - features[b]).sum(-1)
        step = np.abs(z_m[a] - z_m[b]) / limit
        step = np.where(np.isfinite(step), np.minimum(step, 3.0), 0.3)
        low = np.maximum(0.0, -np.minimum(geometry[a], geometry[b]))
        total = 1.0 + 6.0 * np.maximum(colour - 0.06, 0) + 4.0 * np.maximum(step - 0.5, 0) + low
        return np.asarray(total, np.float32)

    right = np.zeros(crop.size_hw, np.float32)
    down = np.zeros(crop.size_hw, np.float32)
    whole = slice(None)
    right[:, :-1] = cost((whole, slice(None, -1)), (whole, slice(1, None)))
    down[:-1] = cost((slice(None, -1), whole), (slice(1, None), whole))
    start = np.full(crop.size_hw, np.float32(1e6), dtype=np.float32)
    for x, y in points_xy:
        v, u = int(np.clip(round(y), 0, crop.size_hw[0] - 1)), int(np.clip(round(x), 0, crop.size_hw[1] - 1))
        start[max(0, v - 1) : v + 2, max(0, u - 1) : u + 2] = 0
    return np.asarray(geodesic(start, right, down))


def _quality(crop: Crop, logits: np.ndarray, geometry: np.ndarray, flat: bool, radius_px: float) -> float:
    """How much of the rim lies where the object ends, less what touches the crop's border."""
    mask = logits > 0
    area = int(mask.sum())
    if area < 6:
        return 0.0
    sd = signed_distance(mask)
    inner, outer = (sd > 0) & (sd <= 2), (sd < 0) & (sd >= -2)
    edge = rim_strength(crop, inner, outer, None if flat else geometry < -0.5)
    border = mask[0].sum() + mask[-1].sum() + mask[:, 0].sum() + mask[:, -1].sum()
    touch = float(border) / max(1, int(inner.sum()))
    size = np.sqrt(area / np.pi)
    sharp = float(np.abs(np.tanh(logits[inner | outer] / 2)).mean()) if (inner | outer).any() else 0.0
    fit = np.exp(-0.5 * max(0.0, abs(np.log(size / radius_px)) - 1.2) ** 2)
    return float(np.clip((0.55 * edge + 0.45 * sharp) * fit - 0.8 * touch, 0, 1))
