"""What the tracks of other objects say: whose pixels these are already."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from tracking import masks
from tracking.base import Observation
from tracking.records import Grounding, MaskTrack, Rle, decode_rle

_MIN_SCORE = 0.5  # of a mask that is believed


class Rivals:
    """The finished tracks of other objects, as evidence on this one."""

    def __init__(self, tracks: Sequence[MaskTrack] = ()) -> None:
        """Only masks that their tracker believes in count."""
        self._tracks = tuple(tracks)

    def taken(self, frame: int, points: Sequence[Grounding]) -> Bool[np.ndarray, "H W"] | None:
        """Pixels of others in a frame; None without any. A mask that a positive point lies on does not count."""
        marked = [point.point_xy_px for point in points if point.positive]
        out: np.ndarray | None = None
        for rle in self._masks(frame):
            mask = decode_rle(rle)
            if any(mask[round(y), round(x)] for x, y in marked):
                continue
            out = mask if out is None else out | mask
        return out

    def overlap(self, observation: Observation) -> float:
        """Largest intersection over union of a mask with another object's in the same frame; 0 without one."""
        mask = observation.mask
        if mask is None:
            return 0.0
        return max((masks.iou(mask, other) for other in self._masks(observation.frame)), default=0.0)

    def _masks(self, frame: int) -> list[Rle]:
        found = ((track.masks[frame], track.scores[frame]) for track in self._tracks)
        return [mask for mask, score in found if mask is not None and score > _MIN_SCORE]
