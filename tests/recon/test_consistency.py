"""Frames that agree about what stands still, and how much they do not where they do not."""

import numpy as np
import pytest

from geo.cameras import PinholeCamera
from recon.consistency import compare_pair, temporal_consistency
from recon.errors import ReconError
from recon.records import DepthFrame, DepthOrigin

CAMERA = PinholeCamera(40, 30, 40.0, 40.0, 19.5, 14.5)


def frame_of(z, origin=DepthOrigin.STATIC):
    z = np.asarray(z, dtype=np.float32)
    known = np.isfinite(z)
    kinds = np.broadcast_to(np.uint8(origin) if np.isscalar(origin) else origin, z.shape)
    return DepthFrame(
        z, np.where(known, np.float32(0.01), np.float32(np.nan)), np.where(known, kinds, 0).astype(np.uint8)
    )


def wall(z):
    return frame_of(np.full((30, 40), z))


def at(x=0.0, z=0.0):
    pose = np.eye(4)
    pose[:3, 3] = [x, 0.0, z]
    return pose


def test_walking_towards_a_wall_all_frames_agree():
    """The wall at z = 3 is 3 m, 2.9 m and 2.8 m away from cameras at 0, 0.1 and 0.2."""
    poses = np.stack([at(z=0.0), at(z=0.1), at(z=0.2)])
    found = temporal_consistency([wall(3.0), wall(2.9), wall(2.8)], poses, CAMERA)
    assert len(found.pairs) == 2 and found.pixels > 200
    assert found.p90_rel < 1e-6 and found.seen_through_share == 0


def test_a_frame_two_percent_off_is_two_percent_off_in_both_directions():
    """Same place, 2.00 and 2.04 m: 0.04 / 2.02 = 1.98 %, once behind and once before the other's surface."""
    rel = compare_pair(wall(2.0), wall(2.04), np.eye(4), CAMERA)
    np.testing.assert_allclose(np.abs(rel), 0.04 / 2.02, rtol=1e-5)
    assert (rel < 0).mean() == 0.5
    found = temporal_consistency(iter([wall(2.0), wall(2.04)]), np.stack([at(), at()]), CAMERA)
    assert found.median_rel == pytest.approx(0.0198, rel=0.005) and found.pairs[0].median_rel == pytest.approx(
        0.0198, rel=1e-3
    )


def test_a_step_apart_is_compared_and_not_the_neighbour():
    """2.0, 2.2, 2.0, 2.2 m from one place: neighbours differ by 9.5 %, every second frame by nothing."""
    frames, poses = [wall(2.0), wall(2.2), wall(2.0), wall(2.2)], np.stack([at()] * 4)
    assert temporal_consistency(frames, poses, CAMERA, step=2).p90_rel == 0.0
    apart = temporal_consistency(frames, poses, CAMERA, step=1)
    assert apart.p90_rel == pytest.approx(0.0952, rel=0.01) and apart.seen_through_share == 1.0
    assert [(pair.first, pair.second) for pair in apart.pairs] == [(0, 1), (1, 2), (2, 3)]
    assert [pair.first for pair in temporal_consistency(frames, poses, CAMERA, every=2).pairs] == [0, 2]


def test_what_one_frame_cannot_see_behind_an_object_is_no_disagreement():
    """A board at 1 m before a wall at 2 m; the camera steps 20 cm aside and sees other parts of the wall.

    The board's edges move by 40 * 0.2 / 1 = 8 pixels, the wall's by 4.
    """
    first, second = np.full((30, 40), 2.0), np.full((30, 40), 2.0)
    first[:, 16:24] = 1.0
    second[:, 8:16] = 1.0
    found = temporal_consistency([frame_of(first), frame_of(second)], np.stack([at(), at(x=0.2)]), CAMERA, pixel_step=1)
    assert found.pixels > 1500 and found.p90_rel < 1e-6 and found.seen_through_share == 0


def test_a_floater_is_seen_through():
    """A patch of 8x8 pixels at 1 m in one of two frames of a wall at 2 m: its own points are the share that is wrong."""
    floater = np.full((30, 40), 2.0)
    floater[10:18, 10:18] = 1.0
    found = temporal_consistency([frame_of(floater), wall(2.0)], np.stack([at(), at()]), CAMERA, pixel_step=1)
    # of the other frame's 1200 points, those well behind the patch (one pixel in from its rim) are hidden
    assert found.pixels == 1200 + 1200 - 6 * 6
    assert found.seen_through_share == pytest.approx(64 / found.pixels)


def test_only_static_pixels_are_compared():
    moving = np.full((30, 40), np.uint8(DepthOrigin.STATIC))
    moving[:, :20] = DepthOrigin.SENSOR
    z = np.full((30, 40), 2.0)
    z[:, :20] = 1.2
    found = temporal_consistency([frame_of(z, moving), wall(2.0)], np.stack([at(), at()]), CAMERA)
    assert found.p90_rel == 0.0 and found.seen_through_share == 0.0
    everything = tuple(DepthOrigin)
    assert (
        temporal_consistency(
            [frame_of(z, moving), wall(2.0)], np.stack([at(), at()]), CAMERA, origins=everything
        ).seen_through_share
        > 0.2
    )


def test_exact_depth_of_a_room_agrees_to_the_interpolation_and_a_wrong_pose_does_not(scene_of):
    scene = scene_of(8)
    frames = [frame_of(z) for z in scene.z_depth_m]
    poses = scene.canonical.world_from_camera
    right = temporal_consistency(frames, poses, scene.canonical.camera, step=3)
    assert right.median_rel < 1e-4 and right.p90_rel < 1e-3
    shifted = poses.copy()
    shifted[4, 1, 3] += 0.05
    wrong = temporal_consistency(frames, shifted, scene.canonical.camera, step=3)
    assert {wrong.worst(2)[0].first, wrong.worst(2)[1].first} == {1, 4}


def test_without_poses_or_overlap_the_result_says_why():
    poses = np.stack([at(), np.full((4, 4), np.nan)])
    found = temporal_consistency([wall(2.0), wall(2.0)], poses, CAMERA)
    assert np.isnan(found.median_rel) and found.pixels == 0 and "1 apart" in found.reason
    turned = np.diag([-1.0, 1.0, -1.0, 1.0])
    assert temporal_consistency([wall(2.0), wall(2.0)], np.stack([at(), turned]), CAMERA).reason
    assert temporal_consistency([], np.zeros((0, 4, 4)), CAMERA).reason


def test_wrong_numbers_and_sizes_are_refused():
    with pytest.raises(ReconError, match="1 depth frames, but 2 poses"):
        temporal_consistency([wall(2.0)], np.stack([at(), at()]), CAMERA)
    with pytest.raises(ReconError, match="more depth frames than poses"):
        temporal_consistency([wall(2.0), wall(2.0)], np.stack([at()]), CAMERA)
    with pytest.raises(ReconError, match=r"shape \(3, 4\).*40x30"):
        temporal_consistency([frame_of(np.ones((3, 4)))] * 2, np.stack([at(), at()]), CAMERA)
    with pytest.raises(ReconError, match="step 0"):
        temporal_consistency([], np.zeros((0, 4, 4)), CAMERA, step=0)
