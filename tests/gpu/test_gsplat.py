"""gsplat against the CPU's rasteriser: distributions, not bits (alpha flips at 1/255, light at 1e-4, fast math)."""

import numpy as np
import pytest

from cuda_kernels.splat import SplatCamera
from recon.backend import CpuRenderer, choose_renderer
from recon.gsplat_backend import GsplatRenderer
from recon.renderer import Gaussians

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]  # other packages may warn
BACKGROUND = (0.5, 0.2, 0.1)
PARAMETERS = ("means_in_world", "quats_wxyz", "log_scales", "opacity_logits", "colors")


def scene(count=20_000, size=(320, 200), seed=0):
    """A cloud before a turned camera with unlike focal lengths and the principal point off centre; two bad rows."""
    rng = np.random.default_rng(seed)
    z = rng.uniform(1.0, 4.0, count)
    means = np.stack([rng.uniform(-0.8, 0.8, count) * z, rng.uniform(-0.6, 0.6, count) * z, z], axis=1)
    quats, scales = rng.normal(size=(count, 4)), np.log(rng.uniform(0.004, 0.05, (count, 3)))
    means[3, 1], quats[5] = np.nan, 0.0
    arrays = (means, quats, scales, rng.normal(0, 1.5, count), rng.uniform(0, 1, (count, 3)))
    pose = np.eye(4)
    pose[:3, :3] = [[0.96, 0, 0.28], [0, 1, 0], [-0.28, 0, 0.96]]
    pose[:3, 3] = [-0.5, 0.1, 0.2]
    camera = SplatCamera(300.0, 310.0, 150.3, 104.8, size[0], size[1], pose)
    return Gaussians(*(a.astype(np.float32) for a in arrays)), camera


def close(got, want, share=0.99, within=2e-3):
    """That share of the pixels agrees, and on average nothing leans."""
    error = np.abs(got - want)
    return np.quantile(error, share) < within and abs(float(np.mean(got - want))) < within / 10


@pytest.fixture(scope="module")
def pair(engine):
    """Both renderings of the cloud, with statistics."""
    gaussians, camera = scene()
    renderers = CpuRenderer(), GsplatRenderer(engine)
    return renderers, [r.forward(gaussians, camera, BACKGROUND, depth_statistics=True) for r in renderers]


def test_gsplat_is_built_and_chosen(engine, build_seconds):
    assert choose_renderer("cuda").name == choose_renderer("auto").name == "gsplat"
    assert build_seconds < 360


def test_colour_alpha_and_depth_agree(pair):
    _, (ours, theirs) = pair
    assert (
        close(theirs.rgb, ours.rgb)
        and close(theirs.alpha, ours.alpha)
        and close(theirs.depth_sum, ours.depth_sum, within=8e-3)
    )
    assert theirs.dropped == ours.dropped == 2
    assert (theirs.visible == ours.visible).mean() > 0.95  # the boxes are rounded differently


def test_median_and_variance_agree(pair):
    _, (ours, theirs) = pair
    for name, within in (("median_z", 2e-3), ("variance_z", 5e-3)):
        a, b = getattr(ours.statistics, name), getattr(theirs.statistics, name)
        assert (np.isfinite(a) == np.isfinite(b)).mean() > 0.995, name
        both = np.isfinite(a) & np.isfinite(b)
        assert np.quantile(np.abs(a - b)[both], 0.98) < within, name


def test_gradients_agree(pair):
    renderers, images = pair
    rng = np.random.default_rng(1)
    shape = images[0].alpha.shape
    slopes = [rng.normal(size=s).astype(np.float32) for s in ((*shape, 3), shape, shape)]
    a, b = (r.backward(image, *slopes) for r, image in zip(renderers, images, strict=True))
    for name in (*PARAMETERS, "mean2d_norm", "camera_twist"):
        want, got = getattr(a, name), getattr(b, name)
        assert np.isfinite(got).all()
        assert np.linalg.norm(got - want) < 0.03 * np.linalg.norm(want), name
    assert not b.means_in_world[[3, 5]].any()


def test_nothing_in_view_is_the_background(engine):
    gaussians, camera = scene(50)
    behind = Gaussians(**{**vars(gaussians), "means_in_world": -np.abs(gaussians.means_in_world) - 5})
    none = Gaussians(*(getattr(gaussians, name)[:0] for name in PARAMETERS))
    renderer = GsplatRenderer(engine)
    for these in (behind, none):
        image = renderer.forward(these, camera, BACKGROUND, depth_statistics=True)
        assert np.abs(image.rgb - np.float32(BACKGROUND)).max() < 1e-6 and not image.alpha.any()
        assert np.isnan(image.statistics.median_z).all()
        assert not renderer.backward(image, image.rgb, image.alpha, image.alpha).means_in_world.any()


def test_harmonics_of_every_degree_give_the_same_colours(engine):
    import torch

    from cuda_kernels.splat import eval_sh
    from recon.tensor_draw import draw

    gaussians, camera = scene(2000)
    good = Gaussians(*(np.delete(getattr(gaussians, name), [3, 5], axis=0) for name in PARAMETERS))
    centre = np.linalg.inv(camera.camera_from_world)[:3, 3].astype(np.float32)
    sh = np.random.default_rng(3).normal(0, 0.3, (1998, 16, 3)).astype(np.float32)
    tensors = [torch.tensor(getattr(good, name), device=engine.device) for name in PARAMETERS[:4]]
    for degree in range(4):
        colours = eval_sh(sh, good.means_in_world - centre, degree)
        want = CpuRenderer().forward(Gaussians(**{**vars(good), "colors": colours}), camera, BACKGROUND)
        got = draw(
            engine, tensors[0], tensors[1], tensors[2].exp(), tensors[3].sigmoid(), torch.tensor(sh, device=engine.device),
            camera, BACKGROUND, sh_degree=degree,
        )  # fmt: skip
        assert close(got.rgb.detach().cpu().numpy(), want.rgb), degree


def test_a_thousand_pictures_leave_no_memory_behind(engine, memory_returns):
    gaussians, camera = scene(2000, (160, 100))
    renderer = GsplatRenderer(engine)
    for _ in range(1000):
        image = renderer.forward(gaussians, camera, BACKGROUND, depth_statistics=False)
    renderer.backward(image, image.rgb, image.alpha, image.alpha)
    del image


def test_a_fisheye_agrees_beyond_90_degrees_too(engine):
    """Kannala-Brandt with coefficients; distances along the ray, all gradients, the pose's too."""
    rng = np.random.default_rng(4)
    way = rng.normal(size=(8000, 3))
    means = way / np.linalg.norm(way, axis=1, keepdims=True) * rng.uniform(0.5, 3.0, (8000, 1))
    arrays = (
        means, rng.normal(size=(8000, 4)), np.log(rng.uniform(0.005, 0.05, (8000, 3))), rng.normal(0, 1.5, 8000),
        rng.uniform(0, 1, (8000, 3)),
    )  # fmt: skip
    gaussians = Gaussians(*(a.astype(np.float32) for a in arrays))
    pose = scene(10)[1].camera_from_world
    lens = SplatCamera(
        75.0, 76.0, 130.3, 96.2, 261, 193, pose, kb4=(0.05, -0.01, 0.002, -0.0001), valid_theta_rad=1.9
    )  # fmt: skip
    renderers = CpuRenderer(), GsplatRenderer(engine)
    ours, theirs = (r.forward(gaussians, lens, BACKGROUND, depth_statistics=True) for r in renderers)
    assert ours.along_ray and theirs.along_ray
    assert close(theirs.rgb, ours.rgb) and close(theirs.alpha, ours.alpha)
    assert close(theirs.depth_sum, ours.depth_sum, within=8e-3)
    medians = theirs.statistics.median_z, ours.statistics.median_z
    assert np.nanquantile(np.abs(medians[0] - medians[1]), 0.98) < 2e-3
    shape = ours.alpha.shape
    slopes = [rng.normal(size=s).astype(np.float32) for s in ((*shape, 3), shape, shape)]
    a, b = (r.backward(image, *slopes) for r, image in zip(renderers, (ours, theirs), strict=True))
    for name in (*PARAMETERS, "camera_twist"):
        want, got = getattr(a, name), getattr(b, name)
        assert np.linalg.norm(got - want) < 0.03 * np.linalg.norm(want), name
