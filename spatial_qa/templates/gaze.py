"""Group G: relations to where the wearer looks."""

from spatial_qa.options import Natural
from spatial_qa.templates.base import Candidate, Candidates, Stage, template
from spatial_qa.templates.words import PICTURE


@template("G4", "direction from the gaze", needs_gaze=True)
def from_gaze(stage: Stage) -> Candidates:
    """Where in the picture is X from the point that the wearer looks at."""
    for time_ns in stage.moments():
        for object_id in stage.still_at(time_ns):
            if not stage.visible_at(object_id, time_ns):
                continue
            window = stage.window([object_id], time_ns)
            if window is None:
                continue
            text = (
                f"In the wearer's view at {stage.say(time_ns)}, where is the centre of {stage.name(object_id)} "
                "relative to the point at which the wearer is looking?"
            )
            operands = {"object": object_id, "time_ns": time_ns}
            yield Candidate("direction_from_gaze", operands, text, (object_id,), window, Natural(PICTURE))
