"""The tracking stage: narrations in, one mask track per object out, with every judgement on record."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from geo.recording import CanonicalRecording
from tracking.base import Observation, SceneDepthLike, Tracker
from tracking.embedded.config import EmbeddedConfig
from tracking.identity import ObjectPlan, plan_objects, resolve_duplicates, second_plan
from tracking.judges import GeometricJudge, Judge, JudgeConfig
from tracking.records import MaskState, MaskTrack, NarrationSet, Outcome, TrackSet, Verdict
from tracking.repair import Follower, PointGroup
from tracking.rivals import Rivals

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class TrackConfig:
    """Settings of the tracking stage."""

    embedded: EmbeddedConfig = field(default_factory=EmbeddedConfig)
    """The tracker that needs no weights."""
    judge: JudgeConfig = field(default_factory=JudgeConfig)
    """The geometric judge."""
    max_same_label: int = 4
    """At most so many objects may share one label before further points are only reported."""


@dataclass(frozen=True)
class ObjectResult:
    """One tracked object, whole: may be stored and handed back to ``track_objects`` as done."""

    plan: ObjectPlan
    track: MaskTrack
    verdicts: tuple[Verdict, ...]
    elsewhere: tuple[PointGroup, ...] = ()  # points that mean another object of the same label


def track(
    canonical: CanonicalRecording,
    scene_depth: SceneDepthLike | None,
    narrations: NarrationSet,
    config: TrackConfig | None = None,
    progress: Progress | None = None,
) -> TrackSet:
    """Track every object that the narrations point at, through the whole recording.

    Args:
        canonical: The recording; frames are read lazily and never all held.
        scene_depth: What is known of depth per frame; None works from the pictures alone.
        narrations: Points on objects; the first of an object seeds it, later ones check it.
        config: Settings; the defaults run.
        progress: Called with (frames done, frames in all, what).

    Returns:
        Masks at the size of the canonical view (logits resized, then cut at zero). No narrations give no tracks
        and a warning. The same input gives the same bytes.
    """
    config = config or TrackConfig()
    results = list(track_objects(canonical, scene_depth, narrations, config, progress))
    return assemble(canonical, narrations, results)


def track_objects(
    canonical: CanonicalRecording,
    scene_depth: SceneDepthLike | None,
    narrations: NarrationSet,
    config: TrackConfig | None = None,
    progress: Progress | None = None,
    done: Mapping[int, ObjectResult] | None = None,
    tracker: Tracker | None = None,
    judge: Judge | None = None,
) -> Iterator[ObjectResult]:
    """Objects one by one, in order of their ids, so that a caller can store each; ``done`` ones are not redone."""
    config = config or TrackConfig()
    tracker = tracker or default_tracker(canonical, scene_depth, config)
    queue = list(plan_objects(narrations)[0])
    results: list[ObjectResult] = []
    while queue:
        plan = queue.pop(0)
        known = (done or {}).get(plan.object_id)
        if known is None:
            total = len(results) + 1 + len(queue)
            known = track_object(
                canonical, scene_depth, plan, config, tracker, judge, results, _scaled(progress, len(results), total)
            )
        results.append(known)
        same = sum(other.plan.label.startswith(base) for other in results for base in [plan.label.split(" (")[0]])
        if any(group.can_seed for group in known.elsewhere) and same < config.max_same_label:
            fresh = max([*(r.plan.object_id for r in results), *(p.object_id for p in queue)]) + 1
            root = ObjectPlan(plan.object_id, plan.label.split(" (")[0], ())
            queue.append(second_plan(root, fresh, known.elsewhere, same + 1))
        yield known


def track_object(
    canonical: CanonicalRecording,
    scene_depth: SceneDepthLike | None,
    plan: ObjectPlan,
    config: TrackConfig | None = None,
    tracker: Tracker | None = None,
    judge: Judge | None = None,
    others: Sequence[ObjectResult] = (),
    progress: Progress | None = None,
) -> ObjectResult:
    """One object, checked and repaired; ``others`` keep their pixels where it is seeded."""
    config = config or TrackConfig()
    tracker = tracker or default_tracker(canonical, scene_depth, config)
    metric = GeometricJudge(canonical, scene_depth, config.judge)
    count = len(canonical.timestamps_ns)
    seen = [0]

    def tick(frames: int) -> None:
        seen[0] += frames
        if progress is not None:
            progress(min(seen[0], count), count, f"tracking {plan.label}")

    rivals = Rivals([other.track for other in others])
    follower = Follower(tracker, judge or metric, metric, plan.object_id, plan.label, count, tick, rivals)
    followed = follower.follow(list(plan.groups))
    track_ = _track_of(plan, followed.observations)
    return ObjectResult(plan, track_, tuple(followed.verdicts), tuple(followed.elsewhere))


def default_tracker(canonical: CanonicalRecording, scene_depth: SceneDepthLike | None, config: TrackConfig) -> Tracker:
    """The embedded tracker."""
    from tracking.embedded.tracker import EmbeddedTracker

    return EmbeddedTracker(canonical, scene_depth, config.embedded)


def assemble(canonical: CanonicalRecording, narrations: NarrationSet, results: Sequence[ObjectResult]) -> TrackSet:
    """All results as one record: duplicates resolved, identities and warnings on record."""
    warnings = [*narrations.warnings, *plan_objects(narrations)[1]]
    if not results and not any("nothing will be tracked" in text for text in warnings):
        warnings.append("no narration points at an object: nothing was tracked")
    tracks, duplicates, reports = resolve_duplicates([result.track for result in results])
    verdicts = [verdict for result in results for verdict in result.verdicts]
    for result in results:
        verdicts += _identity_verdicts(result)
        for group in result.elsewhere:
            warnings.append(
                f"narration {group.narration_id} means by {result.plan.label!r} in frame {group.frame} something that "
                "lies elsewhere than the object of that name: taken as another object"
            )
    return TrackSet(
        size_wh_px=canonical.camera.size_wh_px,
        timestamps_ns=np.asarray(canonical.timestamps_ns, np.int64),
        tracks=tracks,
        verdicts=tuple([*verdicts, *duplicates]),
        tracker="embedded",
        warnings=tuple([*warnings, *reports]),
    )


def _identity_verdicts(result: ObjectResult) -> list[Verdict]:
    """Several narrations, one object: the decision is written down."""
    names = sorted(
        {group.narration_id for group in result.plan.groups} - {group.narration_id for group in result.elsewhere}
    )
    if len(names) < 2:
        return []
    reason = f"narrations {', '.join(names)} name the same object: their points lie on one track"
    frame = result.plan.groups[0].frame
    return [
        Verdict(result.plan.object_id, frame, Outcome.CONSISTENT, "identity", reason, {"narrations": float(len(names))})
    ]


def _track_of(plan: ObjectPlan, observations: Sequence[Observation | None]) -> MaskTrack:
    masks = tuple(None if o is None else o.mask for o in observations)
    states = np.array([MaskState.UNKNOWN if o is None else o.state for o in observations], dtype=np.int64)
    scores = np.array([np.nan if o is None or o.mask is None else o.score for o in observations], dtype=np.float64)
    return MaskTrack(plan.object_id, plan.label, masks, states, scores)


def _scaled(progress: Progress | None, index: int, total: int) -> Progress | None:
    if progress is None:
        return None
    return lambda done, of, what: progress(index * of + done, total * of, what)
