"""What is known about the world frame: scale, and which way is up."""

import enum
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from geo import se3


class Gravity(enum.StrEnum):
    """How the direction of gravity is known."""

    KNOWN = "known"
    ESTIMATED = "estimated"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class World:
    """The world frame of a recording: metres if ``metric``, +z up unless gravity is unknown.

    ``world_from_source_world`` says how the frame of the recording's own files was turned to +z up.
    ``up_sigma_rad`` is the standard deviation of the up direction: 0 if known, NaN if unknown.
    """

    metric: bool
    gravity: Gravity
    up_sigma_rad: float = 0.0
    world_from_source_world: Float[np.ndarray, "4 4"] = field(default_factory=lambda: np.eye(4))

    @classmethod
    def without_up(cls, metric: bool) -> "World":
        """The world of files that do not say which way is up: their own, unturned."""
        return cls(metric=metric, gravity=Gravity.UNKNOWN, up_sigma_rad=float("nan"))

    @classmethod
    def with_up(cls, metric: bool, up_in_source: Float[np.ndarray, "3"]) -> "World":
        """The world of files that say which way is up (unit, in their own world), turned so that it is +z."""
        return cls(metric=metric, gravity=Gravity.KNOWN, world_from_source_world=turn_to_z_up(up_in_source))

    @property
    def has_up(self) -> bool:
        """True if +z may be used as up (then mind ``up_sigma_rad``)."""
        return self.gravity is not Gravity.UNKNOWN


def turn_to_z_up(up: Float[np.ndarray, "3"]) -> Float[np.ndarray, "4 4"]:
    """``rotation_to_z_up`` as a transform about the origin: takes the old world to the one with +z up."""
    return se3.from_rotation_translation(rotation_to_z_up(up), np.zeros(3))


def rotation_to_z_up(up: Float[np.ndarray, "3"]) -> Float[np.ndarray, "3 3"]:
    """Smallest rotation that takes a unit direction to +z (half a turn about x if it is -z)."""
    x, y, z = (float(value) for value in up)
    sine = float(np.hypot(x, y))
    if sine < 1e-12:
        return np.eye(3) if z > 0 else np.diag([1.0, -1.0, -1.0])
    angle = float(np.arctan2(sine, z))
    return se3.rotation_from_axis_angle(np.array([y, -x, 0.0]) / sine * angle)
