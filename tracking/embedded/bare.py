"""Is it the object that depth confirms, or the bare scene behind where it was?"""

import numpy as np

from tracking.embedded.frames import Crop, FrameStore
from tracking.embedded.model import ObjectModel
from tracking.embedded.predict import Prediction, tolerance_m

_TALL_M = 0.025  # m, shortest side of a thing that depth tells from what it stands on
_BARE_M = 0.012  # m, sensor and static scene this near show the same surface
_MIN_CONFIRMED = 8  # crop pixels


def bare_share(store: FrameStore, model: ObjectModel, frame: int, crop: Crop, prediction: Prediction) -> float:
    """Share of the pixels that depth confirms at which the sensor sees the static scene itself.

    A flat side laid onto the table agrees with its depth as well as the thing itself would; but a tall thing that stood
    there would hide the table. 0 for thin things, without static depth, and where little is confirmed. The static scene
    must not hold the object: ask only about things that move.
    """
    low, high = model.bounds
    static = store.static_crop(frame, crop.roi) if float(np.min(high - low)) > _TALL_M else None
    if static is None:
        return 0.0
    with np.errstate(invalid="ignore"):
        near = np.abs(crop.z_m - prediction.z_m) <= tolerance_m(prediction.z_m)
        confirmed = prediction.mask & crop.valid & near
        bare = confirmed & (np.abs(static - crop.z_m) <= _BARE_M)
    count = int(confirmed.sum())
    return float(bare.sum()) / count if count >= _MIN_CONFIRMED else 0.0
