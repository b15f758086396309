"""Depth and segmentation of ADT: VRS files of their own, one stream per camera, per pixel of the fisheye."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int64

from geo.errors import RecordingError
from geo.nearest import nearest_row
from geo.readers.aria.calibration import TURNS_CLOCKWISE
from geo.readers.aria.vrs import VrsFile, VrsFrames, VrsStream
from geo.readers.depth_files import DepthCoding

DEPTH_FILE = "depth_images.vrs"
SEGMENTATION_FILE = "segmentations.vrs"
# Streams of a camera: pictures (video.vrs) -> number in depth (345-n) and segmentation (400-n).
_NUMBERS = {"214-1": 1, "1201-1": 2, "1201-2": 3}
_DEPTH_TYPE, _SEGMENTATION_TYPE = 345, 400


def _stream(file: VrsFile, stream_type: int, camera_stream: str, size_wh_px: tuple[int, int] | None) -> VrsStream:
    """The stream that belongs to a camera.

    Raises:
        RecordingError: there is none, or its pictures are not of the camera's size.
    """
    if camera_stream not in _NUMBERS:
        raise RecordingError(f"ADT has no camera {camera_stream}; known are {', '.join(_NUMBERS)}")
    stream_id = f"{stream_type}-{_NUMBERS[camera_stream]}"
    stream = file.streams.get(stream_id)
    if stream is None:
        raise RecordingError(f"VRS file {file.path} has no stream {stream_id}, only {', '.join(file.streams)}")
    if size_wh_px is not None and stream.size_wh_px != size_wh_px:
        raise RecordingError(
            f"VRS file {file.path}: stream {stream_id} is {stream.size_wh_px} px (W, H), its camera {size_wh_px}"
        )
    return stream


@dataclass(frozen=True)
class AdtDepth:
    """Depth of a fisheye, upright: along +z of the camera (not along the ray), per pixel of the fisheye."""

    frames: VrsFrames
    coding: DepthCoding

    def __len__(self) -> int:
        return len(self.frames)

    def read(self, index: int) -> Float32[np.ndarray, "H W"]:
        """Depth along +z in metres, NaN where there is none.

        Raises:
            RecordingError: the picture cannot be decoded, or holds no counts.
        """
        counts = self.frames.file.raw(self.frames.stream_id, self.frames.stored_index(index))
        where = f"{index} of stream {self.frames.stream_id} in {self.frames.file.path}"
        if counts.dtype != np.uint16 or counts.ndim != 2:
            raise RecordingError(f"depth image {where} is {counts.dtype} with shape {counts.shape}; expected 16 bits")
        return self.coding.decode(np.rot90(counts, -self.frames.turns_clockwise), where)


def open_depth(path: Path, camera_stream: str, coding: DepthCoding) -> tuple[Int64[np.ndarray, "M"], AdtDepth]:
    """Times and depth images of a camera; ``coding`` has the camera of the upright pictures.

    Raises:
        RecordingError: unreadable, or the camera has no depth in it.
    """
    file = VrsFile(path)
    stored_size = (coding.camera.height_px, coding.camera.width_px)  # on its side
    stream = _stream(file, _DEPTH_TYPE, camera_stream, stored_size)
    return stream.timestamps_ns, AdtDepth(VrsFrames(file, stream.stream_id, TURNS_CLOCKWISE), coding)


@dataclass(frozen=True)
class Segmentations:
    """Which object each pixel shows, upright like the pictures of the reader; without the wearer's body."""

    timestamps_ns: Int64[np.ndarray, "M"]
    frames: VrsFrames

    def __len__(self) -> int:
        return len(self.timestamps_ns)

    def read(self, index: int) -> Int64[np.ndarray, "H W"]:
        """Object uid per pixel (``int(GivenObject.object_id)``), 0 where there is none.

        Raises:
            RecordingError: the picture cannot be decoded, or holds no uids.
        """
        uids = self.frames.file.raw(self.frames.stream_id, self.frames.stored_index(index))
        if uids.dtype != np.uint64 or uids.ndim != 2 or (uids > np.iinfo(np.int64).max).any():
            raise RecordingError(
                f"segmentation {index} of stream {self.frames.stream_id} in {self.frames.file.path} is {uids.dtype} "
                f"with shape {uids.shape}; expected 64-bit uids"
            )
        return np.ascontiguousarray(np.rot90(uids.astype(np.int64), -self.frames.turns_clockwise))

    def nearest(self, timestamp_ns: int, tolerance_ns: int) -> int | None:
        """Number of the image nearest in time, None beyond the tolerance."""
        return nearest_row(self.timestamps_ns, timestamp_ns, tolerance_ns)


def open_segmentations(folder: Path, camera_stream: str = "214-1") -> Segmentations:
    """Segmentation of a camera of an ADT sequence.

    Raises:
        RecordingError: there is none, or it is damaged.
    """
    file = VrsFile(folder / SEGMENTATION_FILE)
    stream = _stream(file, _SEGMENTATION_TYPE, camera_stream, None)
    return Segmentations(stream.timestamps_ns, VrsFrames(file, stream.stream_id, TURNS_CLOCKWISE))
