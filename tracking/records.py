"""Records of tracking: narrations, masks through time, and the log of every judgement."""

import enum
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int64


@dataclass(frozen=True)
class Grounding:
    """A point that a narration puts on an object: in canonical pixels, on a canonical frame."""

    label: str
    frame: int
    point_xy_px: tuple[float, float]
    positive: bool = True


@dataclass(frozen=True)
class Narration:
    """What was said, when (device clock), and where it points."""

    narration_id: str
    start_ns: int
    end_ns: int
    text: str
    language: str
    groundings: tuple[Grounding, ...]


@dataclass(frozen=True)
class NarrationSet:
    """Narrations in stable time order, with what had to be left out and why."""

    narrations: tuple[Narration, ...]
    warnings: tuple[str, ...] = ()


class MaskState(enum.IntEnum):
    """What is known about an object in a frame."""

    UNKNOWN = 0  # not tracked here (before the seed, no picture, or the track was judged lost)
    VISIBLE = 1  # there is a mask
    ABSENT = 2  # believed out of view or fully hidden


@dataclass(frozen=True)
class Rle:
    """COCO run lengths (column-major, first run is background), uncompressed counts."""

    size_hw: tuple[int, int]
    counts: Int64[np.ndarray, "R"]


@dataclass(frozen=True)
class MaskTrack:
    """One object's masks. ``masks[i]`` is None unless ``states[i]`` is VISIBLE."""

    object_id: int
    label: str
    masks: tuple[Rle | None, ...]
    states: Int64[np.ndarray, "N"]
    scores: Float[np.ndarray, "N"]  # 0..1, NaN where there is no mask


class Outcome(enum.StrEnum):
    """Three-valued verdict of a judge."""

    CONSISTENT = "consistent"
    DRIFTED = "drifted"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Verdict:
    """One judgement on one object in one frame: who, what, why, on which evidence, and what was done."""

    object_id: int
    frame: int
    outcome: Outcome
    judge: str
    reason: str
    evidence: dict[str, float] = field(default_factory=dict)
    action: str = ""  # e.g. "re-initialised at frame 41 (failure localised to frame 33)"


@dataclass(frozen=True)
class TrackSet:
    """All tracks of a recording, at the size of its canonical view."""

    size_wh_px: tuple[int, int]
    timestamps_ns: Int64[np.ndarray, "N"]
    tracks: tuple[MaskTrack, ...]
    verdicts: tuple[Verdict, ...]
    tracker: str  # which tracker made them, e.g. "embedded"
    warnings: tuple[str, ...] = ()


def encode_rle(mask: Bool[np.ndarray, "H W"]) -> Rle:
    """COCO run lengths of a mask."""
    flat = np.asarray(mask, dtype=bool).ravel(order="F")
    edges = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    bounds = np.concatenate([[0], edges, [flat.size]])
    counts = np.diff(bounds)
    if flat.size and flat[0]:
        counts = np.concatenate([[0], counts])
    return Rle((int(mask.shape[0]), int(mask.shape[1])), counts.astype(np.int64))


def decode_rle(rle: Rle) -> Bool[np.ndarray, "H W"]:
    """Mask of COCO run lengths."""
    values = np.zeros(len(rle.counts), dtype=bool)
    values[1::2] = True
    return np.repeat(values, rle.counts).reshape(rle.size_hw, order="F")
