"""H.264 with true time stamps and copied audio, written under a temporary name and renamed when complete."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64, UInt8

from geo.errors import GeoError, RecordingError, ShapeError, TimeError

_TIME_BASE = Fraction(1, 1_000_000)  # microseconds in the file; the exact nanoseconds live in recording.json
_ITU709 = 1


@dataclass(frozen=True)
class WrittenVideo:
    """What was written."""

    frames: int
    audio_packets: int


def write_video(
    path: Path | str,
    frames: Iterable[UInt8[np.ndarray, "H W 3"]],
    *,
    rate_hz: float | None = None,
    timestamps_ns: Int64[np.ndarray, "N"] | None = None,
    audio_file: Path | None = None,
    audio_offset_ns: int = 0,
    crf: int = 18,
    preset: str = "medium",
    threads: int = 2,
) -> WrittenVideo:
    """Write RGB frames as H.264 (yuv420p, BT.709) in MP4; the same input gives the same bytes.

    Args:
        path: Final name; until the last byte is on disk the file has a temporary name beside it.
        frames: RGB uint8 images of one even size, consumed one at a time.
        rate_hz: Constant rate; or
        timestamps_ns: the time of each frame, rising (variable rates are kept to the microsecond).
        audio_file: A container whose first audio track is copied packet by packet (not re-encoded).
        audio_offset_ns: Time after that container's first video frame (or audio start, if it has no video) that
            belongs to the first frame written here.
        crf: Quality, 0 best, 51 worst.
        preset: x264 preset.
        threads: Fixed number of encoder threads: x264 gives other bytes for another number.

    Raises:
        GeoError: neither or both of rate and time stamps, odd sizes, no frames, disk full, audio unfit for MP4.
        ShapeError: a frame of another size. TimeError: stamps that do not rise or do not match the frames.
    """
    import av

    target = Path(path)
    if (rate_hz is None) == (timestamps_ns is None):
        raise GeoError("write_video needs either rate_hz or timestamps_ns")
    if timestamps_ns is not None and (np.diff(timestamps_ns) <= 0).any():
        raise TimeError(f"{target}: time stamps of the frames must rise")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with _Writer(temporary, rate_hz, timestamps_ns, audio_file, audio_offset_ns, crf, preset, threads) as writer:
            for frame in frames:
                writer.add(frame)
            written = writer.finish()
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    except av.FFmpegError as error:
        hint = f" (MP4 may not take the audio of {audio_file}: convert it to AAC first)" if audio_file else ""
        raise GeoError(f"{target} could not be written: {error}{hint}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return written


class _Writer:
    """State of one file being written."""

    def __init__(
        self,
        path: Path,
        rate_hz: float | None,
        timestamps_ns: Int64[np.ndarray, "N"] | None,
        audio_file: Path | None,
        audio_offset_ns: int,
        crf: int,
        preset: str,
        threads: int,
    ) -> None:
        import av

        self.path, self.stamps = path, timestamps_ns
        if timestamps_ns is not None:
            span = int(timestamps_ns[-1] - timestamps_ns[0]) if len(timestamps_ns) > 1 else 0
            mean = (len(timestamps_ns) - 1) * 1e9 / span if span else 10.0
            self.rate = Fraction(mean).limit_denominator(1001)
        else:
            self.rate = Fraction(float(rate_hz or 0.0)).limit_denominator(1001)
        if self.rate <= 0:
            raise GeoError(f"frame rate {rate_hz} Hz must be positive")
        # Without the macroblock-tree look-ahead: with it, about one in five encodings of the same frames gave other
        # bytes (measured with preset veryfast, one thread).
        self.options = {"crf": str(crf), "preset": preset, "x264-params": "mbtree=0"}
        self.threads = threads
        self.container = av.open(os.fspath(path), "w", format="mp4")
        self.stream: Any = None
        self.count = 0
        self.audio = _AudioCopy(audio_file, audio_offset_ns) if audio_file else None

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):  # after an error: the file is thrown away
            self.container.close()
        if self.audio:
            self.audio.close()

    def _start(self, width: int, height: int) -> None:
        if width % 2 or height % 2:
            raise GeoError(f"H.264 (yuv420p) needs an even size, got {width}x{height}")
        stream = self.container.add_stream("libx264", rate=self.rate, options=self.options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.time_base = _TIME_BASE
        context = stream.codec_context
        context.time_base = _TIME_BASE
        context.thread_count, context.thread_type = self.threads, "AUTO"
        context.colorspace, context.color_range = _ITU709, 1
        context.color_primaries, context.color_trc = 1, 1
        self.stream = stream
        if self.audio and self.audio.stream is not None:
            self.audio.attach(self.container)

    def _pts(self) -> int:
        """Stamp of the next frame in microseconds."""
        if self.stamps is None:
            return round(self.count * 1_000_000 / self.rate)
        if self.count >= len(self.stamps):
            raise TimeError(f"{self.path}: more frames than the {len(self.stamps)} time stamps")
        return (int(self.stamps[self.count] - self.stamps[0]) + 500) // 1000

    def add(self, image: UInt8[np.ndarray, "H W 3"]) -> None:
        """Encode one frame."""
        import av
        from av.video.reformatter import Interpolation

        if self.stream is None:
            self._start(image.shape[1], image.shape[0])
        if image.shape != (self.stream.height, self.stream.width, 3) or image.dtype != np.uint8:
            raise ShapeError(
                f"frame {self.count} is {image.dtype} {image.shape}, the video is "
                f"uint8 {(self.stream.height, self.stream.width, 3)}"
            )
        rgb = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
        frame = rgb.reformat(
            format="yuv420p",
            dst_colorspace=_ITU709,
            dst_color_range=1,
            interpolation=Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.BITEXACT,
            threads=1,
        )
        frame.pts, frame.time_base = self._pts(), _TIME_BASE
        self._mux(self.stream.encode(frame))
        self.count += 1

    def _mux(self, packets: list[Any]) -> None:
        for packet in packets:
            if self.audio:
                for audio in self.audio.until(float(packet.pts * packet.time_base)):
                    self.container.mux(audio)
            self.container.mux(packet)

    def finish(self) -> WrittenVideo:
        """Flush the encoder and the rest of the audio."""
        if self.stream is None:
            raise GeoError(f"{self.path}: a video without a single frame")
        if self.stamps is not None and self.count != len(self.stamps):
            raise TimeError(f"{self.path}: {self.count} frames for {len(self.stamps)} time stamps")
        end_s = (self._last_pts() + 1_000_000 / float(self.rate)) / 1e6
        self._mux(self.stream.encode(None))
        if self.audio:
            for audio in self.audio.until(end_s):
                self.container.mux(audio)
        self.container.close()
        return WrittenVideo(self.count, self.audio.copied if self.audio else 0)

    def _last_pts(self) -> int:
        self.count -= 1
        last = self._pts()
        self.count += 1
        return last


class _AudioCopy:
    """Packets of a container's first audio track, moved in time, handed out as the video proceeds."""

    def __init__(self, path: Path, offset_ns: int) -> None:
        import av

        try:
            self.container = av.open(os.fspath(path))
        except (av.FFmpegError, OSError) as error:
            raise RecordingError(f"audio of {path} cannot be opened: {error}") from error
        streams = self.container.streams
        self.stream = streams.audio[0] if streams.audio else None
        self.path = path
        self.copied = 0
        start = Fraction(0)
        if self.stream is not None:
            origin = streams.video[0] if streams.video else self.stream
            start = (origin.start_time or 0) * origin.time_base
        self.shift = start + Fraction(offset_ns, 1_000_000_000)
        self.packets = self._moved()
        self.waiting: Any = None

    def attach(self, container: Any) -> None:
        """Add the track to the output."""
        self.out = container.add_stream_from_template(self.stream)

    def _moved(self) -> Iterator[Any]:
        if self.stream is None:
            return
        for packet in self.container.demux(self.stream):
            if packet.pts is None or packet.dts is None:
                continue
            shift = round(self.shift / packet.time_base)
            if packet.pts + (packet.duration or 0) <= shift:
                continue
            packet.pts, packet.dts = packet.pts - shift, packet.dts - shift
            packet.stream = self.out
            yield packet

    def until(self, time_s: float) -> Iterator[Any]:
        """Packets that begin before a time of the output."""
        while True:
            packet = self.waiting if self.waiting is not None else next(self.packets, None)
            self.waiting = packet
            if packet is None or float(packet.pts * packet.time_base) >= time_s:
                return
            self.waiting = None
            self.copied += 1
            yield packet

    def close(self) -> None:
        """Let go of the file."""
        self.container.close()
