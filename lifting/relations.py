"""Who stands on, is inside of, or touches what, and from when to when."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from geo.boxes import Box3, corners, points_in_box, surface_distance
from lifting.config import LiftConfig
from lifting.records import MotionState, ObjectTrajectory, Relation, RelationKind
from lifting.surfaces import FOOTPRINT_GRID, Surfaces, footprint_points
from lifting.trajectory import Clock

_GRID = np.linspace(-0.4, 0.4, 5)  # interior sample points of a box, in units of its sides
_CELLS = np.stack(np.meshgrid(_GRID, _GRID, _GRID, indexing="ij"), axis=-1).reshape(-1, 3)
_BRIDGE_S = 0.3


@dataclass(frozen=True)
class _Frames:
    """A trajectory with its boxes made once per distinct pose."""

    trajectory: ObjectTrajectory
    boxes: list[Box3 | None]
    keys: list[int]  # equal for equal poses
    rest: Bool[np.ndarray, "N"]


def find_relations(
    trajectories: list[ObjectTrajectory],
    rotations: list[Float64[np.ndarray, "N 3 3"]],
    surfaces: Surfaces | None,
    clock: Clock,
    has_up: bool,
    config: LiftConfig,
) -> list[Relation]:
    """All relations. Support and containment need up; contact does not.

    Containment: at least ``containment_enter`` of the subject's box (sampled) inside the interior of a larger box
    (walls taken off, open at the top), until less than ``containment_leave`` is. Support: at rest, the base within
    ``support_gap_m`` of a surface or of another object's top, with enough overlap of the footprints; what is
    contained is supported by its container. Contact: distance of the boxes below ``contact_m`` plus one sigma.
    """
    items = [_frames(t, r) for t, r in zip(trajectories, rotations, strict=True)]
    found: list[Relation] = []
    for subject in items:
        for other in items:
            if subject is other:
                continue
            if has_up and _may_contain(subject, other):
                found += _containments(subject, other, clock, config)
            if subject.trajectory.object_id < other.trajectory.object_id:
                found += _contacts(subject, other, clock, config)
    if has_up:
        for subject in items:
            inside = [r for r in found if r.kind is RelationKind.CONTAINMENT]
            found += _supports(subject, items, inside, surfaces, clock, config)
    return sorted(found, key=_order)


def _order(relation: Relation) -> tuple[int, str, int, int]:
    other = -1 if relation.other_object_id is None else relation.other_object_id
    return relation.start_ns, relation.kind.value, relation.subject_object_id, other


def _frames(trajectory: ObjectTrajectory, rotations: Float64[np.ndarray, "N 3 3"]) -> _Frames:
    boxes: list[Box3 | None] = []
    keys: list[int] = []
    known = np.isfinite(trajectory.centers_in_world).all(axis=1) & np.isfinite(trajectory.extent_m).all()
    for k in range(len(known)):
        same = (
            k > 0
            and known[k]
            and known[k - 1]
            and bool((trajectory.centers_in_world[k] == trajectory.centers_in_world[k - 1]).all())
            and bool((rotations[k] == rotations[k - 1]).all())
        )
        if same:
            boxes.append(boxes[-1])
            keys.append(keys[-1])
        else:
            boxes.append(Box3(trajectory.centers_in_world[k], trajectory.extent_m, rotations[k]) if known[k] else None)
            keys.append(k)
    return _Frames(trajectory, boxes, keys, trajectory.states == MotionState.REST)


def _per_frame(a: _Frames, b: _Frames, measure: Callable[[Box3, Box3], float]) -> Float64[np.ndarray, "N"]:
    """A measure of two boxes in every frame, computed once per pair of poses; NaN where one is unknown."""
    cache: dict[tuple[int, int], float] = {}
    out = np.full(len(a.boxes), np.nan)
    for k, (box_a, box_b) in enumerate(zip(a.boxes, b.boxes, strict=True)):
        if box_a is None or box_b is None:
            continue
        key = (a.keys[k], b.keys[k])
        if key not in cache:
            cache[key] = measure(box_a, box_b)
        out[k] = cache[key]
    return out


def runs(
    values: Float64[np.ndarray, "N"], enter: float, leave: float, times_s: Float64[np.ndarray, "N"], min_s: float
) -> list[tuple[int, int]]:
    """Runs (first, last frame) that begin at ``>= enter`` and last while ``>= leave``; short breaks are bridged.

    NaN (unknown) ends a run unless it is shorter than 0.3 s. Runs shorter than ``min_s`` are left out.
    """
    spans: list[list[int]] = []
    on = False
    for k, value in enumerate(values):
        if np.isfinite(value) and value >= (leave if on else enter):
            if on:
                spans[-1][1] = k
            else:
                spans.append([k, k])
                on = True
        elif on and (np.isfinite(value) or times_s[k] - times_s[spans[-1][1]] > _BRIDGE_S):
            on = False
    merged: list[list[int]] = []
    for span in spans:
        if merged and times_s[span[0]] - times_s[merged[-1][1]] <= _BRIDGE_S:
            merged[-1][1] = span[1]
        else:
            merged.append(span)
    return [(a, b) for a, b in merged if times_s[b] - times_s[a] >= min_s]


def _may_contain(subject: _Frames, other: _Frames) -> bool:
    """A container is larger: its footprint area and volume exceed the subject's, and it has an inside."""
    a, b = subject.trajectory.extent_m, other.trajectory.extent_m
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return False
    return bool(np.prod(b[:2]) > 1.2 * np.prod(a[:2]) and np.prod(b) > 1.5 * np.prod(a) and b[2] > 0.03 * b[0])


def share_inside(subject: Box3, container: Box3, wall_m: float) -> float:
    """Share of the subject's volume inside the container's interior; open at the top, walls and floor taken off.

    The open top counts the air above up to a third of the container's height, so that what sticks out of a bowl
    is still in it.
    """
    points = subject.center_in_world + (_CELLS * subject.extent_m) @ subject.world_from_box_rotation.T
    local = points_in_box(container, points)
    half = np.asarray(container.extent_m) / 2
    inner = np.maximum(half - wall_m, 0.5 * half)
    across = (np.abs(local[:, :2]) <= inner[:2]).all(axis=1)
    upright = (local[:, 2] >= -inner[2]) & (local[:, 2] <= half[2] * (1 + 2 / 3))
    below_rim = local[:, 2].min() < half[2] - 0.25 * min(subject.extent_m[2], container.extent_m[2])
    return float((across & upright).mean()) if below_rim else 0.0


def _containments(subject: _Frames, other: _Frames, clock: Clock, config: LiftConfig) -> list[Relation]:
    shares = _per_frame(subject, other, lambda a, b: share_inside(a, b, config.wall_m))
    out = []
    for first, last in runs(
        shares, config.containment_enter, config.containment_leave, clock.times_s, config.containment_min_s
    ):
        confidence = float(np.clip(np.nanmedian(shares[first : last + 1]), 0.0, 0.999))
        out.append(_relation(RelationKind.CONTAINMENT, subject, other, first, last, confidence, clock))
    return out


def _contacts(a: _Frames, b: _Frames, clock: Clock, config: LiftConfig) -> list[Relation]:
    sigma = _sigma(a) + _sigma(b)
    limit = config.contact_m + sigma

    def closeness(box_a: Box3, box_b: Box3) -> float:
        reach = (np.linalg.norm(box_a.extent_m) + np.linalg.norm(box_b.extent_m)) / 2
        if float(np.linalg.norm(box_a.center_in_world - box_b.center_in_world)) > reach + 2 * limit:
            return -10.0 * limit
        return -surface_distance(box_a, box_b)

    values = _per_frame(a, b, closeness)
    out = []
    for first, last in runs(values, -limit, -1.5 * limit, clock.times_s, 0.3):
        middle = -float(np.nanmedian(values[first : last + 1]))
        confidence = float(np.clip(1.0 - 0.5 * middle / limit, 0.05, 0.99))
        out.append(_relation(RelationKind.CONTACT, a, b, first, last, confidence, clock))
    return out


def _sigma(item: _Frames) -> float:
    """Typical one-sigma of a centre along one axis."""
    variances = np.trace(item.trajectory.center_covariances_m2, axis1=1, axis2=2) / 3
    finite = variances[np.isfinite(variances)]
    return float(np.sqrt(np.median(finite))) if len(finite) else 0.0


def _supports(
    subject: _Frames,
    items: list[_Frames],
    inside: list[Relation],
    surfaces: Surfaces | None,
    clock: Clock,
    config: LiftConfig,
) -> list[Relation]:
    """One support per stretch of rest: the container, else the nearest of objects and surfaces below."""
    out = []
    rest = np.where(subject.rest, 1.0, 0.0)
    for first, last in runs(rest, 0.5, 0.5, clock.times_s, 0.0):
        middle = (first + last) // 2
        box = subject.boxes[middle]
        if box is None:
            continue
        time = int(clock.timestamps_ns[middle])
        held_in = [
            r for r in inside if r.subject_object_id == subject.trajectory.object_id and r.start_ns <= time <= r.end_ns
        ]
        if held_in:
            container = next(i for i in items if i.trajectory.object_id == held_in[0].other_object_id)
            out.append(_relation(RelationKind.SUPPORT, subject, container, first, last, held_in[0].confidence, clock))
            continue
        relation = _support_below(subject, box, items, surfaces, first, last, middle, clock, config)
        if relation is not None:
            out.append(relation)
    return out


def _support_below(
    subject: _Frames,
    box: Box3,
    items: list[_Frames],
    surfaces: Surfaces | None,
    first: int,
    last: int,
    middle: int,
    clock: Clock,
    config: LiftConfig,
) -> Relation | None:
    base = float(corners(box)[:, 2].min())
    best: tuple[float, _Frames | None, float] | None = None
    for other in items:
        other_box = other.boxes[middle]
        if other is subject or other_box is None or not other.rest[middle]:
            continue
        gap = base - float(corners(other_box)[:, 2].max())
        close = -config.support_gap_m <= gap <= config.support_gap_m
        if (
            close
            and _footprint_share(box, other_box) >= config.support_overlap
            and (best is None or abs(gap) < best[0])
        ):
            best = (abs(gap), other, gap)
    if surfaces is not None:
        ground = surfaces.below(footprint_points(box), base, config.support_gap_m)
        if ground is not None and (best is None or abs(base - ground[1]) <= best[0]):
            confidence = float(np.clip(1.0 - abs(base - ground[1]) / (2 * config.support_gap_m), 0.05, 0.99))
            relation = _relation(RelationKind.SUPPORT, subject, None, first, last, confidence, clock)
            return Relation(**{**vars(relation), "surface_height_m": float(ground[1])})
    if best is None:
        return None
    confidence = float(np.clip(1.0 - best[0] / (2 * config.support_gap_m), 0.05, 0.99))
    return _relation(RelationKind.SUPPORT, subject, best[1], first, last, confidence, clock)


def _footprint_share(upper: Box3, lower: Box3) -> float:
    """Share of the upper box's footprint over the lower one's."""
    points = np.concatenate(
        [footprint_points(upper), np.full((len(FOOTPRINT_GRID), 1), lower.center_in_world[2])], axis=1
    )
    local = np.abs(points_in_box(lower, points))
    return float((local[:, :2] <= np.asarray(lower.extent_m)[:2] / 2).all(axis=1).mean())


def _relation(
    kind: RelationKind, subject: _Frames, other: _Frames | None, first: int, last: int, confidence: float, clock: Clock
) -> Relation:
    return Relation(
        kind=kind,
        subject_object_id=subject.trajectory.object_id,
        other_object_id=None if other is None else other.trajectory.object_id,
        start_ns=int(clock.timestamps_ns[first]),
        end_ns=int(clock.timestamps_ns[last]),
        confidence=confidence,
    )
