"""Camera models: one small interface, vectorised in float64.

Axes: +x right, +y down, +z forward. The centre of pixel (0, 0) is at (0.0, 0.0); the image covers
[-0.5, W - 0.5] x [-0.5, H - 0.5]. Foreign half-pixel conventions end in the reader that meets them.
"""

from geo.cameras.base import Camera, Projection, Rays, check_size
from geo.cameras.distorted import DistortedCamera
from geo.cameras.factory import CAMERA_MODELS, camera_from_params
from geo.cameras.fov import FovCamera
from geo.cameras.kannala_brandt import KannalaBrandtCamera
from geo.cameras.pinhole import PinholeCamera
from geo.cameras.prism_fisheye import Fisheye624Camera, ThinPrismFisheyeCamera
from geo.cameras.radtan import RadTanCamera
from geo.cameras.sphere import DoubleSphereCamera, EucmCamera, OmniCamera

__all__ = [
    "CAMERA_MODELS",
    "Camera",
    "DistortedCamera",
    "DoubleSphereCamera",
    "EucmCamera",
    "Fisheye624Camera",
    "FovCamera",
    "KannalaBrandtCamera",
    "OmniCamera",
    "PinholeCamera",
    "Projection",
    "RadTanCamera",
    "Rays",
    "ThinPrismFisheyeCamera",
    "camera_from_params",
    "check_size",
]
