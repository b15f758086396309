"""Exposures and pose corrections of single views."""

import numpy as np
import pytest

from recon.per_view import Exposures, ExposureTrack, PoseCorrections, RowAdam


def test_the_first_adam_step_is_the_rate_whatever_the_gradient_is():
    adam = RowAdam(2, 3)
    assert adam.step(1, np.array([1e-3, -5.0, 0.0]), 0.1) == pytest.approx([0.1, -0.1, 0.0])
    assert not adam.first[0].any() and adam.steps.tolist() == [0, 1]


def test_an_exposure_between_two_frames_is_between_theirs():
    track = ExposureTrack(np.array([10, 20]), np.array([[1.0] * 3, [2.0] * 3]), np.array([[0.0] * 3, [0.1] * 3]))
    gain, offset = track.at(15)
    assert gain == pytest.approx([1.5] * 3) and offset == pytest.approx([0.05] * 3)
    assert track.at(99)[0] == pytest.approx([2.0] * 3) and track.at(0)[0] == pytest.approx([1.0] * 3)
    nothing = ExposureTrack(np.zeros(0, np.int64), np.zeros((0, 3)), np.zeros((0, 3)))
    assert nothing.at(3)[0].tolist() == [1, 1, 1]


def test_the_track_is_relative_to_the_typical_exposure():
    """A picture is gain * colour + offset; with colours as the typical view has them it comes out the same."""
    exposures = Exposures(np.array([[0.8] * 3, [1.2] * 3, [1.0] * 3], np.float32))
    exposures.table[:, 3:] = [[0.02], [0.0], [0.04]]
    gain, offset = exposures.mean()
    track = exposures.track(np.array([0, 4, 8]))
    colour = np.array([0.3, 0.5, 0.7])
    typical = gain * colour + offset
    for row in range(3):
        own_gain, own_offset = exposures.of(row)
        assert track.gains[row] * typical + track.offsets[row] == pytest.approx(own_gain * colour + own_offset)


def test_a_pull_brings_an_exposure_back():
    exposures = Exposures(np.full((1, 3), 1.5, np.float32))
    for _ in range(400):
        exposures.step(0, np.zeros(3), np.zeros(3), 5e-3, pull=1.0)
    assert exposures.of(0)[0] == pytest.approx([1.0] * 3, abs=0.02)


def test_a_camera_that_is_off_finds_its_way_back():
    """Points 1 to 3 m away; the loss is the squared distance of their camera coordinates from where they should be."""
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.uniform(-1, 1, (50, 2)), rng.uniform(1, 3, (50, 1))], axis=1)
    poses = PoseCorrections(1, typical_depth=2.0)
    off = np.eye(4)
    off[:3, 3] = [0.03, -0.02, 0.01]
    off[:2, :2] = [[np.cos(0.02), -np.sin(0.02)], [np.sin(0.02), np.cos(0.02)]]
    given = np.linalg.inv(off)  # world_from_camera; the truth is the identity
    for step in range(400):
        camera_from_world = np.linalg.inv(poses.world_from_camera(0, given))
        there = points @ camera_from_world[:3, :3].T + camera_from_world[:3, 3]
        slope = 2 * (there - points) / len(points)
        twist = np.concatenate([np.cross(there, slope).sum(axis=0), slope.sum(axis=0)])
        poses.step(0, twist, 2e-3 * 0.985**step, pull=0.0)
    assert poses.world_from_camera(0, given) == pytest.approx(np.eye(4), abs=2e-3)
    turn_deg, shift = poses.largest()
    assert turn_deg == pytest.approx(np.degrees(0.02), abs=0.1) and shift == pytest.approx(0.0374, abs=0.004)
