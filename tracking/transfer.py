"""Points on surfaces: from a pixel to space by the sensor's depth, and on to other frames while nothing moves."""

import numpy as np
from jaxtyping import Float, Float32

from geo import se3
from geo.recording import CanonicalRecording
from tracking.base import SceneDepthLike
from tracking.records import Grounding

_REACH_PX = 2
_MIN_PIXELS = 4


def _spread_limit_m(z_m: float) -> float:
    """A patch with more spread than noise makes lies on an edge in depth: the point may be off the object."""
    return 0.02 + 0.012 * max(0.0, z_m - 0.4) ** 2


class SurfacePoints:
    """Lifts groundings to space and carries them between frames."""

    def __init__(self, canonical: CanonicalRecording, scene_depth: SceneDepthLike | None) -> None:
        self._canonical, self._scene_depth = canonical, scene_depth

    def in_world(self, grounding: Grounding) -> Float[np.ndarray, "3"]:
        """Where a point lies in space, by the sensor or (without any) the static scene; NaN if unknown."""
        return self._lift(grounding.frame, grounding.point_xy_px, strict=False)

    def transferred(
        self, grounding: Grounding, frame: int, within_m: float, of: Float[np.ndarray, "3"]
    ) -> Grounding | None:
        """The same spot of a thing at rest as a grounding of another frame.

        None unless the sensor sees the spot in both frames, flat enough to be sure of it, within ``within_m`` of
        the place ``of``: a thing that was moved in between leaves air where the point was, and fails this.
        """
        place = self._lift(grounding.frame, grounding.point_xy_px, strict=True)
        pose = self._canonical.world_from_camera[frame]
        if not np.isfinite(place).all() or not np.isfinite(pose).all() or np.linalg.norm(place - of) > within_m:
            return None
        projection = self._canonical.camera.project(se3.transform_points(se3.inverse(pose), place))
        if not projection.valid or not self._canonical.camera.in_image(projection.pixels_xy):
            return None
        x, y = (float(value) for value in projection.pixels_xy)
        there = self._lift(frame, (x, y), strict=True)
        distance_m = float(np.linalg.norm(place - pose[:3, 3]))
        if not np.linalg.norm(there - place) < _spread_limit_m(distance_m):
            return None
        return Grounding(grounding.label, frame, (x, y), grounding.positive)

    def _lift(self, frame: int, point_xy_px: tuple[float, float], strict: bool) -> Float[np.ndarray, "3"]:
        pose = self._canonical.world_from_camera[frame]
        if self._scene_depth is None or not np.isfinite(pose).all():
            return np.full(3, np.nan)
        ray = self._canonical.camera.normalised_points(np.array(point_xy_px))
        values = self._patch(self._scene_depth.sensor(frame), ray)
        if strict:
            spread = float(np.ptp(np.percentile(values, [10, 90]))) if len(values) >= _MIN_PIXELS else float("inf")
            if not spread <= _spread_limit_m(float(np.median(values)) if len(values) else 0.0):
                return np.full(3, np.nan)
        if len(values) == 0:
            values = self._patch(self._scene_depth.static(frame).median_z_m, ray)
        if len(values) == 0:
            return np.full(3, np.nan)
        return np.asarray(se3.transform_points(pose, ray * float(np.percentile(values, 40))))

    def _patch(self, depth: Float32[np.ndarray, "h w"], ray: Float[np.ndarray, "3"]) -> np.ndarray:
        assert self._scene_depth is not None
        camera = self._scene_depth.camera
        u = round(float(ray[0] * camera.fx_px + camera.cx_px))
        v = round(float(ray[1] * camera.fy_px + camera.cy_px))
        rows, cols = (
            slice(max(0, v - _REACH_PX), max(0, v + _REACH_PX + 1)),
            slice(max(0, u - _REACH_PX), max(0, u + _REACH_PX + 1)),
        )
        patch = depth[rows, cols]
        return np.asarray(patch[np.isfinite(patch)])
