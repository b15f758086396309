"""Splats through a Kannala-Brandt fisheye, for gsplat: projected here in torch, blended by gsplat's tiles.

gsplat's own "fisheye" is r = theta without coefficients, stops at 90 degrees and orders by z; with coefficients it
projects by another rule (unscented, no gradient of the projection). Here the rule is that of ``cuda_kernels.splat``
(``lens``), gradients by autograd. Import this module where it is used only: it imports torch.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch

from cuda_kernels.splat import SplatCamera
from cuda_kernels.splat.camera import packed_camera
from cuda_kernels.splat.rules import ALPHA_MIN, EPS2D_PX2
from recon.tensor_draw import PIXEL_SHIFT

_REACH = 3.33  # gsplat: a splat's box reaches this many standard deviations, or to where its alpha is 1/255
_COSINE_AT = 29  # of the largest angle drawn, in the packed camera


@dataclass(frozen=True)
class FisheyeSplats:
    """2D gaussians [N, ...]; ``radii_px`` are 0 for those not drawn, ``distance`` orders them and is their depth."""

    means_px: Any  # [N, 2], the first pixel's centre at (0.5, 0.5)
    conics: Any  # [N, 3]: xx, xy, yy
    distance: Any  # [N]
    radii_px: Any  # [N, 2] int32


def project_fisheye(
    means: Any, quats: Any, scales: Any, opacities: Any, camera_from_world: Any, camera: SplatCamera
) -> FisheyeSplats:
    """Local affine projection; ``camera_from_world`` (a tensor, with or without gradient) stands for the camera's own.

    Source: Zwicker et al. (2001), eq. 29; Kannala & Brandt (2006), eq. 6. With rho the distance from the axis, a step
    outwards moves the image point by r'(theta) z / d^2, one around by r / rho, one along the axis by -r' rho / d^2.
    """
    if camera.kb4 is None:
        raise AssertionError("a pinhole camera is gsplat's own business")
    k1, k2, k3, k4 = camera.kb4
    rotation = camera_from_world[:3, :3]
    x, y, z = (means @ rotation.T + camera_from_world[:3, 3]).unbind(dim=1)
    rho = torch.sqrt(x * x + y * y + 1e-12)  # never 0: its slope would be infinite on the axis
    d2 = rho * rho + z * z
    theta = torch.atan2(rho, z)
    t2 = theta * theta
    radius = theta * (1 + t2 * (k1 + t2 * (k2 + t2 * (k3 + t2 * k4))))
    slope = 1 + t2 * (3 * k1 + t2 * (5 * k2 + t2 * (7 * k3 + t2 * 9 * k4)))
    around, outwards = radius / rho, slope * z / d2
    lean = (outwards - around) / (rho * rho)  # about 0 on the axis
    focal = means.new_tensor([camera.fx_px, camera.fy_px])
    centre = means.new_tensor([camera.cx_px + PIXEL_SHIFT, camera.cy_px + PIXEL_SHIFT])
    means_px = torch.stack([around * x, around * y], dim=1) * focal + centre
    rows = (
        torch.stack([around + lean * x * x, lean * x * y, -slope * x / d2], dim=1),
        torch.stack([lean * x * y, around + lean * y * y, -slope * y / d2], dim=1),
    )
    jacobian = torch.stack(rows, dim=1) * focal[:, None]
    spread = jacobian @ rotation @ (_rotations(quats) * scales[:, None, :])
    covariance = spread @ spread.transpose(1, 2) + EPS2D_PX2 * torch.eye(2, dtype=means.dtype, device=means.device)
    a, b, c = covariance[:, 0, 0], covariance[:, 0, 1], covariance[:, 1, 1]
    conics = torch.stack([c, -b, a], dim=1) / (a * c - b * b)[:, None]
    distance = torch.sqrt(d2)
    with torch.no_grad():
        drawn = (distance >= camera.near_m) & (z >= float(packed_camera(camera)[_COSINE_AT]) * distance)
        radii = _radii(covariance, means_px, opacities, camera, drawn)
    return FisheyeSplats(means_px, conics, distance, radii)


def blend_with_gsplat(
    means: Any, quats: Any, scales: Any, opacities: Any, colors: Any, camera_from_world: Any, camera: SplatCamera
) -> tuple[Any, Any, dict[str, Any]]:
    """Colours and distances [1, H, W, 4], alpha [1, H, W, 1] and what ``gsplat.rasterization`` tells, of a fisheye."""
    from gsplat import isect_offset_encode, isect_tiles, rasterize_to_pixels

    tile = 16
    flat = project_fisheye(means, quats, scales, opacities, camera_from_world, camera)
    width, height = camera.width_px, camera.height_px
    columns, rows = math.ceil(width / tile), math.ceil(height / tile)
    means2d, conics, depths, radii = (
        t[None].contiguous() for t in (flat.means_px, flat.conics, flat.distance, flat.radii_px)
    )
    _, intersections, entries = isect_tiles(
        means2d.detach(), radii, depths.detach(), tile, columns, rows, packed=False, n_images=1
    )
    starts = isect_offset_encode(intersections, 1, columns, rows)
    paint = torch.cat([colors, flat.distance[:, None]], dim=1)[None].contiguous()
    drawn, alpha = rasterize_to_pixels(
        means2d, conics, paint, opacities[None].contiguous(), width, height, tile, starts, entries
    )
    info = {
        "radii": radii, "means2d": means2d, "conics": conics, "opacities": opacities[None], "depths": depths,
        "isect_offsets": starts, "flatten_ids": entries, "tile_size": tile, "width": width, "height": height,
        "n_cameras": 1, "gaussian_ids": None,
    }  # fmt: skip
    return drawn, alpha, info


def _radii(covariance: Any, means_px: Any, opacities: Any, camera: SplatCamera, drawn: Any) -> Any:
    """Half sizes of the boxes that splats reach, 0 where they are too faint, not drawn or beside the picture."""
    visible = drawn & (opacities >= ALPHA_MIN)
    reach = torch.sqrt(2 * torch.log((opacities / ALPHA_MIN).clamp(min=1))).clamp(max=_REACH)
    half = torch.ceil(reach[:, None] * torch.sqrt(torch.stack([covariance[:, 0, 0], covariance[:, 1, 1]], dim=1)))
    size = means_px.new_tensor([camera.width_px, camera.height_px])
    visible = visible & ((means_px + half > 0) & (means_px - half < size)).all(dim=1)
    half = torch.where(visible[:, None], half, torch.zeros_like(half))
    return torch.nan_to_num(half, nan=0.0, posinf=0.0).clamp(max=2**30).to(torch.int32)


def _rotations(quats: Any) -> Any:
    """Rotation matrices [N, 3, 3] of quaternions of any length but zero."""
    w, x, y, z = (quats / quats.norm(dim=1, keepdim=True)).unbind(dim=1)
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(rows, dim=1).reshape(-1, 3, 3)
