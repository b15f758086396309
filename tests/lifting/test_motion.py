"""Things that are picked up, carried, put down and put into others."""

from dataclasses import replace

import numpy as np
import pytest

from geo.world import Gravity, World
from lifting.errors import LiftingError
from lifting.lift import lift
from lifting.records import EventKind, MotionState
from tracking.records import MaskTrack, TrackSet, encode_rle

T = 0.8
UP, DOWN = 22, 46  # frames in which the mug is lifted off and touches down


def at_top_of(center):
    return np.tile(np.array(center) + np.array([0.0, -0.03, 0.07]), (21, 1))


def carried(kit, frames=70, with_hand=True, **changes):
    a, b = (-0.3, -0.1, T + 0.06), (0.3, -0.1, T + 0.06)
    route = kit.path((UP, a), (UP + 6, (-0.3, -0.1, T + 0.3)), (DOWN - 6, (0.3, -0.1, T + 0.3)), (DOWN, b))
    things = [
        kit.Thing(1, "mug", (0.09, 0.08, 0.12), route, lambda f: 20.0),
        kit.Thing(2, "crate", (0.2, 0.2, 0.09), kit.still(0.0, 0.2, T + 0.045), lambda f: 33.0),
    ]

    def hand(f):
        return at_top_of(route(f)) if UP - 4 < f < DOWN + 4 else np.full((21, 3), np.nan)

    setup = {
        "things": things,
        "frames": frames,
        "eye": lambda f: (-0.4 + 0.8 * f / frames, -0.9, 1.5),
        "target": lambda f: (0.0, 0.0, T),
        "hands": hand if with_hand else None,
    }
    return kit.Scene(**{**setup, **changes})


@pytest.fixture(scope="module")
def carry(kit):
    scene = carried(kit)
    return scene, lift(scene.canonical(), scene, scene.tracks())


def seconds(scene, event) -> float:
    return (event.time_ns - int(scene.canonical().timestamps_ns[0])) / 1e9


def test_one_pick_up_and_one_put_down_at_the_right_time_and_place(carry):
    scene, lifted = carry
    assert [e.kind for e in lifted.events] == [EventKind.PICK_UP, EventKind.PUT_DOWN]
    up, down = lifted.events
    assert up.object_id == down.object_id == 1
    assert abs(seconds(scene, up) - UP / 10) < 0.35 and abs(seconds(scene, down) - DOWN / 10) < 0.35
    assert np.linalg.norm(up.place_in_world - [-0.3, -0.1, T + 0.06]) < 0.02
    assert np.linalg.norm(down.place_in_world - [0.3, -0.1, T + 0.06]) < 0.02
    assert up.confidence > 0.99 and down.confidence > 0.99 and up.time_sigma_ns > 0


def test_states_are_rest_held_rest(carry):
    _, lifted = carry
    states = lifted.trajectories[0].states
    assert (states[: UP - 1] == MotionState.REST).all() and (states[DOWN + 2 :] == MotionState.REST).all()
    assert (states[UP + 4 : DOWN - 4] == MotionState.HELD).all()
    assert (lifted.trajectories[1].states == MotionState.REST).all()


def test_the_carried_box_is_where_the_thing_is(carry):
    scene, lifted = carry
    found = lifted.trajectories[0]
    truth = np.array([scene.things[0].center(f) for f in range(scene.frames)])
    error = np.linalg.norm(found.centers_in_world - truth, axis=1)
    assert np.median(error[UP + 2 : DOWN - 2]) < 0.02 and error[UP + 2 : DOWN - 2].max() < 0.05
    sigma = np.sqrt(np.trace(found.center_covariances_m2, axis1=1, axis2=2))
    assert np.median(sigma[UP + 3 : DOWN - 3]) > np.median(sigma[:UP])


def test_both_rests_are_right_to_a_centimetre_and_share_their_sides(carry):
    scene, lifted = carry
    found = lifted.trajectories[0]
    for frame in (0, scene.frames - 1):
        assert np.linalg.norm(found.centers_in_world[frame] - scene.things[0].center(frame)) < 0.012
    assert np.abs(found.extent_m - [0.09, 0.08, 0.12]).max() < 0.012


def test_without_hands_a_carried_thing_moves_but_is_not_said_to_be_held(kit):
    scene = carried(kit, with_hand=False)
    lifted = lift(scene.canonical(), scene, scene.tracks())
    states = lifted.trajectories[0].states
    assert (states[UP + 4 : DOWN - 4] == MotionState.MOVING).all() and MotionState.HELD not in states
    assert [e.kind for e in lifted.events] == [EventKind.PICK_UP, EventKind.PUT_DOWN]


def test_holes_on_the_carried_thing_get_the_models_depth(carry):
    scene, lifted = carry
    moving = lifted.moving_depth
    assert moving is not None and len(moving.frames) >= DOWN - UP - 8 and set(moving.object_ids.tolist()) == {1}
    errors = []
    for frame, pixels, z in zip(moving.frames, moving.pixels_vu, moving.z_depth_m, strict=True):
        truth, ids = scene.cast(int(frame))
        assert np.isnan(scene.sensor(int(frame))[pixels[:, 0], pixels[:, 1]]).all()
        assert (ids[pixels[:, 0], pixels[:, 1]] == 1).all()
        errors.append(np.abs(z - truth[pixels[:, 0], pixels[:, 1]]) / truth[pixels[:, 0], pixels[:, 1]])
    assert np.median(np.concatenate(errors)) < 0.01


def test_a_pause_in_the_air_is_no_put_down(kit):
    a, b, high = (-0.3, -0.1, T + 0.06), (0.3, -0.1, T + 0.06), (0.0, -0.15, T + 0.35)
    route = kit.path((20, a), (32, high), (52, high), (64, b))
    scene = carried(kit, frames=85)
    scene.things[0].center = route
    scene.hands = lambda f: at_top_of(route(f)) if 16 < f < 68 else np.full((21, 3), np.nan)
    lifted = lift(scene.canonical(), scene, scene.tracks())
    assert [e.kind for e in lifted.events] == [EventKind.PICK_UP, EventKind.PUT_DOWN]
    assert (lifted.trajectories[0].states[34:50] == MotionState.HELD).all()


def test_returned_to_where_it_was_is_still_two_events(kit):
    a, high = (-0.3, -0.1, T + 0.06), (-0.1, -0.15, T + 0.3)
    scene = carried(kit)
    scene.things[0].center = kit.path((20, a), (30, high), (34, (0.0, -0.1, T + 0.25)), (44, a))
    scene.hands = None
    lifted = lift(scene.canonical(), scene, scene.tracks())
    assert [e.kind for e in lifted.events] == [EventKind.PICK_UP, EventKind.PUT_DOWN]
    centers = lifted.trajectories[0].centers_in_world
    assert np.linalg.norm(centers[-1] - centers[0]) < 0.01


def test_moved_while_nobody_looked_leaves_no_event_and_no_invented_place(kit):
    """Unseen on frames 15-54, its old place out of view the while, then found 60 cm away: not known in between."""
    a, b = (-0.3, -0.1, T + 0.06), (0.3, -0.1, T + 0.06)
    scene = carried(kit, with_hand=False)
    scene.things[0].center = lambda f: a if f < 30 else b
    scene.target = lambda f: (0.0, 0.0, T)
    away = lambda f: (0.0, -6.0, 0.5) if 15 <= f < 55 else (0.0, 0.0, T)  # noqa: E731
    scene = type(scene)(scene.things, scene.frames, scene.eye, away)
    lifted = lift(scene.canonical(), scene, scene.tracks())
    found = lifted.trajectories[0]
    assert lifted.events == ()
    assert (found.states[:15] == MotionState.REST).all() and (found.states[56:] == MotionState.REST).all()
    assert (found.states[17:54] == MotionState.UNSEEN).all() and np.isnan(found.centers_in_world[17:54]).all()
    assert np.linalg.norm(found.centers_in_world[-1] - b) < 0.02


def test_a_place_seen_empty_is_not_kept(kit):
    """The mug is gone from frame 30 on (taken where nobody saw it); its place stays in view."""
    scene = carried(kit, with_hand=False)
    scene.things[0].center = lambda f: (-0.3, -0.1, T + 0.06) if f < 30 else (0.0, 50.0, T)
    lifted = lift(scene.canonical(), scene, scene.tracks())
    states = lifted.trajectories[0].states
    assert (states[:30] == MotionState.REST).all() and (states[34:] == MotionState.UNSEEN).all()


def test_put_into_and_take_out_of_a_tray(kit):
    """A cube travels into an open tray (four walls and a floor), stays for 2 s, and is taken out again."""
    a, over, inside = (-0.35, -0.1, T + 0.03), (0.25, 0.1, T + 0.3), (0.25, 0.1, T + 0.045)
    back = kit.path((15, a), (25, over), (31, inside), (56, inside), (62, over), (74, a))
    cube = kit.Thing(1, "cube", (0.06, 0.06, 0.06), back)
    tray_parts = [
        kit.Thing(2, "tray", (0.3, 0.26, 0.01), kit.still(0.25, 0.1, T + 0.005)),
        kit.Thing(2, "tray", (0.3, 0.01, 0.1), kit.still(0.25, -0.025, T + 0.05)),
        kit.Thing(2, "tray", (0.3, 0.01, 0.1), kit.still(0.25, 0.225, T + 0.05)),
        kit.Thing(2, "tray", (0.01, 0.26, 0.1), kit.still(0.105, 0.1, T + 0.05)),
        kit.Thing(2, "tray", (0.01, 0.26, 0.1), kit.still(0.395, 0.1, T + 0.05)),
    ]
    things = [cube, tray_parts[0]]
    scene = kit.Scene(
        things, 90, lambda f: (-0.2 + 0.4 * f / 90, -0.75, 1.6), lambda f: (0.0, 0.0, T), blockers=tuple(tray_parts[1:])
    )
    lifted = lift(scene.canonical(), scene, scene.tracks())
    kinds = [(e.kind, e.object_id, e.other_object_id) for e in lifted.events if e.kind in ("put_into", "take_out")]
    assert kinds == [(EventKind.PUT_INTO, 1, 2), (EventKind.TAKE_OUT, 1, 2)]
    times = [seconds(scene, e) for e in lifted.events if e.kind in ("put_into", "take_out")]
    assert abs(times[0] - 3.1) < 0.5 and abs(times[1] - 5.6) < 0.5
    held_in = [r for r in lifted.relations if r.kind == "containment"]
    assert [(r.subject_object_id, r.other_object_id) for r in held_in] == [(1, 2)]
    under = [r.other_object_id for r in lifted.relations if r.kind == "support" and r.subject_object_id == 1]
    assert under == [None, 2, None]
    tray = lifted.trajectories[1]
    assert np.abs(tray.extent_m - [0.3, 0.26, 0.1]).max() < 0.015 and (tray.states == MotionState.REST).all()


def test_stacked_things_are_supported_by_each_other_and_touch(kit):
    things = [
        kit.Thing(1, "book", (0.25, 0.2, 0.05), kit.still(0, 0, T + 0.025)),
        kit.Thing(2, "box", (0.1, 0.1, 0.1), kit.still(0, 0, T + 0.1)),
        kit.Thing(3, "cup", (0.08, 0.08, 0.1), kit.still(0.4, 0.1, T + 0.05)),
    ]
    scene = kit.Scene(things, 30, lambda f: (-0.4 + 0.8 * f / 30, -0.9, 1.5), lambda f: (0.0, 0.0, T))
    lifted = lift(scene.canonical(), scene, scene.tracks())
    supports = {r.subject_object_id: r.other_object_id for r in lifted.relations if r.kind == "support"}
    assert supports == {1: None, 2: 1, 3: None}
    contacts = [(r.subject_object_id, r.other_object_id) for r in lifted.relations if r.kind == "contact"]
    assert contacts == [(1, 2)]


def test_without_gravity_boxes_are_free_and_nothing_needs_up(kit):
    """The whole world lies on its side and gravity is unknown: same sides, same motion, no support."""
    scene = carried(kit, world=World(metric=True, gravity=Gravity.UNKNOWN, up_sigma_rad=float("nan")))
    side = np.array([[0, 0, 1.0, 0.3], [1, 0, 0, -2], [0, 1, 0, 1], [0, 0, 0, 1]])
    scene.poses = side @ scene.poses
    lifted = lift(scene.canonical(), scene, scene.tracks())
    assert [e.kind for e in lifted.events] == [EventKind.PICK_UP, EventKind.PUT_DOWN]
    assert not [r for r in lifted.relations if r.kind != "contact"]
    assert len(lifted.surfaces.heights_m) == 0 and np.isnan(lifted.surfaces.floor_height_m)
    assert any("gravity unknown" in w for w in lifted.warnings)
    sides = np.sort(lifted.trajectories[1].extent_m)[::-1]
    assert np.abs(sides - [0.2, 0.2, 0.09]).max() < 0.02
    truth = side[:3, :3] @ np.array(scene.things[1].center(0)) + side[:3, 3]
    assert np.linalg.norm(lifted.trajectories[1].centers_in_world[0] - truth) < 0.02


def test_without_metric_scale_the_same_story_is_told_in_units(kit):
    """All lengths times seven: same states and events, sides times seven, and a warning."""
    scene = carried(kit, scale=7.0, world=World(metric=False, gravity=Gravity.KNOWN))
    lifted = lift(scene.canonical(), scene, scene.tracks())
    assert [e.kind for e in lifted.events] == [EventKind.PICK_UP, EventKind.PUT_DOWN]
    assert np.abs(lifted.trajectories[0].extent_m / 7.0 - [0.09, 0.08, 0.12]).max() < 0.012
    assert any("scale unknown" in w for w in lifted.warnings)


def test_without_a_sensor_the_static_model_carries_what_rests(kit):
    scene = carried(kit, frames=20, with_hand=False)
    lifted = lift(scene.canonical(with_sensor=False), scene, scene.tracks())
    assert lifted.moving_depth is None and any("no sensor" in w for w in lifted.warnings)
    assert np.linalg.norm(lifted.trajectories[1].centers_in_world[0] - [0.0, 0.2, T + 0.045]) < 0.015


def test_tracks_of_another_recording_are_refused(kit):
    scene = carried(kit, frames=3)
    tracks = scene.tracks()
    with pytest.raises(LiftingError, match="200"):
        lift(scene.canonical(), scene, TrackSet((100, 100), tracks.timestamps_ns, tracks.tracks, (), "x"))
    short = MaskTrack(1, "mug", tracks.tracks[0].masks[:2], tracks.tracks[0].states[:2], tracks.tracks[0].scores[:2])
    with pytest.raises(LiftingError, match=r"track 1 \('mug'\) has 2 frames"):
        lift(scene.canonical(), scene, TrackSet(tracks.size_wh_px, tracks.timestamps_ns, (short,), (), "x"))
    twice = (tracks.tracks[0], tracks.tracks[0])
    with pytest.raises(LiftingError, match="not unique"):
        lift(scene.canonical(), scene, TrackSet(tracks.size_wh_px, tracks.timestamps_ns, twice, (), "x"))


def test_progress_counts_the_frames(kit):
    scene = carried(kit, frames=4)
    calls = []
    lift(scene.canonical(), scene, scene.tracks(), progress=lambda done, total, what: calls.append((done, total)))
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_mask_that_stays_on_the_bare_table_is_no_rest_of_a_tall_thing(kit):
    """The mug is carried off; its mask stays on the table until frame 40, then is on the mug again where it stands."""
    import cv2

    scene = carried(kit)
    tracks = scene.tracks()
    mug, masks = tracks.tracks[0], list(tracks.tracks[0].masks)
    corners = np.array(
        [(-0.3 + dx, 0.06 + dy, T) for dx, dy in ((-0.04, -0.04), (0.04, -0.04), (0.04, 0.04), (-0.04, 0.04))]
    )
    for frame in range(UP + 3, 40):
        pose = scene.true_poses[frame]
        outline = scene.camera.project((corners - pose[:3, 3]) @ pose[:3, :3]).pixels_xy.round().astype(np.int32)
        mask = np.zeros((scene.size_px, scene.size_px), np.uint8)
        masks[frame] = encode_rle(cv2.fillConvexPoly(mask, outline, 1) > 0)
    lifted = lift(
        scene.canonical(), scene, replace(tracks, tracks=(replace(mug, masks=tuple(masks)), *tracks.tracks[1:]))
    )
    assert [e.kind for e in lifted.events if e.object_id == 1] == [EventKind.PICK_UP, EventKind.PUT_DOWN]
    centers = lifted.trajectories[0].centers_in_world
    assert np.nanmin(np.linalg.norm(centers - [-0.3, 0.06, T], axis=1)) > 0.1
