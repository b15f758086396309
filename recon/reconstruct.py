"""The reconstruct stage: canonical recording in, static splats, masks of what may move, and a report out."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from geo.recording import CanonicalRecording
from recon.align import PosePrior, align_views
from recon.backend import choose_renderer
from recon.config import ReconstructConfig
from recon.dynamic import PromptRegion, estimate_dynamic
from recon.fit import FitResult, fit
from recon.floaters import remove_floaters
from recon.joint_align import align_together
from recon.keyframes import Keyframes
from recon.model import empty_model
from recon.place import place
from recon.prune import prune_free_space
from recon.quality_report import quality_report
from recon.records import DynamicMasks, Reconstruction
from recon.report import measure, recon_report
from recon.sensor import SensorNoise, has_sensor
from recon.steps import StepClock
from recon.survey import Progress, choose_keyframes, survey
from recon.views import View, load_views, mean_colour
from recon.voters import free_space_voters

__all__ = ["ReconstructConfig", "reconstruct"]


def reconstruct(
    canonical: CanonicalRecording,
    config: ReconstructConfig | None = None,
    progress: Progress | None = None,
    prompts: Sequence[PromptRegion] | None = None,
) -> Reconstruction:
    """Fit the static scene.

    Frames without a pose are left out. Without sensor depth (unless ``config.from_pictures``), or without any pose,
    nothing can be placed: the result then has an empty model and says why in ``report.notes``; later stages go on
    with what they have. With ``config.model`` nothing is fitted: see ``recon.foreign``.

    Args:
        canonical: Rectified recording.
        config: Settings; defaults when None.
        progress: Called as ``progress(done, total, what)``.
        prompts: Neighbourhoods that somebody pointed at as movable.

    Raises:
        ReconError: a prompt names a frame that does not exist; the configuration asks for CUDA that is not there.
    """
    config = config or ReconstructConfig()
    if config.model:
        from recon.foreign import matrix_of, reconstruct_from_model

        way = matrix_of(config.model_transform)
        return reconstruct_from_model(canonical, Path(config.model), config, progress, prompts, way)
    renderer = choose_renderer(config.device)
    started, clock = time.monotonic(), StepClock()
    small = survey(canonical, config, progress)
    clock.mark("survey")
    dynamic = estimate_dynamic(canonical, small, config, tuple(prompts or ()), SensorNoise())
    clock.mark("masks")
    keyframes = choose_keyframes(canonical, small, dynamic, config)
    reason = _why_empty(canonical, keyframes, config)
    if reason:
        return _nothing(keyframes, dynamic, time.monotonic() - started, (reason,))
    views = load_views(canonical, keyframes.fit.tolist(), dynamic, config, progress)
    views = _with_sharpness(views, small.sharpness)
    held_out = load_views(canonical, keyframes.held_out.tolist(), dynamic, config, progress)
    clock.mark("views")

    def views_at(width_px: int) -> list[View]:
        return load_views(canonical, keyframes.fit.tolist(), dynamic, replace(config, width_px=width_px))

    prior = PosePrior.of(config)
    if has_sensor(canonical):
        views = align_together(views, prior, SensorNoise(), progress)
        clock.mark("poses")
    placed = place(canonical, views, config, renderer, views_at, progress)
    if not len(placed.initial.model.means_in_world):
        return _nothing(keyframes, dynamic, time.monotonic() - started, placed.notes)
    held = [*keyframes.fit.tolist(), *keyframes.held_out.tolist()]
    further = free_space_voters(canonical, dynamic, config, held, config.witnesses)
    first = prune_free_space(placed.initial.model, [*views, *further], config, placed.noise)
    background = mean_colour(views)
    clock.mark("first model")
    result = fit(
        first.model, placed.initial.gains, views, held_out, config, placed.noise, renderer, progress, background
    )
    clock.mark("fit")
    if has_sensor(canonical):
        held_out = align_views(held_out, result.model, prior, placed.noise, renderer)
    last = remove_floaters(
        result.model, views, held_out, config, placed.noise, renderer, background,
        voters=further, before_fit=first.removed, in_fit=result.pruned,
    )  # fmt: skip
    clock.mark("floaters")
    quality = measure(last.model, held_out or views, renderer, background, result.exposures)
    told = quality_report(
        last.model, held_out or views, renderer, held_out=bool(held_out), metric=canonical.world.metric,
        background=background, exposures=result.exposures, floaters=last.report,
    )  # fmt: skip
    notes = (*_notes(canonical, held_out, dynamic, renderer.name), *placed.notes, *_fit_notes(result, config))
    removed = first.removed + result.pruned + last.report.removed
    seconds = time.monotonic() - started
    report = recon_report(keyframes, last.model, quality, seconds, notes, result.iterations, removed)
    clock.mark("report")
    return Reconstruction(last.model, dynamic, report, replace(told, step_seconds=clock.seconds))


def _nothing(keyframes: Keyframes, dynamic: DynamicMasks, seconds: float, notes: tuple[str, ...]) -> Reconstruction:
    """No splats, and why."""
    return Reconstruction(empty_model(), dynamic, recon_report(keyframes, empty_model(), None, seconds, notes))


def _why_empty(canonical: CanonicalRecording, keyframes: Keyframes, config: ReconstructConfig) -> str:
    if not len(keyframes.fit):
        return "no frame has a pose, so nothing could be reconstructed; give a trajectory"
    if not has_sensor(canonical) and not config.from_pictures:
        return (
            "the recording has no sensor depth, and splats are placed from it: the scene could not be estimated. "
            "Give a depth stream, or, where nothing but the wearer's hands moves, set reconstruct.from_pictures=true"
        )
    return ""


def _with_sharpness(views: Sequence[View], sharpness: np.ndarray) -> list[View]:
    """Weaken the colours of blurred views, relative to the median keyframe."""
    values = np.array([sharpness[view.frame] for view in views])
    share = np.clip(values / max(float(np.median(values)), 1e-9), 0.3, 1.0)
    return [replace(view, colour_share=float(value)) for view, value in zip(views, share, strict=True)]


def _notes(
    canonical: CanonicalRecording, held_out: Sequence[View], dynamic: DynamicMasks, renderer: str
) -> tuple[str, ...]:
    notes = [f"rasteriser: {renderer}", f"masked as possibly moving: {float(dynamic.masks.mean()):.1%} of all pixels"]
    if not canonical.world.metric:
        notes.append("the world is not metric: lengths, depths and their errors are in the poses' own unit, not metres")
    if not held_out:
        notes.append("no frame was held out: quality is measured on the frames of the fit")
    return tuple(notes)


def _fit_notes(result: FitResult, config: ReconstructConfig) -> tuple[str, ...]:
    notes = []
    if config.densify != "none":
        notes.append(f"densification ({config.densify}) added {result.added} splats")
    if config.learning_rate_pose_rad > 0:
        turn, shift = result.largest_pose_correction
        notes.append(f"poses of the fit's views were refined by up to {turn:.2f} degrees and {shift:.4f} units")
    return tuple(notes)
