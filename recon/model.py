"""Small operations on splat models: selection, checks, colours."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32

from recon.records import SplatModel

SH_C0 = 0.28209479177387814  # 1 / (2 sqrt(pi)), the constant spherical harmonic
_MIN_QUAT_NORM = 1e-8


@dataclass(frozen=True)
class Cleaned:
    """A model without bad rows, and how many were dropped."""

    model: SplatModel
    dropped: int


def empty_model() -> SplatModel:
    """A model without Gaussians; renders to background, alpha 0 and no depth."""
    return SplatModel(
        means_in_world=np.zeros((0, 3), dtype=np.float32),
        log_scales=np.zeros((0, 3), dtype=np.float32),
        quats_wxyz=np.zeros((0, 4), dtype=np.float32),
        opacity_logits=np.zeros(0, dtype=np.float32),
        sh_coeffs=np.zeros((0, 1, 3), dtype=np.float32),
    )


def select(model: SplatModel, keep: np.ndarray) -> SplatModel:
    """The rows that an index or boolean array names."""
    return SplatModel(
        means_in_world=model.means_in_world[keep],
        log_scales=model.log_scales[keep],
        quats_wxyz=model.quats_wxyz[keep],
        opacity_logits=model.opacity_logits[keep],
        sh_coeffs=model.sh_coeffs[keep],
    )


def joined(first: SplatModel, second: SplatModel) -> SplatModel:
    """The rows of one model and then those of another with the same number of colour terms."""
    return SplatModel(
        means_in_world=np.concatenate([first.means_in_world, second.means_in_world]),
        log_scales=np.concatenate([first.log_scales, second.log_scales]),
        quats_wxyz=np.concatenate([first.quats_wxyz, second.quats_wxyz]),
        opacity_logits=np.concatenate([first.opacity_logits, second.opacity_logits]),
        sh_coeffs=np.concatenate([first.sh_coeffs, second.sh_coeffs]),
    )


def good_rows(model: SplatModel) -> Bool[np.ndarray, "N"]:
    """True for rows that can be rendered: finite numbers, a quaternion with a direction, scales above 0 (case G7)."""
    with np.errstate(over="ignore", invalid="ignore"):
        scales = np.exp(model.log_scales.astype(np.float32))
        finite = np.isfinite(model.means_in_world).all(axis=1) & np.isfinite(model.quats_wxyz).all(axis=1)
        finite &= (np.isfinite(scales) & (scales > 0)).all(axis=1) & ~np.isnan(model.opacity_logits)
        finite &= np.isfinite(model.sh_coeffs).all(axis=(1, 2))
        return np.asarray(finite & (np.linalg.norm(model.quats_wxyz, axis=1) > _MIN_QUAT_NORM))


def drop_bad(model: SplatModel) -> Cleaned:
    """Drop rows that no renderer can take, and count them."""
    good = good_rows(model)
    dropped = int((~good).sum())
    return Cleaned(select(model, good) if dropped else model, dropped)


def sigmoid(logits: Float[np.ndarray, "*N"]) -> Float[np.ndarray, "*N"]:
    """Opacity of a logit, without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * logits))


def rgb_from_sh0(sh_coeffs: Float32[np.ndarray, "N K 3"]) -> Float32[np.ndarray, "N 3"]:
    """Colour of the constant term alone, not clipped."""
    return (0.5 + SH_C0 * sh_coeffs[:, 0]).astype(np.float32)


def sh0_from_rgb(rgb: Float[np.ndarray, "N 3"]) -> Float32[np.ndarray, "N 1 3"]:
    """Coefficients of a colour that is the same from every side."""
    return ((np.asarray(rgb) - 0.5) / SH_C0).astype(np.float32)[:, None, :]
