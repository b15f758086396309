"""Directions as the wearer has them at a moment. The wearer's heading is the camera's axis, made level."""

import numpy as np

from spatial_qa.angles import bearing_deg, elevation_deg
from spatial_qa.decide import Measurement, band, sector, signed_bin
from spatial_qa.noise import propagate
from spatial_qa.operations.metric import printed_time_sigma
from spatial_qa.operations.registry import Operands, operation
from spatial_qa.view import NotMeasurable, SceneView

ELEVATION_EDGES_DEG = (-60.0, -45.0, -30.0, -15.0, 0.0, 15.0, 30.0)
BEHIND_DEG = 135.0
MAX_PITCH_DEG = 65.0  # templates ask up to 60 degrees


def bearing_from_wearer(view: SceneView, object_id: int, time_ns: int) -> tuple[float, float]:
    """Bearing of an object's centre from the wearer's heading at a moment, and its sigma, in degrees."""
    body, viewer, up = view.body(object_id, time_ns), view.viewer(time_ns), view.up
    if abs(elevation_deg(viewer.forward.value, up.value)) > MAX_PITCH_DEG:
        raise NotMeasurable("heading_unknown_when_looking_down")

    value, sigma = propagate(_bearing, body.center, viewer.position, viewer.forward, up, period=360.0)

    center = body.center.value
    drift = printed_time_sigma(
        view,
        time_ns,
        lambda o: float(_bearing(center, o.position.value, o.forward.value, up.value)),
        period=360.0,
    )
    return float(value[0]), float(np.hypot(sigma[0], drift))


def _bearing(center: np.ndarray, position: np.ndarray, forward: np.ndarray, up: np.ndarray) -> np.ndarray:
    return bearing_deg(forward, center - position, up)


def _elevation(center: np.ndarray, position: np.ndarray, up: np.ndarray) -> np.ndarray:
    return elevation_deg(center - position, up)


@operation("direction_from_wearer", "index")
def direction_from_wearer(view: SceneView, operands: Operands) -> Measurement:
    """Sector of ``object`` for the wearer at ``time_ns``."""
    value, sigma = bearing_from_wearer(view, operands["object"], operands["time_ns"])
    return sector(value, sigma, view.floors.sigmas, 7.5)


@operation("turn_to_face", "index")
def turn_to_face(view: SceneView, operands: Operands) -> Measurement:
    """Signed bin of the turn that makes the wearer face ``object`` at ``time_ns``."""
    value, sigma = bearing_from_wearer(view, operands["object"], operands["time_ns"])
    return signed_bin(value, sigma, view.floors.sigmas, 6.0)


@operation("elevation_from_wearer", "index")
def elevation_from_wearer(view: SceneView, operands: Operands) -> Measurement:
    """Band of the elevation of ``object``'s centre above the camera's level at ``time_ns``."""
    body, viewer = view.body(operands["object"], operands["time_ns"]), view.viewer(operands["time_ns"])
    up = view.up

    value, sigma = propagate(_elevation, body.center, viewer.position, up)

    drift = printed_time_sigma(
        view, operands["time_ns"], lambda o: float(_elevation(body.center.value, o.position.value, up.value))
    )
    total = float(np.hypot(sigma[0], drift))
    return band(float(value[0]), total, ELEVATION_EDGES_DEG, view.floors.sigmas, 4.0)


@operation("object_behind", "object")
def object_behind(view: SceneView, operands: Operands) -> Measurement:
    """The only one of ``candidates`` that is behind the wearer (more than 135 degrees aside) at ``time_ns``."""
    found = [bearing_from_wearer(view, i, operands["time_ns"]) for i in operands["candidates"]]
    aside = np.abs([value for value, _ in found])
    sigma = np.array([s for _, s in found])
    behind = np.flatnonzero(aside > BEHIND_DEG)
    gaps = np.abs(aside - BEHIND_DEG)
    required = np.maximum(10.0, view.floors.sigmas * sigma)
    worst = int(np.argmin(gaps - required))
    answer = int(behind[0]) if len(behind) == 1 else None
    return Measurement(aside.tolist(), answer, float(sigma[worst]), float(gaps[worst]), float(required[worst]))
