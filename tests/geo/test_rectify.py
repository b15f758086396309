"""The canonical view: which way it looks, where points go, what happens to poses, gaze, hands and gravity."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cuda_kernels.remap_table import remap_bilinear_reference
from geo import se3
from geo.cameras import Camera, KannalaBrandtCamera, PinholeCamera, RadTanCamera
from geo.errors import GeoError, RecordingError, TimeError
from geo.readers import open_recording
from geo.recording import CameraStream, DepthStream, GazeTrack, HandTrack, Recording, with_reference
from geo.rectify import RectifyConfig, canonical_to_source, canonical_view, rectify, source_to_canonical
from geo.trajectory import Trajectory
from geo.world import Gravity, World, rotation_to_z_up

FISHEYE = KannalaBrandtCamera(160, 160, 60.0, 60.0, 79.5, 79.5, (0.021, -0.0045, 0.0008, -0.0001), np.radians(95))
SMALL = RectifyConfig(width_px=192, height_px=192)
STAMPS = np.array([0, 100, 200], dtype=np.int64) * 1_000_000


class Pictures:
    """A source of given images that counts how often it is read."""

    def __init__(self, images):
        self.images, self.reads = images, 0

    def __len__(self):
        return len(self.images)

    def read(self, index):
        self.reads += 1
        return self.images[index]


def scene_image(camera: Camera) -> np.ndarray:
    """What a camera sees of a smooth far scene: colour is a function of the viewing direction alone."""
    rays = camera.unproject(camera.pixel_grid())
    d = np.nan_to_num(rays.directions)
    colour = 127 + 100 * np.stack([np.sin(3 * d[..., 0]), np.sin(3 * d[..., 1]), np.cos(2 * d[..., 0] + d[..., 1])], -1)
    return np.where(rays.valid[..., None], colour, 0).round().astype(np.uint8)


def moving(camera: Camera, **changes) -> Recording:
    poses = np.tile(np.eye(4), (3, 1, 1))
    poses[:, 0, 3] = [0.0, 0.1, 0.2]
    pictures = Pictures([scene_image(camera)] * 3)
    recording = Recording(
        recording_id="r",
        reference=CameraStream("eye", camera, STAMPS, np.eye(4), pictures),
        depth=None,
        trajectory=Trajectory(STAMPS, poses),
        world=World(metric=True, gravity=Gravity.KNOWN),
        source_dir=Path(),
        format_name="made",
    )
    return replace(recording, **changes)


def test_default_view_has_400_px_focal_length_and_104_degrees():
    view = canonical_view(FISHEYE, RectifyConfig())
    assert view.camera == PinholeCamera(1024, 1024, 400.0, 400.0, 511.5, 511.5)
    assert 2 * np.degrees(np.arctan(512 / 400)) == pytest.approx(104, abs=0.1)


@pytest.mark.parametrize(
    ("turn", "forward"),
    [
        ({"pitch_deg": -5.0}, [0, np.sin(np.radians(5)), np.cos(np.radians(5))]),  # +y is down: it looks down
        ({"pitch_deg": 0.0, "yaw_deg": 30.0}, [0.5, 0, np.sqrt(0.75)]),  # to the right
        ({"pitch_deg": 0.0, "roll_deg": 20.0}, [0, 0, 1]),
    ],
)
def test_the_view_looks_where_the_angles_say(turn, forward):
    view = canonical_view(FISHEYE, replace(SMALL, **turn))
    np.testing.assert_allclose(view.source_from_canonical @ [0, 0, 1], forward, atol=1e-12)


def test_roll_turns_the_camera_clockwise():
    view = canonical_view(FISHEYE, replace(SMALL, pitch_deg=0.0, roll_deg=90.0))
    np.testing.assert_allclose(view.source_from_canonical @ [1, 0, 0], [0, 1, 0], atol=1e-12)  # its right is down


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"width_px": 200, "height_px": 120}, (75.0 * 200 / 192, 75.0 * 200 / 192, 99.5, 59.5)),  # focal by the width
        ({"focal_px": 50.0, "height_px": 100}, (50.0, 50.0, 95.5, 49.5)),
        ({"focal_px": 50.0, "fov_deg": 30.0, "zoom": 3.0}, (50.0, 50.0, 95.5, 95.5)),  # instead of them
        ({"fx_fy_cx_cy_px": (60.0, 61.0, 80.0, 90.25)}, (60.0, 61.0, 80.0, 90.25)),
    ],
)
def test_size_focal_length_and_k_can_be_given(settings, expected):
    config = replace(SMALL, **settings)
    view = canonical_view(FISHEYE, config)
    assert view.camera.size_wh_px == (config.width_px, config.height_px)
    np.testing.assert_allclose(view.camera.params, expected, rtol=1e-9)
    np.testing.assert_array_equal(view.source_from_canonical, canonical_view(FISHEYE, SMALL).source_from_canonical)


def test_a_given_k_is_taken_for_a_narrow_lens_too_and_the_turn_with_it():
    """Without it a perspective picture keeps its own view; asked for outright, it is what was asked for."""
    camera = PinholeCamera(64, 48, 60.0, 61.0, 31.0, 24.0)
    config = RectifyConfig(width_px=32, height_px=20, focal_px=30.0, pitch_deg=0.0, yaw_deg=10.0)
    view = canonical_view(camera, config)
    assert view.camera == PinholeCamera(32, 20, 30.0, 30.0, 15.5, 9.5)
    canonical = rectify(moving(camera), config)
    # 10 degrees to the right: the source's own axis is 30 tan 10 = 5.29 px left of the view's centre
    axis = source_to_canonical(canonical, np.array([31.0, 24.0])).pixels_xy
    np.testing.assert_allclose(axis, [15.5 - 30 * np.tan(np.radians(10)), 9.5], atol=1e-9)
    assert canonical_view(camera, RectifyConfig()).camera == camera


def test_another_camera_of_the_rig_is_rectified_with_its_own_pose():
    camera = PinholeCamera(64, 48, 60.0, 61.0, 31.0, 24.0)
    aside = se3.from_rotation_translation(
        se3.rotation_from_axis_angle(np.array([0.0, np.pi / 2, 0.0])), np.array([0.1, 0.0, 0.0])
    )
    other = CameraStream("side", FISHEYE, STAMPS, aside, Pictures([scene_image(FISHEYE)] * 3))
    recording = moving(camera, others=(other,))
    assert rectify(recording).camera == camera
    canonical = rectify(with_reference(recording, "side"), replace(SMALL, pitch_deg=0.0))
    assert canonical.source_camera == FISHEYE
    np.testing.assert_allclose(canonical.world_from_camera[2, :3, 3], [0.3, 0, 0], atol=1e-12)
    np.testing.assert_allclose(canonical.world_from_camera[2, :3, 2], [1, 0, 0], atol=1e-12)  # it looks to the right
    with pytest.raises(RecordingError, match=r"no camera 'top'; its cameras are eye, side"):
        with_reference(recording, "top")


def test_the_picture_is_what_the_canonical_camera_would_have_seen():
    """The scene's colour depends on the direction alone, so the right picture is known without any remapping."""
    canonical = rectify(moving(FISHEYE), SMALL)
    directions = canonical.camera.unproject(canonical.camera.pixel_grid()).directions @ canonical.canonical_from_source
    d = directions
    colour = 127 + 100 * np.stack([np.sin(3 * d[..., 0]), np.sin(3 * d[..., 1]), np.cos(2 * d[..., 0] + d[..., 1])], -1)
    inner = canonical.valid_mask
    assert inner.mean() > 0.9
    error = np.abs(canonical.frames.read(1).astype(float) - colour)[inner]
    assert np.percentile(error, 99) < 2.0 and np.median(error) < 0.6


def test_within_one_grey_level_of_a_float64_reference():
    recording = moving(FISHEYE)
    canonical = rectify(recording, SMALL)
    back = canonical_to_source(canonical, canonical.camera.pixel_grid())
    valid = back.valid & FISHEYE.in_image(back.pixels_xy)
    reference = remap_bilinear_reference(recording.reference.frames.read(0), back.pixels_xy, valid)
    assert (canonical.valid_mask == valid).all()
    assert np.abs(canonical.frames.read(0) - reference).max() < 1.0


def test_the_mask_is_false_where_the_lens_does_not_see():
    narrow = replace(FISHEYE, valid_theta_rad=np.radians(40))
    canonical = rectify(moving(narrow), replace(SMALL, view="canonical"))
    theta = np.arccos(
        canonical.camera.unproject(canonical.camera.pixel_grid()).directions @ canonical.canonical_from_source[:, 2]
    )
    assert (canonical.valid_mask == (theta <= np.radians(40))).mean() > 0.999
    assert (canonical.frames.read(0)[~canonical.valid_mask] == 0).all()


def test_points_go_to_the_canonical_view_and_back():
    canonical = rectify(moving(FISHEYE), SMALL)
    points = np.random.default_rng(0).uniform(30, 130, (50, 2))
    there = source_to_canonical(canonical, points)
    assert there.valid.all()
    np.testing.assert_allclose(canonical_to_source(canonical, there.pixels_xy).pixels_xy, points, atol=1e-6)


def test_points_behind_the_view_or_outside_the_lens_are_invalid():
    canonical = rectify(moving(FISHEYE), SMALL)
    centre_and_rim = np.array([[79.5, 79.5], [79.5, -15.0], [1000.0, 0.0]])  # -15: 94.5 px = 94 degrees up
    assert source_to_canonical(canonical, centre_and_rim).valid.tolist() == [True, False, False]


def test_canonical_pose_keeps_world_points_in_place():
    """A world point projected through the source camera lands on the pixel that the canonical camera gives it."""
    canonical = rectify(moving(FISHEYE), SMALL)
    point = np.array([0.3, 0.2, 2.0])
    for i, x in enumerate([0.0, 0.1, 0.2]):
        seen = canonical.camera.project(se3.transform_points(se3.inverse(canonical.world_from_camera[i]), point))
        in_source = FISHEYE.project(point - [x, 0, 0])
        np.testing.assert_allclose(
            source_to_canonical(canonical, in_source.pixels_xy).pixels_xy, seen.pixels_xy, atol=1e-6
        )


def test_a_pinhole_keeps_size_k_axes_and_pictures():
    camera = PinholeCamera(64, 48, 60.0, 61.0, 31.0, 24.0)
    recording = moving(camera)
    canonical = rectify(recording)
    assert canonical.camera == camera and canonical.frames is recording.reference.frames
    assert canonical.valid_mask.all() and (canonical.canonical_from_source == np.eye(3)).all()


def test_a_distorted_pinhole_is_only_undistorted():
    camera = RadTanCamera(64, 48, 60.0, 60.0, 31.5, 23.5, (-0.2, 0.05, 0.001, -0.002))
    canonical = rectify(moving(camera))
    assert canonical.camera == PinholeCamera(64, 48, 60.0, 60.0, 31.5, 23.5)
    ideal = scene_image(canonical.camera).astype(float)
    inner = canonical.valid_mask
    assert np.abs(canonical.frames.read(0).astype(float) - ideal)[inner].max() < 4


def test_a_narrow_fisheye_keeps_its_own_view():
    narrow = KannalaBrandtCamera(64, 64, 60.0, 60.0, 31.5, 31.5, (0.0, 0.0, 0.0, 0.0))
    assert canonical_view(narrow, RectifyConfig()).camera == PinholeCamera(64, 64, 60.0, 60.0, 31.5, 31.5)


def test_nothing_is_decoded_before_a_frame_is_asked_for():
    recording = moving(FISHEYE)
    canonical = rectify(recording, SMALL)
    pictures = recording.reference.frames
    assert isinstance(pictures, Pictures) and pictures.reads == 0
    first = canonical.frames.read(2)
    assert pictures.reads == 1 and (canonical.frames.read(2) == first).all()


def test_frames_without_a_pose_are_nan_and_named():
    recording = moving(FISHEYE)
    stamps = np.array([0, 100, 1000], dtype=np.int64) * 1_000_000
    recording = replace(recording, trajectory=Trajectory(stamps, recording.trajectory.world_from_body))
    canonical = rectify(recording, SMALL)
    assert canonical.pose_valid.tolist() == [True, True, False]
    assert any("1 of 3 frames have no pose (frames 2)" in warning for warning in canonical.warnings)


def test_poses_on_another_clock_are_refused_with_both_ranges():
    recording = moving(FISHEYE)
    later = Trajectory(STAMPS + 10**18, recording.trajectory.world_from_body)
    with pytest.raises(TimeError, match=r"images run from 0 to 200000000 ns, poses from 1000000000000000000"):
        rectify(replace(recording, trajectory=later), SMALL)


def test_gaze_moves_with_the_view_and_is_nan_outside():
    gaze = GazeTrack(STAMPS, np.array([[79.5, 79.5], [79.5, 1.0], [np.nan, np.nan]]), np.array([1.0, 2.0, np.nan]))
    canonical = rectify(moving(FISHEYE, gaze=gaze), SMALL)
    assert canonical.gaze is not None
    # straight ahead is 5 degrees above the centre of a view that looks 5 degrees down: 75 tan 5 = 6.56 px
    np.testing.assert_allclose(canonical.gaze.points_xy_px[0], [95.5, 95.5 - 75 * np.tan(np.radians(5))], atol=1e-9)
    assert np.isnan(canonical.gaze.points_xy_px[1:]).all() and canonical.gaze.depth_m[1] == 2.0


def test_numbers_that_make_no_view_are_refused():
    for fault, text in (
        ({"fov_deg": 180.0}, "fov_deg"),
        ({"width_px": 1}, "size 1x"),
        ({"view": "wide"}, "must be auto"),
        ({"max_pose_gap_ms": -1.0}, "max_pose_gap_ms"),
        ({"roll_deg": float("nan")}, "roll_deg"),
        ({"focal_px": 0.0}, "focal_px 0.0"),
        ({"focal_px": float("inf")}, "focal_px inf"),
        ({"fx_fy_cx_cy_px": (1.0, -1.0, 0.0, 0.0)}, "focal lengths positive"),
        ({"fx_fy_cx_cy_px": (1.0, 1.0, float("nan"), 0.0)}, "must be finite"),
        ({"focal_px": 3.0, "fx_fy_cx_cy_px": (1.0, 1.0, 0.0, 0.0)}, "both given"),
        ({"focal_px": 3.0, "view": "source"}, "keeps the source's own K"),
        ({"extra_views_fov_deg": 170.0}, "extra_views_fov_deg"),
        ({"extra_views_size_px": 1}, "extra_views_size_px"),
    ):
        with pytest.raises(GeoError, match=text):
            RectifyConfig(**fault)


# --- gravity ----------------------------------------------------------------------------------------------------


def tilted_room() -> Recording:
    """A camera 1.5 m over a floor with a wall ahead, in a world whose up is (0, -1, 0) turned by 10 degrees."""
    depth_camera = PinholeCamera(96, 72, 60.0, 60.0, 47.5, 35.5)
    rays = depth_camera.normalised_points(depth_camera.pixel_grid())
    images, poses = [], []
    tilt = se3.from_rotation_translation(se3.rotation_from_axis_angle(np.array([0.1745, 0.0, 0.0])), np.zeros(3))
    for k in range(8):
        pose = np.eye(4)
        pose[:3, :3] = se3.rotation_from_axis_angle(np.array([0.0, 0.1 * k - 0.4, 0.0])) @ se3.rotation_from_axis_angle(
            np.array([-0.5, 0.0, 0.0])
        )
        d = rays @ pose[:3, :3].T
        with np.errstate(divide="ignore"):
            floor = np.where(d[..., 1] > 0, 1.5 / d[..., 1], np.inf)
            wall = np.where(d[..., 2] > 0, 4.0 / d[..., 2], np.inf)
        images.append(np.minimum(floor, wall).astype(np.float32))
        poses.append(tilt @ pose)
    stamps = np.arange(8, dtype=np.int64) * 100_000_000
    pictures = Pictures([np.zeros((72, 96, 3), np.uint8)] * 8)
    hand = HandTrack("left", stamps[:1], np.full((1, 21, 3), 0.5), np.ones(1))
    return Recording(
        recording_id="room",
        reference=CameraStream("eye", depth_camera, stamps, np.eye(4), pictures),
        depth=DepthStream("depth", depth_camera, stamps, np.eye(4), Pictures(images)),
        trajectory=Trajectory(stamps, np.stack(poses)),
        world=World(metric=False, gravity=Gravity.UNKNOWN, up_sigma_rad=float("nan")),
        source_dir=Path(),
        format_name="made",
        hands=(hand,),
    )


def test_unknown_gravity_is_estimated_and_the_whole_world_is_turned():
    recording = tilted_room()
    canonical = rectify(recording)
    assert canonical.world.gravity is Gravity.ESTIMATED and not canonical.world.metric
    assert 0 < canonical.world.up_sigma_rad < np.radians(3)
    turn = canonical.world.world_from_source_world
    true_up = np.array([0.0, -np.cos(0.1745), -np.sin(0.1745)])
    assert np.degrees(np.arccos((turn[:3, :3] @ true_up)[2])) < 0.5
    np.testing.assert_allclose(
        canonical.world_from_camera[3], turn @ recording.trajectory.world_from_body[3], atol=1e-12
    )
    assert canonical.sensor is not None
    np.testing.assert_allclose(canonical.sensor.world_from_camera, canonical.world_from_camera, atol=1e-12)
    np.testing.assert_allclose(canonical.hands[0].joints_in_world[0, 4], turn[:3, :3] @ np.full(3, 0.5), atol=1e-12)
    assert any("gravity is estimated" in warning for warning in canonical.warnings)


def test_without_depth_or_when_switched_off_gravity_stays_unknown():
    for recording, config in (
        (replace(tilted_room(), depth=None), None),
        (tilted_room(), RectifyConfig(estimate_gravity=False)),
    ):
        world = rectify(recording, config).world
        assert world.gravity is Gravity.UNKNOWN and np.isnan(world.up_sigma_rad)


def test_known_gravity_is_not_touched():
    recording = replace(tilted_room(), world=World(metric=True, gravity=Gravity.KNOWN))
    canonical = rectify(recording)
    assert canonical.world == recording.world
    np.testing.assert_allclose(canonical.world_from_camera, recording.trajectory.world_from_body)


@pytest.mark.parametrize("up", [[0, 0, 1], [0, 0, -1], [0, -1, 0], [0.6, 0, 0.8], [0, 1e-13, -1]])
def test_the_smallest_turn_takes_up_to_z(up):
    turn = rotation_to_z_up(np.array(up, float))
    np.testing.assert_allclose(turn @ up, [0, 0, 1], atol=1e-9)
    assert np.linalg.det(turn) == pytest.approx(1)


def test_sensor_depth_of_a_read_recording_keeps_its_own_camera(plain_folder):
    canonical = rectify(open_recording(plain_folder))
    assert canonical.sensor is not None and canonical.sensor.camera.size_wh_px == (64, 48)
    np.testing.assert_allclose(canonical.sensor.world_from_camera[2, :3, 3], [0.2 + 0.03, 0, 1.5])
    assert canonical.sensor.nearest(int(canonical.timestamps_ns[3]) + 10, 1000) == 3
