"""Directions about the vertical. Angles are degrees, clockwise seen from above: positive = to the right."""

import math

import numpy as np

Vec3 = np.ndarray  # [3]; not shape-checked: these are called some hundred thousand times per recording


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

    With forward = +y, direction = +x and up = +z it is +90. Both vectors' level parts count: their sine is
    up . (direction x forward), their cosine what is left of the dot product without the upright parts.
    """
    fx, fy, fz = forward.tolist()
    dx, dy, dz = direction.tolist()
    ux, uy, uz = up.tolist()
    length = math.sqrt(ux * ux + uy * uy + uz * uz)
    triple = ux * (dy * fz - dz * fy) + uy * (dz * fx - dx * fz) + uz * (dx * fy - dy * fx)
    upright = (fx * ux + fy * uy + fz * uz) * (dx * ux + dy * uy + dz * uz) / (length * length)
    return math.degrees(math.atan2(triple / length, fx * dx + fy * dy + fz * dz - upright))


def elevation_deg(direction: Vec3, up: Vec3) -> float:
    """Angle above the horizontal plane."""
    rise = float(direction @ (up / np.linalg.norm(up)))
    return float(np.degrees(np.arctan2(rise, level_length(direction, up))))


def pitch_deg(forward: Vec3, up: Vec3) -> float:
    """How far a camera looks above (+) or below (-) the horizontal."""
    return elevation_deg(forward, up)
