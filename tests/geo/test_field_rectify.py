"""Field problems R1, R3, R4, R5, R8 for every camera model and down to the pixels of rectified pictures."""

import itertools

import numpy as np
import pytest

from cuda_kernels.remap import remap_bilinear
from geo import se3
from geo.cameras import CAMERA_MODELS, Camera, PinholeCamera, camera_from_params
from geo.depth_rectify import rectified_depth
from geo.errors import CameraError
from geo.mask_rectify import rectified_mask
from geo.rectify import remap_table
from geo.view import turn_rotation

SIZE = (64, 48)
PERSPECTIVE = {
    "pinhole": camera_from_params("PINHOLE", SIZE, [50.0, 51.0, 31.0, 24.0]),
    "pinhole skew": camera_from_params("PINHOLE", SIZE, [50.0, 51.0, 31.0, 24.0, 2.0]),
    "radtan": camera_from_params("OPENCV", SIZE, [45.0, 46.0, 32.0, 23.0, -0.2, 0.03, 2e-3, -1e-3]),
    "radtan 8": camera_from_params("FULL_OPENCV", SIZE, [45, 46, 32, 23, 0.1, 0.05, 1e-3, -2e-3, 0.01, 0.2, 0.02, 0.0]),
    "fov": camera_from_params("FOV", SIZE, [40.0, 41.0, 32.0, 23.0, 1.0]),
}
WIDE = {  # all of these see beyond 90 degrees
    "kb4": camera_from_params("KB4", SIZE, [20.0, 20.5, 32.0, 23.0, 0.02, -4e-3, 5e-4, 0.0], 2.0),
    "fisheye624": camera_from_params(
        "FISHEYE624", SIZE, [20.0, 32.0, 23.0, 0.02, -5e-3, 0, 0, 0, 0, 2e-3, -2e-3, 1e-3, 0, -1e-3, 0], 1.8
    ),
    "thin prism": camera_from_params(
        "THIN_PRISM_FISHEYE", SIZE, [20.0, 20.5, 32.0, 23.0, 0.01, -4e-3, 1e-3, -1e-3, 0, 0, 1e-3, -1e-3], 1.8
    ),
    "double sphere": camera_from_params("DS", SIZE, [17.0, 17.0, 32.0, 23.0, -0.172, 0.593]),
    "eucm": camera_from_params("EUCM", SIZE, [20.0, 20.0, 32.0, 23.0, 0.6291, 1.0418]),
    "omni": camera_from_params("OMNI", SIZE, [35.0, 35.5, 32.0, 23.0, 1.2, -0.05, 0.01, 1e-3, -5e-4]),
}
CAMERAS: dict[str, Camera] = PERSPECTIVE | WIDE
each_camera = pytest.mark.parametrize("name", CAMERAS)
each_wide = pytest.mark.parametrize("name", WIDE)


def ramps(width=SIZE[0], height=SIZE[1]):
    """Four grey levels a pixel: half a pixel is two of them."""
    v, u = np.mgrid[0:height, 0:width]
    return np.stack([4 * u, 4 * v, 255 - 4 * u], axis=-1).clip(0, 255).astype(np.uint8)


def view_of(camera, width=40, height=30, turn=None):
    """A small view about the camera's axis that stays inside the picture."""
    scale = 1e-3
    axis = camera.project(np.array([[0.0, 0, 1], [scale, 0, 1], [0, scale, 1]])).pixels_xy
    focal = 1.7 * float(np.hypot(*(axis[1] - axis[0]))) / scale
    return PinholeCamera(width, height, focal, focal, (width - 1) / 2, (height - 1) / 2), np.eye(
        3
    ) if turn is None else turn


def shown(picture, camera, target, turn):
    table = remap_table(camera, target, turn)
    return remap_bilinear(np.ascontiguousarray(picture), table).astype(float), table.valid


# --- R1: half a pixel ------------------------------------------------------------------------------------------------


@each_camera
def test_r1_a_halved_picture_with_its_resized_camera_shows_the_same_view(name):
    """Means of 2x2 blocks are what halving does; a half pixel lost would shift the view by two grey levels or four."""
    camera, picture = CAMERAS[name], ramps()
    halved = picture.reshape(24, 2, 32, 2, 3).astype(float).mean(axis=(1, 3)).round().astype(np.uint8)
    target, turn = view_of(camera)
    whole, valid = shown(picture, camera, target, turn)
    half, valid_half = shown(halved, camera.resized((32, 24)), target, turn)
    both = valid & valid_half
    grey = whole[..., :2]
    inner = both & (grey > 12).all(axis=-1) & (grey < 235).all(axis=-1)
    assert both.mean() > 0.9 and inner.mean() > 0.5
    assert np.abs(whole - half)[inner].max() <= 1  # rounding to whole grey levels; half a pixel is two of them
    assert np.abs((whole - half)[inner].mean(axis=0)).max() < 0.3


@each_camera
@pytest.mark.parametrize("corner", [(7, 5), (12, 0), (0, 9)])
def test_r1_a_cropped_picture_with_its_cropped_camera_shows_the_same_view_to_the_bit(name, corner):
    camera, picture = CAMERAS[name], ramps()
    x, y = corner
    target, turn = view_of(camera)
    whole, valid = shown(picture, camera, target, turn)
    part = camera.cropped(x, y, (SIZE[0] - x, SIZE[1] - y))
    cut, valid_cut = shown(picture[y:, x:], part, target, turn)
    # Within the outer half pixel of the cut the border pixel counts: leave that ring out.
    there = part.project(target.normalised_points(target.pixel_grid()) @ turn.T).pixels_xy
    inner = valid & valid_cut & (np.nan_to_num(there, nan=-1) > 0.01).all(axis=-1)
    assert inner.mean() > 0.6
    assert np.abs(whole - cut)[inner].max() <= 1  # fractions of 1/2048 may round to the other side


@each_camera
def test_r1_crop_then_resize_by_odd_factors(name):
    """Index rule written out: p -> p - (x0, y0) -> s (p + 0.5) - 0.5, with s from the sizes after rounding."""
    camera = CAMERAS[name]
    part = camera.cropped(5, 3, (57, 43)).resized((29, 21))
    points = np.array([[0.1, -0.2, 1.0], [-0.3, 0.1, 1.2], [0.0, 0.0, 1.0]])
    pixels = camera.project(points).pixels_xy
    expected = np.array([29 / 57, 21 / 43]) * (pixels - [5, 3] + 0.5) - 0.5
    np.testing.assert_allclose(part.project(points).pixels_xy, expected, atol=1e-10)


@each_camera
def test_r1_masks_and_depth_keep_the_half_pixel_too(name):
    """A mask of the left half and a depth step there: both change at the same column as the picture's own map says."""
    camera = CAMERAS[name]
    target, turn = view_of(camera)
    left = np.zeros(SIZE[::-1], bool)
    left[:, :32] = True
    forward = camera.unproject(camera.pixel_grid()).directions[..., 2]
    depth = np.where(forward > 0.05, np.where(left, 1.0, 3.0), np.nan)

    class One:
        def __len__(self):
            return 1

        def read(self, index):
            return depth

    places = camera.project(target.normalised_points(target.pixel_grid())).pixels_xy
    seen = remap_table(camera, target, turn).valid
    expected = places[..., 0] < 31.5  # the border between pixels 31 and 32
    clear = seen & (np.abs(places[..., 0] - 31.5) > 1e-6)
    assert (rectified_mask(left, camera, target)[clear] == expected[clear]).all()
    z = rectified_depth(One(), camera, target).read(0)
    known = clear & np.isfinite(z)
    assert known.mean() > 0.8 and ((z < 2)[known] == expected[known]).all()


# --- R3: at and beyond 90 degrees ------------------------------------------------------------------------------------


@each_wide
def test_r3_the_radius_grows_through_90_degrees_and_the_side_is_kept(name):
    camera = WIDE[name]
    limit = camera.max_theta_rad
    assert limit > np.radians(95)
    thetas = np.concatenate([np.linspace(np.radians(80), limit - 1e-3, 200), [np.pi / 2]])
    thetas.sort()
    centre = camera.project(np.array([0.0, 0, 1])).pixels_xy
    for azimuth in np.radians([0, 45, 90, 160, 200, 270, 333]):
        side = np.array([np.cos(azimuth), np.sin(azimuth)])
        rays = np.stack([np.sin(thetas) * side[0], np.sin(thetas) * side[1], np.cos(thetas)], axis=-1)
        projection = camera.project(rays)
        assert projection.valid.all()
        out = (projection.pixels_xy - centre) @ side
        assert (np.diff(out) > 0).all() and out[0] > 0  # neither mirrored nor drawn to the centre
        back = camera.unproject(projection.pixels_xy)
        assert back.valid.all()
        np.testing.assert_allclose(back.directions, rays, atol=1e-9)
        assert (back.directions[thetas > np.pi / 2 + 1e-9, 2] < 0).all()


@each_camera
def test_r3_beyond_the_limit_and_straight_back_there_is_no_pixel(name):
    camera = CAMERAS[name]
    rng = np.random.default_rng(0)
    theta = rng.uniform(min(camera.max_theta_rad, np.pi - 0.02) + 1e-3, np.pi, 500)
    phi = rng.uniform(-np.pi, np.pi, 500)
    rays = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], axis=-1)
    assert not camera.project(rays * rng.uniform(0.01, 100, (500, 1))).valid.any()
    assert not camera.project(np.array([0.0, 0, -1])).valid
    if name in PERSPECTIVE:
        assert not camera.project(np.array([[1.0, 0, 0], [0, -1.0, 0], [1, 1, -1e-9]])).valid.any()


@each_wide
def test_r3_a_limit_of_80_degrees_ends_the_lens_there(name):
    wide = WIDE[name]
    camera = camera_from_params(wide.model, SIZE, wide.params, np.radians(80))
    points = np.array([[1, 0, -0.2], [1, 0, 0], [1, 0, 0.2]], dtype=float)  # 101.3, 90 and 78.7 degrees
    assert wide.project(points).valid.tolist() == [True, True, True]
    assert camera.project(points).valid.tolist() == [False, False, True]
    beyond = wide.project(points[0]).pixels_xy
    assert wide.unproject(beyond).valid and not camera.unproject(beyond).valid


# --- R4: the valid region --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "params"),
    [
        ("OPENCV", [30.0, 30.0, 32.0, 24.0, -0.3, 0.0, 0.0, 0.0]),
        ("RADTAN", [30.0, 30.0, 32.0, 24.0, 0.1, -0.2, 1e-3, -1e-3, 0.0]),
        ("KB4", [30.0, 30.0, 32.0, 24.0, -0.3, 0.0, 0.0, 0.0]),
        ("FISHEYE624", [30.0, 32.0, 24.0, -0.3, 0, 0, 0, 0, 0, 1e-3, -1e-3, 0, 0, 0, 0]),
        ("THIN_PRISM_FISHEYE", [30.0, 30.0, 32.0, 24.0, -0.3, 0.0, 1e-3, -1e-3, 0, 0, 1e-3, 0]),
        ("OMNI", [60.0, 60.0, 32.0, 24.0, 0.9, -0.4, 0.0, 1e-3, -1e-3]),
    ],
)
def test_r4_no_pixel_shows_two_directions(model, params):
    """A fine fan of rays, whatever it hits: where two hit the same place, at most one of them is valid."""
    camera = camera_from_params(model, SIZE, params)
    assert camera.max_theta_rad < np.radians(130)
    theta = np.linspace(1e-3, np.pi - 1e-3, 20_000)
    for azimuth in (0.0, 0.7, 2.0, -1.3):
        rays = np.stack([np.sin(theta) * np.cos(azimuth), np.sin(theta) * np.sin(azimuth), np.cos(theta)], axis=-1)
        projection = camera.project(rays)
        count = int(projection.valid.sum())
        assert 1000 < count < 18_000 and projection.valid[:count].all()  # one piece, from the axis outwards
        out = np.hypot(*(projection.pixels_xy[:count] - params_centre(params, model)).T)
        assert (np.diff(out) > 0).all()
    grid = camera.unproject(camera.pixel_grid())
    angle = np.arctan2(np.hypot(grid.directions[..., 0], grid.directions[..., 1]), grid.directions[..., 2])
    assert not grid.valid.all() and angle[grid.valid].max() <= camera.max_theta_rad + 1e-9


def params_centre(params, model):
    return np.array(params[1:3] if model == "FISHEYE624" else params[2:4])


@pytest.mark.parametrize("name", [name for name in CAMERAS if not name.startswith("pinhole")])
def test_r4_the_calibrations_radius_is_kept_by_pixels_views_masks_and_depth(name):
    """A circle of 15 px about the principal point, counted pixel by pixel."""
    whole = CAMERAS[name]
    camera = camera_from_params(
        whole.model, SIZE, whole.params, getattr(whole, "valid_theta_rad", None), valid_radius_px=15.0
    )
    fx, fy, cx, cy = camera.params[:4]
    v, u = np.mgrid[0:48, 0:64]
    circle = np.hypot((u - cx) / fx, (v - cy) / fy) <= 15.0 / fx
    valid = camera.unproject(camera.pixel_grid()).valid
    assert (valid == (circle & whole.unproject(whole.pixel_grid()).valid)).all() and valid.any() and not valid.all()
    target, turn = view_of(camera, 96, 96)
    there = whole.project(target.normalised_points(target.pixel_grid())).pixels_xy
    with np.errstate(invalid="ignore"):
        expected = np.hypot((there[..., 0] - cx) / fx, (there[..., 1] - cy) / fy) <= 15.0 / fx
    image, seen = shown(np.full((48, 64, 3), 200, np.uint8), camera, target, turn)
    assert (seen == expected).all() and 0.1 < seen.mean() < 1
    assert (image[~seen] == 0).all() and (image[seen] == 200).all()
    assert (rectified_mask(np.ones((48, 64), bool), camera, target) == seen).all()


# --- R5: quarter turns -----------------------------------------------------------------------------------------------


@each_camera
@pytest.mark.parametrize("turns", [1, 2, 3, -1])
def test_r5_a_turned_picture_with_its_turned_camera_shows_the_same_view(name, turns):
    """Picture, intrinsics and extrinsics turn together: the view, which hangs on the rig, must not change at all."""
    camera, picture = CAMERAS[name], ramps()
    target, turn = view_of(camera, turn=turn_rotation(-4.0, 6.0, 3.0))
    image, valid = shown(picture, camera, target, turn)
    turned, turned_from_camera = camera.rotated90(turns)
    again, valid_again = shown(np.rot90(picture, -turns), turned, target, turned_from_camera @ turn)
    assert valid.mean() > 0.7 and (valid == valid_again).mean() > 0.999
    both = valid & valid_again
    assert np.abs(image - again)[both].max() <= 1  # fractions of 1/2048 may round to the other side
    labels = np.random.default_rng(0).integers(0, 9, SIZE[::-1])
    here = rectified_mask(labels, camera, target, turn)
    there = rectified_mask(np.rot90(labels, -turns), turned, target, turned_from_camera @ turn)
    assert (here == there).mean() > 0.995


@each_camera
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_r5_a_device_point_keeps_its_place_in_the_turned_picture(name, turns):
    """device_from_turned = device_from_camera @ turned_from_camera^-1; clockwise, (u, v) goes to (H - 1 - v, u)."""
    camera = CAMERAS[name]
    mount = se3.from_rotation_translation(
        se3.rotation_from_axis_angle(np.array([0.3, -0.8, 0.2])), np.array([0.02, -0.05, 0.1])
    )
    turned, turned_from_camera = camera.rotated90(turns)
    turned_mount = mount @ se3.from_rotation_translation(turned_from_camera.T, np.zeros(3))
    in_camera = np.random.default_rng(1).uniform([-0.4, -0.3, 1], [0.4, 0.3, 3], (40, 3))
    in_device = se3.transform_points(mount, in_camera)
    u, v = camera.project(in_camera).pixels_xy.T
    width, height = SIZE
    for _ in range(turns):
        u, v, width, height = height - 1 - v, u, height, width
    found = turned.project(se3.transform_points(se3.inverse(turned_mount), in_device))
    assert turned.size_wh_px == (width, height)
    np.testing.assert_allclose(found.pixels_xy, np.stack([u, v], axis=-1), atol=1e-8)


# --- R8: look-alike lists --------------------------------------------------------------------------------------------

NUMBERS = {
    3: [300.0, 320.0, 240.0],
    4: [300.0, 300.0, 240.0, 0.05],
    5: [300.0, 300.0, 320.0, 240.0, 0.9],
    6: [300.0, 300.0, 320.0, 240.0, 0.3, 0.6],
    8: [300.0, 300.0, 320.0, 240.0, -0.05, 0.01, 0.002, -0.001],
    9: [300.0, 300.0, 320.0, 240.0, 0.05, 0.01, 0.002, -0.001, 0.003],
    12: [300.0, 300.0, 320.0, 240.0, -0.05, 0.01, 0.002, -0.001, 0.001, 0.002, 0.001, 5e-4],
    15: [300.0, 320.0, 240.0, -0.05, 0.01, 0.002, -0.001, 0, 0, 1e-3, 0, 0, 0, 0, 0],
    16: [300.0, 300.0, 320.0, 240.0, -0.05, 0.01, 0.002, -0.001, 0, 0, 1e-3, 0, 0, 0, 0, 0],
}
LOOK_ALIKES = [
    (a, b, count)
    for a, b in itertools.combinations(sorted(CAMERA_MODELS), 2)
    for count in sorted(set(CAMERA_MODELS[a][2]) & set(CAMERA_MODELS[b][2]))
]


def test_r8_there_are_numbers_for_every_count():
    assert {count for _, _, counts in CAMERA_MODELS.values() for count in counts} == set(NUMBERS)
    assert len(LOOK_ALIKES) > 25


@pytest.mark.parametrize(("a", "b", "count"), LOOK_ALIKES)
def test_r8_the_same_numbers_under_two_names(a, b, count):
    """Names of one family: the same pixel. Names of two: another one, by more than five pixels off the centre."""
    rays = np.array([[np.tan(np.radians(30)), 0.1, 1.0], [-0.4, 0.5, 1.0]])
    one, two = (camera_from_params(name, (640, 480), NUMBERS[count]).project(rays).pixels_xy for name in (a, b))
    same_list = (
        CAMERA_MODELS[a][0] == CAMERA_MODELS[b][0]
        and CAMERA_MODELS[a][1].split()[:2] == CAMERA_MODELS[b][1].split()[:2]
    )
    apart = np.hypot(*(one - two).T)
    assert (
        (apart.max() < 1e-9)
        if same_list or {a, b} == {"FISHEYE624", "RAD_TAN_THIN_PRISM_FISHEYE"}
        else (apart.max() > 5)
    )


@pytest.mark.parametrize("name", sorted(CAMERA_MODELS))
def test_r8_another_count_is_refused_for_every_name(name):
    allowed = CAMERA_MODELS[name][2]
    for count in range(1, 18):
        if count in allowed:
            continue
        with pytest.raises(CameraError, match=rf"camera model {name} has .* parameters .*got {count}"):
            camera_from_params(name, (640, 480), [1.0] * count)
    for wrong in (f"{name}_X", name[:-1] + "?", ""):
        with pytest.raises(CameraError, match="unknown camera model"):
            camera_from_params(wrong, (640, 480), NUMBERS[allowed[0]])


def test_r8_skew_is_used_both_ways_and_in_the_view():
    """alpha = 0.01 of f = 300: u gains 3 y; the inverse gives x = 0.57735 back (OpenCV's: 0.57859)."""
    camera = camera_from_params("PINHOLE", (640, 480), [300.0, 300.0, 320.0, 240.0, 3.0])
    x, y = np.tan(np.radians(30)), 0.1
    pixel = camera.project(np.array([x, y, 1.0])).pixels_xy
    np.testing.assert_allclose(pixel, [320 + 300 * x + 3 * y, 270.0], atol=1e-12)
    ray = camera.unproject(pixel).directions
    assert ray[0] / ray[2] == pytest.approx(0.57735, abs=1e-5)
    plain = PinholeCamera(640, 480, 300.0, 300.0, 320.0, 240.0)
    place = plain.project(ray).pixels_xy
    v, u = np.mgrid[0:480, 0:640]
    picture = np.stack([u // 3, v // 2, np.zeros_like(u)], axis=-1).astype(np.uint8)
    table = remap_table(camera, plain, np.eye(3))
    row, column = np.rint(place[::-1]).astype(int)
    expected = camera.project(plain.normalised_points(np.array([float(column), float(row)]))).pixels_xy
    found = remap_bilinear(picture, table)[row, column]
    assert abs(int(found[0]) - expected[0] / 3) <= 1 and abs(int(found[1]) - expected[1] / 2) <= 1
    assert abs(expected[0] - column) > 0.25  # without skew it would have been the same column
