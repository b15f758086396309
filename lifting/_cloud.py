"""A growing point model of an object that lies still: voxels that several views agree on."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

_OFFSET = 1 << 20  # keys of voxel indices stay positive: 21 bits a coordinate


class VoxelCloud:
    """Points averaged per voxel, with the number of views that put points there."""

    def __init__(self, voxel_m: float) -> None:
        self.voxel_m = voxel_m
        self.views = 0
        self._keys: Int64[np.ndarray, "V"] = np.zeros(0, dtype=np.int64)
        self._sums: Float64[np.ndarray, "V 3"] = np.zeros((0, 3))
        self._points: Float64[np.ndarray, "V"] = np.zeros(0)
        self._view_counts: Int64[np.ndarray, "V"] = np.zeros(0, dtype=np.int64)
        self._tree: Any = None

    def add(self, points: Float[np.ndarray, "K 3"]) -> None:
        """Add the points of one view."""
        if len(points) == 0:
            return
        points = np.asarray(points, dtype=np.float64)
        cells = np.floor(points / self.voxel_m).astype(np.int64) + _OFFSET
        keys = (cells[:, 0] << 42) | (cells[:, 1] << 21) | cells[:, 2]
        fresh, inverse = np.unique(keys, return_inverse=True)
        counts = np.bincount(inverse, minlength=len(fresh)).astype(np.float64)
        sums = np.stack([np.bincount(inverse, points[:, i], len(fresh)) for i in range(3)], axis=1)
        merged, index = np.unique(np.concatenate([self._keys, fresh]), return_inverse=True)
        size = len(merged)
        all_sums = np.concatenate([self._sums, sums])
        self._sums = np.stack([np.bincount(index, all_sums[:, i], size) for i in range(3)], axis=1)
        self._points = np.bincount(index, np.concatenate([self._points, counts]), size)
        hits = np.concatenate([self._view_counts, np.ones(len(fresh), dtype=np.int64)])
        self._view_counts = np.bincount(index, hits, size).astype(np.int64)
        self._keys = merged
        self.views += 1
        self._tree = None

    @property
    def means(self) -> Float64[np.ndarray, "V 3"]:
        """Mean point of every voxel."""
        return np.asarray(self._sums / np.maximum(self._points, 1.0)[:, None])

    @property
    def view_counts(self) -> Int64[np.ndarray, "V"]:
        """Views per voxel."""
        return self._view_counts

    def agreed(self) -> Bool[np.ndarray, "V"]:
        """Voxels that two views share (all of them while there are fewer than four views)."""
        if self.views < 4:
            return np.ones(len(self._keys), dtype=bool)
        enough = self._view_counts >= 2
        return enough if enough.sum() >= 10 else np.ones(len(self._keys), dtype=bool)

    def distances(self, points: Float[np.ndarray, "K 3"]) -> Float64[np.ndarray, "K"]:
        """Distance of each point to the nearest voxel mean; inf if there is none."""
        from scipy.spatial import cKDTree

        if len(self._keys) == 0:
            return np.full(len(points), np.inf)
        if self._tree is None:
            self._tree = cKDTree(self.means[self.agreed()])
        distance: Float64[np.ndarray, "K"] = self._tree.query(np.asarray(points, dtype=np.float64))[0]
        return distance

    def shift_of(self, points: Float[np.ndarray, "K 3"]) -> Float64[np.ndarray, "3"]:
        """Translation by which points lie off this model (trimmed point-to-point ICP without rotation).

        Started from no shift and from the difference of the medians, which a partial view biases; the better fit
        counts.
        """
        points = np.asarray(points, dtype=np.float64)
        if len(self._keys) == 0 or len(points) == 0:
            return np.zeros(3)
        self.distances(points[:1])
        targets = self.means[self.agreed()]
        starts = (np.zeros(3), np.median(points, axis=0) - np.median(targets, axis=0))
        return min((self._icp(points, targets, start) for start in starts), key=lambda found: found[0])[1]

    def _icp(
        self, points: Float64[np.ndarray, "K 3"], targets: Float64[np.ndarray, "V 3"], start: Float64[np.ndarray, "3"]
    ) -> tuple[float, Float64[np.ndarray, "3"]]:
        """Trimmed mean distance and the translation found from a start."""
        total, rest = start.copy(), np.inf
        for _ in range(15):
            distance, index = self._tree.query(points - total)
            kept = distance <= np.quantile(distance, 0.8)
            rest = float(distance[kept].mean())
            step = (points[kept] - total - targets[index[kept]]).mean(axis=0)
            total = total + step
            if float(np.linalg.norm(step)) < 1e-5:
                break
        return rest, total
