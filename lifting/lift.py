"""Stage 4: masks, depth and poses in; boxes, trajectories, events and relations out."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from jaxtyping import Bool, Float64, Int64

from geo import se3
from geo.recording import CanonicalRecording
from lifting._evidence import SeenDepth
from lifting._pixels import resize_mask
from lifting.config import LiftConfig
from lifting.errors import LiftingError
from lifting.events import containment_events, motion_events, with_supports
from lifting.hands import NearHands, hand_distance, joints_at
from lifting.moving_depth import predict_depth
from lifting.observe import DepthProvider, FrameView, observe
from lifting.records import Lifted
from lifting.relations import find_relations
from lifting.rest import RestTracker
from lifting.second_look import NOTE, frames_to_look_at, needs_second_look, second_look
from lifting.story import Story, tell, without_pauses
from lifting.surfaces import SurfaceCollector, Surfaces
from lifting.timeline import Timeline
from lifting.trajectory import Assembled, Clock, assemble
from recon.records import MovingDepth
from tracking.records import MaskState, MaskTrack, TrackSet, decode_rle

Progress = Callable[[int, int, str], None]
_SCALE_PROBES = 5
_ARM_LENGTH_M = 1.0


def lift(
    canonical: CanonicalRecording,
    scene_depth: DepthProvider,
    tracks: TrackSet,
    config: LiftConfig | None = None,
    progress: Progress | None = None,
) -> Lifted:
    """Lift mask tracks to boxes and 4D trajectories in world.

    One pass over the frames collects observations and decides rest or motion; then boxes, trajectories,
    relations and events follow without touching the pictures again (moving depth reads moving frames once more).
    Without known or estimated gravity boxes are free, and there is no support, containment or surface.
    In a world without metric scale all lengths of the configuration are taken relative to the median scene depth.

    Args:
        canonical: Poses, camera, valid pixels, hands.
        scene_depth: Sensor and static depth per frame (``recon.scene_depth.SceneDepth``).
        tracks: Masks at the canonical size; one trajectory comes out per track, in the same order.
        config: Thresholds.
        progress: Called with (done, total, what).

    Raises:
        LiftingError: tracks do not belong to this recording (size or number of frames), or share an object id.
    """
    _check(canonical, tracks)
    warnings: list[str] = []
    has_sensor = canonical.sensor is not None
    config = _scaled_config(config or LiftConfig(), canonical, scene_depth, has_sensor, warnings)
    clock = _clock(canonical)
    has_up = canonical.world.has_up
    gathered = _Gathered(canonical, tracks, has_up, config)
    for done, view in enumerate(_views(canonical, scene_depth, clock, has_sensor)):
        gathered.take(view)
        if progress is not None:
            progress(done + 1, len(clock), "observe")
    gathered.finish()
    surfaces = gathered.surfaces.surfaces() if has_up else None
    if has_sensor:
        _second_looks(canonical, scene_depth, tracks, gathered, clock, config)
    stories = _stories(gathered, surfaces, clock, has_up, config)
    items = [
        _one_object(track, story, gathered, clock, has_up, config)
        for track, story in zip(tracks.tracks, stories, strict=True)
    ]
    if not has_up:
        warnings.append("gravity unknown: boxes in free orientation, no support, containment or surfaces")
    if not has_sensor:
        warnings.append("no sensor depth: objects are lifted from the static model, motion cannot be measured well")
    return _assemble_lifted(canonical, scene_depth, tracks, items, surfaces, clock, config, warnings)


def _check(canonical: CanonicalRecording, tracks: TrackSet) -> None:
    if tuple(tracks.size_wh_px) != canonical.camera.size_wh_px:
        raise LiftingError(
            f"tracks of {canonical.recording_id} are {tracks.size_wh_px} px, its canonical view is "
            f"{canonical.camera.size_wh_px} px (W, H). Track the canonical video, or resize the masks."
        )
    frames = len(canonical.timestamps_ns)
    for track in tracks.tracks:
        if len(track.masks) != frames or len(track.states) != frames:
            raise LiftingError(
                f"track {track.object_id} ({track.label!r}) has {len(track.masks)} frames, recording "
                f"{canonical.recording_id} has {frames}"
            )
    ids = [t.object_id for t in tracks.tracks]
    if len(set(ids)) != len(ids):
        raise LiftingError(f"object ids {sorted(ids)} are not unique; give every track its own id")


def _clock(canonical: CanonicalRecording) -> Clock:
    stamps = canonical.timestamps_ns
    return Clock(stamps, (stamps - stamps[0]).astype(np.float64) / 1e9 if len(stamps) else np.zeros(0))


def _scaled_config(
    config: LiftConfig,
    canonical: CanonicalRecording,
    scene_depth: DepthProvider,
    has_sensor: bool,
    warnings: list[str],
) -> LiftConfig:
    """In a world without metric scale the median depth counts as one metre."""
    if canonical.world.metric:
        return config
    usable = np.flatnonzero(canonical.pose_valid)
    depths = []
    for frame in usable[np.linspace(0, len(usable) - 1, min(_SCALE_PROBES, len(usable))).astype(int)]:
        image = scene_depth.sensor(int(frame)) if has_sensor else scene_depth.static(int(frame)).expected_z_m
        if np.isfinite(image).any():
            depths.append(float(np.nanmedian(image)))
    if not depths:
        return config
    units = float(np.median(depths)) / _ARM_LENGTH_M
    warnings.append(f"scale unknown: thresholds taken relative to the median scene depth of {units:.3g} units")
    return config.scaled(units)


def _views(
    canonical: CanonicalRecording, scene_depth: DepthProvider, clock: Clock, has_sensor: bool
) -> Iterator[FrameView | None]:
    """Frames in rising order; None where there is no pose."""
    valid = canonical.pose_valid
    for frame in range(len(clock)):
        yield _view(canonical, scene_depth, clock, frame, has_sensor) if valid[frame] else None


def _view(
    canonical: CanonicalRecording, scene_depth: DepthProvider, clock: Clock, frame: int, has_sensor: bool
) -> FrameView:
    camera = scene_depth.camera
    if has_sensor:
        sensor = scene_depth.sensor(frame)
    else:
        sensor = np.full((camera.height_px, camera.width_px), np.nan, dtype=np.float32)
    pose = canonical.world_from_camera[frame]
    return FrameView(frame, float(clock.times_s[frame]), camera, pose, sensor, scene_depth, has_sensor)


class _Gathered:
    """What the pass over the frames collects."""

    def __init__(self, canonical: CanonicalRecording, tracks: TrackSet, has_up: bool, config: LiftConfig) -> None:
        count = len(canonical.timestamps_ns)
        self.canonical = canonical
        self.tracks = tracks
        self.config = config
        self.trackers = {t.object_id: RestTracker(t.object_id, has_up, config) for t in tracks.tracks}
        self.pixels = {t.object_id: np.zeros(count, dtype=np.int64) for t in tracks.tracks}
        self.hand_near: dict[int, dict[int, bool]] = {t.object_id: {} for t in tracks.tracks}
        self.hand_centers: dict[int, Float64[np.ndarray, "3"]] = {}
        self.timelines: dict[int, Timeline] = {}
        self.placed_by_static: set[int] = set()
        self.surfaces = SurfaceCollector(config)
        usable = np.flatnonzero(canonical.pose_valid)
        picks = np.linspace(0, len(usable) - 1, min(config.surface_frames, len(usable))).astype(int)
        self._surface_frames = set(usable[picks].tolist()) if has_up and len(usable) else set()
        every = max(1, len(picks) // max(1, config.surface_static_frames))
        self._static_frames = set(sorted(self._surface_frames)[::every][: config.surface_static_frames])

    def finish(self) -> None:
        """All frames are through."""
        self.timelines = {object_id: tracker.finish() for object_id, tracker in self.trackers.items()}

    def joints(self, frame: int) -> Float64[np.ndarray, "J 3"]:
        """Finite joints (world) of all hands in a frame."""
        return joints_at(self.canonical.hands, int(self.canonical.timestamps_ns[frame]))

    def hands_near(self, object_id: int) -> NearHands | None:
        """Whether a hand was near an object; None where hands are not known."""
        near = self.hand_near[object_id]
        return NearHands(near, self.joints, self.config.hand_near_m) if self.canonical.hands and near else None

    def take(self, view: FrameView | None) -> None:
        """One frame; without a pose nothing can be learnt from it."""
        if view is None:
            return
        frame, size = view.frame, view.camera.size_wh_px
        seen = SeenDepth.of(view)
        joints = self.joints(frame)
        if len(joints):
            self.hand_centers[frame] = joints.mean(axis=0)
        union = np.zeros((size[1], size[0]), dtype=bool)
        for track in self.tracks.tracks:
            mask = _mask_of(track, frame)
            tracker = self.trackers[track.object_id]
            if mask is None:
                tracker.update(seen, None, None)
                continue
            self.pixels[track.object_id][frame] = int(mask.sum())
            small = resize_mask(mask, size)
            union |= small
            observation = observe(view, mask, self.canonical.valid_mask, track.object_id, self.config)
            near: bool | None = None
            if observation is not None:
                distance = hand_distance(joints, observation.points_in_world)
                self.hand_near[track.object_id][frame] = distance <= self.config.hand_near_m
                if self.canonical.hands and not self.config.hand_near_m < distance <= self.config.hand_far_m:
                    near = distance <= self.config.hand_near_m
            tracker.update(seen, small, observation, near)
        if frame in self._surface_frames:
            self.surfaces.add(view, union, frame in self._static_frames)


def _mask_of(track: MaskTrack, frame: int) -> Bool[np.ndarray, "H W"] | None:
    rle = track.masks[frame]
    return decode_rle(rle) if rle is not None and track.states[frame] == MaskState.VISIBLE else None


def _second_looks(
    canonical: CanonicalRecording,
    scene_depth: DepthProvider,
    tracks: TrackSet,
    gathered: _Gathered,
    clock: Clock,
    config: LiftConfig,
) -> None:
    """Static depth for things that the sensor hardly saw; each frame is rendered once for all of them."""
    views: dict[int, FrameView] = {}

    def view_of(frame: int) -> FrameView | None:
        if not canonical.pose_valid[frame]:
            return None
        if frame not in views:
            views[frame] = _view(canonical, scene_depth, clock, frame, True)
        return views[frame]

    for track in tracks.tracks:
        timeline, pixels = gathered.timelines[track.object_id], gathered.pixels[track.object_id]
        if not needs_second_look(timeline, pixels, config):
            continue
        frames = frames_to_look_at(pixels, config)
        masks = {frame: _mask_of(track, frame) for frame in frames}
        if second_look(timeline, frames, view_of, masks.get, canonical.valid_mask, config):
            gathered.placed_by_static.add(track.object_id)


def _stories(
    gathered: _Gathered, surfaces: Surfaces | None, clock: Clock, has_up: bool, config: LiftConfig
) -> list[Story]:
    """Every object's story, then the pauses in the air, which need all objects' rests."""
    stories = [tell(timeline, clock.times_s, surfaces, has_up, config) for timeline in gathered.timelines.values()]
    for story in stories:
        if story.object_id in gathered.placed_by_static:
            story.notes.append(NOTE)
        others = [fit.box for other in stories if other is not story for fit in other.fits]
        without_pauses(story, others, clock.times_s, surfaces, gathered.hands_near(story.object_id), has_up, config)
    return stories


def _one_object(
    track: MaskTrack, story: Story, gathered: _Gathered, clock: Clock, has_up: bool, config: LiftConfig
) -> Assembled:
    near = gathered.hand_near[track.object_id] if gathered.canonical.hands else {}
    pixels: Int64[np.ndarray, "N"] = gathered.pixels[track.object_id]
    return assemble(story, track.label, clock, pixels, near, gathered.hand_centers, has_up, config)


def _assemble_lifted(
    canonical: CanonicalRecording,
    scene_depth: DepthProvider,
    tracks: TrackSet,
    items: list[Assembled],
    surfaces: Surfaces | None,
    clock: Clock,
    config: LiftConfig,
    warnings: list[str],
) -> Lifted:
    trajectories = [item.trajectory for item in items]
    rotations = [se3.rotation_from_quat_wxyz(t.quats_wxyz) for t in trajectories]
    relations = find_relations(trajectories, rotations, surfaces, clock, canonical.world.has_up, config)

    def joints(frame: int) -> Float64[np.ndarray, "J 3"]:
        return joints_at(canonical.hands, int(canonical.timestamps_ns[frame]))

    hands = joints if canonical.hands else None
    moves = [event for item in items for event in motion_events(item, clock, config, hands)]
    events = with_supports(moves + containment_events(relations, moves), relations)
    has_sensor = canonical.sensor is not None
    moving = _moving_depth(canonical, scene_depth, tracks, items, clock, config) if has_sensor else None
    return Lifted(
        trajectories=tuple(trajectories),
        events=tuple(events),
        relations=tuple(relations),
        surfaces=(surfaces or Surfaces((), None, config.surface_cell_m)).record(),
        moving_depth=moving,
        warnings=tuple(warnings),
    )


def _moving_depth(
    canonical: CanonicalRecording,
    scene_depth: DepthProvider,
    tracks: TrackSet,
    items: Iterable[Assembled],
    clock: Clock,
    config: LiftConfig,
) -> MovingDepth:
    """Patches for moving frames in which the sensor has holes inside the mask, ordered by frame and object."""
    wanted = sorted(
        (frame, index) for index, item in enumerate(items) for frame in item.poses if item.model is not None
    )
    listed = list(items)
    frames, ids, pixels, depths = [], [], [], []
    for frame, index in wanted:
        item, track = listed[index], tracks.tracks[index]
        mask = _mask_of(track, frame)
        if mask is None or item.model is None:
            continue
        small = resize_mask(mask, scene_depth.camera.size_wh_px)
        sensor = scene_depth.sensor(frame)
        where, z = predict_depth(
            item.model,
            item.poses[frame],
            scene_depth.camera,
            canonical.world_from_camera[frame],
            small,
            sensor,
            config,
        )
        if len(z):
            frames.append(frame)
            ids.append(track.object_id)
            pixels.append(where)
            depths.append(z.astype(np.float32))
    return MovingDepth(np.array(frames, dtype=np.int64), np.array(ids, dtype=np.int64), tuple(pixels), tuple(depths))
