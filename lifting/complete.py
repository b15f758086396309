"""From the points of one rest to the whole object: agreed points, support under it, sides that nobody saw."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from geo.boxes import Box3
from lifting._cloud import VoxelCloud
from lifting.config import LiftConfig
from lifting.fit_box import best_yaw, box_with_yaw, fit_box
from lifting.observe import Observation
from lifting.round import round_box
from lifting.surfaces import Surfaces, footprint_points
from lifting.timeline import RestSegment

_SEEN_COSINE = 0.17  # a side seen under less than 10 degrees is not seen
_CLEAR_COSINE = 0.35
_DENSITY_SHARE = 0.5
_WIDE_SHARE = 0.15
_FEW_SHARE = 0.06
_MIN_VIEWS_TO_ALIGN = 6
_PIXELS_PER_VOXEL = 0.9  # of the median view: finer voxels than pixels would seem thinly seen
_UNSEEN_SHARE = 0.25  # expected growth of an unseen depth towards a square footprint
_UNSEEN_SIGMA_SHARE = 0.3
_COMMON_SHARE = 0.8  # of a view's edge error that more views do not average out (measured, docs/lifting.md)


@dataclass(frozen=True)
class RestFit:
    """The box of one rest before the rests of an object are reconciled.

    ``seen_low/high``: which of the box's six sides some view looked at (axis order x, y, z).
    """

    segment: RestSegment
    box: Box3
    points_in_world: Float64[np.ndarray, "K 3"]
    seen_low: Bool[np.ndarray, "3"]
    seen_high: Bool[np.ndarray, "3"]
    extent_sigma_m: Float64[np.ndarray, "3"]
    noise_sigma_m: float
    support: tuple[int, float] | None  # surface index and height
    views: int
    notes: tuple[str, ...]


def agreed_points(observations: list[Observation], config: LiftConfig) -> Float64[np.ndarray, "K 3"]:
    """Voxel means that stand out of the noise.

    They have at least half the views of the best place next to them, 15 % of the best ones within 4 cm, and 6 % of
    all views.
    Noise spreads a surface over several voxels; the fringe is thin however many views there are, so the test is
    relative, not a count.
    """
    from scipy.spatial import cKDTree

    voxel_m = max(config.voxel_m, _PIXELS_PER_VOXEL * float(np.median([o.pixel_m for o in observations] or [0.0])))
    cloud = VoxelCloud(voxel_m)
    for points in _aligned(observations, config):
        cloud.add(points)
    means = cloud.means
    if len(observations) < 4 or len(means) < 30:
        return means
    weight = cloud.view_counts.astype(np.float64)
    tree = cKDTree(means)
    near = min(13, len(means))
    distance, index = tree.query(means, k=near)
    within = distance < 2.5 * voxel_m
    densest = np.where(within, weight[index], 0.0).max(axis=1)
    crowded = within.sum(axis=1) >= 4
    keep = (weight >= _DENSITY_SHARE * densest) & crowded
    keep &= weight >= _FEW_SHARE * len(observations)
    keep &= weight >= _WIDE_SHARE * _densest_around(means, weight, config.stray_reach_m)
    if keep.sum() < 20:
        return means
    return _flattened(means[keep], weight[keep], 3.0 * config.voxel_m)


def _aligned(observations: list[Observation], config: LiftConfig) -> list[Float64[np.ndarray, "K 3"]]:
    """The points of every view, shifted onto what the views have in common: pose errors blur edges otherwise.

    Shifts are bounded, taken from whole views only, and their median is taken off again, so that the object as a
    whole stays where the poses put it.
    """
    points = [np.asarray(o.points_in_world, dtype=np.float64) for o in observations]
    if len(points) < _MIN_VIEWS_TO_ALIGN:
        return points
    common = VoxelCloud(config.voxel_m)
    for own in points:
        common.add(own)
    shifts = np.zeros((len(points), 3))
    for k, (observation, own) in enumerate(zip(observations, points, strict=True)):
        if not observation.truncated:
            shift = common.shift_of(own[:: max(1, len(own) // 200)])
            length = float(np.linalg.norm(shift))
            shifts[k] = shift if length <= config.max_alignment_m else 0.0
    whole = np.array([not o.truncated for o in observations])
    middle = np.median(shifts[whole], axis=0) if whole.any() else np.zeros(3)
    return [
        own - (shift - middle if is_whole else 0.0) for own, shift, is_whole in zip(points, shifts, whole, strict=True)
    ]


def _densest_around(
    points: Float64[np.ndarray, "K 3"], weight: Float64[np.ndarray, "K"], reach_m: float
) -> Float64[np.ndarray, "K"]:
    """Largest weight within reach of each point, looked up among the heaviest tenth of the points."""
    from scipy.spatial import cKDTree

    heavy = np.argsort(-weight, kind="stable")[: max(10, len(weight) // 10)]
    distance, _ = cKDTree(points[heavy]).query(points)
    typical = float(np.median(weight[heavy]))
    return np.where(distance < reach_m, typical, 0.0)


def _flattened(
    points: Float64[np.ndarray, "K 3"], weight: Float64[np.ndarray, "K"], radius_m: float
) -> Float64[np.ndarray, "K 3"]:
    """Project every point onto the weighted plane of its neighbours, so that noise does not thicken surfaces.

    One step of a moving-least-squares projection (Alexa et al. 2003) with planes.
    """
    from scipy.spatial import cKDTree

    near = min(24, len(points))
    distance, index = cKDTree(points).query(points, k=near)
    share = np.where(distance < radius_m, weight[index], 0.0)
    share = share / share.sum(axis=1, keepdims=True)
    neighbours = points[index]
    middle = np.einsum("kn,knd->kd", share, neighbours)
    offsets = neighbours - middle[:, None]
    spread = np.einsum("kn,kni,knj->kij", share, offsets, offsets)
    values, vectors = np.linalg.eigh(spread)
    normal = vectors[:, :, 0]
    flat = values[:, 0] < 0.3 * values[:, 1]
    step = np.einsum("kd,kd->k", points - middle, normal)
    return np.asarray(points - np.where(flat, step, 0.0)[:, None] * normal)


def fit_rest(
    segment: RestSegment,
    observations: list[Observation],
    surfaces: Surfaces | None,
    has_up: bool,
    config: LiftConfig,
) -> RestFit | str:
    """Box of a rest from the observations of it that are to be trusted, or the reason why there is none."""
    points = agreed_points(observations, config)
    fit = fit_box(points, has_up, config.box_quantile)
    if fit.box is None:
        return fit.reason
    box, notes = fit.box, []
    support = None
    if has_up and surfaces is not None:
        box, support = _rest_on_support(points, box, surfaces, config)
    cameras = np.stack([o.camera_in_world for o in observations])
    rounded = round_box(box, points, cameras.mean(axis=0)[:2], _point_noise(observations, config)) if has_up else None
    if rounded is not None:
        box = rounded
        notes.append("round: the side that was not seen follows from the arc that was")
    seen_low, seen_high = seen_sides(box, cameras)
    noise = _edge_noise(observations, config)
    box, sigma, unseen = _complete_unseen(
        box, seen_low, seen_high, cameras, support is not None, noise, has_up, rounded is not None
    )
    if unseen:
        notes.append("back side never seen: depth completed by prior")
    extent = np.maximum(box.extent_m, config.min_extent_m)
    box = Box3(box.center_in_world, extent, box.world_from_box_rotation)
    return RestFit(segment, box, points, seen_low, seen_high, sigma, noise, support, len(segment.frames), tuple(notes))


def _point_noise(observations: list[Observation], config: LiftConfig) -> float:
    """One sigma of a single point: depth, pose, and the sensor's lateral jitter of about one pixel."""
    distance = float(np.median([o.distance_m for o in observations]))
    angle = np.radians(config.pose_sigma_deg) * distance
    return float(np.sqrt(config.depth_noise_m(distance) ** 2 + config.pose_sigma_m**2 + angle**2))


def _edge_noise(observations: list[Observation], config: LiftConfig) -> float:
    """One sigma of where an edge is found: one view's noise, of which a part is common to all views."""
    distance = float(np.median([o.distance_m for o in observations]))
    single = np.hypot(config.depth_noise_m(distance), config.pose_sigma_m)
    angle = np.radians(config.pose_sigma_deg) * distance
    per_view = float(np.hypot(single, angle))
    return float(np.hypot(per_view / np.sqrt(len(observations)), _COMMON_SHARE * per_view))


def seen_sides(
    box: Box3, cameras_in_world: Float64[np.ndarray, "V 3"], min_cosine: float = _SEEN_COSINE
) -> tuple[Bool[np.ndarray, "3"], Bool[np.ndarray, "3"]]:
    """Which sides (low, high of x, y, z) two views, or one in twenty, looked at steeply enough."""
    need = max(1, min(2, len(cameras_in_world)), len(cameras_in_world) // 20)
    low, high = np.zeros(3, dtype=bool), np.zeros(3, dtype=bool)
    for axis in range(3):
        normal = box.world_from_box_rotation[:, axis]
        for sign, seen in ((-1.0, low), (1.0, high)):
            face = box.center_in_world + sign * normal * box.extent_m[axis] / 2
            towards = cameras_in_world - face
            cosine = sign * (towards @ normal) / np.maximum(np.linalg.norm(towards, axis=1), 1e-9)
            seen[axis] = int((cosine > min_cosine).sum()) >= need
    return low, high


def _rest_on_support(
    points: Float64[np.ndarray, "K 3"], box: Box3, surfaces: Surfaces, config: LiftConfig
) -> tuple[Box3, tuple[int, float] | None]:
    """Let the box reach down to the surface under it; drop surface points that leaked into the mask's foot."""
    base = float(box.center_in_world[2] - box.extent_m[2] / 2)
    support = surfaces.below(footprint_points(box), base, config.support_gap_m)
    if support is None:
        return box, None
    height = support[1]
    top = float(box.center_in_world[2] + box.extent_m[2] / 2)
    if top - height > 2.5 * config.rest_tolerance_m:
        above = points[points[:, 2] > height + 0.8 * config.rest_tolerance_m]
        if len(above) >= 20:
            yaw = best_yaw(above[:, :2], config.box_quantile)
            lean = box_with_yaw(above, yaw, config.box_quantile)
            if lean.extent_m[0] * lean.extent_m[1] < 0.9 * box.extent_m[0] * box.extent_m[1]:
                box = lean
    top = max(top, height + config.min_extent_m)
    center = np.array([box.center_in_world[0], box.center_in_world[1], 0.5 * (top + height)])
    extent = np.array([box.extent_m[0], box.extent_m[1], top - height])
    return Box3(center, extent, box.world_from_box_rotation), support


def _complete_unseen(
    box: Box3,
    seen_low: Bool[np.ndarray, "3"],
    seen_high: Bool[np.ndarray, "3"],
    cameras_in_world: Float64[np.ndarray, "V 3"],
    supported: bool,
    noise_m: float,
    has_up: bool,
    is_round: bool,
) -> tuple[Box3, Float64[np.ndarray, "3"], bool]:
    """Grow sides whose length no view shows a quarter of the way to a square footprint, and say how unsure.

    A length is shown by any side along it that is seen clearly (a top seen from above shows the whole footprint);
    then nothing is grown. A view from one side alone shows half of a round thing, but all of a board: hence a
    quarter, with a sigma as large.
    """
    sigma = np.full(3, np.sqrt(2) * noise_m)
    center, extent = box.center_in_world.copy(), box.extent_m.copy()
    clear = np.logical_or(*seen_sides(box, cameras_in_world, _CLEAR_COSINE))
    grown = False
    axes = (0, 1) if has_up else (0, 1, 2)
    for axis in () if is_round else axes:
        shown = any(clear[k] for k in range(3) if k != axis)
        missing = max(extent[k] for k in axes if k != axis) - extent[axis]
        if seen_low[axis] and seen_high[axis]:
            continue
        if shown:
            if extent[2] > extent[axis] < missing:  # flat towards the viewer: a board, or a jar seen coarsely
                sigma[axis] = np.hypot(sigma[axis], _UNSEEN_SIGMA_SHARE * missing)
            continue
        sigma[axis] = np.hypot(sigma[axis], _UNSEEN_SIGMA_SHARE * extent[axis])
        if missing <= 2 * noise_m:
            continue
        growth = _UNSEEN_SHARE * missing
        away = -1.0 if seen_high[axis] else (1.0 if seen_low[axis] else 0.0)
        center = center + away * growth / 2 * box.world_from_box_rotation[:, axis]
        extent[axis] += growth
        sigma[axis] = np.hypot(sigma[axis], _UNSEEN_SIGMA_SHARE * missing)
        grown = True
    if has_up and not supported and not seen_low[2]:
        sigma[2] = np.hypot(sigma[2], 0.1 * extent[2])
    return Box3(center, extent, box.world_from_box_rotation), sigma, grown
