"""One object followed by the embedded tracker: the state between two frames, and the step."""

from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Bool, Float, Float32

from tracking.base import Observation, Prompt
from tracking.embedded.config import EmbeddedConfig
from tracking.embedded.frames import Crop, FrameStore
from tracking.embedded.memory import Memory, memory_of
from tracking.embedded.model import ObjectModel
from tracking.embedded.picture import PictureStep
from tracking.embedded.seed import Seed
from tracking.embedded.space import SpaceStep
from tracking.records import MaskState, encode_rle


class EmbeddedSession:
    """See ``tracking.base.Session``."""

    def __init__(
        self,
        store: FrameStore,
        config: EmbeddedConfig,
        prompt: Prompt,
        seed: Seed,
        up_in_world: Float[np.ndarray, "3"] | None,
    ) -> None:
        self._store, self._config, self._up = store, config, up_in_world
        self._start = memory_of(store, prompt.frame, seed)
        self._space = SpaceStep(store, config, up_in_world)
        self._picture = PictureStep(store, config)
        self._learnt: ObjectModel | None = None
        views = 0 if seed.surroundings is None else len(seed.surroundings.seen_from_in_world)
        figures = {"quality": seed.quality, "views": float(views)}
        self._seed = observation(store, self._start, MaskState.VISIBLE, seed.quality, figures)

    @property
    def seed(self) -> Observation:
        """See ``tracking.base.Session``."""
        return self._seed

    def propagate(self, frames: Iterable[int]) -> Iterator[Observation]:
        """See ``tracking.base.Session``."""
        memory = self._start.copy()
        if self._learnt is not None:
            memory.model = self._learnt.copy()
        for frame in frames:
            in_space = memory.model is not None and self._store.pose(frame) is not None
            step = self._space if in_space else self._picture
            state, score, evidence = step.advance(memory, frame)
            memory.frame = frame
            yield observation(self._store, memory, state, score, evidence)
        if memory.model is not None and not (memory.lost or memory.whole):
            self._learnt = memory.model


def observation(
    store: FrameStore, memory: Memory, state: MaskState, score: float, evidence: dict[str, float]
) -> Observation:
    """The record of a step: the logits at full size, then the mask (positive logits)."""
    center = np.full(3, np.nan)
    if memory.model is not None:
        center = memory.world_from_object[:3, :3] @ memory.model.center + memory.world_from_object[:3, 3]
    if state is not MaskState.VISIBLE:
        return Observation(memory.frame, state, None, float("nan"), center, 0, evidence)
    mask = full_mask(store, memory.crop, memory.logits)
    return Observation(memory.frame, state, encode_rle(mask), float(score), center, int(mask.sum()), evidence)


def full_mask(store: FrameStore, crop: Crop, logits: Float32[np.ndarray, "h w"]) -> Bool[np.ndarray, "H W"]:
    """Mask at canonical size: the logits are resized, then cut at zero."""
    import cv2

    roi = crop.roi
    size = (roi.x1 - roi.x0, roi.y1 - roi.y0)
    full = logits if size == roi.size_wh else cv2.resize(logits, size, interpolation=cv2.INTER_LINEAR)
    mask = np.zeros(store.image_wh[::-1], bool)
    mask[roi.y0 : roi.y1, roi.x0 : roi.x1] = full > 0
    return np.asarray(mask & store.canonical.valid_mask)
