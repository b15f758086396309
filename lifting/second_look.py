"""Objects that the depth sensor hardly saw: a second look with the static model's depth.

The sensor's field of view is often narrower than the video's. A thing that never moved, as far as the sensor can
tell, may then be placed with the rendered static scene, in a few frames (rendering is dear), with a note.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Int64

from lifting._cloud import VoxelCloud
from lifting.config import LiftConfig
from lifting.observe import FrameView, Observation, observe
from lifting.timeline import RestSegment, Timeline

NOTE = "placed with the static model's depth: the sensor hardly saw it"


def needs_second_look(timeline: Timeline, mask_pixels: Int64[np.ndarray, "N"], config: LiftConfig) -> bool:
    """True for an object that is seen often enough, never moved, and has hardly any sensor depth."""
    good = sum(o.coverage >= config.good_view_coverage for s in timeline.segments for o in s.observations)
    visible = int((mask_pixels > 0).sum())
    return not timeline.moving and len(timeline.segments) <= 1 and good < min(config.few_views, visible)


def frames_to_look_at(mask_pixels: Int64[np.ndarray, "N"], config: LiftConfig) -> list[int]:
    """The frames with the largest masks, at most ``static_looks`` of them, in order of time."""
    order = np.argsort(-mask_pixels, kind="stable")[: config.static_looks]
    return sorted(int(f) for f in order if mask_pixels[f] > 0)


def second_look(
    timeline: Timeline,
    frames: list[int],
    view_of: Callable[[int], FrameView | None],
    mask_of: Callable[[int], Bool[np.ndarray, "H W"] | None],
    valid_mask: Bool[np.ndarray, "H W"],
    config: LiftConfig,
) -> bool:
    """Add static-model observations to the timeline's rest, or make one of them; False if they do not agree.

    They have to agree with what the sensor saw of the object, and most of them with each other: behind a thing that
    the reconstruction left out the static model shows the background, which fails either test or lies where the
    sensor's points are not.
    """
    found: list[Observation] = []
    for frame in frames:
        view, mask = view_of(frame), mask_of(frame)
        if view is None or mask is None:
            continue
        seen = observe(view, mask, valid_mask, timeline.object_id, config, with_static=True)
        if seen is not None:
            found.append(seen)
    if not found:
        return False
    sensor = timeline.segments[0].observations if timeline.segments else []
    agreeing = [o for o in found if _agrees(o, [p for p in [*sensor, *found] if p is not o], config)]
    anchored = [o for o in agreeing if not sensor or _agrees(o, sensor, config)]
    if len(anchored) < max(1, (len(found) + 1) // 2) and not (len(found) == 1 and not sensor):
        return False
    merged = sorted([*sensor, *(anchored or found)], key=lambda o: o.frame)
    segment = RestSegment(merged[0].frame, merged[-1].frame)
    for observation in {o.frame: o for o in merged}.values():
        segment.add(observation)
    timeline.segments = [segment]
    timeline.observed_frames = sorted({*timeline.observed_frames, *segment.frames})
    return True


def _agrees(observation: Observation, others: list[Observation], config: LiftConfig) -> bool:
    """True if two in five of its points lie on what the others saw."""
    if not others:
        return True
    cloud = VoxelCloud(config.voxel_m)
    for other in others:
        cloud.add(other.points_in_world)
    limit = config.rest_tolerance_m + 2 * config.depth_noise_m(observation.distance_m)
    return bool((cloud.distances(observation.points_in_world) < limit).mean() > 0.4)
