"""What became of an object between two moments."""

from dataclasses import replace

from lifting.records import MotionState, RelationKind
from spatial_qa.decide import Measurement
from spatial_qa.motion import (
    DWELL_NS,
    MOVE_RADIUS_M,
    decided_relocations,
    displacement,
    relocation_margin,
    relocations,
    rest_at,
    runs,
    undecided,
)
from spatial_qa.operations.registry import Operands, operation
from spatial_qa.view import NotMeasurable, SceneView

UNTOUCHED, MOVED_ONCE, MOVED_OFTEN, RETURNED, PUT_IN, TAKEN_OUT, IN_HAND, LET_GO = range(8)


def container_at(view: SceneView, object_id: int, time_ns: int) -> bool:
    """True if a containment relation of the object holds at a moment.

    Raises:
        NotMeasurable: if the relation is not sure, or begins or ends within half a second.
    """
    for relation in view.scene.lifted.relations:
        if relation.kind is not RelationKind.CONTAINMENT or relation.subject_object_id != object_id:
            continue
        near = relation.start_ns - DWELL_NS <= time_ns <= relation.end_ns + DWELL_NS
        if near and relation.confidence < 0.99:
            raise NotMeasurable("containment_uncertain")
        if relation.start_ns <= time_ns <= relation.end_ns:
            return True
    return False


@operation("state_change", "index")
def state_change(view: SceneView, operands: Operands) -> Measurement:
    """One of eight exclusive histories of ``object`` from ``from_ns`` to ``to_ns``; see the constants above.

    Between two rests, metres decide: the net displacement and every passage in between against the radius of a
    relocation. With the object in hand at one end, seconds decide: how long before and after it is so.
    """
    object_id, window = operands["object"], (operands["from_ns"], operands["to_ns"])
    held = [view.state(object_id, time) is MotionState.HELD for time in window]
    if all(held):
        raise NotMeasurable("held_at_both_ends")
    found = _in_hand(view, object_id, window, held) if any(held) else _lying(view, object_id, window)
    unclear = undecided(view, object_id, *window) or any(
        not h and rest_at(view, object_id, time, DWELL_NS) is None for h, time in zip(held, window, strict=True)
    )
    return replace(found, margin=0.0) if unclear else found


def _in_hand(view: SceneView, object_id: int, window: tuple[int, int], held: list[bool]) -> Measurement:
    time_ns = window[held.index(True)]
    stretch = next(r for r in runs(view, object_id, (MotionState.HELD,)) if r[0] <= time_ns <= r[1])
    spare_s = min(time_ns - stretch[0], stretch[1] - time_ns) / 1e9
    sigma = view.floors.event_time_s
    return Measurement(spare_s, LET_GO if held[0] else IN_HAND, sigma, spare_s, view.floors.sigmas * sigma)


def _lying(view: SceneView, object_id: int, window: tuple[int, int]) -> Measurement:
    value, sigma = displacement(view, object_id, *window)
    threshold = MOVE_RADIUS_M * view.unit_m * 5 / 6
    net = Measurement(
        value,
        _rest_to_rest(view, object_id, window, value > threshold),
        sigma,
        abs(value - threshold),
        max(threshold / 5, view.floors.sigmas * sigma),
    )
    verdicts = [net]
    for move in relocations(view, object_id, *window):
        _, margin, required = relocation_margin(view, move)
        verdicts.append(replace(net, sigma=move.sigma_m, margin=margin, required_margin=required))
    return min(verdicts, key=lambda verdict: verdict.margin - verdict.required_margin)


def _rest_to_rest(view: SceneView, object_id: int, window: tuple[int, int], elsewhere: bool) -> int:
    inside = [container_at(view, object_id, time) for time in window]
    moves = decided_relocations(view, object_id, *window)
    if inside == [False, True]:
        return PUT_IN
    if inside == [True, False]:
        return TAKEN_OUT
    if not moves:
        return UNTOUCHED
    if not elsewhere:
        return RETURNED
    return MOVED_ONCE if len(moves) == 1 else MOVED_OFTEN
