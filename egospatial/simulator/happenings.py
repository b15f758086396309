"""Events and relations of the truth, from the timeline."""

import numpy as np

from egospatial.simulator.presets import Preset
from egospatial.simulator.script import Scene
from egospatial.simulator.timeline import Rest, Timeline
from lifting.records import Event, EventKind, MotionState, Relation, RelationKind

CONTACT_M = 0.01  # a tool touches its target while its surface is nearer than this
_NS = 1_000_000_000


def to_ns(preset: Preset, time_s: float) -> int:
    """Device time of a moment of the recording, cut to its span."""
    last = (preset.frame_count - 1) / preset.rate_hz
    return preset.start_ns + round(min(max(time_s, 0.0), last) * _NS)


def true_events(timeline: Timeline, preset: Preset) -> tuple[Event, ...]:
    """Lift-offs and touch-downs in order of time; a container is the ``other`` object."""
    events = []
    for item in timeline.happenings:
        if item.kind == "use":
            continue
        place = timeline.object_at(item.object_index, item.time_s)[:3, 3]
        other = None if item.other_index is None else item.other_index + 1
        kind = EventKind(item.kind)
        events.append(Event(kind, item.object_index + 1, to_ns(preset, item.time_s), 0, place.copy(), 1.0, other))
    return tuple(sorted(events, key=lambda event: (event.time_ns, event.object_id, str(event.kind))))


def true_relations(scene: Scene, timeline: Timeline, preset: Preset) -> tuple[Relation, ...]:
    """Support of everything at rest, containment and contact in containers, contact of tools in use."""
    relations: list[Relation] = []
    for index, rests in enumerate(timeline.rests):
        for rest in rests:
            relations += _rest_relations(scene, index, rest, preset)
    for item in timeline.happenings:
        if item.kind == "use" and item.other_index is not None:
            relations += _contacts(scene, timeline, preset, item.object_index, item.other_index)
    key = lambda r: (r.start_ns, str(r.kind), r.subject_object_id, r.other_object_id or 0)  # noqa: E731
    return tuple(sorted(relations, key=key))


def _rest_relations(scene: Scene, index: int, rest: Rest, preset: Preset) -> list[Relation]:
    start, end = to_ns(preset, rest.start_s), to_ns(preset, rest.end_s)
    base = float(rest.world_from_object[2, 3] - scene.specs[index].extent_m[2] / 2)
    if rest.container_index is None:
        return [Relation(RelationKind.SUPPORT, index + 1, None, start, end, 1.0, base)]
    container = rest.container_index + 1
    return [
        Relation(RelationKind.SUPPORT, index + 1, container, start, end, 1.0, base),
        Relation(RelationKind.CONTAINMENT, index + 1, container, start, end, 1.0),
        Relation(RelationKind.CONTACT, index + 1, container, start, end, 1.0),
    ]


def _contacts(scene: Scene, timeline: Timeline, preset: Preset, tool: int, target: int) -> list[Relation]:
    """Spans in which the held tool is within ``CONTACT_M`` of its target, sampled every 20 ms."""
    import open3d as o3d

    measure = o3d.t.geometry.RaycastingScene()
    mesh = scene.specs[target].mesh
    measure.add_triangles(
        o3d.core.Tensor.from_numpy(mesh.vertices.astype(np.float32)),
        o3d.core.Tensor.from_numpy(mesh.triangles.astype(np.uint32)),
    )
    vertices = scene.specs[tool].mesh.vertices
    spans: list[list[float]] = []
    for hold in timeline.holds[tool]:
        for time_s in np.arange(hold.start_s, hold.end_s, 0.02):
            target_from_tool = np.linalg.inv(timeline.object_at(target, time_s)) @ timeline.object_at(tool, time_s)
            points = vertices @ target_from_tool[:3, :3].T + target_from_tool[:3, 3]
            distance = measure.compute_distance(o3d.core.Tensor.from_numpy(points.astype(np.float32))).numpy().min()
            if distance >= CONTACT_M:
                continue
            if spans and time_s - spans[-1][1] < 0.03:
                spans[-1][1] = float(time_s)
            else:
                spans.append([float(time_s), float(time_s)])
    return [
        Relation(RelationKind.CONTACT, tool + 1, target + 1, to_ns(preset, a), to_ns(preset, b), 1.0)
        for a, b in spans
        if b > a
    ]


def true_states(timeline: Timeline, preset: Preset) -> np.ndarray:
    """Motion state by frame and object: at rest or held (nothing moves without being held)."""
    states = np.full((preset.frame_count, len(timeline.rests)), int(MotionState.REST), dtype=np.int64)
    for frame in range(preset.frame_count):
        for index in range(len(timeline.rests)):
            if timeline.held_at(index, frame / preset.rate_hz):
                states[frame, index] = int(MotionState.HELD)
    return states
