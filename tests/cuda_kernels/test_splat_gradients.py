"""Gradients of the splat rasteriser: finite differences and float64 autograd, both over the plain formulas."""

import numba
import numpy as np
import pytest
from splat_scenes import (
    FIELDS,
    assert_gradients_are_slopes,
    balls,
    camera,
    cloud,
    image_gradients,
    logit_of,
    tilted,
)

from cuda_kernels.errors import KernelError
from cuda_kernels.splat import rasterize, rasterize_backward
from cuda_kernels.splat.api import _checked_gradient
from cuda_kernels.splat.rules import ALPHA_MAX, ALPHA_MIN, EPS2D_PX2, FOV_MARGIN, TRANSMITTANCE_MIN

PAPER = np.array([0.2, 0.5, 0.8])


def test_gradients_agree_with_finite_differences_of_the_float64_reference():
    assert_gradients_are_slopes(cloud(9, sigma_m=0.3, seed=4), tilted(camera(17, 14, focal=15.0)), PAPER)


def render_torch(means, quats, log_scales, logits, colors, view, camera_from_world):
    """The rule in torch float64, dense, for autograd. Written apart from both the kernels and the reference."""
    import torch

    width, height = view.width_px, view.height_px
    fx, fy, cx, cy = view.fx_px, view.fy_px, view.cx_px, view.cy_px
    in_camera = means @ camera_from_world[:3, :3].T + camera_from_world[:3, 3]
    x, y, z = in_camera.unbind(1)
    w, a, b, c = (quats / quats.norm(dim=1, keepdim=True)).unbind(1)
    spin = torch.stack([
        w * w + a * a - b * b - c * c, 2 * (a * b - w * c), 2 * (a * c + w * b),
        2 * (a * b + w * c), w * w - a * a + b * b - c * c, 2 * (b * c - w * a),
        2 * (a * c - w * b), 2 * (b * c + w * a), w * w - a * a - b * b + c * c,
    ], dim=1).view(-1, 3, 3)  # fmt: skip
    root = camera_from_world[:3, :3] @ spin @ torch.diag_embed(log_scales.exp())
    margin_x, margin_y = FOV_MARGIN * width / (2 * fx), FOV_MARGIN * height / (2 * fy)
    ux = (x / z).clamp(-(cx + 0.5) / fx - margin_x, (width - cx - 0.5) / fx + margin_x)
    uy = (y / z).clamp(-(cy + 0.5) / fy - margin_y, (height - cy - 0.5) / fy + margin_y)
    none = torch.zeros_like(z)
    jacobian = torch.stack([fx / z, none, -fx * ux / z, none, fy / z, -fy * uy / z], dim=1).view(-1, 2, 3)
    flat = jacobian @ root @ (jacobian @ root).transpose(1, 2) + EPS2D_PX2 * torch.eye(2, dtype=z.dtype)
    conic = torch.linalg.inv(flat)
    v, u = torch.meshgrid(torch.arange(height, dtype=z.dtype), torch.arange(width, dtype=z.dtype), indexing="ij")
    light, closed = torch.ones_like(u), torch.zeros_like(u, dtype=torch.bool)
    rgb, depth = torch.zeros(height, width, 3, dtype=z.dtype), torch.zeros_like(u)
    for i in torch.argsort(z.detach(), stable=True):
        if z[i] < view.near_m:
            continue
        dx, dy = u - (fx * x[i] / z[i] + cx), v - (fy * y[i] / z[i] + cy)
        sigma = (conic[i, 0, 0] * dx * dx + 2 * conic[i, 0, 1] * dx * dy + conic[i, 1, 1] * dy * dy) / 2
        alpha = (torch.sigmoid(logits[i]) * torch.exp(-sigma)).clamp(max=ALPHA_MAX)
        reached = (alpha >= ALPHA_MIN) & ~closed
        after = light * (1 - alpha)
        closed = closed | (reached & (after <= TRANSMITTANCE_MIN))
        reached = reached & ~closed
        weight = torch.where(reached, light * alpha, 0.0)
        rgb, depth = rgb + weight[..., None] * colors[i], depth + weight * z[i]
        light = torch.where(reached, after, light)
    return rgb + light[..., None] * torch.as_tensor(PAPER), 1 - light, depth


@pytest.mark.parametrize(("count", "sigma_m", "seed"), [(250, 0.05, 0), (150, 0.3, 1), (250, 0.02, 2)])
def test_gradients_agree_with_float64_autograd(count, sigma_m, seed):
    """Hundreds of gaussians, some clamped, some behind full cover; parameters and the camera's twist."""
    import torch

    scene, view = cloud(count, sigma_m, seed), tilted(camera(40, 37, focal=36.0))
    leaves = [torch.tensor(array, requires_grad=True) for array in scene.doubles]
    twist = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    w, zero = twist[:3], twist[0] * 0
    hat = torch.stack([zero, -w[2], w[1], w[2], zero, -w[0], -w[1], w[0], zero]).view(3, 3)
    top = torch.cat([torch.linalg.matrix_exp(hat), twist[3:, None]], dim=1)
    nudge = torch.cat([top, torch.tensor([[0.0, 0, 0, 1]], dtype=torch.float64)])
    images = render_torch(*leaves, view, nudge @ torch.as_tensor(view.camera_from_world))
    d_images = image_gradients(view, seed)
    loss = sum((image * torch.as_tensor(d_image)).sum() for image, d_image in zip(images, d_images, strict=True))
    loss.backward()
    gradients = rasterize_backward(rasterize(*scene.arrays, view, PAPER), *d_images)
    for name, leaf in zip((*FIELDS, "camera_twist"), (*leaves, twist), strict=True):
        truth = leaf.grad.numpy()
        assert np.linalg.norm(truth) > 0
        error = np.linalg.norm(getattr(gradients, name) - truth) / np.linalg.norm(truth)
        assert error < 1e-3, name  # some 1e-6, unless a pixel falls on the other side of a threshold


def test_a_gradient_left_out_is_zero():
    scene, view = cloud(60, 0.2), camera()
    image = rasterize(*scene.arrays, view)
    d_rgb = image_gradients(view)[0]
    zero = np.zeros(image.alpha.shape)
    without, with_zero = rasterize_backward(image, d_rgb), rasterize_backward(image, d_rgb, zero, zero)
    for name in FIELDS:
        assert np.array_equal(getattr(without, name), getattr(with_zero, name))


def test_gaussians_that_are_not_drawn_get_no_gradient():
    """One behind the camera, one broken, one fully hidden; the drawn one gets some."""
    scene = balls([[0, 0, 1], [0, 0, -1], [0, 0, np.nan], [0, 0, 3]], sigma_m=[5.0, 1.0, 1.0, 0.01], logit=3.0)
    cover = balls(np.tile([[0, 0, 2.0]], (8, 1)), sigma_m=20.0)
    scene = type(scene)(*(np.concatenate([a, b]) for a, b in zip(scene.arrays, cover.arrays, strict=True)))
    view = camera(16, 16)
    gradients = rasterize_backward(rasterize(*scene.arrays, view), np.ones((16, 16, 3)))
    for name in FIELDS:
        values = getattr(gradients, name)
        assert np.isfinite(values).all()
        assert not values[1:4].any(), name
    assert gradients.colors[0].all()
    assert gradients.opacity_logits[0] != 0


def test_where_alpha_is_clamped_shape_and_opacity_get_no_gradient_but_colour_does():
    """Opacity 1 and a splat far larger than the image: alpha is 0.999 everywhere."""
    view = camera(8, 8)
    gradients = rasterize_backward(
        rasterize(*balls([[0, 0, 1]], sigma_m=1e4).arrays, view), np.ones((8, 8, 3)), None, None
    )
    assert gradients.colors[0] == pytest.approx(np.full(3, 64 * ALPHA_MAX), rel=1e-4)
    assert not gradients.means_in_world.any() and not gradients.log_scales.any()
    assert not gradients.opacity_logits.any()


def test_one_pixel_by_hand():
    """A flat sheet of opacity 0.5 in front of paper 0.25: C = 0.5 c + 0.5 * 0.25, so dC/dc = 0.5 and
    dC/dlogit = o (1 - o) (c - 0.25) = 0.25 * 0.75 for white; alpha and depth at z = 4: 0.25, and 0.25 * 4."""
    view = camera(1, 1)
    scene = balls([[0, 0, 4]], sigma_m=1e4, logit=logit_of(0.5))
    image = rasterize(*scene.arrays, view, np.full(3, 0.25))
    one, zero = np.ones((1, 1)), np.zeros((1, 1))
    red = np.array([[[1.0, 0, 0]]])
    by_colour = rasterize_backward(image, red)
    assert by_colour.colors[0] == pytest.approx([0.5, 0, 0], abs=1e-5)
    assert by_colour.opacity_logits[0] == pytest.approx(0.25 * 0.75, abs=1e-5)
    assert rasterize_backward(image, 0 * red, one, zero).opacity_logits[0] == pytest.approx(0.25, abs=1e-5)
    by_depth = rasterize_backward(image, 0 * red, zero, one)
    assert by_depth.opacity_logits[0] == pytest.approx(1.0, abs=1e-4)
    assert by_depth.means_in_world[0] == pytest.approx([0, 0, 0.5], abs=1e-4)


def test_mean2d_norm_is_the_pull_on_the_centre_in_pixels():
    """Moving a splat by one pixel is moving its mean by z / focal: the norms differ by focal / z."""
    view = camera(32, 32, focal=50.0)
    scene = balls([[0.03, -0.02, 2.0]], sigma_m=0.1, logit=0.0)
    d_rgb = image_gradients(view)[0]
    gradients = rasterize_backward(rasterize(*scene.arrays, view), d_rgb)
    across = np.linalg.norm(gradients.means_in_world[0, :2])
    assert gradients.mean2d_norm[0] == pytest.approx(across * 2.0 / 50.0, rel=0.05)  # the shape leans a little too


def test_nothing_in_view_gives_zero_gradients():
    view = camera(8, 8)
    for scene in (cloud(0), balls([[0, 0, -1]])):
        gradients = rasterize_backward(rasterize(*scene.arrays, view), np.ones((8, 8, 3)))
        assert gradients.means_in_world.shape == scene.means.shape
        assert not any(getattr(gradients, name).any() for name in (*FIELDS, "mean2d_norm", "camera_twist"))


@pytest.mark.parametrize("log_scale", [-90.0, 20.0, 88.0])
def test_extreme_scales_give_finite_gradients(log_scale):
    view = camera(20, 20)
    scene = balls([[0.1, 0, 2], [0, 0.2, 3]], logit=1.0)
    scene.log_scales[:] = log_scale
    gradients = rasterize_backward(rasterize(*scene.arrays, view), *image_gradients(view))
    assert all(np.isfinite(getattr(gradients, name)).all() for name in (*FIELDS, "mean2d_norm", "camera_twist"))


def test_any_number_of_threads_gives_the_same_bytes():
    scene, view = cloud(2000, seed=5), tilted(camera(150, 110, focal=120.0))
    available = numba.get_num_threads()
    results = []
    try:
        for threads in sorted({1, min(2, available), available}):
            numba.set_num_threads(threads)
            gradients = rasterize_backward(rasterize(*scene.arrays, view), *image_gradients(view))
            results.append([getattr(gradients, name) for name in (*FIELDS, "mean2d_norm", "camera_twist")])
    finally:
        numba.set_num_threads(available)
    for other in results[1:]:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(results[0], other, strict=True))


def test_descent_along_the_gradient_finds_a_known_splat():
    """The gradients are good for something: one splat, a pixel and a half off, wrong size and colour, is fitted."""
    view = camera(24, 24)
    truth = balls([[0.05, -0.03, 2.0]], sigma_m=0.15, logit=0.5, colors=[[0.9, 0.2, 0.4]])
    target = rasterize(*truth.arrays, view).rgb
    guess = balls([[-0.02, 0.02, 2.0]], sigma_m=0.1, logit=0.0, colors=[[0.5, 0.5, 0.5]])
    moments = [(np.zeros_like(a), np.zeros_like(a)) for a in guess.arrays]
    for step in range(1, 301):
        image = rasterize(*guess.arrays, view)
        gradients = rasterize_backward(image, 2 * (image.rgb - target))
        for array, name, (first, second) in zip(guess.arrays, FIELDS, moments, strict=True):
            slope = getattr(gradients, name)
            first += 0.1 * (slope - first)
            second += 0.01 * (slope * slope - second)
            scaled = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.99**step)) + 1e-9)
            array -= np.float32(0.01 * 0.98 ** (step / 5)) * scaled
    assert np.abs(rasterize(*guess.arrays, view).rgb - target).max() < 0.02
    assert guess.means[0, :2] == pytest.approx(truth.means[0, :2], abs=0.01)


def test_wrong_gradients_are_refused():
    with pytest.raises(KernelError, match=r"d_rgb has shape \(3, 4\), the image needs \(3, 4, 3\)"):
        _checked_gradient("d_rgb", np.zeros((3, 4)), (3, 4, 3))
    with pytest.raises(KernelError, match="d_alpha holds NaN or infinity"):
        _checked_gradient("d_alpha", np.array([[0.0, np.nan]]), (1, 2))
