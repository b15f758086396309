"""Group C: states; supports, containers, contacts and alignment follow."""

from spatial_qa.motion import rest_at
from spatial_qa.options import Natural
from spatial_qa.templates.base import Candidate, Candidates, Stage, template
from spatial_qa.templates.words import HISTORIES


@template("C10", "what became of an object", track="PD", needs_scale=True, speaks_of_motion=True)
def history(stage: Stage) -> Candidates:
    """What became of X between two moments."""
    moments = stage.moments()
    for object_id in stage.labels:
        for i, from_ns in enumerate(moments):
            for to_ns in moments[i + 3 :: 2]:
                window = stage.span(from_ns, to_ns)
                if window is None or not _seen_at_both_ends(stage, object_id, from_ns, to_ns):
                    continue
                text = (
                    f"Compare {stage.say(from_ns)} (before) and {stage.say(to_ns)} (now): what became of "
                    f"{stage.name(object_id)}?"
                )
                operands = {"object": object_id, "from_ns": from_ns, "to_ns": to_ns}
                yield Candidate("state_change", operands, text, (object_id,), window, Natural(HISTORIES))


def _seen_at_both_ends(stage: Stage, object_id: int, from_ns: int, to_ns: int) -> bool:
    for time in (from_ns, to_ns):
        lies = rest_at(stage.view, object_id, time) is not None
        if lies and stage.sight_of(object_id, time) is None:
            return False
        if not lies and not stage.visible_at(object_id, time):
            return False
    return True
