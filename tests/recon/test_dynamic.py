"""What may move is found from depth that other frames see through, hands and prompts; what stands still is not."""

from dataclasses import replace

import numpy as np
import pytest

from geo.cameras import PinholeCamera
from geo.recording import HandTrack
from recon.config import ReconstructConfig
from recon.dynamic import PromptRegion, estimate_dynamic, hand_region
from recon.errors import ReconError
from recon.survey import survey

CONFIG = ReconstructConfig(dynamic_width_px=64)


def masks_of(canonical, **kwargs):
    return estimate_dynamic(canonical, survey(canonical, CONFIG), CONFIG, **kwargs)


def test_a_still_room_is_not_masked(scene_of):
    noisy = scene_of(16, noise_m=0.01, holes=0.1)
    assert masks_of(noisy.canonical).masks.mean() < 0.03


def test_a_rolling_ball_is_masked_whole_and_little_else(ball_scene):
    dynamic = masks_of(ball_scene.canonical)
    masks = np.array([dynamic.at(frame, (96, 72)) for frame in range(20)])
    assert masks[ball_scene.ball].mean() > 0.97
    assert masks[~ball_scene.ball].mean() < 0.08  # the margin around it


def test_a_frame_without_a_pose_is_masked_whole(room, without_poses):
    dynamic = masks_of(without_poses(room.canonical, [4]))
    assert dynamic.masks[4].all() and dynamic.masks[5].mean() < 0.03


def test_without_a_sensor_nothing_is_known_but_hands_and_prompts(scene_of):
    canonical = scene_of(6, sensor=False).canonical
    assert not masks_of(canonical).masks.any()
    marked = masks_of(canonical, prompts=(PromptRegion(2, (48.0, 36.0), 12.0),)).masks
    assert marked[2].any() and not marked[3].any()
    assert marked[2].mean() == pytest.approx(np.pi * 12**2 / (96 * 72), rel=0.25)


def test_a_prompt_on_a_frame_that_does_not_exist_is_refused(room):
    with pytest.raises(ReconError, match="frame 99"):
        masks_of(room.canonical, prompts=(PromptRegion(99, (0.0, 0.0), 5.0),))


def straight_hand(wrist, towards):
    """21 joints on a line from the wrist, 2 cm apart."""
    return np.array(wrist) + np.array(towards) * 0.02 * np.arange(21)[:, None]


def test_a_hand_is_masked_with_its_forearm_behind_the_wrist():
    """Camera at the origin looking along +z; the wrist at (0, 0, 0.5), the hand points left (-x), the arm goes right."""
    camera = PinholeCamera(64, 64, 40.0, 40.0, 31.5, 31.5)
    mask = hand_region(straight_hand([0, 0, 0.5], [-1, 0, 0]), camera, np.eye(4), CONFIG)
    row = mask[31]
    assert row[10] and row[31], "fingers and wrist"
    assert row[31 + round(0.3 / 0.5 * 40)], "forearm, 30 cm to the right"
    assert not mask[10].any() and not mask[-10].any()


def test_an_unseen_hand_masks_nothing():
    camera = PinholeCamera(64, 64, 40.0, 40.0, 31.5, 31.5)
    assert not hand_region(np.full((21, 3), np.nan), camera, np.eye(4), CONFIG).any()
    behind = straight_hand([0, 0, -0.5], [1, 0, 0])
    assert not hand_region(behind, camera, np.eye(4), CONFIG).any()


def test_hands_count_only_near_their_time(scene_of):
    canonical = scene_of(6, sensor=False).canonical
    pose = canonical.world_from_camera[2]
    joints = straight_hand(pose[:3, 3] + 0.5 * pose[:3, 2], [0, 0, 1.0])
    hand = HandTrack("right", canonical.timestamps_ns[2:3], joints[None], np.ones(1))
    masks = masks_of(replace(canonical, hands=(hand,))).masks
    assert masks[2].any() and not masks[4].any()
