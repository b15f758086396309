"""Which frames of a recording are taken: ``--start``, ``--end``, ``--every``."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int64

from egospatial.errors import FrontDoorError
from geo.recording import CanonicalRecording, PickedFrames
from geo.slicing import nanoseconds_from_start
from tracking.records import Grounding, Narration, NarrationSet


@dataclass(frozen=True)
class Selection:
    """Seconds count from the first frame; ``end_s`` is not included; every ``every``-th frame from the start."""

    start_s: float | None = None
    end_s: float | None = None
    every: int = 1

    def __post_init__(self) -> None:
        """Refuse what selects nothing whatever the recording.

        Raises:
            FrontDoorError: ``every`` below 1, or an end before the start. TimeError: seconds that are no number.
        """
        if self.every < 1:
            raise FrontDoorError(f"--every {self.every}: expected 1 or more.")
        for option, seconds in (("--start", self.start_s), ("--end", self.end_s)):
            if seconds is not None:
                nanoseconds_from_start(seconds, option)
        if self.start_s is not None and self.end_s is not None and self.end_s <= self.start_s:
            raise FrontDoorError(f"--start {self.start_s} --end {self.end_s}: the end has to come after the start.")

    def _text(self) -> str:
        given = (("--start", self.start_s), ("--end", self.end_s), ("--every", self.every if self.every > 1 else None))
        return " ".join(f"{option} {value}" for option, value in given if value is not None)

    @property
    def takes_all(self) -> bool:
        """True if nothing is left out."""
        return self.start_s is None and self.end_s is None and self.every == 1

    def frames(self, timestamps_ns: Int64[np.ndarray, "N"], grounded: Sequence[int] = ()) -> Sequence[int]:
        """Indices of the frames taken.

        Args:
            timestamps_ns: Of all frames.
            grounded: Frames that carry a grounding point: taken even where ``every`` would skip them, because a
                point belongs to its own frame and to no neighbour.

        Raises:
            FrontDoorError: nothing is left; says how long the recording is.
        """
        if self.takes_all and len(timestamps_ns):
            return range(len(timestamps_ns))
        first = int(timestamps_ns[0]) if len(timestamps_ns) else 0
        start_ns = first + nanoseconds_from_start(self.start_s or 0.0, "--start")
        inside = timestamps_ns >= start_ns
        if self.end_s is not None:
            inside &= timestamps_ns < first + nanoseconds_from_start(self.end_s, "--end")
        indices = np.flatnonzero(inside)
        kept = set(indices[:: self.every].tolist()) | (set(grounded) & set(indices.tolist()))
        if not kept:
            length_s = (int(timestamps_ns[-1]) - first) / 1e9 if len(timestamps_ns) else 0.0
            raise FrontDoorError(
                f"{self._text()} leaves no frame; the recording has {len(timestamps_ns)} frames over {length_s:.2f} s."
            )
        return tuple(sorted(kept))


def select_canonical(canonical: CanonicalRecording, frames: Sequence[int]) -> CanonicalRecording:
    """The canonical recording with only these frames; sensor, gaze and hands keep their own clocks whole."""
    rows = np.asarray(frames, dtype=np.int64)
    whole = np.arange(len(canonical.timestamps_ns)) if canonical.source_frames is None else canonical.source_frames
    times = canonical.timestamps_ns
    return replace(
        canonical,
        timestamps_ns=times[rows],
        world_from_camera=canonical.world_from_camera[rows],
        frames=PickedFrames(canonical.frames, rows.tolist()),
        audio_offset_ns=canonical.audio_offset_ns + int(times[rows[0]] - times[0]),
        source_frames=whole[rows],
        source_start_ns=canonical.start_ns(),
    )


def grounded_frames(narrations: NarrationSet) -> list[int]:
    """Frames that carry a grounding point."""
    return sorted({point.frame for narration in narrations.narrations for point in narration.groundings})


def select_narrations(narrations: NarrationSet, frames: Sequence[int]) -> NarrationSet:
    """Groundings on the frames taken, renumbered; narrations left without any keep their text."""
    position = {frame: index for index, frame in enumerate(frames)}
    kept = tuple(replace(narration, groundings=_renumbered(narration, position)) for narration in narrations.narrations)
    dropped = sum(len(n.groundings) for n in narrations.narrations) - sum(len(n.groundings) for n in kept)
    warnings = narrations.warnings
    if dropped:
        warnings = (*warnings, f"{dropped} grounding point(s) lie outside --start/--end and were left out")
    return replace(narrations, narrations=kept, warnings=warnings)


def _renumbered(narration: Narration, position: dict[int, int]) -> tuple[Grounding, ...]:
    return tuple(
        replace(point, frame=position[point.frame]) for point in narration.groundings if point.frame in position
    )
