"""Coarse depth from pictures and poses alone: a plane sweep, for recordings without sensor depth or points.

Each view is compared with a few neighbours over planes parallel to it, equally spaced in inverse depth so that a step
is about one pixel of parallax against the widest neighbour. A depth is kept where the best plane stands out and where
other views' depths agree with it. Unit: the poses' (metres only if the world is metric).
Source: Collins (1996), "A space-sweep approach to true multi-image matching"; normalised cross-correlation as score.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Float32

from geo import se3
from recon.sensor import SensorNoise
from recon.survey import Progress
from recon.views import View

_PLANES = 192
_STEP_PX = 0.75  # parallax between two planes against the widest neighbour
_NEIGHBOURS = 5
_AMONG = 7  # nearest views that these are spread over: wide enough for parallax, near enough to show the same
_MAX_TURN_DEG = 40.0  # between the optical axes of a view and its neighbours
_WINDOW_PX = 7
_MIN_VARIANCE = 2e-5  # of grey levels (0..1) in a window: less is no texture
_MIN_SCORE = 0.55  # correlation
_MIN_LEAD = 0.04  # of the best plane over the best one elsewhere
_AGREE = 0.03  # relative difference of depths that count as the same
_MIN_AGREEING = 2  # other views
_RELATIVE_ERROR = 0.01


def sweep_views(views: Sequence[View], progress: Progress | None = None) -> list[View]:
    """The views with depth from their pictures in place of the sensor's, NaN where these do not tell.

    Fewer than three views, or views from one place, give no depth at all.
    """
    greys = [_grey(view) for view in views]
    found = []
    for index in range(len(views)):
        found.append(_sweep(index, views, greys))
        if progress is not None:
            progress(index + 1, len(views), "sweep")
    return [replace(view, z_depth_m=_agreed(index, views, found)) for index, view in enumerate(views)]


def sweep_noise(views: Sequence[View]) -> SensorNoise:
    """Error of swept depth in the world's own unit: one percent at the median depth, growing with its square."""
    depths = [view.z_depth_m[np.isfinite(view.z_depth_m)] for view in views]
    typical = float(np.median(np.concatenate(depths))) if any(len(z) for z in depths) else 1.0
    return SensorNoise(_RELATIVE_ERROR / 2 * typical, _RELATIVE_ERROR / 2 / typical)


def _grey(view: View) -> Float32[np.ndarray, "H W"]:
    import cv2

    return np.asarray(cv2.cvtColor(view.rgb, cv2.COLOR_RGB2GRAY), np.float32) / np.float32(255)


def neighbours_of(index: int, views: Sequence[View], most: int = _NEIGHBOURS) -> list[int]:
    """Views that look the same way from elsewhere, nearest first, the same place never twice."""
    axis, eye = views[index].world_from_camera[:3, 2], views[index].world_from_camera[:3, 3]
    eyes = np.stack([view.world_from_camera[:3, 3] for view in views])
    axes = np.stack([view.world_from_camera[:3, 2] for view in views])
    away = np.linalg.norm(eyes - eye, axis=1)
    facing = np.degrees(np.arccos(np.clip(axes @ axis, -1, 1)))
    usual = np.median(away[away > 0]) if (away > 0).any() else 0.0
    fit = np.flatnonzero((facing < _MAX_TURN_DEG) & (away > 0.02 * usual))
    chosen: list[int] = []
    for other in fit[np.argsort(away[fit], kind="stable")].tolist():
        if all(np.linalg.norm(eyes[other] - eyes[known]) > 0.02 * usual for known in chosen):
            chosen.append(other)
    among = chosen[: max(_AMONG, most)]
    if not among:
        return []
    picks = np.unique(np.linspace(0, len(among) - 1, min(most, len(among))).round().astype(int))
    return [among[i] for i in picks.tolist()]


def _sweep(
    index: int, views: Sequence[View], greys: Sequence[Float32[np.ndarray, "H W"]]
) -> Float32[np.ndarray, "H W"]:
    """Winner over the planes; NaN without texture, without a clear winner, or where no neighbour sees."""
    view, grey = views[index], greys[index]
    others = neighbours_of(index, views)
    none = np.full(grey.shape, np.nan, dtype=np.float32)
    if len(others) < 2:
        return none
    widest = max(
        float(np.linalg.norm(views[o].world_from_camera[:3, 3] - view.world_from_camera[:3, 3])) for o in others
    )
    inverse_step = _STEP_PX / (view.camera.fx_px * widest)
    inverses = (0.5 + np.arange(_PLANES)) * inverse_step
    mean, variance = _moments(grey)
    scores = np.stack(
        [_plane_score(view, grey, mean, variance, [(views[o], greys[o]) for o in others], w) for w in inverses]
    )
    best = scores.argmax(axis=0)
    rows, cols = np.indices(best.shape)
    top = scores[best, rows, cols]
    near = np.abs(np.arange(_PLANES)[:, None, None] - best) <= round(2 / _STEP_PX)
    lead = top - np.where(near, -1.0, scores).max(axis=0)
    inner = np.clip(best, 1, _PLANES - 2)
    a, b, c = (scores[inner + k, rows, cols] for k in (-1, 0, 1))
    bend = a - 2 * b + c
    shift = np.where(bend < -1e-6, 0.5 * (a - c) / np.where(bend < -1e-6, bend, 1.0), 0.0).clip(-0.5, 0.5)
    z = 1.0 / ((0.5 + inner + shift) * inverse_step)
    sure = (best > 0) & (best < _PLANES - 1) & (top > _MIN_SCORE) & (lead > _MIN_LEAD) & (variance > _MIN_VARIANCE)
    return np.where(sure & view.static, z, np.nan).astype(np.float32)


def _moments(grey: Float32[np.ndarray, "H W"]) -> tuple[Float32[np.ndarray, "H W"], Float32[np.ndarray, "H W"]]:
    mean = _box(grey)
    return mean, np.maximum(_box(grey * grey) - mean * mean, 0.0)


def _box(image: Float32[np.ndarray, "H W"]) -> Float32[np.ndarray, "H W"]:
    import cv2

    return np.asarray(cv2.blur(image, (_WINDOW_PX, _WINDOW_PX)))


def _plane_score(
    view: View,
    grey: Float32[np.ndarray, "H W"],
    mean: Float32[np.ndarray, "H W"],
    variance: Float32[np.ndarray, "H W"],
    others: Sequence[tuple[View, Float32[np.ndarray, "H W"]]],
    inverse_depth: float,
) -> Float32[np.ndarray, "H W"]:
    """Mean of the better half of the neighbours' correlations on one plane (the others may be hidden); -1 unseen."""
    import cv2

    scores = []
    for other, picture in others:
        warp = _plane_homography(view, other, inverse_depth)
        size = (grey.shape[1], grey.shape[0])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        moved = np.asarray(cv2.warpPerspective(picture, warp, size, flags=flags, borderValue=-1.0))
        seen = moved >= 0
        other_mean, other_variance = _moments(moved)
        covariance = _box(grey * moved) - mean * other_mean
        score = covariance / np.sqrt(np.maximum(variance * other_variance, 1e-10))
        scores.append(np.where(seen & (other_variance > _MIN_VARIANCE), score, -1.0))
    ranked = np.sort(np.stack(scores), axis=0)[::-1]
    return np.asarray(ranked[: max(2, len(others) // 2)].mean(axis=0), dtype=np.float32)


def _plane_homography(view: View, other: View, inverse_depth: float) -> Float[np.ndarray, "3 3"]:
    """Pixels of a view to pixels of another over the plane z = 1 / inverse_depth of the first."""
    other_from_view = se3.inverse(other.world_from_camera) @ view.world_from_camera
    turn = other_from_view[:3, :3].copy()
    turn[:, 2] += other_from_view[:3, 3] * inverse_depth
    return np.asarray(other.camera.matrix @ turn @ np.linalg.inv(view.camera.matrix))


def _agreed(
    index: int, views: Sequence[View], depths: Sequence[Float32[np.ndarray, "H W"]]
) -> Float32[np.ndarray, "H W"]:
    """Depth that enough other views confirm at the place where they would see it."""
    view, z = views[index], depths[index]
    rows, cols = np.nonzero(np.isfinite(z))
    out = np.full_like(z, np.nan)
    if not len(rows):
        return out
    values = z[rows, cols].astype(np.float64)
    rays = view.camera.normalised_points(np.stack([cols, rows], axis=1).astype(np.float64))
    points = se3.transform_points(view.world_from_camera, rays * values[:, None])
    agreeing = np.zeros(len(rows), dtype=np.int64)
    for number in neighbours_of(index, views, 2 * _NEIGHBOURS):
        at = views[number].landing(points)
        with np.errstate(invalid="ignore"):
            agreeing[at.rows] += np.abs(depths[number][at.v, at.u] - at.z) < _AGREE * at.z
    keep = agreeing >= _MIN_AGREEING
    out[rows[keep], cols[keep]] = values[keep]
    return out
