"""Judges of a track: three-valued verdicts from geometry, recorded with their evidence.

A judge that asks a vision-language model stands behind the same protocol; it is asked only where the cheap one is
undecided.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from geo import se3
from geo.recording import CanonicalRecording
from tracking import masks
from tracking.base import Observation, SceneDepthLike
from tracking.records import Grounding, MaskState, Outcome, Verdict
from tracking.transfer import SurfacePoints

_WRIST_M = 0.06  # m, between a wrist joint and the surface seen there: the wrist is in front


@dataclass(frozen=True)
class JudgeConfig:
    """Thresholds of the geometric judge."""

    point_tolerance_px: float = 10.0
    """How far a hand-marked point may lie beside the mask, in pixels of a 1024 px wide view."""
    near_m: float = 0.06
    """A point beside the mask but this near to the object's surface in space is undecided, not drifted."""
    max_area_ratio: float = 4.0
    """Largest plausible change of the visible area (corrected for distance) against the trusted frames."""
    min_agreement: float = 0.2
    """Tracker's agreement with depth and colour below which a mask is not believed."""
    good_agreement: float = 0.35
    """Agreement from which a mask without other complaints is believed."""
    max_speed_m_s: float = 4.0
    """No hand moves an object faster."""


@dataclass(frozen=True)
class Case:
    """What a judge is asked about: one object, one frame, what the track says, what a narration says."""

    object_id: int
    label: str
    observation: Observation
    points: tuple[Grounding, ...] = ()
    reference_area: float = float("nan")  # see GeometricJudge.distance_free_area
    previous: Observation | None = None  # the last visible observation before this frame


@runtime_checkable
class Judge(Protocol):
    """Gives verdicts."""

    @property
    def name(self) -> str:
        """Who judges, for the log."""
        ...

    def judge(self, case: Case) -> Verdict:
        """The verdict; never raises for want of evidence: that is "undecided"."""
        ...


class GeometricJudge:
    """Point in mask, area, jumps in space, agreement with depth, pose and colour."""

    name = "geometric"

    def __init__(
        self, canonical: CanonicalRecording, scene_depth: SceneDepthLike | None, config: JudgeConfig | None = None
    ) -> None:
        self._canonical = canonical
        self.config = config or JudgeConfig()
        self.surface = SurfacePoints(canonical, scene_depth)
        self._scale = canonical.camera.width_px / 1024

    @property
    def pixel_scale(self) -> float:
        """Canonical pixels per pixel of a 1024 px picture."""
        return self._scale

    def judge(self, case: Case) -> Verdict:
        """See ``Judge``: against the points if there are any, else on the track's own credibility."""
        return self._against_points(case) if case.points else self._alone(case)

    def distance_free_area(self, observation: Observation) -> float:
        """Mask area times squared depth: the same for one side of an object from any distance. NaN if unknown."""
        pose = self._canonical.world_from_camera[observation.frame]
        if observation.area_px == 0:
            return float("nan")
        if not np.isfinite(pose).all() or not np.isfinite(observation.center_in_world).all():
            return float(observation.area_px)
        z_m = self._depth_of(observation.center_in_world, observation.frame)
        return observation.area_px * z_m**2 if z_m > 0.05 else float("nan")

    def disc_radius_px(self, free_area: float, place_in_world: Float[np.ndarray, "3"], frame: int) -> float:
        """Radius of a disc of this distance-free area at a place, in a frame's pixels; NaN if unknown."""
        radius = float(np.sqrt(free_area / np.pi))
        if not np.isfinite(self._canonical.world_from_camera[frame]).all():
            return radius  # areas are in pixels then
        z_m = self._depth_of(place_in_world, frame)
        return radius / z_m if z_m > 0.05 else float("nan")

    def _depth_of(self, place_in_world: Float[np.ndarray, "3"], frame: int) -> float:
        world_from_camera = self._canonical.world_from_camera[frame]
        return float(se3.transform_points(se3.inverse(world_from_camera), place_in_world[None])[0, 2])

    def _against_points(self, case: Case) -> Verdict:
        observation = case.observation
        positive = [g for g in case.points if g.positive]
        if observation.mask is None:
            if not positive:
                return self._say(case, Outcome.UNDECIDED, "no mask, and only negative points to hold against it", {})
            reason = f"a narration sees the object, the track has no mask here ({observation.state.name.lower()})"
            return self._say(case, Outcome.DRIFTED, reason, {})
        evidence = dict(self._point_evidence(observation, case.points))
        evidence.update(self._track_evidence(case))
        tolerance = self.config.point_tolerance_px * self._scale
        if evidence.get("negative_inside", 0.0) > 0:
            return self._say(
                case, Outcome.DRIFTED, "the mask covers a point that is marked as not the object", evidence
            )
        away = evidence.get("point_distance_px", 0.0)
        ratio = evidence.get("area_ratio", float("nan"))
        if away <= tolerance:
            if np.isfinite(ratio) and ratio > 2 * self.config.max_area_ratio:
                return self._say(case, Outcome.DRIFTED, f"the mask holds the point but grew {ratio:.1f}-fold", evidence)
            if np.isfinite(ratio) and not 1 / (2 * self.config.max_area_ratio) < ratio:
                return self._say(case, Outcome.UNDECIDED, f"the mask shrank to {ratio:.2f} of its area", evidence)
            where = "in" if away == 0 else f"{away:.1f} px beside"
            return self._say(case, Outcome.CONSISTENT, f"the point lies {where} the mask", evidence)
        space = evidence.get("point_distance_m", float("nan"))
        if np.isfinite(space) and space < self.config.near_m and away < 3 * tolerance:
            reason = f"the point lies {away:.1f} px beside the mask, {100 * space:.1f} cm from the object"
            return self._say(case, Outcome.UNDECIDED, reason, evidence)
        reason = f"the point lies {away:.1f} px beside the mask (tolerance {tolerance:.1f} px)"
        return self._say(case, Outcome.DRIFTED, reason, evidence)

    def _point_evidence(self, observation: Observation, points: Sequence[Grounding]) -> dict[str, float]:
        assert observation.mask is not None
        out: dict[str, float] = {}
        away = [masks.distance_px(observation.mask, g.point_xy_px) for g in points if g.positive]
        if away:
            out["point_distance_px"] = max(away)
        inside = [masks.distance_px(observation.mask, g.point_xy_px) == 0.0 for g in points if not g.positive]
        if inside:
            out["negative_inside"] = float(sum(inside))
        places = np.array([self.surface.in_world(g) for g in points if g.positive])
        if len(places) and np.isfinite(places).all() and np.isfinite(observation.center_in_world).all():
            size = observation.evidence.get("size_m", 0.0)
            reach = np.linalg.norm(places - observation.center_in_world, axis=-1) - size / 2
            out["point_distance_m"] = float(np.maximum(reach, 0.0).max())
        return out

    def _track_evidence(self, case: Case) -> dict[str, float]:
        observation = case.observation
        out = {"score": observation.score}
        out.update(
            {key: observation.evidence[key] for key in ("agreement", "colour_likeness") if key in observation.evidence}
        )
        ratio = self.distance_free_area(observation) / case.reference_area
        if np.isfinite(ratio):
            out["area_ratio"] = float(ratio)
        previous = case.previous
        if previous is not None and np.isfinite(previous.center_in_world).all():
            moved = float(np.linalg.norm(observation.center_in_world - previous.center_in_world))
            seconds = abs(self._stamp(observation.frame) - self._stamp(previous.frame)) / 1e9
            if np.isfinite(moved) and seconds > 0:
                out["moved_m"], out["speed_m_s"] = moved, moved / seconds
        return out

    def _holds_a_wrist(self, observation: Observation) -> bool:
        """True if a hand's wrist shows inside the mask: the mask is the wearer's arm, not what the hand holds."""
        pose = self._canonical.world_from_camera[observation.frame]
        if observation.mask is None or not np.isfinite(pose).all():
            return False
        for hand in self._canonical.hands:
            joints = hand.joints_at(self._stamp(observation.frame))
            if joints is None or not np.isfinite(joints[0]).all():
                continue
            wrist = se3.transform_points(se3.inverse(pose), joints[:1])
            projection = self._canonical.camera.project(wrist)
            xy = projection.pixels_xy[0]
            if not projection.valid[0] or not masks.contains(observation.mask, (float(xy[0]), float(xy[1]))):
                continue
            shown = self.surface.in_world(Grounding("wrist", observation.frame, (float(xy[0]), float(xy[1])), True))
            if np.linalg.norm(shown - joints[0]) < _WRIST_M:
                return True
        return False

    def _stamp(self, frame: int) -> int:
        return int(self._canonical.timestamps_ns[frame])

    def _alone(self, case: Case) -> Verdict:
        observation = case.observation
        if observation.state is MaskState.UNKNOWN:
            return self._say(case, Outcome.DRIFTED, "the tracker lost the object here", dict(observation.evidence))
        if observation.mask is None:
            return self._say(case, Outcome.UNDECIDED, "out of view or hidden: nothing to judge", {})
        evidence = self._track_evidence(case)
        if self._holds_a_wrist(observation):
            return self._say(case, Outcome.DRIFTED, "the mask holds the wearer's wrist: it is the arm", evidence)
        agreement = evidence.get("agreement", evidence.get("colour_likeness", float("nan")))
        ratio, speed = evidence.get("area_ratio", 1.0), evidence.get("speed_m_s", 0.0)
        limit = self.config.max_area_ratio
        followed = observation.evidence.get("in_hand", 0.0) > 0
        if agreement < self.config.min_agreement and followed:
            reason = "half hidden in a hand that is followed: depth and colour cannot decide"
            return self._say(case, Outcome.UNDECIDED, reason, evidence)
        if agreement < self.config.min_agreement:
            return self._say(
                case, Outcome.DRIFTED, f"depth and colour disagree with the track ({agreement:.2f})", evidence
            )
        if ratio > limit:
            return self._say(case, Outcome.DRIFTED, f"the area grew {ratio:.1f}-fold", evidence)
        if speed > self.config.max_speed_m_s:
            return self._say(case, Outcome.DRIFTED, f"a jump at {speed:.1f} m/s", evidence)
        if ratio < 1 / limit:
            return self._say(case, Outcome.UNDECIDED, f"only {ratio:.2f} of the area is seen", evidence)
        if not agreement >= self.config.good_agreement:
            return self._say(case, Outcome.UNDECIDED, "agreement between doubt and belief", evidence)
        return self._say(case, Outcome.CONSISTENT, "depth, colour and area agree", evidence)

    def _say(self, case: Case, outcome: Outcome, reason: str, evidence: dict[str, float]) -> Verdict:
        return Verdict(case.object_id, case.observation.frame, outcome, self.name, reason, evidence)
