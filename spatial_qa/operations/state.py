"""What became of an object between two moments."""

from lifting.records import MotionState, RelationKind
from spatial_qa.decide import Measurement
from spatial_qa.motion import DWELL_NS, MOVE_RADIUS_M, decided_relocations, displacement, rest_at, undecided
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

    The margin is that of the net displacement against the radius of a relocation where it decides.
    """
    object_id, window = operands["object"], (operands["from_ns"], operands["to_ns"])
    first, last = (view.state(object_id, time) for time in window)
    value, sigma = displacement(view, object_id, *window)
    threshold = MOVE_RADIUS_M * view.unit_m * 5 / 6
    margin, required = abs(value - threshold), max(threshold / 5, view.floors.sigmas * sigma)
    held = (first is MotionState.HELD, last is MotionState.HELD)
    guarded = [rest_at(view, object_id, time, DWELL_NS) is not None for time in window]
    if undecided(view, object_id, *window) or not all(h or g for h, g in zip(held, guarded, strict=True)):
        margin = 0.0
    if held == (False, True):
        answer, margin = IN_HAND, min(margin, required) and required
    elif held == (True, False):
        answer, margin = LET_GO, min(margin, required) and required
    elif all(held):
        raise NotMeasurable("held_at_both_ends")
    else:
        answer = _rest_to_rest(view, object_id, window, value > threshold)
    return Measurement(value, answer, sigma, margin, required)


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
