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
    quantity: Callable[..., Float[np.ndarray, "Q"]], *vectors: Vector, period: float = 0.0
) -> tuple[Float[np.ndarray, "Q"], Float[np.ndarray, "Q"]]:
    """Value and standard deviation of ``quantity(*values)`` to first order, by central differences.

    The vectors are taken as independent of each other. ``period`` > 0: differences are wrapped (angles).
    """
    values = [np.asarray(vector.value, dtype=np.float64) for vector in vectors]
    base = np.atleast_1d(quantity(*values))
    variance = np.zeros_like(base)
    for position, vector in enumerate(vectors):
        if not vector.covariance.any():
            continue
        columns = []
        for axis in range(3):
            shift = np.zeros(3)
            shift[axis] = _STEP
            plus = quantity(*values[:position], values[position] + shift, *values[position + 1 :])
            minus = quantity(*values[:position], values[position] - shift, *values[position + 1 :])
            change = np.atleast_1d(plus) - np.atleast_1d(minus)
            columns.append((wrap(change, period) if period else change) / (2 * _STEP))
        jacobian = np.stack(columns, axis=-1)
        variance = variance + np.einsum("qi,ij,qj->q", jacobian, vector.covariance, jacobian)
    return base, np.sqrt(variance)


def wrap(value: Float[np.ndarray, "Q"], period: float) -> Float[np.ndarray, "Q"]:
    """Wrap to [-period/2, period/2)."""
    return (np.asarray(value) + period / 2) % period - period / 2
