"""Who is who: labels to objects before tracking, and duplicates after it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tracking import masks
from tracking.records import MaskState, MaskTrack, NarrationSet, Outcome, Verdict
from tracking.repair import PointGroup

DUPLICATE_IOU = 0.8
DUPLICATE_FRAMES = 3


@dataclass(frozen=True)
class ObjectPlan:
    """One object to track: its id, its label, and where narrations put it, in rising frame order."""

    object_id: int
    label: str
    groups: tuple[PointGroup, ...]


def plan_objects(narrations: NarrationSet) -> tuple[tuple[ObjectPlan, ...], tuple[str, ...]]:
    """One plan per label (case and blanks do not count), ids from 1 in order of first mention; and warnings.

    Whether several narrations mean one object by the same label is decided while tracking, by geometry.
    """
    found: dict[str, tuple[str, dict[tuple[int, int], PointGroup]]] = {}
    for order, narration in enumerate(narrations.narrations):
        for grounding in narration.groundings:
            key = " ".join(grounding.label.lower().split())
            label, groups = found.setdefault(key, (grounding.label, {}))
            old = groups.get((grounding.frame, order))
            points = (grounding,) if old is None else (*old.points, grounding)
            groups[grounding.frame, order] = PointGroup(narration.narration_id, grounding.frame, points)
    plans: list[ObjectPlan] = []
    warnings: list[str] = []
    for label, groups in found.values():
        ordered = tuple(groups[key] for key in sorted(groups))
        if any(group.can_seed for group in ordered):
            plans.append(ObjectPlan(len(plans) + 1, label, ordered))
        else:
            warnings.append(f"object {label!r} has negative points only, so it cannot be tracked")
    return tuple(plans), tuple(warnings)


def second_plan(plan: ObjectPlan, object_id: int, groups: Sequence[PointGroup], number: int) -> ObjectPlan:
    """The plan of another object with the same label."""
    return ObjectPlan(object_id, f"{plan.label} ({number})", tuple(groups))


def base_label(label: str) -> str:
    """A label without its number: "cup (2)" is a cup."""
    stem, _, tail = label.rpartition(" (")
    return stem if stem and tail.endswith(")") and tail[:-1].isdigit() else label


def resolve_duplicates(
    tracks: Sequence[MaskTrack],
) -> tuple[tuple[MaskTrack, ...], tuple[Verdict, ...], tuple[str, ...]]:
    """Tracks that lie on each other (overlap >= 0.8 on three frames): merged if they share a label, else reported."""
    kept = list(tracks)
    verdicts: list[Verdict] = []
    warnings: list[str] = []
    for second in sorted(tracks, key=lambda track: track.object_id):
        for first in list(kept):
            if first.object_id >= second.object_id or second.object_id not in {t.object_id for t in kept}:
                continue
            frames = _overlapping(first, second)
            if len(frames) < DUPLICATE_FRAMES:
                continue
            same = base_label(first.label) == base_label(second.label)
            action = f"merged into object {first.object_id}" if same else "reported"
            where = f"object {first.object_id} ({first.label!r}) on {len(frames)} frames"
            reason = f"overlaps {where}: the same thing tracked twice"
            evidence = {"overlapping_frames": float(len(frames)), "other_object_id": float(first.object_id)}
            verdicts.append(
                Verdict(
                    second.object_id,
                    frames[0],
                    Outcome.DRIFTED if same else Outcome.UNDECIDED,
                    "identity",
                    reason,
                    evidence,
                    action,
                )
            )
            if same:
                kept[kept.index(first)] = _merged(first, second)
                kept = [track for track in kept if track.object_id != second.object_id]
            else:
                warnings.append(f"object {second.label!r} overlaps {where}; one of the two is mistaken")
    return tuple(kept), tuple(verdicts), tuple(warnings)


def _overlapping(a: MaskTrack, b: MaskTrack) -> list[int]:
    both = (a.states == MaskState.VISIBLE) & (b.states == MaskState.VISIBLE)
    out = []
    for frame in np.flatnonzero(both):
        first, second = a.masks[frame], b.masks[frame]
        if first is None or second is None:
            continue
        small, large = sorted((masks.area(first), masks.area(second)))
        if small >= DUPLICATE_IOU * large and masks.iou(first, second) >= DUPLICATE_IOU:
            out.append(int(frame))
    return out


def _merged(first: MaskTrack, second: MaskTrack) -> MaskTrack:
    """The first track, with the second's masks where the first has none."""
    fill = (first.states != MaskState.VISIBLE) & (second.states == MaskState.VISIBLE)
    merged = [second.masks[i] if fill[i] else first.masks[i] for i in range(len(first.masks))]
    return replace(
        first,
        masks=tuple(merged),
        states=np.where(fill, second.states, first.states),
        scores=np.where(fill, second.scores, first.scores),
    )
