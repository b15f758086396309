"""Per object: the box in every frame, at rest, in the hand, kept while out of view, or unknown."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float64, Int64

from geo import se3
from lifting._cloud import VoxelCloud
from lifting.config import LiftConfig
from lifting.fit_box import fit_box, yaw_rotation
from lifting.observe import Observation
from lifting.reconcile import Body, RestPlace, reconcile
from lifting.records import MotionState, ObjectTrajectory
from lifting.register import BodyModel, Registration, register
from lifting.smooth import smooth_centers
from lifting.story import Story, displacement

_SHORT_GAP_S = 1.0
_HAND_SIGMA_M = 0.05
_HELD_SHARE = 0.3


@dataclass(frozen=True)
class Clock:
    """Frames of a recording."""

    timestamps_ns: Int64[np.ndarray, "N"]
    times_s: Float64[np.ndarray, "N"]

    def __len__(self) -> int:
        return len(self.timestamps_ns)


@dataclass
class Leg:
    """One stretch of motion: the rests it leads from and to (index or None), and its moving frames."""

    before: int | None
    after: int | None
    frames: list[int]
    reach_m: float  # how far from the nearer rest the object was clearly seen


@dataclass
class Assembled:
    """A trajectory with what events and moving depth need beside it."""

    trajectory: ObjectTrajectory
    story: Story
    places: list[RestPlace] = field(default_factory=list)
    legs: list[Leg] = field(default_factory=list)
    body: Body | None = None
    model: BodyModel | None = None
    poses: dict[int, Registration] = field(default_factory=dict)


def assemble(
    story: Story,
    label: str,
    clock: Clock,
    mask_pixels: Int64[np.ndarray, "N"],
    hand_near: dict[int, bool],
    hand_centers: dict[int, Float64[np.ndarray, "3"]],
    has_up: bool,
    config: LiftConfig,
) -> Assembled:
    """Turn a story into a trajectory."""
    rows = _Rows(len(clock))
    notes = list(story.notes)
    if not story.fits and not story.moving:
        return Assembled(_no_box(story, label, clock), story)
    body, places = _shape(story, clock, has_up, config)
    if not places:
        notes.append("never seen at rest: extent from single views")
    for place in places:
        notes.extend(n for n in place.fit.notes if n not in notes)
    places = _consistent_turns(places, has_up)
    model = BodyModel(body.points_in_box, body.extent_m)
    out = Assembled(_no_box(story, label, clock), story, places, _legs(story, places, config), body, model)
    for index in range(len(places)):
        _fill_rest(rows, index, out, clock)
    for leg in out.legs:
        _fill_leg(rows, leg, out, clock, hand_near, hand_centers, has_up, config)
    if any(not r.yaw_measured for r in out.poses.values()):
        notes.append("turn while moving not observable in every frame: kept from the frame before")
    pixels = mask_pixels.copy()
    pixels[np.array(sorted(set(story.rejected)), dtype=np.int64)] = 0
    out.trajectory = ObjectTrajectory(
        object_id=story.object_id,
        label=label,
        timestamps_ns=clock.timestamps_ns,
        states=rows.states,
        centers_in_world=rows.centers,
        center_covariances_m2=rows.covariances,
        quats_wxyz=se3.quat_wxyz_from_rotation(rows.rotations),
        extent_m=body.extent_m,
        extent_sigma_m=body.extent_sigma_m,
        observed=rows.observed,
        visible_pixels=pixels,
        view_count=body.views,
        notes=tuple(notes),
    )
    return out


class _Rows:
    """The columns of a trajectory while they are filled; NaN and UNSEEN to start with."""

    def __init__(self, count: int) -> None:
        self.states: Int64[np.ndarray, "N"] = np.full(count, int(MotionState.UNSEEN), dtype=np.int64)
        self.centers: Float64[np.ndarray, "N 3"] = np.full((count, 3), np.nan)
        self.covariances: Float64[np.ndarray, "N 3 3"] = np.full((count, 3, 3), np.nan)
        self.rotations: Float64[np.ndarray, "N 3 3"] = np.full((count, 3, 3), np.nan)
        self.observed: Bool[np.ndarray, "N"] = np.zeros(count, dtype=bool)


def _no_box(story: Story, label: str, clock: Clock) -> ObjectTrajectory:
    """A trajectory that says only why there is none."""
    count = len(clock)
    nan3 = np.full(3, np.nan)
    rows = _Rows(count)
    return ObjectTrajectory(
        story.object_id,
        label,
        clock.timestamps_ns,
        rows.states,
        rows.centers,
        rows.covariances,
        np.full((count, 4), np.nan),
        nan3,
        nan3,
        rows.observed,
        np.zeros(count, dtype=np.int64),
        0,
        (f"no box: {story.reason or 'never seen with enough depth'}",),
    )


def _shape(story: Story, clock: Clock, has_up: bool, config: LiftConfig) -> tuple[Body, list[RestPlace]]:
    """Extent and model from the rests, else from the single views of a thing that never rests."""
    if story.fits:
        start = float(clock.times_s[0])
        minutes = [
            (float(clock.times_s[(f.segment.first_frame + f.segment.last_frame) // 2]) - start) / 60 for f in story.fits
        ]
        return reconcile(story.fits, has_up, config, minutes)
    boxes = [fit_box(o.points_in_world, has_up, config.box_quantile).box for o in story.moving.values()]
    extents = np.stack([b.extent_m for b in boxes if b is not None])
    extent = np.maximum(np.quantile(extents, 0.7, axis=0), config.min_extent_m)
    spread = 1.4826 * np.median(np.abs(extents - np.median(extents, axis=0)), axis=0) + 0.1 * extent
    return Body(extent, spread, np.zeros((0, 3)), len(extents)), []


def _consistent_turns(places: list[RestPlace], has_up: bool) -> list[RestPlace]:
    """A box looks the same after half a turn: take the half turn that is nearer to the rest before."""
    out: list[RestPlace] = []
    for place in places:
        if out and has_up:
            relative = out[-1].box.world_from_box_rotation.T @ place.box.world_from_box_rotation
            if relative[0, 0] < 0:
                flipped = place.box.world_from_box_rotation @ yaw_rotation(np.pi)
                box = type(place.box)(place.box.center_in_world, place.box.extent_m, flipped)
                place = RestPlace(place.fit, box, place.covariance_m2)
        out.append(place)
    return out


def _legs(story: Story, places: list[RestPlace], config: LiftConfig) -> list[Leg]:
    """Stretches between rests: those with moving frames, and jumps without any."""
    legs: list[Leg] = []
    frames = sorted(story.moving)
    for index in range(len(places) + 1):
        before = places[index - 1].fit.segment if index > 0 else None
        after = places[index].fit.segment if index < len(places) else None
        low = before.last_frame if before else -1
        high = after.first_frame if after else 1 << 60
        inside = [f for f in frames if low < f < high]
        if not inside and (before is None or after is None):
            continue
        reach = max((_reach(story.moving[f], places, index, config) for f in inside), default=0.0)
        if before is not None and after is not None:
            ends = places[index].box.center_in_world - places[index - 1].box.center_in_world
            reach = max(reach, float(np.linalg.norm(ends)))
        legs.append(Leg(index - 1 if before else None, index if after else None, inside, reach))
    return legs


def _reach(observation: Observation, places: list[RestPlace], index: int, config: LiftConfig) -> float:
    gaps = []
    for k in (index - 1, index):
        if 0 <= k < len(places):
            cloud = VoxelCloud(config.voxel_m)
            cloud.add(places[k].fit.points_in_world)
            gaps.append(displacement(observation, cloud))
    return min(gaps) if gaps else float("inf")


def _fill_rest(rows: _Rows, index: int, out: Assembled, clock: Clock) -> None:
    """Write a rest from its first frame to where it ends or can no longer be known."""
    place, segment = out.places[index], out.places[index].fit.segment
    stop = len(clock)
    following = next((leg for leg in out.legs if leg.before == index), None)
    if following is not None:
        stop = segment.last_frame + 1
        upcoming = following.frames[0] if following.frames else out.places[index + 1].fit.segment.first_frame
        if clock.times_s[upcoming] - clock.times_s[segment.last_frame] <= _SHORT_GAP_S:
            stop = upcoming if following.frames else (segment.last_frame + upcoming + 1) // 2
    if segment.contradicted_frame is not None:
        stop = min(stop, max(segment.contradicted_frame, segment.last_frame + 1))
    span = slice(segment.first_frame, stop)
    rows.states[span] = int(MotionState.REST)
    rows.centers[span] = place.box.center_in_world
    rows.covariances[span] = place.covariance_m2
    rows.rotations[span] = place.box.world_from_box_rotation
    rows.observed[np.array(segment.frames, dtype=np.int64)] = True


def _fill_leg(
    rows: _Rows,
    leg: Leg,
    out: Assembled,
    clock: Clock,
    hand_near: dict[int, bool],
    hand_centers: dict[int, Float64[np.ndarray, "3"]],
    has_up: bool,
    config: LiftConfig,
) -> None:
    """Register, smooth and write the moving frames of a leg."""
    if not leg.frames:
        return
    registrations = _register_leg(leg, out, has_up, config)
    out.poses.update(registrations)
    held = float(np.mean([hand_near.get(f, False) for f in leg.frames])) >= _HELD_SHARE
    state = MotionState.HELD if held else MotionState.MOVING
    first = leg.frames[0] if leg.before is None else out.places[leg.before].fit.segment.last_frame
    last = leg.frames[-1] if leg.after is None else out.places[leg.after].fit.segment.first_frame
    if leg.before is not None and clock.times_s[leg.frames[0]] - clock.times_s[first] > _SHORT_GAP_S:
        first = leg.frames[0]
    if leg.after is not None and clock.times_s[last] - clock.times_s[leg.frames[-1]] > _SHORT_GAP_S:
        last = leg.frames[-1]
    if leg.after is None:
        last = _follow_hand_until(leg.frames[-1], held, hand_centers, len(clock))
    span = np.arange(first, last + 1)
    centers, covariances = _measurements(span, leg, out, registrations, held, hand_centers, config)
    known = np.isfinite(centers).all(axis=1)
    span, centers, covariances = span[known.argmax() :], centers[known.argmax() :], covariances[known.argmax() :]
    smooth, spread = smooth_centers(clock.times_s[span], centers, covariances, config.accel_sigma_m_s2)
    _write_leg(rows, span, smooth, spread, np.isfinite(centers).all(axis=1), registrations, state, clock, config)


def _register_leg(leg: Leg, out: Assembled, has_up: bool, config: LiftConfig) -> dict[int, Registration]:
    """Forwards from the rest before, or backwards from the rest after, or box centres of single views."""
    assert out.model is not None
    found: dict[int, Registration] = {}
    backwards = leg.before is None and leg.after is not None
    start = leg.after if backwards else leg.before
    if start is None or out.model.tree is None:
        for frame in leg.frames:
            box = fit_box(out.story.moving[frame].points_in_world, has_up, config.box_quantile).box
            if box is not None:
                found[frame] = Registration(
                    box.center_in_world, np.eye(3), float(np.linalg.norm(box.extent_m)) / 4, False
                )
        return found
    center = out.places[start].box.center_in_world
    rotation = out.places[start].box.world_from_box_rotation
    for frame in reversed(leg.frames) if backwards else leg.frames:
        found[frame] = register(out.model, out.story.moving[frame], center, rotation, has_up, config)
        center, rotation = found[frame].center_in_world, found[frame].rotation
    return found


def _measurements(
    span: Int64[np.ndarray, "M"],
    leg: Leg,
    out: Assembled,
    registrations: dict[int, Registration],
    held: bool,
    hand_centers: dict[int, Float64[np.ndarray, "3"]],
    config: LiftConfig,
) -> tuple[Float64[np.ndarray, "M 3"], Float64[np.ndarray, "M 3 3"]]:
    """Centres to smooth: the rests at the ends, registrations, and the hand where the object itself is hidden."""
    centers, covariances = np.full((len(span), 3), np.nan), np.full((len(span), 3, 3), np.nan)
    assert out.body is not None
    for k, frame in enumerate(span.tolist()):
        found = registrations.get(frame)
        if found is not None:
            centers[k] = found.center_in_world
            covariances[k] = _moving_covariance(found, out.story.moving[frame], out.body, config)
        elif held and frame in hand_centers:
            offset = _hand_offset(frame, registrations, hand_centers)
            if offset is not None:
                centers[k] = hand_centers[frame] + offset
                covariances[k] = np.eye(3) * _HAND_SIGMA_M**2
    for number in (leg.before, leg.after):
        if number is None:
            continue
        segment = out.places[number].fit.segment
        edge = segment.last_frame if number == leg.before else segment.first_frame
        if span[0] <= edge <= span[-1]:
            centers[edge - span[0]] = out.places[number].box.center_in_world
            covariances[edge - span[0]] = out.places[number].covariance_m2
    return centers, covariances


def _moving_covariance(
    found: Registration, observation: Observation, body: Body, config: LiftConfig
) -> Float64[np.ndarray, "3 3"]:
    """Noise of the visible surface, plus how badly the model fits, plus what a hidden part may hide."""
    residual = found.residual_m if np.isfinite(found.residual_m) else 0.25 * float(np.linalg.norm(body.extent_m))
    hidden = (
        0.1 * float(np.linalg.norm(body.extent_m))
        if observation.truncated
        else 0.04 * float(np.linalg.norm(body.extent_m))
    )
    return observation.covariance_m2 + np.eye(3) * (residual**2 + hidden**2)


def _hand_offset(
    frame: int, registrations: dict[int, Registration], hand_centers: dict[int, Float64[np.ndarray, "3"]]
) -> Float64[np.ndarray, "3"] | None:
    """From the hand to the object, at the nearest frame that shows both."""
    both = [f for f in registrations if f in hand_centers]
    if not both:
        return None
    nearest = min(both, key=lambda f: (abs(f - frame), f))
    return np.asarray(registrations[nearest].center_in_world - hand_centers[nearest])


def _follow_hand_until(
    last_seen: int, held: bool, hand_centers: dict[int, Float64[np.ndarray, "3"]], count: int
) -> int:
    """Last frame up to which a hand that held the object stays in view without a break."""
    frame = last_seen
    while held and frame + 1 < count and frame + 1 in hand_centers:
        frame += 1
    return frame


def _write_leg(
    rows: _Rows,
    span: Int64[np.ndarray, "M"],
    smooth: Float64[np.ndarray, "M 3"],
    spread: Float64[np.ndarray, "M 3 3"],
    measured: Bool[np.ndarray, "M"],
    registrations: dict[int, Registration],
    state: MotionState,
    clock: Clock,
    config: LiftConfig,
) -> None:
    """Write smoothed centres; inside long gaps without any measurement the object is nowhere."""
    known = span[measured]
    rotation = _first_rotation(registrations)
    for k, frame in enumerate(span.tolist()):
        if frame in registrations:
            rotation = registrations[frame].rotation
        if rows.states[frame] == MotionState.REST:
            continue
        earlier, later = known[known <= frame], known[known >= frame]
        gap = clock.times_s[later[0]] - clock.times_s[earlier[-1]] if len(earlier) and len(later) else np.inf
        if gap > config.max_gap_s:
            continue
        rows.states[frame] = int(state)
        rows.centers[frame], rows.covariances[frame] = smooth[k], spread[k]
        rows.rotations[frame] = rotation
        rows.observed[frame] = frame in registrations


def _first_rotation(registrations: dict[int, Registration]) -> Float64[np.ndarray, "3 3"]:
    if not registrations:
        return np.eye(3)
    return registrations[min(registrations)].rotation
