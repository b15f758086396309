"""Group T: where things went."""

from spatial_qa.angles import level_length
from spatial_qa.motion import decided_relocations, known_throughout, middle_ns, rests
from spatial_qa.options import COUNTS, Ladder, Natural, Objects
from spatial_qa.templates.base import NS, Candidate, Candidates, Stage, subsets, template
from spatial_qa.templates.words import TOWARD

MIN_REST_NS = NS
MIN_SHIFT_M = 0.15


def rest_pairs(stage: Stage, object_id: int) -> list[tuple[int, int]]:
    """Moments in two different rests of at least a second, both seen, guarded by half a second."""
    found = []
    long = [rest for rest in rests(stage.view, object_id) if rest.end_ns - rest.start_ns >= MIN_REST_NS]
    for i, first in enumerate(long):
        for second in long[i + 1 :]:
            times = (_near_end(stage, first.start_ns, first.end_ns), _near_start(stage, second.start_ns, second.end_ns))
            if all(stage.sight_of(object_id, time) is not None for time in times):
                found.append(times)
    return found


def _near_end(stage: Stage, start_ns: int, end_ns: int) -> int:
    return _on_frame(stage, max((start_ns + end_ns) // 2, end_ns - NS))


def _near_start(stage: Stage, start_ns: int, end_ns: int) -> int:
    return _on_frame(stage, min((start_ns + end_ns) // 2, start_ns + NS))


def _on_frame(stage: Stage, time_ns: int) -> int:
    return int(stage.view.scene.timestamps_ns[stage.view.frame(time_ns)])


@template("T1", "net displacement", needs_scale=True, speaks_of_motion=True)
def displacement(stage: Stage) -> Candidates:
    """How far from its old place did X end."""
    for object_id in stage.moved:
        if object_id not in stage.labels:
            continue
        for from_ns, to_ns in rest_pairs(stage, object_id):
            window = stage.window([object_id], from_ns, to_ns)
            if window is None:
                continue
            text = (
                f"How far from its place at {stage.say(from_ns)} is {stage.name(object_id)} at {stage.say(to_ns)}, "
                "in a straight line from centre to centre?"
            )
            operands = {"object": object_id, "from_ns": from_ns, "to_ns": to_ns}
            yield Candidate("net_displacement", operands, text, (object_id,), window, Ladder("m", 1.15))


@template("T2", "direction of displacement", needs_up=True, speaks_of_motion=True)
def displacement_direction(stage: Stage) -> Candidates:
    """In which direction, in the wearer's frame at the start, did X go."""
    for object_id in stage.moved:
        if object_id not in stage.labels:
            continue
        for from_ns, to_ns in rest_pairs(stage, object_id):
            window = stage.window([object_id], from_ns, to_ns)
            places = [stage.view.body(object_id, time_ns).center.value for time_ns in (from_ns, to_ns)]
            away = float(level_length(places[1] - places[0], stage.view.up.value))
            if window is None or away < MIN_SHIFT_M * stage.view.unit_m or not stage.heads_at(from_ns):
                continue
            text = (
                f"Compare the places of {stage.name(object_id)} at {stage.say(from_ns)} and at {stage.say(to_ns)}. In "
                f"which horizontal direction was it moved, relative to the way the wearer's camera faces at "
                f"{stage.say(from_ns)}?"
            )
            operands = {"object": object_id, "from_ns": from_ns, "to_ns": to_ns}
            yield Candidate("displacement_direction", operands, text, (object_id,), window, Natural(TOWARD))


@template("T4", "number of relocations", needs_scale=True, speaks_of_motion=True)
def relocation_count(stage: Stage) -> Candidates:
    """How often was X put to rest at another place."""
    stamps = stage.view.scene.timestamps_ns
    spans = [(int(stamps[0]), int(stamps[-1]))]
    span = spans[0][1] - spans[0][0]
    spans += [(spans[0][0], spans[0][0] + span * 2 // 3), (spans[0][0] + span // 3, spans[0][1])]
    for object_id in stage.labels:
        for from_ns, to_ns in spans:
            first, last = (_on_frame(stage, time) for time in (from_ns, to_ns))
            if not known_throughout(stage.view, object_id, first, last) or not len(stage.seen_ns(object_id)):
                continue
            if any(stage.sight_of(object_id, time) is None for time in (first, last)):
                continue
            window = stage.span(first, last, limit=False)
            if window is None:
                continue
            text = (
                f"Between {stage.say(first)} and {stage.say(last)}, how many times does {stage.name(object_id)} come "
                "to rest at a new place, at least 10 cm from where it lay before?"
            )
            operands = {"object": object_id, "from_ns": first, "to_ns": last}
            yield Candidate("relocation_count", operands, text, (object_id,), window, COUNTS)


@template("T6", "which moved farthest", needs_scale=True, speaks_of_motion=True)
def farthest(stage: Stage) -> Candidates:
    """Which of eight objects ended farthest from its own old place."""
    moments = stage.moments()
    for i, from_ns in enumerate(moments[:-1]):
        for to_ns in moments[i + 2 :: 3]:
            still = [j for j in stage.still_at(from_ns) if stage.sight_of(j, to_ns) is not None]
            if sum(bool(decided_relocations(stage.view, j, from_ns, to_ns)) for j in still) < 2:
                continue
            for eight in subsets(still, 8, [from_ns, to_ns], 2) if len(still) >= 8 else []:
                window = stage.window(eight, from_ns, to_ns)
                if window is None:
                    continue
                text = (
                    f"Which of these objects is, at {stage.say(to_ns)}, farthest from its own place at "
                    f"{stage.say(from_ns)}?"
                )
                operands = {"candidates": list(eight), "labels": stage.label_list(eight)}
                times = {"from_ns": from_ns, "to_ns": to_ns}
                yield Candidate("moved_farthest", {**operands, **times}, text, (), window, Objects())


def rest_middles(stage: Stage, object_id: int) -> list[int]:
    """Middle moments of an object's rests."""
    return [_on_frame(stage, middle_ns(rest)) for rest in rests(stage.view, object_id)]
