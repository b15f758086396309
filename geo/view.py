"""The canonical view: which pinhole it is, how it is turned, and points between it and the source image."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from geo import se3
from geo.cameras import Camera, PinholeCamera, Projection, RadTanCamera
from geo.cameras.distorted import DistortedCamera
from geo.errors import GeoError, PoseError
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
    focal_px: float | None = None
    """Focal length instead of ``fov_deg`` and ``zoom``; given, the view is this one whatever the lens."""
    fx_fy_cx_cy_px: tuple[float, float, float, float] | None = None
    """All of K instead of ``fov_deg``, ``zoom`` and the centred principal point; given, the view is this one."""
    pitch_deg: float = -5.0
    """Turn about the camera's own x axis; negative looks down."""
    yaw_deg: float = 0.0
    """Turn about the camera's own y axis; positive looks right."""
    roll_deg: float = 0.0
    """Turn about the viewing direction; positive turns the camera clockwise (the picture counter-clockwise)."""
    max_pose_gap_ms: float = 300.0
    """Poses are not interpolated across longer gaps."""
    view: str = "auto"
    """auto: the view above for lenses wider than 100 degrees (or a focal length or K is given), else the source's own;
    or canonical, or source."""
    estimate_gravity: bool = True
    """Estimate up from support planes where the recording does not say it and has depth."""
    gravity_images: int = 24
    """Depth images that the estimate of up looks at."""
    extra_views: bool = False
    """Write also views/<name>.mp4: pinholes that together show all that the lens sees (lenses beyond 180 degrees)."""
    extra_views_fov_deg: float = 100.0
    """Field of view of each of these square views."""
    extra_views_size_px: int = 0
    """Side of each of these views; 0: as many pixels as keep the density of the picture's centre."""

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
        turns = (self.pitch_deg, self.yaw_deg, self.roll_deg)
        if not all(np.isfinite(turn) for turn in turns):
            raise GeoError(f"rectify pitch_deg, yaw_deg, roll_deg {turns} must be finite")
        self._check_intrinsics()
        if not 0 < self.extra_views_fov_deg <= 150:
            raise GeoError(f"rectify extra_views_fov_deg {self.extra_views_fov_deg} must lie in (0, 150]")
        if self.extra_views_size_px and not 2 <= self.extra_views_size_px <= 16384:
            raise GeoError(f"rectify extra_views_size_px {self.extra_views_size_px} must be 0 or lie in 2..16384 px")

    @property
    def has_intrinsics(self) -> bool:
        """True if a focal length or K is given outright."""
        return self.focal_px is not None or self.fx_fy_cx_cy_px is not None

    def _check_intrinsics(self) -> None:
        if self.focal_px is not None and self.fx_fy_cx_cy_px is not None:
            raise GeoError("rectify focal_px and fx_fy_cx_cy_px are both given: leave one out")
        if self.has_intrinsics and self.view == "source":
            raise GeoError("rectify view 'source' keeps the source's own K: leave focal_px and fx_fy_cx_cy_px out")
        if self.focal_px is not None and not (np.isfinite(self.focal_px) and self.focal_px > 0):
            raise GeoError(f"rectify focal_px {self.focal_px} must be a positive number of pixels")
        if self.fx_fy_cx_cy_px is not None:
            fx, fy = self.fx_fy_cx_cy_px[:2]
            if not (all(np.isfinite(value) for value in self.fx_fy_cx_cy_px) and fx > 0 and fy > 0):
                raise GeoError(f"rectify fx_fy_cx_cy_px {self.fx_fy_cx_cy_px} must be finite, focal lengths positive")


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


def check_rotation(rotation: Float[np.ndarray, "..."], name: str) -> Float[np.ndarray, "3 3"]:
    """Return a rotation made exactly orthonormal, or raise.

    Raises:
        PoseError: not 3x3, not finite, or no rotation.
    """
    if np.shape(rotation) != (3, 3):
        raise PoseError(f"{name} has shape {np.shape(rotation)}; expected a 3x3 rotation")
    rigid = se3.check_rigid(se3.from_rotation_translation(np.asarray(rotation), np.zeros(3)), name)
    return np.asarray(rigid[:3, :3])


def source_pixels(source: Camera, target: PinholeCamera, source_from_target: Float[np.ndarray, "3 3"]) -> Projection:
    """Source pixel of every target pixel (same optical centre); NaN and invalid where the source image has none."""
    rays = target.unproject(target.pixel_grid())
    projection = source.project(rays.directions @ source_from_target.T)
    valid = projection.valid & source.in_image(projection.pixels_xy)
    return Projection(np.where(valid[..., None], projection.pixels_xy, np.nan), valid)


def canonical_view(source: Camera, config: RectifyConfig) -> CanonicalView:
    """The view that a source camera gets: its own without distortion, or the configured one for wide lenses."""
    perspective = isinstance(source, PinholeCamera | RadTanCamera)
    keeps = not config.has_intrinsics and (perspective or source.field_of_view_deg() <= WIDE_LENS_DEG)
    if config.view == "source" or (config.view == "auto" and keeps):
        if isinstance(source, PinholeCamera):
            return CanonicalView(source, np.eye(3))
        if isinstance(source, DistortedCamera):
            return CanonicalView(source.undistorted, np.eye(3))
    turn = turn_rotation(config.pitch_deg, config.yaw_deg, config.roll_deg)
    if config.fx_fy_cx_cy_px is not None:
        return CanonicalView(PinholeCamera(config.width_px, config.height_px, *config.fx_fy_cx_cy_px), turn)
    if config.focal_px is not None:
        focal = float(config.focal_px)
    else:
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
    return CanonicalView(camera, turn)


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
