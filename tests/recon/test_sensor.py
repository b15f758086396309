"""Sensor depth seen from a coarser camera."""

import numpy as np

from geo.cameras import PinholeCamera
from recon.sensor import SensorNoise, bin_depth, binned_sensor, sensor_image

FINE = PinholeCamera(64, 48, 80.0, 80.0, 31.5, 23.5)
COARSE = FINE.resized((16, 12))


def test_a_wall_keeps_its_depth_and_noise_does_not_pull_it_nearer():
    """16 samples a pixel, 2 cm of noise: keeping the nearest would read 3.5 cm short."""
    z = 2.0 + 0.02 * np.random.default_rng(0).standard_normal((48, 64))
    binned = bin_depth(z, FINE, COARSE, np.eye(4))
    assert np.isfinite(binned.z_depth_m).all()
    assert abs(np.mean(binned.z_depth_m) - 2.0) < 0.006


def test_a_pixel_with_two_surfaces_is_marked_and_reads_the_nearer():
    z = np.full((48, 64), 2.0)
    z[:, :34] = 1.0  # the step falls inside coarse column 8 (fine columns 32 to 35)
    binned = bin_depth(z, FINE, COARSE, np.eye(4))
    assert binned.mixed[:, 8].all() and not binned.mixed[:, [0, 7, 9, 15]].any()
    np.testing.assert_allclose(binned.z_depth_m[:, 8], 1.0, atol=1e-6)


def test_depth_moves_with_the_camera():
    """Half a metre ahead along +z: 2 m become 1.5 m."""
    to_from_from = np.eye(4)
    to_from_from[2, 3] = -0.5
    binned = bin_depth(np.full((48, 64), 2.0), FINE, COARSE, to_from_from)
    np.testing.assert_allclose(np.nanmedian(binned.z_depth_m), 1.5, atol=1e-6)


def test_no_depth_stays_none():
    assert np.isnan(bin_depth(np.full((48, 64), np.nan), FINE, COARSE, np.eye(4)).z_depth_m).all()


def test_values_outside_the_range_are_none(room):
    """The wall is about 2 m away: a range that ends at 1 m leaves only near floor, or nothing."""
    found = sensor_image(room.canonical, 0, 60.0, (0.15, 1.0))
    assert found is not None
    assert not (found[0] > 1.0).any()


def test_a_frame_without_a_pose_or_without_a_near_image_has_no_sensor_depth(room, without_poses):
    lost = without_poses(room.canonical, [3])
    assert sensor_image(lost, 3, 60.0, (0.1, 8.0)) is None
    assert np.isnan(binned_sensor(lost, 3, COARSE, 60.0, (0.1, 8.0)).z_depth_m).all()


def test_noise_grows_with_the_square_of_depth():
    np.testing.assert_allclose(SensorNoise(0.003, 0.002).sigma_m(np.array([1.0, 2.0])), [0.005, 0.011])
