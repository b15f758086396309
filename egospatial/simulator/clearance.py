"""Whether anything runs through anything else while a script is acted out (boxes and capsules, sampled)."""

import numpy as np
from jaxtyping import Float

from egospatial.simulator.catalogue import ObjectSpec
from egospatial.simulator.hand import arm_capsules, hand_capsules
from egospatial.simulator.script import Scene
from egospatial.simulator.timeline import Moment, Timeline

_STEP_S = 0.1
_ALONG = np.linspace(0.0, 1.0, 5)


def deepest_overlap_m(scene: Scene, timeline: Timeline, duration_s: float, give_up_m: float = np.inf) -> float:
    """How deep, at worst, hand, arm or a held object run into other objects or furniture; 0 if nowhere.

    Objects are their boxes, open containers their walls. Not checked: the hand against what it holds or is about
    to hold, and a tool against the target that it is used on. Ends early once ``give_up_m`` is passed.
    """
    used = {(h.object_index, h.other_index) for h in timeline.happenings if h.kind == "use"}
    grasps = [(hold.start_s - 0.8, hold.end_s + 0.6, k) for k, holds in enumerate(timeline.holds) for hold in holds]
    worst = 0.0
    for time_s in np.arange(0.0, duration_s, _STEP_S):
        if worst > give_up_m:
            break
        moment = timeline.at(float(time_s))
        near = {k for start, end, k in grasps if start <= time_s <= end}
        held = [k for k in near if timeline.held_at(k, float(time_s))]
        points, radii = _arm_points(moment)
        for low, high in scene.room.blocks:
            worst = max(worst, _depth(points - (low + high) / 2, (high - low) / 2, radii))
        for index, spec in enumerate(scene.specs):
            pose = moment.world_from_object[index]
            bodies = [] if index in near else [(points, radii)]
            bodies += [
                (_surface_points(scene.specs[k], moment.world_from_object[k]), np.zeros(1))
                for k in held
                if k != index and (k, index) not in used
            ]
            for body, radius in bodies:
                if np.linalg.norm(body - pose[:3, 3], axis=1).min() > np.linalg.norm(spec.extent_m) / 2 + 0.06:
                    continue
                local = (body - pose[:3, 3]) @ pose[:3, :3]
                for center, half in solids(spec):
                    worst = max(worst, _depth(local - center, half, radius))
    return worst


def solids(spec: ObjectSpec) -> list[tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3"]]]:
    """Boxes (centre, half sides) that fill an object, in its frame; of a crate its floor and walls."""
    half = spec.extent_m / 2
    if spec.kind != "crate" or spec.cavity is None:
        return [(np.zeros(3), half)]
    x, y, floor = spec.cavity.half_x_m, spec.cavity.half_y_m, spec.cavity.floor_z_m
    boxes = [(np.array([0.0, 0.0, (floor - half[2]) / 2]), np.array([half[0], half[1], (floor + half[2]) / 2]))]
    for sign in (-1.0, 1.0):
        boxes.append((np.array([sign * (half[0] + x) / 2, 0, 0]), np.array([(half[0] - x) / 2, half[1], half[2]])))
        boxes.append((np.array([0, sign * (half[1] + y) / 2, 0]), np.array([half[0], (half[1] - y) / 2, half[2]])))
    return boxes


def _arm_points(moment: Moment) -> tuple[Float[np.ndarray, "P 3"], Float[np.ndarray, "P"]]:
    capsules = hand_capsules(moment.arm.joints_in_world) + arm_capsules(moment.arm)[:1]
    start, end = (np.stack([capsule[k] for capsule in capsules]) for k in (0, 1))
    radius = np.array([capsule[2:] for capsule in capsules])
    points = (1 - _ALONG)[:, None, None] * start + _ALONG[:, None, None] * end
    radii = (1 - _ALONG)[:, None] * radius[:, 0] + _ALONG[:, None] * radius[:, 1]
    return points.reshape(-1, 3), radii.ravel()


def _surface_points(spec: ObjectSpec, pose: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "P 3"]:
    vertices = spec.mesh.vertices[:: max(1, len(spec.mesh.vertices) // 120)]
    return np.asarray(vertices @ pose[:3, :3].T + pose[:3, 3])


def _depth(local: np.ndarray, half: np.ndarray, radii: np.ndarray) -> float:
    """How deep balls around points are inside a box at the origin."""
    outside = np.abs(local) - half
    distance = np.linalg.norm(np.maximum(outside, 0.0), axis=1) + np.minimum(outside.max(axis=1), 0.0)
    return float(max(0.0, (radii - distance).max()))
