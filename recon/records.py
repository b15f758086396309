"""Records of reconstruction: the splat model, what was rendered from it, what may move, fused depth."""

import enum
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt8

from recon.quality_records import QualityReport


@dataclass(frozen=True)
class SplatModel:
    """3D Gaussians in the world frame, parameters as a 3DGS PLY stores them.

    ``log_scales`` natural log of standard deviations in metres; ``quats_wxyz`` not necessarily unit;
    ``opacity_logits``; ``sh_coeffs`` [N, K, 3] with K = (degree + 1)^2, colour = 0.5 + C0 * sh[0] + ...
    """

    means_in_world: Float32[np.ndarray, "N 3"]
    log_scales: Float32[np.ndarray, "N 3"]
    quats_wxyz: Float32[np.ndarray, "N 4"]
    opacity_logits: Float32[np.ndarray, "N"]
    sh_coeffs: Float32[np.ndarray, "N K 3"]


@dataclass(frozen=True)
class RenderedView:
    """One rendering. Depths are along +z in metres, NaN where alpha is below the model's threshold."""

    rgb: Float32[np.ndarray, "H W 3"]  # 0..1, composited on the background
    alpha: Float32[np.ndarray, "H W"]
    expected_z_m: Float32[np.ndarray, "H W"]
    median_z_m: Float32[np.ndarray, "H W"]
    sigma_z_m: Float32[np.ndarray, "H W"]  # spread along the ray and model error, one standard deviation


@dataclass(frozen=True)
class PackedMasks:
    """Masks of many frames at one bit a pixel, each unpacked when asked for: an eighth of the memory."""

    packed: UInt8[np.ndarray, "N h bytes"]  # rows padded to bytes, first pixel in the highest bit
    width_px: int

    @classmethod
    def of(cls, masks: Bool[np.ndarray, "N h w"]) -> "PackedMasks":
        """Pack masks."""
        return cls(np.packbits(masks, axis=-1), masks.shape[-1])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Frames, height, width."""
        return (self.packed.shape[0], self.packed.shape[1], self.width_px)

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.packed)

    def __getitem__(self, frame: int) -> Bool[np.ndarray, "h w"]:
        """Mask of a frame."""
        return np.unpackbits(self.packed[frame], axis=-1, count=self.width_px).astype(bool)

    def mean(self) -> float:
        """Share of all pixels that is masked; NaN without any."""
        pixels, ones = int(np.prod(self.shape)), sum(int(self[frame].sum()) for frame in range(len(self)))
        return ones / pixels if pixels else float("nan")


@dataclass(frozen=True)
class DynamicMasks:
    """Where something may move, from 2D evidence alone; low resolution, True = do not trust as static."""

    masks: Bool[np.ndarray, "N h w"] | PackedMasks

    def at(self, frame: int, size_wh_px: tuple[int, int]) -> Bool[np.ndarray, "H W"]:
        """Mask of a frame, nearest-neighbour resized to a size."""
        mask = self.masks[frame]
        height, width = mask.shape
        rows = (np.arange(size_wh_px[1]) * height) // size_wh_px[1]
        cols = (np.arange(size_wh_px[0]) * width) // size_wh_px[0]
        return np.asarray(mask[rows][:, cols])


@dataclass(frozen=True)
class ReconReport:
    """What the fit did and how good it is; every number measured on held-out frames where it says so."""

    keyframes: tuple[int, ...]
    held_out_frames: tuple[int, ...]
    iterations: int
    gaussians: int
    floaters_pruned: int
    psnr_held_out_db: float
    depth_abs_rel_held_out: float  # against the sensor where it sees; NaN without sensor
    depth_median_error_m: float
    coverage: float
    fit_seconds: float
    notes: tuple[str, ...] = ()
    depth_abs_rel_median_held_out: float = float("nan")
    picture_coverage: float = float("nan")  # share of all static pixels with a static depth, sensor or not
    sensor_spread_floor_m: float = float("nan")  # static minus sensor depth: sigma = floor + per_m * z^2
    sensor_spread_per_m: float = float("nan")
    picture_psnr_held_out_db: float = float("nan")  # all static pixels, exposure from the fit's neighbours in time


@dataclass(frozen=True)
class Reconstruction:
    """The static scene."""

    model: SplatModel
    dynamic: DynamicMasks
    report: ReconReport
    quality: QualityReport | None = None  # of a fit just made; files of its own (``quality/``) keep it


class DepthOrigin(enum.IntEnum):
    """Where a stored depth pixel came from."""

    NONE = 0
    STATIC = 1
    SENSOR = 2
    BOTH = 3
    OBJECT = 4
    PROVIDED = 5  # from a folder or the user's own network


class AlignmentOutcome(enum.IntEnum):
    """How a frame's provided depth was taken, or why not."""

    NOT_ASKED = 0  # no source of depth, or nothing left to fill
    USED = 1
    MISSING = 2  # the source has no depth for this frame
    TOO_FEW_ANCHORS = 3
    ANCHORS_TOO_ALIKE = 4  # all at about one depth: scale and shift cannot be told apart
    WRONG_DIRECTION = 5  # values fall where they should rise: depth given as disparity, or the other way round
    RESIDUAL_TOO_LARGE = 6


@dataclass(frozen=True)
class DepthAlignment:
    """How provided values became depth in one frame.

    Metric and affine depth: z = scale * value + shift; disparity: 1 / z = scale * value + shift. Metric depth has scale
    1 and shift 0 and is only compared. ``residual``: median |z - anchor| / anchor over all anchors; NaN without any.
    """

    outcome: AlignmentOutcome
    scale: float = float("nan")
    shift: float = float("nan")
    residual: float = float("nan")
    anchors: int = 0


@dataclass(frozen=True)
class DepthFrame:
    """Fused depth of one frame along +z in metres, NaN = none."""

    z_depth_m: Float32[np.ndarray, "h w"]
    sigma_m: Float32[np.ndarray, "h w"]
    origin: UInt8[np.ndarray, "h w"]
    alignment: DepthAlignment | None = None  # of provided depth, where a source was asked


@dataclass(frozen=True)
class MovingDepth:
    """Depth of moving objects where the lifted model knows better: sparse patches per frame."""

    frames: Int64[np.ndarray, "P"]
    object_ids: Int64[np.ndarray, "P"]
    pixels_vu: tuple[Int64[np.ndarray, "_ 2"], ...] = field(default=())  # at the depth size
    z_depth_m: tuple[Float32[np.ndarray, "_"], ...] = field(default=())
