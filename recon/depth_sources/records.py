"""What a source of depth gives for a frame, and the interface that the user's own network implements."""

import enum
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32, Shaped, UInt8

from geo.cameras import PinholeCamera
from recon.errors import ReconError

_ASPECT_SHARE = 0.02  # sizes whose shapes differ by more are not the same picture resized


class DepthKind(enum.StrEnum):
    """What the values of a prediction are, all along the camera's +z and never along the ray."""

    METRIC = "metric"  # metres
    AFFINE_DEPTH = "affine_depth"  # depth = scale * value + shift, both unknown, scale > 0
    AFFINE_DISPARITY = "affine_disparity"  # 1 / depth = scale * value + shift, both unknown, scale > 0


@dataclass(frozen=True)
class DepthPrediction:
    """Depth of one frame as somebody else states it.

    ``camera`` is that of ``values``; None says that they show the picture that was handed over, at any size.
    """

    values: Shaped[np.ndarray, "..."]  # numbers [h w]; checked where they are used, they come from outside
    kind: DepthKind
    sigma: Shaped[np.ndarray, "..."] | None = None  # one standard deviation, in the unit of the values; NaN = not said
    camera: PinholeCamera | None = None

    def cleaned(self) -> Float32[np.ndarray, "h w"]:
        """Values with NaN for none: 0, infinities, and of metric depth what is negative."""
        values = np.asarray(self.values, dtype=np.float64)
        given = np.isfinite(values) & (values != 0)
        if self.kind is DepthKind.METRIC:
            given &= values > 0
        return np.where(given, values, np.nan).astype(np.float32)

    def camera_for(self, picture_camera: PinholeCamera, what: str) -> PinholeCamera:
        """The camera of the values: its own, or the picture's at their size.

        Args:
            picture_camera: Of the picture that the prediction is of.
            what: Names the prediction in an error.

        Raises:
            ReconError: values are no image of numbers, the size contradicts the stated camera, or its shape is another
                than the picture's.
        """
        values = np.asarray(self.values)
        if values.ndim != 2 or values.dtype.kind not in "fiu" or 0 in values.shape:
            raise ReconError(f"{what} has shape {values.shape} of {values.dtype}; expected one image of numbers [h w]")
        if self.sigma is not None and np.shape(self.sigma) != values.shape:
            raise ReconError(f"{what}: sigma has shape {np.shape(self.sigma)}, the depth {values.shape}")
        size = (values.shape[1], values.shape[0])
        if self.camera is not None:
            if size != self.camera.size_wh_px:
                raise ReconError(f"{what} is {size[0]}x{size[1]} px, its stated camera {_by(self.camera)}")
            return self.camera
        shape = (size[0] / size[1]) / (picture_camera.width_px / picture_camera.height_px)
        if abs(shape - 1) > _ASPECT_SHARE + 1.0 / min(size):
            raise ReconError(
                f"{what} is {size[0]}x{size[1]} px, which is no resized {_by(picture_camera)} picture. Was it cropped "
                "or stretched? State its own camera (depth.folder_camera=[width, height, fx, fy, cx, cy])."
            )
        return picture_camera.resized(size)


def _by(camera: PinholeCamera) -> str:
    return f"{camera.width_px}x{camera.height_px}"


@runtime_checkable
class DepthProvider(Protocol):
    """The user's own network."""

    def depth(self, frame_rgb: UInt8[np.ndarray, "H W 3"], camera: PinholeCamera) -> DepthPrediction:
        """Depth of one picture whose camera is ``camera``; values at any size of the same picture, or with a camera.

        The same picture has to give the same values: a run that was killed asks again.
        """
        ...


@runtime_checkable
class FrameDepth(Protocol):
    """Predictions by frame of a canonical recording: a folder, or a network that is shown the pictures."""

    def has(self, frame: int) -> bool:
        """Whether there is a prediction for a frame."""
        ...

    def prediction(self, frame: int) -> DepthPrediction:
        """The prediction of a frame that it has."""
        ...

    def name(self, frame: int) -> str:
        """What an error calls the prediction of a frame."""
        ...
