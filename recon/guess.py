"""Splats where pictures show something that nothing else places: at the depth of what is known beside it.

Only for recordings without a depth sensor, whose pictures the fit fills to the last pixel. These are starting places,
not findings: the fit moves them, and what no picture needs fades and is pruned.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32

from geo import se3
from recon.backend import Renderer, packed, splat_camera
from recon.config import ReconstructConfig
from recon.init import SCALE_SHARE, Initial
from recon.model import joined, select, sh0_from_rgb
from recon.ply import logit
from recon.prune import prune_free_space
from recon.records import SplatModel
from recon.sensor import SensorNoise
from recon.views import View

_COVERED_ALPHA = 0.5
_STRIDE_PX = 4  # of a view at half size
_OPACITY = 0.6
_THICKNESS = 0.3  # along the ray / across it
_BLACK = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Guessed:
    """The first model with guesses joined in, and how many."""

    initial: Initial
    count: int


def guess_unseen(
    initial: Initial,
    views: Sequence[View],
    placed: Sequence[View],
    config: ReconstructConfig,
    noise: SensorNoise,
    renderer: Renderer,
) -> Guessed:
    """Fill every view's uncovered static pixels, view after view, each on top of what earlier ones brought.

    A guess takes the rendered depth of the nearest covered pixel (of the whole model, where the view has none) and
    the picture's colour. ``placed`` views hold found depth: guesses that these see through are left out.
    """
    model, count = initial.model, 0
    for index, view in enumerate(views):
        small = view.halved()
        image = renderer.forward(
            packed(model, small.world_from_camera), splat_camera(small.camera, small.world_from_camera), _BLACK
        )
        covered = image.alpha >= _COVERED_ALPHA
        z = _spread(np.where(covered, image.depth_sum / np.maximum(image.alpha, 1e-6), np.nan), model, small)
        guesses = _facing(small, z, small.static & ~covered, initial.gains[index])
        guesses = prune_free_space(guesses, placed, config, noise).model
        room = config.max_gaussians - len(model.means_in_world)
        taken = min(len(guesses.means_in_world), max(room, 0))
        if taken:
            model = joined(model, _first(guesses, taken))
            count += taken
    return Guessed(Initial(model, initial.gains), count)


def _spread(z: Float32[np.ndarray, "h w"], model: SplatModel, view: View) -> Float32[np.ndarray, "h w"]:
    """Depth of the nearest pixel that has one; the model's median distance if none has."""
    from scipy import ndimage

    known = np.isfinite(z)
    if known.any():
        rows, cols = ndimage.distance_transform_edt(~known, return_distances=False, return_indices=True)
        return np.asarray(z[rows, cols], dtype=np.float32)
    away = np.linalg.norm(model.means_in_world - view.world_from_camera[:3, 3], axis=1)
    return np.full(z.shape, np.median(away), dtype=np.float32)


def _facing(
    view: View, z: Float32[np.ndarray, "h w"], wanted: Bool[np.ndarray, "h w"], gain: Float32[np.ndarray, "3"]
) -> SplatModel:
    """Discs that face the camera, one every few pixels of a mask."""
    rows, cols = np.nonzero(wanted[::_STRIDE_PX, ::_STRIDE_PX])
    rows, cols = rows * _STRIDE_PX, cols * _STRIDE_PX
    depth = z[rows, cols].astype(np.float64)
    rays = view.camera.normalised_points(np.stack([cols, rows], axis=1).astype(np.float64))
    points = se3.transform_points(view.world_from_camera, rays * depth[:, None])
    across = np.log(SCALE_SHARE * _STRIDE_PX * depth / view.camera.fx_px)
    quat = se3.quat_wxyz_from_rotation(view.world_from_camera[:3, :3])
    return SplatModel(
        means_in_world=points.astype(np.float32),
        log_scales=np.stack([across, across, across + np.log(_THICKNESS)], axis=1).astype(np.float32),
        quats_wxyz=np.tile(quat, (len(depth), 1)).astype(np.float32),
        opacity_logits=np.full(len(depth), logit(np.array([_OPACITY]))[0], dtype=np.float32),
        sh_coeffs=sh0_from_rgb(np.clip(view.rgb[rows, cols] / 255.0 / gain, 0, 1)),
    )


def _first(model: SplatModel, count: int) -> SplatModel:
    """``count`` rows evenly spread over the model."""
    return select(model, np.linspace(0, len(model.means_in_world) - 1, count).round().astype(np.int64))
