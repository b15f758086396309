"""The wearer's own way: headings and places of the camera at two moments, and the path between them."""

import numpy as np

from spatial_qa.angles import bearing_deg, elevation_deg, level_length
from spatial_qa.decide import Measurement, scalar, sector
from spatial_qa.noise import propagate
from spatial_qa.operations.egocentric import MAX_PITCH_DEG
from spatial_qa.operations.metric import printed_time_sigma
from spatial_qa.operations.registry import Operands, operation
from spatial_qa.view import NotMeasurable, SceneView, Viewer

SMOOTH_S = 0.5
PATH_SIGMA_FRACTION = 0.03
MIN_MOVE_M = 0.15
DOMINANCE = 1.7
STILL_M = 0.05
MIN_SPOT_TURN_DEG = 20.0
MAX_TURN_DEG = 30.0
MIN_AWAY_M = 0.4  # templates ask from 0.5 m on


def _ends(view: SceneView, operands: Operands) -> tuple[Viewer, Viewer]:
    first, second = view.viewer(operands["from_ns"]), view.viewer(operands["to_ns"])
    for viewer in (first, second):
        if abs(elevation_deg(viewer.forward.value, view.up.value)) > MAX_PITCH_DEG:
            raise NotMeasurable("heading_unknown_when_looking_down")
    return first, second


@operation("heading_change", "index")
def heading_change(view: SceneView, operands: Operands) -> Measurement:
    """Sector of the heading at ``to_ns`` seen from the heading at ``from_ns``."""
    first, second = _ends(view, operands)

    value, sigma = propagate(bearing_deg, first.forward, second.forward, view.up, period=360.0)
    rate = np.hypot(turn_within_print(view, operands["from_ns"]), turn_within_print(view, operands["to_ns"]))
    return sector(float(value[0]), float(np.hypot(sigma[0], rate)), view.floors.sigmas, 7.5)


def turn_within_print(view: SceneView, time_ns: int) -> float:
    """Turn of the heading, in degrees, within the uncertainty of a printed time."""
    here, up = view.viewer(time_ns).forward.value, view.up.value
    return printed_time_sigma(view, time_ns, lambda v: float(bearing_deg(here, v.forward.value, up)), period=360.0)


@operation("start_from_end", "index")
def start_from_end(view: SceneView, operands: Operands) -> Measurement:
    """Sector in which the wearer's place of ``from_ns`` lies for the wearer at ``to_ns``."""
    first, second = _ends(view, operands)

    value, sigma = propagate(_way_back, first.position, second.position, second.forward, view.up, period=360.0)
    away = level_length(second.position.value - first.position.value, view.up.value)
    if away < MIN_AWAY_M * view.unit_m:
        raise NotMeasurable("too_near")
    total = float(np.hypot(sigma[0], turn_within_print(view, operands["to_ns"])))
    return sector(float(value[0]), total, view.floors.sigmas, 7.5)


def _way_back(start: np.ndarray, end: np.ndarray, forward: np.ndarray, up: np.ndarray) -> np.ndarray:
    return bearing_deg(forward, start - end, up)


@operation("distance_walked", "ladder")
def distance_walked(view: SceneView, operands: Operands) -> Measurement:
    """Length of the smoothed level path of the camera from ``from_ns`` to ``to_ns``."""
    start, stop = view.frame(operands["from_ns"]), view.frame(operands["to_ns"])
    if not view.posed[start : stop + 1].all():
        raise NotMeasurable("camera_pose_unknown")
    stamps = view.scene.timestamps_ns[start : stop + 1]
    path = view.scene.world_from_camera[start : stop + 1, :2, 3]
    steps = np.linalg.norm(np.diff(_smoothed(path, (stamps - stamps[0]) / 1e9), axis=0), axis=1)
    length = float(steps.sum())
    sigma = float(np.hypot(PATH_SIGMA_FRACTION * length, 2 * view.floors.camera_position_m * view.unit_m))
    return scalar(length, sigma, view.floors.sigmas)


def _smoothed(path: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Mean over SMOOTH_S, read off every half of it: noise of the poses adds no length."""
    marks = np.arange(0.0, seconds[-1] + 1e-9, SMOOTH_S / 2)
    weights = np.abs(seconds[None, :] - marks[:, None]) <= SMOOTH_S / 2 + 1e-6
    smooth: np.ndarray = (weights @ path) / np.maximum(weights.sum(axis=1), 1)[:, None]
    return smooth


@operation("camera_motion", "index")
def camera_motion(view: SceneView, operands: Operands) -> Measurement:
    """Dominant motion of the camera from ``from_ns`` to ``to_ns`` in the camera axes of ``from_ns``.

    0 right, 1 left, 2 up, 3 down, 4 forward, 5 backward; 6 turned right on the spot, 7 turned left on the spot.
    A camera that goes somewhere and turns a lot on the way has no main motion.
    """
    first, second = _ends(view, operands)
    local = (second.position.value - first.position.value) @ first.world_from_camera[:3, :3]
    sigma = float(np.sqrt(2) * view.floors.camera_position_m * view.unit_m)
    length, unit = float(np.linalg.norm(local)), view.unit_m
    if length < (STILL_M + MIN_MOVE_M) / 2 * unit:
        return _spot_turn(view, first, second, length, sigma)
    turned = float(np.degrees(np.arccos(np.clip(first.forward.value @ second.forward.value, -1, 1))))
    if turned > MAX_TURN_DEG:
        raise NotMeasurable("moved_and_turned")
    sizes = np.abs(local)
    axis = int(np.argmax(sizes))
    runner_up = float(np.sort(sizes)[-2])
    index = (0, 2, 4)[axis] + int((local[axis] < 0) != (axis == 1))  # camera y points down: -y is up
    lead = float(sizes[axis]) - DOMINANCE * runner_up
    tilt = np.radians(view.floors.camera_angle_deg) * length
    spread = float(np.hypot(sigma, tilt) * np.hypot(1.0, DOMINANCE))
    enough = float(sizes[axis]) - MIN_MOVE_M * unit
    margin = min(lead, enough + view.floors.sigmas * spread)
    return Measurement(local.tolist(), index, spread, margin, view.floors.sigmas * spread)


def _spot_turn(view: SceneView, first: Viewer, second: Viewer, length: float, sigma: float) -> Measurement:
    turn = float(bearing_deg(first.forward.value, second.forward.value, view.up.value))
    spread = float(np.sqrt(2) * view.floors.camera_angle_deg)
    still = length <= STILL_M * view.unit_m and sigma < STILL_M * view.unit_m
    margin = abs(turn) if still else 0.0
    required = max(MIN_SPOT_TURN_DEG, view.floors.sigmas * spread)
    return Measurement(turn, 6 if turn > 0 else 7, spread, margin, required)
