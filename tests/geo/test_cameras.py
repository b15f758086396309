"""Camera models: worked-out pixels, round trips over the valid region, limits of the lens."""

import numpy as np
import pytest

from geo.cameras import CAMERA_MODELS, KannalaBrandtCamera, PinholeCamera, RadTanCamera, camera_from_params
from geo.errors import CameraError

KB4 = [200.0, 210.0, 319.5, 239.5, 0.021, -0.0045, 0.0008, -0.0001]
CAMERAS = {
    "pinhole": camera_from_params("PINHOLE", (640, 480), [500.0, 510.0, 330.0, 235.0]),
    "pinhole with skew": camera_from_params("PINHOLE", (640, 480), [500.0, 510.0, 330.0, 235.0, 3.0]),
    "radtan 4": camera_from_params("OPENCV", (640, 480), [400.0, 410.0, 320.0, 240.0, -0.05, 0.01, 0.002, -0.001]),
    "radtan 5": camera_from_params("RADTAN", (640, 480), [400.0, 410.0, 320.0, 240.0, -0.3, 0.1, 1e-3, -2e-3, -0.02]),
    "radtan 8": camera_from_params(
        "FULL_OPENCV", (640, 480), [400.0, 410.0, 320.0, 240.0, 0.3, 0.1, 1e-3, -2e-3, 0.02, 0.5, 0.1, 0.01]
    ),
    "kb4": camera_from_params("KB4", (640, 480), KB4),
    "kb4 beyond 90": camera_from_params("KB4", (640, 480), [150.0, 150.0, 319.5, 239.5, 0.0, 0.0, 0.0, 0.0], 1.75),
    "kb4 turning": camera_from_params("OPENCV_FISHEYE", (640, 480), [300.0, 300.0, 320.0, 240.0, -0.3, 0.0, 0.0, 0.0]),
}
each_camera = pytest.mark.parametrize("name", CAMERAS)


def test_point_on_the_optical_axis_lands_on_the_principal_point():
    for name, camera in CAMERAS.items():
        projection = camera.project(np.array([0.0, 0.0, 2.0]))
        assert projection.valid, name
        np.testing.assert_allclose(projection.pixels_xy, camera.params[2:4], err_msg=name)


def test_pinhole_pixel_by_hand():
    # u = 500 * 0.2 / 2 + 330 = 380, v = 510 * -0.1 / 2 + 235 = 209.5
    np.testing.assert_allclose(CAMERAS["pinhole"].project(np.array([0.2, -0.1, 2.0])).pixels_xy, [380.0, 209.5])


def test_skew_moves_a_pixel_sideways_by_skew_times_y():
    plain, skewed = CAMERAS["pinhole"], CAMERAS["pinhole with skew"]
    point = np.array([0.2, -0.1, 2.0])
    np.testing.assert_allclose(skewed.project(point).pixels_xy - plain.project(point).pixels_xy, [3 * -0.05, 0.0])


@each_camera
def test_pixel_to_ray_and_back_is_the_pixel(name):
    camera = CAMERAS[name]
    grid = camera.pixel_grid()[::7, ::7]
    rays = camera.unproject(grid)
    assert rays.valid.any()
    assert np.isnan(rays.directions[~rays.valid]).all()
    np.testing.assert_allclose(np.linalg.norm(rays.directions[rays.valid], axis=-1), 1.0, atol=1e-14)
    back = camera.project(rays.directions)
    assert (back.valid == rays.valid).all()
    np.testing.assert_allclose(back.pixels_xy[rays.valid], grid[rays.valid], rtol=0, atol=1e-6)


@each_camera
def test_ray_to_pixel_and_back_is_the_ray(name):
    camera = CAMERAS[name]
    rng = np.random.default_rng(1)
    theta = np.sqrt(rng.uniform(0, 1, 2000)) * min(camera.max_theta_rad * 0.999, np.radians(100))
    phi = rng.uniform(-np.pi, np.pi, 2000)
    rays = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], axis=-1)
    projection = camera.project(rays * rng.uniform(0.1, 10, (2000, 1)))
    back = camera.unproject(projection.pixels_xy)
    both = projection.valid & camera.in_image(projection.pixels_xy)
    assert both.sum() > 200 and back.valid[both].all()
    angle = 2 * np.arcsin(np.linalg.norm(back.directions[both] - rays[both], axis=-1) / 2)
    assert angle.max() <= 1e-9


@each_camera
def test_a_batch_gives_what_single_points_give(name):
    camera = CAMERAS[name]
    points = np.random.default_rng(2).normal((0.0, 0.0, 1.5), 1.0, (3, 4, 3))
    whole = camera.project(points)
    for i in range(3):
        for j in range(4):
            single = camera.project(points[i, j])
            assert bool(single.valid) == bool(whole.valid[i, j])
            np.testing.assert_array_equal(single.pixels_xy, whole.pixels_xy[i, j])
    assert camera.project(np.zeros((0, 3))).pixels_xy.shape == (0, 2)
    assert camera.unproject(np.zeros((0, 2))).directions.shape == (0, 3)


@each_camera
def test_nan_and_infinite_points_are_invalid_never_a_pixel(name):
    camera = CAMERAS[name]
    points = np.array([[np.nan, 0, 1], [0, np.inf, 1], [0, 0, np.nan], [0, 0, 0], [0, 0, -1]], dtype=np.float64)
    projection = camera.project(points)
    assert not projection.valid.any() and np.isnan(projection.pixels_xy).all()
    assert not camera.unproject(np.array([[np.nan, 5.0]])).valid.any()


@pytest.mark.parametrize("name", [n for n in CAMERAS if "kb4" not in n])
def test_perspective_cameras_see_nothing_behind_them(name):
    assert not CAMERAS[name].project(np.array([[0.1, 0.2, -1.0], [1.0, 0.0, 0.0]])).valid.any()


@each_camera
def test_resizing_moves_pixels_by_the_index_rule(name):
    """u' = s (u + 0.5) - 0.5 per axis, with s = new / old after rounding; the ray of a pixel stays."""
    camera = CAMERAS[name]
    small = camera.resized((317, 200))
    sx, sy = 317 / 640, 200 / 480
    pixel = np.array([[300.0, 250.0], [333.0, 222.0]])
    moved = (pixel + 0.5) * [sx, sy] - 0.5
    np.testing.assert_allclose(small.unproject(moved).directions, camera.unproject(pixel).directions, atol=1e-12)
    assert small.size_wh_px == (317, 200)


@each_camera
def test_cropping_shifts_pixels(name):
    camera = CAMERAS[name]
    part = camera.cropped(100, 60, (300, 280))
    pixel = np.array([310.0, 230.0])
    np.testing.assert_allclose(part.unproject(pixel - [100, 60]).directions, camera.unproject(pixel).directions)


def test_opencv_agrees_on_its_own_models_in_front_of_the_camera():
    import cv2

    points = np.random.default_rng(3).uniform([-0.5, -0.5, 1], [0.5, 0.5, 2], (200, 3))
    for name in ("radtan 4", "radtan 5", "radtan 8"):
        camera = CAMERAS[name]
        fx, fy, cx, cy = camera.params[:4]
        k = np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
        pixels, _ = cv2.projectPoints(points, np.zeros(3), np.zeros(3), k, camera.params[4:])
        np.testing.assert_allclose(camera.project(points).pixels_xy, pixels[:, 0], atol=1e-6)
    camera = CAMERAS["kb4"]
    fx, fy, cx, cy = camera.params[:4]
    k = np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
    pixels, _ = cv2.fisheye.projectPoints(points[:, None], np.zeros(3), np.zeros(3), k, camera.params[4:])
    np.testing.assert_allclose(camera.project(points).pixels_xy, pixels[:, 0], atol=1e-6)


def test_field_of_view_of_a_pinhole_is_that_of_its_corners():
    # corner (640/2, 480/2) px from the centre: diagonal 400 px at f = 400 is 45 degrees
    camera = PinholeCamera(640, 480, 400.0, 400.0, 319.5, 239.5)
    assert camera.field_of_view_deg() == pytest.approx(90.0)
    assert CAMERAS["kb4 turning"].field_of_view_deg() == pytest.approx(2 * 60.395, abs=2.0)


def test_valid_angle_of_the_calibration_counts_before_the_turning_point():
    free, limited = (
        KannalaBrandtCamera(640, 480, *KB4[:4], tuple(KB4[4:])),
        camera_from_params("KB4", (640, 480), KB4, 0.7),
    )
    ray = np.array([np.sin(0.71), 0.0, np.cos(0.71)])
    assert free.project(ray).valid and not limited.project(ray).valid
    assert limited.project(np.array([np.sin(0.69), 0.0, np.cos(0.69)])).valid


def test_radial_turning_point_of_radtan():
    """r (1 - 0.3 r^2) turns at r = 1 / sqrt(0.9) = 1.0541: beyond it nothing projects, and no pixel has two rays."""
    camera = RadTanCamera(640, 480, 300.0, 300.0, 320.0, 240.0, (-0.3, 0.0, 0.0, 0.0))
    assert camera.project(np.array([1.05, 0.0, 1.0])).valid
    assert not camera.project(np.array([1.06, 0.0, 1.0])).valid
    top = 300 * (1.0540926 - 0.3 * 1.0540926**3)
    assert camera.unproject(np.array([320 + top - 0.01, 240.0])).valid
    assert not camera.unproject(np.array([320 + top + 0.01, 240.0])).valid


@pytest.mark.parametrize(
    ("model", "params", "theta", "text"),
    [
        ("FISHYEYE", [1.0] * 8, None, "unknown camera model 'FISHYEYE'; known are .*KB4.*OPENCV.*PINHOLE"),
        ("KB4", [300.0, 300.0, 1.0, 1.0], None, r"KB4 has 8 parameters \(fx fy cx cy k1 k2 k3 k4\), got 4"),
        ("OPENCV", [300.0] * 7, None, "OPENCV has 8 or 9 or 12 parameters"),
        ("PINHOLE", [300.0, -1.0, 1.0, 1.0], None, "positive focal"),
        ("PINHOLE", [300.0, float("nan"), 1.0, 1.0], None, "must be finite"),
        ("KB4", [300.0] * 8, 88.0, "is it in degrees"),
        ("PINHOLE", [300.0, 300.0, 1.0, 1.0], 1.0, "has no valid angle"),
    ],
)
def test_what_cannot_be_is_refused(model, params, theta, text):
    with pytest.raises(CameraError, match=text):
        camera_from_params(model, (640, 480), params, theta)


def test_impossible_sizes_are_refused():
    with pytest.raises(CameraError, match="image size 0x480"):
        camera_from_params("PINHOLE", (0, 480), [300.0, 300.0, 1.0, 1.0])


def test_stored_name_and_numbers_give_the_same_camera_back():
    for camera in CAMERAS.values():
        theta = getattr(camera, "valid_theta_rad", None)
        assert camera_from_params(camera.model, camera.size_wh_px, camera.params, theta) == camera
    assert set(CAMERA_MODELS) >= {"PINHOLE", "OPENCV", "KB3", "KB4", "OPENCV_FISHEYE"}
