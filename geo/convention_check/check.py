"""The whole check: every claim of a recording against its look-alikes, on the recording's own data."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from geo.convention_check import depth_pairs as depth_evidence
from geo.convention_check import epipolar
from geo.convention_check.depth_pairs import depth_pairs
from geo.convention_check.depth_range import check_range
from geo.convention_check.epipolar import PicturePairs, picture_pairs
from geo.convention_check.exchange import check_exchange
from geo.convention_check.features import Features, FeatureStore
from geo.convention_check.hypotheses import depth_hypotheses, pose_hypotheses, shifted_principal_point
from geo.convention_check.points import point_views
from geo.convention_check.records import CLAIMS, CheckReport, Finding, Hypothesis, Measured, Topic, Verdict
from geo.convention_check.registration import check_registration
from geo.convention_check.statistics import Comparison, compare
from geo.recording import Recording

_POSE_TOPICS = (Topic.DIRECTION, Topic.AXES, Topic.QUATERNION)
_DEPTH_TOPICS = (Topic.DEPTH_KIND, Topic.DEPTH_UNIT)
_SHIFTS_PX = (-1.0, -0.5, 0.5, 1.0)


@dataclass(frozen=True)
class _Evidence:
    """One way to measure readings."""

    name: str
    unit: str
    plausible: float  # a reading with a larger residual does not fit, however bad the others are
    measure: Callable[[Recording], Measured]


def check_conventions(recording: Recording, store: FeatureStore | None = None) -> CheckReport:
    """Test what a recording claims on its own data.

    Pose direction, camera axes and quaternion order are judged by depth seen from another frame, by points matched
    between pictures, and by the scene's points; depth kind and unit by depth. If one look-alike fits better, the later
    checks (principal point, colour against depth, exchanged videos) are made on that reading.

    Args:
        recording: As a reader returns it. At most some 30 pairs of frames are decoded.
        store: What was found in its pictures already, where several readings of the same pictures are checked.

    Raises:
        RecordingError: a depth image cannot be decoded (pictures that cannot be read are left out).
    """
    videos = {stream.name: stream.frames for stream in (recording.reference, *recording.others)}
    features = Features(videos, FeatureStore() if store is None else store)
    pictures = picture_pairs(recording, features)
    hypotheses = [*pose_hypotheses(recording), *depth_hypotheses(recording)]
    evidence = _evidence(recording, pictures)
    findings: list[Finding] = []
    for topic in (*_POSE_TOPICS, *_DEPTH_TOPICS):
        findings += _merged(
            topic, [finding for one in evidence for finding in one if finding.topic is topic], recording
        )
    if recording.depth is not None and all(_open(finding, Topic.DEPTH_UNIT) for finding in findings):
        findings = [check_range(recording) or f if f.topic is Topic.DEPTH_UNIT else f for f in findings]
    current = _settled(recording, findings, hypotheses)
    findings.append(_pixel_centre(current, pictures))
    findings.append(check_registration(current))
    exchange = check_exchange(current, features)
    return CheckReport((*findings, *([] if exchange is None else [exchange])))


def _open(finding: Finding, topic: Topic) -> bool:
    """True unless this finding decides the topic."""
    return finding.topic is not topic or finding.verdict is Verdict.UNDECIDED


def _evidence(recording: Recording, pictures: PicturePairs | None) -> list[list[Finding]]:
    """Findings of each kind of evidence that there is, the strongest kind first."""
    poses, depths = pose_hypotheses(recording), depth_hypotheses(recording)
    out = []
    depth = depth_pairs(recording)
    if depth is not None:
        kind = _Evidence("depth seen from another frame", depth_evidence.UNIT, 0.05, depth.measure)
        out.append(_judged(recording, kind, [*poses, *depths]))
    if pictures is not None:
        kind = _Evidence("points seen in two pictures", epipolar.UNIT, 6.0, pictures.measure)
        out.append(_judged(recording, kind, poses))
    scene = point_views(recording)
    if scene is not None:
        kind = _Evidence(scene.evidence, scene.unit, scene.plausible, scene.measure)
        out.append(_judged(recording, kind, poses))
    return out


def _judged(recording: Recording, evidence: _Evidence, hypotheses: list[Hypothesis]) -> list[Finding]:
    """One finding per topic; if a look-alike wins, the other topics have to wait for it."""
    claimed = evidence.measure(recording)
    measured = [(hypothesis, evidence.measure(hypothesis.apply(recording))) for hypothesis in hypotheses]
    compared = [(hypothesis, other, compare(claimed, other)) for hypothesis, other in measured]
    winner, other, result = min(compared, key=lambda item: item[2].log_ratio)
    won = winner if result.other_is_better and other.typical() <= evidence.plausible else None
    out = []
    for topic in dict.fromkeys(hypothesis.topic for hypothesis in hypotheses):
        rivals = [item for item in compared if item[0].topic is topic]
        best, other, result = min(rivals, key=lambda item: item[2].log_ratio)
        verdict, reason = _verdict(claimed, rivals, evidence, won, topic)
        out.append(
            Finding(
                topic, verdict, CLAIMS[topic], claimed.typical(), best.name, other.typical(), evidence.unit,
                result.log_ratio, result.sigma, result.pairs, evidence.name, reason,
            )
        )  # fmt: skip
    return out


def _verdict(
    claimed: Measured,
    rivals: list[tuple[Hypothesis, Measured, Comparison]],
    evidence: _Evidence,
    won: Hypothesis | None,
    topic: Topic,
) -> tuple[Verdict, str]:
    if won is not None and won.topic is topic:
        return Verdict.LOOK_ALIKE, ""
    if won is not None:
        return Verdict.UNDECIDED, f"first settle the {won.topic}: {won.name}"
    if not claimed.typical() <= evidence.plausible:
        return Verdict.UNDECIDED, f"no reading that was tried fits ({claimed.typical():.3g} {evidence.unit} as claimed)"
    open_ones = [hypothesis.name for hypothesis, _, result in rivals if not result.claim_is_better]
    if open_ones:
        return Verdict.UNDECIDED, f"too little turning or parallax, or too few pairs, to tell from: {open_ones[0]}"
    return Verdict.FITS, ""


def _merged(topic: Topic, findings: list[Finding], recording: Recording) -> list[Finding]:
    """What is decided, once per verdict; otherwise the first that is not, or why there is none."""
    out: list[Finding] = []
    for finding in findings:
        if finding.verdict is not Verdict.UNDECIDED and all(finding.verdict is not known.verdict for known in out):
            out.append(finding)
    if out or findings:
        return out or findings[:1]
    needed = "depth" if topic in _DEPTH_TOPICS else "depth, points, or pictures that have enough points in common"
    lacking = "depth" if topic in _DEPTH_TOPICS and recording.depth is None else f"two posed frames with {needed}"
    nan = float("nan")
    return [Finding(topic, Verdict.UNDECIDED, CLAIMS[topic], nan, "", nan, "", nan, nan, 0, "none", f"no {lacking}")]


def _settled(recording: Recording, findings: list[Finding], hypotheses: list[Hypothesis]) -> Recording:
    """The recording under the look-alike that fits better, if one does."""
    names = [finding.look_alike for finding in findings if finding.verdict is Verdict.LOOK_ALIKE]
    chosen = next((hypothesis for hypothesis in hypotheses if hypothesis.name in names[:1]), None)
    return recording if chosen is None else chosen.apply(recording)


def _pixel_centre(recording: Recording, pictures: PicturePairs | None) -> Finding:
    """Principal point half a pixel off? Only where one and no pixel both are clearly worse."""
    topic, nan = Topic.PIXEL_CENTRE, float("nan")
    name = "points seen in two pictures"
    if pictures is None:
        return Finding(topic, Verdict.UNDECIDED, CLAIMS[topic], nan, "", nan, epipolar.UNIT, nan, nan, 0, name,
                       "no pictures with poses have enough points in common")  # fmt: skip
    claimed = pictures.measure(recording)
    camera = recording.reference.camera
    measured = {
        by: pictures.measure(
            replace(recording, reference=replace(recording.reference, camera=shifted_principal_point(camera, by)))
        )
        for by in _SHIFTS_PX
    }
    best = min(measured, key=lambda by: measured[by].typical())
    half = min((-0.5, 0.5), key=lambda by: measured[by].typical())
    result = compare(claimed, measured[half])
    if best == half and result.pairs and result.log_ratio < -max(3 * result.sigma, math.log(1 / 0.95)):
        verdict, reason = Verdict.LOOK_ALIKE, ""
    elif all(_clearly_worse(claimed, measured[by]) for by in (-0.5, 0.5)):
        verdict, reason = Verdict.FITS, ""
    else:
        verdict = Verdict.UNDECIDED
        change = 100 * abs(math.expm1(result.log_ratio))
        reason = f"half a pixel changes the residual by {change:.1f} % (sigma {100 * result.sigma:.1f} %)"
    return Finding(
        topic, verdict, CLAIMS[topic], claimed.typical(), f"principal point moved by {half:+.1f} px both ways",
        measured[half].typical(), epipolar.UNIT, result.log_ratio, result.sigma, result.pairs, name, reason,
    )  # fmt: skip


def _clearly_worse(claimed: Measured, other: Measured) -> bool:
    result = compare(claimed, other)
    return bool(result.pairs > 0 and np.isfinite(result.sigma) and result.log_ratio > 3 * result.sigma)
