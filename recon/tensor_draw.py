"""Splats on torch tensors from one camera, whoever draws: gsplat on a GPU, or the CPU's rasteriser called like it.

gsplat measures pixels with the first centre at (0.5, 0.5): the principal point is shifted here, at the border.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from cuda_kernels.splat import DepthStatistics, SplatCamera
from cuda_kernels.splat.planes import LEAST_VARIANCE_PX2
from recon.errors import ReconError
from recon.renderer import Background

PIXEL_SHIFT = 0.5  # gsplat's first pixel centre
_TILE_PX = 16


@dataclass(frozen=True)
class Engine:
    """Who draws tensors, and where they lie.

    ``rasterization`` is called like ``gsplat.rasterization``; ``fisheye`` takes means, quats, scales, opacities,
    colours, camera_from_world (a tensor) and the camera, and gives the same three things as "RGB+D" does.
    """

    device: str
    rasterization: Callable[..., tuple[Any, Any, dict[str, Any]]]
    fisheye: Callable[..., tuple[Any, Any, dict[str, Any]]]
    depth_statistics: Callable[[dict[str, Any], SplatCamera], DepthStatistics]


@dataclass(frozen=True)
class Drawn:
    """One picture as tensors [H, W, ...] with their graph, and what the rasteriser tells about it."""

    rgb: Any
    alpha: Any
    depth_sum: Any
    visible: Any  # [N] bool
    camera_from_world: Any  # [4, 4], with a gradient if it was asked for
    info: dict[str, Any]


def draw(
    engine: Engine,
    means: Any,
    quats: Any,
    scales: Any,
    opacities: Any,
    colors: Any,
    camera: SplatCamera,
    background: Background,
    sh_degree: int | None = None,
    pose_gradient: bool = False,
) -> Drawn:
    """Draw tensors from one camera.

    Args:
        engine: Who draws.
        means: [N, 3] in the world.
        quats: [N, 4] scalar first, any length but zero.
        scales: [N, 3] standard deviations, not their logarithms.
        opacities: [N], 0..1.
        colors: [N, 3], or spherical harmonics [N, K, 3] with ``sh_degree``.
        camera: View.
        background: Colour behind everything.
        sh_degree: Degree up to which the harmonics count.
        pose_gradient: Whether ``Drawn.camera_from_world`` takes part in the graph.

    Raises:
        ReconError: spherical harmonics for a fisheye.
    """
    import torch

    pose = torch.as_tensor(camera.camera_from_world, dtype=torch.float32, device=engine.device).clone()
    pose.requires_grad_(pose_gradient)
    if camera.kb4 is not None:
        if sh_degree is not None:
            raise ReconError("a fisheye view takes colours, not spherical harmonics; evaluate them first")
        drawn, alpha, info = engine.fisheye(means, quats, scales, opacities, colors, pose, camera)
    else:
        intrinsics = [
            [camera.fx_px, 0, camera.cx_px + PIXEL_SHIFT],
            [0, camera.fy_px, camera.cy_px + PIXEL_SHIFT],
            [0, 0, 1],
        ]
        drawn, alpha, info = engine.rasterization(
            means=means,
            quats=quats,
            scales=scales,
            opacities=opacities,
            colors=colors,
            viewmats=pose[None],
            Ks=torch.tensor(intrinsics, dtype=torch.float32, device=engine.device)[None],
            width=camera.width_px,
            height=camera.height_px,
            near_plane=camera.near_m,
            sh_degree=sh_degree,
            render_mode="RGB+D",
            packed=False,
            tile_size=_TILE_PX,
        )
    # the background is blended here, so that one background serves colour and depth channels of any gsplat version
    alpha = alpha[0, ..., 0]
    paper = torch.tensor(background, dtype=torch.float32, device=engine.device)
    rgb = drawn[0, ..., :3] + (1 - alpha)[..., None] * paper
    visible = (info["radii"].detach() > 0).reshape(1, means.shape[0], -1).all(dim=-1)[0]
    return Drawn(rgb, alpha, drawn[0, ..., 3], visible, pose, info)


def planes_torch(means: Any, quats: Any, scales: Any, camera: SplatCamera) -> Any:
    """As ``cuda_kernels.splat.planes.depth_planes``, [N, 3], zeros behind the camera. No gradient."""
    import torch

    with torch.no_grad():
        pose = torch.as_tensor(camera.camera_from_world, dtype=means.dtype, device=means.device)
        points = means @ pose[:3, :3].T + pose[:3, 3]
        front = points[:, 2] > camera.near_m
        x, y, z = torch.where(front[:, None], points, torch.ones_like(points)).unbind(-1)
        w, i, j, k = torch.nn.functional.normalize(quats, dim=-1).unbind(-1)
        turned = torch.stack(
            [
                1 - 2 * (j * j + k * k), 2 * (i * j - w * k), 2 * (i * k + w * j),
                2 * (i * j + w * k), 1 - 2 * (i * i + k * k), 2 * (j * k - w * i),
                2 * (i * k - w * j), 2 * (j * k + w * i), 1 - 2 * (i * i + j * j),
            ],
            dim=-1,
        ).reshape(-1, 3, 3)  # fmt: skip
        spread = pose[:3, :3] @ turned * scales[:, None, :]
        on_u = (camera.fx_px / z)[:, None] * (spread[:, 0] - (x / z)[:, None] * spread[:, 2])
        on_v = (camera.fy_px / z)[:, None] * (spread[:, 1] - (y / z)[:, None] * spread[:, 2])
        uu, vv = on_u.square().sum(-1) + LEAST_VARIANCE_PX2, on_v.square().sum(-1) + LEAST_VARIANCE_PX2
        uv, zu, zv = (on_u * on_v).sum(-1), (spread[:, 2] * on_u).sum(-1), (spread[:, 2] * on_v).sum(-1)
        det = uu * vv - uv * uv
        slope_u, slope_v = (vv * zu - uv * zv) / det, (uu * zv - uv * zu) / det
        offset = z - slope_u * camera.fx_px * x / z - slope_v * camera.fy_px * y / z
        planes = torch.stack([offset, slope_u, slope_v], dim=-1)
        sound = front & torch.isfinite(planes).all(dim=-1)
        return torch.where(sound[:, None], planes, torch.zeros_like(planes))


def plane_depth_torch(engine: Engine, means: Any, quats: Any, scales: Any, opacities: Any, camera: SplatCamera) -> Any:
    """Accumulated depth along the planes, [H, W], without a graph."""
    import torch

    with torch.no_grad():
        planes = planes_torch(means, quats, scales, camera)
        sums = draw(engine, means, quats, scales, opacities, planes, camera, (0.0, 0.0, 0.0)).rgb
        u = torch.arange(camera.width_px, device=sums.device, dtype=sums.dtype) - camera.cx_px
        v = torch.arange(camera.height_px, device=sums.device, dtype=sums.dtype) - camera.cy_px
        return sums[..., 0] + sums[..., 1] * u + sums[..., 2] * v[:, None]


def twist_gradient(
    d_camera_from_world: Float[np.ndarray, "4 4"], camera_from_world: Float[np.ndarray, "4 4"]
) -> Float[np.ndarray, "6"]:
    """Gradient by xi = (rotation, translation) of exp(xi) camera_from_world, from the one by its 4x4 entries.

    With the entries' gradient G and V = camera_from_world, d(exp(xi) V) = hat(xi) V, so the rotation's part collects
    the antisymmetric part of G V^T (rows x, y, z), and the translation's is G's last column.
    """
    product = d_camera_from_world[:3] @ camera_from_world[:3].T
    rotation = [product[2, 1] - product[1, 2], product[0, 2] - product[2, 0], product[1, 0] - product[0, 1]]
    return np.array([*rotation, *d_camera_from_world[:3, 3]], dtype=np.float64)
