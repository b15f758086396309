"""gsplat's strategies under this project's settings, on the CPU: budget, moments, seeds. On a GPU: tests/gpu."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from recon.config import ReconstructConfig
from recon.densify import shared_opacity
from recon.fit import fit
from recon.gsplat_backend import GsplatRenderer
from recon.gsplat_fit import DeviceState
from recon.init import initialise
from recon.records import DynamicMasks
from recon.sensor import SensorNoise
from recon.torch_cpu import cpu_engine
from recon.views import load_views

CONFIG = ReconstructConfig(
    width_px=48, max_gaussians=700, iterations=16, check_every=8, densify_every=4, densify_from=0.2, densify_until=0.9,
    densify_pull=1e-5, device="cpu",
)  # fmt: skip
NOISE = SensorNoise(0.02, 0.0)


@pytest.fixture(scope="module")
def start(scene_of):
    """Exact views, and a first model of at most 500 splats."""
    dynamic = DynamicMasks(np.zeros((12, 6, 8), dtype=bool))
    views = load_views(scene_of(12).canonical, range(12), dynamic, CONFIG)
    return views, initialise(views, replace(CONFIG, max_gaussians=500), NOISE)


@pytest.fixture
def cuda_ops_on_the_cpu(monkeypatch):
    """The two operations of MCMC that gsplat has in CUDA only: its torch reference, and our own eq. 9."""
    from gsplat.cuda._torch_impl import _quat_scale_to_covar_preci
    from gsplat.strategy import ops

    def relocation(opacities, scales, ratios, binoms):
        opacity, shrink = shared_opacity(opacities.double().numpy(), ratios.numpy())
        return torch.from_numpy(opacity).float(), scales * torch.from_numpy(shrink).float()[:, None]

    monkeypatch.setattr(ops, "compute_relocation", relocation)
    monkeypatch.setattr(ops, "quat_scale_to_covar_preci", _quat_scale_to_covar_preci)


class Watched(GsplatRenderer):
    """Remembers the state that the fit asked it for."""

    def fit_state(self, *arguments):
        self.state = super().fit_state(*arguments)
        return self.state


def run(start, config):
    views, initial = start
    renderer = Watched(cpu_engine())
    result = fit(initial.model, initial.gains, views, views[::4], config, NOISE, renderer)
    return result, renderer.state


@pytest.mark.parametrize("kind", ["adaptive", "mcmc"])
def test_splats_join_up_to_the_budget_and_the_fit_goes_on(start, kind, cuda_ops_on_the_cpu):
    result, state = run(start, replace(CONFIG, densify=kind, prune_at=()))
    begun = len(start[1].model.means_in_world)
    assert 0 < result.added == len(state.params["means"]) - begun
    assert begun < len(state.params["means"]) <= CONFIG.max_gaussians
    for name, optimizer in state.optimizers.items():
        moments = optimizer.state[state.params[name]]
        assert {len(value) for value in moments.values()} == {len(state.params["means"])}
    assert len(state.params["initial_scales"]) == len(state.params["means"])
    for parameter in state.params.values():
        assert torch.isfinite(parameter).all()
    assert result.held_out_scores[-1] < 1.05 * result.held_out_scores[0]


def test_no_room_means_no_growth_and_pruning_still_works(start):
    full = replace(CONFIG, densify="adaptive", max_gaussians=len(start[1].model.means_in_world), prune_at=(0.5,))
    result, state = run(start, full)
    assert result.added <= 0 and len(state.params["means"]) <= full.max_gaussians
    grads = state._growth.state["grad2d"]
    assert len(grads) == len(state.params["means"])


@pytest.mark.parametrize("kind", ["adaptive", "mcmc"])
def test_the_same_seed_gives_the_same_model_and_leaves_torch_s_own_alone(start, kind, cuda_ops_on_the_cpu):
    config = replace(CONFIG, densify=kind, iterations=9)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, _ = run(start, config)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(6)
    second, _ = run(start, config)
    np.testing.assert_array_equal(first.model.means_in_world, second.model.means_in_world)
    other, _ = run(start, replace(config, seed=1))
    assert (
        other.model.means_in_world.shape != first.model.means_in_world.shape
        or (other.model.means_in_world != first.model.means_in_world).any()
    )


def test_jitter_is_a_share_of_the_size_and_spares_opaque_splats(start, cuda_ops_on_the_cpu):
    """gsplat's gate: a splat of opacity 0.005 takes half of the step, one of 0.5 none."""
    views, initial = start
    config = replace(CONFIG, densify="mcmc")
    state = DeviceState(cpu_engine(), initial.model, initial.gains, views, config, (0.5, 0.5, 0.5), False)
    with torch.no_grad():
        state.params["opacities"][:] = 0.0
        state.params["opacities"][::2] = float(np.log(0.005 / 0.995))
        state.params["scales"][:] = float(np.log(state._growth._size_m))
        before = state.params["means"].clone()
    state._growth.after_step({}, 0.3)
    moved = (state.params["means"] - before).detach().numpy() / state._growth._size_m
    assert np.abs(moved[1::2]).max() < 1e-6
    assert moved[::2].std() == pytest.approx(0.5 * 0.3, rel=0.1)


@pytest.mark.parametrize("kind", ["adaptive", "mcmc"])
def test_what_joins_or_changes_starts_afresh(start, kind, cuda_ops_on_the_cpu):
    """As on the CPU: the size that it has now is its initial one, and it has no moments; the others keep theirs."""
    views, initial = start
    config = replace(CONFIG, densify=kind)
    state = DeviceState(cpu_engine(), initial.model, initial.gains, views, config, (0.5, 0.5, 0.5), False)
    for index in (0, 3, 6):
        state.step(views[index], index, 0.5, NOISE, GsplatRenderer(cpu_engine()))
    if kind == "mcmc":
        with torch.no_grad():
            state.params["opacities"][:5] = -9.0  # dead: they move
    assert state.densify(0.5) > 0
    taken = state.optimizers["scales"].state[state.params["scales"]]["taken"]
    fresh, sizes = taken == 0, state.params["scales"].detach().amax(dim=1)
    assert torch.equal(state.params["initial_scales"][fresh], sizes[fresh]) and fresh.sum() > 5
    assert (state.params["initial_scales"][~fresh] != sizes[~fresh]).any() and (~fresh).sum() > 100
    if kind == "mcmc":
        assert fresh[:5].all()
