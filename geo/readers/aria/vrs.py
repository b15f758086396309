"""VRS files: what is in them and their pictures, read by projectaria_tools in a process of its own (``worker``).

One picture is held at a time.

Source: projectaria_tools, "Data Provider" pages (``VrsDataProvider``); VRS, "File Format".
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int64, Shaped, UInt8

from geo.errors import RecordingError
from geo.readers.aria.worker import ADVICE, Worker

_VRS_MAGIC = b"VisionRe"


@dataclass(frozen=True)
class VrsStream:
    """A stream of pictures: times in the device clock, size as stored."""

    stream_id: str
    label: str | None
    size_wh_px: tuple[int, int]
    timestamps_ns: Int64[np.ndarray, "N"]


@dataclass(frozen=True)
class DeviceCamera:
    """A camera of the device's own (factory) calibration, as projectaria_tools gives it: at the size of the stream."""

    label: str
    model: str
    size_wh_px: tuple[int, int]
    params: Float[np.ndarray, "P"]
    valid_radius_px: float | None
    device_from_camera: Float[np.ndarray, "4 4"]


@dataclass(frozen=True)
class DeviceCalibration:
    """The device's factory calibration. CPF: central pupil frame, see ``geo.readers.mps.gaze``."""

    build: str
    cameras: dict[str, DeviceCamera]
    device_from_cpf: Float[np.ndarray, "4 4"]


def _matrix(rows: Any) -> Float[np.ndarray, "4 4"]:
    return np.array(rows, dtype=np.float64).reshape(4, 4)


class VrsFile:
    """An opened VRS file."""

    def __init__(self, path: Path) -> None:
        """Open it and list its streams.

        Raises:
            RecordingError: missing, no VRS file, cut off, damaged, or without pictures.
        """
        self.path = path
        try:
            with path.open("rb") as file:
                magic = file.read(len(_VRS_MAGIC))
        except OSError as error:
            raise RecordingError(f"VRS file {path} cannot be read: {error.strerror}") from error
        if magic != _VRS_MAGIC:
            raise RecordingError(f"{path} is no VRS file (it does not begin like one). {ADVICE}")
        self._worker = Worker(path)
        self._description, _ = self._worker.ask({"do": "describe"})
        if not self._description["streams"]:
            raise RecordingError(f"VRS file {path} holds no pictures. {ADVICE}")

    @property
    def generation(self) -> str:
        """``Gen1``, ``Gen2``, or ``NotValid`` for files that no Aria device wrote."""
        return str(self._description["device"])

    @property
    def tags(self) -> dict[str, str]:
        """The file's own tags (text)."""
        return dict(self._description["tags"])

    @cached_property
    def streams(self) -> dict[str, VrsStream]:
        """Streams of pictures by their id (``214-1``).

        Raises:
            RecordingError: times that do not rise.
        """
        found = {}
        for entry in self._description["streams"]:
            stamps = np.array(entry["timestamps_ns"], dtype=np.int64)
            if not (np.diff(stamps) > 0).all():
                raise RecordingError(f"VRS file {self.path}: times of stream {entry['id']} do not rise. {ADVICE}")
            width, height = entry["size"]
            found[entry["id"]] = VrsStream(entry["id"], entry["label"], (width, height), stamps)
        return found

    @cached_property
    def calibration(self) -> DeviceCalibration | None:
        """Factory calibration; None if the file has none."""
        given = self._description["calibration"]
        if given is None:
            return None
        cameras = {
            entry["label"]: DeviceCamera(
                entry["label"],
                entry["model"],
                (entry["size"][0], entry["size"][1]),
                np.array(entry["params"], dtype=np.float64),
                entry["valid_radius"],
                _matrix(entry["device_from_camera"]),
            )
            for entry in given["cameras"]
        }
        return DeviceCalibration(str(given["subtype"]), cameras, _matrix(given["device_from_cpf"]))

    def time_code_ns(self, device_ns: Int64[np.ndarray, "N"]) -> Int64[np.ndarray, "N"]:
        """Device times as time code (the clock that several devices share)."""
        answer, _ = self._worker.ask({"do": "time_code", "timestamps_ns": device_ns.tolist()})
        return np.array(answer["timestamps_ns"], dtype=np.int64)

    def device_time_ns(self, time_code_ns: Int64[np.ndarray, "N"]) -> Int64[np.ndarray, "N"]:
        """Time code as device times."""
        answer, _ = self._worker.ask({"do": "device_time", "timestamps_ns": time_code_ns.tolist()})
        return np.array(answer["timestamps_ns"], dtype=np.int64)

    def raw(self, stream_id: str, index: int) -> Shaped[np.ndarray, "..."]:
        """A picture as it is stored.

        Raises:
            RecordingError: it cannot be decoded, or is not of its stream's size.
        """
        head, data = self._worker.ask({"do": "image", "stream": stream_id, "index": index})
        pixels = np.frombuffer(data, dtype=np.dtype(head["dtype"])).reshape(head["shape"])
        width, height = self.streams[stream_id].size_wh_px
        if pixels.shape[:2] != (height, width):
            raise RecordingError(
                f"picture {index} of stream {stream_id} in VRS file {self.path} is {pixels.shape[1]}x{pixels.shape[0]}"
                f", its stream {width}x{height}. {ADVICE}"
            )
        return pixels


@dataclass(frozen=True)
class VrsFrames:
    """Pictures of a stream, turned by quarter turns clockwise. One is decoded at a time, none is kept."""

    file: VrsFile
    stream_id: str
    turns_clockwise: int
    indices: tuple[int, ...] | None = None  # None: all

    def __len__(self) -> int:
        return len(self.file.streams[self.stream_id].timestamps_ns) if self.indices is None else len(self.indices)

    def stored_index(self, index: int) -> int:
        """Number of a picture in its stream; as for lists, -1 is the last.

        Raises:
            IndexError: there is no such picture.
        """
        return range(len(self))[index] if self.indices is None else self.indices[index]

    def read(self, index: int) -> UInt8[np.ndarray, "H W 3"]:
        """RGB picture; grey ones have three equal channels.

        Raises:
            RecordingError: it cannot be decoded; file, stream and number are named.
        """
        pixels = self.file.raw(self.stream_id, self.stored_index(index))
        if pixels.dtype != np.uint8 or (pixels.ndim == 3 and pixels.shape[2] != 3):
            raise RecordingError(
                f"picture {index} of stream {self.stream_id} in VRS file {self.file.path} is {pixels.dtype} with shape "
                f"{pixels.shape}; expected 8 bits, grey or RGB"
            )
        rgb = pixels if pixels.ndim == 3 else np.repeat(pixels[..., None], 3, axis=2)
        return np.ascontiguousarray(np.rot90(rgb, -self.turns_clockwise))


@lru_cache(maxsize=4)
def by_design(build: str) -> tuple[Float[np.ndarray, "4 4"], dict[str, Float[np.ndarray, "4 4"]]]:
    """device_from_cpf and device_from_camera by label, as a build (``DVT-S``, ``DVT-L``) of Gen 1 was designed.

    Raises:
        RecordingError: no such build.
    """
    answer, _ = Worker(None).ask({"do": "by_design", "build": build})
    return _matrix(answer["device_from_cpf"]), {label: _matrix(rows) for label, rows in answer["cameras"].items()}
