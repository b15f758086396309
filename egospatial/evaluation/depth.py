"""Stored depth against true depth, on what stands still and on what is carried."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8

from egospatial.errors import FrontDoorError
from egospatial.evaluation.aligned import Aligned
from egospatial.simulator.truth import ARM_ID, HAND_ID
from egospatial.store.geometry_file import DepthReader
from geo.cameras import PinholeCamera
from lifting.records import MotionState

_PIXEL_STEP = 3  # every third row and column: enough for a median, and quick
_SAME_VIEW_PX = 0.51


@dataclass(frozen=True)
class DepthErrors:
    """|stored - true| / true over pixels that have both; ``covered``: share of true pixels with stored depth."""

    abs_rel_median: float
    abs_rel_mean: float
    covered: float
    pixels: int


def depth_errors(aligned: Aligned) -> tuple[DepthErrors, DepthErrors]:
    """Errors on the static scene (room and resting objects) and on carried objects (held or moving).

    Raises:
        FrontDoorError: the stored depth and the truth look through different cameras.
    """
    reader = DepthReader(aligned.folder)
    rows, cols = matching_pixels(reader.camera, aligned.truth.depth_camera)
    static: list[np.ndarray] = []
    carried: list[np.ndarray] = []
    for frame, truth_row in enumerate(aligned.truth_rows):
        stored = reader.read(frame).z_depth_m[::_PIXEL_STEP, ::_PIXEL_STEP]
        true = aligned.truth.z_depth_m(int(truth_row))[rows][:, cols]
        ids = aligned.truth.depth_instance_ids(int(truth_row))[rows][:, cols]
        with np.errstate(invalid="ignore"):
            error = (np.abs(stored - true) / true).astype(np.float32)
        moves = np.isin(ids, _moving_ids(aligned, int(truth_row)))
        known = np.isfinite(true)
        static.append(error[known & ~moves & (ids != HAND_ID) & (ids != ARM_ID)])
        carried.append(error[known & moves])
    return _summary(static), _summary(carried)


def _moving_ids(aligned: Aligned, truth_row: int) -> list[int]:
    moving = (MotionState.MOVING, MotionState.HELD)
    return [item.object_id for item in aligned.truth.lifted.trajectories if item.states[truth_row] in moving]


def matching_pixels(
    stored: PinholeCamera, true: PinholeCamera
) -> tuple[UInt8[np.ndarray, "h"], UInt8[np.ndarray, "w"]]:
    """Rows and columns of the truth's image that show what the stored image's sampled pixels show.

    Raises:
        FrontDoorError: one is no resized version of the other.
    """
    same = true.resized(stored.size_wh_px)
    if float(np.abs(same.matrix - stored.matrix).max()) > _SAME_VIEW_PX:
        raise FrontDoorError(
            f"the stored view ({stored.size_wh_px} px, K {stored.matrix.round(2).tolist()}) is not the truth's "
            f"({true.size_wh_px} px, K {true.matrix.round(2).tolist()}); evaluate a run with the preset's own view."
        )
    return _nearest(stored.height_px, true.height_px), _nearest(stored.width_px, true.width_px)


def _nearest(stored_px: int, true_px: int) -> np.ndarray:
    centres = (np.arange(0, stored_px, _PIXEL_STEP) + 0.5) * true_px / stored_px - 0.5
    return np.clip(np.rint(centres), 0, true_px - 1).astype(np.int64)


def _summary(parts: list[Float[np.ndarray, "P"]]) -> DepthErrors:
    errors = np.concatenate([*parts, np.zeros(0, np.float32)])
    known = errors[np.isfinite(errors)]
    if len(known) == 0:
        return DepthErrors(float("nan"), float("nan"), 0.0 if len(errors) else float("nan"), 0)
    covered = len(known) / len(errors)
    return DepthErrors(float(np.median(known)), float(known.mean(dtype=np.float64)), covered, len(known))
