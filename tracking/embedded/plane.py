"""The surface that an object rests on, found around it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32

_TRIES = 96
_MIN_SHARE = 0.08


@dataclass(frozen=True)
class Plane:
    """Points with ``normal . x = offset_m`` in world; heights are positive on the camera's side."""

    normal_in_world: Float[np.ndarray, "3"]
    offset_m: float

    def height_m(self, points_in_world: Float[np.ndarray, "*batch 3"]) -> Float[np.ndarray, "*batch"]:
        """Signed height over the plane; NaN stays NaN."""
        return np.asarray(points_in_world @ self.normal_in_world - self.offset_m)


def sensor_sigma_m(z_m: np.ndarray | np.floating | float) -> np.ndarray:
    """A cautious model of structured-light noise: 3 mm + 4 mm/m^2 (z - 0.4 m)^2 (Nguyen et al. 2012, shape)."""
    return np.asarray(0.003 + 0.004 * np.maximum(np.asarray(z_m) - 0.4, 0.0) ** 2)


def find_support(
    points_in_world: Float32[np.ndarray, "h w 3"],
    seed_in_world: Float[np.ndarray, "3"],
    camera_in_world: Float[np.ndarray, "3"],
    up_in_world: Float[np.ndarray, "3"] | None,
    exclude: Bool[np.ndarray, "h w"] | None = None,
    reach_m: float = 0.35,
    tolerance_m: float | None = None,
) -> Plane | None:
    """The plane with most points near the seed that the seed lies on or above; None if there is none.

    RANSAC over triples with an own fixed seed; where up is known only planes within 15 degrees of level
    count. Refined by least squares on its inliers. ``tolerance_m`` None takes what one depth image's noise asks for.
    """
    usable = np.isfinite(points_in_world).all(-1)
    if exclude is not None:
        usable &= ~exclude
    near = usable.copy()
    near[usable] = np.linalg.norm(points_in_world[usable] - seed_in_world, axis=-1) < reach_m
    cloud = points_in_world[near].astype(np.float64)
    if len(cloud) < 60:
        return None
    rng = np.random.default_rng(7)
    if len(cloud) > 4000:
        cloud = cloud[rng.choice(len(cloud), 4000, replace=False)]
    if tolerance_m is None:
        tolerance_m = max(0.005, 1.5 * float(sensor_sigma_m(float(np.linalg.norm(seed_in_world - camera_in_world)))))
    tolerance = tolerance_m
    best: tuple[float, np.ndarray, float] | None = None
    for triple in rng.integers(0, len(cloud), (_TRIES, 3)):
        plane = _through(cloud[triple], camera_in_world, up_in_world)
        if plane is None:
            continue
        normal, offset = plane
        height = cloud @ normal - offset
        seed_height = float(seed_in_world @ normal - offset)
        below = float((height < -2.5 * tolerance).mean())
        share = float((np.abs(height) < tolerance).mean()) - 0.5 * below
        if not -1.5 * tolerance < seed_height < 0.35 or share < _MIN_SHARE:
            continue
        if best is None or share > best[0]:
            best = (share, normal, offset)
    if best is None:
        return None
    return refined_plane(cloud, best[1], best[2], tolerance)


def _through(
    triple: Float[np.ndarray, "3 3"], camera: Float[np.ndarray, "3"], up: Float[np.ndarray, "3"] | None
) -> tuple[np.ndarray, float] | None:
    normal = np.cross(triple[1] - triple[0], triple[2] - triple[0])
    length = float(np.linalg.norm(normal))
    if length < 1e-6:
        return None
    normal = normal / length
    if float(normal @ (camera - triple[0])) < 0:
        normal = -normal
    if up is not None and float(normal @ up) < 0.966:
        return None
    return normal, float(normal @ triple[0])


def refined_plane(
    cloud: Float[np.ndarray, "K 3"], normal: Float[np.ndarray, "3"], offset: float, tolerance: float
) -> Plane:
    """Least squares on the points within ``tolerance`` of a plane, again and again; stops before it tips over."""
    for scale in (2.0, 1.5, 1.2, 1.0, 1.0, 1.0):
        inliers = cloud[np.abs(cloud @ normal - offset) < scale * tolerance]
        if len(inliers) < 20:
            break
        center = inliers.mean(0)
        axis = np.linalg.eigh(np.cov((inliers - center).T))[1][:, 0]
        axis = axis if float(axis @ normal) > 0 else -axis
        if float(axis @ normal) < 0.96:
            break
        normal, offset = axis, float(axis @ center)
    return Plane(normal, offset)
