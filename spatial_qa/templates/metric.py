"""Group M: lengths and sizes."""

import numpy as np

from spatial_qa.operations.metric import underside
from spatial_qa.options import Ladder, Objects
from spatial_qa.templates.base import Candidate, Candidates, Stage, pairs_of, template
from spatial_qa.templates.static import eights, triples

MIN_VIEWS = 3
MAX_SIZE_SIGMA = 0.10
MAX_WEARER_SIGMA = 0.05
MAX_FLOOR_RESIDUAL_M = 0.02


@template("M1", "distance between objects", needs_scale=True)
def distance(stage: Stage) -> Candidates:
    """Shortest distance between two objects."""
    for time_ns in stage.moments():
        for first, second in pairs_of(stage.still_at(time_ns)):
            window = stage.window([first, second], time_ns)
            if window is None:
                continue
            viewer = stage.view.viewer(time_ns).position.value
            a, b = (stage.view.body(i, time_ns).center.value for i in (first, second))
            asides = {
                "distance between the centres": float(np.linalg.norm(a - b)),
                "distance from the camera to the first": float(np.linalg.norm(a - viewer)),
                "distance from the camera to the second": float(np.linalg.norm(b - viewer)),
            }
            text = (
                f"At {stage.say(time_ns)}, what is the shortest distance between {stage.name(first)} and "
                f"{stage.name(second)}, measured from surface to surface?"
            )
            operands = {"object": first, "other": second, "time_ns": time_ns, "asides": asides}
            maker = Ladder("m", min_ratio=1.25)
            yield Candidate("surface_distance", operands, text, (first, second), window, maker)


@template("M2", "size of an object", needs_scale=True)
def longest(stage: Stage) -> Candidates:
    """Longest side of an object's box."""
    for object_id in stage.labels:
        track = stage.view.trajectory(object_id)
        seen = stage.seen_ns(object_id)
        if track.view_count < MIN_VIEWS or not len(seen):
            continue
        side = int(np.argmax(track.extent_m))
        if not track.extent_sigma_m[side] / track.extent_m[side] < MAX_SIZE_SIGMA:
            continue
        time_ns = int(seen[len(seen) // 2])
        window = stage.span(max(int(seen[0]), time_ns - 2_000_000_000), min(int(seen[-1]), time_ns + 2_000_000_000))
        if window is None:
            continue
        text = f"How long is the longest side of the tightest box around {stage.name(object_id)}?"
        others = {f"side {i + 1} of the box": float(track.extent_m[i]) for i in range(3) if i != side}
        operands = {"object": object_id, "time_ns": time_ns, "asides": others}
        yield Candidate("longest_side", operands, text, (object_id,), window, Ladder("m", 1.2))


@template("M3", "distance from the wearer", needs_scale=True)
def from_wearer(stage: Stage) -> Candidates:
    """Distance from the wearer's camera to an object at a moment."""
    moments = stage.moments()
    for time_ns in moments:
        for object_id in stage.still_at(time_ns):
            window = stage.window([object_id], time_ns)
            if window is None:
                continue
            center = stage.view.body(object_id, time_ns).center.value
            asides = {
                f"the distance at {stage.say(other)}": float(
                    np.linalg.norm(center - stage.view.viewer(other).position.value)
                )
                for other in moments[:: max(1, len(moments) // 6)]
                if other != time_ns
            }
            text = (
                f"At {stage.say(time_ns)}, how far from the wearer's camera is the centre of {stage.name(object_id)}?"
            )
            operands = {"object": object_id, "time_ns": time_ns, "asides": asides}
            maker = Ladder("m", 1.15)
            yield Candidate("distance_to_wearer", operands, text, (object_id,), window, maker)


@template("M4", "height above the floor", needs_up=True, needs_scale=True)
def height(stage: Stage) -> Candidates:
    """Height of an object's underside above the floor."""
    surfaces = stage.view.scene.lifted.surfaces
    if not surfaces.floor_residual_m < MAX_FLOOR_RESIDUAL_M:
        return
    for time_ns in stage.moments():
        for object_id in stage.still_at(time_ns):
            window = stage.window([object_id], time_ns)
            if window is None:
                continue
            body = stage.view.body(object_id, time_ns)
            base, _ = underside(stage.view, body)
            top = 2 * float(body.center.value[2]) - base - surfaces.floor_height_m
            text = f"At {stage.say(time_ns)}, how high above the floor is the underside of {stage.name(object_id)}?"
            operands = {"object": object_id, "time_ns": time_ns, "asides": {"height of its top": top}}
            maker = Ladder("m")
            yield Candidate("height_above_floor", operands, text, (object_id,), window, maker)


@template("M6", "ratio of distances")
def ratio(stage: Stage) -> Candidates:
    """How many times as far is A from B as from C."""
    for time_ns in stage.moments():
        for anchor, first, second in triples(stage, time_ns):
            window = stage.window([anchor, first, second], time_ns)
            if window is None:
                continue
            a, b, c = (stage.view.body(i, time_ns).center.value for i in (anchor, first, second))
            inverse = float(np.linalg.norm(a - c) / max(float(np.linalg.norm(a - b)), 1e-9))
            text = (
                f"At {stage.say(time_ns)}, the distance from {stage.name(anchor)} to {stage.name(first)} is how many "
                f"times the distance from {stage.name(anchor)} to {stage.name(second)}, measured between centres?"
            )
            operands = {
                "anchor": anchor,
                "object": first,
                "other": second,
                "time_ns": time_ns,
                "asides": {"the inverse ratio": inverse},
            }
            maker = Ladder("times", 1.25)
            yield Candidate("distance_ratio", operands, text, (anchor, first, second), window, maker)


@template("M7", "largest or smallest object")
def largest(stage: Stage) -> Candidates:
    """Largest or smallest of eight objects by volume."""
    for time_ns in stage.moments():
        for eight in eights(stage, time_ns, None):
            window = stage.window(eight, time_ns)
            if window is None:
                continue
            for operation, word in (("largest_object", "largest"), ("smallest_object", "smallest")):
                text = (
                    f"Which of these objects, seen around {stage.say(time_ns)}, has the {word} volume (length times "
                    "width times height of the tightest box around it)?"
                )
                operands = {"candidates": list(eight), "labels": stage.label_list(eight), "time_ns": time_ns}
                yield Candidate(operation, operands, text, (), window, Objects())
