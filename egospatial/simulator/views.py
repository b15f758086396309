"""The cameras of a preset and their rays."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32

from egospatial.simulator.presets import Preset
from geo.cameras import Camera, KannalaBrandtCamera, PinholeCamera

CANONICAL_PITCH_DEG = -5.0


@dataclass(frozen=True)
class View:
    """A camera, where it sits on the head, and its unit rays (row by row)."""

    camera: Camera
    head_from_camera: Float[np.ndarray, "4 4"]
    directions: Float32[np.ndarray, "P 3"]  # in the camera's frame, only pixels that see something
    seen: Bool[np.ndarray, "H W"]


@dataclass(frozen=True)
class Views:
    """All cameras of a preset. The fisheye is the reference: its frame is the head's."""

    fisheye: View
    sensor: View
    canonical: View
    canonical_depth: View


def canonical_camera(size_px: int) -> PinholeCamera:
    """The canonical view's pinhole: 400 px focal length at 1024 px, as ``geo.rectify`` has it by default."""
    center = (size_px - 1) / 2
    focal = 0.78125 * (size_px / 2) / np.tan(np.radians(45.0))
    return PinholeCamera(size_px, size_px, float(focal), float(focal), center, center)


def make_views(preset: Preset) -> Views:
    """Cameras and rays of a preset."""
    center = (preset.fisheye_size_px - 1) / 2
    focal = preset.fisheye_focal_px_per_rad
    fisheye = KannalaBrandtCamera(
        preset.fisheye_size_px,
        preset.fisheye_size_px,
        focal,
        focal,
        center,
        center,
        preset.kb4,
        valid_theta_rad=float(np.radians(preset.valid_theta_deg)),
    )
    width, height = preset.depth_size_wh_px
    sensor = PinholeCamera(
        width, height, preset.depth_focal_px, preset.depth_focal_px, (width - 1) / 2, (height - 1) / 2
    )
    aside = np.eye(4)
    aside[0, 3] = preset.depth_offset_m
    canonical = canonical_camera(preset.canonical_size_px)
    stored = canonical.resized((preset.stored_depth_width_px, preset.stored_depth_width_px))
    pitched = np.eye(4)
    pitched[:3, :3] = pitch_rotation(CANONICAL_PITCH_DEG)
    return Views(_view(fisheye, np.eye(4)), _view(sensor, aside), _view(canonical, pitched), _view(stored, pitched))


def pitch_rotation(pitch_deg: float) -> Float[np.ndarray, "3 3"]:
    """source_from_canonical: a turn about the camera's x axis; a negative pitch looks down (towards +y)."""
    c, s = np.cos(np.radians(pitch_deg)), np.sin(np.radians(pitch_deg))
    return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])


def _view(camera: Camera, head_from_camera: Float[np.ndarray, "4 4"]) -> View:
    rays = camera.unproject(camera.pixel_grid())
    directions = np.ascontiguousarray(rays.directions[rays.valid], dtype=np.float32)
    return View(camera, head_from_camera, directions, rays.valid)
