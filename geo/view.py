"""The canonical view: which pinhole it is, how it is turned, and points between it and the source image."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from geo import se3
from geo.cameras import Camera, PinholeCamera, Projection, RadTanCamera
from geo.cameras.distorted import DistortedCamera
from geo.errors import GeoError
from geo.recording import CanonicalRecording

WIDE_LENS_DEG = 100.0


@dataclass(frozen=True)
class RectifyConfig:
    """Settings of the canonical view (docs/conventions.md)."""

    width_px: int = 1024
    """Width of the canonical view; wide lenses only."""
    height_px: int = 1024
    """Height of the canonical view; wide lenses only."""
    fov_deg: float = 90.0
    """Horizontal field of view before ``zoom``; focal length = zoom * (width / 2) / tan(fov / 2)."""
    zoom: float = 0.78125
    """Scales the focal length: below 1 shows more. The default gives 400 px and 104 degrees in effect."""
    pitch_deg: float = -5.0
    """Turn about the camera's own x axis; negative looks down."""
    yaw_deg: float = 0.0
    """Turn about the camera's own y axis; positive looks right."""
    roll_deg: float = 0.0
    """Turn about the viewing direction; positive turns the camera clockwise (the picture counter-clockwise)."""
    max_pose_gap_ms: float = 300.0
    """Poses are not interpolated across longer gaps."""
    view: str = "auto"
    """auto: the view above for lenses wider than 100 degrees, else the source's own; or canonical, or source."""
    estimate_gravity: bool = True
    """Estimate up from support planes where the recording does not say it and has depth."""
    gravity_images: int = 24
    """Depth images that the estimate of up looks at."""

    def __post_init__(self) -> None:
        """Validate once, here."""
        if not (2 <= self.width_px <= 16384 and 2 <= self.height_px <= 16384):
            raise GeoError(f"rectify size {self.width_px}x{self.height_px} must lie in 2..16384 px")
        if not (0 < self.fov_deg < 180 and 0 < self.zoom < 100):
            raise GeoError(f"rectify fov_deg {self.fov_deg} must lie in (0, 180) and zoom {self.zoom} in (0, 100)")
        if self.view not in ("auto", "canonical", "source"):
            raise GeoError(f"rectify view {self.view!r} must be auto, canonical or source")
        if self.max_pose_gap_ms < 0:
            raise GeoError(f"max_pose_gap_ms {self.max_pose_gap_ms} must not be negative")


@dataclass(frozen=True)
class CanonicalView:
    """A target pinhole and the rotation from it to the source camera (same optical centre)."""

    camera: PinholeCamera
    source_from_canonical: Float[np.ndarray, "3 3"]


def turn_rotation(pitch_deg: float, yaw_deg: float, roll_deg: float) -> Float[np.ndarray, "3 3"]:
    """source_from_canonical = Ry(yaw) Rx(pitch) Rz(roll), each about the camera's own axis (y points down)."""
    pitch, yaw, roll = np.radians([pitch_deg, yaw_deg, roll_deg])
    about_x = se3.rotation_from_axis_angle(np.array([pitch, 0.0, 0.0]))
    about_y = se3.rotation_from_axis_angle(np.array([0.0, yaw, 0.0]))
    about_z = se3.rotation_from_axis_angle(np.array([0.0, 0.0, roll]))
    return np.asarray(about_y @ about_x @ about_z)


def canonical_view(source: Camera, config: RectifyConfig) -> CanonicalView:
    """The view that a source camera gets: its own without distortion, or the configured one for wide lenses."""
    perspective = isinstance(source, PinholeCamera | RadTanCamera)
    keeps = perspective or source.field_of_view_deg() <= WIDE_LENS_DEG
    if config.view == "source" or (config.view == "auto" and keeps):
        if isinstance(source, PinholeCamera):
            return CanonicalView(source, np.eye(3))
        if isinstance(source, DistortedCamera):
            return CanonicalView(source.undistorted, np.eye(3))
    # Rounded far below a thousandth of a pixel: the default is 400, not 400.00000000000006.
    focal = round(config.zoom * (config.width_px / 2) / float(np.tan(np.radians(config.fov_deg) / 2)), 9)
    camera = PinholeCamera(
        config.width_px,
        config.height_px,
        focal,
        focal,
        (config.width_px - 1) / 2,
        (config.height_px - 1) / 2,
    )
    return CanonicalView(camera, turn_rotation(config.pitch_deg, config.yaw_deg, config.roll_deg))


def canonical_to_source(canonical: CanonicalRecording, points_xy: Float[np.ndarray, "*batch 2"]) -> Projection:
    """Pixels of the canonical view in the source image; invalid where the lens does not see that direction."""
    rays = canonical.camera.unproject(points_xy)
    return canonical.source_camera.project(rays.directions @ canonical.canonical_from_source)


def source_to_canonical(canonical: CanonicalRecording, points_xy: Float[np.ndarray, "*batch 2"]) -> Projection:
    """Pixels of the source image in the canonical view.

    Invalid where the source pixel has no ray, or its ray points behind the canonical view. A valid pixel may lie
    outside the canonical image: see ``canonical.camera.in_image``.
    """
    rays = canonical.source_camera.unproject(points_xy)
    return canonical.camera.project(rays.directions @ canonical.canonical_from_source.T)
