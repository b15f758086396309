"""gsplat behind the signature of ``cuda_kernels.splat``; needs a CUDA device.

gsplat measures pixels with the first centre at (0.5, 0.5): the principal point is shifted here, at the border.
Its 3DGS mode has no median depth: the scene is drawn up to a ladder of far planes, and the median is the mean depth
of the slice in which alpha passes one half of its final value.
"""

import importlib.util
from typing import Any

import numpy as np
from jaxtyping import Float

from cuda_kernels.splat import DepthStatistics, SplatCamera, SplatGradients, SplatImage
from recon.model import good_rows
from recon.records import SplatModel
from recon.renderer import Background, Gaussians

_SLICES = 48
_MEDIAN_TRANSMITTANCE = 0.5
_PARAMETERS = ("means_in_world", "quats_wxyz", "log_scales", "opacity_logits", "colors")


def why_not() -> str | None:
    """Why gsplat cannot be used here, or None if it can."""
    if importlib.util.find_spec("gsplat") is None:
        return "gsplat is not installed"
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    import torch

    return None if torch.cuda.is_available() else "torch sees no CUDA device"


class GsplatRenderer:
    """``gsplat.rasterization`` with autograd; arrays go to the device and back on every call."""

    name = "gsplat"

    def forward(
        self, gaussians: Gaussians, camera: SplatCamera, background: Background, depth_statistics: bool = False
    ) -> SplatImage:
        """See ``recon.backend.Renderer.forward``."""
        import torch

        good = good_rows(
            SplatModel(
                gaussians.means_in_world,
                gaussians.log_scales,
                gaussians.quats_wxyz,
                gaussians.opacity_logits,
                gaussians.colors[:, None, :],
            )
        )
        rows = np.flatnonzero(good)
        count = len(good)
        if not len(rows):
            return _nothing(count, camera, background)
        tensors = {
            name: torch.as_tensor(getattr(gaussians, name)[rows], device="cuda").requires_grad_(True)
            for name in _PARAMETERS
        }
        rgb, depth, alpha, info = _draw(tensors, camera, background, far_m=1e10)
        statistics = _statistics(tensors, camera, background, rgb, depth, alpha) if depth_statistics else None
        visible = np.zeros(count, dtype=bool)
        seen = info["radii"].detach().reshape(1, len(rows), -1).amin(dim=-1)[0] > 0
        visible[rows] = seen.cpu().numpy()
        return SplatImage(
            rgb=_array(rgb),
            alpha=_array(alpha),
            depth_sum=_array(depth),
            visible=visible,
            dropped=count - len(rows),
            statistics=statistics,
            saved=(tensors, rows, count, rgb, depth, alpha, info),
        )

    def backward(
        self,
        image: SplatImage,
        d_rgb: Float[np.ndarray, "H W 3"],
        d_alpha: Float[np.ndarray, "H W"],
        d_depth_sum: Float[np.ndarray, "H W"],
    ) -> SplatGradients:
        """See ``recon.backend.Renderer.backward``. The camera's gradient is not asked for here (zeros)."""
        import torch

        if image.saved is None:
            return _gradients(len(image.visible), np.zeros(0, np.int64), {}, np.zeros(0, np.float32))
        tensors, rows, count, rgb, depth, alpha, info = image.saved
        means2d = info["means2d"]
        wanted = [*tensors.values(), means2d]
        given = [
            torch.as_tensor(np.ascontiguousarray(d, dtype=np.float32), device="cuda")
            for d in (d_rgb, d_depth_sum, d_alpha)
        ]
        grads = torch.autograd.grad([rgb, depth, alpha], wanted, grad_outputs=given, allow_unused=True)
        values = {
            name: np.zeros(tuple(tensor.shape), np.float32) if grad is None else _array(grad)
            for (name, tensor), grad in zip(tensors.items(), grads[:-1], strict=True)
        }
        norm = np.zeros(len(rows), np.float32)
        if grads[-1] is not None:
            norm = _array(grads[-1].reshape(-1, 2).norm(dim=-1))
        return _gradients(count, rows, values, norm)


def _draw(
    tensors: dict[str, Any], camera: SplatCamera, background: Background, far_m: float
) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Colour, accumulated depth and alpha as tensors [H, W, ...] with their graph."""
    import torch
    from gsplat import rasterization

    intrinsics = np.array(
        [[camera.fx_px, 0, camera.cx_px + 0.5], [0, camera.fy_px, camera.cy_px + 0.5], [0, 0, 1]], dtype=np.float32
    )
    drawn, alpha, info = rasterization(
        means=tensors["means_in_world"],
        quats=tensors["quats_wxyz"],
        scales=torch.exp(tensors["log_scales"]),
        opacities=torch.sigmoid(tensors["opacity_logits"]),
        colors=tensors["colors"],
        viewmats=torch.as_tensor(camera.camera_from_world.astype(np.float32), device="cuda")[None],
        Ks=torch.as_tensor(intrinsics, device="cuda")[None],
        width=camera.width_px,
        height=camera.height_px,
        near_plane=camera.near_m,
        far_plane=far_m,
        render_mode="RGB+D",
        packed=False,
    )
    # the background is blended here, so that one background serves colour and depth channels of any gsplat version
    alpha = alpha[0, ..., 0]
    paper = torch.as_tensor(background, dtype=torch.float32, device="cuda")
    return drawn[0, ..., :3] + (1 - alpha)[..., None] * paper, drawn[0, ..., 3], alpha, info


def _statistics(
    tensors: dict[str, Any], camera: SplatCamera, background: Background, rgb: Any, depth: Any, alpha: Any
) -> DepthStatistics:
    """Median by far planes; variance from a picture whose colours are z and z^2."""
    import torch

    with torch.no_grad():
        view = torch.as_tensor(camera.camera_from_world.astype(np.float32), device="cuda")
        z = tensors["means_in_world"] @ view[2, :3] + view[2, 3]
        front = z[z > camera.near_m]
        if not len(front):
            nothing = np.full(tuple(alpha.shape), np.nan, np.float32)
            return DepthStatistics(nothing, nothing.copy())
        planes = torch.quantile(
            front[:: max(1, len(front) // 100_000)], torch.linspace(0, 1, _SLICES + 1, device="cuda")
        )
        planes[-1] = front.max() * 1.001
        median = torch.full_like(alpha, float("nan"))
        previous_depth, previous_alpha = torch.zeros_like(alpha), torch.zeros_like(alpha)
        for plane in planes[1:]:
            _, depth_here, alpha_here, _ = _draw(tensors, camera, background, far_m=float(plane))
            crossing = torch.isnan(median) & (alpha_here >= 1 - _MEDIAN_TRANSMITTANCE)
            step = (alpha_here - previous_alpha).clamp_min(1e-6)
            median = torch.where(crossing, (depth_here - previous_depth) / step, median)
            previous_depth, previous_alpha = depth_here, alpha_here
        shift = float(front.median())
        moments = dict(tensors)
        moments["colors"] = torch.stack([z - shift, (z - shift) ** 2, torch.zeros_like(z)], dim=1)
        drawn, _, _, _ = _draw(moments, camera, (0.0, 0.0, 0.0), far_m=1e10)
        mean = drawn[..., :2] / alpha[..., None].clamp_min(1e-6)
        variance = (mean[..., 1] - mean[..., 0] ** 2).clamp_min(0.0)
        variance = torch.where(alpha > 1e-6, variance, torch.full_like(variance, float("nan")))
    return DepthStatistics(_array(median), _array(variance))


def _array(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.detach().cpu().numpy(), dtype=np.float32)


def _nothing(count: int, camera: SplatCamera, background: Background) -> SplatImage:
    shape = (camera.height_px, camera.width_px)
    nan = np.full(shape, np.nan, np.float32)
    return SplatImage(
        rgb=np.broadcast_to(np.array(background, np.float32), (*shape, 3)).copy(),
        alpha=np.zeros(shape, np.float32),
        depth_sum=np.zeros(shape, np.float32),
        visible=np.zeros(count, dtype=bool),
        dropped=count,
        statistics=DepthStatistics(nan, nan.copy()),
    )


def _gradients(count: int, rows: np.ndarray, values: dict[str, np.ndarray], norm: np.ndarray) -> SplatGradients:
    def spread(value: np.ndarray | None, *tail: int) -> np.ndarray:
        out = np.zeros((count, *tail), dtype=np.float32)
        if value is not None:
            out[rows] = np.nan_to_num(value, nan=0.0, posinf=0.0, neginf=0.0)
        return out

    return SplatGradients(
        means_in_world=spread(values.get("means_in_world"), 3),
        quats_wxyz=spread(values.get("quats_wxyz"), 4),
        log_scales=spread(values.get("log_scales"), 3),
        opacity_logits=spread(values.get("opacity_logits")),
        colors=spread(values.get("colors"), 3),
        mean2d_norm=spread(norm),
        camera_twist=np.zeros(6),
    )
