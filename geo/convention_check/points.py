"""Points of the scene against depth images: is a point where the picture that sees it has depth?

Points hidden behind something nearer, or outside the picture, say nothing; the median of the others does. Without depth
images nobody says which picture sees which point, and this evidence is not used.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from geo import se3
from geo.convention_check.pairs import posed_rows, poses_of
from geo.convention_check.records import Measured
from geo.depth import sample_depth
from geo.recording import Recording

LIMIT = 0.5
_FLOOR = 1e-4
_FRAMES = 16
_POINTS = 20_000
_MIN_SEEN = 30


@dataclass(frozen=True)
class PointViews:
    """Depth images with poses, and a sample of the scene's points."""

    rows: Int64[np.ndarray, "F"]
    points_in_world: Float[np.ndarray, "P 3"]
    evidence: str = "points of the scene against depth"
    unit: str = "of the depth"
    plausible: float = 0.05

    def measure(self, recording: Recording) -> Measured:
        """Median of |z of a point - z seen there| / z per depth image."""
        depth = recording.depth
        assert depth is not None
        world_from_camera = poses_of(recording.trajectory, depth.timestamps_ns[self.rows]) @ depth.reference_from_camera
        residuals = [
            self._residual(pose, recording, int(row)) for pose, row in zip(world_from_camera, self.rows, strict=True)
        ]
        return Measured(np.array(residuals), np.arange(len(residuals), dtype=np.int64), float("nan"))

    def _residual(self, world_from_camera: Float[np.ndarray, "4 4"], recording: Recording, row: int) -> float:
        assert recording.depth is not None
        if not np.isfinite(world_from_camera).all():
            return LIMIT
        points = se3.transform_points(se3.inverse(world_from_camera), self.points_in_world)
        points = points[points[:, 2] > 0]
        pixels = recording.depth.camera.project(points).pixels_xy
        seen = sample_depth(recording.depth.frames.read(row), pixels, interpolate=False)
        with np.errstate(invalid="ignore"):
            errors = np.abs(points[:, 2] - seen) / points[:, 2]
            visible = np.isfinite(errors) & (points[:, 2] < 1.1 * seen)
        if visible.sum() < _MIN_SEEN:
            return LIMIT
        return float(np.clip(np.median(errors[visible]), _FLOOR, LIMIT))


def point_views(recording: Recording) -> PointViews | None:
    """None without points, or without at least three depth images that have poses."""
    if recording.points is None or recording.depth is None or len(recording.points.points_in_world) < _MIN_SEEN:
        return None
    rows = posed_rows(recording.trajectory, recording.depth.timestamps_ns)
    if len(rows) < 3:
        return None
    chosen = rows[np.unique(np.linspace(0, len(rows) - 1, _FRAMES).astype(np.int64))]
    points = recording.points.points_in_world
    points = points[np.isfinite(points).all(axis=1)]
    return PointViews(chosen, points[:: max(1, len(points) // _POINTS)])
