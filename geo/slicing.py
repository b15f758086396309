"""A part of a recording: from a second to a second, every n-th frame. Source frame numbers and clocks are kept."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float32, Int64

from geo.errors import RecordingError, TimeError
from geo.nearest import nearest_rows
from geo.recording import CameraStream, DepthSource, DepthStream, PickedFrames, Recording

NS = 1_000_000_000
_MAX_SECONDS = 9e9  # beyond, nanoseconds do not fit 64 bits


@dataclass(frozen=True)
class PickedDepth:
    """Some depth images of a source, in rising order."""

    source: DepthSource
    indices: Sequence[int]

    def __len__(self) -> int:
        return len(self.indices)

    def read(self, index: int) -> Float32[np.ndarray, "H W"]:
        """Depth of a picked image."""
        return self.source.read(self.indices[index])


def slice_recording(
    recording: Recording, start_s: float | None = None, end_s: float | None = None, every: int = 1
) -> Recording:
    """Keep frames with start_s <= t < end_s (seconds from the first frame), and of these every n-th.

    The other cameras are cut to the same span, and so are depth images; with ``every`` above 1 only the depth image
    nearest to each kept frame stays. Source frame numbers and the zero of the seconds stay those of the whole
    recording, so narrations keep their meaning.

    Raises:
        TimeError: numbers that make no sense. RecordingError: nothing is left.
    """
    if every < 1:
        raise TimeError(f"every = {every} must be at least 1")
    if start_s is not None and end_s is not None and end_s <= start_s:
        raise TimeError(f"end_s = {end_s} must come after start_s = {start_s}")
    if start_s is None and end_s is None and every == 1:
        return recording
    reference = recording.reference
    stamps, zero = reference.timestamps_ns, reference.start_ns()
    low = int(stamps[0]) if start_s is None else zero + nanoseconds_from_start(start_s, "start_s")
    high = int(stamps[-1]) + 1 if end_s is None else zero + nanoseconds_from_start(end_s, "end_s")
    kept = _inside(stamps, low, high)[::every]
    if not len(kept):
        length = (int(stamps[-1]) - zero) / NS
        raise RecordingError(
            f"{recording.recording_id}: no frame {_span_text(start_s, end_s)}; it is {length:.3f} s long"
        )
    depth = None if recording.depth is None else _sliced_depth(recording.depth, stamps[kept], every)
    others = [(stream, _inside(stream.timestamps_ns, low, high)[::every]) for stream in recording.others]
    return replace(
        recording,
        reference=_picked(reference, kept),
        depth=depth,
        others=tuple(_picked(stream, rows) for stream, rows in others if len(rows)),
    )


def nanoseconds_from_start(seconds: float | int, what: str) -> int:
    """Nanoseconds of a number of seconds that someone gave; ``what`` begins the message.

    Raises:
        TimeError: NaN, infinite, or too large for 64-bit nanoseconds.
    """
    if not abs(seconds) < _MAX_SECONDS:
        raise TimeError(f"{what} {seconds}: expected a number of seconds below {_MAX_SECONDS:.0e}")
    return round(seconds * NS)


def _inside(stamps: Int64[np.ndarray, "N"], low: int, high: int) -> Int64[np.ndarray, "K"]:
    return np.flatnonzero((stamps >= low) & (stamps < high))


def _span_text(start_s: float | None, end_s: float | None) -> str:
    parts = ["" if start_s is None else f"from {start_s} s on", "" if end_s is None else f"before {end_s} s"]
    return " and ".join(part for part in parts if part)


def _picked(stream: CameraStream, rows: Int64[np.ndarray, "K"]) -> CameraStream:
    stamps = stream.timestamps_ns
    return replace(
        stream,
        timestamps_ns=stamps[rows],
        frames=PickedFrames(stream.frames, rows.tolist()),
        audio_offset_ns=stream.audio_offset_ns + int(stamps[rows[0]] - stamps[0]),
        source_frames=stream.source_frame_numbers()[rows],
        source_start_ns=stream.start_ns(),
    )


def _sliced_depth(depth: DepthStream, kept_ns: Int64[np.ndarray, "K"], every: int) -> DepthStream | None:
    """Depth images that belong to the kept frames."""
    stamps = depth.timestamps_ns
    if not len(stamps):
        return None
    nearest = nearest_rows(stamps, kept_ns)
    picks = np.unique(nearest) if every > 1 else np.arange(int(nearest.min()), int(nearest.max()) + 1)
    return replace(depth, timestamps_ns=stamps[picks], frames=PickedDepth(depth.frames, picks.tolist()))
