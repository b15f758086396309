"""When does an object lie still? One pass over the frames, one state machine per object.

An object at rest is a point model that grows with every view. A frame contradicts it only if BOTH hold: the
camera now looks through (or, for flat things, the mask left) a large share of the model's visible surface, AND a
large share of what the mask shows is not on the model. A new viewpoint, a hand in front, a mask that is too small
or leaks somewhere each change only one of the two; they never make an object move. Masks that keep showing another
thing beside an occupied place are not believed either, until they weigh more (points over squared noise) than all that
the rest was built on: then it was the first, far glimpses that showed something else.
"""

import enum
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from lifting._cloud import VoxelCloud
from lifting._evidence import Evidence, SeenDepth, weigh
from lifting.config import LiftConfig
from lifting.observe import Observation
from lifting.timeline import RestSegment, Timeline

_ELSEWHERE_FRAMES = 4
_MIN_KNOWN = 0.25
_RIVAL_FRAMES = 4
_RIVAL_WEIGHT = 2.0


class Phase(enum.Enum):
    """Where the state machine stands."""

    START = "start"  # not seen yet
    REST = "rest"
    MOVING = "moving"


class Reading(enum.Enum):
    """What one frame says about a resting model."""

    STILL = "still"
    MOVED = "moved"
    ELSEWHERE = "elsewhere"  # seen somewhere else while its place is out of view
    WRONG = "wrong"  # its place is still occupied: the mask shows something else
    UNSURE = "unsure"


@dataclass
class Candidate:
    """Observations that might become a rest."""

    segment: RestSegment
    cloud: VoxelCloud
    first_time_s: float
    last_time_s: float
    first_cloud: VoxelCloud
    weight: float  # points over the square of their noise (1/m^2)

    def take(self, observation: Observation, time_s: float, weight: float) -> None:
        """One more observation that agrees."""
        self.segment.add(observation)
        self.weight += weight
        self.cloud.add(observation.points_in_world)
        self.last_time_s = time_s


class RestTracker:
    """Feed it every frame in rising order, then call ``finish``."""

    def __init__(self, object_id: int, has_up: bool, config: LiftConfig) -> None:
        self.config = config
        self.has_up = has_up
        self.timeline = Timeline(object_id)
        self.phase = Phase.START
        self._candidate: Candidate | None = None
        self._cloud = VoxelCloud(config.voxel_m)
        self._last_time_s = 0.0
        self._weight = 0.0
        self._rival: Candidate | None = None  # what masks show that are not believed
        self._pending: list[tuple[Reading, Observation, float]] = []
        self._empty_frames: list[int] = []
        self._was_near = False  # a hand, since the object left its rest
        self._free_frames = 0  # in a row since that hand left

    def update(
        self,
        seen: SeenDepth,
        mask: Bool[np.ndarray, "h w"] | None,
        observation: Observation | None,
        hand_near: bool | None = None,
    ) -> None:
        """Take one frame. ``mask`` at the depth size; both None where the object is not visible.

        What is seen first is taken to lie still until it is contradicted. ``hand_near`` is None where hands
        are not known: once a hand that was near has left, two frames that agree are a rest.
        """
        if observation is not None:
            self.timeline.observed_frames.append(observation.frame)
        if self.phase is Phase.REST:
            self._at_rest(seen, mask, observation)
        elif observation is not None and self.phase is Phase.START:
            self._settle(self._new_candidate(observation, seen.view.time_s))
        elif observation is not None:
            self._not_at_rest(seen, mask, observation, hand_near)

    def finish(self) -> Timeline:
        """Close open questions at the end of the recording."""
        if self.phase is Phase.MOVING and self._candidate is not None:
            if self._free_frames >= 2:
                self._settle(self._candidate)
            else:
                for observation in self._candidate.segment.observations:
                    self.timeline.moving[observation.frame] = observation
        elif self.phase is Phase.REST:
            self._resolve_pending_as_noise()
        return self.timeline

    # ---- at rest

    def _at_rest(self, seen: SeenDepth, mask: Bool[np.ndarray, "h w"] | None, observation: Observation | None) -> None:
        segment = self.timeline.segments[-1]
        elapsed_s = seen.view.time_s - self._last_time_s
        slack = self.config.pose_drift_m_per_min * elapsed_s / 60.0
        evidence = weigh(self._cloud, seen, mask, observation, slack, self.config)
        if observation is None:
            self._check_empty_place(segment, evidence, seen.view.frame)
            return
        reading = self._read(evidence)
        if reading is Reading.STILL:
            self._resolve_pending_as_noise()
            self._empty_frames.clear()
            segment.contradicted_frame = None
            segment.add(observation)
            self._cloud.add(observation.points_in_world)
            self._weight += self._weight_of(observation)
            self._last_time_s = seen.view.time_s
            return
        if reading is Reading.WRONG:
            self.timeline.rejected.append(observation.frame)
            self._take_rival(observation, seen.view.time_s)
            return
        self._pending.append((reading, observation, seen.view.time_s))
        moved = sum(r is Reading.MOVED for r, _, _ in self._pending)
        elsewhere = sum(r is not Reading.UNSURE for r, _, _ in self._pending)
        if moved >= self.config.confirm_frames or elsewhere >= _ELSEWHERE_FRAMES:
            self._leave_rest()

    def _weight_of(self, observation: Observation) -> float:
        return len(observation.points_in_world) / self.config.depth_noise_m(observation.distance_m) ** 2

    def _take_rival(self, observation: Observation, time_s: float) -> None:
        """Collect what the masks show instead; once it outweighs the rest, the rest was the mistake."""
        rival = self._rival
        if rival is not None and self._agrees(rival, observation):
            rival.take(observation, time_s, self._weight_of(observation))
        else:
            rival = self._new_candidate(observation, time_s)
        self._rival = rival
        if len(rival.segment.frames) < _RIVAL_FRAMES or rival.weight < _RIVAL_WEIGHT * self._weight:
            return
        mistaken = self.timeline.segments.pop()
        found = set(rival.segment.frames)
        self.timeline.rejected = [f for f in self.timeline.rejected if f not in found] + mistaken.frames
        self._resolve_pending_as_noise()
        self._empty_frames.clear()
        self._settle(rival)

    def _agrees(self, candidate: Candidate, observation: Observation) -> bool:
        limit = self.config.rest_tolerance_m + 2 * self.config.depth_noise_m(observation.distance_m)
        new = float(np.mean(candidate.cloud.distances(observation.points_in_world) > limit))
        return new <= self.config.still_fraction

    def _read(self, evidence: Evidence) -> Reading:
        config = self.config
        if evidence.new < config.moved_fraction:
            return Reading.STILL
        if evidence.known < _MIN_KNOWN:
            return Reading.ELSEWHERE if evidence.known < 0.05 and evidence.new > 0.8 else Reading.UNSURE
        gone = max(evidence.empty, evidence.unmasked) if self._flat() else evidence.empty
        if gone >= config.moved_fraction:
            return Reading.MOVED
        if gone < config.still_fraction:
            return Reading.WRONG if evidence.new > 0.8 else Reading.STILL
        return Reading.UNSURE

    def _flat(self) -> bool:
        """True if nobody could look through its place far enough to notice that it is empty."""
        points = self._cloud.means[self._cloud.agreed()]
        if len(points) < 4:
            return True
        if self.has_up:
            thickness = float(np.ptp(np.quantile(points[:, 2], [0.05, 0.95])))
        else:
            values = np.linalg.eigvalsh(np.cov(points.T))
            thickness = float(np.sqrt(max(0.0, 12 * values[0])))
        return thickness < self.config.see_through_m + 0.75 * self.config.rest_tolerance_m

    def _check_empty_place(self, segment: RestSegment, evidence: Evidence, frame: int) -> None:
        """The object is not seen: is its place in view and empty?"""
        if evidence.known > 2 * _MIN_KNOWN and evidence.empty > 0.6 and not self._flat():
            self._empty_frames.append(frame)
            if len(self._empty_frames) > self.config.confirm_frames and segment.contradicted_frame is None:
                segment.contradicted_frame = self._empty_frames[0]
        elif evidence.known > 2 * _MIN_KNOWN and evidence.empty < self.config.still_fraction:
            self._empty_frames.clear()
            segment.contradicted_frame = None

    def _resolve_pending_as_noise(self) -> None:
        self.timeline.rejected.extend(o.frame for _, o, _ in self._pending)
        self._pending.clear()

    def _leave_rest(self) -> None:
        """Become moving; the frames that said so may already be the next rest."""
        pending, self._pending = self._pending, []
        self._empty_frames.clear()
        self.phase = Phase.MOVING
        self._was_near, self._free_frames = False, 0
        candidate = None
        for _, observation, time_s in pending:
            if candidate is not None:
                if self._agrees(candidate, observation):
                    candidate.take(observation, time_s, self._weight_of(observation))
                    continue
                for old in candidate.segment.observations:
                    self.timeline.moving[old.frame] = old
            candidate = self._new_candidate(observation, time_s)
        self._candidate = candidate

    # ---- not at rest

    def _new_candidate(self, observation: Observation, time_s: float) -> Candidate:
        cloud, first = VoxelCloud(self.config.voxel_m), VoxelCloud(self.config.voxel_m)
        cloud.add(observation.points_in_world)
        first.add(observation.points_in_world)
        segment = RestSegment(observation.frame, observation.frame)
        segment.add(observation)
        return Candidate(segment, cloud, time_s, time_s, first, self._weight_of(observation))

    def _not_at_rest(
        self, seen: SeenDepth, mask: Bool[np.ndarray, "h w"] | None, observation: Observation, hand_near: bool | None
    ) -> None:
        candidate, time_s = self._candidate, seen.view.time_s
        self._was_near = self._was_near or hand_near is True
        self._free_frames = self._free_frames + 1 if self._was_near and hand_near is False else 0
        if candidate is None:
            self._candidate = self._new_candidate(observation, time_s)
            return
        slack = self.config.pose_drift_m_per_min * (time_s - candidate.last_time_s) / 60.0
        evidence = weigh(candidate.cloud, seen, mask, observation, slack, self.config)
        gone = max(evidence.empty, evidence.unmasked if evidence.new > 0.15 else 0.0)
        limit = self.config.still_fraction
        gap_too_long = time_s - candidate.last_time_s > 2 * self.config.dwell_s
        if gap_too_long or evidence.new > limit or (evidence.known > _MIN_KNOWN and gone > limit):
            self._restart_candidate(candidate, observation, time_s)
            return
        candidate.take(observation, time_s, self._weight_of(observation))
        elapsed = time_s - candidate.first_time_s
        released = self._free_frames >= 2 and len(candidate.segment.frames) >= 2
        if released or (elapsed >= self.config.dwell_s and len(candidate.segment.frames) >= 3):
            if self._drifted(candidate, observation, elapsed):
                self._restart_candidate(candidate, observation, time_s)
            else:
                self._settle(candidate)

    def _drifted(self, candidate: Candidate, observation: Observation, elapsed_s: float) -> bool:
        """True if the surface moved off its first view faster than rest allows (slow carrying)."""
        gaps = candidate.first_cloud.distances(observation.points_in_world)
        noise = self.config.depth_noise_m(observation.distance_m)
        limit = 2 * noise + self.config.rest_speed_m_s * elapsed_s
        return bool(np.median(gaps) > max(limit / 2, self.config.voxel_m + noise))

    def _restart_candidate(self, candidate: Candidate, observation: Observation, time_s: float) -> None:
        for old in candidate.segment.observations:
            self.timeline.moving[old.frame] = old
        self._free_frames = min(self._free_frames, 1)
        self._candidate = self._new_candidate(observation, time_s)

    def _settle(self, candidate: Candidate) -> None:
        self.timeline.segments.append(candidate.segment)
        self._cloud = candidate.cloud
        self._last_time_s = candidate.last_time_s
        self._weight, self._rival = candidate.weight, None
        self._candidate = None
        self.phase = Phase.REST
