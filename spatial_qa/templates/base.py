"""What a template is, and what all templates share: who may be asked about, when, and in which window."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spatial_qa.angles import elevation_deg
from spatial_qa.hashing import shuffled
from spatial_qa.motion import moved_objects, rest_at
from spatial_qa.operations.order import min_pixels
from spatial_qa.options import OptionMaker, the
from spatial_qa.records import Refusal
from spatial_qa.view import NotMeasurable, SceneView

NS = 1_000_000_000
MAX_PITCH_DEG = 60.0


@dataclass(frozen=True)
class Limits:
    """What templates may ask about; part of `AskConfig`."""

    max_window_s: float = 15.0
    """Longest evidence window."""
    pad_window_s: float = 0.5
    """A window reaches this far beyond the frames that it needs."""
    min_visible_px: int = 300
    """Mask size from which an object counts as visible, for pictures of 1024 x 1024 pixels."""
    guard_s: float = 0.5
    """An object asked about as lying still does so for this long before and after."""
    time_step_s: float = 1.0
    """Moments asked about are this far apart."""
    max_moments: int = 24
    ask_motion_only_if_moved: bool = True
    """Where nothing was relocated, no question speaks of motion, not even of the wearer's."""


@dataclass(frozen=True)
class Candidate:
    """A question that could be asked, before its answer is computed."""

    operation: str
    operands: dict[str, Any]
    text: str
    subjects: tuple[int, ...]  # object ids, for balance
    windows_ns: tuple[tuple[int, int], ...]
    options: OptionMaker


Candidates = Iterator[Candidate]


@dataclass(frozen=True)
class Template:
    """A kind of question."""

    name: str
    track: str
    subtrack: str
    candidates: Callable[["Stage"], Candidates]
    needs_up: bool = False
    needs_scale: bool = False
    speaks_of_motion: bool = False
    needs_gaze: bool = False


TEMPLATES: dict[str, Template] = {}


def template(
    name: str, subtrack: str, track: str = "SR", **needs: bool
) -> Callable[[Callable[["Stage"], Candidates]], Callable[["Stage"], Candidates]]:
    """Register a generator of candidates as a template of the catalogue."""

    def register(candidates: Callable[["Stage"], Candidates]) -> Callable[["Stage"], Candidates]:
        if name in TEMPLATES:
            raise ValueError(f"template {name} is defined twice")
        TEMPLATES[name] = Template(name, track, subtrack, candidates, **needs)
        return candidates

    return register


@dataclass
class Stage:
    """A scene as templates see it. Look-ups are cached; nothing is changed after it is made."""

    view: SceneView
    limits: Limits
    refusals: list[Refusal] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.labels: dict[int, str] = referring_labels({i: t.label for i, t in self.view.objects.items()})
        self.moved: list[int] = moved_objects(self.view)
        self._seen: dict[int, np.ndarray] = {}
        self._still: dict[int, list[int]] = {}
        self._moments: list[int] | None = None
        self._sights: dict[tuple[int, int], int | None] = {}

    # -- moments ---------------------------------------------------------------------------------------------

    def moments(self) -> list[int]:
        """Time stamps of frames with a pose, evenly spread, nowhere near the ends."""
        if self._moments is None:
            self._moments = self._find_moments()
        return self._moments

    def _find_moments(self) -> list[int]:
        stamps = self.view.scene.timestamps_ns
        first, last = int(stamps[0]) + NS // 2, int(stamps[-1]) - NS // 2
        step = max(self.limits.time_step_s, (last - first) / NS / self.limits.max_moments)
        wanted = np.arange(first, last + 1, max(1, int(step * NS)))
        frames = dict.fromkeys(self.view.frame(int(time)) for time in wanted)
        return [int(stamps[frame]) for frame in frames if self.view.posed[frame]]

    def heads_at(self, time_ns: int) -> bool:
        """True if the wearer's heading is clear: the camera does not look steeply up or down."""
        forward = self.view.viewer(time_ns).forward.value
        return self.view.scene.world.has_up and abs(float(elevation_deg(forward, self.view.up.value))) <= MAX_PITCH_DEG

    def say(self, time_ns: int) -> str:
        """A moment in words."""
        return f"{self.view.seconds(time_ns):.1f} s"

    # -- objects ---------------------------------------------------------------------------------------------

    def name(self, object_id: int) -> str:
        """An object with its article."""
        return the(self.labels[object_id])

    def names(self, ids: Sequence[int]) -> str:
        """A list in words."""
        words = [self.name(i) for i in ids]
        return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else words[0]

    def label_list(self, ids: Sequence[int]) -> list[str]:
        """Labels of candidates, for the certificate."""
        return [self.labels[i] for i in ids]

    def seen_ns(self, object_id: int) -> np.ndarray:
        """Moments at which an object is visible, large enough."""
        if object_id not in self._seen:
            track = self.view.trajectory(object_id)
            large = track.visible_pixels >= min_pixels(self.view, self.limits.min_visible_px)
            self._seen[object_id] = track.timestamps_ns[large]
        return self._seen[object_id]

    def still_at(self, time_ns: int) -> list[int]:
        """Objects of unique label that lie still around a moment and are seen where they lie."""
        if time_ns not in self._still:
            self._still[time_ns] = [i for i in self.labels if self.sight_of(i, time_ns) is not None]
        return self._still[time_ns]

    def sight_of(self, object_id: int, time_ns: int) -> int | None:
        """The moment nearest to a time at which an object is visible in the rest that holds the time."""
        key = (object_id, time_ns)
        if key not in self._sights:
            self._sights[key] = self._sight_of(object_id, time_ns)
        return self._sights[key]

    def _sight_of(self, object_id: int, time_ns: int) -> int | None:
        guard = int(self.limits.guard_s * NS)
        try:
            rest = rest_at(self.view, object_id, time_ns, guard)
            self.view.body(object_id, time_ns)
        except NotMeasurable:
            return None
        if rest is None:
            return None
        seen = self.seen_ns(object_id)
        seen = seen[(seen >= rest.start_ns) & (seen <= rest.end_ns)]
        return int(seen[np.argmin(np.abs(seen - time_ns))]) if len(seen) else None

    def visible_at(self, object_id: int, time_ns: int) -> bool:
        """True if an object is visible in the frame of a moment."""
        try:
            row = self.view.row(object_id, time_ns)
        except NotMeasurable:
            return False
        pixels = int(self.view.trajectory(object_id).visible_pixels[row])
        return pixels >= min_pixels(self.view, self.limits.min_visible_px)

    # -- windows ---------------------------------------------------------------------------------------------

    def window(self, ids: Sequence[int], *times_ns: int) -> tuple[tuple[int, int], ...] | None:
        """The evidence window: from the nearest sight of every object to the moments asked about; None if too long."""
        moments = list(times_ns)
        for object_id in ids:
            sights = [self.sight_of(object_id, time) for time in times_ns]
            found = [sight for sight in sights if sight is not None]
            if not found:
                return None
            moments.append(min(found, key=lambda sight: min(abs(sight - time) for time in times_ns)))
        return self.span(min(moments), max(moments))

    def span(self, start_ns: int, end_ns: int, limit: bool = True) -> tuple[tuple[int, int], ...] | None:
        """A padded window, cut to the recording."""
        pad = int(self.limits.pad_window_s * NS)
        stamps = self.view.scene.timestamps_ns
        window = (max(start_ns - pad, int(stamps[0])), min(end_ns + pad, int(stamps[-1])))
        too_long = limit and window[1] - window[0] > self.limits.max_window_s * NS + 2 * pad
        return None if too_long else (window,)


def referring_labels(labels: Mapping[int, str]) -> dict[int, str]:
    """What each object is called, so that the words point at it alone; objects that no words single out are left out.

    Where one label goes on where another ends ("red mug", "red mug with a spot"), the shorter one says which it is
    not. A label whose words are all in another one in any other way ("mug", "red mug") points at nothing.
    """
    words = {i: label.lower().split() for i, label in labels.items()}
    found: dict[int, str] = {}
    for i in sorted(labels):
        wider = [j for j in sorted(labels) if j != i and set(words[i]) <= set(words[j])]
        begins = [*words[i], "with"]
        longer = [j for j in wider if words[j][: len(begins)] == begins]
        if not words[i] or len(wider) > len(longer) or len(longer) > 1:
            continue
        rest = " ".join(labels[longer[0]].split()[len(words[i]) :]) if longer else ""
        found[i] = f"{labels[i]} (not the one {rest})" if rest else labels[i].strip()
    return found


def subsets(items: Sequence[int], size: int, key: Any, limit: int) -> list[tuple[int, ...]]:
    """Up to ``limit`` subsets, chosen and ordered by hash; all of them where there are few."""
    found = list(itertools.islice(itertools.combinations(items, size), 5000))
    return [tuple(shuffled(subset, "members", key)) for subset in shuffled(found, "subsets", key)[:limit]]


def pairs_of(items: Sequence[int]) -> list[tuple[int, int]]:
    """All unordered pairs."""
    return list(itertools.combinations(items, 2))


def refused(
    name: str,
    reason: str,
    operands: Mapping[str, Any] | None = None,
    measured: float = float("nan"),
    required: float = float("nan"),
) -> Refusal:
    """A refusal."""
    return Refusal(name, reason, dict(operands or {}), float(measured), float(required))
