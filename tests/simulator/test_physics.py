"""What happens in a simulated scene could happen: supports, rigid carrying, no running through one another."""

import numpy as np
import pytest

from egospatial.simulator import PRESETS, Truth
from egospatial.simulator.catalogue import (
    CONTAINERS,
    LOOK_ALIKES,
    RELOCATED,
    SMALL,
    STANDING,
    TALL,
    TARGETS,
    TOOLS,
)  # fmt: skip
from egospatial.simulator.plans import PLANS
from egospatial.simulator.recorder import make_scene
from geo import se3
from lifting.records import EventKind, MotionState, RelationKind

MAKERS = [
    *RELOCATED,
    *SMALL,
    *TOOLS,
    *TARGETS,
    *TALL,
    *STANDING,
    *CONTAINERS,
    *(m for pair in LOOK_ALIKES for m in pair),
]


def scene_over(vertices: np.ndarray, triangles: np.ndarray):
    import open3d as o3d

    scene = o3d.t.geometry.RaycastingScene()
    scene.add_triangles(vertices.astype(np.float32), triangles.astype(np.uint32))
    return scene


def world_vertices(truth: Truth, object_id: int, frame: int) -> np.ndarray:
    track = truth.lifted.trajectories[object_id - 1]
    rotation = se3.rotation_from_quat_wxyz(track.quats_wxyz[frame])
    return truth.mesh(object_id)[0] @ rotation.T + track.centers_in_world[frame]


@pytest.mark.parametrize("maker", MAKERS)
def test_every_object_is_centred_closed_and_of_graspable_size(maker):
    spec = maker()
    low, high = spec.mesh.bounds
    assert np.allclose(low, -high, atol=1e-9)
    assert 0.04 <= spec.extent_m.max() <= 0.30
    if spec.thin:
        assert 0.007 <= spec.extent_m.min() <= 0.012
    edges = np.sort(np.concatenate([spec.mesh.triangles[:, pair] for pair in ((0, 1), (1, 2), (2, 0))]), axis=1)
    _, counts = np.unique(edges, axis=0, return_counts=True)
    assert (counts == 2).all()  # watertight: every edge between two triangles


@pytest.mark.parametrize("preset", ["small", "demo", "standard"])
def test_presets_have_the_promised_objects_and_pick_ups(preset):
    scene, timeline = make_scene(PRESETS[preset], 7)
    labels = [spec.label for spec in scene.specs]
    assert len(set(labels)) == len(labels) == {"small": 9, "demo": 9, "standard": 12}[preset]
    assert sum(spec.thin for spec in scene.specs) == {"small": 1, "demo": 1, "standard": 3}[preset]
    pick_ups = [item for item in timeline.happenings if item.kind == "pick_up"]
    put_downs = [item for item in timeline.happenings if item.kind == "put_down"]
    low, high = {"small": (2, 2), "demo": (4, 4), "standard": (8, 12)}[preset]
    assert low <= len(pick_ups) == len(put_downs) <= high
    assert max(item.time_s for item in put_downs) < PRESETS[preset].duration_s - 0.7
    kinds = {item.kind for item in timeline.happenings}
    assert "put_into" in kinds
    if preset != "small":
        assert {"take_out", "use"} <= kinds
        assert "look-alike" in PLANS[preset].roles


@pytest.mark.parametrize(("preset", "seed"), [("small", 1), ("demo", 2), ("standard", 7)])
def test_handling_happens_at_arms_length_and_without_jumps(preset, seed):
    scene, timeline = make_scene(PRESETS[preset], seed)
    distances, steps = [], []
    before = timeline.at(0.0)
    for time_s in np.arange(0.02, PRESETS[preset].duration_s, 0.02):
        moment = timeline.at(float(time_s))
        steps.append(
            np.linalg.norm(moment.world_from_object[:, :3, 3] - before.world_from_object[:, :3, 3], axis=1).max()
        )
        for index in range(len(scene.specs)):
            if timeline.held_at(index, float(time_s)):
                away = moment.world_from_object[index, :3, 3] - moment.world_from_head[:3, 3]
                distances.append(np.linalg.norm(away))
        before = moment
    assert 0.25 < min(distances) and max(distances) < 1.2
    assert max(steps) < 0.04  # 2 m/s


def test_everything_at_rest_stands_exactly_on_its_support(truth: Truth):
    heights = truth.lifted.surfaces.heights_m
    for relation in truth.lifted.relations:
        if relation.kind is not RelationKind.SUPPORT:
            continue
        frame = int(np.searchsorted(truth.timestamps_ns, relation.start_ns))
        base = world_vertices(truth, relation.subject_object_id, frame)[:, 2].min()
        assert abs(base - relation.surface_height_m) < 1e-6
        if relation.other_object_id is None:
            assert np.abs(heights - base).min() < 1e-6


def test_what_is_inside_a_container_is_inside_its_walls(truth: Truth):
    inside = [r for r in truth.lifted.relations if r.kind is RelationKind.CONTAINMENT]
    assert len(inside) == 1
    container = truth.objects[inside[0].other_object_id - 1]
    assert container.container
    track = truth.lifted.trajectories[container.object_id - 1]
    rotation = se3.rotation_from_quat_wxyz(track.quats_wxyz[-1])
    local = (world_vertices(truth, inside[0].subject_object_id, -1) - track.centers_in_world[-1]) @ rotation
    assert (np.abs(local[:, :2]) < container.extent_m[:2] / 2 - 0.008).all()
    assert local[:, 2].min() > -container.extent_m[2] / 2 + 0.008


def test_objects_do_not_run_through_one_another(truth: Truth):
    """Signed distances between true meshes, in every third frame; touching the container's floor is no overlap."""
    scenes = {item.object_id: truth.mesh(item.object_id) for item in truth.objects}
    for frame in range(0, len(truth.timestamps_ns), 3):
        for track in truth.lifted.trajectories:
            if frame and not (track.states[frame] == MotionState.HELD):
                continue
            points = world_vertices(truth, track.object_id, frame)
            for other in truth.lifted.trajectories:
                if other.object_id == track.object_id:
                    continue
                rotation = se3.rotation_from_quat_wxyz(other.quats_wxyz[frame])
                local = (points - other.centers_in_world[frame]) @ rotation
                if np.linalg.norm(local, axis=1).min() > np.linalg.norm(other.extent_m):
                    continue
                signed = scene_over(*scenes[other.object_id]).compute_signed_distance(local.astype(np.float32)).numpy()
                assert signed.min() > -0.001, (frame, track.label, other.label)


def test_a_held_object_keeps_its_place_in_the_hand(truth: Truth):
    """Distances from the object's centre to the fingertips stay the same from lift-off to touch-down."""
    joints = truth.hands[0].joints_in_world
    for track in truth.lifted.trajectories:
        held = np.flatnonzero(track.states == MotionState.HELD)
        for span in np.split(held, np.flatnonzero(np.diff(held) > 1) + 1):
            if len(span) < 3:
                continue
            away = np.linalg.norm(joints[span][:, (4, 8, 12)] - track.centers_in_world[span][:, None], axis=2)
            assert np.ptp(away, axis=0).max() < 0.002
            assert away.min() < track.extent_m.max()


def test_pick_ups_and_put_downs_alternate_and_fit_the_states(truth: Truth):
    step_ns = 100_000_000
    for track in truth.lifted.trajectories:
        own = [e for e in truth.lifted.events if e.object_id == track.object_id]
        moves = [e for e in own if e.kind in (EventKind.PICK_UP, EventKind.PUT_DOWN)]
        assert [e.kind for e in moves] == [EventKind.PICK_UP, EventKind.PUT_DOWN] * (len(moves) // 2)
        expected = np.zeros(len(track.timestamps_ns), dtype=bool)
        for up, down in zip(moves[::2], moves[1::2], strict=True):
            expected |= (track.timestamps_ns >= up.time_ns) & (track.timestamps_ns < down.time_ns)
            last_rest = int((up.time_ns - track.timestamps_ns[0]) // step_ns)
            assert np.allclose(up.place_in_world, track.centers_in_world[last_rest], atol=1e-9)
        assert np.array_equal(track.states == MotionState.HELD, expected)
        still = track.states == MotionState.REST
        moved = np.linalg.norm(np.diff(track.centers_in_world, axis=0), axis=1)
        assert (moved[still[1:] & still[:-1]] == 0).all()
