"""What is remembered of an object: surface points in its own frame, their colours, and who disagreed."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64

_MAX_COUNT = 24.0
_MAX_VIEWS = 64
_GRID = 1 << 20


@dataclass
class ObjectModel:
    """Points on a voxel grid with colour features, hits (seen in the mask) and misses (seen outside it)."""

    voxel_m: float
    points_in_object: Float32[np.ndarray, "K 3"] = field(default_factory=lambda: np.zeros((0, 3), np.float32))
    features: Float32[np.ndarray, "K 3"] = field(default_factory=lambda: np.zeros((0, 3), np.float32))
    hits: Float32[np.ndarray, "K"] = field(default_factory=lambda: np.zeros(0, np.float32))
    misses: Float32[np.ndarray, "K"] = field(default_factory=lambda: np.zeros(0, np.float32))
    view_directions: list[Float[np.ndarray, "3"]] = field(default_factory=list)

    def copy(self) -> "ObjectModel":
        """An independent copy."""
        return ObjectModel(
            self.voxel_m,
            self.points_in_object.copy(),
            self.features.copy(),
            self.hits.copy(),
            self.misses.copy(),
            list(self.view_directions),
        )

    @property
    def trusted(self) -> Bool[np.ndarray, "K"]:
        """Points that were seen in the mask at least twice more often than outside it (once is noise)."""
        return np.asarray(self.hits >= self.misses + 2.0)

    @property
    def center(self) -> Float[np.ndarray, "3"]:
        """Middle of the trusted points' bounds (robust), in the object frame."""
        low, high = self.bounds
        return np.asarray((low + high) / 2)

    @property
    def bounds(self) -> tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3"]]:
        """Robust bounds of the trusted points (1st and 99th percentile)."""
        points = self.points_in_object[self.trusted]
        points = points if len(points) else self.points_in_object
        low, high = np.percentile(points, [1, 99], axis=0)
        return low, high

    @property
    def size_m(self) -> float:
        """Longest side of the bounds."""
        low, high = self.bounds
        return float((high - low).max())

    def novelty_rad(self, direction_in_object: Float[np.ndarray, "3"]) -> float:
        """Angle to the nearest direction that the object was seen from."""
        if not self.view_directions:
            return float(np.pi)
        dots = np.stack(self.view_directions) @ direction_in_object
        return float(np.arccos(np.clip(dots.max(), -1, 1)))

    def add_view(self, direction_in_object: Float[np.ndarray, "3"], min_angle_rad: float = 0.08) -> None:
        """Remember a viewing direction unless one near it is known."""
        if len(self.view_directions) < _MAX_VIEWS and self.novelty_rad(direction_in_object) > min_angle_rad:
            self.view_directions.append(direction_in_object)

    def fuse(self, points_in_object: Float32[np.ndarray, "P 3"], features: Float32[np.ndarray, "P 3"]) -> None:
        """Add what one view saw in the mask: one hit per voxel, running means of place and colour."""
        if len(points_in_object) == 0:
            return
        keys, inverse = np.unique(_keys(points_in_object, self.voxel_m), return_inverse=True)
        inverse = inverse.ravel()
        count = np.bincount(inverse).astype(np.float32)
        place = _mean(points_in_object, inverse, count)
        colour = _mean(features, inverse, count)
        own = _keys(self.points_in_object, self.voxel_m)
        order = np.argsort(own, kind="stable")
        at = np.searchsorted(own[order], keys)
        known = np.zeros(len(keys), bool)
        inside = at < len(own)
        known[inside] = own[order][at[inside]] == keys[inside]
        target = order[at[known]]
        share = 1.0 / np.minimum(self.hits[target] + 1.0, 12.0)
        moved = self.points_in_object[target] * (1 - share[:, None]) + place[known] * share[:, None]
        same = _keys(moved, self.voxel_m) == keys[known]
        self.points_in_object[target[same]] = moved[same]
        self.features[target] = self.features[target] * (1 - share[:, None]) + colour[known] * share[:, None]
        self.hits[target] = np.minimum(self.hits[target] + 1.0, _MAX_COUNT)
        fresh = ~known
        self.points_in_object = np.concatenate([self.points_in_object, place[fresh]])
        self.features = np.concatenate([self.features, colour[fresh]])
        self.hits = np.concatenate([self.hits, np.ones(int(fresh.sum()), np.float32)])
        self.misses = np.concatenate([self.misses, np.zeros(int(fresh.sum()), np.float32)])

    def miss(self, index: Int64[np.ndarray, "M"]) -> None:
        """Count one miss for points that were seen outside the mask, and forget the hopeless."""
        hit = np.unique(index)
        self.misses[hit] = np.minimum(self.misses[hit] + 1.0, _MAX_COUNT)
        hopeless = self.misses > 3 * self.hits + 3
        if hopeless.any():
            keep = ~hopeless
            self.points_in_object, self.features = self.points_in_object[keep], self.features[keep]
            self.hits, self.misses = self.hits[keep], self.misses[keep]


def _keys(points: Float32[np.ndarray, "P 3"], voxel_m: float) -> Int64[np.ndarray, "P"]:
    cells = np.floor(points / voxel_m).astype(np.int64) + _GRID // 2
    return np.asarray((cells[:, 0] * _GRID + cells[:, 1]) * _GRID + cells[:, 2])


def _mean(values: np.ndarray, inverse: np.ndarray, count: np.ndarray) -> np.ndarray:
    columns = [np.bincount(inverse, values[:, i], minlength=len(count)) / count for i in range(values.shape[1])]
    return np.stack(columns, axis=-1).astype(np.float32)
