"""One rigid object, several rests: common side lengths, and every rest's box placed with them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from geo.boxes import Box3
from lifting.complete import RestFit
from lifting.config import LiftConfig
from lifting.fit_box import yaw_rotation


@dataclass(frozen=True)
class RestPlace:
    """A rest with its final box and the covariance of the box's centre."""

    fit: RestFit
    box: Box3
    covariance_m2: Float64[np.ndarray, "3 3"]


@dataclass(frozen=True)
class Body:
    """What is known of an object's shape."""

    extent_m: Float64[np.ndarray, "3"]
    extent_sigma_m: Float64[np.ndarray, "3"]
    points_in_box: Float64[np.ndarray, "K 3"]  # surface points seen at its best rest
    views: int


def reconcile(
    fits: list[RestFit], has_up: bool, config: LiftConfig, minutes: list[float]
) -> tuple[Body, list[RestPlace]]:
    """Common extent by weighted median (many and complete views count more), then a box per rest.

    ``minutes``: time since the recording's start at the middle of each rest, for the pose drift in the sigma.
    The list of fits must not be empty.
    """
    weights = np.array([1.0 / float(np.prod(f.extent_sigma_m + config.pose_sigma_m)) * min(f.views, 30) for f in fits])
    reference = fits[int(np.argmax(weights))]
    turned = [_matched(fit, reference.box.extent_m, has_up) for fit in fits]
    extents = np.stack([f.box.extent_m for f in turned])
    sigmas = np.stack([f.extent_sigma_m for f in turned])
    extent = np.array([_weighted_median(extents[:, k], min_views(turned) / sigmas[:, k] ** 2) for k in range(3)])
    spread = np.median(np.abs(extents - extent), axis=0) if len(fits) > 1 else np.zeros(3)
    extent_sigma = np.hypot(sigmas.min(axis=0), spread)
    places = [_place(fit, extent, has_up, config, t) for fit, t in zip(turned, minutes, strict=True)]
    best = places[int(np.argmax(weights))]
    local = (best.fit.points_in_world - best.box.center_in_world) @ best.box.world_from_box_rotation
    return Body(extent, extent_sigma, local, sum(f.views for f in fits)), places


def min_views(fits: list[RestFit]) -> Float64[np.ndarray, "S"]:
    """Views that count towards a weight: beyond 30 more of them add nothing."""
    return np.array([min(f.views, 30) for f in fits], dtype=np.float64)


def _weighted_median(values: Float64[np.ndarray, "S"], weights: Float64[np.ndarray, "S"]) -> float:
    """Value at half the total weight, interpolated between the middles of the steps."""
    order = np.argsort(values, kind="stable")
    cumulative = (np.cumsum(weights[order]) - 0.5 * weights[order]) / weights.sum()
    return float(np.interp(0.5, cumulative, values[order]))


def _matched(fit: RestFit, extent_m: Float64[np.ndarray, "3"], has_up: bool) -> RestFit:
    """The same box, turned by 90 degrees about z if its long and short sides then fit the reference better."""
    if not has_up:
        return fit
    own = fit.box.extent_m
    swapped = own[[1, 0, 2]]
    if np.abs(swapped - extent_m)[:2].sum() >= np.abs(own - extent_m)[:2].sum():
        return fit
    rotation = fit.box.world_from_box_rotation @ yaw_rotation(np.pi / 2)
    # new x = old y, new y = -old x
    low = np.array([fit.seen_low[1], fit.seen_high[0], fit.seen_low[2]])
    high = np.array([fit.seen_high[1], fit.seen_low[0], fit.seen_high[2]])
    return RestFit(
        fit.segment,
        Box3(fit.box.center_in_world, swapped, rotation),
        fit.points_in_world,
        low,
        high,
        fit.extent_sigma_m[[1, 0, 2]],
        fit.noise_sigma_m,
        fit.support,
        fit.views,
        fit.notes,
    )


def _place(
    fit: RestFit, extent_m: Float64[np.ndarray, "3"], has_up: bool, config: LiftConfig, minute: float
) -> RestPlace:
    """Box with the common extent: sides that were seen stay where they are, the rest grows or shrinks behind them."""
    rotation = fit.box.world_from_box_rotation
    shift = np.zeros(3)
    for axis in range(3):
        missing = extent_m[axis] - fit.box.extent_m[axis]
        if axis == 2 and has_up and fit.support is not None:
            shift[axis] = missing / 2  # the base stays on its support
        elif fit.seen_high[axis] and not fit.seen_low[axis]:
            shift[axis] = -missing / 2
        elif fit.seen_low[axis] and not fit.seen_high[axis]:
            shift[axis] = missing / 2
    center = fit.box.center_in_world + rotation @ shift
    drift = config.pose_drift_m_per_min * minute
    local = (fit.extent_sigma_m / 2) ** 2 + fit.noise_sigma_m**2 / 2 + config.pose_sigma_m**2 + drift**2 / 3
    covariance = rotation @ np.diag(local) @ rotation.T
    return RestPlace(fit, Box3(center, extent_m.copy(), rotation), covariance)
