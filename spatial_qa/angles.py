"""Directions about the vertical. Angles are degrees, clockwise seen from above: positive = to the right.

All functions take single vectors [3] or batches [..., 3]. Their shapes are left to broadcasting and not checked:
they are the inner loop of the propagation of uncertainty.
"""

import numpy as np


def horizontal(vector: np.ndarray, up: np.ndarray) -> np.ndarray:
    """The part of vectors that is level; ``up`` need not be of unit length."""
    unit = up / np.linalg.norm(up, axis=-1, keepdims=True)
    return np.asarray(vector - (vector * unit).sum(axis=-1, keepdims=True) * unit)


def level_length(vector: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Length of the level part."""
    return np.asarray(np.linalg.norm(horizontal(vector, up), axis=-1))


def bearing_deg(forward: np.ndarray, direction: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Angle from ``forward`` to ``direction`` about ``up``, in (-180, 180], positive to the right.

    With forward = +y, direction = +x and up = +z it is +90. Both vectors' level parts count: their sine is
    up . (direction x forward), their cosine what is left of the dot product without the upright parts.
    """
    unit = up / np.linalg.norm(up, axis=-1, keepdims=True)
    dx, dy, dz = direction[..., 0], direction[..., 1], direction[..., 2]
    fx, fy, fz = forward[..., 0], forward[..., 1], forward[..., 2]
    sine = unit[..., 0] * (dy * fz - dz * fy) + unit[..., 1] * (dz * fx - dx * fz) + unit[..., 2] * (dx * fy - dy * fx)
    upright = (forward * unit).sum(axis=-1) * (direction * unit).sum(axis=-1)
    return np.asarray(np.degrees(np.arctan2(sine, (forward * direction).sum(axis=-1) - upright)))


def elevation_deg(direction: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Angle above the horizontal plane."""
    unit = up / np.linalg.norm(up, axis=-1, keepdims=True)
    return np.asarray(np.degrees(np.arctan2((direction * unit).sum(axis=-1), level_length(direction, up))))
