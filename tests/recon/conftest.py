"""A small scene whose truth is a formula: a floor, a wall 2 m ahead, and (if asked for) a ball that rolls by.

z up |        wall y = 2
     |   o ball -> x
     |____________________ floor z = 0
cameras at y = 0, z = 1.2, looking along +y and 12 degrees down
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # splat_makers is importable by name

import numpy as np
import pytest

from geo.cameras import PinholeCamera
from geo.recording import CanonicalRecording, SensorDepth
from geo.world import Gravity, World

WALL_Y_M, BALL_RADIUS_M = 2.0, 0.16
CAMERA = PinholeCamera(96, 72, 70.0, 70.0, 47.0, 36.5)
SENSOR_CAMERA = PinholeCamera(128, 96, 110.0, 110.0, 63.5, 47.5)
WORLD = World(True, Gravity.KNOWN)


class Frames:
    """Pictures held in memory."""

    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def read(self, index):
        return self.images[index]


@dataclass(frozen=True)
class Scene:
    """A recording with its exact depth: of everything, and of what stands still."""

    canonical: CanonicalRecording
    z_depth_m: np.ndarray
    static_z_depth_m: np.ndarray
    ball: np.ndarray  # pixels that show the ball


def pose_at(x_m: float, yaw_deg: float = 0.0, pitch_deg: float = 12.0) -> np.ndarray:
    """world_from_camera: at (x, 0, 1.2), right = +x, forward = +y turned by yaw, looking down by pitch."""
    pitch, yaw = np.radians(pitch_deg), np.radians(yaw_deg)
    forward = np.array([np.sin(yaw) * np.cos(pitch), np.cos(yaw) * np.cos(pitch), -np.sin(pitch)])
    right = np.array([np.cos(yaw), -np.sin(yaw), 0.0])
    out = np.eye(4)
    out[:3, :3] = np.stack([right, np.cross(forward, right), forward], axis=1)
    out[:3, 3] = [x_m, 0.0, 1.2]
    return out


def cast(camera, world_from_camera, ball_center=None):
    """Exact z-depth, colours (0..1) and the ball's pixels: rays have z = 1, so the ray parameter is the z-depth."""
    rays = camera.normalised_points(camera.pixel_grid()) @ world_from_camera[:3, :3].T
    origin = world_from_camera[:3, 3]
    with np.errstate(divide="ignore"):
        floor = np.where(rays[..., 2] < 0, -origin[2] / rays[..., 2], np.inf)
        wall = np.where(rays[..., 1] > 0, (WALL_Y_M - origin[1]) / rays[..., 1], np.inf)
    z = np.minimum(floor, wall)
    p = origin + rays * z[..., None]
    stripes = np.sin(9 * p[..., 0]) * np.sin(8 * np.where(wall < floor, p[..., 2], p[..., 1]))
    rgb = 0.5 + 0.25 * np.stack([stripes, -stripes, np.sin(5 * p[..., 0])], axis=-1)
    hit = np.zeros(z.shape, dtype=bool)
    if ball_center is not None:
        b = np.einsum("hwi,i->hw", rays, origin - ball_center)
        a = (rays**2).sum(axis=-1)
        root = b**2 - a * (((origin - ball_center) ** 2).sum() - BALL_RADIUS_M**2)
        near = (-b - np.sqrt(np.maximum(root, 0))) / a
        hit = (root > 0) & (near > 0) & (near < z)
        z = np.where(hit, near, z)
        rgb[hit] = [0.9, 0.15, 0.1]
    return z, rgb, hit


def make_scene(frames=16, ball=False, noise_m=0.0, holes=0.0, exposure=False, sensor=True, seed=0) -> Scene:
    """A recording of the scene; the ball crosses from left to right 1.3 m ahead."""
    rng = np.random.default_rng(seed)
    offset = np.eye(4)
    offset[0, 3] = 0.02  # the depth camera sits 2 cm to the right
    poses, sensor_poses, images, depths, exact, static, balls = [], [], [], [], [], [], []
    for i in range(frames):
        s = i / max(frames - 1, 1)
        pose = pose_at(-0.3 + 0.6 * s, yaw_deg=10 * np.sin(2 * np.pi * s))
        centre = np.array([-0.8 + 1.6 * s, 1.3, 0.7]) if ball else None
        z, rgb, hit = cast(CAMERA, pose, centre)
        gain = 0.75 + 0.5 * rng.random() if exposure else 1.0
        z_sensor, _, _ = cast(SENSOR_CAMERA, pose @ offset, centre)
        z_sensor = z_sensor + noise_m * rng.standard_normal(z_sensor.shape)
        z_sensor[rng.random(z_sensor.shape) < holes] = np.nan
        poses.append(pose)
        sensor_poses.append(pose @ offset)
        images.append((np.clip(rgb * gain, 0, 1) * 255).round().astype(np.uint8))
        depths.append(z_sensor.astype(np.float32))
        exact.append(z)
        static.append(cast(CAMERA, pose)[0])
        balls.append(hit)
    stamps = np.arange(frames, dtype=np.int64) * 100_000_000
    canonical = CanonicalRecording(
        recording_id="ball" if ball else "room",
        camera=CAMERA,
        timestamps_ns=stamps,
        world_from_camera=np.array(poses),
        valid_mask=np.ones((72, 96), dtype=bool),
        frames=Frames(images),
        world=WORLD,
        source_camera=CAMERA,
        canonical_from_source=np.eye(3),
        sensor=SensorDepth(SENSOR_CAMERA, stamps, np.array(sensor_poses), Frames(depths)) if sensor else None,
    )
    return Scene(canonical, np.array(exact), np.array(static), np.array(balls))


@pytest.fixture(scope="session")
def scene_of():
    """Maker of scenes; the same arguments give the same scene."""
    return make_scene


@pytest.fixture(scope="session")
def room() -> Scene:
    """Sixteen frames, nothing moves, exact sensor."""
    return make_scene()


@pytest.fixture(scope="session")
def ball_scene() -> Scene:
    """Twenty frames with a ball that rolls through; sensor with 3 mm of noise and 5 % holes."""
    return make_scene(20, ball=True, noise_m=0.003, holes=0.05)


@pytest.fixture(scope="session")
def without_poses():
    """The recording with the poses of some frames unknown."""

    def drop(canonical, frames):
        poses = canonical.world_from_camera.copy()
        poses[list(frames)] = np.nan
        sensor = canonical.sensor
        if sensor is not None:
            sensor_poses = sensor.world_from_camera.copy()
            sensor_poses[list(frames)] = np.nan
            sensor = replace(sensor, world_from_camera=sensor_poses)
        return replace(canonical, world_from_camera=poses, sensor=sensor)

    return drop
