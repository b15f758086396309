"""Oriented boxes in space: corners, containment, overlap, surface distance. Fitting them is lifting's."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Box3:
    """An oriented box. ``extent_m`` = full side lengths (l, w, h) along the box's own x, y, z axes."""

    center_in_world: Float[np.ndarray, "3"]
    extent_m: Float[np.ndarray, "3"]
    world_from_box_rotation: Float[np.ndarray, "3 3"]
