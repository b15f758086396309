"""Group G: relations to where the wearer looks."""

import numpy as np

from spatial_qa.operations.gaze import gaze_point
from spatial_qa.options import Natural
from spatial_qa.templates.base import Candidate, Candidates, Stage, template
from spatial_qa.templates.words import PICTURE
from spatial_qa.view import NotMeasurable

MIN_ASIDE_DEG = 5.0


def aside_deg(stage: Stage, object_id: int, time_ns: int) -> float:
    """How far from the gaze an object's centre appears; 0 where either is unknown."""
    try:
        point = gaze_point(stage.view, time_ns)
    except NotMeasurable:
        return 0.0
    center = stage.view.body(object_id, time_ns).center.value
    pixel = stage.view.pixels_of(center, np.array([stage.view.frame(time_ns)]))[0, :2]
    aside = float(np.linalg.norm(pixel - point)) / float(stage.view.scene.camera_matrix[0, 0])
    return float(np.degrees(aside)) if np.isfinite(aside) else 0.0


@template("G4", "direction from the gaze", needs_gaze=True)
def from_gaze(stage: Stage) -> Candidates:
    """Where in the picture is X from the point that the wearer looks at."""
    for time_ns in stage.moments():
        for object_id in stage.still_at(time_ns):
            if not stage.visible_at(object_id, time_ns):
                continue
            window = stage.window([object_id], time_ns)
            if window is None or aside_deg(stage, object_id, time_ns) < MIN_ASIDE_DEG:
                continue
            text = (
                f"In the wearer's view at {stage.say(time_ns)}, where is the centre of {stage.name(object_id)} "
                "relative to the point at which the wearer is looking?"
            )
            operands = {"object": object_id, "time_ns": time_ns}
            yield Candidate("direction_from_gaze", operands, text, (object_id,), window, Natural(PICTURE))
