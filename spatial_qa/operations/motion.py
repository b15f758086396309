"""Where things went: displacement between rests, direction of it, how often, which one most."""

import numpy as np

from spatial_qa.angles import bearing_deg, elevation_deg, level_length
from spatial_qa.decide import Measurement, scalar, sector
from spatial_qa.motion import displacement, relocation_margin, relocations, undecided
from spatial_qa.noise import propagate
from spatial_qa.operations.egocentric import MAX_PITCH_DEG
from spatial_qa.operations.registry import Operands, operation
from spatial_qa.operations.route import turn_within_print
from spatial_qa.operations.static import extreme
from spatial_qa.view import NotMeasurable, SceneView

MIN_DISPLACEMENT_M = 0.10  # templates ask from 0.15 m on


@operation("net_displacement", "ladder")
def net_displacement(view: SceneView, operands: Operands) -> Measurement:
    """Distance between the places of ``object`` at ``from_ns`` and ``to_ns``."""
    value, sigma = displacement(view, operands["object"], operands["from_ns"], operands["to_ns"])
    return scalar(value, sigma, view.floors.sigmas)


@operation("displacement_direction", "index")
def displacement_direction(view: SceneView, operands: Operands) -> Measurement:
    """Sector of the displacement of ``object`` in the wearer's heading frame of ``from_ns``; 0 = away, ahead."""
    first, second = (view.same_object_place(operands["object"], operands[name]) for name in ("from_ns", "to_ns"))
    viewer, up = view.viewer(operands["from_ns"]), view.up
    if abs(elevation_deg(viewer.forward.value, up.value)) > MAX_PITCH_DEG:
        raise NotMeasurable("heading_unknown_when_looking_down")
    if level_length(second.value - first.value, up.value) < MIN_DISPLACEMENT_M * view.unit_m:
        raise NotMeasurable("too_near")

    value, sigma = propagate(_shift, first, second, viewer.forward, up, period=360.0)
    total = float(np.hypot(sigma[0], turn_within_print(view, operands["from_ns"])))
    return sector(float(value[0]), total, view.floors.sigmas, 10.0)


def _shift(start: np.ndarray, end: np.ndarray, forward: np.ndarray, up: np.ndarray) -> np.ndarray:
    return bearing_deg(forward, end - start, up)


@operation("relocation_count", "index")
def relocation_count(view: SceneView, operands: Operands) -> Measurement:
    """How often ``object`` was put to rest at another place between ``from_ns`` and ``to_ns``.

    The margin is that of the passage whose verdict is least clear; without any passage it is the whole radius.
    """
    object_id, window = operands["object"], (operands["from_ns"], operands["to_ns"])
    verdicts = [(move, *relocation_margin(view, move)) for move in relocations(view, object_id, *window)]
    count = sum(moved for _, moved, _, _ in verdicts)
    answer = count if count < 8 else None
    if undecided(view, object_id, *window):
        return Measurement(count, answer, 0.0, 0.0, 1.0)
    if not verdicts:
        return Measurement(count, answer, 0.0, 1.0, 1.0)
    move, _, margin, required = min(verdicts, key=lambda verdict: verdict[2] - verdict[3])
    return Measurement(count, answer, move.sigma_m, margin, required)


@operation("moved_farthest", "object")
def moved_farthest(view: SceneView, operands: Operands) -> Measurement:
    """Which of ``candidates`` is farthest at ``to_ns`` from its own place at ``from_ns``, by 1.3 times."""
    found = [displacement(view, i, operands["from_ns"], operands["to_ns"]) for i in operands["candidates"]]
    values, sigma = np.array([v for v, _ in found]), np.array([s for _, s in found])
    between = np.hypot(sigma[:, None], sigma[None, :])
    floor = 0.05 * view.unit_m
    return extreme(values, between, view.floors.sigmas, floor, 1 - 1 / 1.3, largest=True)
