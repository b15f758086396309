"""Group O: when, and in which order."""

import itertools

from spatial_qa.hashing import pick, shuffled
from spatial_qa.motion import decided_relocations, known_throughout, rest_at
from spatial_qa.operations.order import merged_events
from spatial_qa.options import Cells, Natural, Orders, ring_of_cells
from spatial_qa.templates.base import NS, Candidate, Candidates, Stage, subsets, template
from spatial_qa.templates.words import EVENT_RING, EVENTS


@template("O1", "order of first moves", track="PD", speaks_of_motion=True)
def first_moved(stage: Stage) -> Candidates:
    """In which order were four objects first taken from their places."""
    stamps = stage.view.scene.timestamps_ns
    from_ns, to_ns = int(stamps[0]), int(stamps[-1])
    moved = [i for i in stage.moved if i in stage.labels]
    for four in subsets(moved, 4, "first moved", 20):
        known = _known_from(stage, four, from_ns, to_ns)
        window = stage.span(known, to_ns, limit=False)
        if window is None:
            continue
        text = (
            f"Between {stage.say(known)} and {stage.say(to_ns)}, in which order are {stage.names(four)} first moved "
            "from their places?"
        )
        operands = {"candidates": list(four), "labels": stage.label_list(four), "from_ns": known, "to_ns": to_ns}
        yield Candidate("order_first_moved", operands, text, four, window, Orders())


def _known_from(stage: Stage, ids: tuple[int, ...], from_ns: int, to_ns: int) -> int:
    """The first moment from which all of some objects' states are known to the end."""
    stamps = stage.view.scene.timestamps_ns
    for time in stamps[(stamps >= from_ns) & (stamps <= to_ns)]:
        if all(known_throughout(stage.view, i, int(time), to_ns) for i in ids):
            return int(time)
    return to_ns


@template("O2", "order of first sight", track="PD")
def first_seen(stage: Stage) -> Candidates:
    """In which order did four objects come into view."""
    stamps = stage.view.scene.timestamps_ns
    from_ns, to_ns = int(stamps[0]), int(stamps[-1])
    ids = [i for i in stage.labels if len(stage.seen_ns(i))]
    for four in subsets(ids, 4, "first seen", 60):
        last = max(int(stage.seen_ns(i)[0]) for i in four)
        window = stage.span(from_ns, min(last + NS, to_ns), limit=False)
        if window is None:
            continue
        text = f"From the start of the recording on, in which order do {stage.names(four)} first come into view?"
        operands = {"candidates": list(four), "labels": stage.label_list(four), "from_ns": from_ns, "to_ns": to_ns}
        yield Candidate("order_first_seen", operands, text, four, window, Orders())


@template("O3", "what happened in between", track="PD", speaks_of_motion=True)
def between(stage: Stage) -> Candidates:
    """Which event happened between two moments: an act and an object, two attributes."""
    stamps = stage.view.scene.timestamps_ns
    whole = (int(stamps[0]), int(stamps[-1]))
    log = merged_events(stage.view, *whole)
    times = [whole[0], *[event.time_ns for event in log], whole[1]]
    for before, event, after in zip(times[:-2], log, times[2:], strict=True):
        if event.object_id not in stage.labels:
            continue
        from_ns = _frame_time(stage, max((before + event.time_ns) // 2, event.time_ns - 2 * NS))
        to_ns = _frame_time(stage, min((event.time_ns + after) // 2, event.time_ns + 2 * NS))
        others = [i for i in stage.labels if i != event.object_id and _rests_through(stage, i, from_ns, to_ns)]
        window = stage.span(from_ns, to_ns)
        if window is None or len(others) < 3:
            continue
        prefer = [i for i in others if any(e.object_id == i for e in log)]
        drawn = shuffled(prefer, "others", event.time_ns) + shuffled(
            [i for i in others if i not in prefer], event.time_ns
        )
        yield _between(stage, event.kind.value, event.object_id, drawn[:3], (from_ns, to_ns), window)


def _rests_through(stage: Stage, object_id: int, from_ns: int, to_ns: int) -> bool:
    """True if an object is known to lie still all the time: it takes no part in what happens."""
    rest = rest_at(stage.view, object_id, from_ns)
    return rest is not None and rest.end_ns >= to_ns


def _frame_time(stage: Stage, time_ns: int) -> int:
    return int(stage.view.scene.timestamps_ns[stage.view.frame(time_ns)])


def _between(
    stage: Stage,
    kind: str,
    object_id: int,
    others: list[int],
    interval: tuple[int, int],
    window: tuple[tuple[int, int], ...],
) -> Candidate:
    # The ring is turned so that the true act may stand at any of its places; the object goes where it then belongs.
    turn = pick(4, "turn", object_id, interval[0])
    kinds = [EVENT_RING[(i + turn) % 4] for i in range(4)]
    column = (kinds.index(kind) + pick(2, "step", object_id, interval[0])) % 4
    ids = [*others[:column], object_id, *others[column:]]
    operands = {
        "candidates": ids,
        "labels": stage.label_list(ids),
        "cells": ring_of_cells(kinds, 4),
        "from_ns": interval[0],
        "to_ns": interval[1],
    }
    text = f"Which of these events happens between {stage.say(interval[0])} and {stage.say(interval[1])}?"
    maker = Cells(EVENTS)
    return Candidate("event_between", operands, text, (object_id,), window, maker)


@template("O4", "when was it moved", track="PD", speaks_of_motion=True)
def when(stage: Stage) -> Candidates:
    """In which of eight equal intervals was X taken from its place; windows shift so that no interval is preferred."""
    stamps = stage.view.scene.timestamps_ns
    for object_id in stage.moved:
        if object_id not in stage.labels:
            continue
        for seconds in (8, 12, 16):
            for start in range(0, int((stamps[-1] - stamps[0]) / NS) - seconds + 1):
                from_ns = int(stamps[0]) + start * NS
                to_ns = from_ns + seconds * NS
                if not known_throughout(stage.view, object_id, from_ns, to_ns):
                    continue
                if len(decided_relocations(stage.view, object_id, from_ns, to_ns)) != 1:
                    continue
                yield _when(stage, object_id, from_ns, to_ns, seconds / 8)


def _when(stage: Stage, object_id: int, from_ns: int, to_ns: int, step_s: float) -> Candidate:
    begin = stage.view.seconds(from_ns)
    edges = [begin + i * step_s for i in range(9)]
    texts = [f"from {low:.1f} s to {high:.1f} s" for low, high in itertools.pairwise(edges)]
    text = (
        f"Between {stage.say(from_ns)} and {stage.say(to_ns)} {stage.name(object_id)} is moved once. When is it taken "
        "from its place?"
    )
    operands = {"object": object_id, "from_ns": from_ns, "to_ns": to_ns, "edges_s": edges}
    window = ((from_ns, to_ns),)
    return Candidate("event_time", operands, text, (object_id,), window, Natural(tuple(texts)))
