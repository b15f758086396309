"""Fused depth: never the background on something that moves, never a mean of two surfaces, honest about its origin."""

import numpy as np
import pytest

from recon.config import ReconstructConfig
from recon.errors import ReconError
from recon.fuse import DepthConfig, combine, fuse_frames, object_patch
from recon.holes import fill_between
from recon.init import initialise
from recon.model import empty_model
from recon.records import DepthOrigin, DynamicMasks, MovingDepth, ReconReport, Reconstruction
from recon.scene_depth import SceneDepth
from recon.views import load_views

CONFIG = DepthConfig(width_px=96)
NAN = float("nan")


def fuse(static, sensor, dynamic=None, patch=None, sigma=(0.01, 0.01), config=CONFIG):
    """Fuse constant images or arrays of 12x12 pixels."""
    full = lambda value: np.broadcast_to(np.float32(value), (12, 12)).astype(np.float32)  # noqa: E731
    static, sensor = full(static), full(sensor)
    return combine(
        static,
        np.where(np.isfinite(static), np.float32(sigma[0]), np.float32(NAN)),
        sensor,
        np.where(np.isfinite(sensor), np.float32(sigma[1]), np.float32(NAN)),
        np.zeros((12, 12), bool) if dynamic is None else dynamic,
        full(NAN) if patch is None else patch,
        config,
    )


def test_static_and_sensor_that_agree_are_weighted_by_inverse_variance():
    """2.00 m +- 1 cm and 2.02 m +- 2 cm: weights 4 to 1, so 2.004 m; sigma = 1 / sqrt(10000 + 2500) = 8.94 mm."""
    frame = fuse(2.0, 2.02, sigma=(0.01, 0.02))
    np.testing.assert_allclose(frame.z_depth_m, 2.004, atol=1e-4)
    np.testing.assert_allclose(frame.sigma_m, 0.00894, atol=1e-4)
    assert (frame.origin == DepthOrigin.BOTH).all()


def test_one_of_them_alone_is_taken_and_none_is_none():
    assert (fuse(2.0, NAN).origin == DepthOrigin.STATIC).all()
    assert (fuse(NAN, 1.5).origin == DepthOrigin.SENSOR).all()
    nothing = fuse(NAN, NAN)
    assert (nothing.origin == DepthOrigin.NONE).all()
    assert np.isnan(nothing.z_depth_m).all() and np.isnan(nothing.sigma_m).all()


def block(value, background):
    image = np.full((12, 12), background, dtype=np.float32)
    image[3:9, 3:9] = value
    return image


@pytest.mark.parametrize("seen", [1.2, 2.6])
def test_a_region_where_the_sensor_contradicts_the_model_is_the_sensors(seen):
    """Something stands in front, or something that stood there is gone."""
    frame = fuse(2.0, block(seen, 2.0))
    assert (frame.z_depth_m[3:9, 3:9] == np.float32(seen)).all()
    assert (frame.origin[3:9, 3:9] == DepthOrigin.SENSOR).all()
    assert (frame.origin[:2] == DepthOrigin.BOTH).all()


def test_a_hole_on_something_moving_is_filled_only_between_its_own_pixels():
    sensor = block(1.2, 2.0)
    sensor[5:7, 5:7] = NAN  # inside the object: filled
    sensor[3:9, 9] = NAN  # at its edge, background beyond: unknown
    dynamic = np.zeros((12, 12), bool)
    dynamic[2:11, 2:11] = True
    frame = fuse(2.0, sensor, dynamic)
    np.testing.assert_allclose(frame.z_depth_m[5:7, 5:7], 1.2, atol=1e-5)
    assert np.isnan(frame.z_depth_m[3:9, 9]).all()
    assert (frame.origin[3:9, 9] == DepthOrigin.NONE).all()


def test_where_something_moves_unseen_by_the_sensor_there_is_no_depth():
    dynamic = np.zeros((12, 12), bool)
    dynamic[4:8, 4:8] = True
    frame = fuse(2.0, NAN, dynamic)
    assert np.isnan(frame.z_depth_m[4:8, 4:8]).all()
    assert (frame.z_depth_m[:4] == 2.0).all()


def test_the_lifted_object_fills_what_the_sensor_does_not_see_and_yields_where_it_does():
    dynamic = np.ones((12, 12), bool)
    sensor = np.full((12, 12), NAN, dtype=np.float32)
    sensor[:6] = 1.1
    frame = fuse(2.0, sensor, dynamic, patch=np.full((12, 12), 1.2, dtype=np.float32))
    assert (frame.origin[:6] == DepthOrigin.SENSOR).all() and (frame.origin[6:] == DepthOrigin.OBJECT).all()
    np.testing.assert_allclose(frame.z_depth_m[6:], 1.2)


def test_a_line_of_disagreement_is_an_edge_and_the_surer_one_wins_with_the_doubt_kept():
    sensor = np.full((12, 12), 2.0, dtype=np.float32)
    sensor[:, 6] = 3.0
    frame = fuse(2.0, sensor, sigma=(0.01, 0.02))
    assert (frame.z_depth_m[:, 6] == 2.0).all()
    assert (frame.sigma_m[:, 6] == 0.5).all()


def test_holes_are_filled_on_planes_exactly_and_not_across_steps():
    """A slanted plane has inverse depth linear in the pixel: 1 / z = 0.5 + 0.005 u."""
    z = (1 / (0.5 + 0.005 * np.tile(np.arange(10.0), (3, 1)))).astype(np.float32)
    holed = z.copy()
    holed[:, 4:7] = NAN
    on = np.ones(z.shape, bool)
    filled = fill_between(holed, on, np.isnan(holed), 5)
    np.testing.assert_allclose(filled.z_depth_m[:, 4:7], z[:, 4:7], rtol=1e-5)
    assert np.isnan(fill_between(holed, on, np.isnan(holed), 2).z_depth_m).all(), "wider than allowed"
    holed[:, 7:] += 1.0
    assert np.isnan(fill_between(holed, on, np.isnan(holed), 5).z_depth_m).all(), "two surfaces"


@pytest.mark.parametrize("seed", range(20))
def test_filling_in_the_box_of_the_holes_is_filling_in_the_whole_picture(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    dynamic = np.zeros((30, 45), bool)
    for _ in range(3):
        top, left = rng.integers(0, 30), rng.integers(0, 45)
        dynamic[top : top + rng.integers(1, 15), left : left + rng.integers(1, 20)] = True
    sensor = rng.uniform(1.5, 1.6, dynamic.shape).astype(np.float32)
    sensor[rng.random(dynamic.shape) < 0.4] = NAN
    static, none = np.full_like(sensor, 2.0), np.full_like(sensor, NAN)
    config = DepthConfig(hole_px=int(rng.integers(1, 8)))
    boxed = combine(static, static * 0.005, sensor, sensor * 0.005, dynamic, none, config)
    assert (np.isfinite(boxed.z_depth_m) & np.isnan(sensor) & dynamic).any(), "something was filled"
    monkeypatch.setattr("recon.fuse._around", lambda mask, margin_px: (slice(None), slice(None)))
    whole = combine(static, static * 0.005, sensor, sensor * 0.005, dynamic, none, config)
    for name in ("z_depth_m", "sigma_m", "origin"):
        np.testing.assert_array_equal(getattr(boxed, name), getattr(whole, name))


def test_patches_take_the_nearest_and_must_fit_the_image():
    pixels = np.array([[0, 0], [1, 1]])
    moving = MovingDepth(
        np.array([3, 3]), np.array([1, 2]), (pixels, pixels[:1]), (np.float32([1.0, 2.0]), np.float32([0.5]))
    )
    z = object_patch(moving, 3, (4, 4))
    assert z[0, 0] == 0.5 and z[1, 1] == 2.0 and np.isnan(z).sum() == 14
    assert np.isnan(object_patch(moving, 2, (4, 4))).all()
    with pytest.raises(ReconError, match="object 1 in frame 3"):
        object_patch(moving, 3, (1, 1))


REPORT = ReconReport((), (), 0, 0, 0, NAN, NAN, NAN, NAN, 0.0)


@pytest.fixture(scope="module")
def ball_model(ball_scene):
    """The static room, without the ball, from exact masks."""
    dynamic = DynamicMasks(ball_scene.ball)
    config = ReconstructConfig(width_px=96, max_gaussians=4000)
    views = load_views(ball_scene.canonical, range(20), dynamic, config)
    return Reconstruction(initialise(views, config).model, dynamic, REPORT)


def test_every_frame_is_right_on_the_ball_and_on_the_room(ball_scene, ball_model):
    frames = list(fuse_frames(ball_scene.canonical, ball_model, None, CONFIG))
    assert len(frames) == 20
    for index in (5, 10, 14):
        error = np.abs(frames[index].z_depth_m - ball_scene.z_depth_m[index])
        assert np.nanmedian(error) < 0.005
        on_ball = ball_scene.ball[index]
        assert on_ball.sum() > 50
        assert np.nanquantile(error[on_ball], 0.9) < 0.02, "the ball, not the wall behind it"


def test_a_range_gives_the_same_frames_as_the_whole(ball_scene, ball_model):
    whole = list(fuse_frames(ball_scene.canonical, ball_model, None, CONFIG))
    part = list(fuse_frames(ball_scene.canonical, ball_model, None, CONFIG, start=7, stop=9))
    for a, b in zip(whole[7:9], part, strict=True):
        np.testing.assert_array_equal(a.z_depth_m, b.z_depth_m)
        np.testing.assert_array_equal(a.sigma_m, b.sigma_m)
        np.testing.assert_array_equal(a.origin, b.origin)
    with pytest.raises(ReconError, match="20 frames"):
        list(fuse_frames(ball_scene.canonical, ball_model, None, CONFIG, start=19, stop=21))


def test_a_frame_without_a_pose_has_no_depth_at_all(ball_scene, ball_model, without_poses):
    frame = next(fuse_frames(without_poses(ball_scene.canonical, [4]), ball_model, None, CONFIG, start=4))
    assert np.isnan(frame.z_depth_m).all() and not frame.origin.any()


def test_without_a_model_the_sensor_is_left_and_without_a_sensor_the_model(ball_scene, ball_model, scene_of):
    bare = Reconstruction(empty_model(), DynamicMasks(np.zeros((20, 6, 8), bool)), REPORT)
    frame = next(fuse_frames(ball_scene.canonical, bare, None, CONFIG))
    assert set(np.unique(frame.origin)) <= {DepthOrigin.NONE, DepthOrigin.SENSOR}
    assert np.isfinite(frame.z_depth_m).mean() > 0.4
    blind = scene_of(20, ball=True, sensor=False).canonical
    frame = next(fuse_frames(blind, ball_model, None, CONFIG, start=10))
    assert set(np.unique(frame.origin)) <= {DepthOrigin.NONE, DepthOrigin.STATIC}


def test_scene_depth_gives_the_sensor_of_its_moment_and_keeps_few_frames(ball_scene, ball_model):
    scene = SceneDepth(ball_scene.canonical, ball_model, ball_scene.canonical.camera, cache_frames=2)
    assert scene.size == (96, 72)
    sensor = scene.sensor(10)
    seen = np.isfinite(sensor)
    assert np.quantile(np.abs(sensor - ball_scene.z_depth_m[10])[seen], 0.9) < 0.02
    assert scene.sensor(10) is sensor, "cached"
    with pytest.raises(ValueError, match="read-only"):
        sensor[0, 0] = 1
    first = scene.static(0).expected_z_m.copy()
    for frame in (1, 2, 3):
        scene.static(frame)
    np.testing.assert_array_equal(scene.static(0).expected_z_m, first)
    with pytest.raises(ReconError, match="frames 0 to 19"):
        scene.static(20)


def test_scene_depth_without_pose_model_or_sensor_is_none_everywhere(scene_of, without_poses):
    canonical = without_poses(scene_of(4, sensor=False).canonical, [1])
    bare = Reconstruction(empty_model(), DynamicMasks(np.zeros((4, 6, 8), bool)), REPORT)
    scene = SceneDepth(canonical, bare)
    for frame in (0, 1):
        assert np.isnan(scene.static(frame).median_z_m).all() and not scene.static(frame).alpha.any()
        assert np.isnan(scene.sensor(frame)).all()
