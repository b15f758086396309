"""Settings of the embedded tracker."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EmbeddedConfig:
    """Settings of the tracker that needs no weights; sizes in canonical pixels or metres."""

    max_crop_side_px: int = 160
    """Longest side of the crop that an object is segmented in; larger objects are scaled down to it."""
    max_object_m: float = 0.45
    """No object is sought larger than this (depth and metric scale known)."""
    flow_width_px: int = 512
    """Width at which optical flow is computed."""
    cache_mib: int = 1024
    """Bound on decoded pictures, depth and flow held at a time."""
    min_visible_px: int = 12
    """A predicted or segmented area (canonical pixels) below this counts as not visible."""
    moved_m: float = 0.015
    """A better place at least this far away means that the object has moved."""
    lost_score: float = 0.12
    """Agreement below this at every place means that the object is lost."""
    seed_views: int = 24
    """Frames fused around a point to find where the object ends; below 4 the point's own frame alone is used."""
    use_static: bool = True
    """Use the static scene's depth to tell moving things from their background."""
