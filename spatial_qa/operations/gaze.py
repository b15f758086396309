"""Relations to where the wearer looks."""

import numpy as np

from spatial_qa.decide import Measurement, sector
from spatial_qa.noise import propagate
from spatial_qa.operations.registry import Operands, operation
from spatial_qa.view import NotMeasurable, SceneView, nearest_row

MAX_GAZE_AGE_NS = 60_000_000
MIN_ASIDE_DEG = 3.0  # templates ask from 5 degrees on


def gaze_point(view: SceneView, time_ns: int) -> np.ndarray:
    """Gaze in canonical pixels at a moment."""
    gaze = view.scene.gaze
    if gaze is None or not len(gaze.timestamps_ns):
        raise NotMeasurable("no_gaze")
    row = nearest_row(gaze.timestamps_ns, time_ns)
    point: np.ndarray = gaze.points_xy_px[row]
    if abs(int(gaze.timestamps_ns[row]) - time_ns) > MAX_GAZE_AGE_NS or not np.isfinite(point).all():
        raise NotMeasurable("no_gaze")
    return point


def _pixel(matrix: np.ndarray, local: np.ndarray) -> np.ndarray:
    ahead = local[..., :2] / np.where(local[..., 2:] > 0, local[..., 2:], np.nan)
    return np.asarray(ahead * np.diag(matrix)[:2] + matrix[:2, 2])


@operation("direction_from_gaze", "index")
def direction_from_gaze(view: SceneView, operands: Operands) -> Measurement:
    """Sector in the picture, from the gaze point to the centre of ``object``: 0 = up, clockwise.

    The margin is an angle in the picture; gaze and centre are uncertain by a disc each.
    """
    frame = view.frame(operands["time_ns"])
    body, viewer = view.body(operands["object"], operands["time_ns"]), view.viewer_at_frame(frame)
    point = gaze_point(view, operands["time_ns"])
    matrix, rotation = view.scene.camera_matrix, viewer.world_from_camera[:3, :3]

    center, spread = propagate(lambda c, p: _pixel(matrix, (c - p) @ rotation), body.center, viewer.position)
    if not np.isfinite(center).all():
        raise NotMeasurable("behind_the_camera")
    away = center - point
    length = float(np.linalg.norm(away))
    focal = float(matrix[0, 0])
    gaze_sigma = focal * np.radians(np.hypot(view.floors.gaze_deg, view.floors.camera_angle_deg))
    sigma = float(np.degrees(np.hypot(spread.max(), gaze_sigma) / max(length, 1e-9)))
    if length < focal * np.radians(MIN_ASIDE_DEG):
        raise NotMeasurable("looked_at")
    return sector(float(np.degrees(np.arctan2(away[0], -away[1]))), sigma, view.floors.sigmas, 7.5)
