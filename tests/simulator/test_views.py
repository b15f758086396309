"""Masks, depth, boxes and narration points of the truth fit together."""

import json
from pathlib import Path

import numpy as np

from egospatial.simulator import ARM_ID, HAND_ID, PRESETS, Truth
from egospatial.simulator.narrate import MIN_AREA_AT_1024_PX
from egospatial.simulator.sensor_noise import given_poses, noisy_depth_mm
from egospatial.simulator.views import canonical_camera, make_views
from geo import se3
from lifting.records import MotionState


def test_the_canonical_camera_is_the_stated_one():
    """zoom 0.78125 * (1024 / 2) / tan(90 deg / 2) = 400 px; principal point (1024 - 1) / 2."""
    camera = canonical_camera(1024)
    assert np.allclose(camera.params, [400.0, 400.0, 511.5, 511.5])
    assert np.allclose(canonical_camera(192).params, [75.0, 75.0, 95.5, 95.5])


def test_the_canonical_view_looks_five_degrees_lower_than_the_source():
    view = make_views(PRESETS["small"]).canonical
    axis_in_source = view.head_from_camera[:3, 2]
    assert np.allclose(axis_in_source, [0.0, np.sin(np.radians(5.0)), np.cos(np.radians(5.0))])  # +y is down


def test_the_fisheye_sees_to_95_degrees():
    view = make_views(PRESETS["small"]).fisheye
    assert np.degrees(np.arccos(view.directions[:, 2].min())) > 94.0
    assert not view.seen[0, 0] and view.seen[0, 160] and view.seen[160, 0]


def test_mask_pixels_lie_on_the_true_box(truth: Truth):
    """Depth under a mask, taken to world with the true pose, is inside the object's box (to half a millimetre)."""
    grid = truth.depth_camera.normalised_points(truth.depth_camera.pixel_grid())
    seen = 0
    for frame in (0, 15, 25, 45, 59):
        ids, z = truth.depth_instance_ids(frame), truth.z_depth_m(frame)
        for track in truth.lifted.trajectories:
            inside = ids == track.object_id
            if not inside.any():
                continue
            world = se3.transform_points(truth.world_from_camera[frame], grid[inside] * z[inside][:, None])
            rotation = se3.rotation_from_quat_wxyz(track.quats_wxyz[frame])
            local = np.abs((world - track.centers_in_world[frame]) @ rotation)
            assert (local <= track.extent_m / 2 + 5e-4).all(), (frame, track.label)
            seen += 1
    assert seen > 20


def test_visible_pixels_count_the_mask_and_never_exceed_what_could_be_seen(truth: Truth):
    visible = np.stack([track.visible_pixels for track in truth.lifted.trajectories], axis=1)
    for frame in (0, 20, 40):
        ids = truth.instance_ids(frame)
        counts = [int((ids == item.object_id).sum()) for item in truth.objects]
        assert counts == visible[frame].tolist()
    assert (visible <= truth.in_view_pixels).all()
    assert all(np.array_equal(t.observed, t.visible_pixels > 0) for t in truth.lifted.trajectories)


def test_the_hand_hides_things_and_objects_leave_and_return(truth: Truth):
    hidden = truth.in_view_pixels - np.stack([t.visible_pixels for t in truth.lifted.trajectories], axis=1)
    assert (hidden > 0.2 * np.maximum(truth.in_view_pixels, 1)).any()
    assert any(HAND_ID in truth.instance_ids(f) and ARM_ID in truth.instance_ids(f) for f in (15, 20, 25))
    seen = truth.in_view_pixels > 0
    returns = [
        bool((np.diff(column.astype(int)) == 1).any() and (np.diff(column.astype(int)) == -1).any())
        for column in seen.T
    ]
    assert sum(returns) >= 3


def test_static_depth_is_depth_without_what_moves(truth: Truth):
    moving = [t.object_id for t in truth.lifted.trajectories if (t.states == MotionState.HELD).any()]
    for frame in (18, 22, 42):
        z, static, ids = truth.z_depth_m(frame), truth.static_z_depth_m(frame), truth.depth_instance_ids(frame)
        front = np.isin(ids, [*moving, HAND_ID, ARM_ID])
        assert np.array_equal(z[~front], static[~front])
        assert (static[front] >= z[front]).all()
        assert front.any() and (static[front] > z[front] + 0.01).any()


def test_most_objects_are_seen_most_of_the_time_and_carried_ones_too(truth: Truth):
    least = MIN_AREA_AT_1024_PX * (192 / 1024) ** 2
    visible = np.stack([t.visible_pixels for t in truth.lifted.trajectories], axis=1)
    assert (visible.max(axis=0) >= 3 * least).all()
    held = np.stack([t.states == MotionState.HELD for t in truth.lifted.trajectories], axis=1)
    assert (visible[held] >= least).mean() > 0.9


def narration_entries(recording_dir: Path) -> list[dict]:
    return [json.loads(line) for line in (recording_dir / "narrations.jsonl").read_text().splitlines()]


def test_every_object_has_grounding_points_and_the_first_is_at_rest(truth: Truth, recording_dir: Path):
    points = [g for entry in narration_entries(recording_dir) for g in entry["groundings"]]
    for item, track in zip(truth.objects, truth.lifted.trajectories, strict=True):
        frames = sorted(g["frame"] for g in points if g["object"] == item.label)
        assert len(frames) >= 3, item.label
        assert track.states[frames[0]] == MotionState.REST
        assert len(set(frames)) == len(frames)
        if (track.states == MotionState.HELD).any():
            last_held = np.flatnonzero(track.states == MotionState.HELD)[-1]
            assert frames[-1] > last_held  # said again where it was put down


def test_grounding_points_lie_well_inside_the_true_masks(truth: Truth, recording_dir: Path):
    least = MIN_AREA_AT_1024_PX * (192 / 1024) ** 2
    for entry in narration_entries(recording_dir):
        for grounding in entry["groundings"]:
            item = truth.object_by_label(grounding["object"])
            mask = truth.instance_ids(grounding["frame"]) == item.object_id
            x, y = (round(value) for value in grounding["point_xy"])
            assert mask[y, x] and mask.sum() >= least
            assert grounding["view"] == "canonical"


def test_narrations_are_sentences_in_order_of_time(recording_dir: Path):
    entries = narration_entries(recording_dir)
    assert [entry["start_s"] for entry in entries] == sorted(entry["start_s"] for entry in entries)
    assert len({entry["id"] for entry in entries}) == len(entries)
    for entry in entries:
        assert 0 <= entry["start_s"] < entry["end_s"] <= 5.9
        assert entry["text"].startswith("I am ") and " because " in entry["text"] and entry["text"].endswith(".")


def test_depth_noise_has_the_stated_sigma():
    """A wall at 2.0 m: 3 mm + 4 mm * 1.6^2 = 13.24 mm, and disparity steps of 1/16 px on 238 px * 7.5 cm."""
    rng = np.random.default_rng(1)
    wall = np.full((288, 384), 2.0, dtype=np.float32)
    measured = noisy_depth_mm(wall, np.ones_like(wall), 238.0, rng)
    valid = measured[measured > 0] / 1000.0
    step = 2.0**2 / (238.0 * 0.075) / 16
    assert abs(valid.std() - np.hypot(0.01324, step / np.sqrt(12))) < 0.0006
    assert abs(valid.mean() - 2.0) < 0.0015
    assert 0.14 < (measured == 0).mean() < 0.21


def test_beyond_three_and_a_half_metres_there_is_no_depth():
    wall = np.full((144, 192), 3.6, dtype=np.float32)
    assert (noisy_depth_mm(wall, np.ones_like(wall), 119.0, np.random.default_rng(2)) == 0).all()


def test_pose_drift_is_a_centimetre_and_half_a_degree_a_minute():
    times_s = np.arange(0, 600.0, 0.1)
    true = np.broadcast_to(np.eye(4), (len(times_s), 4, 4))
    given = given_poses(true, times_s, np.random.default_rng(3))
    late, early = given[-200:, :3, 3].mean(axis=0), given[:200, :3, 3].mean(axis=0)
    assert abs(np.linalg.norm(late - early) - 0.0967) < 0.002  # 10 minutes less the two means' half widths
    turn = np.degrees(np.linalg.norm(se3.axis_angle_from_rotation(given[-200:, :3, :3]).mean(axis=0)))
    assert abs(turn - 4.9) < 0.1
