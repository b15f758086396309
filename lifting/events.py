"""Pick up, put down, put into, take out: from legs of motion and from containment."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from lifting.config import LiftConfig
from lifting.records import Event, EventKind, Relation, RelationKind
from lifting.trajectory import Assembled, Clock, Leg

_NS = 1e9


Joints = Callable[[int], Float[np.ndarray, "J 3"]]


def motion_events(item: Assembled, clock: Clock, config: LiftConfig, joints: Joints | None = None) -> list[Event]:
    """Lift-off and touch-down of every leg whose time is known well enough.

    ``joints`` gives the finite hand joints (world, metres) of a frame. Where the object itself was not seen for a
    while, the hand that comes to its place, or leaves it, tells the moment.
    """
    events: list[Event] = []
    for leg in item.legs:
        if leg.before is not None:
            start = item.places[leg.before].fit.segment.last_frame
            end = _first_away(leg, item, start)
            start, end = _by_hand(EventKind.PICK_UP, item, leg.before, start, end, clock, joints, config)
            events += _event(EventKind.PICK_UP, item, leg, leg.before, start, end, clock, config)
        if leg.after is not None:
            end = item.places[leg.after].fit.segment.first_frame
            start = _last_away(leg, item, end)
            start, end = _by_hand(EventKind.PUT_DOWN, item, leg.after, start, end, clock, joints, config)
            events += _event(EventKind.PUT_DOWN, item, leg, leg.after, start, end, clock, config)
    return events


def _by_hand(
    kind: EventKind,
    item: Assembled,
    place: int,
    start: int,
    end: int,
    clock: Clock,
    joints: Joints | None,
    config: LiftConfig,
) -> tuple[int, int]:
    """Narrow a long gap to the frames in which a hand reaches the resting place (or has just left it)."""
    if joints is None or float(clock.times_s[end] - clock.times_s[start]) <= config.event_hand_gap_s:
        return start, end
    center = item.places[place].box.center_in_world
    frames = list(range(start, end + 1))
    found = [joints(frame) for frame in frames]
    away = np.array([np.linalg.norm(j - center, axis=-1).min() if len(j) else np.inf for j in found])
    reach = config.hand_near_m + 0.5 * float(np.max(item.places[place].box.extent_m))
    if not np.isfinite(away).any() or away.min() > reach:
        return start, end
    there = np.flatnonzero(away <= away.min() + config.hand_arrival_m)
    at = int(there[0]) if kind is EventKind.PUT_DOWN else int(there[-1])
    return frames[max(0, at - 1)], frames[min(len(frames) - 1, at + 1)]


def _first_away(leg: Leg, item: Assembled, start: int) -> int:
    if leg.frames:
        return leg.frames[0]
    assert leg.after is not None
    return max(start, item.places[leg.after].fit.segment.first_frame)


def _last_away(leg: Leg, item: Assembled, end: int) -> int:
    if leg.frames:
        return leg.frames[-1]
    assert leg.before is not None
    return min(end, item.places[leg.before].fit.segment.last_frame)


def _event(
    kind: EventKind,
    item: Assembled,
    leg: Leg,
    place: int,
    start_frame: int,
    end_frame: int,
    clock: Clock,
    config: LiftConfig,
) -> list[Event]:
    """One event in the middle of the frames between which it must lie; none if that is too long."""
    gap_s = float(clock.times_s[end_frame] - clock.times_s[start_frame])
    if gap_s > config.event_max_gap_s:
        return []
    start_ns, end_ns = int(clock.timestamps_ns[start_frame]), int(clock.timestamps_ns[end_frame])
    return [
        Event(
            kind=kind,
            object_id=item.trajectory.object_id,
            time_ns=(start_ns + end_ns) // 2,
            time_sigma_ns=int(max((end_ns - start_ns) / np.sqrt(12), 0.05 * _NS)),
            place_in_world=item.places[place].box.center_in_world.copy(),
            confidence=_confidence(leg, gap_s, config),
        )
    ]


def _confidence(leg: Leg, gap_s: float, config: LiftConfig) -> float:
    """Grows with how far and how often the object was seen away, falls with how long the moment was unseen.

    Five sightings 15 cm away give 0.995; a jump between two rests with nothing seen in between at most 0.9.
    """
    reach = 1.0 - np.exp(-((leg.reach_m / (2.0 * config.min_move_m)) ** 2) * 2.0)
    seen = 1.0 - 0.1 * np.exp(-len(leg.frames) / 1.5)
    timely = np.exp(-0.5 * max(0.0, gap_s - 0.4) / config.event_max_gap_s)
    return float(np.clip(reach * seen * timely, 0.0, 0.999))


def containment_events(relations: list[Relation], moves: list[Event]) -> list[Event]:
    """PUT_INTO at the put-down that begins a containment, TAKE_OUT at the pick-up that ends it.

    A containment that was there when the object was first known, or lasts to the end, has no such event.
    """
    events: list[Event] = []
    window_ns = 1_500_000_000
    for relation in relations:
        if relation.kind is not RelationKind.CONTAINMENT:
            continue
        for kind, cause, time_ns in (
            (EventKind.PUT_INTO, EventKind.PUT_DOWN, relation.start_ns),
            (EventKind.TAKE_OUT, EventKind.PICK_UP, relation.end_ns),
        ):
            near = [
                e
                for e in moves
                if e.kind is cause
                and e.object_id == relation.subject_object_id
                and abs(e.time_ns - time_ns) <= window_ns
            ]
            if not near:
                continue
            source = min(near, key=lambda e: abs(e.time_ns - time_ns))
            events.append(
                Event(
                    kind,
                    source.object_id,
                    source.time_ns,
                    source.time_sigma_ns,
                    source.place_in_world,
                    min(source.confidence, relation.confidence),
                    relation.other_object_id,
                )
            )
    return events


def with_supports(events: list[Event], relations: list[Relation]) -> list[Event]:
    """Name the tracked object that a thing is picked up from or put down on."""
    out = []
    for event in events:
        other = event.other_object_id
        if other is None:
            for relation in relations:
                edge = relation.end_ns if event.kind is EventKind.PICK_UP else relation.start_ns
                same = relation.subject_object_id == event.object_id and relation.other_object_id is not None
                if same and relation.kind is not RelationKind.CONTACT and abs(edge - event.time_ns) <= 500_000_000:
                    other = relation.other_object_id
        out.append(
            Event(
                event.kind,
                event.object_id,
                event.time_ns,
                event.time_sigma_ns,
                event.place_in_world,
                event.confidence,
                other,
            )
        )
    return sorted(out, key=lambda e: (e.time_ns, e.object_id, e.kind.value))
