"""Pixels in and out: videos with random access, folders of images, H.264 with true time stamps.

One rule for rotation tags: frames are shown the way the tag says, whatever the reader, and a calibration has to be
given for the shown frame (``geo.readers`` compares sizes and refuses what does not fit; FIELD V1).
"""

import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from jaxtyping import Int64, UInt8

from geo.errors import RecordingError
from geo.images import read_rgb
from geo.video_writer import WrittenVideo, write_video

__all__ = ["ImageFrames", "VideoFrames", "VideoTable", "WrittenVideo", "write_video"]

NS = 1_000_000_000
_DECODER_THREADS = 2
_LONGEST_S = 10**8  # three years
_SLACK_INTERVALS = 3  # a track may be this many mean frame intervals longer than from its first to its last frame
_FETCH = "; fetch it anew, or cut it cleanly (ffmpeg -i IN -c copy OUT) to use what is there"


@dataclass(frozen=True)
class VideoTable:
    """What a video file holds, found without decoding it."""

    size_wh_px: tuple[int, int]  # as shown
    stored_size_wh_px: tuple[int, int]
    rotation_deg: int  # counter-clockwise turn from the stored to the shown frame: 0, 90, 180 or 270
    timestamps_ns: Int64[np.ndarray, "N"]  # from the first frame, rising
    has_audio: bool


class VideoFrames:
    """RGB frames of a video file, decoded when asked for; one decoder and one frame are held in memory.

    Frames are found by their presentation stamps, so a variable frame rate and B-frames are read right. Rising order
    is fast; a jump costs one seek to the key frame before it.
    """

    def __init__(self, path: Path | str) -> None:
        """Open a video and build its frame table.

        Raises:
            RecordingError: the file is missing, no video, has no frames, or is cut off.
        """
        self.path = Path(path)
        self._container = _open(self.path)
        if not self._container.streams.video:
            raise RecordingError(f"{self.path} has no video track")
        self._stream: Any = self._container.streams.video[0]
        self._pts, self._key = self._packet_table()
        self._container.close()
        self._restart()
        first = self._decode_at(0)
        self.table = self._make_table(first)

    def _packet_table(self) -> tuple[Int64[np.ndarray, "N"], Int64[np.ndarray, "K"]]:
        """Presentation stamps of all frames in order, and those of the key frames."""
        import av

        pts, key, seen = array("q"), array("q"), 0  # 8 bytes a frame, where a list of numbers takes 40
        try:
            for packet in self._container.demux(self._stream):
                if packet.pts is None or packet.size == 0:
                    continue
                seen += 1
                if packet.is_corrupt:
                    raise RecordingError(f"{self.path} is cut off or damaged at frame {len(pts)}{_FETCH}")
                if packet.is_discard:
                    continue
                pts.append(packet.pts)
                if packet.is_keyframe:
                    key.append(packet.pts)
        except av.FFmpegError as error:
            raise RecordingError(
                f"{self.path} cannot be read after frame {len(pts)}: {error}; is it cut off?"
            ) from error
        self._refuse_cut_off(seen, pts)
        if not pts:
            raise RecordingError(f"{self.path} has a video track without frames")
        table = np.unique(np.array(pts, dtype=np.int64))
        if len(table) != len(pts):
            raise RecordingError(f"{self.path}: {len(pts) - len(table)} frames share a time stamp with another frame")
        return table, np.sort(np.array(key or pts[:1], dtype=np.int64))

    def _refuse_cut_off(self, seen: int, pts: Sequence[int]) -> None:
        """An index at the head of a file goes on listing what a cut took away: fewer frames than it says is an error.

        Containers that do not count frames say how long the track is.
        """
        said = int(self._stream.frames)
        if seen < said:
            raise RecordingError(f"{self.path} is cut off: {seen} of its {said} frames are there{_FETCH}")
        base, tag = self._stream.time_base, _tagged_seconds(self._stream.metadata.get("DURATION", ""))
        length_s = float(self._stream.duration * base) if self._stream.duration else tag
        if said or length_s is None or len(pts) < 2:
            return
        present_s = float((max(pts) - min(pts)) * base)
        if present_s < length_s - _SLACK_INTERVALS * present_s / (len(pts) - 1) - 0.1:
            raise RecordingError(
                f"{self.path} is cut off: it says that it is {length_s:.2f} s long, its {len(pts)} frames end after "
                f"{present_s:.2f} s{_FETCH}"
            )

    def _make_table(self, first: Any) -> VideoTable:
        """Sizes and times, with the rotation tag of the first frame."""
        rotation = round(first.rotation / 90) * 90 % 360
        stored = (int(first.width), int(first.height))
        shown = stored[::-1] if rotation in (90, 270) else stored
        base = self._stream.time_base
        if (int(self._pts[-1]) - int(self._pts[0])) * base.numerator > _LONGEST_S * base.denominator:
            raise RecordingError(f"{self.path}: its time stamps span more than {_LONGEST_S} s; is the file damaged?")
        # Whole seconds and the rest apart: exact, and no product leaves 64 bits.
        seconds, rest = np.divmod((self._pts - self._pts[0]) * base.numerator, base.denominator)
        stamps = seconds * NS + (2 * rest * NS + base.denominator) // (2 * base.denominator)
        return VideoTable(shown, stored, rotation, stamps, bool(self._container.streams.audio))

    @property
    def size_wh_px(self) -> tuple[int, int]:
        """Width and height as shown."""
        return self.table.size_wh_px

    @property
    def timestamps_ns(self) -> Int64[np.ndarray, "N"]:
        """Presentation times from the first frame."""
        return self.table.timestamps_ns

    def __len__(self) -> int:
        return len(self._pts)

    def read(self, index: int) -> UInt8[np.ndarray, "H W 3"]:
        """RGB image of a frame, turned as the rotation tag says.

        Raises:
            IndexError: no such frame.
            RecordingError: the frame cannot be decoded.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"{self.path} has {len(self)} frames, frame {index} was asked for")
        image = self._decode_at(index).to_ndarray(format="rgb24", threads=1)
        turns = self.table.rotation_deg // 90
        return np.ascontiguousarray(np.rot90(image, turns)) if turns else np.asarray(image)

    def _restart(self, pts: int | None = None) -> None:
        """A fresh position: at the start, or at the key frame before a stamp."""
        if pts is None:
            self._container = _open(self.path)
            self._stream = self._container.streams.video[0]
            self._stream.thread_type = "AUTO"
            self._stream.codec_context.thread_count = _DECODER_THREADS
        else:
            self._container.seek(pts, stream=self._stream, backward=True, any_frame=False)
        self._iterator = self._container.decode(self._stream)
        self._at: int | None = None
        self._frame: Any = None

    def _decode_at(self, index: int) -> Any:
        """Decoded frame of an index, by going on or by seeking."""
        wanted = int(self._pts[index])
        if self._at == wanted:
            return self._frame
        jump = int(self._key[max(int(np.searchsorted(self._key, wanted, side="right")) - 1, 0)])
        if self._at is not None and (wanted < self._at or jump > self._at):
            self._restart(jump)
        frame = self._advance(wanted)
        if frame is None:  # some key frames do not start a closed group: from the beginning it always works
            self._container.close()
            self._restart()
            frame = self._advance(wanted)
        if frame is None:
            raise RecordingError(f"{self.path}: frame {index} cannot be decoded; the file is damaged or cut off")
        return frame

    def _advance(self, wanted: int) -> Any:
        """Decode until a stamp; None if it is passed or the file ends."""
        import av

        try:
            for frame in self._iterator:
                if frame.pts is None or frame.pts < wanted:
                    continue
                if frame.pts > wanted:
                    return None
                self._at, self._frame = wanted, frame
                return frame
        except av.FFmpegError:
            return None
        return None

    def close(self) -> None:
        """Let go of the file."""
        self._container.close()

    def __enter__(self) -> "VideoFrames":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _tagged_seconds(text: str) -> float | None:
    """Seconds of Matroska's ``DURATION`` tag, 00:00:06.000000000."""
    parts = text.split(":")
    try:
        return sum(float(part) * unit for part, unit in zip(parts, (3600, 60, 1), strict=True))
    except ValueError:
        return None


def _open(path: Path) -> Any:
    """Open a container, or say what is wrong with the file."""
    import av

    if not path.is_file():
        raise RecordingError(f"video {path} does not exist")
    try:
        return av.open(os.fspath(path))
    except av.FFmpegError as error:
        raise RecordingError(
            f"{path} is no video that can be opened ({error.strerror}): another kind of file, or cut off before its "
            "index was written"
        ) from error


class ImageFrames:
    """RGB frames from image files, in the order given; see ``geo.images.natural_order`` for names."""

    def __init__(self, files: Sequence[Path], size_wh_px: tuple[int, int]) -> None:
        """Take files and the size that every one of them must have.

        Raises:
            RecordingError: no files, or one that does not exist (its full path is named).
        """
        if not files:
            raise RecordingError("a camera without a single image")
        for file in files:
            if not file.is_file():
                raise RecordingError(f"image {file} is missing")
        self.files = tuple(files)
        self.size_wh_px = size_wh_px

    def __len__(self) -> int:
        return len(self.files)

    def read(self, index: int) -> UInt8[np.ndarray, "H W 3"]:
        """RGB image of a frame.

        Raises:
            RecordingError: unreadable, cut off, or of another size; the full path is named.
        """
        image = read_rgb(self.files[index])
        size = (image.shape[1], image.shape[0])
        if size != self.size_wh_px:
            raise RecordingError(
                f"image {self.files[index]} is {size[0]}x{size[1]}, but its camera is calibrated for "
                f"{self.size_wh_px[0]}x{self.size_wh_px[1]}"
            )
        return image
