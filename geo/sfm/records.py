"""What the pose estimation gives."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64, UInt8

from geo.cameras import Camera
from geo.trajectory import Trajectory


@dataclass(frozen=True)
class ScaleEstimate:
    """Metres of one unit of the reconstruction, from sensor depth."""

    metres_per_unit: float
    spread: float  # median absolute deviation of the single ratios, as a part of the ratio
    points: int


@dataclass(frozen=True)
class PosesReport:
    """How good the poses are, as far as the pictures themselves tell."""

    frames: int  # that were looked at
    keyframes: int
    mapped_keyframes: int
    registered: int  # pictures with a pose of their own
    interpolated: int  # further pictures that lie in gaps short enough to be interpolated
    points: int
    reprojection_error_px: float  # mean over the points of the mapped keyframes
    track_length: float  # mean number of keyframes that see a point
    other_models: int  # separate pieces that could not be joined, and are left out
    scale: ScaleEstimate | None = None

    @property
    def registered_share(self) -> float:
        """Part of the pictures that have a pose of their own."""
        return self.registered / self.frames


@dataclass(frozen=True)
class EstimatedPoses:
    """World_from_reference of registered pictures, in a world of arbitrary place, direction and (mostly) scale."""

    trajectory: Trajectory
    camera: Camera  # the reference camera: as given, or as estimated where no calibration was given
    metric: bool
    points_in_world: Float[np.ndarray, "P 3"]
    colours: UInt8[np.ndarray, "P 3"]
    registered_frames: Int64[np.ndarray, "R"]  # numbers of the source's frames
    report: PosesReport
    warnings: tuple[str, ...] = ()
