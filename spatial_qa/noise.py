"""How wrong a computed quantity may be: floors for systematic errors, and propagation of covariances."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

_STEP = 1e-4


@dataclass(frozen=True)
class Floors:
    """Standard deviations that are never gone below, whatever a trajectory claims.

    A box that was seen from one side is biased in centre and extent, and no covariance of its observations
    says so. Lengths are metres; without metric scale they are multiplied by ``SceneView.unit_m``.
    """

    center_m: float = 0.015
    """Per axis of every box centre."""
    displacement_m: float = 0.010
    """Per axis and end where two places of the SAME object are compared (much of the bias cancels)."""
    extent_m: float = 0.008
    """Per side of every box."""
    extent_fraction: float = 0.06
    """Per side of every box, as a fraction of that side."""
    shape_fraction: float = 0.10
    """Of the mean horizontal side, added to surface distances: a box is not the object, its yaw may be off."""
    camera_position_m: float = 0.010
    camera_angle_deg: float = 0.7
    up_deg: float = 0.3
    """Even where gravity is known."""
    gaze_deg: float = 1.0
    printed_time_s: float = 0.05
    """Times are printed with one decimal: what changes within this time is uncertain."""
    event_time_s: float = 0.10
    sigmas: float = 3.0
    """How many standard deviations a margin has to cover."""


@dataclass(frozen=True)
class Vector:
    """Three numbers with their covariance: a centre, a direction, the sides of a box."""

    value: Float[np.ndarray, "3"]
    covariance: Float[np.ndarray, "3 3"]


def direction(unit: Float[np.ndarray, "3"], sigma_rad: float) -> Vector:
    """A unit vector that may lean by ``sigma_rad`` to any side."""
    return Vector(unit, sigma_rad**2 * (np.eye(3) - np.outer(unit, unit)))


def propagate(
    quantity: Callable[..., np.ndarray], *vectors: Vector, period: float = 0.0
) -> tuple[Float[np.ndarray, "Q"], Float[np.ndarray, "Q"]]:
    """Value and standard deviation of ``quantity(*values)`` to first order, by central differences.

    The vectors are taken as independent of each other. All differences are taken in one call: the quantity gets
    a batch [P 3] for every vector and returns [P] or [P Q]. ``period`` > 0: differences are wrapped (angles).
    """
    count = len(vectors)
    batch = np.stack([np.tile(np.asarray(v.value, dtype=np.float64), (1 + 6 * count, 1)) for v in vectors])
    for i in range(count):
        for axis in range(3):
            row = 1 + 6 * i + 2 * axis
            batch[i, row, axis] += _STEP
            batch[i, row + 1, axis] -= _STEP
    results = np.asarray(quantity(*batch), dtype=np.float64).reshape(1 + 6 * count, -1)
    change = results[1::2] - results[2::2]  # [3 * count, Q]
    slopes = (wrap(change, period) if period else change).reshape(count, 3, -1) / (2 * _STEP)
    covariances = np.stack([vector.covariance for vector in vectors])
    variance = np.einsum("viq,vij,vjq->q", slopes, covariances, slopes)
    return results[0], np.sqrt(np.maximum(variance, 0.0))


def wrap(value: np.ndarray, period: float) -> np.ndarray:
    """Wrap to [-period/2, period/2)."""
    return np.asarray((np.asarray(value) + period / 2) % period - period / 2)
