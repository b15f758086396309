"""Depth from a folder: one file a frame, matched by the number in its name, never by its place in a list."""

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from geo.cameras import PinholeCamera
from geo.nearest import nearest_row
from geo.recording import CanonicalRecording
from recon.depth_sources.files import read_depth_file
from recon.depth_sources.records import DepthKind, DepthPrediction
from recon.errors import ReconError

_ENDINGS = (".npz", ".npy", ".png", ".exr")
_STAMPS_FROM = 10**12  # numbers in names above this are nanoseconds rather than frames


@dataclass(frozen=True)
class FolderLayout:
    """How a folder of depth is to be read; nothing of it is guessed."""

    path: Path
    kind: DepthKind
    unit_m: float | None = None
    """Metres of one count; needed for whole numbers of metric depth. Floats are metres."""
    names: str = "frame"
    """"frame": names end in the frame number of the recording; "timestamp_ns": in its time."""
    first: int = 0
    """Number in the name of the recording's first frame (1 where files count from 1)."""
    pattern: str = "*"
    """Which files of the folder, e.g. "*.npy"; files of other endings are never taken."""
    camera: PinholeCamera | None = None
    """Camera of the depth images if they are no resized pictures; same place and axes as the canonical camera."""
    tolerance_ms: float = 60.0
    """A file named by time belongs to a frame within this, and within half the frames' step."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.names not in ("frame", "timestamp_ns"):
            raise ReconError(f"names of depth files: {self.names!r}; use frame or timestamp_ns")
        if self.unit_m is not None and not (np.isfinite(self.unit_m) and self.unit_m > 0):
            raise ReconError(f"unit of depth files: {self.unit_m}; expected metres of one count, e.g. 0.001")


class FolderDepth:
    """Predictions by frame of a recording; a file is read when its frame is asked for."""

    def __init__(self, layout: FolderLayout, canonical: CanonicalRecording) -> None:
        """Match the files with the frames.

        Raises:
            ReconError: no such folder, no depth file in it, names without a number, two files for one frame, numbers or
                times that are not those of the recording.
        """
        self.layout = layout
        self._camera = canonical.camera
        self._numbers = numbered_files(layout)
        by_name = layout.names == "frame"
        self._files = _by_number(self._numbers, layout, canonical) if by_name else self._by_time(canonical)
        self.missing = len(canonical.timestamps_ns) - len(self._files)

    def has(self, frame: int) -> bool:
        """Whether a file belongs to a frame."""
        return frame in self._files

    def name(self, frame: int) -> str:
        """The file of a frame."""
        return f"depth file {self._files[frame]}"

    def prediction(self, frame: int) -> DepthPrediction:
        """Read the file of a frame.

        Raises:
            ReconError: the frame has none; it cannot be read; whole numbers of metric depth without a unit.
        """
        if frame not in self._files:
            raise ReconError(f"{self.layout.path}: no depth file for frame {frame}")
        path = self._files[frame]
        raw = read_depth_file(path)
        prediction = DepthPrediction(raw.values, self.layout.kind, raw.sigma, self.layout.camera)
        return self._in_metres(prediction, path) if self.layout.kind is DepthKind.METRIC else prediction

    def _in_metres(self, prediction: DepthPrediction, path: Path) -> DepthPrediction:
        """Values and sigma times the unit; the highest count of 16-bit images is none."""
        if prediction.values.dtype.kind in "iu" and self.layout.unit_m is None:
            raise ReconError(
                f"{path}: holds whole numbers; state the metres of one count (depth.folder_unit_m=0.001: millimetres)"
            )
        if prediction.values.dtype == np.uint8:
            raise ReconError(
                f"{path}: 8 bits are a picture of depth, not metric depth; give 16-bit PNG, npz, npy or exr"
            )
        unit = self.layout.unit_m or 1.0
        values = prediction.values.astype(np.float64) * unit
        if prediction.values.dtype == np.uint16:
            values[prediction.values == 65535] = np.nan
        sigma = prediction.sigma
        error = None if sigma is None else np.asarray(sigma, dtype=np.float64) * unit
        return replace(prediction, values=values, sigma=error)

    def _by_time(self, canonical: CanonicalRecording) -> dict[int, Path]:
        stamps = np.array(sorted(self._numbers), dtype=np.int64)
        times = canonical.timestamps_ns
        step_ns = float(np.median(np.diff(times))) if len(times) > 1 else np.inf
        tolerance_ns = int(min(self.layout.tolerance_ms * 1e6, step_ns / 2))
        found: dict[int, Path] = {}
        for frame, time_ns in enumerate(times.tolist()):
            row = nearest_row(stamps, time_ns, tolerance_ns)
            if row is not None:
                found[frame] = self._numbers[int(stamps[row])]
        if not found:
            raise ReconError(
                f"{self.layout.path}: no file is within {tolerance_ns / 1e6:g} ms of a frame of "
                f"{canonical.recording_id}; names say {stamps[0]} to {stamps[-1]} ns, frames are "
                f"{times[0]} to {times[-1]} ns"
            )
        return found

    @cached_property
    def input_files(self) -> tuple[Path, ...]:
        """Every file that was matched or could have been, by number."""
        return tuple(self._numbers[number] for number in sorted(self._numbers))


def numbered_files(layout: FolderLayout) -> dict[int, Path]:
    """The folder's depth files by the last number in their names.

    Raises:
        ReconError: no such folder, no depth file, a name without a number, two files with one number.
    """
    if not layout.path.is_dir():
        raise ReconError(f"{layout.path}: no such folder of depth files")
    files = [
        path
        for path in sorted(layout.path.iterdir())
        if path.suffix.lower() in _ENDINGS and fnmatch.fnmatch(path.name, layout.pattern) and path.is_file()
    ]
    if not files:
        raise ReconError(
            f"{layout.path}: no file {layout.pattern!r} that ends in {', '.join(_ENDINGS)}; one depth image a frame is "
            "expected"
        )
    numbered: dict[int, Path] = {}
    for path in files:
        digits = re.findall(r"\d+", path.stem)
        if not digits:
            raise ReconError(f"{path}: its name has no number, so it belongs to no frame; see depth.folder_pattern")
        number = int(digits[-1])
        if number in numbered:
            raise ReconError(
                f"{layout.path}: {numbered[number].name} and {path.name} have the same number {number}; choose by "
                "depth.folder_pattern, e.g. '*.npy'"
            )
        numbered[number] = path
    return numbered


def _by_number(numbers: Mapping[int, Path], layout: FolderLayout, canonical: CanonicalRecording) -> dict[int, Path]:
    """Files of the frames; of a recording that was cut, files of frames that were left out are passed over."""
    count = len(canonical.timestamps_ns)
    cut = canonical.source_frames is not None
    source_frames: Int64[np.ndarray, "N"] = (
        np.arange(count) if canonical.source_frames is None else canonical.source_frames
    )
    wanted = {int(source): frame for frame, source in enumerate(source_frames)}
    found = {wanted[n - layout.first]: path for n, path in numbers.items() if n - layout.first in wanted}
    strange = [n for n in sorted(numbers) if n - layout.first not in wanted]
    if not found or (strange and not cut) or (strange and strange[0] < layout.first):
        low, high = min(numbers), max(numbers)
        hint = "Files that count from 1: depth.folder_first=1."
        if high > _STAMPS_FROM:
            hint = "Names with times: depth.folder_names=timestamp_ns."
        raise ReconError(
            f"{layout.path}: files are numbered {low} to {high}, frames of {canonical.recording_id} "
            f"{int(source_frames[0]) + layout.first} to {int(source_frames[-1]) + layout.first}: "
            f"{numbers[strange[0]].name} belongs to none. {hint}"
        )
    return found
