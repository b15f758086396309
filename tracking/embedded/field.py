"""From evidence per pixel to logits per pixel: colour models and a contrast-sensitive smooth field."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32

from tracking.embedded._kernels import mean_field

_BINS = (20, 20, 20)
_LOW = np.array([2.2, -1.3, -1.3], np.float32)
_HIGH = np.array([5.7, 1.3, 1.3], np.float32)
_SMOOTH_WEIGHT = 0.75
_DEPTH_EDGE_M = 0.012
_MAX_COLOUR_LOGIT = 3.0


@dataclass(frozen=True)
class ColourModel:
    """A smoothed histogram over (log brightness, two log ratios), a probability per bin."""

    density: Float32[np.ndarray, "A B C"]
    weight: float  # pixels that it rests on

    def blended(self, other: "ColourModel", share: float) -> "ColourModel":
        """Mix with another model; ``share`` is the other's part."""
        return ColourModel((1 - share) * self.density + share * other.density, self.weight + other.weight)


def colour_bins(features: Float32[np.ndarray, "*batch 3"], shift: float = 0.0) -> np.ndarray:
    """Flat bin index of each pixel; ``shift`` is added to the log brightness first."""
    moved = features + np.array([shift, 0, 0], np.float32)
    index = ((moved - _LOW) / (_HIGH - _LOW) * _BINS).astype(np.int32).clip(0, np.array(_BINS) - 1)
    return np.asarray((index[..., 0] * _BINS[1] + index[..., 1]) * _BINS[2] + index[..., 2])


def colour_model(bins: np.ndarray, weights: np.ndarray | None = None) -> ColourModel:
    """Histogram of flat bins, blurred over neighbouring bins."""
    import cv2

    counts = np.bincount(bins.ravel(), None if weights is None else weights.ravel(), minlength=int(np.prod(_BINS)))
    cube = counts.reshape(_BINS).astype(np.float32)
    kernel = np.array([0.25, 0.5, 0.25], np.float32)
    flat = cv2.sepFilter2D(cube.reshape(_BINS[0], -1), -1, np.ones(1, np.float32), kernel)
    flat = cv2.sepFilter2D(flat.reshape(_BINS[0], -1), -1, np.ones(1, np.float32), kernel)
    cube = flat.reshape(_BINS)
    cube = np.stack([cv2.filter2D(plane, -1, kernel[:, None]) for plane in cube])
    cube = cv2.sepFilter2D(cube.reshape(_BINS[0], -1), -1, np.ones(1, np.float32), kernel).reshape(_BINS)
    total = float(cube.sum())
    return ColourModel(cube / max(total, 1e-6), float(counts.sum()))


def colour_logits(
    bins: np.ndarray, foreground: ColourModel, background: ColourModel, floor: float = 2e-4
) -> Float32[np.ndarray, "h w"]:
    """Log p(colour | object) / p(colour | rest), floored so that unseen colours say nothing, and clipped."""
    ratio = np.log((foreground.density.ravel() + floor) / (background.density.ravel() + floor))
    return np.asarray(ratio.astype(np.float32)[bins].clip(-_MAX_COLOUR_LOGIT, _MAX_COLOUR_LOGIT))


def smooth_logits(
    unary: Float32[np.ndarray, "h w"],
    features: Float32[np.ndarray, "h w 3"],
    z_m: Float32[np.ndarray, "h w"],
    strength: float = 1.0,
    iterations: int = 10,
) -> Float32[np.ndarray, "h w"]:
    """Smooth logits along uniform colour and depth; edges in either stop it.

    Weights are those of GrabCut (Rother et al. 2004, eq. 11), times a factor for depth steps.
    """
    weights = _edge_weights(features, z_m, strength)
    return np.asarray(mean_field(unary, np.stack(weights), iterations))


def _edge_weights(features: np.ndarray, z_m: np.ndarray, strength: float) -> list[np.ndarray]:
    height, width = z_m.shape
    whole = features * np.array([1.0, 1.5, 1.5], np.float32)
    steps = (((0, 0), (0, 1)), ((0, 0), (1, 0)), ((0, 0), (1, 1)), ((0, 1), (1, 0)))
    diffs, sizes = [], []
    for (v0, u0), (v1, u1) in steps:
        high, wide = height - max(v0, v1), width - max(u0, u1)
        a = (slice(v0, v0 + high), slice(u0, u0 + wide))
        b = (slice(v1, v1 + high), slice(u1, u1 + wide))
        jump = np.abs(z_m[a] - z_m[b]) / (_DEPTH_EDGE_M * np.maximum(1.0, np.minimum(z_m[a], z_m[b])))
        diffs.append((((whole[a] - whole[b]) ** 2).sum(-1), np.where(np.isfinite(jump), jump, 0.0)))
        sizes.append((v0, u0, v1, u1))
    beta = 1.0 / (2.0 * max(1e-4, float(np.mean([d[0].mean() for d in diffs[:2]]))))
    out = []
    for (square, jump), (_, u0, _, _), step in zip(diffs, sizes, range(4), strict=True):
        weight = np.zeros((height, width), np.float32)
        base = strength * _SMOOTH_WEIGHT * (1.0 if step < 2 else 0.7071)
        value = base * (0.06 + 0.94 * np.exp(-beta * square)) * np.exp(-(np.minimum(jump, 3.0) ** 2) * 0.4)
        weight[: value.shape[0], u0 : u0 + value.shape[1]] = value
        out.append(weight)
    return out


def signed_distance(mask: Bool[np.ndarray, "h w"]) -> Float32[np.ndarray, "h w"]:
    """Pixels to the border: positive inside, negative outside, half a pixel at the border."""
    import cv2

    if not mask.any():
        return np.full(mask.shape, -float(sum(mask.shape)), np.float32)
    if mask.all():
        return np.full(mask.shape, float(sum(mask.shape)), np.float32)
    as8 = mask.astype(np.uint8)
    inside = cv2.distanceTransform(as8, cv2.DIST_L2, 3)
    outside = cv2.distanceTransform(1 - as8, cv2.DIST_L2, 3)
    return np.asarray(np.where(mask, inside - 0.5, 0.5 - outside), np.float32)
