"""Reading narrations.jsonl: spoken sentences with points on objects, brought to canonical frames and pixels."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geo.nearest import nearest_row
from geo.recording import CanonicalRecording
from geo.view import source_to_canonical
from tracking.errors import TrackingError
from tracking.records import Grounding, Narration, NarrationSet

STAMP_WINDOW_S = 1.0
"""Half width of the window of a narration that carries one stamp instead of a start and an end."""


@dataclass(frozen=True)
class _Clock:
    """Frame times of the recording, and how far they reach."""

    stamps_ns: np.ndarray
    period_ns: int

    @property
    def start_ns(self) -> int:
        return int(self.stamps_ns[0])

    @property
    def end_ns(self) -> int:
        return int(self.stamps_ns[-1]) + self.period_ns

    def frame_at(self, timestamp_ns: int) -> int | None:
        """Nearest frame, None if further away than one frame period."""
        return nearest_row(self.stamps_ns, timestamp_ns, self.period_ns)


def read_narrations(path: Path, canonical: CanonicalRecording) -> NarrationSet:
    """Read a narrations file against a recording.

    Seconds count from the recording's first frame. Narrations come out in stable order of their start. What
    cannot be used is left out and named in ``warnings``: sentences outside the recording's time (never clamped
    into it), points outside the picture or its valid part, frames that do not exist. Sentences that reach over
    the recording's ends are cut to it; one with a start alone gets a window of ``STAMP_WINDOW_S`` around it.

    Raises:
        TrackingError: if the file is missing or a line is not a narration; the text names the line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TrackingError(f"narrations file {path} cannot be read: {error}") from error
    clock = _clock_of(canonical)
    warnings: list[str] = []
    found: list[tuple[float, Narration]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            entry = _parse_line(path, number, line)
            narration = _narration(path, number, entry, clock, canonical, warnings)
            if narration is not None:
                found.append((float(entry["start_s"]), narration))
    found.sort(key=lambda pair: pair[0])
    if not found:
        warnings.append(f"{path.name} holds no narration that can be used: nothing will be tracked")
    return NarrationSet(tuple(narration for _, narration in found), tuple(warnings))


def _clock_of(canonical: CanonicalRecording) -> _Clock:
    stamps = np.asarray(canonical.timestamps_ns, np.int64)
    if len(stamps) == 0:
        raise TrackingError(f"recording {canonical.recording_id} has no frames, so no narration can point at one")
    period = int(np.median(np.diff(stamps))) if len(stamps) > 1 else 100_000_000
    return _Clock(stamps, period)


def _parse_line(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise TrackingError(f"{path} line {number} is not JSON ({error.msg} at column {error.colno})") from error
    if not isinstance(entry, dict):
        raise TrackingError(f"{path} line {number} is not a JSON object with start_s, end_s, text and groundings")
    start = _number(path, number, entry, "start_s", required=True)
    end = _number(path, number, entry, "end_s", required=False)
    groundings = entry.get("groundings", [])
    if not isinstance(groundings, list) or not all(isinstance(item, dict) for item in groundings):
        raise TrackingError(f"{path} line {number}: groundings must be a list of objects")
    if not isinstance(entry.get("text", ""), str):
        raise TrackingError(f"{path} line {number}: text must be a string")
    return {**entry, "start_s": start, "end_s": end, "groundings": groundings}


def _number(path: Path, number: int, entry: dict[str, Any], key: str, required: bool) -> float | None:
    value = entry.get(key)
    if value is None and not required:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TrackingError(f"{path} line {number}: {key} must be a finite number of seconds, got {value!r}")
    return float(value)


def _narration(
    path: Path, number: int, entry: dict[str, Any], clock: _Clock, canonical: CanonicalRecording, warnings: list[str]
) -> Narration | None:
    name = str(entry.get("id", f"line{number}"))
    window = _window(entry["start_s"], entry["end_s"], clock, name, warnings)
    if window is None:
        return None
    groundings = []
    for item in entry["groundings"]:
        grounding = _grounding(path, number, name, item, clock, canonical, warnings)
        if grounding is not None:
            groundings.append(grounding)
    return Narration(name, *window, str(entry.get("text", "")), str(entry.get("language", "und")), tuple(groundings))


def _window(
    start_s: float, end_s: float | None, clock: _Clock, name: str, warnings: list[str]
) -> tuple[int, int] | None:
    start = clock.start_ns + round(start_s * 1e9)
    if end_s is not None and end_s < start_s:
        if not clock.start_ns <= start <= clock.end_ns:
            warnings.append(_outside(name, start_s, clock))
            return None
        warnings.append(f"narration {name}: ends at {end_s} s before it starts at {start_s} s; its start alone is used")
        end_s = None
    if end_s is None:
        if not clock.start_ns <= start <= clock.end_ns:
            warnings.append(_outside(name, start_s, clock))
            return None
        half = round(STAMP_WINDOW_S * 1e9)
        return max(clock.start_ns, start - half), min(clock.end_ns, start + half)
    end = clock.start_ns + round(end_s * 1e9)
    if start > clock.end_ns or end < clock.start_ns:
        warnings.append(_outside(name, start_s, clock))
        return None
    return max(clock.start_ns, start), min(clock.end_ns, end)


def _outside(name: str, start_s: float, clock: _Clock) -> str:
    length = (clock.end_ns - clock.start_ns) / 1e9
    return f"narration {name} at {start_s} s lies outside the recording (0 to {length:.3f} s) and is left out"


def _grounding(
    path: Path,
    number: int,
    name: str,
    item: dict[str, Any],
    clock: _Clock,
    canonical: CanonicalRecording,
    warnings: list[str],
) -> Grounding | None:
    label = item.get("object")
    if not isinstance(label, str) or not label.strip():
        raise TrackingError(f"{path} line {number}: a grounding needs the name of its object, got {label!r}")
    label = label.strip()
    point = _point(path, number, label, item)
    frame = _frame(path, number, label, item, clock, canonical)
    where = f"narration {name}, object {label!r}"
    if frame is None:
        asked = item.get("frame", item.get("timestamp_ns"))
        numbers = canonical.source_frames
        last = len(clock.stamps_ns) - 1 if numbers is None else int(numbers[-1])
        warnings.append(f"{where}: frame {asked} is not in the recording (0 to {last}); left out")
        return None
    view = item.get("view", "canonical")
    if view not in ("canonical", "source"):
        raise TrackingError(f"{path} line {number}: view must be 'canonical' or 'source', got {view!r}")
    positive = item.get("label", 1)
    if positive not in (0, 1):
        raise TrackingError(f"{path} line {number}: label must be 1 (on the object) or 0 (not on it), got {positive!r}")
    mapped = _canonical_point(canonical, point, view)
    if mapped is None:
        warnings.append(f"{where}, frame {frame}: {view} point {list(point)} lies outside the canonical view; left out")
        return None
    return Grounding(label, frame, mapped, bool(positive))


def _point(path: Path, number: int, label: str, item: dict[str, Any]) -> tuple[float, float]:
    point = item.get("point_xy")
    if (
        not isinstance(point, list)
        or len(point) != 2
        or not all(
            isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) for value in point
        )
    ):
        raise TrackingError(
            f"{path} line {number}: object {label!r} needs point_xy as two finite numbers, got {point!r}"
        )
    return float(point[0]), float(point[1])


def _frame(
    path: Path, number: int, label: str, item: dict[str, Any], clock: _Clock, canonical: CanonicalRecording
) -> int | None:
    """Index among the frames that are there. ``frame`` counts the source's own list, with those that are missing."""
    for key in ("frame", "timestamp_ns"):
        if key in item:
            value = item[key]
            if isinstance(value, bool) or not isinstance(value, int):
                raise TrackingError(f"{path} line {number}: {key} of object {label!r} must be whole, got {value!r}")
            return canonical.frame_of_source(value) if key == "frame" else clock.frame_at(value)
    raise TrackingError(f"{path} line {number}: object {label!r} needs a frame or a timestamp_ns")


def _canonical_point(
    canonical: CanonicalRecording, point_xy: tuple[float, float], view: str
) -> tuple[float, float] | None:
    """The point in canonical pixels; None outside the picture or where the picture shows nothing."""
    pixel = np.array([point_xy], dtype=np.float64)
    if view == "source":
        projection = source_to_canonical(canonical, pixel)
        if not (projection.valid[0] and canonical.source_camera.in_image(pixel)[0]):
            return None
        pixel = projection.pixels_xy
    if not canonical.camera.in_image(pixel)[0]:
        return None
    width, height = canonical.camera.size_wh_px
    u, v = np.rint(pixel[0]).astype(int).clip(0, [width - 1, height - 1])
    return (float(pixel[0, 0]), float(pixel[0, 1])) if canonical.valid_mask[v, u] else None
