"""Our calls of gsplat against gsplat's real code, its CUDA parts replaced by its own torch reference."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from recon.backend import CpuRenderer
from recon.config import ReconstructConfig
from recon.gsplat_backend import GsplatRenderer
from recon.gsplat_fit import DeviceState
from recon.init import initialise
from recon.records import DynamicMasks
from recon.sensor import SensorNoise
from recon.tensor_draw import draw
from recon.views import load_views

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import gsplat_reference  # noqa: E402

BACKGROUND = (0.5, 0.2, 0.1)


@pytest.fixture
def engine(monkeypatch):
    for module, name, function in gsplat_reference.patches():
        monkeypatch.setattr(module, name, function)
    return gsplat_reference.engine()


def seen_alike(engine, camera):
    """Pictures and gradients of both renderers, but for single pixels at the alpha thresholds."""
    gaussians, _ = gsplat_reference.scene()
    ours, theirs = CpuRenderer(), GsplatRenderer(engine)
    a, b = (r.forward(gaussians, camera, BACKGROUND) for r in (ours, theirs))
    for name in ("rgb", "alpha", "depth_sum"):
        assert np.quantile(np.abs(getattr(a, name) - getattr(b, name)), 0.99) < 1e-4, name
    assert not (a.visible & ~b.visible).any()  # gsplat's torch boxes do not look at the opacity
    rng = np.random.default_rng(1)
    slopes = [rng.normal(size=shape).astype(np.float32) for shape in (a.rgb.shape, a.alpha.shape, a.alpha.shape)]
    first, second = ours.backward(a, *slopes), theirs.backward(b, *slopes)
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
        assert np.linalg.norm(got - want) < 0.01 * np.linalg.norm(want), name


def test_gsplat_s_own_code_draws_what_the_cpu_draws(engine):
    seen_alike(engine, gsplat_reference.scene()[1])


def test_a_fisheye_goes_through_gsplat_s_tiles(engine):
    lens = {"fx_px": 12.0, "fy_px": 12.5, "kb4": (0.05, -0.01, 0.002, -0.0001), "valid_theta_rad": 1.9}
    seen_alike(engine, replace(gsplat_reference.scene()[1], **lens))


def test_harmonics_are_read_in_the_same_order(engine):
    from cuda_kernels.splat import eval_sh

    gaussians, camera = gsplat_reference.scene()
    sh = np.random.default_rng(3).normal(0, 0.3, (40, 16, 3)).astype(np.float32)
    centre = np.linalg.inv(camera.camera_from_world)[:3, 3].astype(np.float32)
    colours = eval_sh(sh, gaussians.means_in_world - centre, 2)
    want = CpuRenderer().forward(replace(gaussians, colors=colours), camera, BACKGROUND)
    t = torch.from_numpy
    got = draw(
        engine, t(gaussians.means_in_world), t(gaussians.quats_wxyz), t(gaussians.log_scales).exp(),
        t(gaussians.opacity_logits).sigmoid(), t(sh), camera, BACKGROUND, sh_degree=2,
    )  # fmt: skip
    assert np.quantile(np.abs(got.rgb.detach().numpy() - want.rgb), 0.99) < 1e-4


def test_a_strategy_finds_what_it_reads_in_gsplat_s_results(engine, scene_of):
    """Two steps and a round of growth on the parameters themselves, a picture of 24 pixels' width."""
    config = ReconstructConfig(
        width_px=24, max_gaussians=160, densify="adaptive", densify_pull=1e-6, learning_rate_pose_rad=1e-3, device="cpu"
    )
    views = load_views(scene_of(4).canonical, range(4), DynamicMasks(np.zeros((4, 6, 8), dtype=bool)), config)
    initial = initialise(views, replace(config, max_gaussians=120), SensorNoise())
    state = DeviceState(engine, initial.model, initial.gains, views, config, BACKGROUND, False)
    before = len(state.params["means"])
    losses = [state.step(views[0], 0, 0.5, SensorNoise(), CpuRenderer()) for _ in range(2)]
    assert losses[1] < losses[0]
    assert state._growth.state["count"].max() == 2 and state._growth.state["grad2d"].max() > 0
    assert 0 < state.densify(0.5) <= round(config.densify_growth * before)
    assert state.poses.largest()[0] > 0


def test_depth_statistics_read_gsplat_s_tile_lists_in_the_simulator():
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": str(HERE.parent.parent)}
    run = subprocess.run(
        [sys.executable, str(HERE / "gsplat_reference.py")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert "statistics agree" in run.stdout, run.stderr[-2000:]
