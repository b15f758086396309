"""Settings of the depth stage."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from geo.cameras import PinholeCamera
from geo.recording import CanonicalRecording
from recon.depth_sources import AlignRules, DepthKind, FolderDepth, FolderLayout, ProvidedDepth
from recon.errors import ReconError


@dataclass(frozen=True)
class DepthConfig:
    """What the depth stage does."""

    width_px: int = 512
    """Width of the stored depth; the height follows the canonical camera."""
    choice: str = "edge"
    """Static depth of a pixel: "expected", "median", or "edge" (median only where the ray meets two surfaces)."""
    sensor_tolerance_ms: float = 60.0
    """A depth image belongs to a frame if its time is within this."""
    min_sensor_z_m: float = 0.15
    """Sensor depth nearer than this is not used."""
    max_sensor_z_m: float = 8.0
    """Sensor depth farther than this is not used."""
    disagreement_sigmas: float = 4.0
    """Static and sensor disagree beyond this many joint standard deviations..."""
    disagreement_m: float = 0.015
    """...plus this."""
    disagreement_radius_px: int = 2
    """Disagreement narrower than twice this plus one pixels is an edge, not something that moved."""
    hole_px: int = 12
    """Widest sensor hole on something moving that is filled between two supporting pixels."""
    object_sigma_m: float = 0.01
    """Standard deviation of depth that the lifted model gives for a moving object."""

    folder: str = ""
    """Folder of depth images (npz, npy, png or exr, one a frame) for pixels that nothing else knows; empty: none."""
    folder_kind: str = ""
    """What they hold: metric, affine_depth or affine_disparity; has to be stated."""
    folder_unit_m: float | None = None
    """Metres of one count of metric depth; needed for whole numbers, floats are metres without it."""
    folder_names: str = "frame"
    """The last number in a file's name: "frame" number of the recording, or "timestamp_ns" of its time."""
    folder_first: int = 0
    """Number of the recording's first frame in the names (1 where files count from 1)."""
    folder_pattern: str = "*"
    """Which files of the folder, e.g. "*.npy"."""
    folder_camera: tuple[float, ...] = ()
    """width, height, fx, fy, cx, cy of the depth images if they are no resized pictures (first pixel's centre is 0)."""
    folder_as_sensor: bool = False
    """Let the folder stand for the depth sensor that the recording does not have, in every stage."""
    provided_min_anchors: int = 30
    """Pixels of known depth that scale and shift of affine depth need."""
    provided_max_residual: float = 0.1
    """A frame whose median relative difference from known depth is larger is refused."""
    provided_sigma_share: float = 0.1
    """Standard deviation of metric depth that states none and that nothing checks, as a share of the depth."""

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        if self.width_px < 1:
            raise ReconError(f"depth.width_px is {self.width_px}; it must be at least 1")
        if self.choice not in ("expected", "median", "edge"):
            raise ReconError(f"depth.choice is {self.choice!r}; use expected, median or edge")
        if not 0 < self.min_sensor_z_m < self.max_sensor_z_m:
            raise ReconError("depth.min_sensor_z_m and max_sensor_z_m must be positive and in this order")
        if self.folder and self.folder_kind not in tuple(DepthKind):
            raise ReconError(
                f"depth.folder_kind is {self.folder_kind!r}; state what {self.folder} holds: {', '.join(DepthKind)}"
            )
        if self.folder_as_sensor and not self.folder:
            raise ReconError("depth.folder_as_sensor is set, but depth.folder is empty")
        self.align_rules()
        self.folder_layout()

    def align_rules(self) -> AlignRules:
        """When a frame's provided depth is taken."""
        return AlignRules(self.provided_min_anchors, self.provided_max_residual, self.provided_sigma_share)

    def folder_layout(self) -> FolderLayout | None:
        """How the folder is to be read, or None without one.

        Raises:
            ReconError: settings that cannot be. CameraError: an impossible camera.
        """
        if not self.folder:
            return None
        camera = None
        if self.folder_camera:
            if len(self.folder_camera) != 6:
                raise ReconError(
                    f"depth.folder_camera has {len(self.folder_camera)} numbers; expected width, height, fx, fy, cx, cy"
                )
            width, height, *intrinsics = self.folder_camera
            camera = PinholeCamera(int(width), int(height), *intrinsics)
        return FolderLayout(
            Path(self.folder), DepthKind(self.folder_kind), self.folder_unit_m, self.folder_names, self.folder_first,
            self.folder_pattern, camera, self.sensor_tolerance_ms,
        )  # fmt: skip

    def provided(
        self, canonical: CanonicalRecording, points_in_world: Float[np.ndarray, "P 3"] | None = None
    ) -> ProvidedDepth | None:
        """The folder's depth for a recording, or None without one; ``points_in_world`` in the canonical world.

        Raises:
            ReconError: the folder does not belong to the recording.
        """
        layout = self.folder_layout()
        if layout is None:
            return None
        return ProvidedDepth(FolderDepth(layout, canonical), self.align_rules(), points_in_world)
