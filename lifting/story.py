"""The story of one object: its rests, and what lies between them, after false moves are taken back."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64

from lifting._cloud import VoxelCloud
from lifting.complete import RestFit, fit_rest
from lifting.config import LiftConfig
from lifting.observe import Observation
from lifting.rest import RestSegment, Timeline
from lifting.surfaces import Surfaces

_TRIM_S = 0.3
_MIN_TRUSTED = 4


@dataclass
class Story:
    """Rests in time order with their fits, and the frames in between in which the object was seen moving."""

    object_id: int
    fits: list[RestFit] = field(default_factory=list)
    moving: dict[int, Observation] = field(default_factory=dict)
    rejected: list[int] = field(default_factory=list)
    observed_frames: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reason: str = ""


def tell(
    timeline: Timeline,
    times_s: Float64[np.ndarray, "N"],
    surfaces: Surfaces | None,
    hands_near: dict[int, bool],
    has_up: bool,
    config: LiftConfig,
) -> Story:
    """Take back moves that were none, then fit a box to every rest.

    * Observations before the first rest that are not really elsewhere are noise.
    * Two rests at one place with nothing seen clearly elsewhere in between are one rest.
    * A short rest in mid-air between two moves is a pause in the hand.
    """
    story = Story(timeline.object_id, moving=dict(timeline.moving), rejected=list(timeline.rejected))
    story.observed_frames = list(timeline.observed_frames)
    segments = _merge_same_place(list(timeline.segments), story, config)
    fits: list[RestFit] = []
    for number, segment in enumerate(segments):
        trusted = _trusted(segment, number > 0 or _moves_before(story, segment), number + 1 < len(segments), times_s)
        fit = fit_rest(segment, trusted, surfaces, has_up, config)
        if isinstance(fit, str):
            story.reason = fit
        else:
            fits.append(fit)
    kept = _without_pauses(fits, story, times_s, surfaces, hands_near, config)
    if len(kept) != len(fits):
        segments = _merge_same_place([f.segment for f in kept], story, config)
        kept = _refit(segments, kept, story, times_s, surfaces, has_up, config)
    story.fits = kept
    if not story.fits and not story.reason:
        story.reason = "never seen at rest" if story.moving else "never seen with enough depth"
    return story


def _refit(
    segments: list[RestSegment],
    fits: list[RestFit],
    story: Story,
    times_s: Float64[np.ndarray, "N"],
    surfaces: Surfaces | None,
    has_up: bool,
    config: LiftConfig,
) -> list[RestFit]:
    known = {id(f.segment): f for f in fits}
    out: list[RestFit] = []
    for number, segment in enumerate(segments):
        if id(segment) in known:
            out.append(known[id(segment)])
            continue
        trusted = _trusted(segment, number > 0 or _moves_before(story, segment), number + 1 < len(segments), times_s)
        fit = fit_rest(segment, trusted, surfaces, has_up, config)
        if not isinstance(fit, str):
            out.append(fit)
    return out


def _moves_before(story: Story, segment: RestSegment) -> bool:
    return any(frame < segment.first_frame for frame in story.moving)


def _trusted(
    segment: RestSegment, moved_before: bool, moves_after: bool, times_s: Float64[np.ndarray, "N"]
) -> list[Observation]:
    """Observations of a rest without its first and last moments where these border on motion."""
    start = times_s[segment.first_frame] + (_TRIM_S if moved_before else 0.0)
    end = times_s[segment.last_frame] - (_TRIM_S if moves_after else 0.0)
    inner = [o for o in segment.observations if start <= times_s[o.frame] <= end]
    return inner if len(inner) >= _MIN_TRUSTED else segment.observations


def _cloud_of(observations: list[Observation], config: LiftConfig) -> VoxelCloud:
    cloud = VoxelCloud(config.voxel_m)
    for observation in observations[:: max(1, len(observations) // 24)]:
        cloud.add(observation.points_in_world)
    return cloud


def displacement(observation: Observation, cloud: VoxelCloud) -> float:
    """How far an observation is from a resting model: median distance of its points."""
    return float(np.median(cloud.distances(observation.points_in_world)))


def _merge_same_place(segments: list[RestSegment], story: Story, config: LiftConfig) -> list[RestSegment]:
    """Join neighbours whose surfaces coincide unless the object was seen away from there in between."""
    out: list[RestSegment] = []
    if segments:
        _drop_noise_before(segments[0], story, config)
    for segment in segments:
        if out and _same_place(out[-1], segment, story, config):
            between = [f for f in story.moving if out[-1].last_frame < f < segment.first_frame]
            for frame in between:
                del story.moving[frame]
            story.rejected.extend(between)
            out[-1] = _joined(out[-1], segment)
        else:
            out.append(segment)
    if out:
        _drop_noise_after(out[-1], story, config)
    return out


def _joined(first: RestSegment, second: RestSegment) -> RestSegment:
    return RestSegment(
        first.first_frame,
        second.last_frame,
        first.observations + second.observations,
        first.frames + second.frames,
        second.contradicted_frame,
    )


def _same_place(first: RestSegment, second: RestSegment, story: Story, config: LiftConfig) -> bool:
    cloud = _cloud_of(first.observations, config)
    points = np.concatenate([o.points_in_world for o in second.observations[:12]])
    back = _cloud_of(second.observations, config)
    mine = np.concatenate([o.points_in_world for o in first.observations[-12:]])
    noise = config.depth_noise_m(second.observations[0].distance_m)
    limit = config.rest_tolerance_m + 2 * noise
    new, gone = np.mean(cloud.distances(points) > limit), np.mean(back.distances(mine) > limit)
    middle_step = np.median(points, axis=0) - np.median(mine, axis=0)
    if min(new, gone) > config.still_fraction or (
        min(new, gone) > 0.1 and float(np.linalg.norm(middle_step)) > config.min_move_m
    ):
        return False
    between = [o for f, o in sorted(story.moving.items()) if first.last_frame < f < second.first_frame]
    return _times_away(between, cloud, config) < 2


def _times_away(observations: list[Observation], cloud: VoxelCloud, config: LiftConfig) -> int:
    away = config.min_move_m
    return sum(displacement(o, cloud) > away + 2 * config.depth_noise_m(o.distance_m) for o in observations)


def _drop_noise_before(segment: RestSegment, story: Story, config: LiftConfig) -> None:
    before = [f for f in sorted(story.moving) if f < segment.first_frame]
    cloud = _cloud_of(segment.observations, config)
    if before and _times_away([story.moving[f] for f in before], cloud, config) < 3:
        for frame in before:
            del story.moving[frame]
        story.rejected.extend(before)


def _drop_noise_after(segment: RestSegment, story: Story, config: LiftConfig) -> None:
    after = [f for f in sorted(story.moving) if f > segment.last_frame]
    cloud = _cloud_of(segment.observations, config)
    if after and _times_away([story.moving[f] for f in after], cloud, config) < 2:
        for frame in after:
            del story.moving[frame]
        story.rejected.extend(after)


def _without_pauses(
    fits: list[RestFit],
    story: Story,
    times_s: Float64[np.ndarray, "N"],
    surfaces: Surfaces | None,
    hands_near: dict[int, bool],
    config: LiftConfig,
) -> list[RestFit]:
    """Turn short unsupported rests between moves into moving frames (a hand holds the object in the air)."""
    kept = []
    for number, fit in enumerate(fits):
        segment = fit.segment
        length_s = times_s[segment.last_frame] - times_s[segment.first_frame]
        after_move = number > 0 or _moves_before(story, segment)
        frames = segment.frames
        gripped = bool(frames) and np.mean([hands_near.get(f, False) for f in frames]) > 0.7
        limit_s = config.hover_max_s if not gripped else np.inf
        hovering = fit.support is None and surfaces is not None and length_s <= limit_s
        if after_move and hovering and _moves_after(story, segment) and (gripped or not hands_near):
            for observation in segment.observations:
                story.moving[observation.frame] = observation
        else:
            kept.append(fit)
    return kept


def _moves_after(story: Story, segment: RestSegment) -> bool:
    return any(frame > segment.last_frame for frame in story.moving)
