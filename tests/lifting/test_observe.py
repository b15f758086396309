"""What one frame tells: border pixels, bleeding, hands in front, borders, units."""

import numpy as np
import pytest

from geo.cameras import PinholeCamera
from lifting.config import LiftConfig
from lifting.errors import LiftingError
from lifting.observe import FrameView, observe
from recon.records import RenderedView

CAMERA = PinholeCamera(100, 100, 100.0, 100.0, 49.5, 49.5)
VALID = np.ones((100, 100), bool)


class Provider:
    camera = CAMERA

    def __init__(self, static_z=None):
        self.static_z = static_z
        self.calls = 0

    def sensor(self, frame):
        raise NotImplementedError

    def static(self, frame):
        self.calls += 1
        z = self.static_z.astype(np.float32)
        return RenderedView(np.zeros((100, 100, 3), np.float32), np.ones_like(z), z, z, np.full_like(z, 0.01))


def view_of(z, provider=None, has_sensor=True):
    return FrameView(0, 0.0, CAMERA, np.eye(4), z.astype(np.float32), provider or Provider(), has_sensor)


def square(r0, r1, c0, c1):
    mask = np.zeros((100, 100), bool)
    mask[r0:r1, c0:c1] = True
    return mask


def test_a_flat_square_at_one_metre_is_seen_where_it_is():
    """Rows and columns 40..59 at z = 1, f = 100, c = 49.5: x and y from -0.095 to 0.095, centre on the axis."""
    z = np.full((100, 100), 3.0)
    z[40:60, 40:60] = 1.0
    seen = observe(view_of(z), square(40, 60, 40, 60), VALID, 1, LiftConfig())
    assert seen is not None
    assert np.allclose(seen.center_in_world, [0, 0, 1], atol=1e-6)
    assert np.allclose(np.ptp(seen.points_in_world, axis=0), [0.19, 0.19, 0], atol=1e-5)
    assert seen.mask_pixels == 400 and not seen.truncated


def test_mixed_pixels_on_the_border_are_dropped():
    """A ring of pixels halfway to the background is in the mask; none of its depth is in the observation."""
    z = np.full((100, 100), 3.0)
    z[40:60, 40:60] = 2.0
    z[41:59, 41:59] = 1.0
    seen = observe(view_of(z), square(40, 60, 40, 60), VALID, 1, LiftConfig())
    assert seen is not None and np.allclose(seen.points_in_world[:, 2], 1.0)


def test_background_that_bleeds_in_and_a_hand_in_front_are_dropped():
    z = np.full((100, 100), 1.0)
    z[30:36, 30:70] = 1.6  # background at one side of the mask
    z[60:70, 50:70] = 0.75  # a hand before another part of it
    seen = observe(view_of(z), square(30, 70, 30, 70), VALID, 1, LiftConfig())
    assert seen is not None and np.allclose(seen.points_in_world[:, 2], 1.0)


def test_a_thing_cut_in_two_by_a_finger_keeps_both_halves():
    z = np.full((100, 100), 2.0)
    z[40:60, 30:70] = 1.0
    z[40:60, 47:53] = 0.8
    mask = square(40, 60, 30, 70) & ~square(40, 60, 47, 53)
    seen = observe(view_of(z), mask, VALID, 1, LiftConfig())
    assert seen is not None and np.ptp(seen.points_in_world[:, 0]) > 0.37


def test_a_thin_thing_survives_the_erosion():
    """Two pixels wide: erosion alone would leave nothing."""
    z = np.full((100, 100), 1.03)
    z[20:80, 50:52] = 1.0
    seen = observe(view_of(z), square(20, 80, 50, 52), VALID, 1, LiftConfig())
    assert seen is not None and seen.depth_pixels >= 100 and np.ptp(seen.points_in_world[:, 1]) > 0.58


def test_masks_at_the_border_or_behind_something_are_truncated():
    z = np.full((100, 100), 1.0)
    assert observe(view_of(z), square(0, 30, 40, 60), VALID, 1, LiftConfig()).truncated
    valid = VALID.copy()
    valid[:, :40] = False
    assert observe(view_of(z), square(50, 70, 40, 60), valid, 1, LiftConfig()).truncated
    z[40:60, 60:70] = 0.7
    assert observe(view_of(z), square(40, 60, 40, 60), VALID, 1, LiftConfig()).truncated


def test_no_depth_or_no_mask_is_no_observation():
    z = np.full((100, 100), np.nan)
    assert observe(view_of(z), square(40, 60, 40, 60), VALID, 1, LiftConfig()) is None
    assert observe(view_of(np.ones((100, 100))), square(0, 0, 0, 0), VALID, 1, LiftConfig()) is None


def test_the_static_model_fills_holes_only_where_it_agrees_with_the_sensor():
    sensor = np.full((100, 100), np.nan)
    sensor[40:44, 40:60] = 1.0
    mask = square(40, 60, 40, 60)
    here = Provider(np.full((100, 100), 1.005))
    filled = observe(view_of(sensor, here), mask, VALID, 1, LiftConfig(), with_static=True)
    away = Provider(np.full((100, 100), 1.4))
    bare = observe(view_of(sensor, away), mask, VALID, 1, LiftConfig(), with_static=True)
    assert filled.from_static and filled.depth_pixels > 350
    assert not bare.from_static and bare.depth_pixels <= 80 and np.allclose(bare.points_in_world[:, 2], 1.0)


def test_the_static_model_is_not_rendered_unless_asked_for():
    provider = Provider(np.ones((100, 100)))
    observe(view_of(np.ones((100, 100)), provider), square(40, 60, 40, 60), VALID, 1, LiftConfig())
    assert provider.calls == 0


def test_a_mask_of_another_size_than_the_depth_lands_on_the_same_points():
    """The mask at twice the depth's size: rows 80..119 are depth rows 40..59."""
    z = np.full((100, 100), 1.0)
    mask = np.zeros((200, 200), bool)
    mask[80:120, 80:120] = True
    seen = observe(view_of(z), mask, np.ones((200, 200), bool), 1, LiftConfig())
    assert seen is not None and np.allclose(np.abs(seen.points_in_world[:, :2]).max(axis=0), 0.095, atol=1e-5)
    assert seen.mask_pixels == 1600


def test_the_covariance_is_longest_where_noise_is_largest_and_grows_with_distance():
    near = observe(view_of(np.full((100, 100), 0.6)), square(40, 60, 40, 60), VALID, 1, LiftConfig())
    far = observe(view_of(np.full((100, 100), 2.4)), square(40, 60, 40, 60), VALID, 1, LiftConfig())
    assert (np.linalg.eigvalsh(near.covariance_m2) > 0).all()
    assert np.trace(far.covariance_m2) > 4 * np.trace(near.covariance_m2)


def test_impossible_settings_are_refused():
    with pytest.raises(LiftingError, match="still_fraction"):
        LiftConfig(still_fraction=0.9)
    with pytest.raises(LiftingError, match="voxel_m"):
        LiftConfig(voxel_m=float("nan"))


def test_scaled_settings_keep_their_dimension():
    """One metre is 10 units: lengths x 10, areas x 100, per-metre / 10, shares and seconds unchanged."""
    big = LiftConfig().scaled(10.0)
    small = LiftConfig()
    assert np.isclose(big.voxel_m, 10 * small.voxel_m) and np.isclose(big.rest_speed_m_s, 10 * small.rest_speed_m_s)
    assert np.isclose(big.surface_min_area_m2, 100 * small.surface_min_area_m2)
    assert np.isclose(big.depth_sigma_growth_per_m, small.depth_sigma_growth_per_m / 10)
    assert (big.dwell_s, big.moved_fraction, big.pose_sigma_deg) == (
        small.dwell_s,
        small.moved_fraction,
        small.pose_sigma_deg,
    )
    assert np.isclose(big.depth_noise_m(20.0), 10 * small.depth_noise_m(2.0))
