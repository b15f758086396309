"""What every tracker offers: start from a prompt, then hand out one observation per frame, in either direction.

The embedded default and any other tracker (SAM2, say) stand behind these protocols; repair and the stage see
nothing else. A re-initialisation is always a new session: a wrong state is never corrected in place.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Float32

from geo.cameras import PinholeCamera
from tracking.records import MaskState, Rle


@runtime_checkable
class StaticView(Protocol):
    """What tracking reads of a rendering of the static scene."""

    @property
    def median_z_m(self) -> Float32[np.ndarray, "h w"]:
        """Depth along +z in metres, NaN where there is none."""
        ...


@runtime_checkable
class SceneDepthLike(Protocol):
    """What is known of depth in a canonical frame; ``recon.scene_depth.SceneDepth`` is one."""

    @property
    def camera(self) -> PinholeCamera:
        """Camera of the depth images: the canonical one, resized."""
        ...

    def static(self, frame: int) -> StaticView:
        """The static scene as seen in this frame."""
        ...

    def sensor(self, frame: int) -> Float32[np.ndarray, "h w"]:
        """Sensor depth along +z in metres, NaN where there is none."""
        ...


@dataclass(frozen=True)
class Prompt:
    """Where an object is in one frame, in canonical pixels: points, and optionally a box or a mask."""

    frame: int
    points_xy_px: Float[np.ndarray, "P 2"]
    positive: Bool[np.ndarray, "P"]
    box_xyxy_px: Float[np.ndarray, "4"] | None = None
    mask: Bool[np.ndarray, "H W"] | None = None


@dataclass(frozen=True)
class Observation:
    """One object in one frame. ``mask`` only if VISIBLE; ``center_in_world`` NaN where it cannot be known.

    ``evidence`` holds the tracker's own figures (agreement with depth, known pixels, ...) for the judges.
    """

    frame: int
    state: MaskState
    mask: Rle | None
    score: float
    center_in_world: Float[np.ndarray, "3"]
    area_px: int = 0
    evidence: dict[str, float] = field(default_factory=dict)


@runtime_checkable
class Session(Protocol):
    """One object being followed from one prompt."""

    @property
    def seed(self) -> Observation:
        """The observation in the prompt's own frame."""
        ...

    def propagate(self, frames: Iterable[int]) -> Iterator[Observation]:
        """Follow the object through frames that lead away from the seed, one step at a time.

        Each call starts at the seed again (with what the session has learnt of the object). The window is the
        caller's: memory is bounded by the session, not by the number of frames.
        """
        ...


@runtime_checkable
class Tracker(Protocol):
    """Makes sessions."""

    @property
    def name(self) -> str:
        """Name for the result, e.g. "embedded"."""
        ...

    def start(self, prompt: Prompt, taken: Bool[np.ndarray, "H W"] | None = None) -> Session:
        """A session from a prompt; ``taken`` marks pixels that belong to other objects in that frame."""
        ...
