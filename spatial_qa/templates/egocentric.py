"""Group E: directions as the wearer has them at a moment."""

import numpy as np

from spatial_qa.angles import bearing_deg, level_length
from spatial_qa.operations.egocentric import BEHIND_DEG, bearing_from_wearer
from spatial_qa.operations.order import OUT_OF_VIEW_DEG, outside_picture_deg
from spatial_qa.options import Natural, Objects
from spatial_qa.templates.base import NS, Candidate, Candidates, Stage, template
from spatial_qa.templates.static import eights
from spatial_qa.templates.words import AROUND, ELEVATIONS, TURNS
from spatial_qa.view import NotMeasurable

MIN_LEVEL_M = 0.3
MAX_LAST_SEEN_NS = 10 * NS


def around_wearer(stage: Stage) -> list[tuple[int, int]]:
    """Moments and objects that lie still, not straight below, while the wearer's heading is known."""
    found = []
    for time_ns in stage.moments():
        viewer, up = stage.view.viewer(time_ns), stage.view.up.value
        if not stage.heads_at(time_ns):
            continue
        for object_id in stage.still_at(time_ns):
            away = stage.view.body(object_id, time_ns).center.value - viewer.position.value
            if level_length(away, up) >= MIN_LEVEL_M * stage.view.unit_m:
                found.append((time_ns, object_id))
    return found


def elsewhere(stage: Stage, object_id: int, time_ns: int) -> dict[int, str]:
    """Sectors in which an object that lies still is at other moments, for the origins of wrong options."""
    found: dict[int, str] = {}
    moments, up = stage.moments(), stage.view.up.value
    for other in moments[:: max(1, len(moments) // 8)]:
        if stage.sight_of(object_id, other) is None:
            continue
        viewer = stage.view.viewer(other)
        away = stage.view.body(object_id, other).center.value - viewer.position.value
        sector = round(float(bearing_deg(viewer.forward.value, away, up)) / 45) % 8
        found.setdefault(sector, f"true elsewhere: the sector at {stage.say(other)}")
    return found


@template("E1", "direction from the wearer", needs_up=True)
def direction(stage: Stage) -> Candidates:
    """Where is X for the wearer at a moment."""
    for time_ns, object_id in around_wearer(stage):
        window = stage.window([object_id], time_ns)
        if window is None:
            continue
        text = (
            f"In which direction from the wearer is {stage.name(object_id)} at {stage.say(time_ns)}, "
            "relative to the way the wearer's camera faces at that moment?"
        )
        operands = {"object": object_id, "time_ns": time_ns}
        maker = Natural(AROUND, elsewhere(stage, object_id, time_ns))
        yield Candidate("direction_from_wearer", operands, text, (object_id,), window, maker)


@template("E2", "turn to face an object", needs_up=True)
def turn(stage: Stage) -> Candidates:
    """Which way and how far would the wearer have to turn."""
    for time_ns, object_id in around_wearer(stage):
        window = stage.window([object_id], time_ns)
        if window is None:
            continue
        text = (
            f"To face {stage.name(object_id)} at {stage.say(time_ns)} by the shorter way, in which direction and how "
            "far would the wearer have to turn from the way the camera faces at that moment?"
        )
        operands = {"object": object_id, "time_ns": time_ns}
        yield Candidate("turn_to_face", operands, text, (object_id,), window, Natural(TURNS))


@template("E3", "object out of view", needs_up=True)
def out_of_view(stage: Stage) -> Candidates:
    """Where is X now that it is out of view; it lay still since it was last seen."""
    for time_ns, object_id in around_wearer(stage):
        sight = stage.sight_of(object_id, time_ns)
        seen = stage.seen_ns(object_id)
        before = seen[seen <= time_ns]
        if sight is None or not len(before) or time_ns - int(before[-1]) > MAX_LAST_SEEN_NS:
            continue
        place = stage.view.body(object_id, time_ns).center.value
        frame = np.array([stage.view.frame(time_ns)])
        if not outside_picture_deg(stage.view, place, frame)[0] >= OUT_OF_VIEW_DEG:
            continue
        window = stage.window([object_id], time_ns)
        last = int(before[-1])
        if window is None or stage.visible_at(object_id, time_ns) or sight > time_ns:
            continue
        text = (
            f"At {stage.say(time_ns)} {stage.name(object_id)} is out of the wearer's view; it still lies where it "
            f"was last seen at {stage.say(last)}. In which direction from the wearer is it, relative to the way "
            f"the wearer's camera faces at {stage.say(time_ns)}?"
        )
        operands = {"object": object_id, "time_ns": time_ns}
        maker = Natural(AROUND, elsewhere(stage, object_id, time_ns))
        yield Candidate("direction_from_wearer", operands, text, (object_id,), window, maker)


@template("E4", "object behind the wearer", needs_up=True)
def behind(stage: Stage) -> Candidates:
    """Which one of eight objects is behind the wearer."""
    for time_ns in stage.moments():
        for eight in eights(stage, time_ns, None):
            window = stage.window(eight, time_ns)
            if window is None or not _one_behind(stage, eight, time_ns):
                continue
            text = (
                f"Which of these objects is behind the wearer at {stage.say(time_ns)}, that is, more than 135° away "
                "from the way the wearer's camera faces at that moment?"
            )
            operands = {"candidates": list(eight), "labels": stage.label_list(eight), "time_ns": time_ns}
            yield Candidate("object_behind", operands, text, (), window, Objects())


def _one_behind(stage: Stage, ids: tuple[int, ...], time_ns: int) -> bool:
    try:
        aside = [abs(bearing_from_wearer(stage.view, i, time_ns)[0]) for i in ids]
    except NotMeasurable:
        return False
    return int((np.array(aside) > BEHIND_DEG).sum()) == 1


@template("E5", "above or below eye level", needs_up=True)
def elevation(stage: Stage) -> Candidates:
    """In which band of elevation is X for the wearer."""
    for time_ns in stage.moments():
        for object_id in stage.still_at(time_ns):
            window = stage.window([object_id], time_ns)
            if window is None:
                continue
            text = (
                f"Seen from the wearer's camera at {stage.say(time_ns)}, how far above or below eye level (the "
                f"horizontal through the camera) does the centre of {stage.name(object_id)} appear?"
            )
            operands = {"object": object_id, "time_ns": time_ns}
            yield Candidate("elevation_from_wearer", operands, text, (object_id,), window, Natural(ELEVATIONS))
