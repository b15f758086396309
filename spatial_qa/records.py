"""Records of questions: a question is a record that can prove its answer, not a sentence."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from geo.recording import GazeTrack
from geo.world import World
from lifting.records import Lifted

OPTION_COUNT = 8
LETTERS = "ABCDEFGH"


@dataclass(frozen=True)
class QuestionScene:
    """All that questions may be asked about: exactly what a finished folder stores, so that `verify` can replay."""

    recording_id: str
    timestamps_ns: Int64[np.ndarray, "N"]
    world_from_camera: Float[np.ndarray, "N 4 4"]  # NaN where no pose is known
    image_size_wh_px: tuple[int, int]
    camera_matrix: Float[np.ndarray, "3 3"]
    world: World
    lifted: Lifted
    gaze: GazeTrack | None = None


@dataclass(frozen=True)
class Option:
    """One of eight options; for a wrong one, where it comes from."""

    text: str
    value: Any  # JSON-able, what the text says (label, sector index, number, list of labels)
    origin: str  # "key", or e.g. "true elsewhere: sector at another time"


@dataclass(frozen=True)
class Certificate:
    """Enough to recompute the answer from the trajectories alone."""

    operation: str  # name of the registered computation
    operands: dict[str, Any]  # object ids, time stamps in ns, radii ...
    value: Any
    sigma: float
    margin: float  # how far the quantity is from where the answer would change, same unit as sigma
    required_margin: float


@dataclass(frozen=True)
class Question:
    """One multiple-choice question with its proof."""

    qa_id: str
    template: str
    track: str  # AC, PG, PD or SR
    subtrack: str
    recording_id: str
    windows_ns: tuple[tuple[int, int], ...]
    windows_frames: tuple[tuple[int, int], ...]
    operands: dict[str, Any]
    text: str
    options: tuple[Option, ...]
    key: str  # a letter
    certificate: Certificate
    verified_by: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Refusal:
    """A question that was not asked, and why."""

    template: str
    reason: str  # stable code, e.g. "margin_not_met"
    operands: dict[str, Any]
    measured: float = float("nan")
    required: float = float("nan")


@dataclass(frozen=True)
class QuestionSet:
    """Questions of a recording with everything that was refused."""

    questions: tuple[Question, ...]
    refusals: tuple[Refusal, ...]
