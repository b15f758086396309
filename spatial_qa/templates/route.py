"""Group R: the wearer's own way."""

import itertools

import numpy as np

from spatial_qa.angles import level_length
from spatial_qa.hashing import shuffled
from spatial_qa.operations.route import STILL_M
from spatial_qa.operations.static import level_distance
from spatial_qa.options import Ladder, Natural
from spatial_qa.templates.base import NS, Candidate, Candidates, Stage, template
from spatial_qa.templates.static import triples
from spatial_qa.templates.words import AROUND, CAMERA_MOTION, HEADING, TURNS

MIN_WALK_NS = 3 * NS
MAX_INTERVALS = 120
MIN_LEG_M = 0.8
MIN_AWAY_M = 0.5
MAX_TURN_DEG = 20.0


def _intervals(stage: Stage) -> list[tuple[int, int]]:
    moments = [time_ns for time_ns in stage.moments() if stage.heads_at(time_ns)]
    return shuffled(list(itertools.combinations(moments, 2)), "intervals")[:MAX_INTERVALS]


@template("R2", "change of heading", needs_up=True)
def heading(stage: Stage) -> Candidates:
    """Which way does the wearer face, compared with before."""
    for from_ns, to_ns in _intervals(stage):
        window = stage.span(from_ns, to_ns)
        if window is None:
            continue
        text = (
            f"Compared with the way the wearer's camera faces at {stage.say(from_ns)}, which way does it face at "
            f"{stage.say(to_ns)}?"
        )
        operands = {"from_ns": from_ns, "to_ns": to_ns}
        yield Candidate("heading_change", operands, text, (), window, Natural(HEADING))


@template("R3", "distance walked", needs_scale=True, needs_up=True, speaks_of_motion=True)
def walked(stage: Stage) -> Candidates:
    """How long is the wearer's way between two moments."""
    for from_ns, to_ns in _intervals(stage):
        if to_ns - from_ns < MIN_WALK_NS:
            continue
        window = stage.span(from_ns, to_ns)
        if window is None:
            continue
        text = (
            f"How long is the path, seen from above, that the wearer's camera takes from {stage.say(from_ns)} to "
            f"{stage.say(to_ns)}?"
        )
        operands = {"from_ns": from_ns, "to_ns": to_ns}
        yield Candidate("distance_walked", operands, text, (), window, Ladder("m", 1.2))


@template("R4", "turn at a corner", needs_up=True, speaks_of_motion=True)
def corner(stage: Stage) -> Candidates:
    """Which turn at B for one who walks from A to B and on to C."""
    unit = stage.view.unit_m
    for time_ns in stage.moments():
        for anchor, facing, target in triples(stage, time_ns):
            legs = (
                level_distance(stage.view, anchor, facing, time_ns),
                level_distance(stage.view, facing, target, time_ns),
            )
            window = stage.window([anchor, facing, target], time_ns) if min(legs) >= MIN_LEG_M * unit else None
            if window is None:
                continue
            text = (
                f"With the objects where they are at {stage.say(time_ns)}, imagine going in a straight line from "
                f"{stage.name(anchor)} to {stage.name(facing)} and from there in a straight line to "
                f"{stage.name(target)}. Which turn do you make at {stage.name(facing)}?"
            )
            operands = {"anchor": anchor, "facing": facing, "target": target, "time_ns": time_ns}
            subjects = (anchor, facing, target)
            yield Candidate("turn_at_corner", operands, text, subjects, window, Natural(TURNS))


@template("R6", "where the way began", needs_up=True)
def start(stage: Stage) -> Candidates:
    """Where, for the wearer now, is the place of before."""
    for from_ns, to_ns in _intervals(stage):
        window = stage.span(from_ns, to_ns)
        ends = [stage.view.viewer(time_ns).position.value for time_ns in (from_ns, to_ns)]
        away = float(level_length(ends[1] - ends[0], stage.view.up.value))
        if window is None or away < MIN_AWAY_M * stage.view.unit_m:
            continue
        text = (
            f"At {stage.say(to_ns)}, in which direction from the wearer is the place where the wearer was at "
            f"{stage.say(from_ns)}, relative to the way the wearer's camera faces at {stage.say(to_ns)}?"
        )
        operands = {"from_ns": from_ns, "to_ns": to_ns}
        yield Candidate("start_from_end", operands, text, (), window, Natural(AROUND))


@template("R7", "motion of the camera", needs_scale=True, needs_up=True, speaks_of_motion=True)
def camera(stage: Stage) -> Candidates:
    """Main motion of the head camera between two moments, in its own axes of the first."""
    for from_ns, to_ns in _intervals(stage):
        window = stage.span(from_ns, to_ns) if to_ns - from_ns <= 5 * NS else None
        first, second = (stage.view.viewer(time_ns) for time_ns in (from_ns, to_ns))
        step = float(np.linalg.norm(second.position.value - first.position.value)) / stage.view.unit_m
        turned = float(np.degrees(np.arccos(np.clip(first.forward.value @ second.forward.value, -1, 1))))
        if window is None or (turned > MAX_TURN_DEG and step > STILL_M):
            continue
        text = (
            f"Comparing {stage.say(to_ns)} with {stage.say(from_ns)}, what is the main motion of the wearer's head "
            f"camera, in the camera's own directions at {stage.say(from_ns)}?"
        )
        operands = {"from_ns": from_ns, "to_ns": to_ns}
        yield Candidate("camera_motion", operands, text, (), window, Natural(CAMERA_MOTION))
