"""The fit on torch tensors, with the CPU's rasteriser in gsplat's place: same terms, same steps, same result."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from cuda_kernels.fit_terms import add_shape_terms
from recon.backend import CpuRenderer
from recon.config import ReconstructConfig
from recon.fit import _State, fit
from recon.gsplat_backend import GsplatRenderer
from recon.gsplat_fit import DeviceState
from recon.init import initialise
from recon.losses import view_loss
from recon.records import DynamicMasks
from recon.sensor import SensorNoise
from recon.torch_cpu import cpu_engine
from recon.torch_losses import regulariser_torch, target_of, view_loss_torch
from recon.views import load_views
from recon.visible_adam import VisibleAdam

CONFIG = ReconstructConfig(
    width_px=48, max_gaussians=800, iterations=12, check_every=6, coarse_fraction=0.3, device="cpu"
)
NOISE = SensorNoise(0.02, 0.0)
BACKGROUND = (0.5, 0.5, 0.5)


@pytest.fixture(scope="module")
def start(scene_of):
    """Noisy views with holes, every fourth held out, and the first model."""
    scene = scene_of(16, noise_m=0.02, holes=0.1, exposure=True)
    dynamic = DynamicMasks(np.zeros((16, 6, 8), dtype=bool))
    kept = [i for i in range(16) if i % 4 != 2]
    views = load_views(scene.canonical, kept, dynamic, CONFIG)
    held = load_views(scene.canonical, range(2, 16, 4), dynamic, CONFIG)
    return views, held, initialise(views, CONFIG, NOISE)


def states(start, config, everywhere=False):
    views, _, initial = start
    arguments = (initial.model, initial.gains, views, config, BACKGROUND, everywhere)
    return _State(*arguments), DeviceState(cpu_engine(), *arguments)


def tensor(array, grad=True):
    return torch.tensor(np.asarray(array, dtype=np.float32), requires_grad=grad)


@pytest.mark.parametrize("everywhere", [False, True])
def test_the_terms_have_the_same_value_and_gradients_as_the_closed_form(start, everywhere):
    view = replace(start[0][3], colour_share=0.7)
    rng = np.random.default_rng(0)
    shape = view.static.shape
    rgb, alpha = rng.random((*shape, 3)).astype(np.float32), rng.uniform(0.1, 1.0, shape).astype(np.float32)
    z = np.where(np.isfinite(view.z_depth_m), view.z_depth_m, 1.5) * rng.uniform(0.95, 1.05, shape)
    view.static[5:9, 4:12] = False
    depth_sum = (alpha * z).astype(np.float32)
    gain, offset = np.array([1.1, 0.9, 1.0]), np.array([0.02, 0.0, -0.01])
    want = view_loss(
        rgb, alpha, depth_sum, view.rgb.astype(np.float32) / np.float32(255), view.z_depth_m, view.static, gain, offset,
        CONFIG, NOISE, view.colour_share, everywhere,
    )  # fmt: skip
    inputs = [tensor(a) for a in (rgb, alpha, depth_sum, gain, offset)]
    got = view_loss_torch(*inputs[:3], target_of(view, NOISE, "cpu"), *inputs[3:], CONFIG, everywhere)
    got.backward()
    assert got.item() == pytest.approx(want.loss, rel=1e-4)
    names = ("d_rgb", "d_alpha", "d_depth_sum", "d_gain", "d_offset")
    for name, ours in zip(names, inputs, strict=True):
        theirs = getattr(want, name)
        assert np.linalg.norm(ours.grad.numpy() - theirs) < 2e-4 * np.linalg.norm(theirs), name


def test_the_regularisers_have_the_cpu_fit_s_slopes():
    rng = np.random.default_rng(1)
    scales, logits = rng.normal(-3, 1, (50, 3)).astype(np.float32), rng.normal(0, 2, 50).astype(np.float32)
    initial, visible = rng.normal(-3, 1, 50).astype(np.float32), rng.random(50) < 0.7
    inputs = [tensor(scales), tensor(logits)]
    regulariser_torch(*inputs, tensor(initial, False), torch.from_numpy(visible), CONFIG).backward()
    rows = np.flatnonzero(visible)
    want, values = np.zeros((len(rows), 4), np.float32), np.column_stack([scales, logits])
    weights = CONFIG.opacity_weight, CONFIG.scale_weight, CONFIG.flatness_weight
    add_shape_terms(want, values, rows, initial + np.float32(CONFIG.scale_slack), (0, 3), weights, CONFIG.max_flatness)
    for ours, theirs in ((inputs[0].grad.numpy(), want[:, :3]), (inputs[1].grad.numpy(), want[:, 3])):
        np.testing.assert_allclose(ours[visible], theirs, rtol=1e-5, atol=1e-10)
        assert not ours[~visible].any() and theirs.any()


def test_rows_out_of_sight_do_not_step_and_each_counts_its_own_steps():
    """Adam's first step is the rate, whatever the gradient, also where it comes late."""
    parameter = torch.nn.Parameter(torch.zeros(3, 2))
    optimizer = VisibleAdam(parameter)
    for seen in ([True, False, False], [True, True, False]):
        parameter.grad = torch.tensor([[2.0, -1.0]] * 2 + [[float("nan"), 5.0]])
        optimizer.step(torch.tensor(seen), 0.1)
    np.testing.assert_allclose(parameter.detach().numpy(), [[-0.2, 0.2], [-0.1, 0.1], [0, 0]], rtol=1e-5)


@pytest.mark.parametrize("changes", [{}, {"sh_degree": 2}, {"learning_rate_pose_rad": 1e-3}])
def test_a_few_steps_move_every_parameter_as_the_cpu_fit_does(start, changes):
    """Three views, one of them twice; rows that no view pulls at may take Adam's full step in either direction."""
    config = replace(CONFIG, **changes)
    cpu, device = states(start, config)
    views = start[0]
    before = cpu.model()
    for index, progress in ((0, 0.2), (4, 0.6), (0, 0.7), (8, 0.9)):
        losses = [s.step(views[index], index, progress, NOISE, CpuRenderer()) for s in (cpu, device)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    a, b = cpu.model(), device.model()
    for name in ("means_in_world", "log_scales", "quats_wxyz", "opacity_logits", "sh_coeffs"):
        moved, apart = getattr(a, name) - getattr(before, name), getattr(a, name) - getattr(b, name)
        assert np.abs(moved).max() > 0
        assert np.linalg.norm(apart) < 0.03 * np.linalg.norm(moved), name
        assert np.quantile(np.abs(apart), 0.98) < 2e-3 * np.abs(moved).max(), name
    np.testing.assert_allclose(device.exposures.table, cpu.exposures.table, atol=2e-5)
    np.testing.assert_allclose(device.poses.camera_from_given, cpu.poses.camera_from_given, atol=2e-5)
    assert (device.poses.largest()[0] > 0) == ("learning_rate_pose_rad" in changes)


def test_the_whole_fit_ends_where_the_cpu_fit_ends(start):
    views, held, initial = start
    arguments = (initial.model, initial.gains, views, held, CONFIG, NOISE)
    cpu = fit(*arguments, CpuRenderer())
    engine = cpu_engine()
    device = fit(*arguments, GsplatRenderer(engine))
    assert device.iterations == cpu.iterations == 12 and len(device.held_out_scores) == 2
    np.testing.assert_allclose(device.held_out_scores, cpu.held_out_scores, rtol=0.02)
    assert device.held_out_scores[1] < device.held_out_scores[0]
    assert abs(device.pruned - cpu.pruned) <= 0.02 * len(initial.model.means_in_world) + 2


def test_dropped_rows_take_their_moments_along(start):
    _, device = states(start, CONFIG)
    device.step(start[0][0], 0, 0.5, NOISE, CpuRenderer())
    count = len(device.params["means"])
    rows = np.zeros(count, dtype=bool)
    rows[::3] = True
    kept = device.model().means_in_world[~rows]
    moments = device.optimizers["means"].state[device.params["means"]]["first"].numpy()[~rows]
    assert device.drop(rows) == rows.sum()
    np.testing.assert_array_equal(device.model().means_in_world, kept)
    np.testing.assert_array_equal(device.optimizers["means"].state[device.params["means"]]["first"].numpy(), moments)
    device.step(start[0][0], 0, 0.6, NOISE, CpuRenderer())  # and goes on


def test_poisoned_rows_are_not_kept(start):
    _, device = states(start, CONFIG)
    with torch.no_grad():
        device.params["means"][4] = float("nan")
        device.params["opacities"][6] = -20.0
        device.params["scales"][7] += 5.0
    keep = device.keep(start[0], NOISE)
    assert not keep[[4, 6, 7]].any() and keep.mean() > 0.9


def test_without_a_splat_left_there_is_no_loss(start):
    _, device = states(start, CONFIG)
    assert device.drop(np.ones(len(device.params["means"]), dtype=bool)) > 0
    assert np.isnan(device.step(start[0][0], 0, 0.5, NOISE, CpuRenderer()))
    assert device.model().means_in_world.shape == (0, 3) and device.keep(start[0], NOISE).shape == (0,)
