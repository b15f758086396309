"""Where an object's model is in a frame in which it moves: bounded ICP of its points to what is seen."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64

from lifting.config import LiftConfig
from lifting.fit_box import yaw_rotation
from lifting.observe import Observation

_ITERATIONS = 15
_KEPT_SHARE = 0.8
_MAX_TURN_PER_FRAME = np.radians(25.0)
_MIN_POINTS_FOR_YAW = 80
_MIN_ELONGATION = 1.3


@dataclass(frozen=True)
class Registration:
    """Pose of the box's frame in world, how well points and model agree, and whether the turn was measured."""

    center_in_world: Float64[np.ndarray, "3"]
    rotation: Float64[np.ndarray, "3 3"]
    residual_m: float
    yaw_measured: bool


class BodyModel:
    """Surface points of an object in its box's frame, ready for nearest-neighbour questions."""

    def __init__(self, points_in_box: Float64[np.ndarray, "K 3"], extent_m: Float64[np.ndarray, "3"]) -> None:
        from scipy.spatial import cKDTree

        self.points_in_box = points_in_box
        self.extent_m = extent_m
        self.tree = cKDTree(points_in_box) if len(points_in_box) else None

    def visible_center(
        self,
        camera_in_world: Float64[np.ndarray, "3"],
        center: Float64[np.ndarray, "3"],
        rotation: Float64[np.ndarray, "3 3"],
    ) -> Float64[np.ndarray, "3"]:
        """Median, in world from the box's centre, of the model points that the camera sees (nearest per direction)."""
        towards = rotation.T @ (camera_in_world - center)
        towards = towards / max(float(np.linalg.norm(towards)), 1e-9)
        side = np.cross(towards, [0.0, 0.0, 1.0] if abs(towards[2]) < 0.9 else [1.0, 0.0, 0.0])
        side = side / np.linalg.norm(side)
        up = np.cross(side, towards)
        depth = -(self.points_in_box @ towards)
        cell_m = max(0.01 * float(np.max(self.extent_m)) * 5, 1e-6)
        cells = np.floor(np.stack([self.points_in_box @ side, self.points_in_box @ up], axis=1) / cell_m).astype(
            np.int64
        )
        _, inverse = np.unique(cells, axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        nearest = np.full(int(inverse.max()) + 1, np.inf)
        np.minimum.at(nearest, inverse, depth)
        front = depth <= nearest[inverse] + cell_m
        return np.asarray(rotation @ np.median(self.points_in_box[front], axis=0))


def register(
    model: BodyModel,
    observation: Observation,
    center: Float64[np.ndarray, "3"],
    rotation: Float64[np.ndarray, "3 3"],
    has_up: bool,
    config: LiftConfig,
) -> Registration:
    """Fit translation, and yaw where the shape shows it, starting from the last pose.

    Starts with the centre shift that puts the model's visible side onto the observed points, then trimmed
    point-to-point ICP (Besl & McKay 1992; trimmed: Chetverikov 2002). Turns are bounded per frame.
    """
    points = np.asarray(observation.points_in_world, dtype=np.float64)
    if model.tree is None:
        return Registration(np.median(points, axis=0), rotation, float("nan"), False)
    center = np.median(points, axis=0) - model.visible_center(observation.camera_in_world, center, rotation)
    start = rotation
    long, short = np.sort(model.extent_m[:2])[::-1]
    turns = has_up and len(points) >= _MIN_POINTS_FOR_YAW and long > _MIN_ELONGATION * max(short, 1e-6)
    residual = float("nan")
    for step in range(_ITERATIONS):
        local = (points - center) @ rotation
        distance, index = model.tree.query(local)
        kept = distance <= np.quantile(distance, _KEPT_SHARE)
        residual = float(np.sqrt(np.mean(distance[kept] ** 2)))
        source, target = local[kept], model.points_in_box[index[kept]]
        if turns and step >= 3:
            rotation = rotation @ yaw_rotation(-_yaw_between(source, target))
            rotation = _bounded(start, rotation)
            local = (points - center) @ rotation
            source = local[kept]
        shift = rotation @ (source - target).mean(axis=0)
        center = center + shift
        if float(np.linalg.norm(shift)) < 1e-5 and step > 5:
            break
    return Registration(center, rotation, residual, bool(turns))


def _yaw_between(source: Float[np.ndarray, "K 3"], target: Float[np.ndarray, "K 3"]) -> float:
    """Turn about z that takes ``source`` to ``target`` best (2D Procrustes)."""
    a = source[:, :2] - source[:, :2].mean(axis=0)
    b = target[:, :2] - target[:, :2].mean(axis=0)
    return float(np.arctan2((a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]).sum(), (a * b).sum()))


def _bounded(start: Float64[np.ndarray, "3 3"], rotation: Float64[np.ndarray, "3 3"]) -> Float64[np.ndarray, "3 3"]:
    """Clip the turn relative to the start."""
    relative = start.T @ rotation
    yaw = float(np.arctan2(relative[1, 0], relative[0, 0]))
    return np.asarray(start @ yaw_rotation(float(np.clip(yaw, -_MAX_TURN_PER_FRAME, _MAX_TURN_PER_FRAME))))
