"""Follow one object from its first point, let later points check it, find where it failed, and mend it.

Between the last consistent frame and the first drifted one the judge bisects to the failure; the later point starts a
fresh session (never a correction on a wrong state) that runs back to the failure and on to the end. Frames before the
failure stay as they were. Each later point causes at most one repair: progress is monotone, calls are bounded.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float

from tracking import masks
from tracking.base import Observation, Prompt, Session, Tracker
from tracking.judges import Case, GeometricJudge, Judge
from tracking.records import Grounding, MaskState, Outcome, Verdict
from tracking.rivals import SAME_IOU, Rivals

Ticker = Callable[[int], None]
_SAME_IOU = 0.3
_ROOM = 1.5  # times the radius of a disc of the usual area
_SPARED_PX = 12.0  # around a point (at 1024 px) that lies on another object's mask
_MAX_SEEDS = 6
_MAX_MENDERS = 3
_NEIGHBOUR_M = 0.2
_NAN3 = np.full(3, np.nan)
_SURE_AGREEMENT = 0.6
_FIRST_SEED_SHARE = 0.9
_COARSE_PX = 400.0  # a seed of this many pixels (at 1024 px) is worth half of one seen large
_MANY_VIEWS = 8.0
_DOUBTFUL_AGREEMENT = 0.2
_TRUSTED_SEED = 0.6
_DECAYED_IOU = 0.55
_RECENT = 9


@dataclass(frozen=True)
class PointGroup:
    """What one narration marks on one object in one frame."""

    narration_id: str
    frame: int
    points: tuple[Grounding, ...]

    @property
    def can_seed(self) -> bool:
        """True with at least one positive point."""
        return any(point.positive for point in self.points)

    def prompt(self) -> Prompt:
        """The group as a tracker's prompt."""
        points = np.array([point.point_xy_px for point in self.points], dtype=np.float64).reshape(-1, 2)
        return Prompt(self.frame, points, np.array([point.positive for point in self.points], dtype=bool))


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
        rivals: Rivals | None = None,
    ) -> None:
        self._tracker, self._judge, self._metric = tracker, judge, metric
        self._object_id, self._label, self._count = object_id, label, frame_count
        self._tick = tick or (lambda _: None)
        self._rivals = rivals or Rivals()
        self._groups: list[PointGroup] = []
        self._fresh: dict[PointGroup, Session] = {}  # started to be looked at, not propagated yet

    def follow(self, groups: list[PointGroup]) -> Followed:
        """Track from the first group with a positive point; the others check. Groups come in rising frame order."""
        self._groups, self._fresh = groups, {}
        result = Followed([None] * self._count)
        first, session = self._choose_seed(result, groups)
        self._run(result, session, first.frame, range(first.frame + 1, self._count), range(first.frame - 1, -1, -1))
        latest = earliest = first.frame  # the trusted frames on both sides
        others = [group for group in groups if group is not first]
        later = [group for group in others if group.frame >= first.frame]
        earlier = [group for group in reversed(others) if group.frame < first.frame]
        for group in (*later, *earlier):
            verdict = self._check(result, group)
            if verdict.outcome is Outcome.DRIFTED:
                if group.narration_id != first.narration_id and self._sits_elsewhere(result, group, verdict):
                    reason = f"{verdict.reason}; the track is sure of its own place"
                    result.verdicts.append(replace(verdict, reason=reason, action="taken as another object"))
                    result.elsewhere.append(group)
                    continue
                if group.frame < first.frame:
                    verdict = self._mend_before(result, group, earliest, verdict)
                elif group.can_seed and group.frame > latest:
                    verdict = self._mend_after(result, group, latest, verdict)
            result.verdicts.append(verdict)
            if verdict.outcome is Outcome.CONSISTENT or verdict.action:
                latest, earliest = max(latest, group.frame), min(earliest, group.frame)
        return result

    def _start(self, result: Followed, group: PointGroup) -> Session:
        """A session at a group that has not been propagated: the one that was looked at before, else a new one."""
        if group not in self._fresh:
            result.tracker_calls += 1
            prompt = self._with_neighbours(group).prompt()
            session = self._tracker.start(prompt, self._rivals.taken(group.frame, group.points))
            if self._rivals.is_another(session.seed, result.observations):
                taken = self._rivals.taken(group.frame, group.points, self._room_px(result, group))
                session = self._tracker.start(prompt, taken)
            self._fresh[group] = session
        return self._fresh[group]

    def _room_px(self, result: Followed, group: PointGroup) -> float:
        """Pixels around a point that the object may fill: by the area it showed before, at the point's distance."""
        radius_px = _ROOM * self._metric.disc_radius_px(
            self._usual_area(result, group.frame), self._place(group), group.frame
        )
        least_px = _SPARED_PX * self._metric.pixel_scale
        return max(least_px, radius_px) if np.isfinite(radius_px) else least_px

    def _with_neighbours(self, group: PointGroup) -> PointGroup:
        """The group with what the same narration marks on the same spot's surroundings in other frames.

        Several points tell the thing from its print. Only points that depth shows unmoved in this frame count.
        """
        place = self._place(group)
        if not np.isfinite(place).all():
            return group
        more = []
        for other in self._groups:
            if other.narration_id != group.narration_id or other.frame == group.frame:
                continue
            for point in other.points:
                moved = self._metric.surface.transferred(point, group.frame, _NEIGHBOUR_M, place)
                if moved is not None:
                    more.append(moved)
        return replace(group, points=(*group.points, *more))

    def _choose_seed(self, result: Followed, groups: list[PointGroup]) -> tuple[PointGroup, Session]:
        """The first point, unless a later one of the same narration gives a clearly better segment.

        Worth: the tracker's own score, times how well the segment's distance-free area fits the median of all of
        them (a label or a lid alone stands out against whole views), times 0.7 where depth does not place it, less for
        a thing that is seen small from far away, or in one frame instead of many.
        """
        first = next(group for group in groups if group.can_seed)
        same = [group for group in groups if group.can_seed and group.narration_id == first.narration_id]
        picks = np.unique(np.linspace(0, len(same) - 1, min(len(same), _MAX_SEEDS)).round().astype(int))
        group, session, evidence = self._clearest(result, [same[i] for i in picks])
        if group is not first:
            reason = f"the point in frame {group.frame} gives a clearer segment than the first, in frame {first.frame}"
            action = f"seeded at frame {group.frame}; the first point checks"
            log = Verdict(self._object_id, group.frame, Outcome.CONSISTENT, "seed", reason, evidence, action)
            result.verdicts.append(log)
        return group, session

    def _clearest(self, result: Followed, groups: list[PointGroup]) -> tuple[PointGroup, Session, dict[str, float]]:
        """The group with the best segment, the first one unless another is clearly better; and how good they are."""
        tried = [self._start(result, group) for group in groups]
        worth = self._worth_of_seeds([session.seed for session in tried])
        best = int(np.argmax(worth))
        chosen = 0 if worth[0] >= _FIRST_SEED_SHARE * worth[best] else best
        evidence = {"worth": float(worth[chosen]), "worth_of_first": float(worth[0])}
        return groups[chosen], tried[chosen], evidence

    def _still_there(self, group: PointGroup) -> list[PointGroup]:
        """The group, and the next ones of its narration that mark about the same place: any of them may mend."""
        place, out = self._place(group), [group]
        for other in self._groups:
            if other.narration_id != group.narration_id or other.frame <= group.frame or not other.can_seed:
                continue
            if not np.linalg.norm(self._place(other) - place) < self._metric.config.near_m:
                break
            out.append(other)
        return out[:_MAX_MENDERS]

    def _place(self, group: PointGroup) -> Float[np.ndarray, "3"]:
        """World place of a group's first positive point, NaN where depth or pose does not say."""
        return next((self._metric.surface.in_world(point) for point in group.points if point.positive), _NAN3)

    def _worth_of_seeds(self, seeds: list[Observation]) -> np.ndarray:
        areas = np.array([self._metric.distance_free_area(seed) for seed in seeds])
        placed = np.array([bool(np.isfinite(seed.center_in_world).all()) for seed in seeds])
        usual = np.median(areas[placed & (areas > 0)]) if (placed & (areas > 0)).any() else float("nan")
        worth = np.array([seed.score for seed in seeds]) * np.where(placed | ~placed.any(), 1.0, 0.7)
        seen_px = np.array([seed.area_px for seed in seeds], dtype=np.float64)
        fused = np.array([min(1.0, seed.evidence.get("views", 0.0) / _MANY_VIEWS) for seed in seeds])
        worth = worth * (0.6 + 0.4 * fused) * seen_px / (seen_px + _COARSE_PX * self._metric.pixel_scale**2)
        if np.isfinite(usual) and placed.sum() >= 3:
            ratio = np.where(placed & (areas > 0), np.maximum(areas, 1e-6) / usual, 1.0)
            worth = worth * np.exp(-np.abs(np.log(ratio)))
        return np.asarray(worth)

    def _run(self, result: Followed, session: Session, frame: int, forward: range, backward: range) -> None:
        self._fresh = {group: other for group, other in self._fresh.items() if other is not session}
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
        """The judge's verdict; without points, a mask that is another object's has drifted whatever it looks like."""
        result.judge_calls += 1
        verdict = self._judge.judge(self._case(result, frame, points))
        observation = result.observations[frame]
        overlap = 0.0 if points or observation is None else self._rivals.overlap(observation)
        if overlap < SAME_IOU:
            return verdict
        reason, evidence = f"another object's track has these pixels ({overlap:.2f})", {"another_iou": overlap}
        return replace(verdict, outcome=Outcome.DRIFTED, reason=reason, evidence={**verdict.evidence, **evidence})

    def _check(self, result: Followed, group: PointGroup) -> Verdict:
        """The judge's verdict; a mask that holds the point but disagrees with the thing around it has drifted too.

        Only where depth and colour hardly agree with the track is a fresh segment made at the point to compare with.
        """
        verdict = self._ask(result, group.frame, group.points)
        observation = result.observations[group.frame]
        if verdict.outcome is not Outcome.CONSISTENT or observation is None or observation.mask is None:
            return verdict
        agreement = self._recent_agreement(result, group.frame)
        if not group.can_seed or agreement >= _DOUBTFUL_AGREEMENT:
            return verdict
        fresh = self._start(result, group).seed
        many = fresh.evidence.get("views", 0.0) >= _MANY_VIEWS
        if fresh.mask is None or not many or not fresh.score >= _TRUSTED_SEED:
            return verdict
        overlap = masks.iou(fresh.mask, observation.mask)
        evidence = {**verdict.evidence, "fresh_overlap": overlap}
        if overlap >= _DECAYED_IOU:
            return replace(verdict, evidence=evidence)
        reason = (
            f"the mask holds the point, but depth and colour hardly agree with it ({agreement:.2f}), and a fresh "
            f"segment shares only {overlap:.2f} with it"
        )
        return replace(verdict, outcome=Outcome.DRIFTED, reason=reason, evidence=evidence)

    @staticmethod
    def _recent_agreement(result: Followed, frame: int) -> float:
        """Median agreement with depth and colour over the last masks up to a frame; 1 where nothing says so."""
        seen = [o for o in result.observations[: frame + 1] if o is not None and o.mask is not None]
        return float(np.median([o.evidence.get("agreement", 1.0) for o in seen[-_RECENT:]] or [1.0]))

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

    def _mend_after(self, result: Followed, group: PointGroup, trusted: int, verdict: Verdict) -> Verdict:
        """A fresh session at the later point: back to the failure, on to the end."""
        failure, calls = self.localise(result, trusted, group.frame)
        before = list(result.observations)
        seed, session, _ = self._clearest(result, self._still_there(group))
        # If the judge saw nothing wrong before the point, the two tracks decide.
        backward = range(seed.frame - 1, trusted if failure == group.frame else failure - 1, -1)
        self._run(result, session, seed.frame, range(seed.frame + 1, self._count), backward)
        if failure == group.frame:
            failure = _best_cut(before, result.observations, trusted, group.frame)
            result.observations[:failure] = before[:failure]
        for frame in range(trusted + 1, failure):
            result.observations[frame] = before[frame]
        for frame in range(failure, group.frame):
            if _was_lost(before[frame]):
                break  # what it found after that is what the point speaks against
            if _only_the_hand_knows(before[frame], result.observations[frame]):
                result.observations[frame] = before[frame]
        action = f"re-initialised at frame {seed.frame} (failure localised to frame {failure})"
        return replace(verdict, action=action, evidence={**verdict.evidence, "judge_calls": float(calls)})

    def _mend_before(self, result: Followed, group: PointGroup, seed_frame: int, verdict: Verdict) -> Verdict:
        """The same for a point before the seed frame (another narration marked it): only frames before change."""
        if not group.can_seed:
            return verdict
        before = list(result.observations)
        session = self._start(result, group)
        ahead, back = range(group.frame + 1, seed_frame), range(group.frame - 1, -1, -1)
        self._run(result, session, group.frame, ahead, back)
        cut = _best_cut(result.observations, before, group.frame, seed_frame)
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


def _was_lost(observation: Observation | None) -> bool:
    return observation is None or observation.state is MaskState.UNKNOWN


def _only_the_hand_knows(early: Observation | None, late: Observation | None) -> bool:
    """True where the later track sees nothing and the earlier one followed the hand that holds the thing."""
    blind = late is None or late.mask is None
    return blind and early is not None and early.mask is not None and early.evidence.get("in_hand", 0.0) > 0


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
