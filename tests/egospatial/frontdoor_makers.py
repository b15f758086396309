"""Small records made in code, every field away from its default, for tests of storage and views."""

from pathlib import Path

import numpy as np

from geo import se3
from geo.cameras import PinholeCamera
from geo.recording import CanonicalRecording, GazeTrack, HandTrack
from geo.world import Gravity, World
from lifting.records import (
    Event,
    EventKind,
    Lifted,
    ObjectTrajectory,
    Relation,
    RelationKind,
    SceneSurfaces,
)
from recon.records import DepthFrame, DynamicMasks, MovingDepth, ReconReport, Reconstruction, SplatModel
from spatial_qa.records import Certificate, Option, Question, QuestionSet, Refusal
from tracking.records import MaskTrack, Outcome, TrackSet, Verdict, encode_rle

SIZE_WH = (40, 30)
STEP_NS = 100_000_000


class ArrayFrames:
    """Frames held in memory."""

    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def read(self, index):
        return self.images[index]


def times(count=6, start_ns=1_718_892_641_002_929_366):
    return start_ns + STEP_NS * np.arange(count, dtype=np.int64)


def poses(count=6):
    """The wearer at 1.5 m, looking down along +y, moving along x; frame 2 has no pose."""
    down = se3.rotation_from_axis_angle(np.array([-np.pi / 2 - 0.6, 0.0, 0.0]))
    out = np.stack([se3.from_rotation_translation(down, np.array([0.1 * i, 0.0, 1.5])) for i in range(count)])
    out[2] = np.nan
    return out


def camera(size_wh=SIZE_WH):
    return PinholeCamera(*size_wh, 30.0, 31.0, (size_wh[0] - 1) / 2, (size_wh[1] - 1) / 2)


def canonical(count=6, size_wh=SIZE_WH, metric=True):
    rng = np.random.default_rng(5)
    smooth = rng.integers(0, 255, (count, 4, 5, 3)).astype(np.uint8)
    images = smooth.repeat(size_wh[1] // 4 + 1, 1).repeat(size_wh[0] // 5 + 1, 2)[:, : size_wh[1], : size_wh[0]]
    valid = np.ones(size_wh[::-1], dtype=bool)
    valid[:3, :3] = False
    hand = HandTrack("left", times(count), rng.normal(size=(count, 21, 3)), rng.random(count))
    gaze = GazeTrack(times(count), rng.random((count, 2)) * 20, np.full(count, np.nan))
    return CanonicalRecording(
        recording_id="kitchen_03",
        camera=camera(size_wh),
        timestamps_ns=times(count),
        world_from_camera=poses(count),
        valid_mask=valid,
        frames=ArrayFrames(images),
        world=World(metric, Gravity.ESTIMATED, 0.01, se3.from_rotation_translation(np.eye(3), np.array([1.0, 2, 3]))),
        source_camera=PinholeCamera(64, 48, 50.0, 50.0, 31.5, 23.5),
        canonical_from_source=np.eye(3),
        gaze=gaze,
        hands=(hand,),
        warnings=("a warning",),
    )


def reconstruction(count=6, splats=50):
    rng = np.random.default_rng(1)

    def cast(*shape):
        return rng.normal(size=shape).astype(np.float32)

    model = SplatModel(cast(splats, 3), cast(splats, 3) - 3, cast(splats, 4), cast(splats), cast(splats, 1, 3))
    report = ReconReport((0, 3), (5,), 10, splats, 2, 30.5, float("nan"), 0.01, 0.9, 12.5, ("a note",))
    return Reconstruction(model, DynamicMasks(rng.random((count, 6, 11)) > 0.5), report)


def tracks(count=6, size_wh=SIZE_WH):
    mask = np.zeros(size_wh[::-1], dtype=bool)
    mask[5:15, 10:22] = True
    corner = np.zeros_like(mask)
    corner[0, 0] = True
    seen = tuple(None if i == 1 else encode_rle(corner if i == 0 else np.roll(mask, i, axis=1)) for i in range(count))
    states = np.array([2 if item is None else 1 for item in seen], dtype=np.int64)
    scores = np.array([np.nan if item is None else 0.5 for item in seen])
    first = MaskTrack(3, "red jar", seen, states, scores)
    second = MaskTrack(7, "茶碗", (None,) * count, np.zeros(count, np.int64), np.full(count, np.nan))
    verdict = Verdict(
        3, 4, Outcome.DRIFTED, "depth", "jumped", {"metres": 0.25, "limit": float("inf")}, "re-initialised"
    )
    return TrackSet(size_wh, times(count), (first, second), (verdict,), "embedded", ("one warning",))


def trajectory(object_id=3, label="red jar", count=6):
    rng = np.random.default_rng(object_id)
    centers = np.tile([0.2, 1.0, 0.8], (count, 1)) + 0.05 * np.arange(count)[:, None]
    centers[0] = np.nan
    quats = np.tile([1.0, 0, 0, 0], (count, 1))
    return ObjectTrajectory(
        object_id, label, times(count), np.array([0, 1, 3, 3, 1, 1][:count], np.int64), centers,
        rng.random((count, 3, 3)), quats, np.array([0.1, 0.2, 0.3]), np.array([0.01, np.nan, 0.02]),
        np.array([False, True, True, False, True, True][:count]), np.arange(count, dtype=np.int64), 4, ("a note",),
    )  # fmt: skip


def lifted(count=6):
    moving = MovingDepth(
        np.array([2, 3], np.int64), np.array([3, 3], np.int64),
        (np.array([[1, 2], [3, 4]], np.int64), np.zeros((0, 2), np.int64)),
        (np.array([0.5, 0.6], np.float32), np.zeros(0, np.float32)),
    )  # fmt: skip
    events = (
        Event(EventKind.PICK_UP, 3, int(times()[2]), 5_000_000, np.array([0.1, 0.2, 0.3]), 0.9),
        Event(EventKind.PUT_INTO, 3, int(times()[4]), 6_000_000, np.array([0.1, np.nan, 0.3]), 0.8, 7),
    )
    relations = (
        Relation(RelationKind.SUPPORT, 3, None, int(times()[0]), int(times()[2]), 0.9, 0.75),
        Relation(RelationKind.CONTAINMENT, 3, 7, int(times()[4]), int(times()[5]), 0.7),
    )
    surfaces = SceneSurfaces(np.array([0.0, 0.75]), np.array([4.0, 1.0]), 0.0, 0.004)
    return Lifted(
        (trajectory(3, count=count), trajectory(7, "茶碗", count)), events, relations, surfaces, moving, ("w",)
    )


def questions():
    options = tuple(Option(f"{i} cm", i, "key" if i == 2 else "ladder") for i in range(8))
    certificate = Certificate("distance", {"a": 3, "b": 7, "t_ns": int(times()[1])}, 0.2, 0.01, 0.05, 0.03)
    question = Question(
        "q1", "M1", "SR", "metric", "kitchen_03", ((int(times()[0]), int(times()[5])),), ((0, 5),), {"a": 3}, "How far is “é”?",
        options, "C", certificate, ("replay",),
    )  # fmt: skip
    return QuestionSet((question,), (Refusal("M2", "margin_not_met", {"a": 3}, 0.01, 0.03), Refusal("E1", "no_up", {})))


def depth_frame(seed, size_wh=(20, 15)):
    rng = np.random.default_rng(seed)
    depth = rng.uniform(0.3, 3.0, size_wh[::-1]).astype(np.float32)
    depth[0, :3] = np.nan
    origin = np.where(np.isfinite(depth), 1 + rng.integers(0, 4, depth.shape), 0).astype(np.uint8)
    return DepthFrame(depth, np.where(np.isfinite(depth), np.float32(0.01), np.float32(np.nan)), origin)


def write_finished(folder: Path, with_depth=True) -> Path:
    """A small output folder with every file but run.json."""
    from egospatial.store import (
        geometry_file,
        questions_file,
        recording_file,
        splats_file,
        tracks_file,
        trajectories_file,
    )
    from geo.video import write_video

    record = canonical()
    folder.mkdir(parents=True, exist_ok=True)
    provenance = recording_file.Provenance("/data/kitchen_03", "plain", {"every": 1}, tuple(range(6)))
    recording_file.write(folder, record, provenance)
    geometry_file.write_frames(folder, record)
    write_video(folder / "canonical.mp4", record.frames.images, timestamps_ns=record.timestamps_ns)
    splats_file.write(folder, reconstruction())
    tracks_file.write(folder, tracks())
    trajectories_file.write(folder, lifted())
    questions_file.write(folder, questions())
    if with_depth:
        write_depth(folder)
    return folder


def write_depth(folder: Path) -> None:
    """Depth of the six frames, beside the poses that are there."""
    from egospatial.store import depth_segments

    depth_segments.write_depth(folder, camera().resized((20, 15)), 6, lambda n: map(depth_frame, n), "key", None, 4)
