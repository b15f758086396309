"""The first model from sparse points that SLAM or structure from motion measured."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from geo.recording import ScenePoints
from recon.config import ReconstructConfig
from recon.init import Initial, surface_splats
from recon.model import empty_model
from recon.sensor import SensorNoise
from recon.views import View

_MIN_POINTS = 30
_MAX_RELATIVE_SIGMA = 0.1  # of the distance to the nearest view
_LARGEST = 3.0  # splats are at most for this many times the usual spacing: they do not bridge every gap
_LONELY = 8.0  # points whose neighbours are this many times farther away than usual are outliers
_NEIGHBOURS = 4
_MIN_VIEWS = 2
_RELATIVE_ERROR = 0.01


def splats_from_points(points: ScenePoints, views: Sequence[View], config: ReconstructConfig) -> Initial:
    """Flat splats at the points that at least two views look at; thinned at random (seeded) beyond the budget.

    Points with a large stated error and lonely ones are left out. Colours are the points' own or the mean of what
    the views show there (points are not tested for being hidden). Too few points give an empty model.
    """
    gains = np.ones((len(views), 3), dtype=np.float32)
    places = points.points_in_world.astype(np.float64)
    looked = _looks(places, views)
    with np.errstate(invalid="ignore"):
        sure = ~(points.sigma_m > _MAX_RELATIVE_SIGMA * looked.nearest)
    keep = np.flatnonzero((looked.views >= _MIN_VIEWS) & sure)
    if len(keep) > config.max_gaussians:
        keep = np.sort(np.random.default_rng(config.seed).choice(keep, config.max_gaussians, replace=False))
    if len(keep) < _MIN_POINTS:
        return Initial(empty_model(), gains)
    spacing = _neighbour_distance(places[keep])
    usual = float(np.median(spacing))
    near = spacing < _LONELY * usual
    keep, spacing = keep[near], np.maximum(spacing[near], 1e-6 * usual)
    rgb = looked.rgb[keep] if points.colours is None else points.colours[keep] / 255.0
    return Initial(surface_splats(places[keep], rgb, np.minimum(spacing, _LARGEST * usual)), gains)


@dataclass(frozen=True)
class _Looks:
    views: Int64[np.ndarray, "P"]  # how many look at a point
    nearest: Float[np.ndarray, "P"]  # distance along +z of the nearest one, infinite if none
    rgb: Float[np.ndarray, "P 3"]  # mean colour, 0..1


def _looks(points_in_world: Float[np.ndarray, "P 3"], views: Sequence[View]) -> _Looks:
    count = np.zeros(len(points_in_world), dtype=np.int64)
    nearest = np.full(len(points_in_world), np.inf)
    total = np.zeros((len(points_in_world), 3))
    for view in views:
        at = view.landing(points_in_world)
        shown = view.static[at.v, at.u]
        rows = at.rows[shown]
        count[rows] += 1
        nearest[rows] = np.minimum(nearest[rows], at.z[shown])
        total[rows] += view.rgb[at.v[shown], at.u[shown]] / 255.0
    return _Looks(count, nearest, total / np.maximum(count, 1)[:, None])


def _neighbour_distance(points_in_world: Float[np.ndarray, "P 3"]) -> Float[np.ndarray, "P"]:
    """Mean distance to the nearest few other points."""
    from scipy.spatial import cKDTree

    found, _ = cKDTree(points_in_world).query(points_in_world, k=_NEIGHBOURS + 1, workers=1)
    return np.asarray(found[:, 1:].mean(axis=1))


def points_noise(points: ScenePoints, views: Sequence[View]) -> SensorNoise:
    """Error of placed points in the world's own unit: one percent of the usual distance, growing with its square."""
    eyes = np.stack([view.world_from_camera[:3, 3] for view in views])
    places = points.points_in_world[np.isfinite(points.points_in_world).all(axis=1)]
    typical = float(np.median(np.linalg.norm(places - eyes.mean(axis=0), axis=1))) if len(places) else 1.0
    return SensorNoise(_RELATIVE_ERROR / 2 * typical, _RELATIVE_ERROR / 2 / max(typical, 1e-9))
