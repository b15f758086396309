"""The claimed conventions of a recording against their look-alikes, judged on the recording's own data.

``check_conventions(recording)`` gives a ``CheckReport``; see docs/convention_check.md.
"""

from geo.convention_check.check import check_conventions
from geo.convention_check.hypotheses import depth_hypotheses, exchanged, pose_hypotheses
from geo.convention_check.records import CheckReport, Finding, Hypothesis, Measured, Topic, Verdict

__all__ = [
    "CheckReport",
    "Finding",
    "Hypothesis",
    "Measured",
    "Topic",
    "Verdict",
    "check_conventions",
    "depth_hypotheses",
    "exchanged",
    "pose_hypotheses",
]
