"""The fit: Adam on views drawn in a seeded order, coarse to fine, with growth, pruning and early stop."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, Int64

from cuda_kernels.adam import adam_rows
from cuda_kernels.fit_terms import add_shape_terms
from cuda_kernels.splat import SplatGradients, eval_sh, eval_sh_backward
from recon.backend import Background, Gaussians, Renderer, splat_camera
from recon.config import ReconstructConfig
from recon.densify import Growth, Shapes, adaptive_growth, jitter, mcmc_growth
from recon.losses import view_loss
from recon.model import SH_C0, sigmoid
from recon.per_view import Exposures, ExposureTrack, PoseCorrections
from recon.prune import free_space_votes
from recon.records import SplatModel
from recon.score import held_out_score
from recon.sensor import SensorNoise
from recon.survey import Progress
from recon.views import View

# Columns of the packed parameters, one row per Gaussian; colour coefficients follow, constant term first.
MEANS, LOG_SCALES, QUATS, LOGIT, SH = slice(0, 3), slice(3, 6), slice(6, 10), slice(10, 11), slice(11, None)
_FIXED = 11


@dataclass(frozen=True)
class FitResult:
    """The fitted model and what happened on the way."""

    model: SplatModel
    iterations: int
    pruned: int
    held_out_scores: tuple[float, ...]  # see ``held_out_score``, at each check; lower is better
    exposures: ExposureTrack | None = None  # of the fit's frames, at the end
    added: int = 0  # by densification
    largest_pose_correction: tuple[float, float] = (0.0, 0.0)  # degrees, world units


@runtime_checkable
class FitState(Protocol):
    """What the loop asks of the parameters that it fits, wherever they lie."""

    poses: PoseCorrections
    exposures: Exposures

    def take_average(self) -> None:
        """Count the present values in."""
        ...

    def step(self, view: View, index: int, progress: float, noise: SensorNoise, renderer: Renderer) -> float:
        """One view: draw, compare, go back, move; returns the loss."""
        ...

    def densify(self, progress: float) -> int:
        """One round of growth; returns how many splats joined."""
        ...

    def keep(self, views: Sequence[View], noise: SensorNoise) -> Bool[np.ndarray, "N"]:
        """Gaussians that are no floaters."""
        ...

    def drop(self, rows: Bool[np.ndarray, "N"]) -> int:
        """Remove rows; returns how many."""
        ...

    def model(self) -> SplatModel:
        """A copy of the present model."""
        ...


@runtime_checkable
class KeepsState(Protocol):
    """A renderer whose device holds the parameters between steps."""

    def fit_state(
        self,
        model: SplatModel,
        gains: Float32[np.ndarray, "V 3"],
        views: Sequence[View],
        config: ReconstructConfig,
        background: Background,
        everywhere: bool,
    ) -> FitState:
        """The parameters on that device."""
        ...


def fit(
    model: SplatModel,
    gains: Float32[np.ndarray, "V 3"],
    views: Sequence[View],
    held_out: Sequence[View],
    config: ReconstructConfig,
    noise: SensorNoise,
    renderer: Renderer,
    progress: Progress | None = None,
    background: Background = (0.5, 0.5, 0.5),
) -> FitResult:
    """Fit a model to views. The same arguments give the same bytes, however many threads draw.

    ``gains`` are the views' initial exposures. ``held_out`` views only decide when to stop. An empty model or no
    views come back as they are. Views without any sensor depth are filled with splats to their last static pixel.
    A renderer that keeps parameters where it draws (``KeepsState``) does the steps itself, by the same schedule.
    """
    if not len(model.means_in_world) or not views or config.iterations == 0:
        return FitResult(model, 0, 0, ())
    everywhere = not any(np.isfinite(view.z_depth_m).any() for view in views)
    make_state = renderer.fit_state if isinstance(renderer, KeepsState) else _State
    state: FitState = make_state(model, gains, views, config, background, everywhere)
    scales = [[view.halved() for view in views], list(views)]
    rng = np.random.default_rng(config.seed)
    order = np.zeros(0, dtype=np.int64)
    prune_steps = {max(1, round(share * config.iterations)) for share in config.prune_at}
    coarse_steps = round(config.coarse_fraction * config.iterations)
    scores: list[float] = []
    best, best_model, stale, pruned, added, done = np.inf, model, 0, 0, 0, 0
    for step in range(config.iterations):
        if not len(order):
            order = rng.permutation(len(views))
        index, order = int(order[0]), order[1:]
        state.step(scales[step >= coarse_steps][index], index, step / config.iterations, noise, renderer)
        done = step + 1
        if done > config.average_from * config.iterations:
            state.take_average()
        if config.densify != "none" and _grows(done, config):
            added += state.densify(step / config.iterations)
        if done in prune_steps:
            pruned += state.drop(~state.keep(views, noise))
        if held_out and (done % config.check_every == 0 or done == config.iterations):
            current = state.model()
            scores.append(held_out_score(current, held_out, renderer, background, everywhere))
            if scores[-1] < best:
                best, best_model, stale = scores[-1], current, 0
            elif done > coarse_steps:
                stale += 1
            if config.patience and stale >= config.patience:
                break
        if progress is not None:
            progress(done, config.iterations, "fit")
    found = best_model if scores else state.model()
    frames = np.array([view.frame for view in views], dtype=np.int64)
    track = state.exposures.track(frames)
    return FitResult(found, done, pruned, tuple(scores), track, added, state.poses.largest())


def _grows(done: int, config: ReconstructConfig) -> bool:
    share = done / config.iterations
    return done % config.densify_every == 0 and config.densify_from <= share <= config.densify_until


class _State:
    """Packed parameters with their moments; rows are Gaussians, only the visible ones take a step."""

    _PER_ROW = ("values", "average", "first", "second", "steps", "initial_scale", "pull", "seen")

    def __init__(
        self,
        model: SplatModel,
        gains: Float32[np.ndarray, "V 3"],
        views: Sequence[View],
        config: ReconstructConfig,
        background: Background,
        everywhere: bool,
    ) -> None:
        self.config, self.background, self.everywhere = config, background, everywhere
        count, held = len(model.means_in_world), model.sh_coeffs.shape[1]
        terms = max((config.sh_degree + 1) ** 2, held)
        self.values = np.zeros((count, _FIXED + 3 * terms), dtype=np.float32)
        self.values[:, MEANS] = model.means_in_world
        self.values[:, LOG_SCALES] = model.log_scales
        self.values[:, QUATS] = model.quats_wxyz
        self.values[:, LOGIT] = model.opacity_logits[:, None]
        self.values[:, _FIXED : _FIXED + 3 * held] = model.sh_coeffs.reshape(count, -1)
        self.average, self.averaged = self.values.copy(), 0  # of the last steps' values, and over how many
        self.first = np.zeros_like(self.values)
        self.second = np.zeros_like(self.values)
        self.steps = np.zeros(count, dtype=np.int64)
        self.initial_scale = model.log_scales.max(axis=1)  # largest axis
        self.pull = np.zeros(count, dtype=np.float32)  # sum of gradients by the centre on the picture, and how many
        self.seen = np.zeros(count, dtype=np.int64)
        self.exposures = Exposures(gains)
        self.poses = PoseCorrections(len(gains), typical_depth(model, views))
        self.rng = np.random.default_rng([config.seed, 1])

    def shapes(self) -> Shapes:
        """Views of the columns that are not colour."""
        return _shapes(self.values)

    def sh(self) -> Float32[np.ndarray, "N K 3"]:
        """Colour coefficients, a view."""
        return _sh(self.values)

    def model(self) -> SplatModel:
        """A copy of the model (averaged once averaging began), its colours those of a typical view's exposure."""
        values = self.average if self.averaged else self.values
        gain, offset = self.exposures.mean()
        sh_coeffs = (_sh(values) * gain).astype(np.float32)
        sh_coeffs[:, 0] += ((0.5 * gain + offset - 0.5) / SH_C0).astype(np.float32)
        shapes = _shapes(values)
        return SplatModel(
            shapes.means_in_world.copy(),
            shapes.log_scales.copy(),
            shapes.quats_wxyz.copy(),
            shapes.opacity_logits.copy(),
            sh_coeffs,
        )

    def step(self, view: View, index: int, progress: float, noise: SensorNoise, renderer: Renderer) -> float:
        """One view: draw, compare, go back, move."""
        config = self.config
        pose = self.poses.world_from_camera(index, view.world_from_camera)
        degree = used_degree(config, progress)
        directions = self.values[:, MEANS] - pose[:3, 3].astype(np.float32)
        colours = eval_sh(self.sh(), directions, degree)
        shapes = self.shapes()
        gaussians = Gaussians(
            shapes.means_in_world, shapes.quats_wxyz, shapes.log_scales, shapes.opacity_logits, colours
        )
        camera = splat_camera(view.camera, pose)
        image = renderer.forward(gaussians, camera, self.background)
        target = view.rgb.astype(np.float32) / np.float32(255.0)
        depth_sum = image.depth_sum
        if np.isfinite(view.z_depth_m).any():  # the planes' lean is taken as given: gradients are the centres'
            depth_sum = renderer.plane_depth_sum(image, camera)
        terms = view_loss(
            image.rgb, image.alpha, depth_sum, target, view.z_depth_m, view.static,
            *self.exposures.of(index), config, noise, view.colour_share, self.everywhere,
        )  # fmt: skip
        slopes = renderer.backward(image, terms.d_rgb, terms.d_alpha, terms.d_depth_sum)
        rows = np.flatnonzero(image.visible)
        decay = config.final_rate_share**progress
        self._adam(rows, self._gradient(slopes, directions, rows, degree), decay)
        self.pull[rows] += slopes.mean2d_norm[rows] * np.float32(0.5 * max(view.camera.size_wh_px))
        self.seen[rows] += 1
        self.exposures.step(
            index, terms.d_gain, terms.d_offset, config.learning_rate_exposure * decay, config.exposure_pull
        )
        if config.learning_rate_pose_rad > 0:
            self.poses.step(index, slopes.camera_twist, config.learning_rate_pose_rad * decay, config.pose_pull)
        if config.densify == "mcmc":
            self.values[:, MEANS] += jitter(self.shapes(), config.jitter_share * decay, self.rng)
        return terms.loss

    def _gradient(
        self,
        slopes: SplatGradients,
        directions: Float32[np.ndarray, "N 3"],
        rows: Int64[np.ndarray, "M"],
        degree: int | None,
    ) -> Float32[np.ndarray, "M C"]:
        """Gradient by the packed parameters of the visible rows, regularisers included."""
        values, config = self.values[rows], self.config
        sh = values[:, SH].reshape(len(rows), -1, 3)
        d_sh, d_directions = eval_sh_backward(sh, directions[rows], slopes.colors[rows], degree)
        gradient = np.empty_like(values)
        gradient[:, MEANS] = slopes.means_in_world[rows] + d_directions
        gradient[:, LOG_SCALES] = slopes.log_scales[rows]
        gradient[:, QUATS] = slopes.quats_wxyz[rows]
        gradient[:, LOGIT] = slopes.opacity_logits[rows, None]
        gradient[:, SH] = d_sh.reshape(len(rows), -1)
        limit = self.initial_scale + np.float32(config.scale_slack)
        weights = config.opacity_weight, config.scale_weight, config.flatness_weight
        columns = LOG_SCALES.start, LOGIT.start
        add_shape_terms(gradient, self.values, rows, limit, columns, weights, config.max_flatness)
        return np.asarray(gradient)

    def _adam(self, rows: Int64[np.ndarray, "M"], gradient: Float32[np.ndarray, "M C"], decay: float) -> None:
        config = self.config
        rate = np.full(self.values.shape[1], config.learning_rate_sh, dtype=np.float32)
        rate[MEANS] = config.learning_rate_means  # of each Gaussian's own initial size
        rate[LOG_SCALES] = config.learning_rate_scales
        rate[QUATS] = config.learning_rate_quats
        rate[LOGIT] = config.learning_rate_opacity
        rate[_FIXED : _FIXED + 3] = config.learning_rate_colour / SH_C0
        rate *= np.float32(decay)
        size = np.exp(self.initial_scale)
        adam_rows(self.values, self.first, self.second, self.steps, rows, gradient, rate, size, MEANS.stop)

    def take_average(self) -> None:
        """Count the present values in: what single views pull to and fro cancels. Source: Polyak & Juditsky (1992)."""
        self.averaged += 1
        self.average += (self.values - self.average) / np.float32(self.averaged)

    def densify(self, progress: float) -> int:
        """One round of growth; returns how many splats joined."""
        config, count = self.config, len(self.values)
        room = min(config.max_gaussians - count, round(config.densify_growth * count))
        if config.densify == "mcmc":
            growth = mcmc_growth(self.shapes(), config.dead_opacity, room, self.rng)
        else:
            mean_pull = self.pull / np.maximum(self.seen, 1).astype(np.float32)
            growth = adaptive_growth(self.shapes(), mean_pull, self.initial_scale, config.densify_pull, room, self.rng)
        self._apply(growth)
        self.pull[:], self.seen[:] = 0, 0
        return len(growth.parents) - int(growth.dropped.sum())

    def _apply(self, growth: Growth) -> None:
        """Change, copy and drop rows; copies and changed rows start with fresh moments."""
        self._write(growth.changed, growth.new)
        start = len(self.values)
        for name in self._PER_ROW:
            rows = getattr(self, name)
            setattr(self, name, np.concatenate([rows, rows[growth.parents]]))
        children = np.arange(start, len(self.values))
        self._write(children, growth.children)
        self.drop(np.concatenate([growth.dropped, np.zeros(len(children), dtype=bool)]))

    def _write(self, rows: Int64[np.ndarray, "K"], shapes: Shapes) -> None:
        self.values[rows, MEANS] = shapes.means_in_world
        self.values[rows, LOG_SCALES] = shapes.log_scales
        self.values[rows, QUATS] = shapes.quats_wxyz
        self.values[rows, LOGIT] = shapes.opacity_logits[:, None]
        self.average[rows] = self.values[rows]
        self.first[rows], self.second[rows], self.steps[rows] = 0, 0, 0
        self.initial_scale[rows] = shapes.log_scales.max(axis=1, initial=-np.inf)

    def keep(self, views: Sequence[View], noise: SensorNoise) -> Bool[np.ndarray, "N"]:
        """Gaussians that are no floaters: opaque enough, not oversized, seen, and not in free space."""
        config = self.config
        largest = self.values[:, LOG_SCALES].max(axis=1)
        good = sigmoid(self.values[:, _FIXED - 1]) >= config.prune_opacity
        good &= largest <= self.initial_scale + np.log(config.prune_scale_factor)
        good &= np.isfinite(self.values).all(axis=1)
        return np.asarray(good & ~free_space_votes(self.values[:, MEANS], views, noise).seen_through(config))

    def drop(self, rows: Bool[np.ndarray, "N"]) -> int:
        """Remove rows; returns how many."""
        for name in self._PER_ROW:
            setattr(self, name, getattr(self, name)[~rows])
        return int(rows.sum())


def _shapes(values: Float32[np.ndarray, "N C"]) -> Shapes:
    return Shapes(values[:, MEANS], values[:, LOG_SCALES], values[:, QUATS], values[:, _FIXED - 1])


def _sh(values: Float32[np.ndarray, "N C"]) -> Float32[np.ndarray, "N K 3"]:
    return np.asarray(values[:, SH].reshape(len(values), -1, 3))


def used_degree(config: ReconstructConfig, progress: float) -> int | None:
    """Degree of colour at a share of the iterations; None is all that the model holds."""
    return min(config.sh_degree, int(progress / config.sh_step_share)) if config.sh_step_share > 0 else None


def typical_depth(model: SplatModel, views: Sequence[View]) -> float:
    """Median distance of the splats from a view in the middle of the list."""
    view = views[len(views) // 2]
    z = (model.means_in_world - view.world_from_camera[:3, 3]) @ view.world_from_camera[:3, 2]
    front = z[z > 0]
    return float(np.median(front)) if len(front) else 1.0
