"""What trajectories say about motion: rests, relocations, and whether every event is decided."""

import itertools
from dataclasses import dataclass

import numpy as np

from lifting.records import Event, EventKind, MotionState
from spatial_qa.noise import propagate
from spatial_qa.view import NotMeasurable, SceneView

DWELL_NS = 500_000_000
MOVE_RADIUS_M = 0.10
"""A relocation takes an object further than this; below two thirds of it, nothing was relocated."""
NEAR_EVENT_NS = 200_000_000
MATCH_NS = 1_000_000_000
SURE = 0.99
TAKING = (EventKind.PICK_UP, EventKind.TAKE_OUT)
PUTTING = (EventKind.PUT_DOWN, EventKind.PUT_INTO)


@dataclass(frozen=True)
class Rest:
    """A stretch in which an object lies still."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Relocation:
    """From one rest to the next; ``distance_m`` between them with its sigma."""

    start_ns: int
    end_ns: int
    distance_m: float
    sigma_m: float


def runs(view: SceneView, object_id: int, states: tuple[MotionState, ...]) -> list[tuple[int, int]]:
    """First and last time stamp of every stretch in which an object is in one of the states."""
    track = view.trajectory(object_id)
    inside = np.isin(track.states, [int(state) for state in states])
    edges = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]]).astype(np.int8)))
    stamps = track.timestamps_ns
    return [(int(stamps[a]), int(stamps[b - 1])) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def rests(view: SceneView, object_id: int) -> list[Rest]:
    """Stretches of rest of at least the dwell time."""
    if ("rests", object_id) not in view.cache:
        found = runs(view, object_id, (MotionState.REST,))
        view.cache["rests", object_id] = [Rest(a, b) for a, b in found if b - a >= DWELL_NS]
    kept: list[Rest] = view.cache["rests", object_id]
    return kept


def rest_at(view: SceneView, object_id: int, time_ns: int, guard_ns: int = 0) -> Rest | None:
    """The rest that holds a moment with ``guard_ns`` to spare on both sides (the ends of the track need none)."""
    stamps = view.trajectory(object_id).timestamps_ns
    for rest in rests(view, object_id):
        after_start = time_ns >= rest.start_ns + (guard_ns if rest.start_ns > stamps[0] else 0)
        before_end = time_ns <= rest.end_ns - (guard_ns if rest.end_ns < stamps[-1] else 0)
        if after_start and before_end:
            return rest
    return None


def middle_ns(rest: Rest) -> int:
    """The moment in the middle of a rest."""
    return rest.start_ns + (rest.end_ns - rest.start_ns) // 2


def displacement(view: SceneView, object_id: int, from_ns: int, to_ns: int) -> tuple[float, float]:
    """Distance between an object's places at two moments, and its sigma."""
    first, second = (view.same_object_place(object_id, t) for t in (from_ns, to_ns))

    value, sigma = propagate(lambda a, b: np.linalg.norm(b - a, axis=-1), first, second)
    # At zero distance the gradient vanishes: a length cannot be surer than a coordinate.
    least = np.sqrt(np.trace(first.covariance + second.covariance) / 3)
    return float(value[0]), float(max(sigma[0], least))


def relocations(view: SceneView, object_id: int, from_ns: int, to_ns: int) -> list[Relocation]:
    """Every passage between consecutive rests that lies within a window, moved far or not."""
    found = []
    kept = rests(view, object_id)
    for before, after in itertools.pairwise(kept):
        if before.end_ns < from_ns or after.start_ns > to_ns:
            continue
        distance, sigma = displacement(view, object_id, middle_ns(before), middle_ns(after))
        found.append(Relocation(before.end_ns, after.start_ns, distance, sigma))
    return found


def relocation_margin(view: SceneView, move: Relocation) -> tuple[bool, float, float]:
    """Was it a relocation; margin of that verdict; required margin (all in metres)."""
    radius = MOVE_RADIUS_M * view.unit_m
    threshold = radius * 5 / 6  # the middle of the dead zone from two thirds of the radius to the radius
    required = max(radius / 6, view.floors.sigmas * move.sigma_m)
    return move.distance_m > threshold, abs(move.distance_m - threshold), required


def events_of(view: SceneView, object_id: int, from_ns: int, to_ns: int) -> list[Event]:
    """An object's events within a window, in order of time."""
    found = [e for e in view.scene.lifted.events if e.object_id == object_id and from_ns <= e.time_ns <= to_ns]
    return sorted(found, key=lambda event: (event.time_ns, event.kind.value))


def joint_confidence(events: list[Event]) -> float:
    """Probability that all of them happened as logged, taken as independent."""
    return float(np.prod([event.confidence for event in events])) if events else 1.0


def undecided(view: SceneView, object_id: int, from_ns: int, to_ns: int) -> str:
    """Why an object's events in a window are not decided, or an empty text.

    Decided means: joint probability of its logged events at least 0.99, every stretch of motion explained by a
    pick-up, and every passage between rests clearly a relocation or clearly none.
    """
    if joint_confidence(events_of(view, object_id, from_ns, to_ns)) < SURE:
        return "event_uncertain"
    taken = [e.time_ns for e in view.scene.lifted.events if e.object_id == object_id and e.kind in TAKING]
    for start, end in runs(view, object_id, (MotionState.MOVING, MotionState.HELD)):
        if end < from_ns or start > to_ns or end - start < NEAR_EVENT_NS:
            continue
        if not any(start - MATCH_NS <= time <= end for time in taken):
            return "near_event"
    for move in relocations(view, object_id, from_ns, to_ns):
        _, margin, required = relocation_margin(view, move)
        if margin < required:
            return "near_event"
    return ""


def decided_relocations(view: SceneView, object_id: int, from_ns: int, to_ns: int) -> list[Relocation]:
    """The passages that took an object further than the radius."""
    return [m for m in relocations(view, object_id, from_ns, to_ns) if relocation_margin(view, m)[0]]


def moved_objects(view: SceneView) -> list[int]:
    """Objects with at least one relocation in the recording, clear or not clear."""
    out = []
    for object_id in sorted(view.objects):
        stamps = view.objects[object_id].timestamps_ns
        if len(stamps) and decided_relocations(view, object_id, int(stamps[0]), int(stamps[-1])):
            out.append(object_id)
    return out


def known_throughout(view: SceneView, object_id: int, from_ns: int, to_ns: int) -> bool:
    """True if no sample of a window is UNSEEN."""
    track = view.trajectory(object_id)
    inside = (track.timestamps_ns >= from_ns) & (track.timestamps_ns <= to_ns)
    return bool(inside.any()) and not bool((track.states[inside] == MotionState.UNSEEN).any())


def first_onset(view: SceneView, object_id: int, from_ns: int, to_ns: int) -> int:
    """Moment at which an object's first relocation begins."""
    moves = decided_relocations(view, object_id, from_ns, to_ns)
    if not moves:
        raise NotMeasurable("never_moved")
    return moves[0].start_ns
