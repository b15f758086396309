"""Every camera model over its whole valid region: round trips, slopes, crops and turns, independent formulas.

Independent means: projectaria-tools (FISHEYE624), OpenCV (its own models, in front of the camera), COLMAP's formulas
written out again below in plain Python, the published formulas at 50 digits (mpmath), and a few points by hand.

``EGOSPATIAL_PROPERTY_SEED`` and ``EGOSPATIAL_PROPERTY_FACTOR`` draw other and more random cameras.
"""

import math
import os
from dataclasses import replace

import fuzzing
import numpy as np
import pytest

from geo.cameras import (
    CAMERA_MODELS,
    DoubleSphereCamera,
    EucmCamera,
    Fisheye624Camera,
    FovCamera,
    KannalaBrandtCamera,
    OmniCamera,
    ThinPrismFisheyeCamera,
    camera_from_params,
)
from geo.errors import CameraError

# Project Aria: the RGB and a SLAM camera of the ADT sample, a Quest 3 camera of the HOT3D sample.
ARIA_RGB = [610.9410078676575, 715.1148341104505, 716.7147122529825]
ARIA_RGB += [0.4060356696288849, -0.489948419647729, 0.1745652818132035, 1.132983686620576, -1.701635218233742]
ARIA_RGB += [0.6511555293441647, 0.0006211469747214578, 1.932200015697112e-05, -1.485525650871087e-05]
ARIA_RGB += [0.0002601225712292815, -0.0006582109778598294, 3.761395141407565e-05]
ARIA_SLAM = [241.0924812381835, 316.6383122025797, 237.0248677681421, -0.02556123097687011, 0.09847331936104091]
ARIA_SLAM += [-0.06750086779081803, 0.009484251398731337, 0.002331757393673257, -0.0005746307420191288]
ARIA_SLAM += [0.001146236083742114, -0.001498851487358559, -0.00123337629770084, -0.0001196746852568052]
ARIA_SLAM += [0.002285696451761395, -5.648804313856532e-05]
QUEST = [504.59, 504.59, 638.39, 509.42, 0.04398294, -0.04485986, 0.0161321, -0.01092883, 0.00351282, -0.00052421]
QUEST += [0.00047755, -4.745e-05, 0, 0, 0, 0]
ETH3D = [3411.42, 3410.02, 3041.29, 2014.07, 0.21047, 0.21102, -5.36231e-06, 0.00051541, -0.158023, 0.406856]
ETH3D += [-8.46499e-05, 0.000861313]

CAMERAS = {
    "pinhole": camera_from_params("PINHOLE", (640, 480), [500.0, 510.0, 330.0, 235.0]),
    "pinhole skew": camera_from_params("PINHOLE", (640, 480), [500.0, 510.0, 330.0, 235.0, 3.0]),
    "radtan 4": camera_from_params("OPENCV", (640, 480), [458.7, 457.3, 367.2, 248.4, -0.283, 0.0739, 1.9e-4, 1.8e-5]),
    "radtan 5": camera_from_params(
        "RADTAN", (640, 480), [517.3, 516.5, 318.6, 255.3, 0.262, -0.953, -5e-3, 3e-3, 1.16]
    ),
    "radtan 8": camera_from_params(
        "FULL_OPENCV", (1280, 720), [608.1, 608.0, 642.2, 366.4, 0.47, -2.6, 4e-4, -2e-4, 1.58, 0.35, -2.4, 1.5]
    ),
    "radtan rising": camera_from_params("OPENCV", (640, 480), [400.0, 410.0, 320.0, 240.0, 0.1, 0.02, 1e-3, -2e-3]),
    "radtan turning": camera_from_params("OPENCV", (640, 480), [400.0, 410.0, 320.0, 240.0, -0.3, 0.02, 1e-3, -2e-3]),
    "radtan limited": camera_from_params("OPENCV", (640, 480), [400.0, 410.0, 320.0, 240.0, 0.1, 0.0, 0, 0], 0.8),
    "kb4": camera_from_params("KB4", (512, 512), [190.98, 190.97, 254.93, 256.89, 3.5e-3, 7e-4, -2.1e-3, 2e-4]),
    "kb4 240 degrees": camera_from_params("KB4", (640, 480), [110.0, 112.0, 319.5, 239.5, 0.02, -4e-3, 2e-4, 0.0], 2.1),
    "kb4 turning": camera_from_params("OPENCV_FISHEYE", (640, 480), [300.0, 300.0, 320.0, 240.0, -0.3, 0.0, 0.0, 0.0]),
    "aria rgb": camera_from_params("FISHEYE624", (1408, 1408), ARIA_RGB, valid_radius_px=707.5),
    "aria slam": camera_from_params("FISHEYE624", (640, 480), ARIA_SLAM, 1.4, 330.0),
    "quest": camera_from_params("FISHEYE624", (1280, 1024), QUEST, 2.74),
    "624 bent": camera_from_params(
        "FISHEYE624",
        (640, 480),
        [200.0, 210.0, 320.0, 240.0, *[0.02, -0.01, 0, 0, 0, 0, 0.01, -0.02, 0.02, -3e-3, -0.01, 2e-3]],
    ),
    "thin prism": camera_from_params("THIN_PRISM_FISHEYE", (6048, 4032), ETH3D),
    "thin prism 220 degrees": camera_from_params(
        "THIN_PRISM_FISHEYE",
        (640, 480),
        [120.0, 125.0, 320.0, 240.0, 0.01, -4e-3, 2e-3, -3e-3, 1e-4, 0.0, 4e-3, -2e-3],
        1.92,
    ),
    "fov": camera_from_params("FOV", (640, 480), [345.0, 348.0, 330.1, 243.4, 0.9265]),
    "fov narrow": camera_from_params("FOV", (640, 480), [345.0, 348.0, 330.1, 243.4, 1e-4]),
    "double sphere": camera_from_params("DOUBLE_SPHERE", (512, 512), [158.28, 158.27, 254.96, 256.46, -0.172, 0.593]),
    "double sphere 0.4": camera_from_params("DS", (640, 480), [300.0, 310.0, 320.0, 240.0, 0.2, 0.4]),
    "eucm": camera_from_params("EUCM", (512, 512), [190.9, 190.9, 254.9, 256.9, 0.6291, 1.0418]),
    "eucm 0.45": camera_from_params("EUCM", (640, 480), [300.0, 310.0, 320.0, 240.0, 0.45, 0.8]),
    "omni": camera_from_params("OMNI", (752, 480), [460.0, 461.0, 370.0, 240.0, 0.95, -0.15, 0.02, 1e-3, -5e-4]),
    "omni mirror": camera_from_params("MEI", (1280, 960), [900.0, 905.0, 640.0, 470.0, 1.55, -0.25, 0.08, -1e-3, 2e-3]),
}
each_camera = pytest.mark.parametrize("name", CAMERAS)
WORST: dict[str, dict[str, float]] = {}


_SEEDED = "EGOSPATIAL_PROPERTY_SEED" in os.environ


def random_cameras(family, count, seed=5):
    """Cameras as calibrations give them, over the range of each coefficient that real lenses have."""
    rng = np.random.default_rng([seed, int(os.environ.get("EGOSPATIAL_PROPERTY_SEED", "0"))][: 1 + _SEEDED])
    count *= int(os.environ.get("EGOSPATIAL_PROPERTY_FACTOR", "1"))

    def u(low, high, n=1):
        return rng.uniform(low, high, n).tolist()

    for _ in range(count):
        f, c = u(150, 400, 2), [*u(300, 340), *u(220, 260)]
        theta = float(rng.uniform(0.8, 2.2)) if rng.random() < 0.5 else None
        coefficients = {
            "PINHOLE": lambda: u(-2.0, 2.0),
            "RADTAN": lambda: [*u(-0.4, 0.3), *u(-0.1, 0.2), *u(-3e-3, 3e-3, 2), *u(-0.05, 0.05)],
            "KB4": lambda: [*u(-0.1, 0.1), *u(-0.05, 0.05), *u(-0.01, 0.01), *u(-2e-3, 2e-3)],
            "FISHEYE624": lambda: [
                *u(-0.1, 0.4),
                *u(-0.5, 0.1),
                *u(-0.1, 0.2),
                *u(-0.05, 0.05),
                *u(-0.02, 0.02),
                *u(-5e-3, 5e-3),
                *u(-3e-3, 3e-3, 6),
            ],
            "THIN_PRISM_FISHEYE": lambda: [
                *u(-0.1, 0.2),
                *u(-0.1, 0.2),
                *u(-3e-3, 3e-3, 2),
                *u(-0.1, 0.1),
                *u(-0.02, 0.05),
                *u(-3e-3, 3e-3, 2),
            ],
            "FOV": lambda: u(0.3, 2.0),
            "DOUBLE_SPHERE": lambda: [*u(-0.4, 0.9), *u(0.0, 0.9)],
            "EUCM": lambda: [*u(0.0, 0.9), *u(0.5, 2.0)],
            "OMNI": lambda: [*u(0.0, 2.5), *u(-0.3, 0.3), *u(-0.1, 0.1), *u(-3e-3, 3e-3, 2)],
        }[family]()
        limit = None if family == "PINHOLE" else theta
        yield camera_from_params(family, (640, 480), [*f, *c, *coefficients], limit)


FAMILIES = ["PINHOLE", "RADTAN", "KB4", "FISHEYE624", "THIN_PRISM_FISHEYE", "FOV", "DOUBLE_SPHERE", "EUCM", "OMNI"]
each_family = pytest.mark.parametrize("family", FAMILIES)


def rays_over_the_valid_region(camera, count=1500, seed=1):
    """Unit rays, even in angle up to the limit, with some in a ring just inside it and some near the axis."""
    rng = np.random.default_rng(seed)
    limit = min(camera.max_theta_rad, np.pi - 1e-3)
    theta = rng.uniform(0, limit, count)
    tenth = count // 10
    theta[:tenth] = limit - 10 ** rng.uniform(-5.5, -1, tenth)
    theta[-tenth:] = 10 ** rng.uniform(-12, -2, tenth)
    theta[-1] = 0.0
    phi = rng.uniform(-np.pi, np.pi, count)
    return np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], axis=-1)


def near_the_picture(camera, pixels):
    """Within three picture widths: farther out, a pixel's rounding alone is more than the limits tested here."""
    with np.errstate(invalid="ignore"):
        return (np.abs(pixels - np.array(camera.size_wh_px) / 2) < 3 * max(camera.size_wh_px)).all(axis=-1)


def angle_between(a, b):
    return 2 * np.arcsin(np.minimum(np.linalg.norm(a - b, axis=-1) / 2, 1))


def rounding_rad(camera, ray, pixel_xy):
    """What the last bit of a pixel is worth as an angle: its spacing over the Jacobian's smaller singular value.

    At a usual turning point this passes 3e-10 rad within 1e-6 rad of it. Where two turning points nearly meet (the
    sphere's and the polynomial's of an omni camera), the curve is flat further in, and no arithmetic in float64 does better.
    """
    smallest = np.linalg.svd(camera.jacobian(ray[None]), compute_uv=False)[0, -1]
    return float(np.spacing(np.abs(pixel_xy).max()) / max(smallest, 1e-300))


def test_a_pixels_last_bit_is_worth_3e_10_rad_at_a_millionth_from_a_usual_turning_point():
    camera = camera_from_params("OMNI", (640, 480), [300, 300, 320, 240, 1.4, 0.0, 0.0, 0.0, 0.0], None)
    worth = []
    for away in (1e-5, 1e-6, 1e-7):
        theta = camera.max_theta_rad - away
        ray = np.array([np.sin(theta), 0.0, np.cos(theta)])
        worth.append(rounding_rad(camera, ray, camera.project(ray).pixels_xy))
    assert worth[0] < 1e-10 < worth[1] < 6e-10 < worth[2]


def check_round_trips(camera, name):
    rays = rays_over_the_valid_region(camera)
    scale = np.random.default_rng(2).uniform(0.1, 10, (len(rays), 1))
    projection = camera.project(rays * scale)
    used = projection.valid & near_the_picture(camera, projection.pixels_xy)
    assert used.sum() > len(rays) // 4, name
    back = camera.unproject(projection.pixels_xy[used])
    assert back.valid.all(), (name, (~back.valid).sum())
    ray_errors = angle_between(back.directions, rays[used])
    doubtful = np.flatnonzero(ray_errors > 1e-10)
    pixels = projection.pixels_xy[used]
    at_a_turn = [k for k in doubtful if rounding_rad(camera, rays[used][k], pixels[k]) > 3e-10]
    assert len(at_a_turn) < len(rays) // 20, name
    ray_error = np.delete(ray_errors, at_a_turn).max()

    x, y = np.meshgrid(np.linspace(-0.5, camera.width_px - 0.5, 41), np.linspace(-0.5, camera.height_px - 0.5, 31))
    pixels = np.stack([x, y], axis=-1)
    directions = camera.unproject(pixels)
    assert np.isnan(directions.directions[~directions.valid]).all()
    again = camera.project(directions.directions)
    assert (again.valid == directions.valid).all()
    pixel_error = np.abs(again.pixels_xy - pixels)[again.valid].max(initial=0.0)
    return ray_error, pixel_error


@each_camera
def test_ray_to_pixel_to_ray_and_pixel_to_ray_to_pixel(name):
    ray_error, pixel_error = check_round_trips(CAMERAS[name], name)
    WORST.setdefault(name, {}).update(ray_rad=ray_error, pixel_px=pixel_error)
    assert ray_error <= 1e-9 and pixel_error <= 1e-6


@each_family
def test_round_trips_of_random_calibrations(family):
    worst, count = np.zeros(2), 0
    for camera in random_cameras(family, 25):
        worst = np.maximum(worst, check_round_trips(camera, f"{family} {camera}"))
        count += 1
    WORST.setdefault(f"random {family}", {}).update(ray_rad=worst[0], pixel_px=worst[1])
    fuzzing.report(kind="camera", family=family, cameras=count, ray_rad=float(worst[0]), pixel_px=float(worst[1]))
    assert worst[0] <= 1e-9 and worst[1] <= 1e-6


def check_jacobian(camera):
    rng = np.random.default_rng(3)
    rays = rays_over_the_valid_region(camera, 300)
    inner = np.arctan2(np.hypot(rays[:, 0], rays[:, 1]), rays[:, 2]) < camera.max_theta_rad - 2e-3
    points = (rays * rng.uniform(0.5, 5, (len(rays), 1)))[inner]
    projection = camera.project(points)
    points = points[projection.valid & near_the_picture(camera, projection.pixels_xy)]
    analytic = camera.jacobian(points)
    assert analytic.shape == (len(points), 2, 3)
    step = 1e-5 * np.linalg.norm(points, axis=-1)
    columns = []
    for axis in range(3):
        move = np.zeros((len(points), 3))
        move[:, axis] = step
        # fourth order: a second-order difference is itself no better than 1e-5 near the edge of some lenses
        p = [camera.project(points + k * move).pixels_xy for k in (-2, -1, 1, 2)]
        columns.append((p[0] - 8 * p[1] + 8 * p[2] - p[3]) / (12 * step[:, None]))
    numeric = np.stack(columns, axis=-1)
    usable = np.isfinite(numeric).all(axis=(1, 2))
    assert usable.sum() > 50 and np.isfinite(analytic).all()
    size = np.abs(analytic).max(axis=(1, 2), keepdims=True)
    assert np.abs(np.einsum("nij,nj->ni", analytic, points) / size[..., 0]).max() < 1e-12 * 5  # along the ray: nothing
    return (np.abs(numeric - analytic) / size)[usable].max()


@each_camera
def test_jacobian_is_that_of_finite_differences(name):
    error = check_jacobian(CAMERAS[name])
    WORST.setdefault(name, {}).update(jacobian_rel=error)
    assert error < 1e-5


@each_family
def test_jacobian_of_random_calibrations(family):
    worst = max(check_jacobian(camera) for camera in random_cameras(family, 8, seed=6))
    fuzzing.report(kind="camera", family=family, jacobian_rel=float(worst))
    assert worst < 1e-5


@each_family
def test_crops_sizes_and_turns_of_random_calibrations(family):
    """The three laws at once: a turn, then a crop, then another size; the pixel moves as each of them says."""
    for number, camera in enumerate(random_cameras(family, 8, seed=11)):
        turned, turned_from_camera = camera.rotated90(number % 4)
        changed = turned.cropped(11, -7, (301, 200)).resized((150, 233))
        points = rays_over_the_valid_region(camera, 200) * 2.0
        before, after = camera.project(points), changed.project(points @ turned_from_camera.T)
        u, v = before.pixels_xy.T
        height, width = camera.height_px, camera.width_px
        for _ in range(number % 4):
            u, v, width, height = height - 1 - v, u, height, width
        expected = (np.stack([u - 11, v + 7], axis=-1) + 0.5) * [150 / 301, 233 / 200] - 0.5
        both = before.valid & after.valid & near_the_picture(camera, before.pixels_xy)
        assert (before.valid == after.valid).mean() > 0.98 and both.sum() > 20
        np.testing.assert_allclose(after.pixels_xy[both], expected[both], rtol=0, atol=1e-7)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in ("PINHOLE", "RADTAN", "FOV")])
def test_random_fisheyes_see_beyond_90_degrees_where_their_curve_and_limit_allow(family):
    """A ray within the model's largest angle projects and comes back, also behind the image plane."""
    beyond = 0
    for camera in random_cameras(family, 25, seed=13):
        if camera.max_theta_rad < 1.75:
            continue
        theta = np.linspace(np.pi / 2 + 0.01, min(camera.max_theta_rad, np.pi) - 0.1, 5)
        rays = np.stack([np.sin(theta), np.zeros(5), np.cos(theta)], axis=-1)
        projection = camera.project(rays)
        seen = projection.valid & near_the_picture(camera, projection.pixels_xy)
        back = camera.unproject(projection.pixels_xy[seen])
        assert back.valid.all() and angle_between(back.directions, rays[seen]).max(initial=0.0) <= 1e-9
        beyond += int(seen.sum())
    assert beyond > 0


@each_camera
def test_jacobian_is_nan_where_nothing_projects_and_keeps_the_batch(name):
    camera = CAMERAS[name]
    points = np.array([[[0.0, 0.0, -1.0], [np.nan, 0.0, 1.0]], [[0.0, 0.0, 0.0], [0.1, 0.1, 1.0]]])
    jacobian = camera.jacobian(points)
    assert jacobian.shape == (2, 2, 2, 3) and camera.jacobian(np.zeros((0, 3))).shape == (0, 2, 3)
    assert np.isnan(jacobian[0]).all() and np.isnan(jacobian[1, 0]).all() and np.isfinite(jacobian[1, 1]).all()
    np.testing.assert_array_equal(camera.jacobian(points[1, 1]), jacobian[1, 1])


@each_camera
@pytest.mark.parametrize("turns", [-1, 0, 1, 2, 3, 5])
def test_a_turned_picture_has_a_turned_camera(name, turns):
    """Clockwise once, pixel (u, v) of an image of height H goes to (H - 1 - v, u); the point turns with the camera."""
    camera = CAMERAS[name]
    turned, turned_from_camera = camera.rotated90(turns)
    points = rays_over_the_valid_region(camera, 400) * 3
    projection, in_turned = camera.project(points), turned.project(points @ turned_from_camera.T)
    u, v = projection.pixels_xy.T
    width, height = camera.size_wh_px
    for _ in range(turns % 4):
        u, v, width, height = height - 1 - v, u, height, width
    assert turned.size_wh_px == (width, height)
    assert (in_turned.valid == projection.valid).mean() > 0.995  # at the very limit rounding may decide
    both = in_turned.valid & projection.valid & near_the_picture(camera, projection.pixels_xy)
    np.testing.assert_allclose(in_turned.pixels_xy[both], np.stack([u, v], axis=-1)[both], rtol=0, atol=1e-8)
    np.testing.assert_allclose(turned_from_camera @ turned_from_camera.T, np.eye(3), atol=1e-15)
    assert np.linalg.det(turned_from_camera) == pytest.approx(1)
    if name != "pinhole skew":
        assert set(np.unique(turned_from_camera)) <= {-1.0, 0.0, 1.0}
    again, back = turned.rotated90(-turns)
    np.testing.assert_allclose(again.params, camera.params, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(back @ turned_from_camera, np.eye(3), atol=1e-14)


def test_quarter_turn_by_hand():
    """FIELD R5: (380, 209.5) of a 640x480 picture is (269.5, 380) of the turned one."""
    camera = CAMERAS["pinhole"]
    turned, turned_from_camera = camera.rotated90(1)
    np.testing.assert_array_equal(turned_from_camera, [[0, -1, 0], [1, 0, 0], [0, 0, 1]])
    np.testing.assert_allclose(turned.project(turned_from_camera @ [0.2, -0.1, 2.0]).pixels_xy, [269.5, 380.0])
    picture = np.arange(480 * 640).reshape(480, 640)
    assert np.rot90(picture, -1)[380, 480 - 1 - 209] == picture[209, 380]


@each_camera
def test_crop_and_resize_follow_the_index_rule(name):
    """Crop: p - (x0, y0). Resize: s (p + 0.5) - 0.5 per axis with s = new / old, after rounding."""
    camera = CAMERAS[name]
    points = rays_over_the_valid_region(camera, 300) * 2
    whole = camera.project(points)
    part = camera.cropped(37, -12, (300, 201)).project(points)
    new = (camera.width_px // 2 + 1, camera.height_px // 3)
    small = camera.resized(new).project(points)
    factor = np.array(new) / camera.size_wh_px
    assert (part.valid == whole.valid).all() and (small.valid == whole.valid).all()
    near = whole.valid & near_the_picture(camera, whole.pixels_xy)
    pixels = whole.pixels_xy[near]
    np.testing.assert_allclose(part.pixels_xy[near], pixels - [37, -12], rtol=0, atol=1e-9)
    np.testing.assert_allclose(small.pixels_xy[near], factor * (pixels + 0.5) - 0.5, rtol=0, atol=1e-9)


@each_camera
def test_what_cannot_be_seen_is_nan_and_never_an_exception(name):
    camera = CAMERAS[name]
    bad = [[np.nan, 0, 1], [0, np.inf, 1], [0, 0, np.nan], [-np.inf, 0, np.nan], [0, 0, 0], [0, 0, -1], [0, 0, -np.inf]]
    points = np.array([*bad, [1e-320, 0, -1], [3, 1e-300, -1e300], [1, -1, 5e-324]], dtype=np.float64)
    projection = camera.project(points)
    assert not projection.valid[:-3].any()
    assert (
        np.isnan(projection.pixels_xy[~projection.valid]).all()
        and np.isfinite(projection.pixels_xy[projection.valid]).all()
    )
    pixels = np.array([[np.nan, 5.0], [np.inf, 0.0], [1e300, -1e300], [1e9, 1e9]])
    rays = camera.unproject(pixels)
    assert not rays.valid[:2].any() and np.isnan(rays.directions[~rays.valid]).all()
    assert camera.project(np.zeros((0, 2, 3))).pixels_xy.shape == (0, 2, 2)
    assert camera.unproject(np.zeros((0, 2))).directions.shape == (0, 3)


@each_camera
def test_a_point_has_one_pixel_however_far_it_is(name):
    camera = CAMERAS[name]
    ray = np.array([0.11, -0.07, 0.9])
    pixel = camera.project(ray).pixels_xy
    for size in (1e-150, 1e-8, 1e8, 1e150):
        np.testing.assert_allclose(camera.project(ray * size).pixels_xy, pixel, rtol=1e-13)


@each_camera
def test_the_callers_points_stay_and_the_same_camera_comes_back_from_its_file(name):
    camera = CAMERAS[name]
    points = rays_over_the_valid_region(camera, 20)
    before = points.copy()
    pixels = camera.project(points).pixels_xy
    camera.jacobian(points)
    kept = pixels.copy()
    camera.unproject(pixels)
    np.testing.assert_array_equal(points, before)
    np.testing.assert_array_equal(pixels, kept)
    again = camera_from_params(camera.model, camera.size_wh_px, camera.params, getattr(camera, "valid_theta_rad", None))
    if getattr(camera, "valid_radius", None) is not None:
        again = replace(again, valid_radius=camera.valid_radius)
    assert again == camera and type(again) is type(camera)


# --- the valid region ------------------------------------------------------------------------------------------------


def test_rays_beyond_90_degrees_project_where_the_model_allows():
    """Equidistant, f = 100: 101.3099 degrees are 1.768192 rad, so 176.8192 px (FIELD R3); a limit of 95 refuses them."""
    point = np.array([1.0, 0.0, -0.2])
    flat = [0.0] * 12
    for camera in (
        Fisheye624Camera(640, 480, 100.0, 100.0, 320.0, 240.0, tuple(flat)),
        ThinPrismFisheyeCamera(640, 480, 100.0, 100.0, 320.0, 240.0, tuple(flat[:8])),
        KannalaBrandtCamera(640, 480, 100.0, 100.0, 320.0, 240.0, (0.0,) * 4),
    ):
        np.testing.assert_allclose(camera.project(point).pixels_xy, [320 + 176.8191887, 240], atol=1e-6)
        np.testing.assert_allclose(
            camera.unproject(np.array([320 + 176.8191887, 240])).directions, point / 1.0198039, atol=1e-8
        )
        assert camera.max_theta_rad == np.pi
        assert not replace(camera, valid_theta_rad=math.radians(95)).project(point).valid
    for name in ("double sphere", "eucm", "omni", "omni mirror", "double sphere 0.4"):
        camera = CAMERAS[name]
        assert camera.max_theta_rad > np.pi / 2 and camera.project(np.array([1.0, 0.0, -0.02])).valid, name
    assert not CAMERAS["fov"].project(np.array([1.0, 0.0, 0.0])).valid


@pytest.mark.parametrize("name", ["kb4 turning", "quest", "radtan turning", "624 bent"])
def test_beyond_the_first_turning_point_nothing_projects(name):
    """The radius along one azimuth rises up to the limit, and would fall beyond it (FIELD R4)."""
    camera = replace(CAMERAS[name], valid_theta_rad=None, valid_radius=None)
    assert camera.max_theta_rad < 2.5 and camera.max_theta_rad != np.pi / 2
    theta = camera.max_theta_rad + np.array([-0.15, -0.1, -1e-4, 1e-4, 0.01])
    projection = camera.project(np.stack([np.sin(theta), np.zeros(5), np.cos(theta)], axis=-1))
    inside = projection.pixels_xy[:3, 0]
    assert not projection.valid[3:].any()
    assert projection.valid[:2].all() and (np.diff(inside[np.isfinite(inside)]) > 0).all()


def test_valid_radius_of_the_calibration_is_a_circle_of_pixels():
    camera = CAMERAS["aria rgb"]
    cx, cy = camera.params[2:4]
    angles = np.linspace(0, 2 * np.pi, 50)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    assert camera.unproject([cx, cy] + 707.4 * circle).valid.all()
    assert not camera.unproject([cx, cy] + 707.6 * circle).valid.any()
    half, (turned, _) = camera.resized((704, 704)), camera.rotated90(1)
    assert half.unproject(half.params[2:4] + 353.7 * circle).valid.all()
    assert not half.unproject(half.params[2:4] + 353.8 * circle).valid.any()
    assert turned.unproject(turned.params[2:4] + 707.4 * circle).valid.all()
    free = replace(camera, valid_radius=None)
    outside = free.unproject([cx, cy] + 707.6 * circle)
    assert outside.valid.all() and not camera.project(outside.directions).valid.any()


BENT_OVER = Fisheye624Camera(  # keeps its orientation to 180 degrees, but from 118 on the picture comes back
    640, 480, 294.565, 204.552, 308.317, 226.543,
    (-0.034758, 0.083928, 0.09758, -0.02216, -0.001746, 0.001973,
     -0.00115675, 0.00142291, -0.00142452, 0.00176223, 0.0000999469, 0.000782707),
)  # fmt: skip


@each_family
def test_no_two_valid_rays_share_a_pixel_on_the_way_out(family):
    """Along each azimuth the radius in the picture rises over the whole valid region (small bends included)."""
    theta = np.linspace(0, np.pi, 2001)[1:-1]
    for camera in [*random_cameras(family, 15, seed=9), *([BENT_OVER] if family == "FISHEYE624" else [])]:
        for phi in (0.3, 2.0, 4.4):
            points = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], axis=-1)
            projection = camera.project(points)
            offset = (projection.pixels_xy - camera.params[2:4]) / camera.params[:2]
            out = offset @ [np.cos(phi), np.sin(phi)]
            seen = np.flatnonzero(projection.valid)
            assert len(seen) and (np.diff(seen) == 1).all() and seen[0] == 0
            assert (np.diff(out[seen]) > 0).all()


def test_the_far_side_of_a_fold_never_counts():
    """x + 3 p2 x^2 + p2 y^2 with p2 = -0.5 turns at x = 1/3; beyond x = 1 the orientation is back, the picture a second one."""
    camera = Fisheye624Camera(640, 480, 100.0, 100.0, 320.0, 240.0, (0.0,) * 6 + (-0.5, 0.0, 0.0, 0.0, 0.0, 0.0))
    theta = np.array([0.2, 0.33, 0.34, 0.9, 1.1, 1.6, 2.5])
    projection = camera.project(np.stack([np.sin(theta), np.zeros(7), np.cos(theta)], axis=-1))
    assert projection.valid.tolist() == [True, True, False, False, False, False, False]
    rays = camera.unproject(projection.pixels_xy[:2])
    np.testing.assert_allclose(np.arctan2(rays.directions[:, 0], rays.directions[:, 2]), theta[:2], atol=1e-12)
    top = 100 * (1 / 3 - 0.5 / 3)
    assert camera.unproject(np.array([320 + top - 1e-3, 240])).valid
    assert not camera.unproject(np.array([320 + top + 1e-3, 240])).valid
    rays = rays_over_the_valid_region(camera, 3000)
    seen = camera.project(rays)
    back = camera.unproject(seen.pixels_xy[seen.valid])
    assert back.valid.mean() > 0.97  # a fold as hard as this is no lens; what comes back is right
    assert angle_between(back.directions, rays[seen.valid])[back.valid].max() < 1e-7


@pytest.mark.parametrize(("xi", "alpha"), [(-0.2, 0.6), (0.3, 0.4), (0.8, 0.7), (0.0, 0.5), (1.0, 0.9), (-0.5, 0.1)])
def test_double_sphere_sees_what_the_paper_says(xi, alpha):
    camera = DoubleSphereCamera(640, 480, 100.0, 100.0, 320.0, 240.0, (xi, alpha))
    points = np.random.default_rng(4).normal(size=(3000, 3))
    d1 = np.linalg.norm(points, axis=-1)
    w1 = alpha / (1 - alpha) if alpha <= 0.5 else (1 - alpha) / alpha
    w2 = (w1 + xi) / math.sqrt(2 * w1 * xi + xi * xi + 1)
    valid = camera.project(points).valid
    if xi > -2 * w1:
        assert (valid == (points[:, 2] > -w2 * d1)).all()
    else:  # the paper's region goes too far: beyond, the denominator has changed its sign
        d2 = np.hypot(np.hypot(points[:, 0], points[:, 1]), xi * d1 + points[:, 2])
        assert (valid == (alpha * d2 + (1 - alpha) * (xi * d1 + points[:, 2]) > 0)).all()
        assert (points[:, 2] > -w2 * d1)[valid].all()
    turning = 1 / (2 * alpha - 1) if alpha > 0.5 else math.inf
    radius = np.linspace(0.01, 8, 400)
    rays = camera.unproject(np.stack([320 + 100 * radius, np.full(400, 240.0)], axis=-1))
    assert (radius[rays.valid] ** 2 < turning).all() and (np.diff(rays.valid.astype(int)) <= 0).all()


@pytest.mark.parametrize(("alpha", "beta"), [(0.63, 1.04), (0.3, 2.0), (0.9, 0.5), (0.5, 1.0), (1.0, 1.5), (0.0, 1.0)])
def test_eucm_sees_what_the_paper_says(alpha, beta):
    camera = EucmCamera(640, 480, 100.0, 100.0, 320.0, 240.0, (alpha, beta))
    points = np.random.default_rng(4).normal(size=(3000, 3))
    d = np.sqrt(beta * (points[:, 0] ** 2 + points[:, 1] ** 2) + points[:, 2] ** 2)
    w = alpha / (1 - alpha) if alpha <= 0.5 else (1 - alpha) / alpha
    assert (camera.project(points).valid == (points[:, 2] > -w * d)).all()
    check_pixels(camera, 1 / (beta * (2 * alpha - 1)) if alpha > 0.5 else math.inf)


@pytest.mark.parametrize("xi", [0.0, 0.4, 1.0, 1.8, -0.3])
def test_omni_sees_what_the_sphere_allows(xi):
    camera = OmniCamera(640, 480, 100.0, 100.0, 320.0, 240.0, (xi, 0.0, 0.0, 0.0, 0.0))
    points = np.random.default_rng(4).normal(size=(3000, 3))
    d = np.linalg.norm(points, axis=-1)
    assert (camera.project(points).valid == (points[:, 2] > -(xi if xi <= 1 else 1 / xi) * d)).all()
    check_pixels(camera, 1 / (xi * xi - 1) if xi > 1 else math.inf)


def check_pixels(camera, largest_squared_radius):
    """Pixels have a ray exactly up to the given radius (in focal lengths, squared)."""
    radius = np.linspace(0.01, 8, 400)
    rays = camera.unproject(np.stack([320 + 100 * radius, np.full(400, 240.0)], axis=-1))
    assert (rays.valid == (radius**2 <= largest_squared_radius)).all()


# --- against other people's code and formulas ------------------------------------------------------------------------


@pytest.mark.parametrize("params", [ARIA_RGB, ARIA_SLAM], ids=["rgb", "slam"])
def test_projectaria_tools_agrees(params):
    calibration = pytest.importorskip("projectaria_tools.core.calibration")
    theirs = calibration.CameraProjection(calibration.CameraModelType.FISHEYE624, np.array(params))
    ours = camera_from_params("FISHEYE624", (1408, 1408), params)
    rng = np.random.default_rng(0)
    theta, phi = np.sqrt(rng.uniform(0, 1, 400)) * min(ours.max_theta_rad, 1.4) * 0.98, rng.uniform(-np.pi, np.pi, 400)
    rays = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], axis=-1)
    projection, slopes = ours.project(rays * 2.5), ours.jacobian(rays * 2.5)
    assert projection.valid.all()
    for ray, pixel, slope in zip(rays, projection.pixels_xy, slopes, strict=True):
        jacobian = np.zeros((2, 3), order="F")
        np.testing.assert_allclose(theirs.project(ray * 2.5, jacobian), pixel, rtol=0, atol=1e-6)
        np.testing.assert_allclose(jacobian, slope, rtol=1e-9, atol=1e-7)
    back = ours.unproject(projection.pixels_xy).directions
    np.testing.assert_allclose(back, rays, atol=1e-10)
    for pixel, direction in zip(projection.pixels_xy, back, strict=True):
        ray = theirs.unproject(pixel)
        np.testing.assert_allclose(ray / np.linalg.norm(ray), direction, atol=1e-6)


def test_projectaria_tools_agrees_on_random_calibrations():
    calibration = pytest.importorskip("projectaria_tools.core.calibration")
    compared = 0
    for camera in random_cameras("FISHEYE624", 10, seed=17):
        fx, _, *rest = camera.params
        same = replace(camera, fy_px=fx)  # projectaria's FISHEYE624 has one focal length
        theirs = calibration.CameraProjection(calibration.CameraModelType.FISHEYE624, np.array([fx, *rest]))
        rays = rays_over_the_valid_region(replace(same, valid_theta_rad=min(same.max_theta_rad, 1.3)), 60)
        projection = same.project(rays)
        for ray, pixel in zip(rays[projection.valid], projection.pixels_xy[projection.valid], strict=True):
            if ray[2] > 1e-6:
                np.testing.assert_allclose(theirs.project(ray), pixel, rtol=0, atol=1e-6)
                compared += 1
    assert compared > 300


@pytest.mark.parametrize("family", ["PINHOLE", "RADTAN", "KB4"])
def test_opencv_agrees_on_random_calibrations(family):
    import cv2

    points = np.random.default_rng(8).uniform([-0.4, -0.3, 1], [0.4, 0.3, 2], (100, 3))
    for camera in random_cameras(family, 10, seed=19):
        fx, fy, cx, cy, *rest = camera.params
        k = np.array([[fx, rest[0] if family == "PINHOLE" else 0.0, cx], [0, fy, cy], [0, 0, 1]])
        if family == "PINHOLE":
            pixels = (points @ k.T)[:, :2] / points[:, 2:]
        elif family == "KB4":
            pixels = cv2.fisheye.projectPoints(points[:, None], np.zeros(3), np.zeros(3), k, np.array(rest))[0][:, 0]
        else:
            pixels = cv2.projectPoints(points, np.zeros(3), np.zeros(3), k, np.array(rest))[0][:, 0]
        ours = camera.project(points)
        assert ours.valid.mean() > 0.5
        np.testing.assert_allclose(ours.pixels_xy[ours.valid], pixels[ours.valid], rtol=0, atol=1e-6)


def test_projectaria_tools_turns_a_camera_the_same_way():
    calibration = pytest.importorskip("projectaria_tools.core.calibration")
    sophus = pytest.importorskip("projectaria_tools.core.sophus")
    kind = calibration.CameraModelType.FISHEYE624
    theirs = calibration.CameraCalibration("slam", kind, np.array(ARIA_SLAM), sophus.SE3(), 640, 480, None, 1.5, "0")
    theirs = calibration.rotate_camera_calib_cw90deg(theirs)
    turned, turned_from_camera = camera_from_params("FISHEYE624", (640, 480), ARIA_SLAM).rotated90(1)
    np.testing.assert_allclose(turned.params[1:], theirs.get_projection_params(), rtol=1e-12)
    device_from_turned = theirs.get_transform_device_camera().to_matrix()[:3, :3]
    np.testing.assert_allclose(turned_from_camera.T, device_from_turned, atol=1e-12)


def test_opencv_agrees_where_it_is_right():
    import cv2

    rng = np.random.default_rng(3)
    points = rng.uniform([-0.5, -0.4, 1], [0.5, 0.4, 2], (300, 3))
    for name in ("radtan 4", "radtan 5", "radtan 8", "radtan rising", "kb4", "kb4 240 degrees"):
        camera = CAMERAS[name]
        fx, fy, cx, cy, *distortion = camera.params
        k = np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
        if isinstance(camera, KannalaBrandtCamera):
            pixels, _ = cv2.fisheye.projectPoints(points[:, None], np.zeros(3), np.zeros(3), k, np.array(distortion))
        else:
            pixels, _ = cv2.projectPoints(points, np.zeros(3), np.zeros(3), k, np.array(distortion))
        np.testing.assert_allclose(camera.project(points).pixels_xy, pixels[:, 0], rtol=0, atol=1e-6, err_msg=name)
    if hasattr(cv2, "omnidir"):  # opencv-contrib only
        fx, fy, cx, cy, xi, *distortion = CAMERAS["omni"].params
        k = np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
        pixels, _ = cv2.omnidir.projectPoints(points[:, None], np.zeros(3), np.zeros(3), k, xi, np.array(distortion))
        np.testing.assert_allclose(CAMERAS["omni"].project(points).pixels_xy, pixels[:, 0], rtol=0, atol=1e-6)


def colmap_pixel(model, p, point):
    """COLMAP's documented models in plain Python (index or corner numbers: the formula is the same)."""
    u, v = point[0] / point[2], point[1] / point[2]
    if model == "SIMPLE_PINHOLE":
        return p[0] * u + p[1], p[0] * v + p[2]
    shared = model in ("SIMPLE_RADIAL", "RADIAL", "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE")
    (fx, fy, cx, cy), k = ((p[0], p[0], p[1], p[2]), p[3:]) if shared else (p[:4], p[4:])
    r = math.hypot(u, v)
    if model == "FOV":
        f = math.atan(2 * r * math.tan(k[0] / 2)) / k[0] / r
        return fx * u * f + cx, fy * v * f + cy
    if "FISHEYE" in model:
        u, v = u * math.atan(r) / r, v * math.atan(r) / r
    r2 = u * u + v * v
    if model == "RAD_TAN_THIN_PRISM_FISHEYE":
        g = 1.0
        for power in range(6):
            g += k[power] * r2 ** (power + 1)
        u, v = u * g, v * g
        r2 = u * u + v * v
        du = 2 * k[7] * u * v + k[6] * (r2 + 2 * u * u) + k[8] * r2 + k[9] * r2 * r2
        dv = 2 * k[6] * u * v + k[7] * (r2 + 2 * v * v) + k[10] * r2 + k[11] * r2 * r2
    elif model == "THIN_PRISM_FISHEYE":
        k1, k2, p1, p2, k3, k4, sx, sy = k
        g = k1 * r2 + k2 * r2**2 + k3 * r2**3 + k4 * r2**4
        du = u * g + 2 * p1 * u * v + p2 * (r2 + 2 * u * u) + sx * r2
        dv = v * g + 2 * p2 * u * v + p1 * (r2 + 2 * v * v) + sy * r2
    elif model in ("OPENCV", "FULL_OPENCV"):
        k1, k2, p1, p2, k3, k4, k5, k6 = [*k, 0, 0, 0, 0][:8]
        g = (1 + k1 * r2 + k2 * r2**2 + k3 * r2**3) / (1 + k4 * r2 + k5 * r2**2 + k6 * r2**3) - 1
        du = u * g + 2 * p1 * u * v + p2 * (r2 + 2 * u * u)
        dv = v * g + 2 * p2 * u * v + p1 * (r2 + 2 * v * v)
    else:
        g = sum(kk * r2 ** (i + 1) for i, kk in enumerate(k))
        du, dv = u * g, v * g
    return fx * (u + du) + cx, fy * (v + dv) + cy


@pytest.mark.parametrize(
    ("model", "params"),
    [
        ("SIMPLE_PINHOLE", [500.0, 320.0, 240.0]),
        ("SIMPLE_RADIAL", [500.0, 320.0, 240.0, -0.1]),
        ("RADIAL", [500.0, 320.0, 240.0, -0.1, 0.03]),
        ("OPENCV", [500.0, 510.0, 320.0, 240.0, -0.1, 0.03, 0.002, -0.003]),
        ("FULL_OPENCV", [500.0, 510.0, 320.0, 240.0, -0.1, 0.03, 0.002, -0.003, 0.01, 0.02, -0.01, 0.005]),
        ("SIMPLE_RADIAL_FISHEYE", [300.0, 320.0, 240.0, -0.05]),
        ("RADIAL_FISHEYE", [300.0, 320.0, 240.0, -0.05, 0.01]),
        ("OPENCV_FISHEYE", [300.0, 310.0, 320.0, 240.0, -0.05, 0.01, 0.002, -0.001]),
        ("FOV", [300.0, 310.0, 320.0, 240.0, 0.9]),
        ("THIN_PRISM_FISHEYE", ETH3D),
        ("RAD_TAN_THIN_PRISM_FISHEYE", [ARIA_SLAM[0], *ARIA_SLAM]),
        ("RAD_TAN_THIN_PRISM_FISHEYE", QUEST),
    ],
)
def test_colmap_formulas_agree(model, params):
    camera = camera_from_params(model, (640, 480), params)
    points = np.random.default_rng(7).uniform([-0.9, -0.7, 1], [0.9, 0.7, 2.5], (100, 3))
    projection = camera.project(points)
    assert projection.valid.mean() > 0.9
    for point, pixel in zip(points[projection.valid], projection.pixels_xy[projection.valid], strict=True):
        np.testing.assert_allclose(pixel, colmap_pixel(model, params, point.tolist()), rtol=0, atol=1e-6)


def test_points_worked_out_by_hand():
    """Right triangles with whole sides, so that every root is whole (3-4-5)."""

    def pixel(model, coefficients, point):
        camera = camera_from_params(model, (640, 480), [100.0, 200.0, 320.0, 240.0, *coefficients])
        return (camera.project(np.array(point, dtype=np.float64)).pixels_xy - [320, 240]) / [100, 200]

    # tan(pi / 4) = 1: r = 0.5 gives atan(1) / (pi / 2) = 0.5; r = sqrt(3) / 2 gives (pi / 3) / (pi / 2) = 2 / 3
    np.testing.assert_allclose(pixel("FOV", [np.pi / 2], [0.5, 0, 1]), [0.5, 0], atol=1e-15)
    np.testing.assert_allclose(pixel("FOV", [np.pi / 2], [0, np.sqrt(3), 2]), [0, 2 / 3], atol=1e-15)
    # at 90 degrees: d1 = 4, z + xi d1 = 3, d2 = 5: 4 / (0.6 * 5 + 0.4 * 3) = 20 / 21
    np.testing.assert_allclose(pixel("DS", [0.75, 0.6], [4, 0, 0]), [20 / 21, 0], atol=1e-15)
    # d1 = 5, xi d1 + z = 4, d2 = hypot(3, 4) = 5 with z = 4 and xi = 0: 3 / (0.5 * 5 + 0.5 * 4) = 2 / 3
    np.testing.assert_allclose(pixel("DS", [0.0, 0.5], [0, 3, 4]), [0, 2 / 3], atol=1e-15)
    # d = sqrt(4 * 4 + 9) = 5: 2 / (0.5 * 5 + 0.5 * 3) = 0.5
    np.testing.assert_allclose(pixel("EUCM", [0.5, 4.0], [2, 0, 3]), [0.5, 0], atol=1e-15)
    np.testing.assert_allclose(pixel("EUCM", [0.75, 1.0], [0, 3, -4 / 3 * 0]), [0, 3 / 2.25], atol=1e-15)
    # d = 5, x = 3 / (4 + 0.4 * 5) = 0.5; 0.5 (1 + 0.1 * 0.25) + 0.01 * 3 * 0.25 = 0.52, y: 0.02 * 0.25 = 0.005
    np.testing.assert_allclose(pixel("MEI", [0.4, 0.1, 0.0, 0.02, 0.01], [3, 0, 4]), [0.52, 0.005], atol=1e-15)


def test_published_formulas_at_fifty_digits():
    mp = pytest.importorskip("mpmath").mp
    mp.dps = 50
    f = mp.mpf

    def numbers(values):
        return [f(float(value)) for value in values]

    for name in ("double sphere", "double sphere 0.4", "eucm", "eucm 0.45", "omni", "omni mirror", "fov"):
        camera = CAMERAS[name]
        fx, fy, cx, cy, *k = numbers(camera.params)
        for ray in rays_over_the_valid_region(replace(camera, valid_theta_rad=1.3), 25)[5:]:
            x, y, z = numbers(ray)
            d1 = mp.sqrt(x * x + y * y + z * z)
            if isinstance(camera, DoubleSphereCamera):
                xi, alpha = k
                d2 = mp.sqrt(x * x + y * y + (xi * d1 + z) ** 2)
                q = alpha * d2 + (1 - alpha) * (xi * d1 + z)
                a, b = x / q, y / q
            elif isinstance(camera, EucmCamera):
                alpha, beta = k
                q = alpha * mp.sqrt(beta * (x * x + y * y) + z * z) + (1 - alpha) * z
                a, b = x / q, y / q
            elif isinstance(camera, FovCamera):
                r = mp.sqrt(x * x + y * y) / z
                factor = mp.atan(2 * r * mp.tan(k[0] / 2)) / (k[0] * r) if r else f(1)
                a, b = x / z * factor, y / z * factor
            else:
                xi, k1, k2, p1, p2 = k
                m, n = x / d1 / (z / d1 + xi), y / d1 / (z / d1 + xi)
                s = m * m + n * n
                g = 1 + k1 * s + k2 * s * s
                a = m * g + 2 * p1 * m * n + p2 * (s + 2 * m * m)
                b = n * g + p1 * (s + 2 * n * n) + 2 * p2 * m * n
            expected = np.array([float(fx * a + cx), float(fy * b + cy)])
            np.testing.assert_allclose(camera.project(ray).pixels_xy, expected, rtol=0, atol=1e-11, err_msg=name)


def test_models_meet_where_they_are_the_same():
    points = rays_over_the_valid_region(CAMERAS["radtan rising"], 300)
    a = [300.0, 310.0, 320.0, 240.0]
    radtan = camera_from_params("OPENCV", (640, 480), [*a, -0.2, 0.05, 1e-3, 2e-3])
    omni = camera_from_params("OMNI", (640, 480), [*a, 0.0, -0.2, 0.05, 1e-3, 2e-3])
    np.testing.assert_allclose(radtan.project(points).pixels_xy, omni.project(points).pixels_xy, atol=1e-9)
    sphere = camera_from_params("DS", (640, 480), [*a, 0.0, 0.6])
    eucm = camera_from_params("EUCM", (640, 480), [*a, 0.6, 1.0])
    np.testing.assert_allclose(sphere.project(points).pixels_xy, eucm.project(points).pixels_xy, atol=1e-9)
    kb4 = camera_from_params("KB4", (640, 480), [*a, 0.02, -0.01, 1e-3, -1e-4])
    f624 = camera_from_params("FISHEYE624", (640, 480), [*a, 0.02, -0.01, 1e-3, -1e-4, *[0.0] * 8])
    prism = camera_from_params("THIN_PRISM_FISHEYE", (640, 480), [*a, 0.02, -0.01, 0.0, 0.0, 1e-3, -1e-4, 0.0, 0.0])
    np.testing.assert_allclose(kb4.project(points).pixels_xy, f624.project(points).pixels_xy, atol=1e-9)
    np.testing.assert_allclose(kb4.project(points).pixels_xy, prism.project(points).pixels_xy, atol=1e-9)


@each_camera
def test_the_undistorted_pinhole_keeps_the_scale_of_the_centre(name):
    camera = CAMERAS[name]
    if name.startswith("pinhole"):
        return
    near_axis = np.array([1e-7, 2e-7, 1.0])
    moved = camera.undistorted.project(near_axis).pixels_xy - camera.params[2:4]
    np.testing.assert_allclose(camera.project(near_axis).pixels_xy - camera.params[2:4], moved, rtol=1e-5)


# --- the factory -----------------------------------------------------------------------------------------------------


def test_fisheye624_takes_one_or_two_focal_lengths():
    one = camera_from_params("FISHEYE624", (640, 480), ARIA_SLAM)
    two = camera_from_params("rad_tan_thin_prism_fisheye", (640, 480), [ARIA_SLAM[0], *ARIA_SLAM])
    assert one == two and one.model == "FISHEYE624" and len(one.params) == 16


@pytest.mark.parametrize(
    ("model", "count", "text"),
    [
        (
            "FISHEYE624",
            12,
            r"FISHEYE624 has 15 or 16 parameters .*, got 12: .*fit .*THIN_PRISM_FISHEYE \(fx fy cx cy k1 k2 p1",
        ),
        (
            "FISHEYE624",
            8,
            r"15 or 16 .* got 8: .*OPENCV = RADTAN \(.*KB3 = KB4 = OPENCV_FISHEYE \(fx fy cx cy k1 k2 k3 k4\)",
        ),
        ("RAD_TAN_THIN_PRISM_FISHEYE", 15, "has 16 parameters .* got 15: .* fit FISHEYE624"),
        ("KB4", 15, r"KB4 has 8 parameters .* got 15: .*15 parameters fit FISHEYE624 \(f cu cv"),
        ("KB4", 9, "got 9: .* fit OPENCV = RADTAN .*OMNI = MEI"),
        ("FOV", 6, r"FOV has 5 parameters .* fit DOUBLE_SPHERE = DS \(fx fy cx cy xi alpha\); EUCM"),
        ("EUCM", 5, r"EUCM has 6 parameters \(fx fy cx cy alpha beta\), got 5: .*FOV"),
        ("DS", 7, "DS has 6 parameters .* No model has 7. Known are .*DOUBLE_SPHERE"),
        ("OPENCV", 4, r"fit PINHOLE \(fx fy cx cy \[skew\]\); SIMPLE_RADIAL = SIMPLE_RADIAL_FISHEYE"),
    ],
)
def test_a_wrong_count_names_the_model_and_its_look_alikes(model, count, text):
    with pytest.raises(CameraError, match=text):
        camera_from_params(model, (640, 480), [300.0] * count)


A = [300.0, 300.0, 320.0, 240.0]


@pytest.mark.parametrize(
    ("model", "params", "text"),
    [
        ("DS", [*A, 0.2, 1.3], r"alpha = 1.3 must lie in \[0, 1\]"),
        ("DS", [*A, 1.2, 0.5], r"xi = 1.2 must lie in \(-1, 1\]"),
        ("EUCM", [*A, 0.5, -0.1], "beta = -0.1 must be positive"),
        ("EUCM", [*A, -0.2, 0.6], "alpha = -0.2 must lie"),
        ("OMNI", [*A, -1.0, 0, 0, 0, 0], "xi = -1.0 must lie above -1"),
        ("FOV", [*A, 0.0], "omega = 0.0 must lie .*take PINHOLE"),
        ("FOV", [*A, 60.0], "is it in degrees"),
        ("FISHEYE624", [-300.0, *A[2:], *[0.0] * 12], "positive focal"),
        ("THIN_PRISM_FISHEYE", [*A, *[float("nan")] * 8], "must be finite"),
    ],
)
def test_impossible_values_are_refused(model, params, text):
    with pytest.raises(CameraError, match=text):
        camera_from_params(model, (640, 480), params)


def test_impossible_limits_are_refused():
    with pytest.raises(CameraError, match=r"valid radius -0\.5 must be positive"):
        camera_from_params("KB4", (640, 480), [*A, 0, 0, 0, 0], valid_radius_px=-150.0)
    with pytest.raises(CameraError, match="SIMPLE_PINHOLE has no valid angle or radius"):
        camera_from_params("SIMPLE_PINHOLE", (640, 480), A[1:], valid_radius_px=150.0)
    for kind, count in ((Fisheye624Camera, 12), (ThinPrismFisheyeCamera, 8), (FovCamera, 1), (OmniCamera, 5)):
        with pytest.raises(CameraError, match=f"has {count} coefficients"):
            kind(640, 480, *A, (0.1,) * (count + 1))


def test_every_listed_name_builds_a_camera_of_its_family():
    for name, (_, _, counts) in CAMERA_MODELS.items():
        for count in counts:
            values = [300.0, 300.0, 320.0, 240.0, *[0.01] * 12][:count]
            assert camera_from_params(name, (640, 480), values).size_wh_px == (640, 480)
