"""Captions of an episode: segments with actions, and the frames that they speak of.

A caption refers to frames in four forms, mixed even inside one record: a time stamp in nanoseconds as text or number
(the nearest frame), ``frame_0000021`` (counted from 1), a small whole number (counted from 1), or a frame's very name.
Here all of them are frame indices from 0.

These are texts with times and without points; ``tracking.narrations`` reads narrations.jsonl, so whoever joins the
rooms turns the one into the other.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from geo.errors import RecordingError, listed
from geo.readers.evidence import path_inside
from geo.readers.json_values import parsed_json
from geo.readers.schema import load_json
from geo.readers.xperience.calibration import ANNOTATION
from geo.readers.xperience.hdf5_values import Hdf5Values
from geo.readers.xperience.motion import read_names, read_stamps

_TIMESTAMP_FROM = 100_000_000  # whole numbers from here on are times, below they count frames
_TOLERANCE_NS = 1_000_000_000
_COUNTED = re.compile(r"frame_(\d{1,12})(?:\.[A-Za-z]{2,5})?", re.ASCII)
_DIGITS = re.compile(r"(\d{1,19})(?:\.[A-Za-z]{2,5})?", re.ASCII)
_KEYS = ("caption", "captions")
_LISTED = 5


@dataclass(frozen=True)
class FrameNames:
    """What is needed to find the frame that a caption means."""

    names: tuple[str, ...]
    timestamps_ns: Int64[np.ndarray, "N"]
    _rows: dict[str, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Names with and without their endings; the full names win."""
        for shorten in (False, True):
            for row, name in enumerate(self.names):
                self._rows.setdefault(name.rsplit(".", 1)[0] if shorten else name, row)

    def index(self, reference: object) -> int | None:
        """Index, from 0, of the frame that a reference means; None where it means none.

        Counted frames beyond the last are the last (captions are written for whole seconds, and end one past it);
        a time stamp more than a second away from every frame belongs to another recording.
        """
        if isinstance(reference, bool) or not isinstance(reference, str | int) or not self.names:
            return None
        text = str(reference).strip()
        if text in self._rows:
            return self._rows[text]
        counted, digits = _COUNTED.fullmatch(text), _DIGITS.fullmatch(text)
        if counted is None and digits is None:
            return None
        number = int(counted[1]) if counted else int(digits[1]) if digits else 0
        if counted or number < _TIMESTAMP_FROM:
            return min(max(number - 1, 0), len(self.names) - 1)
        right = int(np.searchsorted(self.timestamps_ns, number)) if number < 2**63 else len(self.names)
        around = [row for row in (right - 1, right) if 0 <= row < len(self.names)]
        nearest = min(around, key=lambda row: abs(int(self.timestamps_ns[row]) - number))
        return nearest if abs(int(self.timestamps_ns[nearest]) - number) <= _TOLERANCE_NS else None


@dataclass(frozen=True)
class CaptionAction:
    """One action of a segment; frames are indices from 0, both ends included, None where they could not be found."""

    label: str
    description: str
    first_frame: int | None
    last_frame: int | None


@dataclass(frozen=True)
class CaptionSegment:
    """One segment; frames are indices from 0, both ends included, None where they could not be found."""

    segment_id: str
    task: str
    first_frame: int | None
    last_frame: int | None
    start_ns: int | None
    end_ns: int | None
    actions: tuple[CaptionAction, ...]
    objects: dict[int, tuple[str, ...]]  # frame -> names of things
    interactions: dict[int, str]  # frame -> what the hands do


@dataclass(frozen=True)
class Captions:
    """All captions of an episode."""

    main_task: str
    summary: str
    segments: tuple[CaptionSegment, ...]


def read_captions(folder: Path, warnings: list[str]) -> Captions:
    """Captions of an episode folder, from the text in ``annotation.hdf5`` or the JSON file that this text names.

    Args:
        folder: The folder that holds ``annotation.hdf5``.
        warnings: References to frames that could not be found are added here.

    Raises:
        RecordingError: unreadable, no caption, no JSON, or JSON of another form; a file outside the folder.
        TimeError: the frames have no times.
    """
    with Hdf5Values(folder / ANNOTATION) as file:
        key = next((key for key in _KEYS if file.has(key)), None)
        if key is None:
            raise RecordingError(f"{file.path} has no caption: nothing was said about this episode")
        text = file.texts(key)[0].strip()
        names = read_names(file)
        frames = FrameNames(tuple(names), read_stamps(file, names, warnings))
        where = f"{file.path}: {key}"
    return captions_from(_json(folder, text, where), frames, where, warnings)


def _json(folder: Path, text: str, where: str) -> Any:
    """The JSON itself, or that of the file which the text names."""
    if not text:
        raise RecordingError(f"{where} is empty: nothing was said about this episode")
    if not text.startswith(("{", "[")):
        try:
            return load_json(path_inside(folder, text[:1024], f"{where}, the caption file"))
        except RecordingError:
            raise
        except (OSError, ValueError) as error:  # too long, or no text that a file system takes
            raise RecordingError(f"{where} = {text[:60]!a} is neither JSON nor a file's name: {error}") from error
    return parsed_json(text, where)


def captions_from(data: Any, frames: FrameNames, where: str, warnings: list[str]) -> Captions:
    """Captions of parsed JSON.

    Raises:
        RecordingError: another form; the place is named.
    """
    lost: list[str] = []
    root = _table(data, where)
    segments = tuple(
        _segment(_table(entry, f"{where}.segments[{i}]"), f"{where}.segments[{i}]", frames, lost)
        for i, entry in enumerate(_list(root, "segments", where))
    )
    if lost:
        named = listed(lost, _LISTED)
        warnings.append(f"captions: {len(lost)} references name no frame of this recording: {named}")
    config = _table(root.get("config") or {}, f"{where}.config")
    return Captions(_text(config, "Main Task"), _text(root, "global_summary"), segments)


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RecordingError(f"{where} must be a JSON object, got {_brief(value)}")
    return value


def _list(table: dict[str, Any], key: str, where: str) -> list[Any]:
    value = table.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise RecordingError(f"{where}.{key} must be a list, got {_brief(value)}")
    return value


def _text(table: dict[str, Any], key: str) -> str:
    value = table.get(key)
    return value.strip() if isinstance(value, str) else "" if value is None else _brief(value)


def _brief(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _found(reference: Any, frames: FrameNames, lost: list[str]) -> int | None:
    """Index of a reference; what is given and means nothing is noted."""
    if reference is None:
        return None
    index = frames.index(reference)
    if index is None:
        lost.append(_brief(reference))
    return index


def _ends(table: dict[str, Any], frames: FrameNames, lost: list[str]) -> tuple[int | None, int | None]:
    """First and last frame; a name has precedence over a number, and ends that are exchanged are put right."""
    first, last = (
        _found(table.get(f"{end}_frame_name") or table.get(f"{end}_frame"), frames, lost) for end in ("start", "end")
    )
    return (last, first) if first is not None and last is not None and last < first else (first, last)


def _segment(table: dict[str, Any], where: str, frames: FrameNames, lost: list[str]) -> CaptionSegment:
    first, last = _ends(table, frames, lost)
    actions = []
    for i, entry in enumerate(_list(table, "Current Action", where)):
        action = _table(entry, f"{where}['Current Action'][{i}]")
        actions.append(
            CaptionAction(_text(action, "label"), _text(action, "description"), *_ends(action, frames, lost))
        )
    objects: dict[int, tuple[str, ...]] = {}
    for reference, names in _table(table.get("objects") or {}, f"{where}.objects").items():
        row = _found(reference, frames, lost)
        if row is not None and isinstance(names, list):
            objects[row] = (*objects.get(row, ()), *(str(name) for name in names))
    interactions: dict[int, str] = {}
    for reference, said in _table(table.get("interaction") or {}, f"{where}.interaction").items():
        row = _found(reference, frames, lost)
        if row is not None and isinstance(said, str):
            interactions[row] = said.strip()
    stamps = frames.timestamps_ns
    return CaptionSegment(
        segment_id=_brief(table.get("segment_id")).strip("'"),
        task=_text(table, "Sub Task"),
        first_frame=first,
        last_frame=last,
        start_ns=None if first is None else int(stamps[first]),
        end_ns=None if last is None else int(stamps[last]),
        actions=tuple(actions),
        objects=objects,
        interactions=interactions,
    )
