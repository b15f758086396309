"""Can depth be in this unit at all? What a wearer sees lies between centimetres and some hundred metres.

A last resort: without parallax two frames say nothing about the unit, but a median depth of 1500 m does.
"""

import numpy as np

from geo.convention_check.hypotheses import UNITS
from geo.convention_check.records import CLAIMS, Finding, Topic, Verdict
from geo.recording import Recording

_POSSIBLE_M = (0.02, 200.0)
_USUAL_M = 2.0
_IMAGES = 8


def check_range(recording: Recording) -> Finding | None:
    """A finding if the median depth cannot be; None if it can, if scale is unknown, or without any depth.

    The residual is the factor by which the median depth lies from 2 m.
    """
    depth = recording.depth
    if depth is None or not recording.world.metric or len(depth.timestamps_ns) == 0:
        return None
    rows = np.unique(np.linspace(0, len(depth.timestamps_ns) - 1, _IMAGES).astype(np.int64))
    values = [depth.frames.read(int(row))[::7, ::7].ravel() for row in rows]
    known = np.concatenate(values)
    known = known[np.isfinite(known)]
    if len(known) == 0:
        return None
    median = float(np.median(known))
    if _POSSIBLE_M[0] <= median <= _POSSIBLE_M[1]:
        return None
    factor = min(UNITS, key=lambda by: abs(np.log(median * by / _USUAL_M)))
    off, then = (float(np.exp(abs(np.log(median * by / _USUAL_M)))) for by in (1.0, factor))
    return Finding(
        Topic.DEPTH_UNIT, Verdict.LOOK_ALIKE, CLAIMS[Topic.DEPTH_UNIT], off, UNITS[factor], then, "times from 2 m",
        float(np.log(then / off)), 0.0, len(rows), f"median depth of {median:.3g} m", "",
    )  # fmt: skip
