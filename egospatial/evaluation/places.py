"""Where resting objects lie: centre of the stored box against the true one, per interval of rest."""

from dataclasses import dataclass

import numpy as np

from egospatial.evaluation.aligned import Aligned, rest_intervals

_MIN_INTERVAL_NS = 1_000_000_000


@dataclass(frozen=True)
class RestScore:
    """One interval of rest. ``error_m`` is NaN if the stored trajectory knows no place at its middle."""

    label: str
    thin: bool
    start_ns: int
    end_ns: int
    error_m: float


def rest_scores(aligned: Aligned) -> list[RestScore]:
    """Error at the middle of every true interval of rest of a second or more in which the object was seen."""
    scores = []
    thin = {item.label: item.thin for item in aligned.truth.objects}
    for true in aligned.truth_in_world.trajectories:
        stored = aligned.trajectory(true.label)
        for first, last in rest_intervals(true.states):
            start_ns, end_ns = int(true.timestamps_ns[first]), int(true.timestamps_ns[last])
            if end_ns - start_ns < _MIN_INTERVAL_NS or not true.observed[first : last + 1].any():
                continue
            middle = (first + last) // 2
            error = float("nan")
            if stored is not None:
                error = float(np.linalg.norm(stored.centers_in_world[middle] - true.centers_in_world[middle]))
            scores.append(RestScore(true.label, thin[true.label], start_ns, end_ns, error))
    return scores
