"""Splats to pictures: colour, alpha, expected and median depth, and how sure the depth is."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32

from cuda_kernels.splat import eval_sh
from geo.cameras import PinholeCamera
from recon.backend import Background, CpuRenderer, Gaussians, Renderer, splat_camera
from recon.model import drop_bad
from recon.records import RenderedView, SplatModel

ALPHA_THRESHOLD = 0.5
"""Below this a pixel has no depth, whatever the numbers say (case G1)."""
_SPLIT_SHARE = 0.02  # a spread along the ray above 2 % of the depth means two surfaces in one pixel
_SPLIT_FLOOR_M = 0.01
_MIN_GAP_M = 1e-4  # mean and median closer than this: one surface
_SURE_SHARE = 0.15
_MAX_LEAN = 0.05  # planes that lead further from the centres' depth than this share of it are not believed


@dataclass(frozen=True)
class DepthSigma:
    """Error of static depth, floor + per_m * z^2, added in squares to the spread along the ray."""

    floor_m: float = 0.004
    per_m: float = 0.002


def render(
    model: SplatModel,
    camera: PinholeCamera,
    world_from_camera: Float[np.ndarray, "4 4"],
    *,
    background: Background = (0.0, 0.0, 0.0),
    alpha_threshold: float = ALPHA_THRESHOLD,
    sigma: DepthSigma | None = None,
    renderer: Renderer | None = None,
) -> RenderedView:
    """Draw a model from a camera.

    ``expected_z_m`` is the mean depth under the blending weights (sum / alpha), ``median_z_m`` the depth of the
    Gaussian at which half the light is gone; both are NaN where alpha is below the threshold. ``sigma_z_m`` joins
    the spread along the ray with the stated model error. Bad rows (NaN, zero quaternions) are dropped; an empty
    model gives the background and no depth.

    Raises:
        ReconError: no pose, or a camera with skew.
    """
    model = drop_bad(model).model
    view = splat_camera(camera, world_from_camera)
    centre = np.asarray(world_from_camera, dtype=np.float64)[:3, 3]
    directions = model.means_in_world - centre.astype(np.float32)
    colours = eval_sh(model.sh_coeffs, directions) if len(directions) else np.zeros((0, 3), dtype=np.float32)
    gaussians = Gaussians(
        model.means_in_world, model.quats_wxyz, model.log_scales, np.clip(model.opacity_logits, -30, 30), colours
    )
    renderer = renderer or CpuRenderer()
    image = renderer.forward(gaussians, view, background, depth_statistics=True)
    if image.statistics is None:
        raise AssertionError("depth statistics were asked for")
    enough = image.alpha >= max(alpha_threshold, 1e-6)
    nan = np.float32(np.nan)
    expected = np.where(enough, image.depth_sum / np.where(enough, image.alpha, 1.0), nan).astype(np.float32)
    median = np.where(enough, image.statistics.median_z, nan).astype(np.float32)
    spread = ray_spread(expected, median, np.where(enough, image.statistics.variance_z, nan))
    error = sigma or DepthSigma()
    along = renderer.plane_depth_sum(image, view) / np.where(enough, image.alpha, 1.0)
    sound = enough & (np.abs(along - expected) < np.maximum(_SPLIT_FLOOR_M, _MAX_LEAN * expected))
    expected = np.where(sound, along, expected).astype(np.float32)
    with np.errstate(invalid="ignore"):
        sigma_z = np.hypot(spread, error.floor_m + error.per_m * np.square(expected)).astype(np.float32)
    return RenderedView(np.clip(image.rgb, 0, 1), image.alpha, expected, median, sigma_z)


def ray_spread(
    expected_z_m: Float32[np.ndarray, "H W"],
    median_z_m: Float32[np.ndarray, "H W"],
    variance_z_m2: Float32[np.ndarray, "H W"],
) -> Float32[np.ndarray, "H W"]:
    """Standard deviation of a pixel's depth that comes from what lies along its ray.

    The weights are read as two surfaces: with e = |expected - median| and variance v, the other one is d = v / e + e
    away and holds the share s = e / d. A small share far behind (a front that is not quite opaque) makes a large
    variance but leaves little doubt; near one half the pixel may belong to either. The square returned is
    min(v, e^2) + p d^2, with p = max(0, s - 0.15), the chance that the other surface is the right one.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = np.maximum(variance_z_m2, 0.0)
        gap = np.abs(expected_z_m - median_z_m)
        distance = np.where(gap > _MIN_GAP_M, variance / gap + gap, 0.0)
        share = np.where(distance > 0, gap / distance, 0.0)
        doubt = np.maximum(share - _SURE_SHARE, 0.0)
        return np.asarray(np.sqrt(np.minimum(variance, gap**2) + doubt * distance**2), dtype=np.float32)


def surface_depth(view: RenderedView, choice: str = "edge") -> Float32[np.ndarray, "H W"]:
    """One depth per pixel that lies on a surface.

    "expected" and "median" as they are. "edge": the expected depth (smooth, least noise) where the ray meets one
    surface, the median where the spread along the ray says that it meets two: the mean of two surfaces is on neither.
    """
    if choice == "expected":
        return view.expected_z_m
    if choice == "median":
        return view.median_z_m
    with np.errstate(invalid="ignore"):
        split = np.abs(view.expected_z_m - view.median_z_m) > np.maximum(_SPLIT_FLOOR_M, _SPLIT_SHARE * view.median_z_m)
    return np.where(split & np.isfinite(view.median_z_m), view.median_z_m, view.expected_z_m).astype(np.float32)
