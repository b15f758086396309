"""Ways to move what a question is about, for the property tests: a knob takes a scene and three numbers."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from geo import se3
from lifting.records import MotionState, ObjectTrajectory
from spatial_qa.motion import middle_ns, rests
from spatial_qa.noise import Floors
from spatial_qa.records import Question, QuestionScene
from spatial_qa.view import SceneView

FLOORS = Floors()
SIZES = ("longest_side", "largest_object", "smallest_object")
ENDS = ("net_displacement", "displacement_direction", "moved_farthest", "relocation_count", "state_change")
TIMES = ("order_first_moved", "event_time", "event_between", "order_first_seen")
ROUTES = ("heading_change", "start_from_end", "camera_motion")
NS = 1_000_000_000


@dataclass(frozen=True)
class Knob:
    """``turn(scene, numbers)`` moves something; ``sigma`` is one standard deviation of the numbers."""

    name: str
    turn: Callable[[QuestionScene, np.ndarray], QuestionScene]
    sigma: float


def knobs(question: Question, scene: QuestionScene) -> list[Knob]:
    """What can be moved under a question, each with its sigma."""
    name, operands = question.certificate.operation, question.certificate.operands
    if name == "distance_walked":
        return [Knob("path", lambda s, v: _stretched_path(s, operands, v[0]), question.certificate.sigma)]
    if name in ROUTES:
        turn = Knob("turn", lambda s, v: _turned(s, operands["to_ns"], v[2]), np.radians(FLOORS.camera_angle_deg))
        step = Knob("step", lambda s, v: _stepped(s, operands["to_ns"], v), FLOORS.camera_position_m)
        return {"heading_change": [turn], "start_from_end": [turn, step], "camera_motion": [step, turn]}[name]
    ids = [i for key in ("object", "anchor", "facing", "target", "other") for i in [operands.get(key)] if i is not None]
    ids = [*ids, *operands.get("candidates", [])]
    if name in SIZES:
        return [Knob(f"size {i}", _part(_resized, i), FLOORS.extent_fraction) for i in ids]
    if name == "state_change" and in_hand(scene, operands):
        return [Knob(f"time {ids[0]}", _delay(ids[0]), FLOORS.event_time_s)]
    if name in TIMES:
        return [Knob(f"time {i}", _delay(i), FLOORS.event_time_s) for i in ids]
    if name in ENDS:
        ends = [(i, time) for i in ids for time in resting_times(scene, i, operands)]
        return [Knob(f"rest {i} {t}", _end(i, operands, t), FLOORS.displacement_m) for i, t in ends]
    return [Knob(f"place {i}", _part(_moved, i), FLOORS.center_m) for i in ids]


def in_hand(scene: QuestionScene, operands: dict) -> bool:
    view = SceneView(scene)
    return any(view.state(operands["object"], operands[t]) is MotionState.HELD for t in ("from_ns", "to_ns"))


def resting_times(scene: QuestionScene, object_id: int, operands: dict) -> list[int]:
    """A moment in every rest of an object that reaches into a window; the window's end where it never moves."""
    view = SceneView(scene)
    inside = [r for r in rests(view, object_id) if r.end_ns >= operands["from_ns"] and r.start_ns <= operands["to_ns"]]
    return [middle_ns(rest) for rest in inside] if len(inside) > 1 else [operands["to_ns"]]


def _end(object_id: int, operands: dict, time_ns: int):
    return lambda scene, numbers: _moved_rest(scene, object_id, operands, time_ns, numbers)


def _part(change: Callable[[ObjectTrajectory, np.ndarray], ObjectTrajectory], object_id: int):
    return lambda scene, numbers: with_track(scene, object_id, lambda track: change(track, numbers))


def _delay(object_id: int):
    return lambda scene, numbers: _with_delay(scene, object_id, float(numbers[0]))


def with_track(scene: QuestionScene, object_id: int, change) -> QuestionScene:
    tracks = tuple(change(t) if t.object_id == object_id else t for t in scene.lifted.trajectories)
    return replace(scene, lifted=replace(scene.lifted, trajectories=tracks))


def _moved(track: ObjectTrajectory, numbers: np.ndarray) -> ObjectTrajectory:
    return replace(track, centers_in_world=track.centers_in_world + numbers)


def _resized(track: ObjectTrajectory, numbers: np.ndarray) -> ObjectTrajectory:
    return replace(track, extent_m=track.extent_m * np.exp(numbers[0]))


def _moved_rest(
    scene: QuestionScene, object_id: int, operands: dict, time_ns: int, numbers: np.ndarray
) -> QuestionScene:
    """Move the rest that holds ``time_ns``; if it holds the whole window, a passage is made up in the middle."""
    from_ns, to_ns = operands["from_ns"], operands["to_ns"]

    def change(track: ObjectTrajectory) -> ObjectTrajectory:
        row = int(np.argmin(np.abs(track.timestamps_ns - time_ns)))
        still = track.states == MotionState.REST
        start, stop = row, row
        while start > 0 and still[start - 1]:
            start -= 1
        while stop + 1 < len(still) and still[stop + 1]:
            stop += 1
        centers, states = track.centers_in_world.copy(), track.states.copy()
        if track.timestamps_ns[start] <= from_ns and track.timestamps_ns[stop] >= to_ns:
            start = int(np.searchsorted(track.timestamps_ns, (from_ns + to_ns) // 2))
            if np.linalg.norm(numbers) > 0.05:
                states[start - 4 : start] = MotionState.MOVING
        centers[start : stop + 1] += numbers
        return replace(track, centers_in_world=centers, states=states)

    return with_track(scene, object_id, change)


def _with_delay(scene: QuestionScene, object_id: int, seconds: float) -> QuestionScene:
    """Everything that happens to an object, and every sight of it, comes later by so much."""

    def change(track: ObjectTrajectory) -> ObjectTrajectory:
        stamps = track.timestamps_ns
        wanted = stamps - int(seconds * NS)
        rows = np.clip(np.rint(np.interp(wanted, stamps, np.arange(len(stamps)))), 0, len(stamps) - 1).astype(int)
        parts = ("states", "centers_in_world", "center_covariances_m2", "quats_wxyz", "visible_pixels")
        return replace(track, **{part: getattr(track, part)[rows] for part in parts})

    shifted = with_track(scene, object_id, change)
    events = tuple(
        replace(e, time_ns=e.time_ns + int(seconds * NS)) if e.object_id == object_id else e
        for e in scene.lifted.events
    )
    return replace(shifted, lifted=replace(shifted.lifted, events=events))


def _turned(scene: QuestionScene, time_ns: int, angle: float) -> QuestionScene:
    poses = scene.world_from_camera.copy()
    near = np.abs(scene.timestamps_ns - time_ns) <= NS // 5
    poses[near, :3, :3] = se3.rotation_from_axis_angle(np.array([0, 0, angle])) @ poses[near, :3, :3]
    return replace(scene, world_from_camera=poses)


def _stepped(scene: QuestionScene, time_ns: int, step: np.ndarray) -> QuestionScene:
    poses = scene.world_from_camera.copy()
    poses[np.abs(scene.timestamps_ns - time_ns) <= NS // 5, :3, 3] += step
    return replace(scene, world_from_camera=poses)


def _stretched_path(scene: QuestionScene, operands: dict, metres: float) -> QuestionScene:
    """The path between two moments longer by so much, every step in proportion."""
    poses = scene.world_from_camera.copy()
    length = np.linalg.norm(np.diff(poses[:, :2, 3], axis=0), axis=1)
    inside = (scene.timestamps_ns >= operands["from_ns"]) & (scene.timestamps_ns <= operands["to_ns"])
    total = float(length[inside[1:]].sum())
    middle = poses[inside][:, :2, 3].mean(axis=0)
    poses[:, :2, 3] = middle + (poses[:, :2, 3] - middle) * (1 + metres / max(total, 1e-9))
    return replace(scene, world_from_camera=poses)
