"""SE3, cameras, rectification, time, recordings and the readers of foreign formats.

Light to import: numpy only. ``geo.depth``, ``geo.rectify``, ``geo.readers``, ``geo.video`` are imported by name.
"""

from geo.boxes import Box3
from geo.cameras import Camera, KannalaBrandtCamera, PinholeCamera, RadTanCamera, camera_from_params
from geo.errors import CameraError, GeoError, PoseError, RecordingError, ShapeError, TimeError
from geo.trajectory import Trajectory
from geo.world import Gravity, World

__all__ = [
    "Box3",
    "Camera",
    "CameraError",
    "GeoError",
    "Gravity",
    "KannalaBrandtCamera",
    "PinholeCamera",
    "PoseError",
    "RadTanCamera",
    "RecordingError",
    "ShapeError",
    "TimeError",
    "Trajectory",
    "World",
    "camera_from_params",
]
