"""What one pass over the frames finds out about one object: its rests, and where it was seen in between."""

from dataclasses import dataclass, field

from lifting.observe import Observation

_MAX_KEPT = 96
_EDGE_KEPT = 8


@dataclass
class RestSegment:
    """A stretch of frames in which an object lies still."""

    first_frame: int
    last_frame: int  # last frame that confirmed it
    observations: list[Observation] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)  # frames whose observation agreed
    contradicted_frame: int | None = None  # its place was seen empty, while nobody saw the object
    opening: list[Observation] = field(default_factory=list)  # the first few, never thinned
    closing: list[Observation] = field(default_factory=list)  # the last few
    _stride: int = 1
    _count: int = 0

    def add(self, observation: Observation) -> None:
        """Keep the observation, thinning evenly so that long rests stay bounded."""
        self.frames.append(observation.frame)
        self.last_frame = max(self.last_frame, observation.frame)
        if len(self.opening) < _EDGE_KEPT:
            self.opening.append(observation)
        self.closing = [*self.closing[1 - _EDGE_KEPT :], observation]
        if self._count % self._stride == 0:
            self.observations.append(observation)
            if len(self.observations) > _MAX_KEPT:
                self.observations = self.observations[::2]
                self._stride *= 2
        self._count += 1


@dataclass
class Timeline:
    """What the pass found out about one object."""

    object_id: int
    segments: list[RestSegment] = field(default_factory=list)
    moving: dict[int, Observation] = field(default_factory=dict)  # by frame
    rejected: list[int] = field(default_factory=list)  # frames whose mask shows something else
    observed_frames: list[int] = field(default_factory=list)
