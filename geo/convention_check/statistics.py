"""Which of two readings fits better, and by how many standard errors."""

from dataclasses import dataclass

import numpy as np

from geo.convention_check.records import Measured

MIN_SIGMAS = 3.0
BETTER = 0.85  # a look-alike counts as better only below this part of the claimed residual
WORSE = 1.05  # and the claim counts as proved only if its look-alike's residual is this much larger
_DRAWS = 400


@dataclass(frozen=True)
class Comparison:
    """Mean of log(other / claimed) over the evidence, and its standard error."""

    log_ratio: float
    sigma: float
    pairs: int

    @property
    def other_is_better(self) -> bool:
        """Beyond chance, and by enough to matter."""
        return bool(self.pairs > 0 and self.log_ratio < -max(MIN_SIGMAS * self.sigma, -np.log(BETTER)))

    @property
    def claim_is_better(self) -> bool:
        """Beyond chance, and by enough to matter."""
        return bool(self.pairs > 0 and self.log_ratio > max(MIN_SIGMAS * self.sigma, np.log(WORSE)))


def compare(claimed: Measured, other: Measured) -> Comparison:
    """Compare two readings on the same pieces of evidence; the standard error is that of a bootstrap over clusters.

    Raises:
        ValueError: the two were not measured on the same evidence.
    """
    if not np.array_equal(claimed.clusters, other.clusters):
        raise ValueError("the two readings were measured on different evidence")
    if len(claimed.residuals) == 0:
        return Comparison(float("nan"), float("inf"), 0)
    logs = np.log(other.residuals) - np.log(claimed.residuals)
    names, cluster = np.unique(claimed.clusters, return_inverse=True)
    sums = np.bincount(cluster, logs, len(names))
    counts = np.bincount(cluster, minlength=len(names)).astype(np.float64)
    if len(names) < 3:
        return Comparison(float(logs.mean()), float("inf"), len(names))
    draws = np.random.default_rng(0).integers(0, len(names), (_DRAWS, len(names)))
    means = sums[draws].sum(axis=1) / counts[draws].sum(axis=1)
    return Comparison(float(logs.mean()), float(means.std()), len(names))
