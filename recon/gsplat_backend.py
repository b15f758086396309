"""gsplat behind the signature of ``cuda_kernels.splat``; needs a CUDA device.

``Engine`` is what does the drawing; all the rest runs with another one too (``recon.torch_cpu``), where the tests do.
"""

import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Float32

from cuda_kernels.splat import DepthStatistics, SplatCamera, SplatGradients, SplatImage
from recon.config import ReconstructConfig
from recon.model import good_rows
from recon.records import SplatModel
from recon.renderer import Background, Gaussians
from recon.tensor_draw import PIXEL_SHIFT, Engine, draw, plane_depth_torch, twist_gradient
from recon.views import View

_PARAMETERS = ("means_in_world", "quats_wxyz", "log_scales", "opacity_logits", "colors")


def why_not() -> str | None:
    """Why gsplat cannot be used here, or None if it can."""
    if importlib.util.find_spec("gsplat") is None:
        return "gsplat is not installed"
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    import torch

    if not torch.cuda.is_available():
        return "torch sees no CUDA device"
    from recon.gsplat_build import no_build_here

    return no_build_here()


def gsplat_engine() -> Engine:
    """Gsplat on the current CUDA device. The first picture builds its extension where that is not done yet."""
    from recon.gsplat_build import prepare_build

    prepare_build()  # before gsplat is imported
    from gsplat import rasterization

    from recon.torch_fisheye import blend_with_gsplat

    return Engine("cuda", rasterization, blend_with_gsplat, _statistics)


def _statistics(info: dict[str, Any], camera: SplatCamera) -> DepthStatistics:
    """Gsplat's own projected gaussians and tile lists, walked over once more."""
    import torch

    from cuda_kernels.splat_statistics_cuda import depth_statistics_cuda

    torch.cuda.current_stream().synchronize()
    means_px, conics, opacities, z = (
        info[name][0].detach().contiguous() for name in ("means2d", "conics", "opacities", "depths")
    )
    starts, entries = info["isect_offsets"][0].contiguous(), info["flatten_ids"].contiguous()
    size = camera.width_px, camera.height_px
    return depth_statistics_cuda(means_px, conics, opacities, z, starts, entries, size, info["tile_size"], PIXEL_SHIFT)


class GsplatRenderer:
    """``gsplat.rasterization`` with autograd; arrays go to the device and back on every call.

    A fit does not draw with this: ``fit_state`` keeps its tensors on the device.
    """

    name = "gsplat"

    def __init__(self, engine: Engine | None = None) -> None:
        """``engine``: who draws; gsplat on the CUDA device if None."""
        self.engine = engine or gsplat_engine()

    def fit_state(
        self,
        model: SplatModel,
        gains: Float32[np.ndarray, "V 3"],
        views: Sequence[View],
        config: ReconstructConfig,
        background: Background,
        everywhere: bool,
    ) -> Any:
        """See ``recon.fit.KeepsState``; a ``recon.gsplat_fit.DeviceState``."""
        from recon.gsplat_fit import DeviceState

        return DeviceState(self.engine, model, gains, views, config, background, everywhere)

    def forward(
        self, gaussians: Gaussians, camera: SplatCamera, background: Background, depth_statistics: bool = False
    ) -> SplatImage:
        """See ``recon.renderer.Renderer.forward``."""
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
            return _nothing(count, camera, background, depth_statistics)
        tensors = {
            name: torch.as_tensor(getattr(gaussians, name)[rows], device=self.engine.device).requires_grad_(True)
            for name in _PARAMETERS
        }
        drawn = draw(
            self.engine, tensors["means_in_world"], tensors["quats_wxyz"], torch.exp(tensors["log_scales"]),
            torch.sigmoid(tensors["opacity_logits"]), tensors["colors"], camera, background, pose_gradient=True,
        )  # fmt: skip
        visible = np.zeros(count, dtype=bool)
        visible[rows] = drawn.visible.cpu().numpy()
        return SplatImage(
            rgb=_array(drawn.rgb),
            alpha=_array(drawn.alpha),
            depth_sum=_array(drawn.depth_sum),
            visible=visible,
            dropped=count - len(rows),
            statistics=self.engine.depth_statistics(drawn.info, camera) if depth_statistics else None,
            saved=(tensors, rows, drawn),
            along_ray=camera.kb4 is not None,
        )

    def plane_depth_sum(self, image: SplatImage, camera: SplatCamera) -> Float32[np.ndarray, "H W"]:
        """See ``recon.renderer.Renderer.plane_depth_sum``."""
        if image.along_ray or image.saved is None:
            return image.depth_sum
        p = image.saved[0]
        means, quats, scales = p["means_in_world"], p["quats_wxyz"], p["log_scales"].exp()
        return _array(plane_depth_torch(self.engine, means, quats, scales, p["opacity_logits"].sigmoid(), camera))

    def backward(
        self,
        image: SplatImage,
        d_rgb: Float[np.ndarray, "H W 3"],
        d_alpha: Float[np.ndarray, "H W"],
        d_depth_sum: Float[np.ndarray, "H W"],
    ) -> SplatGradients:
        """See ``recon.renderer.Renderer.backward``."""
        import torch

        count = len(image.visible)
        if image.saved is None:
            return _gradients(count, np.zeros(0, np.int64), {}, np.zeros(0, np.float32), np.zeros(6))
        tensors, rows, drawn = image.saved
        means2d, pose = drawn.info["means2d"], drawn.camera_from_world
        given = [
            torch.as_tensor(np.ascontiguousarray(d, dtype=np.float32), device=self.engine.device)
            for d in (d_rgb, d_depth_sum, d_alpha)
        ]
        grads = torch.autograd.grad(
            [drawn.rgb, drawn.depth_sum, drawn.alpha], [*tensors.values(), means2d, pose], grad_outputs=given,
            retain_graph=True, allow_unused=True,
        )  # fmt: skip
        values = {
            name: np.zeros(tuple(tensor.shape), np.float32) if grad is None else _array(grad)
            for (name, tensor), grad in zip(tensors.items(), grads[:-2], strict=True)
        }
        norm, twist = np.zeros(len(rows), np.float32), np.zeros(6)
        if grads[-2] is not None:
            norm = _array(grads[-2].reshape(-1, 2).norm(dim=-1))
        if grads[-1] is not None:
            twist = twist_gradient(*(np.asarray(_array(t), dtype=np.float64) for t in (grads[-1], pose)))
        return _gradients(count, rows, values, norm, twist)


def _array(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.detach().cpu().numpy(), dtype=np.float32)


def _nothing(count: int, camera: SplatCamera, background: Background, depth_statistics: bool) -> SplatImage:
    shape = (camera.height_px, camera.width_px)
    nan = np.full(shape, np.nan, np.float32)
    return SplatImage(
        rgb=np.broadcast_to(np.array(background, np.float32), (*shape, 3)).copy(),
        alpha=np.zeros(shape, np.float32),
        depth_sum=np.zeros(shape, np.float32),
        visible=np.zeros(count, dtype=bool),
        dropped=count,
        statistics=DepthStatistics(nan, nan.copy()) if depth_statistics else None,
        along_ray=camera.kb4 is not None,
    )


def _gradients(
    count: int, rows: np.ndarray, values: dict[str, np.ndarray], norm: np.ndarray, twist: np.ndarray
) -> SplatGradients:
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
        camera_twist=np.nan_to_num(twist, nan=0.0, posinf=0.0, neginf=0.0),
    )
