"""Settings of the pose estimation."""

from dataclasses import dataclass

from geo.errors import GeoError

CAMERA_MODELS = ("SIMPLE_RADIAL", "OPENCV", "OPENCV_FISHEYE", "PINHOLE")


@dataclass(frozen=True)
class PosesConfig:
    """How poses are found; the defaults are for head-worn video."""

    half_angle_deg: float = 55.0
    """Lenses wider than 100 degrees are seen through a pinhole that reaches this far from the axis."""
    max_side_px: int = 1000
    """Longest side of the pictures that features are sought in; larger ones are made smaller."""
    features: int = 2500
    """Most SIFT features a picture."""
    keyframe_flow: float = 0.06
    """A keyframe is taken where the picture has moved by this part of its width since the last one."""
    keyframe_max_gap_s: float = 0.5
    """No two keyframes are further apart than this, however still the camera is."""
    neighbours: int = 8
    """Keyframes that each keyframe is matched with, forward."""
    loops: int = 2
    """Further keyframes that look most like it, wherever they are: these close loops."""
    min_inliers: int = 30
    """Fewest points that a picture must see where they are to be registered."""
    max_error_px: float = 4.0
    """Largest reprojection error of such a point."""
    max_gap_ms: float = 300.0
    """Longest gap between registered pictures that later stages interpolate over; here only counted."""
    threads: int = 2
    """Threads of feature extraction and matching; mapping uses one, so that it gives the same result again."""
    seed: int = 0
    """Of every random choice."""
    camera_model: str = "SIMPLE_RADIAL"
    """COLMAP's model for pictures without a calibration, which is then estimated."""

    def __post_init__(self) -> None:
        """Validate once, here."""
        if not 10 <= self.half_angle_deg <= 75:
            raise GeoError(f"half_angle_deg {self.half_angle_deg} must lie in 10..75: a pinhole sees no further")
        if not 100 <= self.max_side_px <= 10000:
            raise GeoError(f"max_side_px {self.max_side_px} must lie in 100..10000")
        if not (self.keyframe_flow > 0 and self.keyframe_max_gap_s > 0):
            raise GeoError("keyframe_flow and keyframe_max_gap_s must be positive")
        if min(self.features, self.neighbours, self.min_inliers, self.threads) < 1 or self.loops < 0:
            raise GeoError("features, neighbours, min_inliers and threads must be at least 1, loops at least 0")
        if self.min_inliers < 6 or not self.max_error_px > 0 or self.max_gap_ms < 0:
            raise GeoError("min_inliers must be at least 6, max_error_px positive, max_gap_ms not negative")
        if self.camera_model not in CAMERA_MODELS:
            raise GeoError(f"camera_model {self.camera_model!r} must be one of {', '.join(CAMERA_MODELS)}")
