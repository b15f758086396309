"""gsplat's torch reference on a CPU, as far as it runs there.

``gsplat.cuda._torch_impl`` projects on any device. Its compositing needs CUDA for finding (gaussian, pixel) pairs and
the package nerfacc for the scan along rays: here the pairs are found beforehand by numpy (not timed: this flatters it)
and the scan is a cumulative sum of logarithms in torch. Everything else is gsplat's own code and torch's autograd.
"""

import time
import types

import numpy as np

from benchmarks.splat_scenes import random_scene


def measure_torch(count, size):
    """Wall and CPU seconds forward and forward + backward, and the largest colour difference from ours."""
    import sys

    import torch

    stand_in = types.ModuleType("nerfacc")
    stand_in.render_weight_from_alpha = _weights
    stand_in.accumulate_along_rays = _accumulate
    had = sys.modules.get("nerfacc")
    sys.modules["nerfacc"] = stand_in
    try:
        arrays, camera = random_scene(count, size)
        leaves = [torch.tensor(array, requires_grad=True) for array in arrays]
        with torch.no_grad():
            pairs = _pairs(leaves, camera)
            image = _draw(leaves, camera, pairs)
        forward, both = [], []
        for _ in range(2):
            with torch.no_grad():
                forward.append(_clock(lambda: _draw(leaves, camera, pairs)))
            both.append(_clock(lambda: _draw(leaves, camera, pairs).sum().backward()))
    finally:
        if had is None:
            del sys.modules["nerfacc"]
        else:
            sys.modules["nerfacc"] = had
    from cuda_kernels.splat import rasterize

    difference = np.abs(image.numpy() - rasterize(*arrays, camera).rgb)
    return min(forward), min(both), len(pairs[0]), float(np.quantile(difference, 0.999))


def _clock(work):
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def _project(leaves, camera):
    import torch
    from gsplat.cuda._torch_impl import _fully_fused_projection, _quat_scale_to_covar_preci

    means, quats, log_scales = leaves[:3]
    covars, _ = _quat_scale_to_covar_preci(quats, log_scales.exp(), compute_covar=True, compute_preci=False)
    k = [[camera.fx_px, 0, camera.cx_px + 0.5], [0, camera.fy_px, camera.cy_px + 0.5], [0, 0, 1]]
    matrix = torch.tensor(k, dtype=torch.float32)[None]
    pose = torch.tensor(camera.camera_from_world, dtype=torch.float32)[None]
    return _fully_fused_projection(means, covars, pose, matrix, camera.width_px, camera.height_px)


def _draw(leaves, camera, pairs):
    import torch
    from gsplat.cuda._torch_impl import accumulate

    _, means2d, _, conics, _ = _project(leaves, camera)
    opacities, colors = torch.sigmoid(leaves[3])[None], leaves[4][None]
    gaussians, pixels = pairs
    views = torch.zeros_like(pixels)
    width, height = camera.width_px, camera.height_px
    return accumulate(means2d, conics, opacities, colors, gaussians, pixels, views, width, height)[0][0]


def _pairs(leaves, camera):
    """(gaussian, pixel) with alpha of at least 1/255, pixel after pixel, near to far."""
    import torch

    radii, means2d, depths, conics, _ = _project(leaves, camera)
    drawn = (radii[0] > 0).all(dim=-1) & (depths[0] > camera.near_m)
    order = torch.argsort(depths[0])
    opacity = torch.sigmoid(leaves[3]).numpy()
    means, conics = means2d[0].numpy(), conics[0].numpy()
    gaussians, pixels = [], []
    for i in order[drawn[order]].numpy():
        (x, y), (a, b, c) = means[i], conics[i]
        reach = 2 * np.log(max(opacity[i] * 255, 1.0))
        det = a * c - b * b
        half_w, half_h = np.sqrt(reach * c / det), np.sqrt(reach * a / det)
        u = np.arange(max(int(x - half_w), 0), min(int(x + half_w) + 2, camera.width_px))
        v = np.arange(max(int(y - half_h), 0), min(int(y + half_h) + 2, camera.height_px))
        dx, dy = u + 0.5 - x, (v + 0.5 - y)[:, None]
        rows, columns = np.nonzero(opacity[i] * np.exp(-0.5 * (a * dx * dx + c * dy * dy) - b * dx * dy) >= 1 / 255)
        pixels.append(v[rows] * camera.width_px + u[columns])
        gaussians.append(np.full(len(rows), i))
    pixel, gaussian = np.concatenate(pixels), np.concatenate(gaussians)
    by_pixel = np.argsort(pixel, kind="stable")
    return torch.from_numpy(gaussian[by_pixel]), torch.from_numpy(pixel[by_pixel].astype(np.int64))


def _weights(alphas, ray_indices, n_rays):
    """Blending weights and transmittances of samples sorted by ray: exclusive products within each ray."""
    import torch

    logs = torch.log1p(-alphas.double())
    before = torch.cumsum(logs, 0) - logs
    counts = torch.bincount(ray_indices, minlength=n_rays)
    first = torch.cumsum(counts, 0) - counts
    light = torch.exp(before - before[first.clamp(max=max(len(alphas) - 1, 0))][ray_indices]).float()
    return light * alphas, light


def _accumulate(weights, values, ray_indices, n_rays):
    import torch

    samples = weights[:, None] if values is None else weights[:, None] * values
    out = torch.zeros(n_rays, samples.shape[1], dtype=samples.dtype)
    return out.index_add(0, ray_indices, samples)
