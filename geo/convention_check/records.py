"""Records of the convention check: what is asked, what a look-alike is, and what the data say."""

import enum
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from geo.recording import Recording


class Topic(enum.StrEnum):
    """What a recording claims, and what is often read wrongly."""

    DIRECTION = "pose direction"
    AXES = "camera axes"
    QUATERNION = "quaternion order"
    DEPTH_KIND = "depth kind"
    DEPTH_UNIT = "depth unit"
    PIXEL_CENTRE = "pixel centre"
    REGISTRATION = "colour against depth"
    EXCHANGE = "videos of cameras"


CLAIMS = {
    Topic.DIRECTION: "poses take the camera to the world",
    Topic.AXES: "camera axes as read (x right, y down, z forward)",
    Topic.QUATERNION: "quaternion components in the order read",
    Topic.DEPTH_KIND: "depth of the kind read",
    Topic.DEPTH_UNIT: "depth in the unit read",
    Topic.PIXEL_CENTRE: "principal point as read",
    Topic.REGISTRATION: "colour and depth cameras as calibrated",
    Topic.EXCHANGE: "every video belongs to its camera",
}


class Verdict(enum.StrEnum):
    """What the data say about a claim."""

    FITS = "fits"
    LOOK_ALIKE = "look-alike fits better"
    UNDECIDED = "not decidable"


@dataclass(frozen=True)
class Hypothesis:
    """A reading of the same files that would look alike: its name and how it changes the recording."""

    topic: Topic
    name: str
    apply: Callable[[Recording], Recording]


@dataclass(frozen=True)
class Measured:
    """Residuals of one reading, one per piece of evidence (a frame pair, or a part of one where pairs are few)."""

    residuals: Float[np.ndarray, "U"]
    clusters: Int64[np.ndarray, "U"]  # pieces with the same number are not independent
    inlier_share: float  # of everything that was compared; NaN where the measurement knows no inliers

    def typical(self) -> float:
        """Geometric mean of the residuals; NaN without any."""
        return float(np.exp(np.log(self.residuals).mean())) if len(self.residuals) else float("nan")


@dataclass(frozen=True)
class Finding:
    """The verdict on one claim by one kind of evidence."""

    topic: Topic
    verdict: Verdict
    claim: str
    claimed_residual: float  # NaN: nothing to measure it on
    look_alike: str  # the best of the other readings; empty: none was measured
    look_alike_residual: float
    unit: str
    log_ratio: float  # log(look-alike / claimed), mean over the evidence: below 0 the look-alike is better
    sigma: float  # its standard error
    pairs: int
    evidence: str
    reason: str = ""  # why it is not decidable


@dataclass(frozen=True)
class CheckReport:
    """All findings; silent if no look-alike fits better than what is claimed."""

    findings: tuple[Finding, ...]

    @property
    def alarms(self) -> tuple[Finding, ...]:
        """Findings in which a look-alike fits better."""
        return tuple(finding for finding in self.findings if finding.verdict is Verdict.LOOK_ALIKE)

    @property
    def silent(self) -> bool:
        """True if nothing speaks against a claim."""
        return not self.alarms
