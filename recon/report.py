"""How good a model is, measured on frames that the fit never saw."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from recon.backend import Background, Renderer
from recon.keyframes import Keyframes
from recon.losses import exposure_fit
from recon.per_view import ExposureTrack
from recon.records import ReconReport, SplatModel
from recon.render import render, surface_depth
from recon.views import View


@dataclass(frozen=True)
class Quality:
    """Means and medians over all pixels of all held-out views; NaN where there was nothing to measure.

    ``psnr_db`` is over static pixels that the model covers, after an affine exposure fitted to the view (the model
    cannot know a new frame's exposure); ``picture_psnr_db`` is over all static pixels, covered or not, and takes
    nothing from the held-out picture: its exposure is interpolated between those of the fit's frames. Depth errors
    are against the sensor where it sees and nothing moves; ``coverage`` is the share of those pixels for which the
    model has a depth, ``picture_coverage`` that of all static pixels. ``residual_z_m`` and ``residual_m`` are
    samples (depth, static minus sensor) for calibration.
    """

    psnr_db: float
    picture_psnr_db: float
    depth_abs_rel: float
    depth_abs_rel_median: float
    depth_median_error_m: float
    coverage: float
    picture_coverage: float
    residual_z_m: Float[np.ndarray, "R"]
    residual_m: Float[np.ndarray, "R"]


def measure(
    model: SplatModel,
    views: Sequence[View],
    renderer: Renderer,
    background: Background = (0.0, 0.0, 0.0),
    exposures: ExposureTrack | None = None,
) -> Quality:
    """Render every view and compare; ``background`` stands where the model covers nothing.

    ``exposures`` are those of frames that are not among the views, for ``Quality.picture_psnr_db``.
    """
    psnrs, strict, z_all, error_all, seen_count, drawn_count, static_count = [], [], [], [], 0, 0, 0
    for view in views:
        drawn = render(model, view.camera, view.world_from_camera, background=background, renderer=renderer)
        z = surface_depth(drawn)
        covered = np.isfinite(z)
        seen = view.static & np.isfinite(view.z_depth_m)
        both = seen & covered
        z_all.append(view.z_depth_m[both])
        error_all.append(z[both] - view.z_depth_m[both])
        seen_count += int(seen.sum())
        drawn_count += int((view.static & covered).sum())
        static_count += int(view.static.sum())
        psnrs.append(view_psnr(drawn.rgb, view, covered))
        gain, offset = exposures.at(view.frame) if exposures is not None else (np.ones(3), np.zeros(3))
        strict.append(picture_psnr(drawn.rgb * gain + offset, view))
    z_sensor = np.concatenate(z_all) if z_all else np.zeros(0, np.float32)
    error = np.concatenate(error_all) if error_all else np.zeros(0, np.float32)
    relative = np.abs(error) / z_sensor
    some = len(error) > 0
    nan = float("nan")
    return Quality(
        psnr_db=_mean_of_finite(psnrs),
        picture_psnr_db=_mean_of_finite(strict),
        depth_abs_rel=float(relative.mean()) if some else nan,
        depth_abs_rel_median=float(np.median(relative)) if some else nan,
        depth_median_error_m=float(np.median(np.abs(error))) if some else nan,
        coverage=len(error) / seen_count if seen_count else nan,
        picture_coverage=drawn_count / static_count if static_count else nan,
        residual_z_m=z_sensor.astype(np.float64),
        residual_m=error.astype(np.float64),
    )


def view_psnr(rgb: Float[np.ndarray, "H W 3"], view: View, covered: np.ndarray) -> float:
    """PSNR in dB over static covered pixels after the best affine exposure; NaN with fewer than 16 pixels."""
    mask = view.static & covered
    if mask.sum() < 16:
        return float("nan")
    target = view.rgb.astype(np.float32) / np.float32(255)
    gain, offset = exposure_fit(rgb, target, mask)
    error = np.clip(rgb[mask] * gain + offset, 0, 1) - target[mask]
    return float(-10 * np.log10(max(float(np.square(error, dtype=np.float64).mean()), 1e-10)))


def picture_psnr(rgb: Float[np.ndarray, "H W 3"], view: View) -> float:
    """PSNR in dB over all static pixels of a rendering as it is, clipped to 0..1; NaN without any."""
    if not view.static.any():
        return float("nan")
    target = view.rgb.astype(np.float32) / np.float32(255)
    error = np.clip(rgb, 0, 1)[view.static] - target[view.static]
    return float(-10 * np.log10(max(float(np.square(error, dtype=np.float64).mean()), 1e-10)))


def _mean_of_finite(values: Sequence[float]) -> float:
    finite = [value for value in values if np.isfinite(value)]
    return float(np.mean(finite)) if finite else float("nan")


def calibrate_noise(quality: Quality) -> tuple[float, float] | None:
    """Floor (m) and quadratic share (1/m) of the spread of static minus sensor, sigma = floor + share * z^2.

    Robust (median absolute deviation in depth bins, then least squares); None with too little to measure.
    """
    return calibrate_spread(quality.residual_z_m, quality.residual_m)


def calibrate_spread(z: Float[np.ndarray, "R"], residual: Float[np.ndarray, "R"]) -> tuple[float, float] | None:
    """``calibrate_noise`` of sensor depths and static minus sensor."""
    error = np.abs(residual)
    if len(z) < 500:
        return None
    edges = np.unique(np.quantile(z, np.linspace(0, 1, 9)))
    centres, spreads = [], []
    for low, high in itertools.pairwise(edges):
        inside = (z >= low) & (z <= high)
        if inside.sum() >= 50:
            centres.append(float(np.median(z[inside])))
            spreads.append(1.4826 * float(np.median(error[inside])))
    if len(centres) < 2:
        return None
    design = np.stack([np.ones(len(centres)), np.square(centres)], axis=1)
    floor, share = np.linalg.lstsq(design, np.array(spreads), rcond=None)[0]
    if floor < 0.001:
        floor, share = 0.001, float(np.median((np.array(spreads) - 0.001) / np.square(centres)))
    return float(floor), float(max(share, 0.0))


def recon_report(
    keyframes: Keyframes,
    model: SplatModel,
    quality: Quality | None,
    seconds: float,
    notes: tuple[str, ...],
    iterations: int = 0,
    removed: int = 0,
) -> ReconReport:
    """What was done and measured; without ``quality`` every measured number is NaN."""
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
        fit_seconds=seconds,
        notes=notes,
        depth_abs_rel_median_held_out=quality.depth_abs_rel_median if quality else nan,
        picture_coverage=quality.picture_coverage if quality else nan,
        sensor_spread_floor_m=sigma[0],
        sensor_spread_per_m=sigma[1],
        picture_psnr_held_out_db=quality.picture_psnr_db if quality else nan,
    )
