"""The story of one object: its rests, and what lies between them, after false moves are taken back."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64

from geo.boxes import Box3, aabb, points_in_box
from lifting._cloud import VoxelCloud
from lifting.bare_support import bare_rests, shows_bare
from lifting.complete import RestFit, fit_rest
from lifting.config import LiftConfig
from lifting.hands import NearHands
from lifting.observe import Observation
from lifting.surfaces import Surfaces, footprint_points
from lifting.timeline import RestSegment, Timeline

_TRIM_S = 0.3
_MIN_TRUSTED = 4
_EDGE_FRAMES = 6
_GRIPPED_SHARE = 0.85


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
    has_up: bool,
    config: LiftConfig,
) -> Story:
    """Take back moves that were none, then fit a box to every rest.

    * What is seen first counts as rest; if it turns out to move within the dwell time, it never was.
    * Observations before the first rest that are not really elsewhere are noise.
    * Two rests at one place with nothing seen clearly elsewhere in between are one rest.
    * A rest of a tall thing that shows nothing but its support is none.
    * The last moments of a rest in which the object already leaves (and the first in which it still arrives) are
      motion.
    """
    story = Story(timeline.object_id, moving=dict(timeline.moving), rejected=list(timeline.rejected))
    story.observed_frames = list(timeline.observed_frames)
    segments = _without_false_start(list(timeline.segments), story, times_s, config)
    segments = _merge_same_place(segments, story, config)
    _fit_all(story, segments, times_s, surfaces, has_up, config)
    if _drop_bare_support(story):
        segments = _merge_same_place([fit.segment for fit in story.fits], story, config)
        _fit_all(story, segments, times_s, surfaces, has_up, config)
    if not story.fits and not story.reason:
        story.reason = "never seen at rest" if story.moving else "never seen with enough depth"
    return story


def _drop_bare_support(story: Story) -> bool:
    """Take back rests that show the support alone, and what seemed to move there; True if there were any."""
    bare = bare_rests(story.fits)
    if not bare:
        return False
    story.fits = [fit for fit in story.fits if all(fit is not other for other in bare)]
    frames = [frame for fit in bare for frame in fit.segment.frames]
    moved = [frame for frame, observation in story.moving.items() if shows_bare(observation, bare)]
    for frame in moved:
        del story.moving[frame]
    frames += moved
    story.rejected.extend(frames)
    return True


def _without_false_start(
    segments: list[RestSegment], story: Story, times_s: Float64[np.ndarray, "N"], config: LiftConfig
) -> list[RestSegment]:
    if not segments or not _moves_after(story, segments[0]):
        return segments
    first = segments[0]
    length_s = times_s[first.last_frame] - times_s[first.first_frame]
    if len(first.frames) >= 3 and length_s >= 0.5 * config.dwell_s:
        return segments
    for observation in first.observations:
        story.moving[observation.frame] = observation
    return segments[1:]


def without_pauses(
    story: Story,
    others: list[Box3],
    times_s: Float64[np.ndarray, "N"],
    surfaces: Surfaces | None,
    hands: NearHands | None,
    has_up: bool,
    config: LiftConfig,
) -> None:
    """Turn pauses between two moves into motion: a hand holds the object there.

    With hands known, a pause is a rest during which a hand stays near all the time; without, a short rest in mid-air.
    ``others`` are boxes of the other objects' rests, which may support or contain this one.
    """
    kept = [f for f in story.fits if not _is_pause(f, story, others, times_s, surfaces, hands, config)]
    if len(kept) == len(story.fits):
        return
    for fit in story.fits:
        if fit not in kept:
            for observation in fit.segment.observations:
                story.moving[observation.frame] = observation
    segments = _merge_same_place([f.segment for f in kept], story, config)
    _fit_all(story, segments, times_s, surfaces, has_up, config)


def _is_pause(
    fit: RestFit,
    story: Story,
    others: list[Box3],
    times_s: Float64[np.ndarray, "N"],
    surfaces: Surfaces | None,
    hands: NearHands | None,
    config: LiftConfig,
) -> bool:
    segment = fit.segment
    if not (_moves_before(story, segment) and _moves_after(story, segment)):
        return False
    if hands is not None and hands.share(segment.first_frame, segment.last_frame, fit.box) >= _GRIPPED_SHARE:
        return True  # never let go of, also while it was unseen
    if surfaces is None or fit.support is not None or any(_carries(other, fit.box, config) for other in others):
        return False
    if hands is not None:
        return False
    return float(times_s[segment.last_frame] - times_s[segment.first_frame]) <= config.hover_max_s


def _carries(other: Box3, box: Box3, config: LiftConfig) -> bool:
    """True if a box lies on or in another one: enough of its footprint over it, its base not in the air above it."""
    points = footprint_points(box)
    local = points_in_box(other, np.concatenate([points, np.full((len(points), 1), other.center_in_world[2])], axis=1))
    share = float((np.abs(local[:, :2]) <= np.asarray(other.extent_m)[:2] / 2).all(axis=1).mean())
    base = float(box.center_in_world[2] - box.extent_m[2] / 2)
    low, high = aabb(other)
    return bool(
        share >= config.support_overlap and low[2] <= base + config.hover_gap_m <= high[2] + 2 * config.hover_gap_m
    )


def _fit_all(
    story: Story,
    segments: list[RestSegment],
    times_s: Float64[np.ndarray, "N"],
    surfaces: Surfaces | None,
    has_up: bool,
    config: LiftConfig,
) -> None:
    """Boxes of all rests; edges that border on motion are sharpened first."""
    fits: list[RestFit] = []
    for number, segment in enumerate(segments):
        before, after = number > 0 or _moves_before(story, segment), number + 1 < len(segments)
        after = after or _moves_after(story, segment)
        trusted = _trusted(segment, before, after, times_s)
        _sharpen(segment, trusted, before, after, story, config)
        fit = fit_rest(segment, trusted, surfaces, has_up, config)
        if isinstance(fit, str):
            story.reason = fit
        else:
            fits.append(fit)
    story.fits = fits


def _sharpen(
    segment: RestSegment, trusted: list[Observation], before: bool, after: bool, story: Story, config: LiftConfig
) -> None:
    """Move the frames at either end that already show a shift of more than the tolerance from rest to motion."""
    cloud = _cloud_of(trusted, config)
    for active, edge in ((after, list(reversed(segment.closing))), (before, segment.opening)):
        if not active:
            continue
        for observation in edge[:_EDGE_FRAMES]:
            noise = config.depth_noise_m(observation.distance_m)
            if float(np.linalg.norm(cloud.shift_of(observation.points_in_world))) < config.rest_tolerance_m + noise:
                break
            if len(segment.frames) <= _MIN_TRUSTED:
                break
            story.moving[observation.frame] = observation
            segment.frames = [f for f in segment.frames if f != observation.frame]
            segment.observations = [o for o in segment.observations if o.frame != observation.frame] or trusted
        segment.first_frame, segment.last_frame = min(segment.frames), max(segment.frames)
    _extend(segment, cloud, before, after, story, config)


def _extend(
    segment: RestSegment, cloud: VoxelCloud, before: bool, after: bool, story: Story, config: LiftConfig
) -> None:
    """The reverse: moving frames next to a rest that show no shift against it belong to it."""
    low = max((f for f in story.observed_frames if f < segment.first_frame and f not in story.moving), default=-1)
    high = min((f for f in story.observed_frames if f > segment.last_frame and f not in story.moving), default=1 << 60)
    earlier = [f for f in sorted(story.moving, reverse=True) if low < f < segment.first_frame]
    later = [f for f in sorted(story.moving) if segment.last_frame < f < high]
    for active, frames in ((before, earlier), (after, later)):
        for frame in frames if active else []:
            observation = story.moving[frame]
            noise = config.depth_noise_m(observation.distance_m)
            gaps = cloud.distances(observation.points_in_world)
            shift = float(np.linalg.norm(cloud.shift_of(observation.points_in_world)))
            limit = config.rest_tolerance_m + 2 * noise
            if shift > config.rest_tolerance_m + noise or float(np.mean(gaps > limit)) > config.moved_fraction:
                break
            del story.moving[frame]
            segment.frames.append(frame)
    segment.frames.sort()
    segment.first_frame, segment.last_frame = segment.frames[0], segment.frames[-1]


def _moves_before(story: Story, segment: RestSegment) -> bool:
    return any(frame < segment.first_frame for frame in story.moving)


def _trusted(
    segment: RestSegment, moved_before: bool, moves_after: bool, times_s: Float64[np.ndarray, "N"]
) -> list[Observation]:
    """Observations of a rest to fit a box to.

    Without its first and last moments where these border on motion, and without views of which the sensor sees less
    than half the usual share.
    """
    start = times_s[segment.first_frame] + (_TRIM_S if moved_before else 0.0)
    end = times_s[segment.last_frame] - (_TRIM_S if moves_after else 0.0)
    inner = [o for o in segment.observations if start <= times_s[o.frame] <= end]
    inner = inner if len(inner) >= _MIN_TRUSTED else segment.observations
    usual = float(np.median([o.coverage for o in inner]))
    covered = [o for o in inner if o.coverage >= 0.5 * usual]
    return covered if len(covered) >= _MIN_TRUSTED else inner


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
        first.opening,
        second.closing,
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


def _moves_after(story: Story, segment: RestSegment) -> bool:
    return any(frame > segment.last_frame for frame in story.moving)
