"""``cuda_kernels.splat`` as a torch operation, called like ``gsplat.rasterization``: the same code without a GPU.

It lets torch differentiate through the CPU's rasteriser, and everything written for gsplat run where no GPU is.
Import this module where it is used only: it imports torch.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from cuda_kernels.splat import (
    DepthStatistics,
    SplatCamera,
    SplatGradients,
    SplatImage,
    eval_sh,
    eval_sh_backward,
    rasterize,
    rasterize_backward,
)
from recon.errors import ReconError
from recon.tensor_draw import PIXEL_SHIFT, Engine

_EPSILON = 1e-7  # opacities are kept this far from 0 and 1, where their logits end


def cpu_engine() -> Engine:
    """The CPU's rasteriser in gsplat's place."""
    return Engine("cpu", cpu_rasterization, _cpu_fisheye, _statistics)


def cpu_rasterization(
    means: Any,
    quats: Any,
    scales: Any,
    opacities: Any,
    colors: Any,
    viewmats: Any,
    Ks: Any,
    width: int,
    height: int,
    near_plane: float = 0.01,
    sh_degree: int | None = None,
    render_mode: str = "RGB",
    **others: Any,
) -> tuple[Any, Any, dict[str, Any]]:
    """Draw from one camera. Arguments and results as of ``gsplat.rasterization`` 1.5 with ``packed=False``.

    ``info`` has width, height, n_cameras, gaussian_ids, radii (1 or 0: drawn or not) and means2d. Of the gradient by
    ``means2d`` only the length is known here: it stands in the first column. Other options must have their defaults.

    Raises:
        ReconError: several cameras, a skewed K, or an option that the CPU's rasteriser does not have.
    """
    ignored = {"packed": False, "tile_size": 16, "absgrad": False}
    unknown = {name: value for name, value in others.items() if name not in ignored or value != ignored[name]}
    if unknown or len(viewmats) != 1 or render_mode not in ("RGB", "RGB+D", "RGB+ED"):
        raise ReconError(f"the CPU rasteriser draws one camera in RGB or RGB+D or RGB+ED, and does not know {unknown}")
    k = Ks[0].detach().double().numpy()
    if k[0, 1]:
        raise ReconError(f"K has skew {k[0, 1]}; undistort to a camera without skew first")
    fx, fy, cx, cy = map(float, (k[0, 0], k[1, 1], k[0, 2] - PIXEL_SHIFT, k[1, 2] - PIXEL_SHIFT))
    camera = SplatCamera(fx, fy, cx, cy, width, height, np.eye(4), near_plane)
    rgb, alpha, depth, info = _drawn(means, quats, scales, opacities, colors, viewmats[0], camera, sh_degree)
    if render_mode == "RGB":
        return rgb[None], alpha[None, ..., None], info
    if render_mode == "RGB+ED":
        depth = depth / alpha.clamp(min=1e-10)
    return torch.cat([rgb, depth[..., None]], dim=-1)[None], alpha[None, ..., None], info


def _cpu_fisheye(
    means: Any, quats: Any, scales: Any, opacities: Any, colors: Any, camera_from_world: Any, camera: SplatCamera
) -> tuple[Any, Any, dict[str, Any]]:
    """See ``recon.torch_fisheye.blend_with_gsplat``."""
    rgb, alpha, depth, info = _drawn(means, quats, scales, opacities, colors, camera_from_world, camera, None)
    return torch.cat([rgb, depth[..., None]], dim=-1)[None], alpha[None, ..., None], info


def _drawn(
    means: Any, quats: Any, scales: Any, opacities: Any, colors: Any, camera_from_world: Any, camera: SplatCamera,
    sh_degree: int | None,
) -> tuple[Any, Any, Any, dict[str, Any]]:  # fmt: skip
    """Colour, alpha, accumulated depth and gsplat's "info"; ``camera_from_world`` stands for the camera's own."""
    means2d = torch.zeros(1, len(means), 2, requires_grad=torch.is_grad_enabled())
    info: dict[str, Any] = {}
    rgb, alpha, depth = _Rasterize.apply(
        means, quats, scales, opacities, colors, camera_from_world, means2d, camera, sh_degree, info
    )
    image: SplatImage = info["image"]
    info.update(
        width=camera.width_px, height=camera.height_px, n_cameras=1, gaussian_ids=None, means2d=means2d, tile_size=16,
        radii=torch.from_numpy(np.repeat(image.visible.astype(np.int32)[None, :, None], 2, axis=2)),
    )  # fmt: skip
    return rgb, alpha, depth, info


def _statistics(info: dict[str, Any], camera: SplatCamera) -> DepthStatistics:
    """The picture once more, with its statistics."""
    saved = info["arguments"]
    statistics = rasterize(*saved, depth_statistics=True).statistics
    if statistics is None:
        raise AssertionError("depth statistics were asked for")
    return statistics


class _Rasterize(torch.autograd.Function):  # type: ignore[misc]
    """Forward and backward of ``cuda_kernels.splat`` in gsplat's parameters: scales and opacities, not their logs."""

    @staticmethod
    def forward(
        ctx: Any,
        means: Any,
        quats: Any,
        scales: Any,
        opacities: Any,
        colors: Any,
        camera_from_world: Any,
        means2d: Any,
        camera: SplatCamera,
        sh_degree: int | None,
        info: dict[str, Any],
    ) -> tuple[Any, Any, Any]:
        arrays = [t.detach().numpy() for t in (means, quats, scales, opacities, colors)]
        pose = camera_from_world.detach().double().numpy()
        camera = replace(camera, camera_from_world=pose)
        opacity = np.clip(arrays[3].astype(np.float64), _EPSILON, 1 - _EPSILON)
        logits = np.log(opacity / (1 - opacity)).astype(np.float32)
        paint, directions = arrays[4], np.zeros_like(arrays[0])
        if sh_degree is not None:
            directions = arrays[0] + (pose[:3, :3].T @ pose[:3, 3]).astype(np.float32)
            paint = eval_sh(arrays[4], directions, sh_degree)
        with np.errstate(divide="ignore", invalid="ignore"):
            arguments = (arrays[0], arrays[1], np.log(arrays[2]), logits, paint, camera)
        image = rasterize(*arguments)
        ctx.image, ctx.scales, ctx.opacity, ctx.pose = image, arrays[2], opacity, pose
        ctx.sh = (arrays[4], directions, sh_degree)
        info.update(image=image, arguments=arguments)
        return torch.from_numpy(image.rgb), torch.from_numpy(image.alpha), torch.from_numpy(image.depth_sum)

    @staticmethod
    def backward(ctx: Any, d_rgb: Any, d_alpha: Any, d_depth: Any) -> tuple[Any, ...]:
        slopes: SplatGradients = rasterize_backward(ctx.image, d_rgb.numpy(), d_alpha.numpy(), d_depth.numpy())
        with np.errstate(divide="ignore", invalid="ignore"):
            d_scales = np.nan_to_num(slopes.log_scales / ctx.scales, nan=0.0, posinf=0.0, neginf=0.0)
        d_opacities = (slopes.opacity_logits / (ctx.opacity * (1 - ctx.opacity))).astype(np.float32)
        d_means, d_colors = slopes.means_in_world, slopes.colors
        coefficients, directions, degree = ctx.sh
        if degree is not None:
            d_colors, d_directions = eval_sh_backward(coefficients, directions, d_colors, degree)
            d_means = d_means + d_directions
        d_means2d = np.stack([slopes.mean2d_norm, np.zeros_like(slopes.mean2d_norm)], axis=1)[None]
        arrays = (d_means, slopes.quats_wxyz, d_scales, d_opacities, d_colors, _d_pose(slopes.camera_twist, ctx.pose))
        tensors = [torch.from_numpy(np.ascontiguousarray(a, dtype=np.float32)) for a in (*arrays, d_means2d)]
        return (*tensors, None, None, None)


def _d_pose(twist: np.ndarray, camera_from_world: np.ndarray) -> np.ndarray:
    """A gradient by the 4x4 entries that gives this one along every rigid motion; see ``twist_gradient``."""
    x, y, z = twist[:3] / 2
    out = np.zeros((4, 4))
    turning = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    out[:3, :3] = (turning - np.outer(twist[3:], camera_from_world[:3, 3])) @ camera_from_world[:3, :3]
    out[:3, 3] = twist[3:]
    return out
