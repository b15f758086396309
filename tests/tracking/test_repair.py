"""Judges, localisation and repair with a stub tracker whose failures are known."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from scenes import carried, orbit, still_life

from tracking.base import Observation, Prompt
from tracking.identity import resolve_duplicates
from tracking.judges import Case, GeometricJudge
from tracking.records import Grounding, MaskState, MaskTrack, Outcome, Verdict, decode_rle, encode_rle
from tracking.repair import Followed, Follower, PointGroup
from tracking.rivals import Rivals

SIZE = 256
NAN3 = np.full(3, np.nan)


def square(x, y, half=8):
    mask = np.zeros((SIZE, SIZE), bool)
    mask[max(0, y - half) : y + half, max(0, x - half) : x + half] = True
    return mask


@dataclass
class Script:
    """A tracker that follows the object whose true place is ``truth[frame]``, until it fails."""

    truth: dict[int, tuple[int, int] | None]
    fails_at: int = 10**9  # forward from the first seed: sits on ``decoy`` from here on
    decoy: tuple[int, int] | None = (200, 200)
    agreement_when_lost: float = 0.05
    name: str = "script"
    started: list[int] = field(default_factory=list)
    visited: list[tuple[int, ...]] = field(default_factory=list)
    ran: list[int] = field(default_factory=list)  # seeds that were not only looked at
    taken: dict[int, bool] = field(default_factory=dict)  # seed frame: were pixels of others handed over?

    def start(self, prompt: Prompt, taken=None):
        self.started.append(prompt.frame)
        self.taken[prompt.frame] = taken is not None
        return _Session(self, prompt.frame, first=len(self.started) == 1)


@dataclass
class _Session:
    script: Script
    frame: int
    first: bool

    @property
    def seed(self):
        return self._see(self.frame)

    def propagate(self, frames):
        seen = []
        if self.frame not in self.script.ran[-1:]:
            self.script.ran.append(self.frame)
        for frame in frames:
            seen.append(frame)
            yield self._see(frame)
        self.script.visited.append(tuple(seen))

    def _see(self, frame):
        place, agreement = self.script.truth.get(frame), 0.9
        if self.first and frame >= self.script.fails_at:
            place, agreement = self.script.decoy, self.script.agreement_when_lost
        if place is None:
            return Observation(frame, MaskState.ABSENT, None, float("nan"), NAN3)
        mask = square(*place)
        return Observation(
            frame, MaskState.VISIBLE, encode_rle(mask), agreement, NAN3, int(mask.sum()), {"agreement": agreement}
        )


def judge():
    return GeometricJudge(still_life(poses=orbit(30)).recording(with_pose=False), None)


def follower(script, count, judge_=None, others=()):
    metric = judge()
    return Follower(script, judge_ or metric, metric, 1, "cup", count, rivals=Rivals(others))


def group(frame, x, y, narration="n0", positive=True):
    return PointGroup(narration, frame, (Grounding("cup", frame, (float(x), float(y)), positive),))


STEADY = {i: (40 + i, 60) for i in range(20)}


def test_a_point_in_the_mask_is_consistent_and_changes_nothing():
    script = Script(STEADY)
    result = follower(script, 20).follow([group(0, 40, 60), group(15, 55, 60)])
    assert [v.outcome for v in result.verdicts] == [Outcome.CONSISTENT]
    assert script.ran == [0] and result.verdicts[0].evidence["point_distance_px"] == 0


def test_a_point_within_the_marking_tolerance_is_consistent():
    """2.5 px at 256 px wide are the 10 px at 1024 that a hand-marked point may miss by."""
    just, beyond = group(15, 55, 60 + 8 + 2), group(15, 55, 60 + 8 + 3)
    for points, outcome in ((just, Outcome.CONSISTENT), (beyond, Outcome.DRIFTED)):
        result = follower(Script(STEADY), 20).follow([group(0, 40, 60), points])
        assert result.verdicts[0].outcome is outcome


@pytest.mark.parametrize("fails_at", [5, 9, 14, 15])
def test_failure_is_found_by_bisection_and_mended_from_the_later_point(fails_at):
    script = Script(STEADY, fails_at=fails_at)
    result = follower(script, 20).follow([group(2, 42, 60), group(15, 55, 60)])
    verdict = result.verdicts[0]
    assert verdict.outcome is Outcome.DRIFTED and f"localised to frame {fails_at}" in verdict.action
    for frame, (x, y) in STEADY.items():
        observation = result.observations[frame]
        assert observation is not None and decode_rle(observation.mask)[y, x], frame
    assert script.ran == [2, 15]  # one fresh session, no correction in place
    assert result.judge_calls <= 2 + np.ceil(np.log2(14))


def test_frames_before_the_failure_stay_untouched():
    script = Script(STEADY, fails_at=10)
    result = follower(script, 20).follow([group(0, 40, 60), group(15, 55, 60)])
    back = script.visited[-1]  # forward runs first, then back
    assert back == tuple(range(14, 9, -1)) and all(result.observations[i] is not None for i in range(20))


def test_a_failure_the_judge_cannot_see_is_cut_where_the_two_tracks_part():
    """The track jumps to a look-alike at frame 9 with full confidence: only the two tracks' overlap tells where."""
    script = Script(STEADY, fails_at=9, agreement_when_lost=0.9)
    result = follower(script, 20).follow([group(0, 40, 60), group(15, 55, 60)])
    assert "localised to frame 9" in result.verdicts[0].action


def test_t3_gone_and_back_is_one_object_and_no_alarm():
    """Visible on 0-9, out at the border on 10-19, back at the left on 20-29; a point on 25 confirms."""
    truth = {i: (200 + 6 * i, 60) for i in range(10)} | {i: None for i in range(10, 20)}
    truth |= {i: (4 * (i - 20) + 4, 40) for i in range(20, 30)}
    script = Script(truth)
    result = follower(script, 30).follow([group(0, 200, 60), group(25, 24, 40)])
    visible = [o is not None and o.state is MaskState.VISIBLE for o in result.observations]
    assert visible == [True] * 10 + [False] * 10 + [True] * 10
    assert [v.outcome for v in result.verdicts] == [Outcome.CONSISTENT] and script.ran == [0]


def test_a_track_that_missed_the_return_is_found_again_without_touching_what_was_right():
    truth = (
        {i: (40 + i, 60) for i in range(10)} | {i: None for i in range(10, 20)} | {i: (i, 40) for i in range(20, 30)}
    )
    script = Script(truth, fails_at=20, decoy=None)
    result = follower(script, 30).follow([group(0, 40, 60), group(25, 25, 40)])
    visible = [o is not None and o.state is MaskState.VISIBLE for o in result.observations]
    assert visible == [True] * 10 + [False] * 10 + [True] * 10
    assert "failure localised to frame 10" in result.verdicts[0].action


def test_a_negative_point_inside_the_mask_is_drift_and_cannot_seed():
    result = follower(Script(STEADY), 20).follow([group(0, 40, 60), group(9, 49, 60, positive=False)])
    assert result.verdicts[0].outcome is Outcome.DRIFTED and result.verdicts[0].action == ""


def test_another_narrations_point_far_from_a_sure_track_is_another_object():
    script = Script(STEADY)
    result = follower(script, 20).follow([group(0, 40, 60), group(15, 200, 200, narration="n1")])
    assert [g.frame for g in result.elsewhere] == [15] and script.started == [0]
    assert result.verdicts[0].action == "taken as another object"


def bowl_at(place, frames, score=0.9, half=8):
    """Another object that lies at a place in all frames."""
    rle = encode_rle(square(*place, half))
    states = np.full(frames, MaskState.VISIBLE, dtype=np.int64)
    return MaskTrack(2, "bowl", (rle,) * frames, states, np.full(frames, score))


def test_a_track_on_anothers_pixels_is_never_sure_of_its_own_place():
    """It slips onto the bowl at frame 9 and looks right there; another narration's point lies where the cup is."""
    groups = [group(0, 40, 60), group(15, 55, 60, narration="n1")]
    alone = follower(Script(STEADY, fails_at=9, agreement_when_lost=0.9), 20).follow(groups)
    assert [g.frame for g in alone.elsewhere] == [15]
    script = Script(STEADY, fails_at=9, agreement_when_lost=0.9)
    result = follower(script, 20, others=[bowl_at((200, 200), 20)]).follow(groups)
    assert not result.elsewhere and "localised to frame 9" in result.verdicts[0].action
    assert all(decode_rle(result.observations[i].mask)[y, x] for i, (x, y) in STEADY.items())


def test_every_seed_is_told_the_pixels_of_others_unless_its_point_lies_on_them():
    script = Script(STEADY, fails_at=9)
    follower(script, 20, others=[bowl_at((200, 200), 20)]).follow([group(0, 40, 60), group(15, 55, 60)])
    assert script.taken == {0: True, 15: True}
    for other in (bowl_at((40, 60), 20), bowl_at((200, 200), 20, score=0.3)):
        script = Script({i: (40, 60) for i in range(20)})
        follower(script, 20, others=[other]).follow([group(0, 40, 60)])
        assert script.taken == {0: False}


@dataclass
class Recorded:
    """A tracker that gives what is written down for it: one list of observations per session."""

    sessions: list[dict[int, Observation]]
    name: str = "recorded"
    count: int = 0

    def start(self, prompt: Prompt, taken=None):
        self.count += 1
        return _Replay(self.sessions[self.count - 1], prompt.frame)


@dataclass
class _Replay:
    seen: dict[int, Observation]
    frame: int

    @property
    def seed(self):
        return self.seen[self.frame]

    def propagate(self, frames):
        yield from (self.seen[frame] for frame in frames)


def at(frame, place, **evidence):
    """A mask that is well believed."""
    mask = square(*place)
    figures = {"agreement": 0.9} | evidence
    return Observation(frame, MaskState.VISIBLE, encode_rle(mask), 0.9, NAN3, int(mask.sum()), figures)


def test_the_hand_is_believed_until_it_is_lost_and_no_longer():
    """Followed in the hand to frame 7, lost in 8 and 9, then something else is found; the later track is blind."""
    early = {k: at(k, (40, 60)) for k in range(4)} | {k: at(k, (40 + 5 * k, 60), in_hand=1.0) for k in range(4, 8)}
    early |= {k: Observation(k, MaskState.UNKNOWN, None, float("nan"), NAN3) for k in (8, 9)}
    early |= {k: at(k, (200, 200), in_hand=1.0) for k in range(10, 16)}
    late = {k: at(k, (100, 60)) for k in (14, 15)}
    late |= {k: Observation(k, MaskState.ABSENT, None, float("nan"), NAN3) for k in range(14)}

    class Judge:
        name = "the failure is in frame 5"

        def judge(self, case: Case) -> Verdict:
            bad = case.points[0].frame > 0 if case.points else case.observation.frame >= 5
            return Verdict(1, case.observation.frame, Outcome.DRIFTED if bad else Outcome.CONSISTENT, "", "")

    result = follower(Recorded([early, late]), 16, Judge()).follow([group(0, 40, 60), group(14, 100, 60)])
    kept = [result.observations[k] is early[k] for k in range(16)]
    assert kept == [True] * 8 + [False] * 8


def test_a_seed_on_another_object_is_started_again_if_the_two_were_seen_apart():
    """The point lies on the cup in the bowl, and the bowl's mask covers both: the seed takes the bowl."""
    bowl, cup = bowl_at((60, 60), 8, half=20), square(66, 60, half=6)

    @dataclass
    class Tracker:
        name: str = "greedy"
        taken: list = field(default_factory=list)

        def start(self, prompt: Prompt, taken=None):
            self.taken.append(taken)
            whole = decode_rle(bowl.masks[0])
            mask = whole if taken is None else whole & ~taken
            return _Replay({k: at(k, (0, 0)) for k in range(8)} | {7: seen(7, mask)}, prompt.frame)

    def seen(frame, mask):
        return Observation(frame, MaskState.VISIBLE, encode_rle(mask), 0.9, NAN3, int(mask.sum()), {"agreement": 0.9})

    tracker = Tracker()
    mended = Follower(tracker, judge(), judge(), 1, "cup", 8, rivals=Rivals([bowl]))
    result = Followed([seen(k, square(140, 60, half=6)) for k in range(5)] + [None] * 3)
    session = mended._start(result, group(7, 66, 60))
    assert tracker.taken[0] is None and tracker.taken[1] is not None
    kept = decode_rle(session.seed.mask)
    assert (kept & cup).sum() > 0.9 * cup.sum() and kept.sum() < 0.4 * decode_rle(bowl.masks[0]).sum()

    never_apart = Followed([None] * 8)
    assert Follower(tracker, judge(), judge(), 1, "cup", 8, rivals=Rivals([bowl]))._start(never_apart, group(7, 66, 60))
    assert len(tracker.taken) == 3  # two names of one thing are not forced apart


def test_a_mask_that_holds_the_wearers_wrist_has_drifted():
    world = carried(hand_m=0.03)
    recording, frame = world.recording(), 15
    metric = GeometricJudge(recording, world)
    wrist = recording.hands[0].joints_in_world[frame, 0]
    xy = recording.camera.project((wrist - world.poses[frame][:3, 3]) @ world.poses[frame][:3, :3]).pixels_xy
    for mask, outcome in ((square(*xy.round().astype(int)), "drifted"), (square(200, 40), "consistent")):
        observation = Observation(
            frame, MaskState.VISIBLE, encode_rle(mask), 0.9, NAN3, int(mask.sum()), {"agreement": 0.9}
        )
        verdict = metric.judge(Case(1, "box", observation))
        assert verdict.outcome.value == outcome and ("wrist" in verdict.reason) == (outcome == "drifted")


def test_repairs_are_bounded_by_the_number_of_points():
    """A tracker that always fails is asked once per point: what was started to be looked at is not started again."""
    script = Script({}, fails_at=0)
    groups = [group(i, 40, 60) for i in range(0, 20, 4)]
    result = follower(script, 20).follow(groups)
    assert result.tracker_calls <= len(groups)


class _Undecided:
    name = "shrug"

    def judge(self, case: Case) -> Verdict:
        outcome = Outcome.DRIFTED if case.points else Outcome.UNDECIDED
        return Verdict(case.object_id, case.observation.frame, outcome, self.name, "do not know")


def test_an_undecided_judge_ends_the_search_too():
    script = Script(STEADY, fails_at=9)
    result = follower(script, 20, _Undecided()).follow([group(0, 40, 60), group(15, 55, 60)])
    assert "localised to frame 9" in result.verdicts[0].action and result.judge_calls <= 20


def track_of(object_id, label, masks):
    states = np.array([MaskState.VISIBLE if m.any() else MaskState.ABSENT for m in masks], dtype=np.int64)
    rles = tuple(encode_rle(m) if m.any() else None for m in masks)
    return MaskTrack(object_id, label, rles, states, np.where(states == MaskState.VISIBLE, 0.9, np.nan))


def gone_and_back():
    """The masks of case T3."""
    masks = np.zeros((30, 120, 160), bool)
    for i in range(10):
        masks[i, 50:70, 120 + 4 * i : min(160, 140 + 4 * i)] = True
    for i in range(20, 30):
        masks[i, 30:50, 4 * (i - 20) : 20 + 4 * (i - 20)] = True
    return masks


def test_t3_the_same_thing_tracked_twice_is_merged_under_one_label():
    masks = gone_and_back()
    half = np.roll(masks, 1, axis=2)
    first = masks.copy()
    first[25:] = False  # the first lost it early; the merged track has the second's frames there
    kept, verdicts, warnings = resolve_duplicates([track_of(1, "cup", first), track_of(2, "cup (2)", half)])
    assert [t.object_id for t in kept] == [1] and warnings == ()
    assert int((kept[0].states == MaskState.VISIBLE).sum()) == 20
    assert verdicts[0].object_id == 2 and verdicts[0].action == "merged into object 1"


def test_t3_two_labels_on_one_thing_are_reported_not_merged():
    masks = gone_and_back()
    kept, verdicts, warnings = resolve_duplicates([track_of(1, "cup", masks), track_of(2, "mug", np.roll(masks, 1, 2))])
    assert len(kept) == 2 and len(warnings) == 1 and verdicts[0].action == "reported"


def test_two_frames_of_overlap_are_no_duplicate():
    masks = gone_and_back()
    other = np.zeros_like(masks)
    other[20:22] = masks[20:22]
    kept, verdicts, _ = resolve_duplicates([track_of(1, "cup", masks), track_of(2, "cup (2)", other)])
    assert len(kept) == 2 and verdicts == ()
