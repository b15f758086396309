"""A seed from what many frames say about the place of a point: the fused surface, drawn into the prompt's frame."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Float32

from tracking.embedded.field import signed_distance
from tracking.embedded.frames import Crop, FrameStore, Roi, make_roi
from tracking.embedded.motion import hands_at
from tracking.embedded.predict import draw_surface, tolerance_m
from tracking.embedded.refine import Evidence, hand_logits, refine
from tracking.embedded.segment import Seed, SeedTask, crop_points_in_world, disc, keep_component, rim_strength
from tracking.embedded.surroundings import Surroundings, colour_at, place_of_point, surroundings_of

_MIN_FRONT_M = 0.05  # m, points nearer before the camera are not drawn
_MIN_PIXELS = 8  # points of the object in the picture, fewer make no crop
_MIN_DRAWN_PX = 6  # crop pixels that show the object, fewer make no seed
_MIN_AGREED = 0.4  # IoU of the drawn object and the mask found, a mask that agrees less is not believed
_RIM_PX = 2  # crop pixels on either side of the outline whose contrast counts for the quality


@dataclass(frozen=True)
class _Drawn:
    """The fused surface in a crop: the crop with its holes filled from it, and what it shows where."""

    crop: Crop
    mine: Bool[np.ndarray, "h w"]  # the object, not hidden
    others: Bool[np.ndarray, "h w"]  # another thing, or the object behind something


def seed_from_surroundings(store: FrameStore, task: SeedTask) -> Seed | None:
    """A seed from what many frames say about the place of the first point; None where they say too little.

    None also for prompts by box or mask, and where the picture disagrees with the fused surface.
    """
    prompt = task.prompt
    pose = store.pose(prompt.frame)
    around = _around_first_point(store, task)
    if pose is None or around is None:
        return None
    roi = _roi_of(store, around.points_in_world[around.is_object], pose, task.max_side_px)
    if roi is None:
        return None
    drawn = _draw(store.crop(prompt.frame, roi), around, pose)
    if drawn.mine.sum() < _MIN_DRAWN_PX:
        return None
    crop, mine = drawn.crop, drawn.mine
    distance = signed_distance(mine)
    points_xy = roi.to_roi(prompt.points_xy_px)
    on_hands = hand_logits(crop_points_in_world(crop, pose), hands_at(store, prompt.frame))
    evidence = _evidence(drawn, distance, points_xy, prompt.positive, on_hands)
    logits = refine(crop, evidence, None, 0.0, blocked=task.blocked(crop))
    logits = keep_component(logits, points_xy[prompt.positive])
    agreed = float((mine & (logits > 0)).sum()) / max(1, int((mine | (logits > 0)).sum()))
    if agreed < _MIN_AGREED:
        return None
    inner, outer = (distance > 0) & (distance <= _RIM_PX), (distance < 0) & (distance >= -_RIM_PX)
    edge = rim_strength(crop, inner, outer, None if around.flat else drawn.others)
    quality = float(np.clip(0.4 + 0.3 * edge + 0.3 * agreed, 0, 1))
    return Seed(crop, logits.astype(np.float32), around.plane, around.flat, quality, around)


def _around_first_point(store: FrameStore, task: SeedTask) -> Surroundings | None:
    prompt = task.prompt
    if store.pose(prompt.frame) is None or prompt.mask is not None or prompt.box_xyxy_px is not None:
        return None
    point = prompt.points_xy_px[prompt.positive][0]
    place = place_of_point(store, prompt.frame, point)
    if not np.isfinite(place).all():
        return None
    colour = colour_at(store, prompt.frame, point)
    return surroundings_of(
        store, prompt.frame, place, colour, task.up_in_world, task.max_object_m, max_views=task.max_views
    )


def _roi_of(
    store: FrameStore, points_in_world: Float32[np.ndarray, "K 3"], pose: Float[np.ndarray, "4 4"], max_side_px: int
) -> Roi | None:
    """A crop around the object's points with room beside them; None if few are in the picture."""
    local = (points_in_world - pose[:3, 3]) @ pose[:3, :3]
    projection = store.canonical.camera.project(local[local[:, 2] > _MIN_FRONT_M])
    pixels = projection.pixels_xy[projection.valid]
    pixels = pixels[store.canonical.camera.in_image(pixels)]
    if len(pixels) < _MIN_PIXELS:
        return None
    low, high = np.percentile(pixels, [0.5, 99.5], axis=0)
    half = (high - low) / 2
    pad = 12 + 0.35 * float(half.max())
    center = (low + high) / 2
    return make_roi((center[0], center[1]), (half[0] + pad, half[1] + pad), store.image_wh, max_side_px)


def _draw(crop: Crop, around: Surroundings, pose: Float[np.ndarray, "4 4"]) -> _Drawn:
    import cv2

    local = (around.points_in_world - pose[:3, 3]) @ pose[:3, :3]
    front = local[:, 2] > _MIN_FRONT_M
    local, belongs = local[front], around.is_object[front]
    pixels = local[:, :2] / local[:, 2:]
    pixels = pixels * [crop.camera.fx_px, crop.camera.fy_px] + [crop.camera.cx_px, crop.camera.cy_px]
    depth, index = draw_surface(pixels, local[:, 2], around.voxel_m, crop)
    drawn = index >= 0
    mine = drawn & belongs[np.maximum(index, 0)]
    closed = cv2.morphologyEx(mine.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8)) > 0
    others = drawn & ~closed
    with np.errstate(invalid="ignore"):
        hidden = crop.z_m < depth - tolerance_m(np.where(drawn, depth, 1.0))
    filled = np.where(np.isfinite(crop.z_m) | ~drawn, crop.z_m, depth).astype(np.float32)
    return _Drawn(replace(crop, z_m=filled), closed & ~hidden, others | (drawn & hidden))


def _evidence(
    drawn: _Drawn,
    distance: Float32[np.ndarray, "h w"],
    points_xy: Float[np.ndarray, "P 2"],
    positive: Bool[np.ndarray, "P"],
    on_hands: Float32[np.ndarray, "h w"],
) -> Evidence:
    """What the drawn surface and the prompt's points (crop pixels) say; ``distance`` in px, positive inside."""
    size_hw = drawn.crop.size_hw
    geometry = np.where(drawn.mine, 1.0, 0.0) - np.where(drawn.others, 2.0, 0.0) + on_hands
    for xy, inside in zip(points_xy, positive, strict=True):
        geometry = geometry + (6.0 * disc(size_hw, xy, 1.5) if inside else -8.0 * disc(size_hw, xy, 3.0))
    prior = (0.6 * distance).clip(-4.0, 3.0)
    return Evidence(
        prior.astype(np.float32),
        geometry.astype(np.float32),
        drawn.mine & (distance > 1.0),
        drawn.others | (distance < -2.5),
    )
