"""Quality of a reconstruction on frames that the fit never saw: per frame, over all, with reasons for what is unknown.

Depth errors: Eigen et al. (2014), section 4 (abs-rel, RMSE, delta). SSIM: Wang et al. (2004), eq. 13.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, UInt8

from cuda_kernels.ssim import ssim_with_gradient
from recon.backend import Background, Renderer
from recon.consistency import TemporalConsistency, temporal_consistency
from recon.losses import exposure_fit
from recon.per_view import ExposureTrack
from recon.quality_records import FloaterReport, FramePictures, FrameQuality, QualityReport
from recon.records import DepthFrame, DepthOrigin, SplatModel
from recon.render import DepthSigma, render, surface_depth
from recon.report import calibrate_spread, picture_psnr
from recon.sensor import SensorNoise
from recon.views import View

BAND_90 = 1.6448536269514722
"""Half width of the central 90 % of a normal distribution, in standard deviations."""
_FEWEST_PIXELS = 16
_NAN = float("nan")


@dataclass(frozen=True)
class _Drawn:
    """A held-out view and the model drawn from it."""

    view: View
    rgb: Float32[np.ndarray, "H W 3"]  # as the model has it
    exposed: Float32[np.ndarray, "H W 3"]  # under the best affine exposure
    strict_psnr_db: float
    z_depth_m: Float32[np.ndarray, "H W"]
    spread_z_m: Float32[np.ndarray, "H W"]  # along the ray

    @property
    def covered(self) -> Bool[np.ndarray, "H W"]:
        return np.asarray(self.view.static & np.isfinite(self.z_depth_m))

    @property
    def both(self) -> Bool[np.ndarray, "H W"]:
        return np.asarray(self.covered & np.isfinite(self.view.z_depth_m))


@dataclass(frozen=True)
class _Residuals:
    """Pixels with static and sensor depth, of one frame or of all."""

    z_m: Float[np.ndarray, "R"]
    sensor_z_m: Float[np.ndarray, "R"]
    stated_sigma_m: Float[np.ndarray, "R"]  # of their difference; NaN: unknown


def quality_report(
    model: SplatModel,
    views: Sequence[View],
    renderer: Renderer,
    *,
    held_out: bool = True,
    metric: bool = True,
    background: Background = (0.0, 0.0, 0.0),
    exposures: ExposureTrack | None = None,
    floaters: FloaterReport | None = None,
    pictures: int = 6,
) -> QualityReport:
    """Draw every view once and compare it with its picture and its sensor depth.

    The band of a depth is stated as later stages state it: the spread along the ray and the noise between static and
    sensor. That noise is estimated on the other half of the frames, so that no frame is judged by its own residuals.

    Args:
        model: As it is handed on. An empty one gives NaN and a reason.
        views: In order of time, never seen by the fit; else ``held_out`` is False.
        renderer: Who draws.
        held_out: Whether the fit did without these views.
        metric: Whether the world is in metres.
        background: Colour where the model covers nothing.
        exposures: Of the fit's frames, for the PSNR that takes nothing from the held-out picture.
        floaters: Handed through.
        pictures: How many frames are kept as pictures, worst first, and a typical one.
    """
    drawn = [_draw(model, view, renderer, background, exposures) for view in views]
    noises = _noise_of_the_other_half(drawn)
    residuals = [_residuals(item, noise) for item, noise in zip(drawn, noises, strict=True)]
    frames = tuple(_frame(item, own) for item, own in zip(drawn, residuals, strict=True))
    overall = _overall(frames, drawn, residuals)
    agreement = _agreement(drawn)
    spread = calibrate_spread(*_pooled_residuals(residuals)) or (_NAN, _NAN)
    return QualityReport(
        held_out=held_out,
        metric=metric,
        overall=overall,
        frames=frames,
        consistency_median_rel=agreement.median_rel,
        consistency_p90_rel=agreement.p90_rel,
        consistency_seen_through=agreement.seen_through_share,
        sensor_spread_floor_m=spread[0],
        sensor_spread_per_m=spread[1],
        floaters=floaters,
        reasons=_reasons(model, drawn, overall, agreement, exposures),
        worst=_pictures(drawn, frames, pictures),
    )


def _draw(
    model: SplatModel, view: View, renderer: Renderer, background: Background, exposures: ExposureTrack | None
) -> _Drawn:
    bare = DepthSigma(0.0, 0.0)  # leaves the spread along the ray alone
    seen = render(model, view.camera, view.world_from_camera, background=background, sigma=bare, renderer=renderer)
    z = surface_depth(seen)
    target = view.rgb.astype(np.float32) / np.float32(255)
    gain, offset = exposure_fit(seen.rgb, target, view.static & np.isfinite(z))
    exposed = np.clip(seen.rgb * gain + offset, 0, 1).astype(np.float32)
    strict = _NAN
    if exposures is not None:
        own_gain, own_offset = exposures.at(view.frame)
        strict = picture_psnr((seen.rgb * own_gain + own_offset).astype(np.float32), view)
    return _Drawn(view, seen.rgb, exposed, strict, z, seen.sigma_z_m)


def _noise_of_the_other_half(drawn: Sequence[_Drawn]) -> list[SensorNoise | None]:
    """Noise between static and sensor for each frame, from every second frame that it is not among."""
    halves: list[SensorNoise | None] = []
    for first in (0, 1):
        found = calibrate_spread(*_pooled_residuals([_residuals(item, None) for item in drawn[first::2]]))
        halves.append(None if found is None else SensorNoise(*found))
    return [halves[1 - number % 2] for number in range(len(drawn))]


def _residuals(item: _Drawn, noise: SensorNoise | None) -> _Residuals:
    z = item.z_depth_m[item.both].astype(np.float64)
    spread = item.spread_z_m[item.both].astype(np.float64)
    stated = np.full(len(z), np.nan) if noise is None else np.hypot(spread, noise.sigma_m(z))
    return _Residuals(z, item.view.z_depth_m[item.both].astype(np.float64), stated)


def _pooled_residuals(residuals: Sequence[_Residuals]) -> tuple[Float[np.ndarray, "R"], Float[np.ndarray, "R"]]:
    """Sensor depth and static minus sensor."""
    none: list[np.ndarray] = [np.zeros(0)]
    sensor = np.concatenate([*(item.sensor_z_m for item in residuals), *none])
    return sensor, np.concatenate([*(item.z_m - item.sensor_z_m for item in residuals), *none])


def _depth_figures(residuals: _Residuals) -> dict[str, float]:
    z, sensor = residuals.z_m, residuals.sensor_z_m
    error = z - sensor
    if not len(z):
        names = "depth_abs_rel", "depth_rmse_m", "depth_median_error_m", "delta_105", "delta_125", "in_band_90"
        return dict.fromkeys(names, _NAN)
    ratio = np.maximum(z / sensor, sensor / z)
    stated = np.isfinite(residuals.stated_sigma_m)
    inside = np.abs(error[stated]) <= BAND_90 * residuals.stated_sigma_m[stated]
    return {
        "depth_abs_rel": float((np.abs(error) / sensor).mean()),
        "depth_rmse_m": float(np.sqrt(np.square(error).mean())),
        "depth_median_error_m": float(np.median(np.abs(error))),
        "delta_105": float((ratio < 1.05).mean()),
        "delta_125": float((ratio < 1.25).mean()),
        "in_band_90": float(inside.mean()) if len(inside) else _NAN,
    }


def _frame(item: _Drawn, residuals: _Residuals) -> FrameQuality:
    view, covered = item.view, item.covered
    seen = view.static & np.isfinite(view.z_depth_m)
    psnr, ssim = _NAN, _NAN
    if covered.sum() >= _FEWEST_PIXELS:
        target = view.rgb.astype(np.float32) / np.float32(255)
        psnr = _psnr(item.exposed[covered] - target[covered])
        # pixels that do not count are the same in both, so that they pull no window towards or away from its picture
        same = np.where(covered[:, :, None], item.exposed, target).astype(np.float32)
        ssim = float(ssim_with_gradient(same, target)[0][covered].mean(dtype=np.float64))
    return FrameQuality(
        frame=view.frame,
        psnr_db=psnr,
        ssim=ssim,
        picture_psnr_db=item.strict_psnr_db,
        coverage=_share(item.both, seen),
        picture_coverage=_share(covered, view.static),
        static_share=float(view.static.mean()),
        pixels=len(residuals.z_m),
        **_depth_figures(residuals),
    )


def _psnr(error: Float32[np.ndarray, "M 3"]) -> float:
    return float(-10 * np.log10(max(float(np.square(error, dtype=np.float64).mean()), 1e-10)))


def _share(part: Bool[np.ndarray, "H W"], whole: Bool[np.ndarray, "H W"]) -> float:
    return float(part.sum() / whole.sum()) if whole.any() else _NAN


def _overall(frames: Sequence[FrameQuality], drawn: Sequence[_Drawn], residuals: Sequence[_Residuals]) -> FrameQuality:
    def mean(name: str) -> float:
        values = np.array([getattr(frame, name) for frame in frames], dtype=np.float64)
        return float(values[np.isfinite(values)].mean()) if np.isfinite(values).any() else _NAN

    def pooled(name: str) -> Float[np.ndarray, "R"]:
        return np.concatenate([*(getattr(item, name) for item in residuals), np.zeros(0)])

    both = sum(int(item.both.sum()) for item in drawn)
    seen = sum(int((item.view.static & np.isfinite(item.view.z_depth_m)).sum()) for item in drawn)
    covered = sum(int(item.covered.sum()) for item in drawn)
    static = sum(int(item.view.static.sum()) for item in drawn)
    all_residuals = _Residuals(pooled("z_m"), pooled("sensor_z_m"), pooled("stated_sigma_m"))
    return FrameQuality(
        frame=-1,
        psnr_db=mean("psnr_db"),
        ssim=mean("ssim"),
        picture_psnr_db=mean("picture_psnr_db"),
        coverage=both / seen if seen else _NAN,
        picture_coverage=covered / static if static else _NAN,
        static_share=mean("static_share"),
        pixels=both,
        **_depth_figures(all_residuals),
    )


def _agreement(drawn: Sequence[_Drawn]) -> TemporalConsistency:
    """Static depth of each view against that of the next one."""
    if not drawn:
        return TemporalConsistency(1, _NAN, _NAN, _NAN, 0, (), "no frame was measured")
    frames = (
        DepthFrame(
            item.z_depth_m,
            item.spread_z_m,
            np.where(item.covered, DepthOrigin.STATIC, DepthOrigin.NONE).astype(np.uint8),
        )
        for item in drawn
    )
    poses = np.stack([item.view.world_from_camera for item in drawn])
    return temporal_consistency(frames, poses, drawn[0].view.camera)


def _reasons(
    model: SplatModel,
    drawn: Sequence[_Drawn],
    overall: FrameQuality,
    agreement: TemporalConsistency,
    exposures: ExposureTrack | None,
) -> dict[str, str]:
    reasons = {"lpips": "not measured: it needs a trained network's weights, which the package does not bring"}
    if not len(model.means_in_world):
        why = "the model is empty"
    elif not drawn:
        why = "no frame was measured"
    else:
        why = "the model covers no static pixel of these frames"
    for name in ("psnr_db", "ssim"):
        if not np.isfinite(getattr(overall, name)):
            reasons[name] = why
    if not np.isfinite(overall.picture_psnr_db):
        reasons["picture_psnr_db"] = why if exposures is not None else "the exposures of the fit's frames are not known"
    if not overall.pixels:
        no_sensor = not any(np.isfinite(item.view.z_depth_m).any() for item in drawn)
        for name in ("depth_abs_rel", "depth_rmse_m", "depth_median_error_m", "delta_105", "delta_125"):
            reasons[name] = "no sensor depth in these frames" if no_sensor and drawn else why
        if no_sensor and drawn:
            reasons["coverage"] = "no sensor depth in these frames"
    if not np.isfinite(overall.in_band_90):
        reasons["in_band_90"] = reasons.get("depth_abs_rel", "too few pixels in half of the frames to state a sigma")
    if agreement.reason:
        reasons["consistency"] = agreement.reason
    return reasons


def _pictures(drawn: Sequence[_Drawn], frames: Sequence[FrameQuality], count: int) -> tuple[FramePictures, ...]:
    chosen: dict[int, str] = {}
    by_depth = [(-frame.depth_abs_rel, n) for n, frame in enumerate(frames) if np.isfinite(frame.depth_abs_rel)]
    by_colour = [(frame.psnr_db, n) for n, frame in enumerate(frames) if np.isfinite(frame.psnr_db)]
    half = max(count // 2, 1)
    for value, number in sorted(by_depth)[:half]:
        chosen[number] = f"large depth error: {-value:.2%} mean"
    for value, number in sorted(by_colour):
        if len(chosen) >= count - 1:
            break
        chosen.setdefault(number, f"low PSNR: {value:.1f} dB")
    ranked = [number for _, number in sorted(by_depth or [(-value, number) for value, number in by_colour])]
    if ranked and count > 1:
        chosen.setdefault(ranked[len(ranked) // 2], "typical, for comparison")
    return tuple(_shown(drawn[number], why) for number, why in list(chosen.items())[: max(count, 0)])


def _shown(item: _Drawn, why: str) -> FramePictures:
    view = item.view
    by_depth = bool(item.both.any())
    if by_depth:
        error = np.where(item.both, (item.z_depth_m - view.z_depth_m) / view.z_depth_m, np.nan)
    else:
        apart = np.abs(item.exposed - view.rgb.astype(np.float32) / np.float32(255)).mean(axis=2)
        error = np.where(item.covered, apart, np.nan)
    rendered: UInt8[np.ndarray, "H W 3"] = (item.exposed * 255).round().astype(np.uint8)
    return FramePictures(
        view.frame, why, view.rgb, rendered, item.z_depth_m, view.z_depth_m, error.astype(np.float32), by_depth
    )
