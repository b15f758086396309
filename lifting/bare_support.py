"""Rests that show the support alone: a mask that stayed on the table after the thing had left it."""

from collections.abc import Sequence

import numpy as np

from lifting.complete import RestFit
from lifting.observe import Observation

_BARE_M = 0.012  # m, as high over its support as noise makes bare table
_TALL_M = 0.03  # m, shortest side from which an object cannot lie that flat
_SLACK_M = 0.01


def bare_rests(fits: Sequence[RestFit]) -> list[RestFit]:
    """Fits that are no higher than noise over their support, of an object all of whose sides are longer.

    The sides are those of the rest seen most often; where that one is flat itself, nothing is said.
    """
    if not fits:
        return []
    best = max(fits, key=lambda fit: len(fit.segment.frames))
    if min(best.box.extent_m) < _TALL_M:
        return []
    return [fit for fit in fits if fit.support is not None and float(fit.box.extent_m[2]) < _BARE_M]


def shows_bare(observation: Observation, bare: Sequence[RestFit]) -> bool:
    """True if all of an observation lies within noise of the support that one of these rests showed."""
    low, high = np.percentile(observation.points_in_world[:, 2], [2, 98])
    levels = [fit.support[1] for fit in bare if fit.support is not None]
    return any(level - _SLACK_M < low and high < level + _BARE_M + _SLACK_M / 2 for level in levels)
