"""More splats where the pictures ask for them, and fewer where nothing does; under a budget.

Two ways. "adaptive": splats whose centre is pulled hard are cloned (small ones) or split in two (large ones).
"mcmc": splats that have faded move to where opaque ones stand, new ones join them, and faint ones jitter.
Sources: Kerbl et al. (2023), sec. 5.2; Kheradmand et al. (2024), eq. 8-10.
"""

from dataclasses import dataclass
from math import comb

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64

from geo import se3
from recon.model import sigmoid
from recon.ply import logit

_SPLIT_SHRINK = 1.6  # Kerbl et al.: both halves are this much smaller
_MOST_COPIES = 51  # Kheradmand et al.'s code: copies of one splat that the sum of eq. 9 is taken over
_MCMC_MIN_OPACITY, _MCMC_MAX_OPACITY = 0.005, 1 - 1e-4
_GATE_STEEPNESS, _GATE_OPACITY = 100.0, 0.005  # jitter dies out above this opacity


@dataclass(frozen=True)
class Shapes:
    """Columns of the splats that densification looks at and changes."""

    means_in_world: Float32[np.ndarray, "N 3"]
    log_scales: Float32[np.ndarray, "N 3"]
    quats_wxyz: Float32[np.ndarray, "N 4"]
    opacity_logits: Float32[np.ndarray, "N"]


@dataclass(frozen=True)
class Growth:
    """What is to change: ``parents`` get a copy each, with ``children``; ``changed`` rows take ``new``; or go."""

    parents: Int64[np.ndarray, "M"]
    children: Shapes
    changed: Int64[np.ndarray, "K"]
    new: Shapes
    dropped: Bool[np.ndarray, "N"]


def rows_of(shapes: Shapes, rows: np.ndarray) -> Shapes:
    """The named rows, copied."""
    return Shapes(
        shapes.means_in_world[rows], shapes.log_scales[rows], shapes.quats_wxyz[rows], shapes.opacity_logits[rows]
    )


def adaptive_growth(
    shapes: Shapes,
    pull: Float32[np.ndarray, "N"],
    small_below: Float32[np.ndarray, "N"],
    threshold: float,
    most_new: int,
    rng: np.random.Generator,
) -> Growth:
    """Copy the ``most_new`` splats with the largest pull above the threshold.

    ``pull``: mean length of the gradient by the centre on the picture. A splat whose largest axis is below
    ``small_below`` (log) is cloned, both copies as opaque together as it was (Rota Bulo et al. 2024, sec. 3.3: else
    every clone makes the place denser); a larger one becomes two, drawn from itself and 1.6 times smaller.
    """
    wanted = np.flatnonzero(pull > threshold)
    order = np.argsort(-pull[wanted], kind="stable")[: max(most_new, 0)]
    parents = np.sort(wanted[order])
    old = rows_of(shapes, parents)
    large = old.log_scales.max(axis=1) > small_below[parents]
    shrunk = old.log_scales - np.where(large, np.log(_SPLIT_SHRINK), 0.0)[:, None]
    opacity = sigmoid(old.opacity_logits.astype(np.float64))
    logits = logit(np.where(large, opacity, 1 - np.sqrt(1 - opacity))).astype(np.float32)
    offsets = [_draw(old, rng) * large[:, None] for _ in range(2)]
    first, second = (
        Shapes(
            (old.means_in_world + offset).astype(np.float32),
            shrunk.astype(np.float32),
            old.quats_wxyz,
            logits,
        )
        for offset in offsets
    )
    return Growth(parents, second, parents, first, np.zeros(len(pull), dtype=bool))


def mcmc_growth(shapes: Shapes, dead_below: float, most_new: int, rng: np.random.Generator) -> Growth:
    """Move dead splats onto live ones drawn by opacity, and add ``most_new`` more in the same way.

    All copies of a splat, the old one included, get the opacity and scale with which together they look like it did.
    """
    opacity = sigmoid(shapes.opacity_logits.astype(np.float64))
    dead = opacity <= dead_below
    live = np.flatnonzero(~dead)
    count = int(dead.sum()) + max(most_new, 0)
    if not len(live) or not count:
        none = np.zeros(0, dtype=np.int64)
        return Growth(none, rows_of(shapes, none), none, rows_of(shapes, none), np.zeros(len(opacity), dtype=bool))
    parents = np.sort(rng.choice(live, count, p=opacity[live] / opacity[live].sum()))
    copies = np.bincount(parents, minlength=len(opacity)) + 1
    changed = np.unique(parents)
    new_opacity, shrink = shared_opacity(opacity[changed], copies[changed])
    old = rows_of(shapes, changed)
    new = Shapes(
        old.means_in_world,
        (old.log_scales + np.log(shrink)[:, None]).astype(np.float32),
        old.quats_wxyz,
        logit(np.clip(new_opacity, _MCMC_MIN_OPACITY, _MCMC_MAX_OPACITY)).astype(np.float32),
    )
    children = rows_of(new, np.searchsorted(changed, parents))
    return Growth(parents, children, changed, new, dead)


def shared_opacity(
    opacity: Float[np.ndarray, "K"], copies: Int64[np.ndarray, "K"]
) -> tuple[Float[np.ndarray, "K"], Float[np.ndarray, "K"]]:
    """Opacity of each of ``copies`` splats at one place that replace one, and the factor of their scales.

    Source: Kheradmand et al. (2024), eq. 9.
    """
    count = np.minimum(copies, _MOST_COPIES)
    each = 1.0 - (1.0 - opacity) ** (1.0 / count)
    total = np.zeros(len(opacity))
    for i in range(1, int(count.max(initial=1)) + 1):
        terms = sum(comb(i - 1, k) * (-1.0) ** k / np.sqrt(k + 1.0) * each ** (k + 1) for k in range(i))
        total += np.where(i <= count, terms, 0.0)
    return each, opacity / total


def jitter(shapes: Shapes, share: float, rng: np.random.Generator) -> Float32[np.ndarray, "N 3"]:
    """Steps of the centres: ``share`` of the splats' own standard deviations, for faint splats only."""
    opacity = sigmoid(shapes.opacity_logits.astype(np.float64))
    gate = sigmoid(_GATE_STEEPNESS * (_GATE_OPACITY - opacity))
    return np.asarray(share * gate[:, None] * _draw(shapes, rng), dtype=np.float32)


def _draw(shapes: Shapes, rng: np.random.Generator) -> Float[np.ndarray, "N 3"]:
    """A random point of each Gaussian, relative to its centre."""
    local = rng.standard_normal(shapes.log_scales.shape) * np.exp(shapes.log_scales.astype(np.float64))
    rotation = se3.rotation_from_quat_wxyz(shapes.quats_wxyz.astype(np.float64))
    return np.asarray(np.einsum("nij,nj->ni", rotation, local))
