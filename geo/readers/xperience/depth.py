"""Depth of the rectified left camera, at half its size, one frame read at a time."""

from typing import Any

import numpy as np
from jaxtyping import Float32

from geo.cameras import PinholeCamera
from geo.errors import RecordingError
from geo.readers.depth_files import DepthCoding
from geo.readers.xperience.calibration import ANNOTATION, XperienceRig
from geo.readers.xperience.hdf5_values import Hdf5Values

DEPTH, CONFIDENCE, SCALE = "depth/depth", "depth/confidence", "depth/scale"
MIN_CONFIDENCE = 0.2
_MAX_SIDE = 8192


class EpisodeDepth:
    """``depth/depth``: metres along z; NaN where there is none, or where ``depth/confidence`` / 255 is below 0.2."""

    def __init__(self, file: Hdf5Values, rig: XperienceRig, count: int, warnings: list[str]) -> None:
        """Check both datasets of an open file; the file is opened again when a frame is read.

        Raises:
            RecordingError: another shape or type than numbers, or sizes that contradict ``depth/scale``.
        """
        self.path = file.path
        shape = tuple(file.dataset(DEPTH).shape)
        if len(shape) != 3 or shape[0] != count or not all(2 <= side <= _MAX_SIDE for side in shape[1:]):
            raise RecordingError(
                f"{self.path}: {DEPTH} has shape {shape}, expected ({count}, height, width): one a frame"
            )
        self._count, self.size_wh_px = count, (int(shape[2]), int(shape[1]))
        self.has_confidence = file.has(CONFIDENCE)
        if not self.has_confidence:
            warnings.append(f"{self.path.name}: no {CONFIDENCE}; every depth is taken")
        scale = file.scalar(SCALE) if file.has(SCALE) else 0.5
        full = [side / scale if 1e-3 < scale <= 1 else 0.0 for side in self.size_wh_px]
        if not all(side == round(side) and 2 <= side <= _MAX_SIDE for side in full):
            raise RecordingError(f"{self.path}: {SCALE} = {scale} does not fit depth images of {self.size_wh_px}")
        self.full_size_wh_px = (round(full[0]), round(full[1]))
        # A depth pixel stands for the 2x2 pixels that it is enlarged to: its centre is theirs, which resized() says.
        self.camera: PinholeCamera = rig.stereo_camera(self.full_size_wh_px).resized(self.size_wh_px)
        self._coding = DepthCoding(self.camera, unit_m=1.0)
        self._open: tuple[Hdf5Values, Any, Any] | None = None
        self._checked(file)

    def _checked(self, file: Hdf5Values) -> tuple[Any, Any]:
        """Both datasets, of the right type and shape."""
        shape = (self._count, self.size_wh_px[1], self.size_wh_px[0])
        depth = file.dataset(DEPTH)
        if depth.dtype.kind != "f" or tuple(depth.shape) != shape:
            raise RecordingError(f"{self.path}: {DEPTH} is {depth.dtype} {tuple(depth.shape)}, expected floats {shape}")
        if not self.has_confidence:
            return depth, None
        confidence = file.dataset(CONFIDENCE)
        if confidence.dtype != np.uint8 or tuple(confidence.shape) != shape:
            raise RecordingError(
                f"{self.path}: {CONFIDENCE} is {confidence.dtype} {tuple(confidence.shape)}, expected uint8 {shape}"
            )
        return depth, confidence

    def __len__(self) -> int:
        return self._count

    def read(self, index: int) -> Float32[np.ndarray, "H W"]:
        """Depth along +z in metres.

        Raises:
            RecordingError: the frame cannot be read; the file is named. IndexError: no such frame.
        """
        if not 0 <= index < self._count:
            raise IndexError(f"{self.path} has {self._count} depth images, image {index} was asked for")
        if self._open is None:
            file = Hdf5Values(self.path)
            self._open = (file, *self._checked(file))
        file, depth, confidence = self._open
        raw = file.row(DEPTH, depth, index).astype(np.float32)
        if confidence is not None:
            raw = np.where(file.row(CONFIDENCE, confidence, index) / 255.0 >= MIN_CONFIDENCE, raw, np.float32("nan"))
        return self._coding.decode(raw, f"{self.path.name}:{DEPTH}[{index}]")


def depth_of(file: Hdf5Values, rig: XperienceRig, count: int, warnings: list[str]) -> EpisodeDepth | None:
    """The depth of an open file; None where it has none, which is said."""
    if not file.has(DEPTH):
        warnings.append(f"{ANNOTATION} has no {DEPTH}: no sensor depth")
        return None
    return EpisodeDepth(file, rig, count, warnings)
