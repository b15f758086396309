"""Records of the quality report: figures over held-out frames, per frame, floaters, and what their pictures show."""

import enum
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float32, UInt8

NAN = float("nan")


class FloaterReason(enum.IntEnum):
    """Why a splat was taken out after the fit; the first that holds counts."""

    KEPT = 0
    SEEN_THROUGH = 1  # several views measure a surface behind it, and not many more one at it
    ISOLATED = 2  # in a small group that touches no other, and hardly any view confirms it
    UNSEEN = 3  # no view of the fit gets light from it


@dataclass(frozen=True)
class FloaterFigures:
    """A model on the held-out frames, for comparison. NaN: nothing to measure."""

    splats: int
    psnr_db: float
    depth_abs_rel: float  # against the sensor
    in_front_share: float  # of the pixels that both see: static depth nearer than the sensor's by more than its noise
    coverage: float  # of the static pixels that the sensor sees
    picture_coverage: float  # of all static pixels
    seen_through: int  # splats that several views see through, and not many more confirm


@dataclass(frozen=True)
class FloaterPictures:
    """The view of the fit that lost most: the model before, after, and before with what went in red (0..255)."""

    frame: int
    before: UInt8[np.ndarray, "H W 3"]
    after: UInt8[np.ndarray, "H W 3"]
    removed_in_red: UInt8[np.ndarray, "H W 3"]


@dataclass(frozen=True)
class FloaterReport:
    """What was taken out as floating, why, and what that did."""

    before_fit: int  # seen through before the fit began
    in_fit: int  # faint, overgrown or seen through while it ran
    seen_through: int
    isolated: int
    unseen: int
    before: FloaterFigures
    after: FloaterFigures
    taken_back: tuple[str, ...] = ()  # reasons whose splats were put back, for held-out frames were worse without
    notes: tuple[str, ...] = ()
    pictures: FloaterPictures | None = field(default=None, repr=False)

    @property
    def removed(self) -> int:
        """Splats taken out after the fit."""
        return self.seen_through + self.isolated + self.unseen


@dataclass(frozen=True)
class FrameQuality:
    """One held-out frame. Depth errors are static minus sensor where both see; NaN: nothing to measure."""

    frame: int
    psnr_db: float  # static pixels that the model covers, best affine exposure
    ssim: float  # the same pixels and exposure
    picture_psnr_db: float  # all static pixels, exposure from the neighbours in time
    depth_abs_rel: float
    depth_rmse_m: float
    depth_median_error_m: float
    delta_105: float  # share with max(z / sensor, sensor / z) below 1.05
    delta_125: float
    in_band_90: float  # share of residuals inside the stated 90 % band
    coverage: float
    picture_coverage: float
    static_share: float  # of the picture; the rest may move or has no source pixel
    pixels: int  # with static and sensor depth


@dataclass(frozen=True)
class FramePictures:
    """What one held-out frame's row of pictures shows."""

    frame: int
    why: str
    rgb: UInt8[np.ndarray, "H W 3"]
    rendered: UInt8[np.ndarray, "H W 3"]  # with the best affine exposure
    z_depth_m: Float32[np.ndarray, "H W"]
    sensor_z_m: Float32[np.ndarray, "H W"]
    relative_error: Float32[np.ndarray, "H W"]  # depth against the sensor, signed, or colour (0..1) without a sensor
    error_is_depth: bool


@dataclass(frozen=True)
class QualityReport:
    """Quality of a reconstruction. ``overall`` pools all pixels of all frames (PSNR and SSIM: means over frames).

    ``reasons`` say in words, by name of the figure, why one is NaN.
    """

    held_out: bool  # False: no frame was held out, and the frames of the fit are measured
    metric: bool  # False: depths and errors are in the poses' own unit
    overall: FrameQuality
    frames: tuple[FrameQuality, ...]
    lpips: float = NAN
    consistency_median_rel: float = NAN  # between neighbouring held-out frames, static depth
    consistency_p90_rel: float = NAN
    consistency_seen_through: float = NAN
    sensor_spread_floor_m: float = NAN
    sensor_spread_per_m: float = NAN
    floaters: FloaterReport | None = None
    reasons: dict[str, str] = field(default_factory=dict)
    step_seconds: dict[str, float] = field(default_factory=dict)  # of the run that made it; belongs in run.json
    worst: tuple[FramePictures, ...] = field(default=(), repr=False)
