"""Directions about the vertical. Angles are degrees, clockwise seen from above: positive = to the right."""

import numpy as np
from jaxtyping import Float

Vec3 = Float[np.ndarray, "3"]


def horizontal(vector: Vec3, up: Vec3) -> Vec3:
    """The part of a vector that is level; ``up`` need not be of unit length."""
    unit = up / np.linalg.norm(up)
    level: Vec3 = vector - (vector @ unit) * unit
    return level


def level_length(vector: Vec3, up: Vec3) -> float:
    """Length of the level part."""
    return float(np.linalg.norm(horizontal(vector, up)))


def bearing_deg(forward: Vec3, direction: Vec3, up: Vec3) -> float:
    """Angle from ``forward`` to ``direction`` about ``up``, in (-180, 180], positive to the right.

    With forward = +y, direction = +x and up = +z it is +90: cross(x, y) = z.
    """
    ahead, aside = horizontal(forward, up), horizontal(direction, up)
    sine = float(np.cross(aside, ahead) @ (up / np.linalg.norm(up)))
    return float(np.degrees(np.arctan2(sine, ahead @ aside)))


def elevation_deg(direction: Vec3, up: Vec3) -> float:
    """Angle above the horizontal plane."""
    rise = float(direction @ (up / np.linalg.norm(up)))
    return float(np.degrees(np.arctan2(rise, level_length(direction, up))))


def pitch_deg(forward: Vec3, up: Vec3) -> float:
    """How far a camera looks above (+) or below (-) the horizontal."""
    return elevation_deg(forward, up)
