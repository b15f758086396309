"""What the tracks of other objects say: whose pixels these are already."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from tracking import masks
from tracking.base import Observation
from tracking.records import Grounding, MaskTrack, Rle, decode_rle

SAME_IOU = 0.5  # from here on two masks are of the same thing
_MIN_SCORE = 0.5  # of a mask that is believed
_MIN_APART = 3  # frames


class Rivals:
    """The finished tracks of other objects, as evidence on this one."""

    def __init__(self, tracks: Sequence[MaskTrack] = ()) -> None:
        """Only masks that their tracker believes in count."""
        self._tracks = tuple(tracks)

    def taken(
        self, frame: int, points: Sequence[Grounding], spared_px: float | None = None
    ) -> Bool[np.ndarray, "H W"] | None:
        """Pixels of others in a frame; None without any.

        A mask that a positive point lies on does not count, or, with ``spared_px``, all of it but so many pixels
        around the point.
        """
        marked = [point.point_xy_px for point in points if point.positive]
        out: np.ndarray | None = None
        for rle in self._masks(frame):
            mask = decode_rle(rle)
            if any(mask[round(y), round(x)] for x, y in marked):
                if spared_px is None:
                    continue
                v, u = np.nonzero(mask)
                for x, y in marked:
                    near = (u - x) ** 2 + (v - y) ** 2 <= spared_px**2
                    mask[v[near], u[near]] = False
            out = mask if out is None else out | mask
        return out

    def is_another(self, seed: Observation, own: Sequence[Observation | None]) -> bool:
        """True if a mask is that of another object that was seen beside this one before: the two are not the same."""
        if seed.mask is None:
            return False
        for track in self._tracks:
            mask = self._mask(track, seed.frame)
            if mask is not None and masks.iou(seed.mask, mask) >= SAME_IOU and self._seen_apart(track, own):
                return True
        return False

    def _seen_apart(self, track: MaskTrack, own: Sequence[Observation | None]) -> bool:
        apart = 0
        for observation in own:
            if observation is None or observation.mask is None:
                continue
            other = self._mask(track, observation.frame)
            apart += other is not None and masks.iou(observation.mask, other) < SAME_IOU
        return apart >= _MIN_APART

    def overlap(self, observation: Observation) -> float:
        """Largest intersection over union of a mask with another object's in the same frame; 0 without one."""
        mask = observation.mask
        if mask is None:
            return 0.0
        return max((masks.iou(mask, other) for other in self._masks(observation.frame)), default=0.0)

    def _masks(self, frame: int) -> list[Rle]:
        return [mask for mask in (self._mask(track, frame) for track in self._tracks) if mask is not None]

    @staticmethod
    def _mask(track: MaskTrack, frame: int) -> Rle | None:
        return track.masks[frame] if track.scores[frame] > _MIN_SCORE else None
