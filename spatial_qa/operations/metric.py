"""Lengths and their ratios: scalars that a ladder decides."""

from collections.abc import Callable

import numpy as np

from spatial_qa.decide import Measurement, scalar
from spatial_qa.gaps import surface_gap
from spatial_qa.noise import propagate
from spatial_qa.operations.registry import Operands, operation
from spatial_qa.view import Body, NotMeasurable, SceneView, Viewer


def gaps_from(view: SceneView, anchor: Body, others: list[Body]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Surface distances from one body to others [K], their sigmas [K], and those of their differences [K K].

    In a difference the anchor's own uncertainty largely cancels.
    """
    a, side_a = anchor.center, anchor.extent
    found = [
        surface_gap(a.value, side_a.value, anchor.rotation, o.center.value, o.extent.value, o.rotation) for o in others
    ]
    normals, sides = np.stack([gap.normal for gap in found]), np.stack([gap.per_side_a for gap in found])
    shape = np.array([_shape_sigma(view, body) for body in others])
    own = shape**2 + np.array(
        [
            gap.normal @ o.center.covariance @ gap.normal + gap.per_side_b @ o.extent.covariance @ gap.per_side_b
            for gap, o in zip(found, others, strict=True)
        ]
    )

    single = np.sqrt(own + _anchors_part(anchor, normals, sides) + _shape_sigma(view, anchor) ** 2)
    shared = _anchors_part(anchor, normals[:, None] - normals[None], sides[:, None] - sides[None])
    between = np.sqrt(own[:, None] + own[None, :] + shared)
    return np.array([gap.distance_m for gap in found]), single, between


def _anchors_part(anchor: Body, normals: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """Variance that the anchor's centre and sides bring into distances (or differences of them)."""
    through_center = np.einsum("...i,ij,...j->...", normals, anchor.center.covariance, normals)
    return np.asarray(through_center + np.einsum("...i,ij,...j->...", sides, anchor.extent.covariance, sides))


def _shape_sigma(view: SceneView, body: Body) -> float:
    """A box is not the object: its corners stand out, its yaw may be off."""
    return view.floors.shape_fraction * float(body.extent.value[:2].mean())


@operation("surface_distance", "ladder")
def surface_distance(view: SceneView, operands: Operands) -> Measurement:
    """Shortest distance between the boxes of ``object`` and ``other`` at ``time_ns``."""
    time_ns = operands["time_ns"]
    anchor, other = view.body(operands["object"], time_ns), view.body(operands["other"], time_ns)
    value, sigma, _ = gaps_from(view, anchor, [other])
    return scalar(float(value[0]), float(sigma[0]), view.floors.sigmas)


@operation("longest_side", "ladder")
def longest_side(view: SceneView, operands: Operands) -> Measurement:
    """Length of the longest side of ``object``'s box."""
    body = view.body(operands["object"], operands["time_ns"])
    side = int(np.argmax(body.extent.value))
    sigma = float(np.sqrt(body.extent.covariance[side, side]))
    return scalar(float(body.extent.value[side]), sigma, view.floors.sigmas)


@operation("distance_to_wearer", "ladder")
def distance_to_wearer(view: SceneView, operands: Operands) -> Measurement:
    """Distance from the camera to the centre of ``object`` at ``time_ns``."""
    time_ns = operands["time_ns"]
    body, viewer = view.body(operands["object"], time_ns), view.viewer(time_ns)
    value, sigma = propagate(_distance, body.center, viewer.position)
    drift = printed_time_sigma(view, time_ns, lambda at: float(_distance(body.center.value, at.position.value)))
    return scalar(float(value[0]), float(np.hypot(sigma[0], drift)), view.floors.sigmas)


@operation("height_above_floor", "ladder")
def height_above_floor(view: SceneView, operands: Operands) -> Measurement:
    """Height of the underside of ``object`` above the floor at ``time_ns``."""
    surfaces, up = view.scene.lifted.surfaces, view.up
    if not np.isfinite(surfaces.floor_height_m):
        raise NotMeasurable("floor_not_seen")
    body = view.body(operands["object"], operands["time_ns"])
    base, sigma = underside(view, body)
    # A tilted up direction turns the distance between object and floor below the camera path into height.
    reach = float(np.linalg.norm(body.center.value[:2] - _middle_of_path(view)))
    tilt = float(np.sqrt(up.covariance[0, 0])) * reach
    residual = np.nan_to_num(surfaces.floor_residual_m, nan=0.0)
    total = float(np.sqrt(sigma**2 + tilt**2 + residual**2))
    return scalar(base - surfaces.floor_height_m, total, view.floors.sigmas)


@operation("distance_ratio", "ladder")
def distance_ratio(view: SceneView, operands: Operands) -> Measurement:
    """Distance ``anchor``-``object`` over ``anchor``-``other``, between centres."""
    time_ns = operands["time_ns"]
    anchor, first, second = (view.body(operands[name], time_ns) for name in ("anchor", "object", "other"))

    value, sigma = propagate(_ratio, anchor.center, first.center, second.center)
    return scalar(float(value[0]), float(sigma[0]), view.floors.sigmas)


def underside(view: SceneView, body: Body) -> tuple[float, float]:
    """Height of a box's lowest side in world z, and its sigma."""
    reach = np.abs(body.rotation[2]) @ body.extent.value / 2
    side = np.abs(body.rotation[2]) @ np.sqrt(np.diag(body.extent.covariance)) / 2
    sigma = float(np.hypot(np.sqrt(body.center.covariance[2, 2]), side))
    return float(body.center.value[2] - reach), sigma


def printed_time_sigma(
    view: SceneView, time_ns: int, quantity: Callable[[Viewer], float], period: float = 0.0
) -> float:
    """How much a quantity of the camera changes within the printed time's uncertainty.

    ``quantity(viewer)`` is read in the neighbouring frames; a frame without pose counts as no change.
    """
    frame, stamps = view.frame(time_ns), view.scene.timestamps_ns
    here = quantity(view.viewer_at_frame(frame))
    worst = 0.0
    for other in (frame - 1, frame + 1):
        if not 0 <= other < len(stamps) or not view.posed[other]:
            continue
        change = quantity(view.viewer_at_frame(other)) - here
        if period:
            change = (change + period / 2) % period - period / 2
        step_s = abs(int(stamps[other]) - int(stamps[frame])) / 1e9
        worst = max(worst, abs(change) * min(1.0, view.floors.printed_time_s / max(step_s, 1e-9)))
    return float(worst)


def _distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(a - b, axis=-1))


def _ratio(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return np.asarray(_distance(a, b) / np.maximum(_distance(a, c), 1e-9))


def _middle_of_path(view: SceneView) -> np.ndarray:
    middle: np.ndarray = view.scene.world_from_camera[view.posed][:, :2, 3].mean(axis=0)
    return middle
