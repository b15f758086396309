"""Aria cameras: a calibration at the size of its stream, with its valid radius, upright.

Gen 1 glasses store their pictures on their side. Here the picture is turned 90 degrees clockwise, and with it the
camera (``Camera.rotated90``) and its extrinsics: ``device_from_upright = device_from_camera @ upright_from_camera^T``
(FIELD R5).

The colour sensor has 2880 x 2880 pixels. A picture of 1408 is its middle 2816 with 2 x 2 pixels made one: crop 32 on
each side, then halve. projectaria_tools gives calibrations at the size of the stream already; ``at_stream_size`` is for
those that come from elsewhere.

Source: projectaria_tools, "Camera Intrinsic Models" and "Device Calibration" pages; ``core/calibration``.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from geo import se3
from geo.cameras import Camera, camera_from_params
from geo.errors import CameraError
from geo.readers.aria.vrs import DeviceCamera

TURNS_CLOCKWISE = 1
SENSOR_PX = {"camera-rgb": (2880, 2880), "camera-slam-left": (640, 480), "camera-slam-right": (640, 480)}
RGB_BORDER_PX = 32
# projectaria_tools' own for Gen 1, in pixels of the sensor: calibrations in JSON do not hold them.
VALID_RADIUS_PX = {"camera-rgb": 1415.0, "camera-slam-left": 330.0, "camera-slam-right": 330.0}
MODELS = {
    "FISHEYE624": "FISHEYE624",
    "FisheyeRadTanThinPrism": "FISHEYE624",
    "KANNALA_BRANDT_K3": "KB3",
    "KannalaBrandtK3": "KB3",
}


@dataclass(frozen=True)
class MountedCamera:
    """A camera and where it sits, pictures as the reader presents them."""

    camera: Camera
    device_from_camera: Float[np.ndarray, "4 4"]


def upright(
    camera: Camera, device_from_camera: Float[np.ndarray, "4 4"], turns: int = TURNS_CLOCKWISE
) -> MountedCamera:
    """The camera of the turned pictures, with its extrinsics."""
    turned, turned_from_camera = camera.rotated90(turns)
    rotation = se3.from_rotation_translation(turned_from_camera.T, np.zeros(3))
    return MountedCamera(turned, se3.compose(device_from_camera, rotation))


def at_stream_size(camera: Camera, size_wh_px: tuple[int, int]) -> Camera:
    """The camera for a stream of this size, from the calibration of the whole sensor.

    Equal sizes change nothing; 2880 to 1408 (and 704) crops 32 pixels a side first; otherwise pixels are binned.

    Raises:
        CameraError: the size is no whole part of the calibrated one.
    """
    if camera.size_wh_px == size_wh_px:
        return camera
    cropped = camera
    if camera.size_wh_px == SENSOR_PX["camera-rgb"] and size_wh_px[0] % 704 == 0:
        side = camera.width_px - 2 * RGB_BORDER_PX
        cropped = camera.cropped(RGB_BORDER_PX, RGB_BORDER_PX, (side, side))
    (width, height), (new_width, new_height) = cropped.size_wh_px, size_wh_px
    if width % new_width or height % new_height or width // new_width != height // new_height:
        raise CameraError(
            f"calibration is for {camera.size_wh_px} px (W, H), pictures are {size_wh_px}; no whole part of it. Give "
            "the calibration of these pictures"
        )
    return cropped.resized(size_wh_px)


def device_camera(given: DeviceCamera, stream_size_wh_px: tuple[int, int]) -> Camera:
    """A camera of the device calibration at the size of its stream, as stored (not turned).

    Raises:
        CameraError: unknown model, sizes that do not belong together. PoseError: extrinsics that are not rigid.
    """
    if given.model not in MODELS:
        raise CameraError(f"{given.label}: unknown camera model {given.model!r}; known are {', '.join(MODELS)}")
    se3.check_rigid(given.device_from_camera, f"T_Device_Camera of {given.label}")
    camera = camera_from_params(
        MODELS[given.model], given.size_wh_px, given.params, valid_radius_px=given.valid_radius_px
    )
    return at_stream_size(camera, stream_size_wh_px)
