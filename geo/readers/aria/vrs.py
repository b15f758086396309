"""VRS files: what is in them and their pictures, read by projectaria_tools in a process of its own.

The library crashes on some damaged files and prints a lot; a child process keeps both away from the user: a file that
ends it is a ``RecordingError`` here. The process starts when something is asked for, holds one picture, and goes when
its ``VrsFile`` goes. Nothing of it is pickled: a copy in another process starts its own.

Source: projectaria_tools, "Data Provider" pages (``VrsDataProvider``); VRS, "File Format".
"""

import json
import os
import select
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int64, Shaped, UInt8

from geo.errors import RecordingError

_WORKER = Path(__file__).with_name("_worker.py")
_TIMEOUT_S = 120.0
_VRS_MAGIC = b"VisionRe"
_MAX_HEAD_BYTES = 1 << 28


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Close the pipes and wait; a worker that does not go is killed."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                pass
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@dataclass
class Worker:
    """A child process that answers requests about one VRS file (or none, for what needs no file)."""

    path: Path | None
    _process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)
    _owner: int = field(default=0, repr=False)
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """A copy starts its own process."""
        return {"path": self.path, "_process": None, "_owner": 0}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """See ``__getstate__``."""
        self.__dict__.update(state, _lock=threading.Lock())

    def ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Answer and raw bytes.

        Raises:
            RecordingError: the library refuses, crashes or hangs; the file is named.
        """
        with self._lock:
            process = self._running()
            try:
                assert process.stdin is not None
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
                deadline = time.monotonic() + _TIMEOUT_S
                size = int.from_bytes(self._bytes(process, 8, deadline), "little")
                if size > _MAX_HEAD_BYTES:
                    raise EOFError
                head = json.loads(self._bytes(process, size, deadline))
                raw = self._bytes(process, int(head["nbytes"]), deadline)
            except (EOFError, OSError, ValueError, KeyError) as error:
                raise self._gone(process, error) from None
        if "error" in head:
            raise RecordingError(f"{self._named(request)} cannot be read: {head['error']}. {_ADVICE}")
        return head, raw

    def _named(self, request: dict[str, Any]) -> str:
        where = "the design of Aria glasses" if self.path is None else f"VRS file {self.path}"
        return f"picture {request['index']} of stream {request['stream']} in {where}" if "index" in request else where

    def _running(self) -> "subprocess.Popen[bytes]":
        """The process of this Python process: one that was inherited by a fork is not used."""
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            command = [sys.executable, "-P", str(_WORKER), "" if self.path is None else str(self.path)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            self._owner = os.getpid()
            weakref.finalize(self, _end, self._process)
        return self._process

    def _bytes(self, process: "subprocess.Popen[bytes]", count: int, deadline: float) -> bytes:
        """Exactly so many bytes of the answer."""
        assert process.stdout is not None
        descriptor, parts, left = process.stdout.fileno(), [], count
        while left:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(descriptor, min(left, 1 << 20)) if ready else b""
            if not part:
                raise EOFError
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _gone(self, process: "subprocess.Popen[bytes]", error: Exception) -> RecordingError:
        """What to say of a process that gave no answer; it is ended."""
        try:
            status: int | None = process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            status = None
            process.kill()
        self._process = None
        how = f"gave no answer in {_TIMEOUT_S:.0f} s" if status is None else f"crashed (status {status})"
        what = "the design of Aria glasses" if self.path is None else f"VRS file {self.path}"
        return RecordingError(f"{what} cannot be read: projectaria_tools {how}. {_ADVICE}")


_ADVICE = "Is the file cut off or damaged? Fetch it anew"


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
            raise RecordingError(f"{path} is no VRS file (it does not begin like one). {_ADVICE}")
        self._worker = Worker(path)
        self._description, _ = self._worker.ask({"do": "describe"})
        if not self._description["streams"]:
            raise RecordingError(f"VRS file {path} holds no pictures. {_ADVICE}")

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
                raise RecordingError(f"VRS file {self.path}: times of stream {entry['id']} do not rise. {_ADVICE}")
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
                f", its stream {width}x{height}. {_ADVICE}"
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
