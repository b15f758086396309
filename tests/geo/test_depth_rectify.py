"""Depth and masks of any lens in a pinhole's pixels: walls stay flat, steps stay steps, z and ray are two things."""

import numpy as np
import pytest

from geo.cameras import PinholeCamera, camera_from_params
from geo.depth_rectify import pinhole_for, rectified_depth
from geo.errors import CameraError, GeoError, PoseError, ShapeError
from geo.mask_rectify import mask_rectifier, rectified_mask
from geo.view import turn_rotation

CAMERAS = {
    "pinhole": camera_from_params("PINHOLE", (160, 120), [125.0, 127.0, 81.0, 58.0, 0.7]),
    "radtan": camera_from_params("OPENCV", (160, 120), [115.0, 114.0, 80.0, 61.0, -0.28, 0.07, 2e-4, -1e-4]),
    "kb4": camera_from_params("KB4", (160, 160), [60.0, 60.5, 79.0, 80.0, 0.021, -0.0045, 0.0008, -0.0001], 1.65),
    "fisheye624": camera_from_params(
        "FISHEYE624",
        (160, 120),
        [60.0, 79.2, 59.3, -0.0256, 0.0985, -0.0675, 0.0095, 0.0023, -6e-4, 1e-3, -1.5e-3, -1e-3, -1e-4, 2e-3, -6e-5],
        1.4,
    ),
    "thin prism": camera_from_params(
        "THIN_PRISM_FISHEYE", (160, 120), [60.0, 62.0, 80.0, 60.0, 0.01, -4e-3, 2e-3, -3e-3, 1e-4, 0, 4e-3, -2e-3], 1.5
    ),
    "fov": camera_from_params("FOV", (160, 120), [86.0, 87.0, 82.0, 60.0, 0.9265]),
    "double sphere": camera_from_params("DS", (160, 160), [50.0, 50.0, 79.0, 80.0, -0.172, 0.593]),
    "eucm": camera_from_params("EUCM", (160, 160), [60.0, 60.0, 79.0, 80.0, 0.6291, 1.0418]),
    "omni": camera_from_params("OMNI", (160, 120), [100.0, 101.0, 80.0, 60.0, 0.95, -0.15, 0.02, 1e-3, -5e-4]),
}
KB4 = CAMERAS["kb4"]
each_camera = pytest.mark.parametrize("name", CAMERAS)
# The picture looks straight on, to the side, and to the side and rolled.
TURNS = {"ahead": np.eye(3), "right": turn_rotation(0.0, 35.0, 0.0), "down, rolled": turn_rotation(-20.0, 10.0, 30.0)}
each_turn = pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)


class Images:
    """Depth images held in memory."""

    def __init__(self, *images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def read(self, index):
        return self.images[index]


def distances_to_plane(camera, normal, distance):
    """Distance along each pixel's ray to the plane normal . X = distance; NaN where the ray does not meet it."""
    slope = camera.unproject(camera.pixel_grid()).directions @ np.asarray(normal, float)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(slope > 0.25, distance / slope, np.nan)


def as_kind(ranges, camera, kind):
    forward = camera.unproject(camera.pixel_grid()).directions[..., 2]
    return ranges if kind == "ray" else np.where(forward > 1e-6, ranges * forward, np.nan)


@each_camera
@pytest.mark.parametrize("kind", ["z", "ray"])
@each_turn
def test_a_wall_stays_flat(name, kind, turn):
    """A wall across the axis: every z of the straight view is 2; turned, it is what the plane itself says there."""
    camera = CAMERAS[name]
    normal, away = np.array([0.05, -0.1, 1.0]) / np.linalg.norm([0.05, -0.1, 1.0]), 2.0
    target = PinholeCamera(96, 80, 90.0, 95.0, 47.0, 40.0)
    depth = as_kind(distances_to_plane(camera, normal, away), camera, kind)
    before = depth.copy()
    image = rectified_depth(Images(depth), camera, target, kind, turn).read(0)
    v, u = np.mgrid[0:80, 0:96]
    rays = np.stack([(u - 47.0) / 90.0, (v - 40.0) / 95.0, np.ones_like(u)], axis=-1)
    expected = away / (rays @ turn.T @ normal)
    known = np.isfinite(image)
    assert known.mean() > 0.3
    np.testing.assert_allclose(image[known], expected[known], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(depth, before)
    single = rectified_depth(Images(depth.astype(np.float32)), camera, target, kind, turn).read(0)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single[known], expected[known], rtol=1e-6)


def test_a_straight_wall_is_two_metres_in_every_pixel():
    """FIELD L3: distances of a flat wall at z = 2 make a flat image, whatever the lens."""
    for camera in CAMERAS.values():
        depth = as_kind(distances_to_plane(camera, [0, 0, 1.0], 2.0), camera, "ray")
        image = rectified_depth(Images(depth), camera, pinhole_for(camera, 90.0), "ray").read(0)
        np.testing.assert_allclose(image[np.isfinite(image)], 2.0, rtol=0, atol=1e-6)


def test_one_kind_read_as_the_other_is_another_image():
    """At 45 degrees the two differ by 41 %: nothing hides the difference."""
    depth = as_kind(distances_to_plane(KB4, [0, 0, 1.0], 2.0), KB4, "ray")
    target = PinholeCamera(121, 3, 60.0, 60.0, 60.0, 1.0)
    right = rectified_depth(Images(depth), KB4, target, "ray").read(0)[1]
    wrong = rectified_depth(Images(depth), KB4, target, "z").read(0)[1]
    assert right[60] == pytest.approx(2.0, abs=1e-6) and wrong[60] == pytest.approx(2.0, abs=1e-3)
    assert wrong[0] / right[0] == pytest.approx(np.sqrt(2), abs=1e-3)


@each_camera
@pytest.mark.parametrize("kind", ["z", "ray"])
def test_a_step_stays_a_step_in_its_place(name, kind):
    """Left of the axis 1 m, right of it 3 m: nothing in between, and the edge is off by less than a source pixel."""
    camera = CAMERAS[name]
    rays = camera.unproject(camera.pixel_grid()).directions
    plane = np.where(rays[..., 0] < 0, 1.0, 3.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.where(rays[..., 2] > 0.25, plane, np.nan)
        depth = z if kind == "z" else z / rays[..., 2]
    target = PinholeCamera(200, 150, 160.0, 160.0, 99.5, 74.5)
    image = rectified_depth(Images(depth), camera, target, kind).read(0)
    known = np.isfinite(image)
    assert known.mean() > 0.5
    assert (np.minimum(np.abs(image - 1), np.abs(image - 3))[known] < 1e-6).all()
    v, u = np.nonzero(known)
    here = camera.project(np.stack([(u - 99.5) / 160, (v - 74.5) / 160, np.ones(len(u))], axis=-1)).pixels_xy
    at_edge = camera.project(np.stack([np.zeros(len(u)), (v - 74.5) / 160, np.ones(len(u))], axis=-1)).pixels_xy
    off = np.hypot(*(here - at_edge).T)
    clear = off > 1.0
    assert ((image[v, u] > 2) == (u > 99.5))[clear].all() and clear.mean() > 0.9


def test_a_step_seen_by_a_turned_view_has_no_pixel_between_the_surfaces():
    """Two spheres about the lens at 1 and 3 m: distances stay 1 or 3 whatever the turn (1 % for half a pixel)."""
    turn = TURNS["right"]
    rays = KB4.unproject(KB4.pixel_grid()).directions
    ranges = np.where(np.isnan(rays[..., 0]), np.nan, np.where(rays[..., 0] < 0.4, 1.0, 3.0))
    target = PinholeCamera(120, 120, 60.0, 60.0, 59.5, 59.5)
    image = rectified_depth(Images(ranges), KB4, target, "ray", turn).read(0)
    distance = image * np.linalg.norm(target.normalised_points(target.pixel_grid()), axis=-1)
    known = np.isfinite(distance)
    assert known.mean() > 0.9
    off = np.minimum(np.abs(distance - 1), np.abs(distance - 3) / 3)[known]
    assert off.max() < 0.02 and {1, 3} == set(np.rint(distance[known]).astype(int).tolist())


def test_holes_stay_holes_and_do_not_grow():
    """Nothing (NaN, 0, negative, infinite) is never mixed: target pixels nearest to it are NaN, their neighbours not."""
    depth = np.full((160, 160), 2.0)
    depth[60:64, 70:74] = [[np.nan], [0.0], [-1.0], [np.inf]]
    forward = KB4.unproject(KB4.pixel_grid()).directions[..., 2]
    depth[~(forward > 0.1)] = np.nan
    target = PinholeCamera(160, 160, 60.0, 60.0, 79.0, 80.0)
    image = rectified_depth(Images(depth), KB4, target).read(0)
    nearest = np.floor(KB4.project(target.normalised_points(target.pixel_grid())).pixels_xy + 0.5).astype(int)
    x, y = nearest[..., 0], nearest[..., 1]
    inside = (x >= 0) & (x < 160) & (y >= 0) & (y < 160)
    empty = ~inside
    empty[inside] = ~(np.isfinite(depth) & (depth > 0))[y[inside], x[inside]]
    assert (np.isnan(image) == empty).all() and (empty & inside).sum() > 8
    np.testing.assert_allclose(image[~empty], 2.0, atol=1e-9)


def test_rays_beyond_90_degrees_have_ray_distance_and_no_z():
    """A wall to the right, x = 2, in a view turned right by 90 degrees: 2 everywhere, also where the lens looks back.

    Equidistant, 110 degrees to each side: column 60 + 60 tan(20 deg) of the view is the last one that the lens sees.
    """
    target = PinholeCamera(121, 5, 60.0, 60.0, 60.0, 2.0)
    right = turn_rotation(0.0, 90.0, 0.0)
    wide = camera_from_params("KB4", (241, 241), [60.0, 60.0, 120.0, 120.0, 0.0, 0.0, 0.0, 0.0], np.radians(110))
    depth = distances_to_plane(wide, [1.0, 0, 0], 2.0)
    image = rectified_depth(Images(depth), wide, target, "ray", right).read(0)[2]
    known = np.isfinite(image)
    np.testing.assert_allclose(image[known], 2.0, atol=1e-6)
    columns = np.flatnonzero(known)
    assert columns.max() == 60 + int(60 * np.tan(np.radians(20)))  # 20 degrees past sideways: column 81
    # z along the source's axis can say nothing of them
    z = as_kind(depth, wide, "z")
    image_z = rectified_depth(Images(z), wide, target, "z", right).read(0)[2]
    assert np.isnan(image_z[62:]).all() and np.allclose(image_z[10:55], 2.0, atol=1e-6)


def test_every_image_of_a_source_is_read_when_asked_for():
    class Counting(Images):
        reads = 0

        def read(self, index):
            self.reads += 1
            return super().read(index)

    images = Counting(np.full((160, 160), 1.0), np.full((160, 160), 4.0))
    source = rectified_depth(images, KB4, PinholeCamera(20, 20, 20.0, 20.0, 9.5, 9.5))
    assert len(source) == 2 and images.reads == 0
    np.testing.assert_allclose(source.read(1), 4.0, rtol=1e-12)
    np.testing.assert_allclose(source.read(0), 1.0, rtol=1e-12)
    assert images.reads == 2


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"kind": "disparity"}, GeoError, "must be 'z'"),
        ({"source_from_target": np.diag([1.0, 1.0, -1.0])}, PoseError, "source_from_target is not a rigid"),
        ({"source_from_target": np.eye(3) * 2}, PoseError, "source_from_target"),
        ({"source_from_target": np.full((3, 3), np.nan)}, PoseError, "source_from_target"),
        ({"source_from_target": turn_rotation(0.0, 180.0, 0.0)}, CameraError, "shows nothing of what the KB4"),
    ],
)
def test_what_makes_no_sense_is_refused(change, error, text):
    call = getattr(rectified_depth, "__wrapped__", rectified_depth)  # without the shape checks that tests switch on
    target = PinholeCamera(20, 20, 40.0, 40.0, 9.5, 9.5)
    arguments = {"frames": Images(np.ones((160, 160))), "camera": KB4, "target": target, **change}
    with pytest.raises(error, match=text):
        call(**arguments)


def test_an_image_of_another_size_is_refused_by_its_number():
    source = rectified_depth(
        Images(np.ones((160, 160)), np.ones((80, 160))), KB4, PinholeCamera(9, 9, 9.0, 9.0, 4.0, 4.0)
    )
    with pytest.raises(ShapeError, match=r"depth image 1 has shape \(80, 160\), but its camera is 160x160"):
        source.read(1)


# --- the target ---------------------------------------------------------------------------------------------------


@each_camera
def test_the_chosen_pinhole_keeps_the_density_of_the_centre_and_shows_what_the_lens_sees(name):
    camera = CAMERAS[name]
    pinhole = pinhole_for(camera)
    if isinstance(camera, PinholeCamera):
        assert pinhole is camera
        return
    step = 1e-4
    axis = np.array([[0.0, 0, 1], [step, 0, 1], [0, step, 1]])
    a, b = camera.project(axis).pixels_xy, pinhole.project(axis).pixels_xy
    np.testing.assert_allclose((b[1] - b[0])[0] / (a[1] - a[0])[0], 1, rtol=1e-3)
    np.testing.assert_allclose((b[2] - b[0])[1] / (a[2] - a[0])[1], 1, rtol=1e-3)
    assert pinhole.width_px % 2 == 0 and pinhole.height_px % 2 == 0 and not pinhole.skew_px
    rays = camera.unproject(camera.pixel_grid())
    slopes = np.abs(rays.directions[..., :2] / rays.directions[..., 2:])
    with np.errstate(invalid="ignore"):
        near = rays.valid & (rays.directions[..., 2] > 0) & (slopes <= np.tan(np.radians(55))).all(axis=-1)
    shown = pinhole.project(rays.directions[near])
    assert near.any() and pinhole.in_image(shown.pixels_xy).all()
    # and is no larger than that: its borders are where the lens or the limit ends, to two pixels
    pixels = shown.pixels_xy
    size = np.array(pinhole.size_wh_px)
    slack = np.maximum(pixels.min(axis=0), size - 1 - pixels.max(axis=0))
    assert (slack <= 2 + 0.06 * size).all()


def test_the_limit_on_the_field_of_view():
    for limit in (60.0, 90.0, 120.0):
        pinhole = pinhole_for(KB4, limit)
        assert pinhole.field_of_view_deg() < 2 * np.degrees(np.arctan(np.sqrt(2) * np.tan(np.radians(limit) / 2))) + 2
        assert pinhole.width_px == pytest.approx(2 * 60 * np.tan(np.radians(limit / 2)), abs=2)
    for bad in (0.0, 180.0, -5.0, float("nan")):
        with pytest.raises(GeoError, match="max_fov_deg"):
            pinhole_for(KB4, bad)


def test_a_camera_that_sees_nothing_ahead_has_no_pinhole():
    aside = camera_from_params("KB4", (20, 20), [60.0, 60.0, 200.0, 10.0, 0.0, 0, 0, 0])
    with pytest.raises(CameraError, match="no pixel looks forward"):
        pinhole_for(aside)


# --- masks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
@each_turn
def test_labels_are_those_of_the_nearest_pixel_and_no_other(dtype, turn):
    """Worked out pixel by pixel with plain Python; the largest label of the dtype survives."""
    rng = np.random.default_rng(4)
    top = 1 if dtype == np.bool_ else np.iinfo(dtype).max
    labels = rng.choice(np.array([0, 1, top - 1, top], dtype=np.uint64), (160, 160)).astype(dtype)
    target = PinholeCamera(37, 23, 20.0, 21.0, 18.0, 11.0)
    out = rectified_mask(labels, KB4, target, turn)
    assert out.dtype == labels.dtype and out.shape == (23, 37)
    for v in range(23):
        for u in range(37):
            ray = turn @ np.array([(u - 18.0) / 20.0, (v - 11.0) / 21.0, 1.0])
            x, y = KB4.project(ray).pixels_xy
            seen = -0.5 <= x <= 159.5 and -0.5 <= y <= 159.5
            expected = labels[min(int(np.floor(y + 0.5)), 159), min(int(np.floor(x + 0.5)), 159)] if seen else 0
            assert out[v, u] == expected
    assert set(out.ravel().tolist()) <= set(labels.ravel().tolist()) | {0}


@each_camera
def test_no_lens_makes_a_label(name):
    camera = CAMERAS[name]
    labels = np.random.default_rng(1).choice([3, 200, 77], camera.size_wh_px[::-1]).astype(np.uint8)
    rectifier = mask_rectifier(camera, pinhole_for(camera))
    out = rectifier.rectified(labels, fill=255)
    assert set(np.unique(out)) <= {3, 77, 200, 255}
    assert ((out == 255) == ~rectifier.valid).all() and rectifier.valid.any()


@pytest.mark.parametrize(
    ("mask", "fill", "text"),
    [
        (np.zeros((159, 160), np.uint8), 0, r"mask has shape \(159, 160\), but its camera is 160x160"),
        (np.zeros((160, 160), np.float32), 0, "mask holds float32"),
        (np.zeros((160, 160), np.uint8), 256, "fill = 256 does not fit into uint8"),
        (np.zeros((160, 160), np.uint8), -1, "fill = -1 does not fit into uint8"),
    ],
)
def test_masks_that_do_not_fit_are_refused(mask, fill, text):
    with pytest.raises(ShapeError, match=text):
        rectified_mask(mask, KB4, PinholeCamera(10, 10, 10.0, 10.0, 4.5, 4.5), fill=fill)
