"""``gsplat.rasterization`` itself on the CPU: its own torch reference for the parts that it writes in CUDA.

gsplat ships torch versions of projection, tile lists and harmonics, but calls the CUDA ones; blending is written here
after its CUDA source. So our calls, shapes and what we read of its results are tried on its real code without a GPU.
``NUMBA_ENABLE_CUDASIM=1 python gsplat_reference.py`` tries the depth statistics on its real tile lists.
"""

import sys
from types import SimpleNamespace

import numpy as np
import torch

ALPHA_MIN, ALPHA_MAX, LIGHT_MIN = 1 / 255, 0.999, 1e-4


def projection(
    means, covars, quats, scales, viewmats, Ks, width, height, eps2d, packed, near_plane, far_plane, radius_clip,
    sparse_grad, calc_compensations, camera_model, opacities,
):  # fmt: skip
    from gsplat.cuda._torch_impl import _fully_fused_projection, _quat_scale_to_covar_preci

    assert covars is None and not packed and not sparse_grad and radius_clip == 0.0
    covars, _ = _quat_scale_to_covar_preci(quats, scales, True, False)
    return _fully_fused_projection(
        means, covars, viewmats, Ks, width, height, eps2d, near_plane, far_plane, calc_compensations, camera_model
    )


def tiles(
    means2d, radii, depths, tile_size, tile_width, tile_height, segmented=False, packed=False, n_images=None, **_
):
    from gsplat.cuda._torch_impl import _isect_tiles

    assert not segmented and not packed and n_images == 1 and radii.dtype == torch.int32
    return _isect_tiles(means2d.detach(), radii, depths.detach(), tile_size, tile_width, tile_height)


def offsets(isect_ids, n_images, tile_width, tile_height):
    from gsplat.cuda._torch_impl import _isect_offset_encode

    return _isect_offset_encode(isect_ids, n_images, tile_width, tile_height)


def harmonics(degrees_to_use, dirs, coeffs, masks=None):
    from gsplat.cuda._torch_impl import _spherical_harmonics

    return _spherical_harmonics(degrees_to_use, torch.nn.functional.normalize(dirs, dim=-1), coeffs)


def blend(
    means2d, conics, colors, opacities, image_width, image_height, tile_size, isect_offsets, flatten_ids,
    backgrounds=None, masks=None, packed=False, absgrad=False,
):  # fmt: skip
    """After RasterizeToPixels3DGSFwd.cu: one tile after the other, near to far."""
    assert backgrounds is None and masks is None and not packed and means2d.shape[0] == 1
    bounds = [*isect_offsets.reshape(-1).tolist(), len(flatten_ids)]
    columns = isect_offsets.shape[-1]
    painted, covered = [], []
    for row in range(isect_offsets.shape[-2]):
        strip = []
        for column in range(columns):
            tile = row * columns + column
            v, u = torch.meshgrid(torch.arange(tile_size), torch.arange(tile_size), indexing="ij")
            x, y = u + column * tile_size + 0.5, v + row * tile_size + 0.5
            light, open_ = torch.ones_like(x), torch.ones_like(x, dtype=torch.bool)
            paint = torch.zeros(*x.shape, colors.shape[-1])
            for g in flatten_ids[bounds[tile] : bounds[tile + 1]].tolist():
                dx, dy = means2d[0, g, 0] - x, means2d[0, g, 1] - y
                a, b, c = conics[0, g]
                power = 0.5 * (a * dx * dx + c * dy * dy) + b * dx * dy
                alpha = (opacities[0, g] * torch.exp(-power)).clamp(max=ALPHA_MAX)
                reached = open_ & (power >= 0) & (alpha >= ALPHA_MIN)
                after = light * (1 - alpha)
                open_ = open_ & ~(reached & (after <= LIGHT_MIN))
                alpha = torch.where(reached & open_, alpha, torch.zeros_like(alpha))
                paint = paint + (alpha * light)[..., None] * colors[0, g]
                light = light * (1 - alpha)
            strip.append(torch.cat([paint, (1 - light)[..., None]], dim=-1))
        painted.append(torch.cat(strip, dim=1))
    image = torch.cat(painted, dim=0)[None, :image_height, :image_width]
    covered = image[..., -1:]
    return image[..., :-1], covered


def patches():
    """(module, name, replacement) for monkeypatching."""
    import gsplat
    import gsplat.rendering

    ours = {
        "fully_fused_projection": projection, "isect_tiles": tiles, "isect_offset_encode": offsets,
        "rasterize_to_pixels": blend, "spherical_harmonics": harmonics,
    }  # fmt: skip
    return [(module, name, function) for name, function in ours.items() for module in (gsplat, gsplat.rendering)]


def engine():
    """The real ``gsplat_engine`` but for its device and the build."""
    from gsplat import rasterization

    from recon.gsplat_backend import _statistics
    from recon.tensor_draw import Engine
    from recon.torch_fisheye import blend_with_gsplat

    return Engine("cpu", rasterization, blend_with_gsplat, _statistics)


def scene(count=40, size=(21, 18), seed=0):
    """A cloud before a turned camera, principal point off centre."""
    from cuda_kernels.splat import SplatCamera
    from recon.renderer import Gaussians

    rng = np.random.default_rng(seed)
    z = rng.uniform(1.0, 3.0, count)
    means = np.stack([rng.uniform(-0.6, 0.6, count) * z, rng.uniform(-0.6, 0.6, count) * z, z], axis=1)
    arrays = (
        means, rng.normal(size=(count, 4)), np.log(rng.uniform(0.05, 0.2, (count, 3))), rng.normal(1, 1.5, count),
        rng.uniform(0, 1, (count, 3)),
    )  # fmt: skip
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = [[0.96, 0, 0.28], [0, 1, 0], [-0.28, 0, 0.96]], [-0.5, 0.1, 0.2]
    camera = SplatCamera(24.0, 25.0, 9.3, 8.8, size[0], size[1], pose)
    return Gaussians(*(a.astype(np.float32) for a in arrays)), camera


def try_statistics():
    from recon.backend import CpuRenderer
    from recon.gsplat_backend import GsplatRenderer

    for module, name, function in patches():
        setattr(module, name, function)
    torch.cuda.current_stream = lambda: SimpleNamespace(synchronize=lambda: None)
    gaussians, camera = scene()
    renderers = CpuRenderer(), GsplatRenderer(engine())
    ours, theirs = (r.forward(gaussians, camera, (0, 0, 0), depth_statistics=True) for r in renderers)
    for name in ("median_z", "variance_z"):
        a, b = getattr(ours.statistics, name), getattr(theirs.statistics, name)
        assert (np.isfinite(a) == np.isfinite(b)).mean() > 0.99, name
        assert np.nanquantile(np.abs(a - b), 0.98) < 1e-3, name
    assert 0.2 < np.isfinite(ours.statistics.median_z).mean() < 1


if __name__ == "__main__":
    try_statistics()
    sys.stdout.write("statistics agree\n")
