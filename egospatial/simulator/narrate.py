"""What the wearer says, and the points that go with it: on visible objects, well inside, spread over time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from egospatial.simulator.frames import Sighting
from egospatial.simulator.presets import Preset
from egospatial.simulator.script import Scene
from egospatial.simulator.timeline import Happening, Timeline

MIN_AREA_AT_1024_PX = 150.0
MIN_DEPTH_AT_1024_PX = 3.0  # of a point inside its mask
WANTED_POINTS = 6
_MOST_HIDDEN = (0.15, 0.3, 0.5)  # shares of an object that may be hidden in a good frame, best first
_REASONS = {
    "jar": ("it closes tightly", "it is half full"),
    "can": ("it is still sealed", "it rolls if it lies on its side"),
    "carton": ("it has flat sides", "its print faces me"),
    "cube": ("it is the smallest thing here", "it fits anywhere"),
    "sponge": ("it is soft and dry", "it soaks up water"),
    "spoon": ("its head is rounded", "it is long enough for the bottom"),
    "spatula": ("it is flat and broad", "it does not scratch"),
    "knife": ("its edge is blunt", "it spreads evenly"),
    "bowl": ("it is wide and open", "it is stable"),
    "crate": ("it has no lid", "it holds several things"),
    "bottle": ("it stands upright by itself", "its neck is narrow"),
    "book": ("it lies flat", "nothing stands on it"),
    "mug": ("its handle faces away", "it is empty"),
}


@dataclass(frozen=True)
class Point:
    """A grounding point of an object."""

    object_index: int
    frame: int
    xy_px: tuple[float, float]


@dataclass(frozen=True)
class _Saying:
    start_s: float
    end_s: float
    text: str
    object_index: int


def grounding_points(
    sightings: list[tuple[Sighting, ...]], timeline: Timeline, preset: Preset
) -> dict[int, tuple[Point, ...]]:
    """Up to ``WANTED_POINTS`` per object: the first good frame of every rest, then frames spread over the others.

    A frame is good if the object shows at least 150 px (at the canonical size of 1024, scaled with it), hardly
    anything hides it and it is not cut by the border of the view much; the first point is always at rest. A rest in
    which something always hides a part of the object takes a frame in which the least is hidden.
    """
    out: dict[int, tuple[Point, ...]] = {}
    for index, rests in enumerate(timeline.rests):
        graded = [_good_frames(index, sightings, preset, most_hidden) for most_hidden in _MOST_HIDDEN]
        good = next((frames for frames in graded if len(frames) >= 4), graded[-1])
        chosen: list[int] = []
        for rest in rests:
            begin_s = 0.0 if rest.start_s == 0.0 else rest.start_s + 0.25
            within = [[f for f in frames if begin_s <= f / preset.rate_hz < rest.end_s - 0.15] for frames in graded]
            inside = next((frames for frames in within if frames), [])
            if inside:
                chosen.append(_nearby_best(inside, inside[0], index, sightings, 4))
        first = min(chosen, default=None)
        if first is None:
            out[index] = ()
            continue
        later = [f for f in good if f > first]
        extra = [later[k] for k in np.linspace(0, len(later) - 1, WANTED_POINTS + 1).astype(int)[1:]] if later else []
        for frame in extra:
            if len(chosen) >= WANTED_POINTS:
                break
            if frame not in chosen:
                chosen.append(frame)
        out[index] = tuple(_point(index, frame, sightings) for frame in sorted(set(chosen)))
    return out


def _good_frames(index: int, sightings: list[tuple[Sighting, ...]], preset: Preset, most_hidden: float) -> list[int]:
    """Frames that show enough of the object, with at most this share of it hidden."""
    scale = preset.canonical_size_px / 1024
    table = [row[index] for row in sightings]
    areas = np.array([item.visible_pixels for item in table], dtype=np.float64)
    hidden = np.array([1.0 - item.visible_pixels / max(item.in_view_pixels, 1) for item in table])
    depth = np.array([item.inner_depth_px for item in table])
    size = preset.canonical_size_px
    xy = np.array([item.inner_xy_px for item in table])
    with np.errstate(invalid="ignore"):
        inside = (xy > 0.06 * size).all(axis=1) & (xy < 0.94 * size).all(axis=1)
    enough = (areas >= MIN_AREA_AT_1024_PX * scale**2) & (depth >= max(1.0, MIN_DEPTH_AT_1024_PX * scale)) & inside
    return [int(frame) for frame in np.flatnonzero(enough & (hidden <= most_hidden))]


def _nearby_best(frames: list[int], first: int, index: int, sightings: list[tuple[Sighting, ...]], span: int) -> int:
    """Of the first few frames the one where the object shows most."""
    near = [f for f in frames if f <= first + span]
    return max(near, key=lambda f: (sightings[f][index].visible_pixels, -f))


def _point(index: int, frame: int, sightings: list[tuple[Sighting, ...]]) -> Point:
    return Point(index, frame, sightings[frame][index].inner_xy_px)


def narrations(
    scene: Scene, timeline: Timeline, points: dict[int, tuple[Point, ...]], preset: Preset, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Entries of narrations.jsonl in order of time; every point goes with the saying of its object nearest in time."""
    last = (preset.frame_count - 1) / preset.rate_hz
    told = [item for item in timeline.happenings if item.kind in _ABOUT]
    sayings = [saying for item in told if (saying := _about(item, scene, rng, last)).start_s < last]
    spoken = {saying.object_index for saying in sayings}
    for index in range(len(scene.specs)):
        if index not in spoken and points.get(index):
            sayings.append(_about_still(index, points[index][0].frame / preset.rate_hz, scene, rng, last))
    sayings.sort(key=lambda saying: (saying.start_s, saying.object_index, saying.text))
    grounded: list[list[Point]] = [[] for _ in sayings]
    for index in sorted(points):
        own = [k for k, saying in enumerate(sayings) if saying.object_index == index]
        for point in points[index]:
            time_s = point.frame / preset.rate_hz
            if own:
                grounded[min(own, key=lambda k: abs(sayings[k].start_s - time_s))].append(point)
    return [
        {
            "id": f"n{number:03d}",
            "start_s": round(saying.start_s, 3),
            "end_s": round(saying.end_s, 3),
            "text": saying.text,
            "language": "en",
            "groundings": [
                {
                    "object": scene.specs[point.object_index].label,
                    "frame": point.frame,
                    "point_xy": [point.xy_px[0], point.xy_px[1]],
                    "view": "canonical",
                }
                for point in sorted(grounded[number], key=lambda point: point.frame)
            ],
        }
        for number, saying in enumerate(sayings)
    ]


def _about(item: Happening, scene: Scene, rng: np.random.Generator, last_s: float) -> _Saying:
    text = _ABOUT[item.kind](item, scene, rng)
    start = max(0.0, item.time_s - 0.8)
    return _Saying(start, min(last_s, max(item.end_s, item.time_s) + 1.2), text, item.object_index)


def _reason(index: int, scene: Scene, rng: np.random.Generator) -> str:
    reasons = _REASONS[scene.specs[index].kind]
    return reasons[int(rng.integers(len(reasons)))]


def _alternative(index: int, scene: Scene, rng: np.random.Generator, kinds: tuple[str, ...]) -> str:
    own = scene.specs[index]
    others = [s.label for s in scene.specs if s.label != own.label]
    like = [s.label for s in scene.specs if s.label != own.label and (s.kind == own.kind or s.kind in kinds)]
    choice = like or others
    return choice[int(rng.integers(len(choice)))]


def _pick_up(item: Happening, scene: Scene, rng: np.random.Generator) -> str:
    label = scene.specs[item.object_index].label
    other = _alternative(item.object_index, scene, rng, ("jar", "can", "carton"))
    return f"I am picking up the {label} rather than the {other} because {_reason(item.object_index, scene, rng)}."


def _put_down(item: Happening, scene: Scene, rng: np.random.Generator) -> str:
    label = scene.specs[item.object_index].label
    return f"I am putting the {label} down here because there is room for it."


def _use(item: Happening, scene: Scene, rng: np.random.Generator) -> str:
    tool, target = scene.specs[item.object_index].label, scene.specs[item.other_index or 0]
    other = _alternative(item.object_index, scene, rng, ("spoon", "spatula", "knife"))
    action = f"stir in the {target.label}" if target.cavity else f"tap the {target.label}"
    reason = _reason(item.object_index, scene, rng)
    return f"I am using the {tool} rather than the {other} to {action} because {reason}."


_ABOUT: dict[str, Callable[[Happening, Scene, np.random.Generator], str]] = {
    "pick_up": _pick_up,
    "put_down": _put_down,
    "use": _use,
}


def _about_still(index: int, time_s: float, scene: Scene, rng: np.random.Generator, last_s: float) -> _Saying:
    label = scene.specs[index].label
    other = _alternative(index, scene, rng, ())
    text = f"I am leaving the {label} where it is rather than moving the {other} because {_reason(index, scene, rng)}."
    return _Saying(max(0.0, time_s - 0.2), min(last_s, time_s + 1.8), text, index)
