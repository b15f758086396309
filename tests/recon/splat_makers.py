"""Splat models made in code: random ones, and the inside of a box."""

import numpy as np

from geo import se3
from geo.cameras import PinholeCamera
from recon.model import sh0_from_rgb
from recon.ply import logit
from recon.records import SplatModel

HALF = np.array([1.0, 0.8, 0.6])  # of the box, metres


def cloud(count=400, degree=3, seed=3):
    """Splats of every shape in front of a camera at the origin that looks along +z."""
    rng = np.random.default_rng(seed)
    means = rng.uniform((-1, -0.8, 1.5), (1, 0.8, 3.5), (count, 3))
    sh = rng.normal(size=(count, (degree + 1) ** 2, 3)) * 0.35
    return SplatModel(
        means.astype(np.float32),
        rng.uniform(-4, -2, (count, 3)).astype(np.float32),
        rng.normal(size=(count, 4)).astype(np.float32),
        rng.normal(size=count).astype(np.float32) * 2,
        sh.astype(np.float32),
    )


def camera(width=64, height=48, focal=50.0):
    return PinholeCamera(width, height, focal, focal, (width - 1) / 2, (height - 1) / 2)


def orbit(centre=(0.0, 0.0, 2.5), radius=2.5, count=5, spread_rad=1.6):
    """Poses on an arc around a point, all looking at it; the middle one is the identity's."""
    poses = []
    for angle in np.linspace(-spread_rad / 2, spread_rad / 2, count):
        rotation = se3.rotation_from_axis_angle(np.array([0.0, angle, 0.0]))
        position = np.array(centre) - rotation @ np.array([0.0, 0.0, radius])
        poses.append(se3.from_rotation_translation(rotation, position))
    return np.stack(poses)


def box(step=0.03):
    """Flat splats on the inner sides of a box around the origin; colour tells the place."""
    points, quats = [], []
    for axis in range(3):
        across = [i for i in range(3) if i != axis]
        grid = np.meshgrid(*(np.arange(-HALF[i], HALF[i] + step / 2, step) for i in across), indexing="ij")
        columns = [across[0], across[1], axis] if axis != 1 else [across[1], across[0], axis]
        quat = se3.quat_wxyz_from_rotation(np.eye(3)[:, columns])
        for side in (-1, 1):
            wall = np.zeros((grid[0].size, 3))
            wall[:, across] = np.stack([part.ravel() for part in grid], axis=1)
            wall[:, axis] = side * HALF[axis]
            points.append(wall)
            quats.append(np.tile(quat, (len(wall), 1)))
    means = np.concatenate(points)
    log_scales = np.log(np.tile([0.5 * step, 0.5 * step, 0.05 * step], (len(means), 1)))
    opacity = logit(np.full(len(means), 0.95))
    colour = sh0_from_rgb(np.clip((means / HALF + 1) / 2, 0.05, 0.95))
    return SplatModel(
        means.astype(np.float32), log_scales.astype(np.float32), np.concatenate(quats).astype(np.float32),
        opacity.astype(np.float32), colour,
    )  # fmt: skip


def look_around(count=16):
    """Poses near the box's middle, turning once around with the gaze going up and down."""
    poses = []
    for angle in 2 * np.pi * np.arange(count) / count:
        forward = np.array([np.cos(angle), np.sin(angle), 0.6 * np.sin(3 * angle)])
        forward /= np.linalg.norm(forward)
        right = np.cross(forward, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        rotation = np.stack([right, np.cross(forward, right), forward], axis=1)
        poses.append(se3.from_rotation_translation(rotation, -0.3 * HALF * forward))
    return np.stack(poses)
