"""Poses against a model and against each other; the room and its depth are exact, the poses are shaken on purpose."""

from dataclasses import replace

import numpy as np
import pytest

from geo import se3
from geo.cameras import PinholeCamera
from recon.align import PosePrior, aligned_pose, moved
from recon.backend import CpuRenderer
from recon.config import ReconstructConfig
from recon.errors import ReconError
from recon.init import initialise
from recon.joint_align import align_together
from recon.sensor import SensorNoise
from recon.views import View

CAMERA = PinholeCamera(96, 72, 70.0, 70.0, 47.5, 35.5)
PRIOR = PosePrior(0.01, 0.01)
NOISE = SensorNoise(0.003, 0.001)


def room_view(frame, world_from_camera):
    """A corner of three textured walls (x = 1.2, y = 0.8, z = 2.4), seen exactly."""
    v, u = np.mgrid[0 : CAMERA.height_px, 0 : CAMERA.width_px]
    rays = (
        CAMERA.normalised_points(np.stack([u, v], axis=-1).reshape(-1, 2).astype(float)) @ world_from_camera[:3, :3].T
    )
    eye = world_from_camera[:3, 3]
    with np.errstate(divide="ignore"):
        reach = np.stack([(w - eye[a]) / rays[:, a] for a, w in ((0, 1.2), (1, 0.8), (2, 2.4))], axis=1)
    reach[reach <= 0] = np.inf
    z = reach.min(axis=1)  # rays have z = 1 in the camera
    points = eye + rays * z[:, None]
    tone = 0.5 + 0.2 * np.sin(9 * points).sum(axis=1) / 3 + 0.15 * np.sin(23 * points.sum(axis=1))
    shape = (CAMERA.height_px, CAMERA.width_px)
    rgb = np.repeat((255 * np.clip(tone, 0, 1)).astype(np.uint8).reshape(shape)[..., None], 3, axis=2)
    z = z.reshape(shape).astype(np.float32)
    return View(frame, rgb, z, np.ones(shape, dtype=bool), CAMERA, world_from_camera)


def around(count=9):
    """Cameras on a small arc, all looking into the corner."""
    poses = []
    for k in range(count):
        turn = se3.rotation_from_axis_angle(np.array([0.02 * (k % 3 - 1), 0.08 * (k - count // 2), 0.0]))
        poses.append(se3.from_rotation_translation(turn, np.array([0.06 * (k - count // 2), 0.03 * (k % 3), 0.0])))
    return poses


def shaken(view, rng, turn_rad=0.003, shift_m=0.004):
    twist = np.concatenate([rng.normal(0, turn_rad, 3), rng.normal(0, shift_m, 3)])
    return replace(view, world_from_camera=view.world_from_camera @ moved(twist))


def off(poses, truth):
    """Root mean square of what is left after the common shift: (metres, radians)."""
    shift = np.stack([(p @ se3.inverse(t))[:3, 3] for p, t in zip(poses, truth, strict=True)])
    turn = np.stack(
        [se3.axis_angle_from_rotation((p @ se3.inverse(t))[:3, :3]) for p, t in zip(poses, truth, strict=True)]
    )
    return tuple(float(np.sqrt(np.square(x - x.mean(axis=0)).sum(axis=1).mean())) for x in (shift, turn))


@pytest.fixture(scope="module")
def exact():
    return [room_view(k, pose) for k, pose in enumerate(around())]


@pytest.fixture(scope="module")
def model(exact):
    return initialise(exact, ReconstructConfig(max_gaussians=12_000), NOISE).model


def test_shaken_views_agree_again(exact):
    rng = np.random.default_rng(3)
    views = [shaken(view, rng) for view in exact]
    truth = [view.world_from_camera for view in exact]
    before = off([view.world_from_camera for view in views], truth)
    after = off([view.world_from_camera for view in align_together(views, PRIOR, NOISE)], truth)
    assert before[0] > 4e-3 and before[1] > 3e-3
    assert after[0] < 0.3 * before[0] and after[1] < 0.3 * before[1]


def test_exact_poses_stay(exact):
    truth = [view.world_from_camera for view in exact]
    after = off([view.world_from_camera for view in align_together(exact, PRIOR, NOISE)], truth)
    assert after[0] < 1e-3 and after[1] < 6e-4


def test_a_prior_of_nothing_moves_nothing(exact):
    views = [shaken(view, np.random.default_rng(1)) for view in exact]
    same = align_together(views, PosePrior(0.0, 0.0), NOISE)
    assert all(a.world_from_camera is b.world_from_camera for a, b in zip(views, same, strict=True))


def test_views_without_depth_keep_their_poses(exact):
    blind = [replace(view, z_depth_m=np.full_like(view.z_depth_m, np.nan)) for view in exact[:3]]
    for one, other in zip(blind, align_together(blind, PRIOR, NOISE), strict=True):
        np.testing.assert_array_equal(one.world_from_camera, other.world_from_camera)


def test_the_same_views_give_the_same_bytes(exact):
    rng = np.random.default_rng(5)
    views = [shaken(view, rng) for view in exact]
    forth = align_together(views, PRIOR, NOISE)
    again = align_together(views, PRIOR, NOISE)
    for one, other in zip(forth, again, strict=True):
        np.testing.assert_array_equal(one.world_from_camera, other.world_from_camera)


def test_a_shaken_view_finds_the_place_that_the_exact_one_finds(exact, model):
    """Against a model that is not quite the room: what counts is that the start does not decide."""
    rng = np.random.default_rng(7)
    for view in exact[1::3]:
        other = shaken(view, rng)
        found, wanted = (
            aligned_pose(v, model, PRIOR, NOISE, CpuRenderer(), view.world_from_camera) for v in (other, view)
        )
        before = se3.inverse(view.world_from_camera) @ other.world_from_camera
        after = se3.inverse(wanted) @ found
        size = [np.linalg.norm([*se3.axis_angle_from_rotation(s[:3, :3]), *s[:3, 3]]) for s in (before, after)]
        assert size[1] < 0.35 * size[0]


def test_a_view_of_something_else_keeps_its_pose(exact, model):
    far = replace(exact[0], z_depth_m=exact[0].z_depth_m + 1.0, rgb=np.zeros_like(exact[0].rgb))
    found = aligned_pose(far, model, PRIOR, NOISE, CpuRenderer())
    np.testing.assert_array_equal(found, far.world_from_camera)


@pytest.mark.parametrize("sigma_m, sigma_rad", [(-1.0, 0.1), (0.1, float("nan"))])
def test_a_prior_that_is_none_is_refused(sigma_m, sigma_rad):
    with pytest.raises(ReconError, match="pose prior"):
        PosePrior(sigma_m, sigma_rad)
