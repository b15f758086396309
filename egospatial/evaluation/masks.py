"""Region overlap J of stored masks with true ones, per object, while it is visible."""

from dataclasses import dataclass

import numpy as np

from egospatial.errors import FrontDoorError
from egospatial.evaluation.aligned import Aligned
from tracking.records import MaskTrack, decode_rle

_MIN_VISIBLE_SHARE = 1e-4  # of the picture: slivers at borders are nobody's mask
_MIN_VISIBLE_PX = 16


@dataclass(frozen=True)
class MaskScore:
    """J (intersection over union) of one object; a frame without a stored mask counts 0."""

    label: str
    thin: bool
    tracked: bool
    mean_j: float  # NaN if never visible
    frames_visible: int
    frames_with_mask: int  # of the visible ones
    false_masks: int  # stored masks where nothing of the object is seen


def mask_scores(aligned: Aligned) -> list[MaskScore]:
    """Scores of all true objects.

    Raises:
        FrontDoorError: masks and truth have different sizes.
    """
    truth = aligned.truth
    if aligned.tracks.size_wh_px != truth.camera.size_wh_px:
        raise FrontDoorError(
            f"masks are {aligned.tracks.size_wh_px} px, the truth is {truth.camera.size_wh_px} px; "
            "evaluate a run with the preset's own view."
        )
    width, height = truth.camera.size_wh_px
    least = max(_MIN_VISIBLE_PX, round(_MIN_VISIBLE_SHARE * width * height))
    by_label = {track.label: track for track in aligned.tracks.tracks}
    overlaps: dict[str, list[float]] = {item.label: [] for item in truth.objects}
    with_mask: dict[str, int] = dict.fromkeys(overlaps, 0)
    false_masks: dict[str, int] = dict.fromkeys(overlaps, 0)
    for frame, row in enumerate(aligned.truth_rows):
        ids = truth.instance_ids(int(row))
        for item in truth.objects:
            true = ids == item.object_id
            track = by_label.get(item.label)
            has_mask = track is not None and track.masks[frame] is not None
            visible = int(true.sum())
            if visible == 0:
                false_masks[item.label] += has_mask
            if visible >= least:
                overlaps[item.label].append(_overlap(track, frame, true) if has_mask else 0.0)
                with_mask[item.label] += has_mask
    return [
        MaskScore(
            item.label, item.thin, item.label in by_label, _mean(overlaps[item.label]), len(overlaps[item.label]),
            with_mask[item.label], false_masks[item.label],
        )
        for item in truth.objects
    ]  # fmt: skip


def _overlap(track: MaskTrack | None, frame: int, true: np.ndarray) -> float:
    rle = None if track is None else track.masks[frame]
    if rle is None:
        return 0.0
    stored = decode_rle(rle)
    union = int((stored | true).sum())
    return float((stored & true).sum()) / union if union else 1.0


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else float("nan")
