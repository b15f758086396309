"""The fit: Adam on views drawn in a seeded order, coarse to fine, with pruning and early stop on held-out views."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64

from cuda_kernels.adam import adam_rows
from recon.backend import Gaussians, Renderer, splat_camera
from recon.config import ReconstructConfig
from recon.losses import MIN_ALPHA, exposure_fit, view_loss
from recon.model import SH_C0
from recon.prune import free_space_votes
from recon.records import SplatModel
from recon.sensor import SensorNoise
from recon.survey import Progress
from recon.views import View

# Columns of the packed parameters, one row per Gaussian.
MEANS, LOG_SCALES, QUATS, LOGIT, COLOUR = slice(0, 3), slice(3, 6), slice(6, 10), slice(10, 11), slice(11, 14)
_COLUMNS = 14
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-15  # Kingma & Ba (2015), alg. 1; epsilon as in 3DGS
_BACKGROUND = (0.5, 0.5, 0.5)


@dataclass(frozen=True)
class FitResult:
    """The fitted model and what happened on the way."""

    model: SplatModel
    iterations: int
    pruned: int
    held_out_scores: tuple[float, ...]  # mean relative depth error plus colour error at each check; lower is better


def fit(
    model: SplatModel,
    gains: Float32[np.ndarray, "V 3"],
    views: Sequence[View],
    held_out: Sequence[View],
    config: ReconstructConfig,
    noise: SensorNoise,
    renderer: Renderer,
    progress: Progress | None = None,
) -> FitResult:
    """Fit a model to views. The same arguments give the same bytes, however many threads draw.

    ``gains`` are the views' initial exposures. ``held_out`` views only decide when to stop. An empty model or no
    views come back as they are.
    """
    if not len(model.means_in_world) or not views or config.iterations == 0:
        return FitResult(model, 0, 0, ())
    state = _State(model, gains, config)
    scales = [[view.halved() for view in views], list(views)]
    rng = np.random.default_rng(config.seed)
    order = np.zeros(0, dtype=np.int64)
    prune_steps = {max(1, round(share * config.iterations)) for share in config.prune_at}
    coarse_steps = round(config.coarse_fraction * config.iterations)
    scores: list[float] = []
    best, best_model, stale, pruned, done = np.inf, model, 0, 0, 0
    for step in range(config.iterations):
        if not len(order):
            order = rng.permutation(len(views))
        index, order = int(order[0]), order[1:]
        state.step(scales[step >= coarse_steps][index], index, step / config.iterations, noise, renderer)
        done = step + 1
        if done in prune_steps:
            pruned += state.drop(~state.keep(views, noise))
        if held_out and (done % config.check_every == 0 or done == config.iterations):
            current = state.model()
            scores.append(held_out_score(current, held_out, renderer))
            if scores[-1] < best:
                best, best_model, stale = scores[-1], current, 0
            elif done > coarse_steps:
                stale += 1
            if config.patience and stale >= config.patience:
                break
        if progress is not None:
            progress(done, config.iterations, "fit")
    return FitResult(best_model if scores else state.model(), done, pruned, tuple(scores))


def held_out_score(model: SplatModel, views: Sequence[View], renderer: Renderer) -> float:
    """Mean over views of the mean relative depth error (capped at 10 %) plus a tenth of the colour error.

    Pixels that the sensor sees and the model does not cover count as 10 % wrong, so that pruning all does not win.
    """
    total = []
    for view in views:
        image = renderer.forward(packed(model), splat_camera(view.camera, view.world_from_camera), _BACKGROUND)
        surface = image.alpha > MIN_ALPHA
        seen = view.static & np.isfinite(view.z_depth_m)
        z = image.depth_sum / np.maximum(image.alpha, 1e-6)
        with np.errstate(invalid="ignore"):
            error = np.where(surface, np.abs(z - view.z_depth_m) / view.z_depth_m, 0.1)
        depth = float(np.minimum(error[seen], 0.1).mean()) if seen.any() else 0.0
        mask = view.static & surface
        target = view.rgb.astype(np.float32) / 255.0
        gain, offset = exposure_fit(image.rgb, target, mask)
        colour = float(np.abs(image.rgb[mask] * gain + offset - target[mask]).mean()) if mask.any() else 1.0
        total.append(depth + 0.1 * colour)
    return float(np.mean(total))


def packed(model: SplatModel) -> Gaussians:
    """A model as the rasteriser takes it, with colours of the constant term (the fit uses no higher ones)."""
    colours = np.maximum(0.5 + SH_C0 * model.sh_coeffs[:, 0], 0.0).astype(np.float32)
    return Gaussians(model.means_in_world, model.quats_wxyz, model.log_scales, model.opacity_logits, colours)


class _State:
    """Packed parameters with their moments; rows are Gaussians, only the visible ones take a step."""

    def __init__(self, model: SplatModel, gains: Float32[np.ndarray, "V 3"], config: ReconstructConfig) -> None:
        self.config = config
        count = len(model.means_in_world)
        self.values = np.empty((count, _COLUMNS), dtype=np.float32)
        self.values[:, MEANS] = model.means_in_world
        self.values[:, LOG_SCALES] = model.log_scales
        self.values[:, QUATS] = model.quats_wxyz
        self.values[:, LOGIT] = model.opacity_logits[:, None]
        self.values[:, COLOUR] = 0.5 + SH_C0 * model.sh_coeffs[:, 0]
        self.first = np.zeros_like(self.values)
        self.second = np.zeros_like(self.values)
        self.steps = np.zeros(count, dtype=np.int64)
        self.initial_scale = model.log_scales.max(axis=1)  # largest axis
        self.exposure = np.concatenate([gains, np.zeros_like(gains)], axis=1).astype(np.float64)  # gain, offset
        self.exposure_moments = np.zeros((2, *self.exposure.shape))
        self.exposure_steps = np.zeros(len(gains), dtype=np.int64)

    def model(self) -> SplatModel:
        """A copy of the present model."""
        return SplatModel(
            means_in_world=self.values[:, MEANS].copy(),
            log_scales=self.values[:, LOG_SCALES].copy(),
            quats_wxyz=self.values[:, QUATS].copy(),
            opacity_logits=self.values[:, 10].copy(),
            sh_coeffs=((self.values[:, COLOUR] - 0.5) / SH_C0).astype(np.float32)[:, None, :],
        )

    def step(self, view: View, index: int, progress: float, noise: SensorNoise, renderer: Renderer) -> float:
        """One view: draw, compare, go back, move."""
        config = self.config
        gaussians = Gaussians(
            self.values[:, MEANS], self.values[:, QUATS], self.values[:, LOG_SCALES], self.values[:, 10],
            np.maximum(self.values[:, COLOUR], 0.0),
        )  # fmt: skip
        image = renderer.forward(gaussians, splat_camera(view.camera, view.world_from_camera), _BACKGROUND)
        target = view.rgb.astype(np.float32) / np.float32(255.0)
        gain, offset = self.exposure[index, :3], self.exposure[index, 3:]
        terms = view_loss(
            image.rgb, image.alpha, image.depth_sum, target, view.z_depth_m, view.static, gain, offset, config, noise,
            view.colour_share,
        )  # fmt: skip
        slopes = renderer.backward(image, terms.d_rgb, terms.d_alpha, terms.d_depth_sum)
        rows = np.flatnonzero(image.visible)
        gradient = np.concatenate(
            [
                slopes.means_in_world[rows],
                slopes.log_scales[rows],
                slopes.quats_wxyz[rows],
                slopes.opacity_logits[rows, None],
                slopes.colors[rows],
            ],
            axis=1,
        )
        self._regularise(gradient, rows)
        decay = config.final_rate_share**progress
        self._adam(rows, gradient, decay)
        self._adam_exposure(index, np.concatenate([terms.d_gain, terms.d_offset]), decay)
        return terms.loss

    def _regularise(self, gradient: Float32[np.ndarray, "M C"], rows: Int64[np.ndarray, "M"]) -> None:
        """Add the gradients of the opacity, scale and flatness terms (means over the visible Gaussians)."""
        config, count = self.config, max(len(rows), 1)
        logits = self.values[rows, 10]
        opacity = 0.5 * (1 + np.tanh(0.5 * logits))
        gradient[:, 10] += config.opacity_weight / count * opacity * (1 - opacity)
        scales = self.values[rows, LOG_SCALES]
        excess = scales > (self.initial_scale[rows] + config.scale_slack)[:, None]
        gradient[:, LOG_SCALES] += config.scale_weight / count * excess
        order = np.argsort(scales, axis=1, kind="stable")
        everyone = np.arange(len(rows))
        thin, middle = order[:, 0], order[:, 1]
        thick = scales[everyone, thin] - scales[everyone, middle] > np.log(config.max_flatness)
        push = (config.flatness_weight / count * thick).astype(np.float32)
        gradient[everyone, 3 + thin] += push
        gradient[everyone, 3 + middle] -= push

    def _adam(self, rows: Int64[np.ndarray, "M"], gradient: Float32[np.ndarray, "M C"], decay: float) -> None:
        config = self.config
        rate = np.empty(_COLUMNS, dtype=np.float32)
        rate[MEANS] = config.learning_rate_means  # of each Gaussian's own initial size
        rate[LOG_SCALES] = config.learning_rate_scales
        rate[QUATS] = config.learning_rate_quats
        rate[LOGIT] = config.learning_rate_opacity
        rate[COLOUR] = config.learning_rate_colour
        rate *= np.float32(decay)
        size = np.exp(self.initial_scale)
        adam_rows(self.values, self.first, self.second, self.steps, rows, gradient, rate, size, MEANS.stop)

    def _adam_exposure(self, index: int, gradient: Float[np.ndarray, "6"], decay: float) -> None:
        self.exposure_steps[index] += 1
        taken = int(self.exposure_steps[index])
        first, second = self.exposure_moments[0, index], self.exposure_moments[1, index]
        first[:] = _BETA1 * first + (1 - _BETA1) * gradient
        second[:] = _BETA2 * second + (1 - _BETA2) * gradient**2
        correction = np.sqrt(1 - _BETA2**taken) / (1 - _BETA1**taken)
        rate = self.config.learning_rate_exposure * decay
        self.exposure[index] -= rate * correction * first / (np.sqrt(second) + _EPSILON)

    def keep(self, views: Sequence[View], noise: SensorNoise) -> Bool[np.ndarray, "N"]:
        """Gaussians that are no floaters: opaque enough, not oversized, seen, and not in free space."""
        config = self.config
        opacity = 0.5 * (1 + np.tanh(0.5 * self.values[:, 10]))
        largest = self.values[:, LOG_SCALES].max(axis=1)
        good = (opacity >= config.prune_opacity) & (largest <= self.initial_scale + np.log(config.prune_scale_factor))
        good &= np.isfinite(self.values).all(axis=1)
        votes = free_space_votes(self.values[:, MEANS], views, noise)
        floating = (votes.violating >= config.prune_violations) & (votes.violating > votes.supporting)
        return np.asarray(good & ~floating)

    def drop(self, rows: Bool[np.ndarray, "N"]) -> int:
        """Remove rows; returns how many."""
        keep = ~rows
        for name in ("values", "first", "second", "steps", "initial_scale"):
            setattr(self, name, getattr(self, name)[keep])
        return int(rows.sum())
