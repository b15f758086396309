"""Relations between things that lie still."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from spatial_qa.angles import bearing_deg, horizontal, level_length
from spatial_qa.decide import Measurement, critical, sector, signed_bin
from spatial_qa.noise import Vector, propagate
from spatial_qa.operations.metric import gaps_from, underside
from spatial_qa.operations.registry import Operands, operation
from spatial_qa.view import NotMeasurable, SceneView

MIN_GAP_M = 0.10
MIN_GAP_FRACTION = 0.15
MIN_HEIGHT_M = 0.08
MIN_COUNT_M = 0.05
MIN_BEARING_DEG = 5.0
MIN_SECTOR_DEG = 7.5


def extreme(
    values: np.ndarray, between: np.ndarray, sigmas: float, absolute: float, fraction: float, largest: bool
) -> Measurement:
    """The candidate with the smallest (largest) value; margin to the runner-up that is nearest to catching up."""
    best = int(np.argmax(values) if largest else np.argmin(values))
    rest = [i for i in range(len(values)) if i != best]
    gaps = np.abs(values[rest] - values[best])
    spread = between[best][rest]
    floor = max(absolute, fraction * float(abs(values[best])))
    sigma, margin, required = critical(gaps, spread, np.maximum(floor, sigmas * spread))
    return Measurement(values.tolist(), best, sigma, margin, required)


@operation("nearest_object", "object")
def nearest_object(view: SceneView, operands: Operands) -> Measurement:
    """Which of ``candidates`` is nearest to ``anchor``, surface to surface, at ``time_ns``."""
    return _by_distance(view, operands, largest=False)


@operation("farthest_object", "object")
def farthest_object(view: SceneView, operands: Operands) -> Measurement:
    """Which of ``candidates`` is farthest from ``anchor``, surface to surface, at ``time_ns``."""
    return _by_distance(view, operands, largest=True)


def _by_distance(view: SceneView, operands: Operands, largest: bool) -> Measurement:
    anchor = view.body(operands["anchor"], operands["time_ns"])
    others = [view.body(i, operands["time_ns"]) for i in operands["candidates"]]
    value, _, between = gaps_from(view, anchor, others)
    return extreme(value, between, view.floors.sigmas, MIN_GAP_M * view.unit_m, MIN_GAP_FRACTION, largest)


@operation("direction_standing_at", "index")
def direction_standing_at(view: SceneView, operands: Operands) -> Measurement:
    """Sector of ``target`` for one who stands at ``anchor`` and faces ``facing`` (about the vertical)."""
    time_ns, up = operands["time_ns"], view.up
    bodies = [view.body(operands[name], time_ns) for name in ("anchor", "facing", "target")]

    value, sigma = propagate(_seen_from_first, *(body.center for body in bodies), up, period=360.0)
    return sector(float(value[0]), float(sigma[0]), view.floors.sigmas, MIN_SECTOR_DEG)


@operation("turn_at_corner", "index")
def turn_at_corner(view: SceneView, operands: Operands) -> Measurement:
    """Signed bin of the turn at ``facing`` for one who comes straight from ``anchor`` and goes to ``target``."""
    time_ns, up = operands["time_ns"], view.up
    bodies = [view.body(operands[name], time_ns) for name in ("anchor", "facing", "target")]

    value, sigma = propagate(_turn_at_second, *(body.center for body in bodies), up, period=360.0)
    return signed_bin(float(value[0]), float(sigma[0]), view.floors.sigmas, 10.0)


def _seen_from_first(a: np.ndarray, b: np.ndarray, c: np.ndarray, vertical: np.ndarray) -> np.ndarray:
    return bearing_deg(b - a, c - a, vertical)


def _turn_at_second(a: np.ndarray, b: np.ndarray, c: np.ndarray, vertical: np.ndarray) -> np.ndarray:
    return bearing_deg(b - a, c - b, vertical)


@operation("order_left_to_right", "objects")
def order_left_to_right(view: SceneView, operands: Operands) -> Measurement:
    """Left-to-right order of ``candidates`` in the camera of ``time_ns``; by bearing about up as well, if known."""
    viewer = view.viewer(operands["time_ns"])
    centers = [view.body(i, operands["time_ns"]).center for i in operands["candidates"]]
    rotation = viewer.world_from_camera[:3, :3]

    found = order(lambda *v: _across(rotation, *v), [*centers, viewer.position], view.floors.sigmas, MIN_BEARING_DEG)
    if not view.scene.world.has_up:
        return found
    upright = _upright_order(view, centers, viewer.position, viewer.forward.value)
    return weaker(found, upright)


@operation("order_from_opposite_side", "objects")
def order_from_opposite_side(view: SceneView, operands: Operands) -> Measurement:
    """Left-to-right order of ``candidates`` for one who looks back at the wearer of ``time_ns`` from behind them."""
    viewer, up = view.viewer(operands["time_ns"]), view.up.value
    centers = [view.body(i, operands["time_ns"]).center for i in operands["candidates"]]
    middle = np.mean([center.value for center in centers], axis=0)
    toward = horizontal(middle - viewer.position.value, up)
    opposite = Vector(viewer.position.value + 2 * toward, viewer.position.covariance)
    from_there = _upright_order(view, centers, opposite, -toward)
    mirrored = _upright_order(view, centers, viewer.position, toward)
    return weaker(from_there, replace(mirrored, answer=tuple(reversed(mirrored.answer))))


def _across(rotation: np.ndarray, *values: np.ndarray) -> np.ndarray:
    """Angles [..., K] to the right of the optical axis, of K points seen from the last value."""
    local = (np.stack(values[:-1], axis=-2) - values[-1][..., None, :]) @ rotation
    return np.asarray(np.degrees(np.arctan2(local[..., 0], local[..., 2])))


def _bearings(forward: np.ndarray, *values: np.ndarray) -> np.ndarray:
    """Bearings [..., K] of K points from the last value but one, about the last."""
    away = np.stack(values[:-2], axis=-2) - values[-2][..., None, :]
    return bearing_deg(forward, away, values[-1][..., None, :])


def _upright_order(view: SceneView, centers: list[Vector], position: Vector, forward: np.ndarray) -> Measurement:
    vectors = [*centers, position, view.up]
    return order(lambda *v: _bearings(forward, *v), vectors, view.floors.sigmas, MIN_BEARING_DEG)


def weaker(first: Measurement, second: Measurement) -> Measurement:
    """Two readings of one question: if they disagree there is no margin, else the smaller spare one counts."""
    if first.answer != second.answer:
        return Measurement(first.value, first.answer, first.sigma, 0.0, first.required_margin)
    spare = [m.margin - m.required_margin for m in (first, second)]
    return first if spare[0] <= spare[1] else second


def order(quantity: Callable[..., np.ndarray], vectors: list[Vector], sigmas: float, min_gap: float) -> Measurement:
    """Rising order of the entries of a quantity; margin of the smallest gap between neighbours."""
    values = quantity(*(vector.value for vector in vectors))
    if not np.isfinite(values).all():
        raise NotMeasurable("order_unknown")
    ranks = np.argsort(values, kind="stable")
    gaps, spread = propagate(lambda *v: np.diff(quantity(*v)[..., ranks]), *vectors)
    sigma, margin, required = critical(gaps, spread, np.maximum(min_gap, sigmas * spread))
    return Measurement(values.tolist(), tuple(int(i) for i in ranks), sigma, margin, required)


@operation("highest_object", "object")
def highest_object(view: SceneView, operands: Operands) -> Measurement:
    """Which of ``candidates`` has the highest underside at ``time_ns``."""
    values, between = _undersides(view, operands)
    return extreme(values, between, view.floors.sigmas, MIN_HEIGHT_M * view.unit_m, 0.0, largest=True)


@operation("lowest_object", "object")
def lowest_object(view: SceneView, operands: Operands) -> Measurement:
    """Which of ``candidates`` has the lowest underside at ``time_ns``."""
    values, between = _undersides(view, operands)
    return extreme(values, between, view.floors.sigmas, MIN_HEIGHT_M * view.unit_m, 0.0, largest=False)


@operation("order_by_height", "objects")
def order_by_height(view: SceneView, operands: Operands) -> Measurement:
    """``candidates`` from the lowest to the highest underside at ``time_ns``."""
    values, between = _undersides(view, operands)
    ranks = np.argsort(values, kind="stable")
    gaps = np.diff(values[ranks])
    spread = between[ranks[:-1], ranks[1:]]
    floor = MIN_HEIGHT_M * view.unit_m
    sigma, margin, required = critical(gaps, spread, np.maximum(floor, view.floors.sigmas * spread))
    return Measurement(values.tolist(), tuple(int(i) for i in ranks), sigma, margin, required)


def _undersides(view: SceneView, operands: Operands) -> tuple[np.ndarray, np.ndarray]:
    """Heights of undersides and the sigmas of their differences [K K], with the tilt of up over their distance."""
    tilt = float(np.sqrt(view.up.covariance[0, 0]))
    bodies = [view.body(i, operands["time_ns"]) for i in operands["candidates"]]
    found = [underside(view, body) for body in bodies]
    sigma = np.array([s for _, s in found])
    places = np.stack([body.center.value[:2] for body in bodies])
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
    between = np.sqrt(sigma[:, None] ** 2 + sigma[None, :] ** 2 + (tilt * apart) ** 2)
    return np.array([height for height, _ in found]), between


@operation("count_within", "index")
def count_within(view: SceneView, operands: Operands) -> Measurement:
    """How many of ``candidates`` lie within ``radius_m`` of ``anchor``, surface to surface, at ``time_ns``."""
    anchor = view.body(operands["anchor"], operands["time_ns"])
    others = [view.body(i, operands["time_ns"]) for i in operands["candidates"]]
    value, sigma, _ = gaps_from(view, anchor, others)
    gaps = np.abs(value - operands["radius_m"])
    required = np.maximum(MIN_COUNT_M * view.unit_m, view.floors.sigmas * sigma)
    spread, margin, needed = critical(gaps, sigma, required)
    return Measurement(value.tolist(), int((value < operands["radius_m"]).sum()), spread, margin, needed)


@operation("largest_object", "object")
def largest_object(view: SceneView, operands: Operands) -> Measurement:
    """Which of ``candidates`` has the largest box by volume; compared in logarithms."""
    return _by_volume(view, operands, largest=True)


@operation("smallest_object", "object")
def smallest_object(view: SceneView, operands: Operands) -> Measurement:
    """Which of ``candidates`` has the smallest box by volume; compared in logarithms."""
    return _by_volume(view, operands, largest=False)


def _by_volume(view: SceneView, operands: Operands, largest: bool) -> Measurement:
    bodies = [view.body(i, operands["time_ns"]) for i in operands["candidates"]]
    sides = np.stack([body.extent.value for body in bodies])
    if not (sides > 0).all():
        raise NotMeasurable("box_unknown")
    relative = np.stack([np.sqrt(np.diag(body.extent.covariance)) for body in bodies]) / sides
    logs = np.log(sides).sum(axis=1)
    sigma = np.linalg.norm(relative, axis=1)
    between = np.hypot(sigma[:, None], sigma[None, :])
    return extreme(logs, between, view.floors.sigmas, float(np.log(1.25)), 0.0, largest)


def level_distance(view: SceneView, first: int, second: int, time_ns: int) -> float:
    """Level distance between two centres."""
    apart = view.body(first, time_ns).center.value - view.body(second, time_ns).center.value
    return float(level_length(apart, view.up.value))
