"""Follow one object from its first point, let later points check it, find where it failed, and mend it.

Between the last consistent frame and the first drifted one the judge bisects to the failure; the later point starts a
fresh session (never a correction on a wrong state) that runs back to the failure and on to the end. Frames before the
failure stay as they were. Each later point causes at most one repair: progress is monotone, calls are bounded.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool

from tracking import masks
from tracking.base import Observation, Session, Tracker
from tracking.judges import Case, GeometricJudge, Judge
from tracking.records import Grounding, MaskState, Outcome, Verdict
from tracking.seeding import Anchor, PointGroup, Seeder

__all__ = ["Followed", "Follower", "PointGroup"]

Ticker = Callable[[int], None]
_SAME_IOU = 0.3
_DECAYED_IOU = 0.6
_WORTHY_SHARE = 0.8
_SURE_AGREEMENT = 0.6


@dataclass
class Followed:
    """One object's observations, the verdicts on it, and groups that turned out to mean another object."""

    observations: list[Observation | None]
    verdicts: list[Verdict] = field(default_factory=list)
    elsewhere: list[PointGroup] = field(default_factory=list)
    tracker_calls: int = 0
    judge_calls: int = 0


class Follower:
    """Tracks one object with checks and repairs."""

    def __init__(
        self,
        tracker: Tracker,
        judge: Judge,
        metric: GeometricJudge,
        object_id: int,
        label: str,
        frame_count: int,
        tick: Ticker | None = None,
    ) -> None:
        self._tracker, self._judge, self._metric = tracker, judge, metric
        self._object_id, self._label, self._count = object_id, label, frame_count
        self._tick = tick or (lambda _: None)
        self._seeder = Seeder(tracker, metric, ())
        self._anchors: list[Anchor] = []
        self._latest = self._earliest = 0

    def follow(self, groups: list[PointGroup], taken: Bool[np.ndarray, "H W"] | None = None) -> Followed:
        """Track from the seeding group; the others check. Groups come in rising frame order."""
        result = Followed([None] * self._count)
        self._seeder = Seeder(self._tracker, self._metric, groups)
        self._anchors, chosen = self._seeder.anchors(taken)
        seed = self._anchors[chosen]
        if chosen:
            result.verdicts.append(self._seed_verdict(self._anchors[0], seed))
        start = seed.group.frame
        self._run(result, seed.session, start, range(start + 1, self._count), range(start - 1, -1, -1))
        self._latest = self._earliest = start  # the trusted frames on both sides
        others = [group for group in groups if group is not seed.group]
        later = [group for group in others if group.frame >= start]
        earlier = [group for group in reversed(others) if group.frame < start]
        for group in (*later, *earlier):
            self._hold_against(result, group, seed)
        result.tracker_calls = self._seeder.calls
        return result

    def _hold_against(self, result: Followed, group: PointGroup, seed: Anchor) -> None:
        """Check one group, and mend the track where it has drifted."""
        verdict = self._check(result, group, seed)
        if verdict.outcome is Outcome.DRIFTED:
            if group.narration_id != seed.group.narration_id and self._sits_elsewhere(result, group, verdict):
                reason = f"{verdict.reason}; the track is sure of its own place"
                result.verdicts.append(replace(verdict, reason=reason, action="taken as another object"))
                result.elsewhere.append(group)
                return
            if group.can_seed and group.frame < self._earliest:
                verdict = self._mend_before(result, group, verdict)
            elif group.can_seed and group.frame > self._latest:
                verdict = self._mend_after(result, group, verdict)
        result.verdicts.append(verdict)
        if verdict.outcome is Outcome.CONSISTENT or verdict.action:
            self._latest, self._earliest = max(self._latest, group.frame), min(self._earliest, group.frame)

    def _seed_verdict(self, first: Anchor, seed: Anchor) -> Verdict:
        frame = seed.group.frame
        reason = f"the point in frame {frame} gives a clearer segment than the first, in frame {first.group.frame}"
        evidence = {"worth": seed.worth, "worth_of_first": first.worth}
        action = f"seeded at frame {frame}; the first point checks"
        return Verdict(self._object_id, frame, Outcome.CONSISTENT, "seed", reason, evidence, action)

    def _session_at(self, result: Followed, group: PointGroup) -> Session:
        """The session already started at this group, or a fresh one that knows the object's size."""
        known = next((anchor.session for anchor in self._anchors if anchor.group is group), None)
        return known or self._seeder.start(group, usual_area=self._usual_area(result, group.frame))

    def _run(self, result: Followed, session: Session, frame: int, forward: range, backward: range) -> None:
        result.observations[frame] = session.seed
        for frames in (forward, backward):
            if len(frames):
                for observation in session.propagate(frames):
                    result.observations[observation.frame] = observation
                    self._tick(1)

    def _case(self, result: Followed, frame: int, points: tuple[Grounding, ...] = ()) -> Case:
        observation = result.observations[frame]
        if observation is None:
            observation = Observation(frame, MaskState.UNKNOWN, None, float("nan"), np.full(3, np.nan))
        before = next(
            (o for o in reversed(result.observations[:frame]) if o is not None and o.state is MaskState.VISIBLE), None
        )
        return Case(self._object_id, self._label, observation, points, self._usual_area(result, frame), before)

    def _usual_area(self, result: Followed, frame: int) -> float:
        """Median distance-free area over the frames before this one (of all frames where there are none)."""
        seen = [o for o in result.observations if o is not None and o.mask is not None and o.frame != frame]
        past = [o for o in seen if o.frame < frame] or seen
        areas = np.array([self._metric.distance_free_area(o) for o in past[-60:]])
        return float(np.median(areas[np.isfinite(areas)])) if np.isfinite(areas).any() else float("nan")

    def _ask(self, result: Followed, frame: int, points: tuple[Grounding, ...] = ()) -> Verdict:
        result.judge_calls += 1
        return self._judge.judge(self._case(result, frame, points))

    def _check(self, result: Followed, group: PointGroup, seed: Anchor) -> Verdict:
        """The judge's verdict; a mask that holds the point but not the thing around it has decayed: drifted too."""
        verdict = self._ask(result, group.frame, group.points)
        anchor = next((anchor for anchor in self._anchors if anchor.group is group), None)
        observation = result.observations[group.frame]
        if verdict.outcome is not Outcome.CONSISTENT or anchor is None or observation is None:
            return verdict
        fresh = anchor.session.seed.mask
        if fresh is None or observation.mask is None:
            return verdict
        overlap = masks.iou(fresh, observation.mask)
        evidence = {**verdict.evidence, "fresh_overlap": overlap}
        if (
            overlap >= _DECAYED_IOU
            or anchor.worth < _WORTHY_SHARE * seed.worth
            or not self._fits_better(anchor.session.seed, observation, seed.session.seed)
        ):
            return replace(verdict, evidence=evidence)
        reason = f"the mask holds the point, but a fresh segment there shares only {overlap:.2f} with it"
        return replace(verdict, outcome=Outcome.DRIFTED, reason=reason, evidence=evidence)

    def _fits_better(self, fresh: Observation, tracked: Observation, seed: Observation) -> bool:
        """True if the fresh segment's size (distance-free) is clearly nearer to the seed's than the track's is."""
        sizes = [self._metric.distance_free_area(one) for one in (fresh, tracked, seed)]
        if not (np.isfinite(sizes).all() and min(sizes) > 0):
            return False
        off_fresh, off_tracked = (abs(float(np.log(size / sizes[2]))) for size in sizes[:2])
        return off_fresh + 0.2 < off_tracked

    def _sits_elsewhere(self, result: Followed, group: PointGroup, verdict: Verdict) -> bool:
        """True if the track is believed at its own place while the point lies clearly away from it."""
        observation = result.observations[group.frame]
        if observation is None or observation.mask is None:
            return False
        figures, alone = observation.evidence, self._ask(result, group.frame)
        away = verdict.evidence.get("point_distance_m", float("nan"))
        strong = figures.get("agreement", figures.get("colour_likeness", 0.0)) >= _SURE_AGREEMENT
        moved = figures.get("ever_moved", 0.0) > 0
        near = away < 0.5 * self._metric.config.near_m
        return alone.outcome is Outcome.CONSISTENT and strong and not moved and not near

    def _mend_after(self, result: Followed, group: PointGroup, verdict: Verdict) -> Verdict:
        """A fresh session at the later point: back to the failure, on to the end."""
        trusted = self._latest
        failure, calls = self.localise(result, trusted, group.frame)
        before = list(result.observations)
        backward = range(group.frame - 1, failure - 1, -1)
        if failure == group.frame:  # the judge saw nothing wrong before: let the two tracks decide
            backward = range(group.frame - 1, trusted, -1)
        session = self._session_at(result, group)
        self._run(result, session, group.frame, range(group.frame + 1, self._count), backward)
        if failure == group.frame:
            failure = _best_cut(before, result.observations, trusted, group.frame)
            result.observations[:failure] = before[:failure]
        for frame in range(trusted + 1, failure):
            result.observations[frame] = before[frame]
        action = f"re-initialised at frame {group.frame} (failure localised to frame {failure})"
        return replace(verdict, action=action, evidence={**verdict.evidence, "judge_calls": float(calls)})

    def _mend_before(self, result: Followed, group: PointGroup, verdict: Verdict) -> Verdict:
        """The same for a point before the seed: its session runs back to the start, and on to where the two meet.

        Where both follow the same thing, each frame belongs to the nearer of the two anchors.
        """
        before, limit = list(result.observations), self._earliest
        ahead, back = range(group.frame + 1, limit), range(group.frame - 1, -1, -1)
        self._run(result, self._session_at(result, group), group.frame, ahead, back)
        cut = min(_best_cut(result.observations, before, group.frame, limit), (group.frame + limit) // 2 + 1)
        result.observations[cut:] = before[cut:]
        return replace(verdict, action=f"re-initialised at frame {group.frame} (for the frames before {cut})")

    def localise(self, result: Followed, good: int, bad: int) -> tuple[int, int]:
        """First failed frame in (good, bad], by bisection over the judge; undecided frames ask their neighbours.

        Returns the frame and the number of judge calls (at most about three times log2 of the gap, plus the
        undecided frames between).
        """
        calls, start = result.judge_calls, good
        low, high = good, bad
        outcomes: dict[int, Outcome] = {}

        def outcome(frame: int) -> Outcome:
            if frame not in outcomes:
                outcomes[frame] = self._ask(result, frame).outcome
            return outcomes[frame]

        while high - low > 1:
            middle = (low + high) // 2
            order = sorted(range(low + 1, high), key=lambda frame: (abs(frame - middle), frame))
            decided = next((frame for frame in order if outcome(frame) is not Outcome.UNDECIDED), None)
            if decided is None:
                return (
                    low + 1 if low > start or high < bad else self._first_unseen(result, low, high)
                ), result.judge_calls - calls
            if outcomes[decided] is Outcome.CONSISTENT:
                low = decided
            else:
                high = decided
        return high, result.judge_calls - calls

    @staticmethod
    def _first_unseen(result: Followed, low: int, high: int) -> int:
        """Where nothing can be decided between two frames: the first frame without a mask, else the later one."""
        for frame in range(low + 1, high):
            observation = result.observations[frame]
            if observation is None or observation.mask is None:
                return frame
        return high


def _best_cut(early: list[Observation | None], late: list[Observation | None], low: int, high: int) -> int:
    """Frame from which to believe the later track: where they last overlap, else where the scores say so."""
    for frame in range(high - 1, low, -1):
        a, b = early[frame], late[frame]
        if a is not None and b is not None and a.mask is not None and b.mask is not None:
            if masks.iou(a.mask, b.mask) >= _SAME_IOU:
                return frame + 1
    frames = range(low + 1, high)
    gain_early = np.array([_worth(early[frame]) for frame in frames])
    gain_late = np.array([_worth(late[frame]) for frame in frames])
    totals = (
        np.concatenate([[0.0], np.cumsum(gain_early)]) + gain_late.sum() - np.concatenate([[0.0], np.cumsum(gain_late)])
    )
    return low + 1 + int(np.argmax(totals))


def _worth(observation: Observation | None) -> float:
    return 0.0 if observation is None or observation.mask is None else observation.score
