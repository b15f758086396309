"""From a predicted place to a mask: prior, depth and colour per pixel, then a smooth field."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32

from tracking.embedded.field import (
    ColourModel,
    colour_bins,
    colour_logits,
    colour_model,
    signed_distance,
    smooth_logits,
)
from tracking.embedded.frames import Crop
from tracking.embedded.model import ObjectModel
from tracking.embedded.plane import Plane, sensor_sigma_m
from tracking.embedded.predict import Prediction, tolerance_m

_FINGER_M, _PALM_M, _ARM_M = 0.013, 0.022, 0.035  # m, half the thickness around a bone
_FOREARM_M = 0.10  # m
_PALM_BONES = ((0, 5), (0, 9), (0, 13), (0, 17))
_FINGER_BONES = (*tuple((i, i + 1) for start in (1, 5, 9, 13, 17) for i in range(start, start + 3)), (0, 1))


@dataclass(frozen=True)
class Evidence:
    """Evidence per pixel, as logits, before colour and smoothing."""

    prior: Float32[np.ndarray, "h w"]
    geometry: Float32[np.ndarray, "h w"]
    core: Bool[np.ndarray, "h w"]  # surely the object: its colours are learnt here
    rest: Bool[np.ndarray, "h w"]  # surely not


def space_evidence(
    crop: Crop,
    prediction: Prediction,
    model: ObjectModel,
    points_in_world: Float32[np.ndarray, "h w 3"],
    camera_in_world: Float[np.ndarray, "3"],
    plane: Plane | None,
    sharpness: float,
    may_grow: bool = False,
) -> Evidence:
    """What prediction and depth say about each pixel.

    ``may_grow``: what stands over the support and hangs together with the prediction is the object (young memories
    lack parts). ``plane`` None while the object moves or is too flat for depth to part it from its support. Outside the
    predicted rim the prior is softer the newer the direction of view is: there may be sides not seen yet.
    """
    import cv2

    distance = signed_distance(prediction.mask)
    direction = prediction.world_from_object[:3, :3].T @ (
        camera_in_world - prediction.world_from_object[:3, :3] @ model.center - prediction.world_from_object[:3, 3]
    )
    novelty = model.novelty_rad(direction / np.linalg.norm(direction))
    softness = 1.0 / (1.0 + (novelty / 0.25) ** 2)
    outer = sharpness * (0.3 + 0.7 * softness)
    prior = np.where(distance > 0, sharpness * distance, outer * distance).clip(-4.0, 3.0)
    expected = np.where(np.isfinite(prediction.z_m), prediction.z_m, np.float32(1e3))
    for _ in range(3):  # carry the expected depth a few pixels beyond the rim
        expected = np.where(expected < 1e2, expected, cv2.erode(expected, np.ones((3, 3), np.uint8)))
    residual = crop.z_m - expected
    limit = tolerance_m(expected)
    known = np.isfinite(residual) & (expected < 1e2)
    geometry = np.zeros(crop.size_hw, np.float32)
    inside = prediction.mask
    geometry[known & (np.abs(residual) < limit) & inside] = 0.8
    geometry[known & (residual < -limit)] = -4.0
    deep = known & (residual > limit)
    geometry[deep] = np.where(distance[deep] > 2, -2.5, -1.2)
    geometry += _outside_bounds(points_in_world, prediction, model, novelty)
    if plane is not None:
        height = plane.height_m(points_in_world)
        threshold = np.maximum(0.004, 1.5 * sensor_sigma_m(crop.z_m))
        low = np.isfinite(height) & (height < threshold)
        if may_grow:
            grown = _standing_together(crop, prediction.mask, np.isfinite(height) & (height > 1.5 * threshold))
            geometry[grown & ~inside] += 1.5
            prior = np.where(grown, np.maximum(prior, -0.8), prior)
        geometry[low] -= (3.0 * ((threshold - height) / threshold).clip(0, 1.3))[low]
    core = inside & (distance > 1.0) & (geometry >= 0)
    if core.sum() < 6:
        core = inside & (geometry >= 0)
    rest = (distance < -2.5) | (known & (residual < -1.5 * limit))
    return Evidence(prior.astype(np.float32), geometry, core, rest)


def _standing_together(crop: Crop, predicted: np.ndarray, standing: np.ndarray) -> Bool[np.ndarray, "h w"]:
    """The connected region over the support that holds the prediction, cut at depth steps; empty if far too large."""
    import cv2

    z_m = np.where(np.isfinite(crop.z_m), crop.z_m, 0).astype(np.float32)
    spread = cv2.dilate(z_m, np.ones((3, 3), np.uint8)) - cv2.erode(z_m, np.ones((3, 3), np.uint8))
    solid = standing & (spread < 0.03 + 3 * sensor_sigma_m(crop.z_m))
    _, labels = cv2.connectedComponents(solid.astype(np.uint8), connectivity=4)
    held = np.bincount(labels[predicted & solid], minlength=int(labels.max()) + 1)
    held[0] = 0
    region = np.isin(labels, np.flatnonzero(held > 0.2 * max(1, int(predicted.sum()))))
    touches = region[0].any() or region[-1].any() or region[:, 0].any() or region[:, -1].any()
    if region.sum() > 2.5 * predicted.sum() or touches:
        return np.zeros_like(predicted)
    wider = np.asarray(cv2.dilate(region.astype(np.uint8), np.ones((3, 3), np.uint8))) > 0
    return np.asarray(wider & standing)


def _outside_bounds(points: np.ndarray, prediction: Prediction, model: ObjectModel, novelty: float) -> np.ndarray:
    low, high = model.bounds
    margin = 0.008 + float(np.clip(novelty / 0.5, 0.1, 1.0)) * 0.6 * float(np.max(high - low))
    turn, origin = prediction.world_from_object[:3, :3], prediction.world_from_object[:3, 3]
    local = (points - origin.astype(np.float32)) @ turn.astype(np.float32)
    over = np.maximum(low - local, local - high).max(-1) - margin
    return np.where(np.isfinite(over) & (over > 0), -3.0, 0.0).astype(np.float32)


def hand_logits(
    points_in_world: Float32[np.ndarray, "h w 3"], hands: list[Float[np.ndarray, "21 3"]]
) -> Float32[np.ndarray, "h w"]:
    """Negative where a pixel's point lies on a hand: within a finger's or the palm's thickness of a bone.

    The arm counts for the first 10 cm behind the wrist, along the line from the knuckles through it: further on a bent
    wrist makes that line wrong.
    """
    height, width = points_in_world.shape[:2]
    out = np.zeros((height, width), np.float32)
    coarse = points_in_world[::2, ::2]
    for joints in hands:
        if not np.isfinite(joints).any():
            continue
        reach = np.linalg.norm(coarse - np.nanmean(joints, axis=0).astype(np.float32), axis=-1) < 0.22
        if not reach.any():
            continue
        cloud = coarse[reach].astype(np.float64)
        closeness = np.full(len(cloud), -1.0)
        bones = [(joints[i], joints[j], _FINGER_M) for i, j in _FINGER_BONES]
        bones += [(joints[i], joints[j], _PALM_M) for i, j in _PALM_BONES] + _forearm(joints)
        for start, end, radius in bones:
            if np.isfinite(start).all() and np.isfinite(end).all():
                closeness = np.maximum(closeness, (radius - _segment_distance(cloud, start, end)) / 0.006)
        near = np.zeros(coarse.shape[:2], np.float32)
        near[reach] = closeness.clip(0, 1)
        out = np.minimum(out, -2.0 * near.repeat(2, 0).repeat(2, 1)[:height, :width])
    return out


def _forearm(joints: Float[np.ndarray, "21 3"]) -> list[tuple[np.ndarray, np.ndarray, float]]:
    wrist, knuckles = joints[0], joints[[5, 9, 13, 17]]
    if not (np.isfinite(wrist).all() and np.isfinite(knuckles).all()):
        return []
    away = wrist - knuckles.mean(axis=0)
    length = float(np.linalg.norm(away))
    return [(wrist, wrist + _FOREARM_M * away / length, _ARM_M)] if length > 0.01 else []


def _segment_distance(points: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    along = b - a
    t = ((points - a) @ along / max(1e-9, float(along @ along))).clip(0, 1)
    return np.asarray(np.linalg.norm(points - a - t[:, None] * along, axis=-1))


def refine(
    crop: Crop,
    evidence: Evidence,
    remembered: ColourModel | None,
    gain: float,
    colour_weight: float = 1.0,
    blocked: Bool[np.ndarray, "h w"] | None = None,
) -> Float32[np.ndarray, "h w"]:
    """Logits per pixel: prior + depth + colour, smoothed. Colours: this frame's core blended with the memory."""
    bins = colour_bins(crop.features)
    unary = evidence.prior + evidence.geometry
    unary = np.where(crop.valid, unary, -8.0)
    if blocked is not None:
        unary = np.where(blocked, np.minimum(unary, -3.0), unary)
    core, rest = evidence.core & crop.valid, evidence.rest & crop.valid
    own = colour_model(bins[core]) if core.sum() >= 12 else None
    past = remembered
    if past is not None and abs(gain) > 1e-3:
        past = None if own is not None and abs(gain) > 0.5 else shifted(past, gain)
    foreground = own if past is None else past if own is None else past.blended(own, 0.5)
    if foreground is not None and rest.sum() >= 12:
        unary = unary + colour_weight * colour_logits(bins, foreground, colour_model(bins[rest]))
    return smooth_logits(unary.astype(np.float32), crop.features, crop.z_m)


def shifted(model: ColourModel, gain: float) -> ColourModel:
    """The same colours under another exposure: the histogram moved along its brightness axis."""
    from tracking.embedded import field

    step = float(gain) / float((field._HIGH[0] - field._LOW[0]) / field._BINS[0])
    whole = int(np.floor(step))
    part = step - whole

    def moved(by: int) -> np.ndarray:
        out = np.zeros_like(model.density)
        size = out.shape[0]
        if abs(by) < size:
            source = slice(max(0, -by), min(size, size - by))
            target = slice(max(0, by), min(size, size + by))
            out[target] = model.density[source]
        return out

    return ColourModel((1 - part) * moved(whole) + part * moved(whole + 1), model.weight)
