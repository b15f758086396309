"""The fisheye's projection in torch against the float64 reference; gsplat's blending of it: tests/gpu."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from cuda_kernels.splat import SplatCamera, rasterize
from cuda_kernels.splat.reference import project_reference
from recon.backend import CpuRenderer
from recon.errors import ReconError
from recon.gsplat_backend import GsplatRenderer
from recon.renderer import Gaussians
from recon.tensor_draw import draw
from recon.torch_cpu import cpu_engine
from recon.torch_fisheye import project_fisheye

LENS = SplatCamera(
    20.0, 21.0, 30.3, 24.2, 61, 49, np.eye(4), kb4=(0.05, -0.01, 0.002, -0.0001), valid_theta_rad=1.9
)  # fmt: skip


def cloud(count=80, seed=0):
    """Gaussians all around the camera, the first one on its axis, some nearer than ``near_m``."""
    rng = np.random.default_rng(seed)
    way = rng.normal(size=(count, 3))
    means = way / np.linalg.norm(way, axis=1, keepdims=True) * rng.uniform(0.005, 3.0, (count, 1))
    means[0] = 0, 0, 1.5
    arrays = (
        means, rng.normal(size=(count, 4)), np.log(rng.uniform(0.02, 0.2, (count, 3))), rng.normal(0.5, 1.5, count),
        rng.uniform(0, 1, (count, 3)),
    )  # fmt: skip
    return Gaussians(*(a.astype(np.float32) for a in arrays))


def turned():
    pose = np.eye(4)
    pose[:3, :3] = [[0.96, 0, 0.28], [0, 1, 0], [-0.28, 0, 0.96]]
    pose[:3, 3] = 0.1, -0.05, 0.2
    return replace(LENS, camera_from_world=pose)


@pytest.mark.parametrize("camera", [LENS, turned()], ids=["at the origin", "moved"])
def test_means_conics_and_distances_are_the_references(camera):
    splats = cloud()
    doubles = [torch.tensor(a, dtype=torch.float64) for a in vars(splats).values()]
    flat = project_fisheye(
        doubles[0], doubles[1], doubles[2].exp(), doubles[3].sigmoid(), torch.tensor(camera.camera_from_world), camera
    )
    truth = project_reference(*(t.numpy() for t in doubles[:3]), camera)
    assert 20 < len(truth.rows) < 75
    np.testing.assert_allclose(flat.means_px[truth.rows].numpy(), truth.means_xy + 0.5, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(flat.distance[truth.rows].numpy(), truth.z, rtol=1e-8)
    packed = np.stack([truth.conics[:, 0, 0], truth.conics[:, 0, 1], truth.conics[:, 1, 1]], axis=1)
    np.testing.assert_allclose(flat.conics[truth.rows].numpy(), packed, rtol=1e-5, atol=1e-9)
    undrawn = np.setdiff1d(np.arange(len(doubles[0])), truth.rows)
    assert not flat.radii_px[undrawn].any()
    visible = rasterize(*vars(splats).values(), camera).visible
    assert not (visible & ~(flat.radii_px > 0).all(dim=1).numpy()).any()  # gsplat's boxes are no smaller


def test_gradients_of_the_projection_are_right_on_and_off_the_axis():
    """Central differences in float64, by everything that goes in, the pose included."""
    splats = cloud(12)
    camera = turned()
    flat = [torch.tensor(getattr(splats, name), dtype=torch.float64) for name in ("means_in_world", "quats_wxyz")]
    inputs = [*flat, torch.tensor(splats.log_scales, dtype=torch.float64).exp(), torch.tensor(camera.camera_from_world)]
    opacities = torch.full((12,), 0.5, dtype=torch.float64)

    def projected(means, quats, scales, pose):
        found = project_fisheye(means, quats, scales, opacities, pose, camera)
        return found.means_px, found.conics, found.distance

    for tensor in inputs:
        tensor.requires_grad_(True)
    assert torch.autograd.gradcheck(projected, inputs, eps=1e-6, atol=1e-4, rtol=1e-4)


def test_the_renderer_draws_a_fisheye_as_the_cpu_does():
    """Through the torch path with the CPU's rasteriser; depth is distance along the ray, and says so."""
    splats, camera = cloud(), turned()
    ours, theirs = CpuRenderer(), GsplatRenderer(cpu_engine())
    a, b = (r.forward(splats, camera, (0.5, 0.2, 0.1), depth_statistics=True) for r in (ours, theirs))
    assert a.along_ray and b.along_ray
    for name in ("rgb", "alpha", "depth_sum"):
        np.testing.assert_allclose(getattr(b, name), getattr(a, name), atol=3e-5)
    rng = np.random.default_rng(1)
    slopes = [rng.normal(size=shape).astype(np.float32) for shape in (a.rgb.shape, a.alpha.shape, a.alpha.shape)]
    first, second = ours.backward(a, *slopes), theirs.backward(b, *slopes)
    for name in ("means_in_world", "quats_wxyz", "log_scales", "opacity_logits", "camera_twist"):
        want, got = getattr(first, name), getattr(second, name)
        assert np.linalg.norm(got - want) < 1e-3 * np.linalg.norm(want), name


def test_a_fisheye_takes_colours_not_harmonics():
    tensors = [torch.tensor(a) for a in vars(cloud()).values()]
    with pytest.raises(ReconError, match="takes colours, not spherical harmonics"):
        draw(cpu_engine(), *tensors[:4], tensors[4][:, None], LENS, (0.0, 0.0, 0.0), sh_degree=0)
