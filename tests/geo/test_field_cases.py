"""Field problems R1, R3, R4, R8, P3, P4, P5, P6, P11, V1, V2, L2, L3, E4: the whole kind each, not the one example."""

import os
import re
import shutil
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from geo import se3
from geo.cameras import KannalaBrandtCamera, PinholeCamera, camera_from_params
from geo.depth import clean_depth, ray_to_z_depth, unproject
from geo.errors import RecordingError, TimeError
from geo.images import list_images, natural_order
from geo.readers import open_recording
from geo.rectify import RectifyConfig, rectify
from geo.trajectory import Trajectory
from geo.video import VideoFrames, write_video

# --- R: rectification ---------------------------------------------------------------------------------------------


def halved(image: np.ndarray) -> np.ndarray:
    """Mean of 2x2 blocks: what a halved picture is, worked out without any camera."""
    return image.reshape(image.shape[0] // 2, 2, image.shape[1] // 2, 2, -1).mean(axis=(1, 3))


def test_r1_halving_by_camera_is_the_mean_of_two_by_two_blocks():
    """640x480, corner cx = 320 (index 319.5) to 320x240: pixel j samples source index 2 j + 0.5."""
    camera = PinholeCamera(640, 480, 300.0, 300.0, 319.5, 239.5)
    small = camera.resized((320, 240))
    assert (small.fx_px, small.cx_px, small.cy_px) == (150.0, 159.5, 119.5)
    pixels = np.array([[0.0, 0.0], [1.0, 1.0], [159.0, 100.0]])
    np.testing.assert_allclose(camera.project(small.normalised_points(pixels)).pixels_xy, pixels * 2 + 0.5, atol=1e-12)


@pytest.mark.parametrize("size", [(320, 240), (640, 480), (1237, 618), (101, 77)])
def test_r1_any_resize_keeps_the_borders_of_the_image_in_place(size):
    """The image covers [-0.5, W - 0.5] before and after: the two border rays must not move (no half pixel lost)."""
    camera = camera_from_params("KB4", (1237, 640), [500.0, 510.0, 600.0, 300.0, 0.02, -0.004, 0.001, 0.0])
    other = camera.resized(size)
    for before, after in (((-0.5, -0.5), (-0.5, -0.5)), ((1236.5, 639.5), (size[0] - 0.5, size[1] - 0.5))):
        np.testing.assert_allclose(
            other.unproject(np.array(after)).directions, camera.unproject(np.array(before)).directions, atol=1e-12
        )
    assert other.params[0] == pytest.approx(500 * size[0] / 1237)  # the true factor after rounding, not the nominal one


def test_r1_crop_then_resize():
    """x0 = 100, then s = 0.5: index 319.5 -> 219.5 -> 109.5 (corner 320 -> 110)."""
    camera = PinholeCamera(640, 480, 300.0, 300.0, 319.5, 239.5).cropped(100, 0, (440, 480)).resized((220, 240))
    assert camera.cx_px == 109.5


def test_r1_a_rectified_ramp_has_no_half_pixel_shift(make_plain, png_writer):
    """A picture whose grey is 4 u, seen by the same pinhole through a fisheye-free map, stays 4 u."""
    canonical = rectify(
        open_recording(make_plain()), RectifyConfig(width_px=32, height_px=24, view="canonical", pitch_deg=0.0)
    )
    image = canonical.frames.read(0).astype(float)
    rays = canonical.camera.normalised_points(canonical.camera.pixel_grid())
    u = 60 * rays[..., 0] + 31.5
    inside = canonical.valid_mask & (u > 0) & (u < 63)
    assert inside.any()
    assert (
        np.abs(image[..., 0] - u * 255 / 64)[inside].max() < 1.6
    )  # grey levels are whole numbers: one level and a half


def test_r3_rays_at_and_beyond_90_degrees():
    free = camera_from_params("KB4", (640, 480), [300.0, 300.0, 320.0, 240.0, 0.0, 0.0, 0.0, 0.0])
    points = np.array([[1, 0, -0.2], [1, 0, 0], [1, 0, 0.2], [0, 0, -1]], dtype=float)
    projection = free.project(points)
    np.testing.assert_allclose(projection.pixels_xy[:3, 0], [850.4576, 791.2389, 732.0202], atol=1e-3)
    assert projection.valid.tolist() == [True, True, True, False]
    np.testing.assert_allclose(
        free.unproject(np.array([850.4576, 240.0])).directions, [0.98058, 0, -0.19612], atol=1e-4
    )
    limited = camera_from_params("KB4", (640, 480), free.params, np.radians(80))
    assert limited.project(points).valid.tolist() == [False, False, True, False]
    assert not limited.unproject(np.array([850.4576, 240.0])).valid


def test_r4_a_curve_that_turns_back_and_a_valid_radius():
    camera = camera_from_params("KB4", (640, 480), [300.0, 300.0, 320.0, 240.0, -0.3, 0.0, 0.0, 0.0])
    assert np.degrees(camera.max_theta_rad) == pytest.approx(60.39505, abs=1e-4)
    rays = camera.unproject(np.array([[320 + 193.92, 240.0], [320 + 213.0, 240.0]]))
    assert np.arccos(rays.directions[0, 2]) == pytest.approx(0.8, abs=1e-9) and rays.valid.tolist() == [True, False]
    second = np.array([np.sin(1.2891813), 0, np.cos(1.2891813)])
    assert not camera.project(second).valid
    assert int(camera.unproject(camera.pixel_grid()).valid.sum()) == 139_629


def test_r8_the_name_of_the_model_decides():
    numbers = [300.0, 300.0, 320.0, 240.0, -0.05, 0.01, 0.002, -0.001]
    ray = np.array([np.tan(np.radians(30)), 0.1, 1.0])
    np.testing.assert_allclose(
        camera_from_params("OPENCV", (640, 480), numbers).project(ray).pixels_xy, (490.2022, 269.7037), atol=1e-3
    )
    for name in ("KB4", "KB3", "OPENCV_FISHEYE"):
        fisheye = camera_from_params(name, (640, 480), numbers)
        np.testing.assert_allclose(fisheye.project(ray).pixels_xy, (474.6028, 266.7780), atol=1e-3)


# --- P: poses and time ----------------------------------------------------------------------------------------------


def test_p3_interpolation_does_not_care_about_sign_and_length_of_quaternions():
    def quat(degrees):
        half = np.radians(degrees) / 2
        return np.array([np.cos(half), 0, 0, np.sin(half)])

    for factor in (1.0, -1.0, 0.5, -3.0):
        rotations = se3.rotation_from_quat_wxyz(np.stack([quat(10), factor * quat(30)]))
        middle = se3.slerp_rotation(rotations[:1], rotations[1:], np.array([0.5]))[0]
        assert np.degrees(np.arctan2(middle[1, 0], middle[0, 0])) == pytest.approx(20.0)
    assert np.isnan(se3.rotation_from_quat_wxyz(np.array([[0.0, 0, 0, 0], [np.nan, 0, 0, 1]]))).all()


def test_p4_nanoseconds_never_pass_through_floats(plain_folder):
    """Two stamps 100 ns apart beyond 2^53 stay two stamps from the text to the poses."""
    first = 1_718_892_641_002_929_366
    assert float(first) == float(first + 100)  # a float cannot hold them apart
    rows = ["timestamp_ns,tx,ty,tz,qw,qx,qy,qz", f"{first},0,0,0,1,0,0,0", f"{first + 100},1,0,0,1,0,0,0"]
    (plain_folder / "trajectory.csv").write_text("\n".join(rows))
    (plain_folder / "gaze.csv").write_text(f"timestamp_ns,x_px,y_px\n{first + 33},1,1\n")
    recording = open_recording(plain_folder)
    assert recording.trajectory.timestamps_ns.tolist() == [first, first + 100]
    assert recording.gaze is not None and int(recording.gaze.timestamps_ns[0]) == int(Decimal(first + 33))
    pose = recording.trajectory.poses_at(np.array([first + 25], dtype=np.int64))
    assert pose[0, 0, 3] == pytest.approx(0.25)


def test_p5_two_clocks_are_refused_with_both_ranges():
    poses = np.tile(np.eye(4), (2, 1, 1))
    image_ns = np.array([5_000_456_000], dtype=np.int64)
    for stamps in ([5_000_123, 5_001_123], [1_718_892_641_002_929_366, 1_718_892_641_003_929_366]):  # us; UTC
        with pytest.raises(TimeError, match=f"from 5000456000 to 5000456000 ns, poses from {stamps[0]} to"):
            Trajectory.from_rows(np.array(stamps, dtype=np.int64), poses).poses_at(image_ns)


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [3, 0, 4, 2, 1]])
def test_p6_gaps_ends_doubles_and_disorder(order):
    times = np.array([0, 100, 200, 1500, 1600], dtype=np.int64)
    poses = np.tile(np.eye(4), (5, 1, 1))
    poses[:, 0, 3] = times / 1000
    trajectory = Trajectory.from_rows(times[order], poses[order])
    want = {-10: None, 0: 0, 50: 0.05, 150: 0.15, 850: None, 1550: 1.55, 1600: 1.6, 1610: None}
    found = trajectory.poses_at(np.array(list(want), dtype=np.int64), max_gap_ns=300)[:, 0, 3]
    for value, expected in zip(found, want.values(), strict=True):
        assert np.isnan(value) if expected is None else value == pytest.approx(expected)


def test_p6_equal_rows_merge_and_clashing_rows_are_refused():
    stamps = np.array([100, 100, 200], dtype=np.int64)
    poses = np.tile(np.eye(4), (3, 1, 1))
    assert len(Trajectory.from_rows(stamps, poses).timestamps_ns) == 2
    poses[1, 0, 3] = 0.9
    with pytest.raises(TimeError, match="rows 0 and 1 have the same time stamp 100 ns"):
        Trajectory.from_rows(stamps, poses)


def test_p11_up_comes_from_the_recording_not_from_the_axes(make_plain):
    """Gravity 10 degrees off z: A is higher although its z is lower."""
    up = [-np.sin(np.radians(10)), 0.0, np.cos(np.radians(10))]
    world = open_recording(make_plain(lambda m: m["world"].update(up=up))).world
    heights = se3.transform_points(world.world_from_source_world, np.array([[-3.0, 0, 0], [0, 0, 0.3]]))[:, 2]
    np.testing.assert_allclose(heights, [0.520945, 0.295442], atol=1e-6)


# --- V: video ---------------------------------------------------------------------------------------------------------


def with_rotation_tag(path: Path, degrees: int) -> Path:
    """Write the display matrix of a video track by hand (as `ffmpeg -display_rotation` does): 16.16 fixed point."""
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 4 + 40  # version 0: 4 flags, 20 times and ids, 8 reserved, 8 layer and volume
    cos, sin = round(np.cos(np.radians(degrees))), round(np.sin(np.radians(degrees)))
    matrix = [cos, -sin, 0, sin, cos, 0, 0, 0, 1]
    for k, value in enumerate(matrix):
        scale = 1 << 30 if k % 3 == 2 else 1 << 16
        data[at + 4 * k : at + 4 * k + 4] = int(value * scale).to_bytes(4, "big", signed=True)
    out = path.with_name(f"turned{degrees}.mp4")
    out.write_bytes(bytes(data))
    return out


def corner_film(path: Path, size=(64, 48)) -> Path:
    """White in the top left quarter of the stored frame."""
    image = np.zeros((size[1], size[0], 3), np.uint8)
    image[: size[1] // 2, : size[0] // 2] = 255
    write_video(path, [image] * 6, timestamps_ns=np.arange(6, dtype=np.int64) * 100_000_000)
    return path


@pytest.mark.parametrize(
    ("degrees", "size", "bright"),
    [(0, (64, 48), (0, 0)), (90, (48, 64), (1, 0)), (180, (64, 48), (1, 1)), (270, (48, 64), (0, 1))],
)
def test_v1_frames_are_shown_as_the_tag_says(tmp_path, degrees, size, bright):
    """90: turned counter-clockwise, so the top left corner goes to the bottom left."""
    with VideoFrames(with_rotation_tag(corner_film(tmp_path / "a.mp4"), degrees)) as video:
        image = video.read(2)
        assert video.size_wh_px == size and image.shape == (size[1], size[0], 3)
        h, w = size[1] // 2, size[0] // 2
        quarters = [[image[r * h : r * h + h, c * w : c * w + w].mean() for c in (0, 1)] for r in (0, 1)]
        assert np.unravel_index(int(np.argmax(quarters)), (2, 2)) == bright


@pytest.mark.parametrize(("degrees", "text"), [(90, "carries a rotation tag of 90"), (180, "its size does not tell")])
def test_v1_a_calibration_for_the_unturned_frame_is_refused(make_plain, tmp_path, degrees, text):
    turned = with_rotation_tag(corner_film(tmp_path / "a.mp4"), degrees)

    def use_video(m):
        m["cameras"]["eye"].pop("images")
        m["cameras"]["eye"]["video"] = "eye.mp4"

    folder = make_plain(use_video)
    shutil.copy(turned, folder / "eye.mp4")
    with pytest.raises(RecordingError, match=text):
        open_recording(folder)


def test_v1_a_calibration_for_the_shown_frame_is_taken(make_plain, tmp_path):
    turned = with_rotation_tag(corner_film(tmp_path / "a.mp4"), 90)

    def use_video(m):
        m["cameras"]["eye"].pop("images")
        m["cameras"]["eye"].update(video="eye.mp4", width=48, height=64, params=[60, 60, 23.5, 31.5])

    folder = make_plain(use_video)
    shutil.copy(turned, folder / "eye.mp4")
    recording = open_recording(folder)
    assert recording.reference.frames.read(0).shape == (64, 48, 3)
    assert not recording.warnings  # the clocks of video and manifest agree


def test_v2_names_are_ordered_by_their_numbers(tmp_path):
    names = ["frame_10.jpg", "frame_2.jpg", "frame_1.jpg", "._frame_1.jpg", "Thumbs.db", "frame_100.JPG"]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    assert [p.name for p in list_images(tmp_path)] == ["frame_1.jpg", "frame_2.jpg", "frame_10.jpg", "frame_100.JPG"]


@pytest.mark.parametrize(
    "ordered",
    [
        ["1.png", "2.png", "10.png"],
        ["a1b2.png", "a1b10.png", "a02b1.png"],
        ["cam0_9.png", "cam0_10.png", "cam1_1.png"],
        ["img.png", "img1.png"],
        ["x0001.png", "x0010.png", "x10000000000000000000000.png"],
    ],
)
def test_v2_natural_order_does_not_depend_on_the_order_given(ordered):
    rng = np.random.default_rng(0)
    for _ in range(5):
        assert natural_order(list(rng.permutation(ordered))) == ordered


def test_v2_frame_numbers_are_not_positions(make_plain):
    """Images 5 to 10 of a pattern: position 0 is number 5, and a gap among them is an error."""
    folder = make_plain(lambda m: m["cameras"]["eye"].update(first=5))
    for i in reversed(range(6)):
        (folder / "rgb" / f"{i:06d}.png").rename(folder / "rgb" / f"{i + 5:06d}.png")
    frames = open_recording(folder).reference.frames
    assert [frames.read(i)[0, 0, 2] // 20 for i in range(6)] == list(range(6))


# --- L: depth ----------------------------------------------------------------------------------------------------------


def test_l2_the_five_kinds_of_nothing_and_the_unit_that_is_given():
    mm = np.full((3, 5), 1500, np.uint16)
    mm[0, :2] = [0, 65535]
    m = np.full((3, 5), 1.5, np.float32)
    m[0] = [0, np.nan, np.inf, -1, 65.535]
    for raw, unit, valid in ((mm, 0.001, 13), (m, 1.0, 10), (m.astype(np.float64), 1.0, 10)):
        depth = clean_depth(raw, unit)
        assert depth.dtype == np.float32 and int(np.isfinite(depth).sum()) == valid
        assert np.nanmin(depth) == np.nanmax(depth) == 1.5


def test_l2_the_dtype_never_decides_the_unit():
    for dtype in (np.uint16, np.int32, np.float32, np.float64):
        assert clean_depth(np.full((1, 1), 3000, dtype), 0.001)[0, 0] == 3.0
        assert clean_depth(np.full((1, 1), 3, dtype), 1.0)[0, 0] == 3.0
        assert clean_depth(np.full((1, 1), 15000, dtype), 1 / 5000)[0, 0] == 3.0  # TUM RGB-D


@pytest.mark.parametrize(
    "camera",
    [
        PinholeCamera(640, 480, 300.0, 300.0, 319.5, 239.5),
        PinholeCamera(640, 480, 300.0, 280.0, 300.0, 250.0, 4.0),
        KannalaBrandtCamera(640, 480, 200.0, 200.0, 319.5, 239.5, (0.02, -0.004, 0.0, 0.0)),
    ],
)
def test_l3_a_flat_wall_seen_by_distance_is_flat(camera):
    """Wall at z = 2; distances along the rays are 2 / cos. At (619.5, 239.5) of the first camera: 2.828427."""
    cosine = camera.unproject(camera.pixel_grid()).directions[..., 2]
    distance = np.where(cosine > 0.05, 2.0 / cosine, np.nan)
    z = ray_to_z_depth(distance, camera)
    seen = np.isfinite(distance)
    np.testing.assert_allclose(z[seen], 2.0, atol=1e-6)
    np.testing.assert_allclose(unproject(z, camera)[seen][:, 2], 2.0, atol=1e-6)


def test_l3_by_hand():
    """f = 300, 300 px off the axis, 2.828427 m along the ray: z = 2, X = 2 (not 2.828)."""
    camera = PinholeCamera(640, 1, 300.0, 300.0, 319.5, 0.0)
    distance = np.full((1, 640), np.nan)
    distance[0, 619] = 2 * np.sqrt(1 + (299.5 / 300) ** 2)
    point = unproject(ray_to_z_depth(distance, camera), camera)[0, 619]
    np.testing.assert_allclose(point, [2 * 299.5 / 300, 0, 2], atol=1e-12)


# --- E4: paths ----------------------------------------------------------------------------------------------------------


def test_e4_blanks_accents_and_other_scripts_in_paths_change_nothing(plain_folder, rgbd_folder, tmp_path):
    strange = tmp_path / "récé 1" / "茶 x" / "it's $HOME; (1) & 100%"
    for folder in (plain_folder, rgbd_folder):
        copy = strange / folder.name
        shutil.copytree(folder, copy)
        here, there = open_recording(folder), open_recording(copy)
        assert (here.reference.frames.read(2) == there.reference.frames.read(2)).all()
        assert here.depth is not None and there.depth is not None
        np.testing.assert_array_equal(here.depth.frames.read(2), there.depth.frames.read(2))
    gone = strange / "plain" / "rgb" / "000002.png"
    os.remove(gone)
    with pytest.raises(RecordingError, match=re.escape(str(gone))):
        open_recording(strange / "plain")
