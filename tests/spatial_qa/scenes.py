"""Synthetic question scenes with exact truth: a room, boxes on a table, a shelf and the floor, a wearer who walks.

``make_scene`` is exact; ``noisy`` returns what a lifting stage might have made of it: every rest, side, pose and
event time is off by noise that the claimed covariances and the floors of ``spatial_qa.noise`` together cover.
"""

from dataclasses import replace

import numpy as np

from geo import se3
from geo.recording import GazeTrack
from geo.world import Gravity, World
from lifting.records import (
    Event,
    EventKind,
    Lifted,
    MotionState,
    ObjectTrajectory,
    Relation,
    RelationKind,
    SceneSurfaces,
)
from spatial_qa.records import QuestionScene

LABELS = (
    "red mug", "blue box", "green can", "wooden spoon", "white bowl", "black kettle", "yellow jar", "grey basket",
    "purple book", "orange tin", "brown tray", "pink cup",
)  # fmt: skip
FPS = 10
SIZE = (1024, 1024)
MATRIX = np.array([[400.0, 0, 511.5], [0, 400.0, 511.5], [0, 0, 1]])
START_NS = 1_700_000_000_000_000_000


def looking(position: np.ndarray, target: np.ndarray) -> np.ndarray:
    """world_from_camera of an upright camera at ``position`` that looks at ``target``."""
    forward = (target - position) / np.linalg.norm(target - position)
    right = np.cross(forward, [0, 0, 1.0])
    right /= np.linalg.norm(right)
    return se3.from_rotation_translation(np.stack([right, np.cross(forward, right), forward], axis=1), position)


def yaw_quat(yaw: float) -> np.ndarray:
    return np.array([np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)])


def make_scene(
    seed: int,
    objects: int = 9,
    moves: int = 4,
    seconds: float = 20.0,
    gravity: Gravity = Gravity.KNOWN,
    metric: bool = True,
    fps: float = FPS,
    up_sigma_deg: float = 0.0,
) -> QuestionScene:
    """An exact scene; the objects that move are the first ``moves`` of a random order (with repeats if few)."""
    rng = np.random.default_rng(seed)
    count = round(seconds * fps)
    stamps = START_NS + (np.arange(count) * (1e9 / fps)).astype(np.int64)
    spots = _spots(rng)
    sizes = rng.uniform(0.05, 0.28, (objects, 3))
    basket = LABELS.index("grey basket")
    if objects > basket:
        sizes[basket] = [0.35, 0.3, 0.2]
    spot_of = list(range(objects))
    free = list(range(objects, len(spots)))
    centers = np.zeros((objects, count, 3))
    states = np.full((objects, count), int(MotionState.REST))
    yaws = rng.uniform(-np.pi, np.pi, objects)
    for i in range(objects):
        centers[i] = spots[spot_of[i]] + [0, 0, sizes[i, 2] / 2]
    events: list[Event] = []
    relations: list[Relation] = []
    order = [i for i in rng.permutation(objects) if i != basket]
    starts = np.linspace(2.0, seconds - 4.5, moves) if moves else []
    for number, start in enumerate(starts):
        i = int(order[number % len(order)]) if rng.random() < 0.8 else int(order[0])
        a, b = round((start + rng.uniform(0, 0.4)) * fps), round((start + rng.uniform(1.8, 2.4)) * fps)
        into = objects > basket and number == 1 and not any(r.subject_object_id == i + 1 for r in relations)
        if into:
            place = centers[basket, 0] - [0, 0, sizes[basket, 2] / 2 - sizes[i, 2] / 2 - 0.02]
        else:
            place = spots[free.pop(int(rng.integers(len(free))))] + [0, 0, sizes[i, 2] / 2]
        way = np.linspace(0, 1, b - a + 1)[:, None]
        old = centers[i, a].copy()
        centers[i, a : b + 1] = old + way * (place - old) + np.array([0, 0, 0.25]) * np.sin(np.pi * way)
        centers[i, b:] = place
        states[i, a + 1 : b] = int(MotionState.HELD)
        was_in = [r for r in relations if r.subject_object_id == i + 1]
        take = EventKind.TAKE_OUT if was_in else EventKind.PICK_UP
        relations = [
            replace(r, end_ns=int(stamps[a])) if r in was_in and r.end_ns > stamps[a] else r for r in relations
        ]
        events.append(Event(take, i + 1, int(stamps[a]), 50_000_000, old, 0.999))
        put = EventKind.PUT_INTO if into else EventKind.PUT_DOWN
        events.append(Event(put, i + 1, int(stamps[b]), 50_000_000, place, 0.999, basket + 1 if into else None))
        if into:
            relations.append(
                Relation(RelationKind.CONTAINMENT, i + 1, basket + 1, int(stamps[b]), int(stamps[-1]), 0.999)
            )
    poses = _walk(rng, count, fps, centers, states)
    tracks = []
    for i in range(objects):
        pixels = np.array([_pixels(poses[k], centers[i, k], sizes[i]) for k in range(count)])
        tracks.append(
            ObjectTrajectory(
                object_id=i + 1,
                label=LABELS[i],
                timestamps_ns=stamps,
                states=states[i].astype(np.int64),
                centers_in_world=centers[i],
                center_covariances_m2=np.zeros((count, 3, 3)),
                quats_wxyz=np.tile(yaw_quat(yaws[i]), (count, 1)),
                extent_m=sizes[i],
                extent_sigma_m=np.zeros(3),
                observed=pixels > 0,
                visible_pixels=pixels.astype(np.int64),
                view_count=int((pixels > 0).sum()),
            )
        )
    surfaces = SceneSurfaces(np.array([0.0, 0.75, 1.25]), np.array([12.0, 1.1, 0.4]), 0.0, 0.003)
    gaze_points = np.clip(511.5 + np.cumsum(rng.normal(0, 25, (count, 2)), axis=0) * 0.5, 100, 900)
    return QuestionScene(
        recording_id=f"synthetic_{seed}",
        timestamps_ns=stamps,
        world_from_camera=poses,
        image_size_wh_px=SIZE,
        camera_matrix=MATRIX,
        world=World(metric, gravity, np.radians(up_sigma_deg) if gravity is not Gravity.UNKNOWN else float("nan")),
        lifted=Lifted(tuple(tracks), tuple(events), tuple(relations), surfaces),
        gaze=GazeTrack(stamps, gaze_points, np.full(count, np.nan)),
    )


def asked_scenes(seeds):
    """(exact scene, noisy scene, questions asked of the noisy one) per seed, about 300 questions each."""
    from spatial_qa import AskConfig, ask

    config = AskConfig(max_questions=1000, per_template=14, tries_per_template=150)
    out = []
    for seed in seeds:
        scene = make_scene(seed, moves=(4, 5, 6, 4)[seed % 4], seconds=(20.0, 26.0)[seed % 2])
        lifted = noisy(scene, 500 + seed)
        out.append((scene, lifted, ask(lifted, config)))
    return out


def _spots(rng: np.random.Generator) -> np.ndarray:
    """Places on table (0.75 m), shelf (1.25 m) and floor, in random order, each with elbow room."""
    table = [(x, y, 0.75) for x in np.linspace(-0.75, 0.75, 5) for y in (1.0, 1.45)]
    shelf = [(x, 2.4, 1.25) for x in (-1.6, -1.1, 1.2)]
    floor = [(-1.8, 0.3, 0.0), (1.9, 0.6, 0.0), (1.5, -1.2, 0.0), (-1.4, -1.5, 0.0)]
    spots = np.array(table + shelf + floor)
    spots[:, :2] += rng.uniform(-0.05, 0.05, (len(spots), 2))
    return spots[rng.permutation(len(spots))]


def _walk(rng: np.random.Generator, count: int, fps: float, centers: np.ndarray, states: np.ndarray) -> np.ndarray:
    """A walk about the free middle of the room, looking from object to object, now and then to the far side."""
    knots = max(4, int(count / fps / 2.5))
    times = np.linspace(0, count - 1, knots)
    places = np.stack([rng.uniform(-1.2, 1.2, knots), rng.uniform(-1.0, 0.3, knots)], axis=1)
    targets = centers[rng.integers(len(centers), size=knots), 0].copy()
    targets[:: max(knots // 3, 2), :2] = rng.uniform(-3, 3, (len(targets[:: max(knots // 3, 2)]), 2))
    poses = []
    for k in range(count):
        position = np.array([*[np.interp(k, times, places[:, axis]) for axis in (0, 1)], 1.55])
        target = np.array([np.interp(k, times, targets[:, axis]) for axis in (0, 1, 2)])
        held = np.flatnonzero(states[:, k] == MotionState.HELD)
        if len(held):
            target = centers[held[0], k]
        if np.linalg.norm((target - position)[:2]) < 0.3:
            target = target + np.array([0.0, 0.6, 0.0])
        poses.append(looking(position, target))
    return np.stack(poses)


def _pixels(world_from_camera: np.ndarray, center: np.ndarray, size: np.ndarray) -> int:
    x, y, z = se3.transform_points(se3.inverse(world_from_camera), center)
    if z < 0.1:
        return 0
    u, v = MATRIX[0, 0] * x / z + MATRIX[0, 2], MATRIX[1, 1] * y / z + MATRIX[1, 2]
    inside = 0 <= u < SIZE[0] and 0 <= v < SIZE[1]
    return int(400.0**2 / z**2 * np.prod(np.sort(size)[1:])) if inside else 0


def noisy(
    scene: QuestionScene,
    seed: int,
    bias_m: float = 0.012,
    claimed_m: float = 0.008,
    extent_fraction: float = 0.05,
    pose_m: float = 0.006,
    pose_deg: float = 0.4,
) -> QuestionScene:
    """A lifted version of an exact scene: biases per object and rest, claimed noise, wrong sides, shaken poses."""
    rng = np.random.default_rng(seed)
    tracks = []
    for track in scene.lifted.trajectories:
        centers = track.centers_in_world + rng.normal(0, bias_m, 3)
        rest = track.states == MotionState.REST
        part = np.cumsum(np.concatenate([[0], np.diff(rest.astype(int)) != 0]))
        for number in range(part.max() + 1):
            centers[part == number] += rng.normal(0, claimed_m if rest[part == number][0] else 0.02, 3)
        extent = track.extent_m * (1 + rng.normal(0, extent_fraction, 3))
        yaw = rng.normal(0, np.radians(5))
        quats = track.quats_wxyz
        half = 2 * np.arctan2(quats[:, 3], quats[:, 0]) + yaw
        tracks.append(
            replace(
                track,
                centers_in_world=centers,
                center_covariances_m2=np.tile(np.eye(3) * claimed_m**2, (len(centers), 1, 1)),
                extent_m=extent,
                extent_sigma_m=np.maximum(0.04 * extent, 0.004),
                quats_wxyz=np.stack([np.cos(half / 2), 0 * half, 0 * half, np.sin(half / 2)], axis=1),
            )
        )
    poses = scene.world_from_camera.copy()
    count = len(poses)
    poses[:, :3, 3] += rng.normal(0, pose_m, (count, 3))
    turns = se3.rotation_from_axis_angle(rng.normal(0, np.radians(pose_deg), (count, 3)))
    poses[:, :3, :3] = turns @ poses[:, :3, :3]
    events = tuple(replace(e, time_ns=e.time_ns + int(rng.normal(0, 4e7))) for e in scene.lifted.events)
    gaze = replace(scene.gaze, points_xy_px=scene.gaze.points_xy_px + rng.normal(0, 5, (count, 2)))
    lifted = replace(scene.lifted, trajectories=tuple(tracks), events=events)
    return replace(scene, world_from_camera=poses, lifted=lifted, gaze=gaze)
