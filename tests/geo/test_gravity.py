"""Up from support planes: synthetic rooms with known up, and the real kitchen."""

import numpy as np
import pytest

from geo import se3
from geo.cameras import PinholeCamera
from geo.gravity import estimate_up
from geo.surfels import sample_surfels, surfels_of_image

CAMERA = PinholeCamera(160, 120, 140.0, 140.0, 79.5, 59.5)


def look(position, yaw_deg, pitch_down_deg) -> np.ndarray:
    """world_from_camera of an upright camera in a z-up world."""
    yaw, pitch = np.radians([yaw_deg, pitch_down_deg])
    forward = np.array([np.cos(yaw) * np.cos(pitch), np.sin(yaw) * np.cos(pitch), -np.sin(pitch)])
    right = np.array([np.sin(yaw), -np.cos(yaw), 0.0])
    return se3.from_rotation_translation(
        np.stack([right, np.cross(forward, right), forward], axis=1), np.array(position)
    )


def room_depth(world_from_camera, boxes) -> np.ndarray:
    """Depth of a 6 x 6 x 3 m room (seen from inside) with solid boxes (low, high) standing in it."""
    rays = CAMERA.normalised_points(CAMERA.pixel_grid()) @ world_from_camera[:3, :3].T
    origin = world_from_camera[:3, 3]
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (np.array([-3.0, -3.0, 0.0]) - origin) / rays, (np.array([3.0, 3.0, 3.0]) - origin) / rays
        depth = np.maximum(low, high).min(axis=-1)
        for bottom, top in boxes:
            a, b = (np.array(bottom) - origin) / rays, (np.array(top) - origin) / rays
            near, far = np.minimum(a, b).max(axis=-1), np.maximum(a, b).min(axis=-1)
            depth = np.where((near <= far) & (near > 0) & (near < depth), near, depth)
    return depth


class Images:
    """A depth source over a list of images."""

    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def read(self, index):
        return self.images[index].astype(np.float32)


TABLE = [((0.5, -0.8, 0.0), (1.7, 0.8, 0.74)), ((-3.0, 1.0, 0.0), (-2.5, 3.0, 1.1))]


def recording(pitch_down_deg, noise=True, boxes=TABLE, count=12):
    rng = np.random.default_rng(3)
    poses = np.stack([look([-1.5 + 0.1 * k, 0.05 * k, 1.6], -30 + 6 * k, pitch_down_deg) for k in range(count)])
    images = []
    for pose in poses:
        depth = room_depth(pose, boxes)
        images.append(depth + noise * rng.normal(size=depth.shape) * (0.003 + 0.004 * (depth - 0.4) ** 2))
    return poses, Images(images)


def angle_deg(a, b) -> float:
    return float(np.degrees(2 * np.arctan2(np.linalg.norm(a - b), np.linalg.norm(a + b))))


@pytest.mark.parametrize("pitch_down_deg", [0, 25, 45])
def test_looking_down_does_not_bias_up(pitch_down_deg):
    """The cameras' mean up leans by the pitch; the planes decide."""
    poses, images = recording(pitch_down_deg)
    estimate = estimate_up(poses, sample_surfels(images, CAMERA, poses))
    assert estimate.ok, estimate.reason
    error = angle_deg(estimate.up_in_world, np.array([0.0, 0.0, 1.0]))
    assert error < 0.7 and error < 3 * np.degrees(estimate.sigma_rad)
    assert np.degrees(estimate.sigma_rad) < 2.0
    assert np.degrees(estimate.camera_tilt_rad) == pytest.approx(pitch_down_deg, abs=6)


def test_heights_of_the_planes_are_those_of_floor_and_table():
    poses, images = recording(35)
    heights = sorted(plane.height for plane in estimate_up(poses, sample_surfels(images, CAMERA, poses)).planes)
    assert heights[0] == pytest.approx(0.0, abs=0.03)
    assert any(abs(height - 0.74) < 0.03 for height in heights)


def test_up_turns_with_the_world():
    """A rotated world gives the rotated up: nothing hangs on the world's own axes."""
    poses, images = recording(30)
    turn = se3.from_rotation_translation(
        se3.rotation_from_quat_wxyz(np.array([0.3, -0.8, 0.4, 0.2])), np.array([4.0, 5, 6])
    )
    turned = turn @ poses
    here = estimate_up(poses, sample_surfels(images, CAMERA, poses))
    there = estimate_up(turned, sample_surfels(images, CAMERA, turned))
    assert angle_deg(turn[:3, :3] @ here.up_in_world, there.up_in_world) < 0.05


def test_scale_does_not_matter():
    poses, images = recording(30)
    scaled = poses.copy()
    scaled[:, :3, 3] *= 37.0
    small = Images([image * 37.0 for image in images.images])
    estimate = estimate_up(scaled, sample_surfels(small, CAMERA, scaled))
    assert angle_deg(estimate.up_in_world, np.array([0.0, 0.0, 1.0])) < 0.7


def test_same_input_same_estimate():
    poses, images = recording(30)
    surfels = sample_surfels(images, CAMERA, poses)
    first, second = estimate_up(poses, surfels), estimate_up(poses, surfels)
    assert first.up_in_world.tobytes() == second.up_in_world.tobytes() and first.sigma_rad == second.sigma_rad


def test_only_walls_in_view_is_a_failure_with_a_reason():
    poses = np.stack([look([0.0, 0.0, 1.5], 5 * k, 0) for k in range(12)])
    images = Images([np.where(np.abs(room_depth(p, [])) > 0, room_depth(p, []), 0)[..., :] for p in poses])
    for image in images.images:
        image[:30], image[90:] = np.nan, np.nan  # floor and ceiling are cut away
    estimate = estimate_up(poses, sample_surfels(images, CAMERA, poses))
    assert not estimate.ok and "flat patches face up" in estimate.reason
    assert np.isnan(estimate.up_in_world).all() and np.isnan(estimate.sigma_rad)


def test_two_equally_strong_directions_are_ambiguous():
    """A ramp of 30 degrees that fills as much of the view as the floor, and no walls to tell them apart."""
    rng = np.random.default_rng(0)
    slope = np.array([np.sin(np.radians(30)), 0.0, np.cos(np.radians(30))])
    from geo.surfels import Surfels

    n = 400
    normals = np.concatenate([np.tile([0.0, 0.0, 1.0], (n, 1)), np.tile(slope, (n, 1))])
    points = rng.uniform(-1, 1, (2 * n, 3))
    surfels = Surfels(points, normals, np.ones(2 * n), np.arange(2 * n) % 6)
    poses = np.stack([look([0.0, 0.0, 1.5], 20 * k, 20) for k in range(6)])
    estimate = estimate_up(poses, surfels)
    assert not estimate.ok and "two directions" in estimate.reason


def test_no_pose_and_no_depth_are_reasons_not_exceptions():
    nothing = sample_surfels(Images([]), CAMERA, np.zeros((0, 4, 4)))
    assert "no camera pose" in estimate_up(np.full((3, 4, 4), np.nan), nothing).reason
    assert "flat patches" in estimate_up(np.stack([look([0, 0, 1.0], 0, 0)]), nothing).reason


def test_a_patch_has_the_normal_of_its_wall():
    pose = look([0.0, 0.0, 1.5], 0, 0)
    surfels = surfels_of_image(room_depth(pose, []), CAMERA, pose)
    wall = surfels.points_in_world[:, 0] > 2.9
    assert wall.sum() > 50
    np.testing.assert_allclose(surfels.normals_in_world[wall], np.tile([-1.0, 0, 0], (wall.sum(), 1)), atol=1e-6)


@pytest.mark.samples
def test_kitchen_table_and_floor_are_level_and_a_table_height_apart(samples_dir):
    """No truth for up is given; that table and floor agree, and are 65 to 80 cm apart, is independent of it."""
    from geo.readers import open_recording
    from geo.rectify import RectifyConfig, gravity_of, rectify
    from geo.world import Gravity

    canonical = rectify(open_recording(samples_dir / "sevenscenes_redkitchen"), RectifyConfig(gravity_images=10))
    assert canonical.world.gravity is Gravity.ESTIMATED
    assert np.degrees(canonical.world.up_sigma_rad) < 2.0
    estimate = gravity_of(canonical.world_from_camera, canonical.sensor, 12)
    assert angle_deg(estimate.up_in_world, np.array([0.0, 0.0, 1.0])) < 1.0  # the world has been turned
    assert np.degrees(estimate.camera_tilt_rad) < 35
    heights = [plane.height for plane in estimate.planes]
    assert any(0.65 < abs(a - b) < 0.80 for a in heights for b in heights)
