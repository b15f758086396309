"""Floaters: Gaussians that hang in space which the sensor saw to be empty."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64

from recon.config import ReconstructConfig
from recon.dynamic import tolerance_m
from recon.model import select
from recon.records import SplatModel
from recon.sensor import SensorNoise
from recon.views import View


@dataclass(frozen=True)
class FreeSpaceVotes:
    """Per point: views whose sensor sees a surface well behind it, that see one at it, and that see any there."""

    violating: Int64[np.ndarray, "N"]
    supporting: Int64[np.ndarray, "N"]
    looking: Int64[np.ndarray, "N"]

    def seen_through(self, config: ReconstructConfig) -> Bool[np.ndarray, "N"]:
        """Points that several views see through, and not only a few of those that can tell.

        What stood there for most of the time and then was taken away is no static scene either.
        """
        many = self.violating >= config.prune_violations
        return np.asarray(many & (self.violating > config.prune_violation_ratio * self.supporting))

    def of(self, keep: Bool[np.ndarray, "N"]) -> "FreeSpaceVotes":
        """The votes of some of the points."""
        return FreeSpaceVotes(self.violating[keep], self.supporting[keep], self.looking[keep])


@dataclass(frozen=True)
class Pruned:
    """A model without floaters, and how many went."""

    model: SplatModel
    removed: int


def free_space_votes(
    points_in_world: Float[np.ndarray, "N 3"], views: Sequence[View], noise: SensorNoise
) -> FreeSpaceVotes:
    """Compare points with every view's sensor depth. Moving pixels have none, so they do not vote.

    A view sees through a point only if all depths in the 3x3 pixels around are behind it by more than the noise.
    """
    violating = np.zeros(len(points_in_world), dtype=np.int64)
    supporting = np.zeros(len(points_in_world), dtype=np.int64)
    looking = np.zeros(len(points_in_world), dtype=np.int64)
    for view in views:
        at = view.landing(points_in_world)
        sensor, nearest = view.z_depth_m[at.v, at.u], minimum_3x3(view.z_depth_m)[at.v, at.u]
        with np.errstate(invalid="ignore"):
            tolerance = tolerance_m(at.z, noise)
            violating[at.rows] += nearest > at.z + tolerance
            supporting[at.rows] += np.abs(sensor - at.z) <= tolerance
            looking[at.rows] += np.isfinite(sensor)
    return FreeSpaceVotes(violating, supporting, looking)


def minimum_3x3(z_depth_m: Float32[np.ndarray, "H W"]) -> Float32[np.ndarray, "H W"]:
    """Smallest depth of the 3x3 pixels around; NaN if any of them inside the image is NaN."""
    from scipy import ndimage

    filled = np.where(np.isfinite(z_depth_m), z_depth_m, -np.inf)
    low = ndimage.minimum_filter(filled, size=3, mode="nearest")
    return np.where(np.isfinite(low), low, np.nan).astype(np.float32)


def prune_free_space(model: SplatModel, views: Sequence[View], config: ReconstructConfig, noise: SensorNoise) -> Pruned:
    """Remove Gaussians whose centre is seen through."""
    drop = free_space_votes(model.means_in_world, views, noise).seen_through(config)
    return Pruned(select(model, ~drop), int(drop.sum()))
