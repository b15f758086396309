"""The binary form of a COLMAP model: cameras.bin, images.bin, points3D.bin; little-endian, no padding.

Every count is held against the bytes that are left before anything of that length is read.

Source: COLMAP documentation, "Output Format", binary (and its reader for the widths of the fields).
"""

import struct
from pathlib import Path

import numpy as np
from jaxtyping import Float

from geo import se3
from geo.cameras import Camera
from geo.errors import RecordingError
from geo.images import natural_key
from geo.readers.colmap.cameras import MODEL_NAMES, PARAMETER_COUNTS, camera_of
from geo.readers.colmap.records import ColmapPoints, SparseModel, points_of
from geo.readers.pose_rows import PoseRow, poses_from_rows
from geo.readers.sfm_poses import NamedPoses

_MAX_BYTES = 1 << 32
_MAX_NAME = 1024
_POINT2D_BYTES = 24
_TRACK_BYTES = 8
_MAX_SIDE = 1 << 31


class _Bytes:
    """A file's bytes, read from front to back; running out of them is an error that names the file and the place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            if path.stat().st_size > _MAX_BYTES:
                raise RecordingError(f"{path} holds more than {_MAX_BYTES >> 30} GiB; is it the right file?")
            self._data = path.read_bytes()
        except OSError as error:
            raise RecordingError(f"{path} cannot be read: {error.strerror}") from error
        self._at = 0

    def take(self, layout: str, what: str) -> tuple[int | float, ...]:
        """Numbers of a struct layout without padding."""
        size = struct.calcsize("<" + layout)
        self.need(size, what)
        values: tuple[int | float, ...] = struct.unpack_from("<" + layout, self._data, self._at)
        self._at += size
        return values

    def count(self, smallest: int, what: str) -> int:
        """A 64-bit count of entries that take at least ``smallest`` bytes each."""
        (value,) = self.take("Q", f"the number of {what}")
        if value * smallest > len(self._data) - self._at:
            raise RecordingError(
                f"{self.path} states {value} {what} at byte {self._at - 8} and has {len(self._data) - self._at} bytes "
                "left; is it cut off or damaged?"
            )
        return int(value)

    def name(self, what: str) -> str:
        """A text that ends with a NUL byte."""
        end = self._data.find(b"\0", self._at, self._at + _MAX_NAME + 1)
        if end < 0:
            raise RecordingError(f"{self.path}: {what} at byte {self._at} has no end; is it cut off or damaged?")
        raw = self._data[self._at : end]
        self._at = end + 1
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            text = ""
        if not text.strip() or not text.isprintable():
            raise RecordingError(f"{self.path}: {what} is {raw[:40]!r}, which is no file name; is the file damaged?")
        return text

    def skip(self, size: int, what: str) -> None:
        """Pass over bytes that must be there."""
        self.need(size, what)
        self._at += size

    def need(self, size: int, what: str) -> None:
        """Raise unless so many bytes are left."""
        if size > len(self._data) - self._at:
            raise RecordingError(f"{self.path} ends within {what} (byte {len(self._data)}); is it cut off?")

    def done(self) -> None:
        """Raise if something is left over: then a count was wrong, and so is all that follows it."""
        if self._at != len(self._data):
            raise RecordingError(
                f"{self.path} has {len(self._data) - self._at} bytes after its last entry; is it damaged, or another "
                "version of the format?"
            )


def read_binary_model(folder: Path, warnings: list[str]) -> SparseModel:
    """cameras.bin, images.bin and points3D.bin of a folder; the last need not be there.

    Raises:
        RecordingError, CameraError, PoseError: what is wrong, with the file.
    """
    points = folder / "points3D.bin"
    return SparseModel(
        _cameras(folder / "cameras.bin"),
        _images(folder / "images.bin", warnings),
        _points(points, warnings)
        if points.is_file()
        else ColmapPoints(np.zeros((0, 3)), np.zeros((0, 3), np.uint8), np.zeros(0)),
    )


def _cameras(path: Path) -> dict[int, Camera]:
    """Id (4 bytes), model (4), width (8), height (8), parameters (8 each)."""
    data = _Bytes(path)
    out: dict[int, Camera] = {}
    for i in range(data.count(32, "cameras")):
        where = f"{path} camera {i}"
        camera_id, model, width, height = (int(value) for value in data.take("IiQQ", where))
        if model not in PARAMETER_COUNTS:
            raise RecordingError(f"{where} has model number {model}, which is not known; is the file damaged?")
        if camera_id in out:
            raise RecordingError(f"{path} has two cameras with the id {camera_id}")
        params = [float(value) for value in data.take(f"{PARAMETER_COUNTS[model]}d", where)]
        out[camera_id] = camera_of(MODEL_NAMES[model], (min(width, _MAX_SIDE), min(height, _MAX_SIDE)), params, where)
    data.done()
    if not out:
        raise RecordingError(f"{path} holds no camera")
    return out


def _images(path: Path, warnings: list[str]) -> NamedPoses:
    """Id (4), quaternion w x y z and translation (8 each) of camera_from_world, camera (4), name, points (24 each)."""
    data = _Bytes(path)
    rows: list[PoseRow] = []
    names: list[str] = []
    ids: list[int] = []
    camera_ids: list[int] = []
    for i in range(data.count(73, "images")):
        what = f"image {i}"
        image_id, qw, qx, qy, qz, tx, ty, tz, camera_id = data.take("I7dI", what)
        name = data.name(f"the name of {what}")
        data.skip(data.count(_POINT2D_BYTES, f"points of image {name!r}") * _POINT2D_BYTES, f"the points of {what}")
        rows.append(PoseRow(repr(name), (tx, ty, tz), (qw, qx, qy, qz)))
        names.append(name)
        ids.append(int(image_id))
        camera_ids.append(int(camera_id))
    data.done()
    for what, values in (("name", names), ("id", ids)):
        if len(set(values)) != len(values):
            double = next(value for i, value in enumerate(values) if value in values[:i])
            raise RecordingError(f"{path} has two images with the {what} {double!r}; were two models joined?")
    camera_from_world = poses_from_rows(rows, path, warnings, "image")
    return _named(names, camera_from_world, ids, camera_ids)


def _named(
    names: list[str], camera_from_world: Float[np.ndarray, "N 4 4"], ids: list[int], camera_ids: list[int]
) -> NamedPoses:
    """Images with a pose in natural order of their names."""
    known = np.flatnonzero(np.isfinite(camera_from_world).all(axis=(1, 2))).tolist()
    known.sort(key=lambda i: (natural_key(names[i]), names[i]))
    return NamedPoses(
        tuple(names[i] for i in known),
        se3.inverse(camera_from_world[known]),
        np.array([ids[i] for i in known], dtype=np.int64),
        np.array([camera_ids[i] for i in known], dtype=np.int64),
    )


def _points(path: Path, warnings: list[str]) -> ColmapPoints:
    """Id (8), x y z (8 each), r g b (1 each), error (8), track (8 + 8 each)."""
    data = _Bytes(path)
    count = data.count(51, "points")
    points, errors = np.empty((count, 3)), np.empty(count)
    colours = np.empty((count, 3), dtype=np.uint8)
    ids = set()
    for i in range(count):
        point_id, *values = data.take("Q3d3Bd", f"point {i}")
        points[i], colours[i], errors[i] = values[:3], values[3:6], values[6]
        data.skip(data.count(_TRACK_BYTES, f"track entries of point {i}") * _TRACK_BYTES, f"the track of point {i}")
        ids.add(point_id)
    data.done()
    if len(ids) != count:
        raise RecordingError(f"{path}: {count - len(ids)} points have the id of another; is it damaged?")
    return points_of(points, colours, errors, path.name, warnings)
