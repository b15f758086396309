"""The reconstruct stage: canonical recording in, static splats, masks of what may move, and a report out."""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from geo.recording import CanonicalRecording
from recon.align import PosePrior, align_views
from recon.backend import choose_renderer
from recon.config import ReconstructConfig
from recon.dynamic import PromptRegion, estimate_dynamic
from recon.fit import fit
from recon.init import initialise
from recon.joint_align import align_together
from recon.keyframes import Keyframes, select_keyframes
from recon.model import empty_model
from recon.prune import prune_free_space
from recon.records import DynamicMasks, ReconReport, Reconstruction, SplatModel
from recon.report import Quality, calibrate_noise, measure
from recon.sensor import SensorNoise
from recon.survey import Progress, survey
from recon.sweep import sweep_noise, sweep_views
from recon.views import View, load_views

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
    with what they have.

    Args:
        canonical: Rectified recording.
        config: Settings; defaults when None.
        progress: Called as ``progress(done, total, what)``.
        prompts: Neighbourhoods that somebody pointed at as movable.

    Raises:
        ReconError: a prompt names a frame that does not exist; the configuration asks for CUDA that is not there.
    """
    config = config or ReconstructConfig()
    renderer = choose_renderer(config.device)
    started = time.monotonic()
    small = survey(canonical, config, progress)
    noise = SensorNoise()
    dynamic = estimate_dynamic(canonical, small, config, tuple(prompts or ()), noise)
    keyframes = select_keyframes(canonical.world_from_camera, small.sharpness, config)
    reason = _why_empty(canonical, keyframes, config)
    if reason:
        return Reconstruction(empty_model(), dynamic, _report(keyframes, empty_model(), 0, 0, None, started, (reason,)))
    views = load_views(canonical, keyframes.fit.tolist(), dynamic, config, progress)
    views = _with_sharpness(views, small.sharpness)
    held_out = load_views(canonical, keyframes.held_out.tolist(), dynamic, config, progress)
    swept = not _has_sensor(canonical)
    placed = views
    if swept:
        small_views = replace(config, width_px=config.sweep_width_px)
        placed = sweep_views(load_views(canonical, keyframes.fit.tolist(), dynamic, small_views), progress)
        noise = sweep_noise(placed)
    prior = PosePrior(config.pose_sigma_m, np.radians(config.pose_sigma_deg))
    if not swept:
        placed = views = align_together(views, prior, noise, progress)
    initial = initialise(placed, config, noise)
    if not len(initial.model.means_in_world):
        reason = "no sensor depth falls on static pixels of the keyframes, so no splat could be placed"
        if swept:
            reason = "the keyframes' pictures agree on no depth (too few, from one place, or without texture)"
        return Reconstruction(empty_model(), dynamic, _report(keyframes, empty_model(), 0, 0, None, started, (reason,)))
    first = prune_free_space(initial.model, views, config, noise)
    result = fit(first.model, initial.gains, views, held_out, config, noise, renderer, progress)
    last = prune_free_space(result.model, views, config, noise)
    if not swept:
        held_out = align_views(held_out, last.model, prior, noise, renderer, [v.world_from_camera for v in held_out])
    quality = measure(last.model, held_out or views, renderer)
    notes = _notes(held_out, dynamic, renderer.name, swept)
    removed = first.removed + result.pruned + last.removed
    report = _report(keyframes, last.model, result.iterations, removed, quality, started, notes)
    return Reconstruction(last.model, dynamic, report)


def _has_sensor(canonical: CanonicalRecording) -> bool:
    return canonical.sensor is not None and len(canonical.sensor.timestamps_ns) > 0


def _why_empty(canonical: CanonicalRecording, keyframes: Keyframes, config: ReconstructConfig) -> str:
    if not len(keyframes.fit):
        return "no frame has a pose, so nothing could be reconstructed; give a trajectory"
    if not _has_sensor(canonical) and not config.from_pictures:
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


def _notes(held_out: Sequence[View], dynamic: DynamicMasks, renderer: str, swept: bool) -> tuple[str, ...]:
    notes = [f"rasteriser: {renderer}", f"masked as possibly moving: {float(dynamic.masks.mean()):.1%} of all pixels"]
    if swept:
        notes.append("no sensor depth: splats are placed by a plane sweep, and nothing but hands is known to move")
    if not held_out:
        notes.append("no frame was held out: quality is measured on the frames of the fit")
    return tuple(notes)


def _report(
    keyframes: Keyframes,
    model: SplatModel,
    iterations: int,
    removed: int,
    quality: Quality | None,
    started: float,
    notes: tuple[str, ...],
) -> ReconReport:
    nan = float("nan")
    sigma = (calibrate_noise(quality) if quality is not None else None) or (nan, nan)
    return ReconReport(
        keyframes=tuple(int(frame) for frame in keyframes.fit),
        held_out_frames=tuple(int(frame) for frame in keyframes.held_out),
        iterations=iterations,
        gaussians=len(model.means_in_world),
        floaters_pruned=removed,
        psnr_held_out_db=quality.psnr_db if quality else nan,
        depth_abs_rel_held_out=quality.depth_abs_rel if quality else nan,
        depth_median_error_m=quality.depth_median_error_m if quality else nan,
        coverage=quality.coverage if quality else nan,
        fit_seconds=time.monotonic() - started,
        notes=notes,
        depth_abs_rel_median_held_out=quality.depth_abs_rel_median if quality else nan,
        picture_coverage=quality.picture_coverage if quality else nan,
        sensor_spread_floor_m=sigma[0],
        sensor_spread_per_m=sigma[1],
    )
