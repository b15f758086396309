"""Group S: relations between things that lie still."""

import itertools

import numpy as np

from spatial_qa.angles import elevation_deg, level_length
from spatial_qa.hashing import pick, shuffled
from spatial_qa.operations.static import level_distance
from spatial_qa.options import COUNTS, Natural, Objects, Orders
from spatial_qa.templates.base import Candidate, Candidates, Stage, subsets, template
from spatial_qa.templates.words import AROUND

RADII_M = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2, 1.5)
MAX_TRIPLES = 20
MIN_LEG_M = 0.5
MIN_TARGET_M = 0.3
MAX_ELEVATION_DEG = 45.0
MAX_ASIDE_DEG = 45.0


def eights(stage: Stage, time_ns: int, anchor: int | None) -> list[tuple[int, ...]]:
    """Sets of eight objects to choose from, without the anchor."""
    others = [i for i in stage.still_at(time_ns) if i != anchor]
    return subsets(others, 8, [time_ns, anchor], 3) if len(others) >= 8 else []


def triples(stage: Stage, time_ns: int) -> list[tuple[int, int, int]]:
    """Ordered triples of things that lie still: as many as a template can use of one moment, by hash."""
    found = list(itertools.permutations(stage.still_at(time_ns), 3))
    return shuffled(found, "triples", time_ns)[:MAX_TRIPLES]


@template("S1", "nearest object", needs_scale=True)
def nearest(stage: Stage) -> Candidates:
    """Nearest of eight objects to a ninth."""
    yield from _by_distance(stage, "nearest_object", "nearest to")


@template("S2", "farthest object", needs_scale=True)
def farthest(stage: Stage) -> Candidates:
    """Farthest of eight objects from a ninth."""
    yield from _by_distance(stage, "farthest_object", "farthest from")


def _by_distance(stage: Stage, operation: str, words: str) -> Candidates:
    for time_ns in stage.moments():
        for anchor in stage.still_at(time_ns):
            for others in eights(stage, time_ns, anchor):
                window = stage.window([anchor, *others], time_ns)
                if window is None:
                    continue
                text = (
                    f"At {stage.say(time_ns)}, which of these objects is {words} {stage.name(anchor)}, "
                    "measured from surface to surface?"
                )
                operands = {"anchor": anchor, "candidates": list(others), "labels": stage.label_list(others)}
                yield Candidate(operation, {**operands, "time_ns": time_ns}, text, (anchor,), window, Objects())


@template("S3", "direction from an imagined place", needs_up=True)
def standing_at(stage: Stage) -> Candidates:
    """Where is C for one who stands at A and faces B."""
    unit = stage.view.unit_m
    for time_ns in stage.moments():
        for anchor, facing, target in triples(stage, time_ns):
            if level_distance(stage.view, anchor, facing, time_ns) < MIN_LEG_M * unit:
                continue
            if level_distance(stage.view, anchor, target, time_ns) < MIN_TARGET_M * unit:
                continue
            away = stage.view.body(target, time_ns).center.value - stage.view.body(anchor, time_ns).center.value
            if abs(elevation_deg(away, stage.view.up.value)) >= MAX_ELEVATION_DEG:
                continue
            window = stage.window([anchor, facing, target], time_ns)
            if window is None:
                continue
            text = (
                f"Imagine standing at the place of {stage.name(anchor)} as it is at {stage.say(time_ns)}, facing "
                f"{stage.name(facing)}. In which direction from you is {stage.name(target)}?"
            )
            operands = {"anchor": anchor, "facing": facing, "target": target, "time_ns": time_ns}
            subjects = (anchor, facing, target)
            yield Candidate("direction_standing_at", operands, text, subjects, window, Natural(AROUND))


@template("S5", "left-to-right order")
def left_to_right(stage: Stage) -> Candidates:
    """Left-to-right order of four objects as the wearer has them before the eyes."""
    yield from _sideways(
        stage,
        "order_left_to_right",
        "As the wearer sees them at {time}, what is the order of {names} from the wearer's left to the wearer's right?",
    )


@template("S6", "left-to-right order from the opposite side", needs_up=True)
def from_opposite_side(stage: Stage) -> Candidates:
    """The same order for one who looks back at the wearer."""
    yield from _sideways(
        stage,
        "order_from_opposite_side",
        "Take where the wearer is at {time}. For a person on the opposite side of the objects, facing the wearer, "
        "what is the order of {names} from that person's left to that person's right?",
    )


def _sideways(stage: Stage, operation: str, words: str) -> Candidates:
    for time_ns in stage.moments():
        viewer = stage.view.viewer(time_ns)
        frame = np.array([stage.view.frame(time_ns)])
        ahead = [
            i
            for i in stage.still_at(time_ns)
            if stage.visible_at(i, time_ns)
            and stage.view.pixels_of(stage.view.body(i, time_ns).center.value, frame)[0, 2] > 0
        ]
        for four in subsets(ahead, 4, [time_ns, operation], 12):
            if operation == "order_from_opposite_side":
                places = [stage.view.body(i, time_ns).center.value for i in four]
                up = stage.view.up.value
                if min(level_length(p - viewer.position.value, up) for p in places) < 0.4 * stage.view.unit_m:
                    continue
            window = stage.window(four, time_ns)
            if window is None:
                continue
            text = words.format(time=stage.say(time_ns), names=stage.names(four))
            operands = {"candidates": list(four), "labels": stage.label_list(four), "time_ns": time_ns}
            yield Candidate(operation, operands, text, four, window, Orders())


@template("S7", "higher or lower", needs_up=True, needs_scale=True)
def higher_or_lower(stage: Stage) -> Candidates:
    """Highest or lowest underside of eight objects; the order of four where there are fewer."""
    for time_ns in stage.moments():
        still = stage.still_at(time_ns)
        for eight in eights(stage, time_ns, None):
            window = stage.window(eight, time_ns)
            if window is None:
                continue
            for operation, word in (("highest_object", "highest"), ("lowest_object", "lowest")):
                text = f"At {stage.say(time_ns)}, the underside of which of these objects is {word} above the ground?"
                operands = {"candidates": list(eight), "labels": stage.label_list(eight), "time_ns": time_ns}
                yield Candidate(operation, operands, text, (), window, Objects())
        for four in subsets(still, 4, [time_ns, "height"], 12):
            window = stage.window(four, time_ns)
            if window is None:
                continue
            text = (
                f"At {stage.say(time_ns)}, what is the order of {stage.names(four)} from the one whose underside is "
                "lowest to the one whose underside is highest above the ground?"
            )
            operands = {"candidates": list(four), "labels": stage.label_list(four), "time_ns": time_ns}
            yield Candidate("order_by_height", operands, text, four, window, Orders())


@template("S9", "how many within a radius", needs_scale=True)
def within_radius(stage: Stage) -> Candidates:
    """How many of the named objects lie within r of X; up to seven are named."""
    for time_ns in stage.moments():
        still = stage.still_at(time_ns)
        for anchor in still:
            others = shuffled([i for i in still if i != anchor], "within", time_ns, anchor)[:7]
            window = stage.window([anchor, *others], time_ns) if len(others) >= 3 else None
            if window is None:
                continue
            radius = RADII_M[pick(len(RADII_M), "radius", time_ns, anchor)]
            text = (
                f"At {stage.say(time_ns)}, how many of these objects are closer than {radius:.1f} m to "
                f"{stage.name(anchor)}, measured from surface to surface: {stage.names(others)}?"
            )
            operands = {"anchor": anchor, "candidates": others, "radius_m": radius, "time_ns": time_ns}
            yield Candidate("count_within", operands, text, (anchor,), window, COUNTS)
