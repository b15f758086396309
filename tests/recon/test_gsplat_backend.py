"""The torch side of the gsplat path, with the CPU's rasteriser in gsplat's place; on a GPU the same in tests/gpu."""

import numpy as np
import pytest
import torch

from cuda_kernels.splat import SplatCamera, eval_sh
from recon.backend import CpuRenderer
from recon.errors import ReconError
from recon.gsplat_backend import GsplatRenderer
from recon.renderer import Gaussians, Renderer
from recon.tensor_draw import draw, twist_gradient
from recon.torch_cpu import cpu_engine, cpu_rasterization

BACKGROUND = (0.5, 0.2, 0.1)


def scene(count=60, seed=0, poison=True):
    """A cloud before a moved camera whose principal point is off centre; two rows that nobody can draw."""
    rng = np.random.default_rng(seed)
    z = rng.uniform(1.0, 3.0, count)
    means = np.stack([rng.uniform(-0.6, 0.6, count) * z, rng.uniform(-0.6, 0.6, count) * z, z], axis=1)
    quats, scales = rng.normal(size=(count, 4)), np.log(rng.uniform(0.03, 0.2, (count, 3)))
    if poison:
        means[3, 1], quats[5] = np.nan, 0.0
    arrays = (means, quats, scales, rng.normal(0, 1.5, count), rng.uniform(0, 1, (count, 3)))
    pose = np.eye(4)
    pose[:3, :3] = [[0.96, 0, 0.28], [0, 1, 0], [-0.28, 0, 0.96]]
    pose[:3, 3] = [-0.5, 0.1, 0.2]
    return Gaussians(*(a.astype(np.float32) for a in arrays)), SplatCamera(40.0, 42.0, 17.3, 11.8, 37, 26, pose)


def test_the_same_picture_depth_and_gradients_come_through_torch():
    """Half a pixel of convention, exp and sigmoid and the background are undone on the way back."""
    gaussians, camera = scene()
    ours, theirs = CpuRenderer(), GsplatRenderer(cpu_engine())
    assert isinstance(theirs, Renderer)
    a, b = (r.forward(gaussians, camera, BACKGROUND, depth_statistics=True) for r in (ours, theirs))
    for name in ("rgb", "alpha", "depth_sum"):
        np.testing.assert_allclose(getattr(b, name), getattr(a, name), atol=2e-5)
    np.testing.assert_array_equal(b.visible, a.visible)
    assert b.dropped == a.dropped == 2
    for name in ("median_z", "variance_z"):
        np.testing.assert_allclose(getattr(b.statistics, name), getattr(a.statistics, name), rtol=1e-4, atol=1e-4)
    rng = np.random.default_rng(1)
    slopes = [rng.normal(size=shape).astype(np.float32) for shape in (a.rgb.shape, a.alpha.shape, a.alpha.shape)]
    first, second, again = ours.backward(a, *slopes), theirs.backward(b, *slopes), theirs.backward(b, *slopes)
    for name in (
        "means_in_world",
        "quats_wxyz",
        "log_scales",
        "opacity_logits",
        "colors",
        "mean2d_norm",
        "camera_twist",
    ):
        want, got = getattr(first, name), getattr(second, name)
        assert np.linalg.norm(got - want) < 2e-4 * np.linalg.norm(want) + 1e-6, name
        np.testing.assert_array_equal(got, getattr(again, name))
    assert not second.means_in_world[[3, 5]].any()


def test_nothing_to_draw_is_the_background():
    gaussians, camera = scene()
    renderer = GsplatRenderer(cpu_engine())
    bad = Gaussians(**{**vars(gaussians), "means_in_world": np.full_like(gaussians.means_in_world, np.nan)})
    none = Gaussians(*(getattr(gaussians, name)[:0] for name in vars(gaussians)))
    for these, dropped in ((bad, 60), (none, 0)):
        image = renderer.forward(these, camera, BACKGROUND, depth_statistics=True)
        np.testing.assert_array_equal(image.rgb, np.broadcast_to(np.float32(BACKGROUND), image.rgb.shape))
        assert not image.alpha.any() and np.isnan(image.statistics.median_z).all() and image.dropped == dropped
        slopes = renderer.backward(image, image.rgb, image.alpha, image.alpha)
        assert not slopes.means_in_world.any() and slopes.camera_twist.shape == (6,)


def test_the_twist_gradient_is_that_of_a_moved_pose():
    """Against central differences of an arbitrary function of the 4x4 entries, worked out in float64."""
    from scipy.linalg import expm

    rng = np.random.default_rng(2)
    pose = scene()[1].camera_from_world
    weights, square = rng.normal(size=(2, 4, 4))

    def loss(matrix):
        return float((weights * matrix + square * matrix**2)[:3].sum())

    gradient = weights + 2 * square * pose
    gradient[3] = 0
    got = twist_gradient(gradient, pose)
    for k in range(6):
        hat = np.zeros((4, 4))
        x, y, z = np.eye(6)[k][:3]
        hat[:3, :3], hat[:3, 3] = [[0, -z, y], [z, 0, -x], [-y, x, 0]], np.eye(6)[k][3:]
        numeric = (loss(expm(1e-6 * hat) @ pose) - loss(expm(-1e-6 * hat) @ pose)) / 2e-6
        assert got[k] == pytest.approx(numeric, rel=1e-6, abs=1e-8)


def test_colours_that_depend_on_the_direction_come_from_harmonics():
    gaussians, camera = scene(poison=False)
    sh = np.random.default_rng(3).normal(0, 0.3, (60, 9, 3)).astype(np.float32)
    inverse = np.linalg.inv(camera.camera_from_world)
    colours = eval_sh(sh, gaussians.means_in_world - inverse[:3, 3].astype(np.float32), 1)
    plain = CpuRenderer().forward(Gaussians(**{**vars(gaussians), "colors": colours}), camera, BACKGROUND)
    t = torch.from_numpy
    coefficients = t(sh).requires_grad_()
    drawn = draw(
        cpu_engine(), t(gaussians.means_in_world), t(gaussians.quats_wxyz), torch.exp(t(gaussians.log_scales)),
        torch.sigmoid(t(gaussians.opacity_logits)), coefficients, camera, BACKGROUND, sh_degree=1,
    )  # fmt: skip
    np.testing.assert_allclose(drawn.rgb.detach().numpy(), plain.rgb, atol=2e-5)
    drawn.rgb.sum().backward()
    assert coefficients.grad[:, :4].abs().sum() > 0 and not coefficients.grad[:, 4:].any()


def test_what_the_cpu_rasteriser_cannot_do_is_refused():
    gaussians, _ = scene(poison=False)
    arrays = [torch.from_numpy(value) for value in vars(gaussians).values()]
    k = torch.tensor([[[30.0, 0, 10], [0, 30, 10], [0, 0, 1]]])
    pose = torch.eye(4)[None]
    with pytest.raises(ReconError, match=r"does not know .*'rasterize_mode': 'antialiased'"):
        cpu_rasterization(*arrays, pose, k, 20, 20, rasterize_mode="antialiased")
    with pytest.raises(ReconError, match="one camera"):
        cpu_rasterization(*arrays, pose.repeat(2, 1, 1), k, 20, 20)
    k[0, 0, 1] = 1.0
    with pytest.raises(ReconError, match="skew 1"):
        cpu_rasterization(*arrays, pose, k, 20, 20)
