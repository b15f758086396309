"""Keyframes cover the poses, prefer sharp pictures, and keep held-out frames apart."""

import numpy as np

from recon.config import ReconstructConfig
from recon.keyframes import covering_frames, select_keyframes, sharpness

CONFIG = ReconstructConfig(keyframe_step_m=0.099, max_keyframes=20, held_out_every=4)


def walk(count, step_m=0.02):
    poses = np.tile(np.eye(4), (count, 1, 1))
    poses[:, 0, 3] = step_m * np.arange(count)
    return poses


def test_a_still_camera_needs_one_keyframe():
    keyframes = select_keyframes(np.tile(np.eye(4), (30, 1, 1)), np.ones(30), CONFIG)
    assert keyframes.fit.tolist() == [0] and not len(keyframes.held_out)


def test_a_walk_gives_a_keyframe_per_step_and_every_fourth_is_held_out():
    """41 frames 2 cm apart, steps of 10 cm: frames 0, 5, ..., 40; the third, seventh of them are held out."""
    keyframes = select_keyframes(walk(41), np.ones(41), CONFIG)
    assert sorted([*keyframes.fit, *keyframes.held_out]) == list(range(0, 41, 5))
    assert keyframes.held_out.tolist() == [10, 30]


def test_turning_in_place_counts_as_much_as_walking():
    angles = np.radians(np.linspace(0, 30, 31))
    poses = np.tile(np.eye(4), (31, 1, 1))
    poses[:, 0, 0], poses[:, 0, 2] = np.cos(angles), np.sin(angles)
    poses[:, 2, 0], poses[:, 2, 2] = -np.sin(angles), np.cos(angles)
    keyframes = select_keyframes(poses, np.ones(31), ReconstructConfig(keyframe_step_deg=5.0, held_out_every=0))
    assert 6 <= len(keyframes.fit) <= 8


def test_the_budget_holds_and_the_ends_of_the_walk_stay():
    keyframes = select_keyframes(walk(400), np.ones(400), ReconstructConfig(max_keyframes=10, held_out_every=0))
    assert len(keyframes.fit) == 10
    assert keyframes.fit[0] < 10 and keyframes.fit[-1] > 380


def test_a_blurred_frame_gives_way_to_its_sharp_neighbour():
    sharp = np.ones(41)
    sharp[10], sharp[11] = 0.3, 1.2
    chosen = select_keyframes(walk(41), sharp, ReconstructConfig(keyframe_step_m=0.099, held_out_every=0)).fit
    assert 11 in chosen and 10 not in chosen


def test_frames_without_a_pose_are_never_chosen():
    poses = walk(41)
    poses[10:20] = np.nan
    keyframes = select_keyframes(poses, np.ones(41), CONFIG)
    assert not np.isin(np.arange(10, 20), [*keyframes.fit, *keyframes.held_out]).any()
    assert not len(select_keyframes(poses[10:20], np.ones(10), CONFIG).fit)


def test_sharpness_falls_with_blur_and_ignores_exposure():
    import cv2

    image = np.random.default_rng(0).integers(60, 200, (40, 50)).astype(np.uint8)
    image = cv2.GaussianBlur(image, (3, 3), 0.8)
    blurred = cv2.GaussianBlur(image, (7, 7), 2.0)
    assert sharpness(blurred) < 0.5 * sharpness(image)
    assert abs(sharpness((image * 0.6).astype(np.uint8)) / sharpness(image) - 1) < 0.05


def test_the_few_frames_that_see_everything_come_first():
    """Frame 3 sees most, frame 7 the rest; all others see parts of it."""
    seen = [np.array([k % 3], dtype=np.int64) for k in range(10)]
    seen[3], seen[7] = np.arange(8), np.array([8, 9])
    np.testing.assert_array_equal(covering_frames(seen, 5), [3, 7])
    np.testing.assert_array_equal(covering_frames(seen, 1), [3])
    assert not len(covering_frames([np.zeros(0, np.int64)] * 4, 3)) and not len(covering_frames([], 3))


def test_covering_frames_are_keyframes_and_never_held_out():
    poses = np.tile(np.eye(4), (40, 1, 1))
    poses[:, 0, 3] = 0.05 * np.arange(40)
    seen = [np.array([0], dtype=np.int64)] * 40
    seen[13] = np.arange(20)
    chosen = select_keyframes(poses, np.ones(40), ReconstructConfig(max_keyframes=16, held_out_every=2), seen=seen)
    assert 13 in chosen.fit and len(chosen.held_out) >= 5 and 13 not in chosen.held_out
    assert len(chosen.fit) + len(chosen.held_out) <= 16
