"""One call for two rasterisers: the project's own on the CPU, gsplat where CUDA is there.

Both take the same arrays and fill the same record (``cuda_kernels.splat.SplatImage``), so nothing above this module
knows which one drew.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Float32

from cuda_kernels.splat import (
    SplatCamera,
    SplatGradients,
    SplatImage,
    eval_sh,
    plane_depth_sum,
    rasterize,
    rasterize_backward,
)
from geo import se3
from geo.cameras import KannalaBrandtCamera, PinholeCamera
from recon.errors import ReconError
from recon.records import SplatModel
from recon.renderer import Background, Gaussians, Renderer

__all__ = ["Background", "CpuRenderer", "Gaussians", "Renderer", "choose_renderer", "packed", "splat_camera"]


class CpuRenderer:
    """``cuda_kernels.splat``."""

    name = "cpu"

    def forward(
        self, gaussians: Gaussians, camera: SplatCamera, background: Background, depth_statistics: bool = False
    ) -> SplatImage:
        """See ``Renderer.forward``."""
        return rasterize(
            gaussians.means_in_world,
            gaussians.quats_wxyz,
            gaussians.log_scales,
            gaussians.opacity_logits,
            gaussians.colors,
            camera,
            background,
            depth_statistics=depth_statistics,
        )

    def backward(
        self,
        image: SplatImage,
        d_rgb: Float[np.ndarray, "H W 3"],
        d_alpha: Float[np.ndarray, "H W"],
        d_depth_sum: Float[np.ndarray, "H W"],
    ) -> SplatGradients:
        """See ``Renderer.backward``."""
        return rasterize_backward(image, d_rgb, d_alpha, d_depth_sum)

    def plane_depth_sum(self, image: SplatImage, camera: SplatCamera) -> Float32[np.ndarray, "H W"]:
        """See ``Renderer.plane_depth_sum``."""
        return plane_depth_sum(image)


def choose_renderer(device: str) -> Renderer:
    """The renderer for "cpu", "cuda" or "auto" (gsplat where it and a CUDA device are there, else the CPU).

    Raises:
        ReconError: "cuda" is asked for and is not there; says what is missing.
    """
    if device == "cpu":
        return CpuRenderer()
    from recon.gsplat_backend import GsplatRenderer, why_not

    reason = why_not()
    if reason is None:
        return GsplatRenderer()
    if device == "cuda":
        raise ReconError(f"reconstruct.device is 'cuda', but {reason}; use device 'auto' or 'cpu'")
    return CpuRenderer()


def packed(model: SplatModel, world_from_camera: Float[np.ndarray, "4 4"]) -> Gaussians:
    """A model as a rasteriser takes it, with its colours as seen from a camera's place."""
    colours = np.zeros((0, 3), dtype=np.float32)
    if len(model.means_in_world):
        centre = np.asarray(world_from_camera, dtype=np.float64)[:3, 3].astype(np.float32)
        colours = eval_sh(model.sh_coeffs, model.means_in_world - centre)
    return Gaussians(model.means_in_world, model.quats_wxyz, model.log_scales, model.opacity_logits, colours)


def splat_camera(camera: PinholeCamera, world_from_camera: Float[np.ndarray, "4 4"]) -> SplatCamera:
    """The rasteriser's camera (pixel centres at whole numbers on both sides, principal point anywhere).

    Raises:
        ReconError: the camera has skew, which no splat rasteriser draws, or the pose is not finite.
    """
    if camera.skew_px:
        raise ReconError(f"the camera has skew {camera.skew_px} px; undistort it to a camera without skew first")
    return _splat_camera(camera, world_from_camera)


def splat_fisheye_camera(camera: KannalaBrandtCamera, world_from_camera: Float[np.ndarray, "4 4"]) -> SplatCamera:
    """The rasteriser's camera of an unrectified fisheye: what it draws has distances along the ray, not z.

    Raises:
        ReconError: the pose is not finite.
    """
    k1, k2, k3, k4 = camera.distortion
    bare = _splat_camera(camera, world_from_camera)
    return replace(bare, kb4=(k1, k2, k3, k4), valid_theta_rad=camera.valid_theta_rad)


def _splat_camera(
    camera: PinholeCamera | KannalaBrandtCamera, world_from_camera: Float[np.ndarray, "4 4"]
) -> SplatCamera:
    if not np.isfinite(world_from_camera).all():
        raise ReconError("this frame has no pose (NaN), so nothing can be rendered for it")
    return SplatCamera(
        fx_px=camera.fx_px,
        fy_px=camera.fy_px,
        cx_px=camera.cx_px,
        cy_px=camera.cy_px,
        width_px=camera.width_px,
        height_px=camera.height_px,
        camera_from_world=se3.inverse(world_from_camera),
    )
