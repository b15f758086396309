"""``simulate``: a scene from a seed, acted out, filmed, and written with its truth beside it."""

import shutil
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8

from egospatial.errors import FrontDoorError
from egospatial.simulator.clearance import deepest_overlap_m
from egospatial.simulator.frames import Frame, FrameMaker, Sighting, sighting_table
from egospatial.simulator.happenings import true_events, true_relations, true_states
from egospatial.simulator.layout import plan_layout
from egospatial.simulator.narrate import grounding_points, narrations
from egospatial.simulator.plain_layout import (
    write_gaze,
    write_hands,
    write_manifest,
    write_narrations,
    write_trajectory,
)
from egospatial.simulator.plans import PLANS, cast_roles
from egospatial.simulator.presets import Preset, preset_by_name
from egospatial.simulator.room import Room, build_room
from egospatial.simulator.script import Scene, Script
from egospatial.simulator.sensor_noise import given_poses
from egospatial.simulator.sound import soundtrack, write_aac
from egospatial.simulator.timeline import Moment, Timeline
from egospatial.simulator.truth import TruthObject
from egospatial.simulator.truth_writer import TruthWriter
from egospatial.simulator.views import Views, make_views
from egospatial.store.atomic import write_failure
from geo import se3
from lifting.records import SceneSurfaces

Progress = Callable[[int, int, str], None]
_SCENE_STREAM, _SCRIPT_STREAM, _SPEECH_STREAM, _SOUND_STREAM, _POSE_STREAM, _BODY_STREAM = 1, 2, 4, 5, 6, 7
_ARRANGEMENTS = 14
_OVERLAP_M = 0.006
_LAST_REST_S = 0.9  # everything rests at least so long before the end
_WORKERS = 2  # frames rendered at a time
_GAZE_NOISE_DEG = 0.5
_HAND_NOISE_M = 0.003


@dataclass(frozen=True)
class Simulated:
    """Where a simulated recording and its truth were written."""

    recording_dir: Path
    truth_dir: Path


@dataclass
class _Log:
    """What is kept of the frames while they are written."""

    moments: list[Moment] = field(default_factory=list)
    sightings: list[tuple[Sighting, ...]] = field(default_factory=list)


def simulate(
    out_dir: Path | str, preset: str, seed: int, progress: Progress | None = None, overwrite: bool = False
) -> Simulated:
    """Write ``<out_dir>/<id>/`` (plain layout) and ``<out_dir>/<id>_truth/``; the same call gives the same bytes.

    Args:
        out_dir: Made if missing.
        preset: standard, demo, small or truth; ``truth`` is ``standard`` without any noise, of the same scene.
        seed: Not negative; draws the room, the objects, where they stand and how the wearer moves.
        progress: Called with (frames done, all frames, what).
        overwrite: Replace a recording of this id; otherwise one that is there is an error.

    Raises:
        FrontDoorError: unknown preset, negative seed, the recording is already there, or the folder cannot be made.
    """
    chosen = preset_by_name(preset)
    if seed < 0:
        raise FrontDoorError(f"seed {seed} is negative; seeds are whole numbers from 0")
    recording_id = f"{preset}_{seed:04d}"
    made = Simulated(Path(out_dir) / recording_id, Path(out_dir) / f"{recording_id}_truth")
    for folder in (made.recording_dir, made.truth_dir):
        if folder.exists():
            if not overwrite:
                raise FrontDoorError(f"{folder} is there already; choose another folder or remove it")
            shutil.rmtree(folder)
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise write_failure(folder, error) or error from error
    scene, timeline = make_scene(chosen, seed)
    _Session(scene, timeline, chosen, seed, recording_id, made, progress).run()
    return made


def make_scene(preset: Preset, seed: int) -> tuple[Scene, Timeline]:
    """The scene and everything that happens in it; depends on the preset's scene and the seed alone.

    Arrangements are drawn until one is acted out without hand or objects running into anything, at most
    ``_ARRANGEMENTS`` times; then the one with the shallowest overlap is taken.

    Raises:
        FrontDoorError: the plan does not end in time (a fault of the plan's tempo).
    """
    plan = PLANS[preset.scene]
    rng = np.random.default_rng([seed, _SCENE_STREAM])
    room = build_room(rng, plan.room_width_m)
    specs = cast_roles(plan, rng)
    latest_s = preset.duration_s - _LAST_REST_S
    best: tuple[float, Scene, Timeline] | None = None
    last_s = np.inf
    for attempt in range(_ARRANGEMENTS):
        places = plan_layout(plan, specs, room, np.random.default_rng([seed, _SCENE_STREAM, attempt]))
        scene = Scene(room, tuple(plan.roles), tuple(specs[role] for role in plan.roles), places)
        timeline = Script(scene, plan, np.random.default_rng([seed, _SCRIPT_STREAM, attempt])).write(preset.duration_s)
        last_s = max(hold.end_s for holds in timeline.holds for hold in holds)
        if last_s > latest_s:
            continue
        give_up_m = np.inf if best is None else best[0]
        overlap_m = deepest_overlap_m(scene, timeline, preset.duration_s, give_up_m)
        if best is None or overlap_m < best[0]:
            best = (overlap_m, scene, timeline)
        if overlap_m <= _OVERLAP_M:
            break
    if best is None:
        raise FrontDoorError(
            f"the plan {preset.scene!r} with seed {seed} puts its last object down at {last_s:.1f} s of "
            f"{preset.duration_s:g} s; make its tempo faster"
        )
    return best[1], best[2]


class _Session:
    """One run: films the scene and writes all files."""

    def __init__(
        self, scene: Scene, timeline: Timeline, preset: Preset, seed: int, recording_id: str, made: Simulated,
        progress: Progress | None,
    ) -> None:  # fmt: skip
        self.scene, self.timeline, self.preset, self.seed = scene, timeline, preset, seed
        self.recording_id, self.made, self.progress = recording_id, made, progress
        self.views: Views = make_views(preset)
        self.times_s = np.arange(preset.frame_count) / preset.rate_hz
        step_ns = 1_000_000_000 // preset.rate_hz
        self.timestamps_ns = preset.start_ns + step_ns * np.arange(preset.frame_count, dtype=np.int64)
        self.log = _Log()

    def run(self) -> None:
        """Film, then write what follows from the film."""
        views = self.views
        with TruthWriter(
            self.made.truth_dir,
            self.preset.frame_count,
            views.canonical.camera,  # type: ignore[arg-type]
            views.canonical_depth.camera,  # type: ignore[arg-type]
        ) as truth:
            self._film(truth)
            self._write_truth(truth)
        self._write_recording()

    def _film(self, truth: TruthWriter) -> None:
        from geo.video_writer import write_video

        sound = self.made.recording_dir / ".sound.m4a"
        beeps = [(item.time_s, item.kind) for item in self.timeline.happenings]
        rng = np.random.default_rng([self.seed, _SOUND_STREAM])
        write_aac(sound, soundtrack(beeps, self.preset.duration_s, rng))
        write_video(
            self.made.recording_dir / "fisheye.mp4",
            self._pictures(truth),
            rate_hz=float(self.preset.rate_hz),
            audio_file=sound,
            crf=16,
            preset="ultrafast",  # without the macroblock tree, whose look-ahead is not the same twice in x264
        )
        sound.unlink()

    def _pictures(self, truth: TruthWriter) -> Iterator[UInt8[np.ndarray, "H W 3"]]:
        """Frames for the encoder; everything else about them is written on the way."""
        import h5py

        maker = FrameMaker(self.scene, self.timeline, self.preset, self.views, self.seed)
        count = self.preset.frame_count
        width, height = self.preset.depth_size_wh_px
        with h5py.File(self.made.recording_dir / "sensor.h5", "w", libver="latest") as file:
            depth = file.create_dataset(
                "depth_mm", (count, height, width), "u2", chunks=(1, height, width), compression="gzip",
                compression_opts=1, shuffle=True,
            )  # fmt: skip
            for index, frame in enumerate(_side_by_side(maker.frame, count)):
                depth[index] = frame.sensor_mm
                self._keep(index, frame, truth)
                if self.progress:
                    self.progress(index + 1, count, "filming")
                yield frame.picture

    def _keep(self, index: int, frame: Frame, truth: TruthWriter) -> None:
        truth.write_ids(index, frame.instance_ids)
        truth.write_depth(index, frame.depth_ids, frame.z_depth_m, frame.static_z_depth_m)
        self.log.moments.append(frame.moment)
        self.log.sightings.append(frame.sightings)

    def _write_truth(self, truth: TruthWriter) -> None:
        poses = np.stack([moment.world_from_object for moment in self.log.moments])
        heads = np.stack([moment.world_from_head for moment in self.log.moments])
        visible, in_view = sighting_table(self.log.sightings)
        gaze_xy, gaze_depth = self._gaze(heads)
        truth.write_arrays(
            {
                "timestamps_ns": self.timestamps_ns,
                "world_from_camera": heads @ self.views.canonical.head_from_camera,
                "world_from_source": heads,
                "centers_in_world": poses[:, :, :3, 3],
                "quats_wxyz": se3.quat_wxyz_from_rotation(poses[:, :, :3, :3]),
                "states": true_states(self.timeline, self.preset),
                "visible_pixels": visible,
                "in_view_pixels": in_view,
                "gaze_xy_px": gaze_xy,
                "gaze_depth_m": gaze_depth,
                "hands/right/joints_in_world": self._joints(),
            }
        )
        objects = self._objects()
        for item, spec in zip(objects, self.scene.specs, strict=True):
            truth.write_mesh(item.mesh_file, spec.mesh.vertices, spec.mesh.triangles)
        uses = [
            {
                "tool": item.object_index + 1,
                "target": (item.other_index or 0) + 1,
                "start_s": item.time_s,
                "end_s": item.end_s,
            }
            for item in self.timeline.happenings
            if item.kind == "use"
        ]
        truth.write_document(
            self.recording_id,
            objects,
            true_events(self.timeline, self.preset),
            true_relations(self.scene, self.timeline, self.preset),
            _surfaces(self.scene.room),
            {"preset": self.preset.name, "scene": self.preset.scene, "seed": self.seed, "uses": uses},
        )

    def _objects(self) -> tuple[TruthObject, ...]:
        roles = self.scene.roles
        pair = {"look-alike": "second look-alike", "second look-alike": "look-alike"}
        return tuple(
            TruthObject(
                object_id=k + 1,
                label=spec.label,
                extent_m=spec.extent_m,
                thin=spec.thin,
                look_alike_of=roles.index(pair[role]) + 1 if role in pair else None,
                mesh_file=f"meshes/{k + 1:02d}.ply",
                container=spec.cavity is not None,
            )
            for k, (role, spec) in enumerate(zip(roles, self.scene.specs, strict=True))
        )

    def _joints(self) -> Float[np.ndarray, "N 21 3"]:
        return np.stack([moment.arm.joints_in_world for moment in self.log.moments])

    def _gaze(self, heads: Float[np.ndarray, "N 4 4"]) -> tuple[np.ndarray, np.ndarray]:
        """Gaze in source pixels and the distance to what is looked at."""
        points = np.stack([self.timeline.gaze_point_at(float(time_s)) for time_s in self.times_s])
        in_head = np.einsum("nji,nj->ni", heads[:, :3, :3], points - heads[:, :3, 3])
        return self.views.fisheye.camera.project(in_head).pixels_xy, np.linalg.norm(in_head, axis=1)

    def _write_recording(self) -> None:
        folder, exact = self.made.recording_dir, self.preset.exact
        heads = np.stack([moment.world_from_head for moment in self.log.moments])
        rng = np.random.default_rng([self.seed, _POSE_STREAM])
        write_manifest(folder, self.recording_id, self.preset, self.views, self.timestamps_ns)
        given = heads if exact else given_poses(heads, self.times_s, rng)
        write_trajectory(folder, self.timestamps_ns, given)
        self._write_body_tables(heads)
        points = grounding_points(self.log.sightings, self.timeline, self.preset)
        speech = np.random.default_rng([self.seed, _SPEECH_STREAM])
        write_narrations(folder, narrations(self.scene, self.timeline, points, self.preset, speech))

    def _write_body_tables(self, heads: Float[np.ndarray, "N 4 4"]) -> None:
        """Gaze with half a degree of noise, joints with 3 mm, hands only where they are in the picture."""
        folder, exact = self.made.recording_dir, self.preset.exact
        rng = np.random.default_rng([self.seed, _BODY_STREAM])
        gaze_xy, gaze_depth = self._gaze(heads)
        noise_px = np.radians(_GAZE_NOISE_DEG) * self.preset.fisheye_focal_px_per_rad * (0.0 if exact else 1.0)
        gaze_xy = gaze_xy + noise_px * rng.standard_normal(gaze_xy.shape)
        write_gaze(folder, self.timestamps_ns, gaze_xy, gaze_depth)
        joints = self._joints()
        noise_m = 0.0 if exact else _HAND_NOISE_M
        confidence = np.array([self._hand_confidence(heads[k], joints[k]) for k in range(len(heads))])
        write_hands(folder, self.timestamps_ns, joints + noise_m * rng.standard_normal(joints.shape), confidence)

    def _hand_confidence(self, world_from_head: np.ndarray, joints: np.ndarray) -> float:
        """Share of the joints that are in the picture; 0 below a half."""
        camera = self.views.fisheye.camera
        projected = camera.project((joints - world_from_head[:3, 3]) @ world_from_head[:3, :3])
        share = float((projected.valid & camera.in_image(projected.pixels_xy)).mean())
        return share if share >= 0.5 else 0.0


def _side_by_side(make: Callable[[int], Frame], count: int) -> Iterator[Frame]:
    """Frames in order, a few of them in the making at a time (each is a function of its index alone)."""
    with ThreadPoolExecutor(_WORKERS) as pool:
        waiting: deque[Future[Frame]] = deque()
        for index in range(count):
            waiting.append(pool.submit(make, index))
            if len(waiting) > _WORKERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _surfaces(room: Room) -> SceneSurfaces:
    supports = [room.supports[name] for name in ("table", "shelf", "counter")]
    heights = [0.0, *(support.height_m for support in supports)]
    areas = [float(room.size_m[0] * room.size_m[1]), *(support.width_m * support.depth_m for support in supports)]
    order = np.argsort(heights)
    return SceneSurfaces(np.array(heights)[order], np.array(areas)[order], 0.0, 0.0)
