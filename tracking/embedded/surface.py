"""The surface under a mask: sensors leave a halo without depth around things, which their mask bridges."""

import numpy as np
from jaxtyping import Bool, Float32

from tracking.embedded.field import signed_distance
from tracking.embedded.frames import Crop
from tracking.embedded.plane import sensor_sigma_m

_STEP_M = 0.02


def surface_under(crop: Crop, mask: Bool[np.ndarray, "h w"]) -> Float32[np.ndarray, "h w"]:
    """Depth of the masked object in each pixel of its mask; NaN outside, and everywhere if nothing was measured.

    Measured pixels inside the mask anchor it; the others keep their own (filled) depth if it lies near the nearest
    anchor's, else take that: an object goes on to the rim of its mask, the background does not come in.
    """
    import cv2

    none = np.full(crop.size_hw, np.nan, np.float32)
    anchors = mask & crop.measured & (signed_distance(mask) > 1.0)
    if anchors.sum() < 6:
        anchors = mask & np.isfinite(crop.z_m)
    if anchors.sum() < 6:
        return none
    values = crop.z_m[anchors]
    low, high = np.percentile(values, [5, 90])
    slack = 0.04 + 2 * float(sensor_sigma_m(float(high)))
    anchors &= (crop.z_m > low - slack) & (crop.z_m < high + slack)
    _, labels = cv2.distanceTransformWithLabels(
        (~anchors).astype(np.uint8), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
    )
    lookup = np.zeros(int(labels.max()) + 1, np.float32)
    lookup[labels[anchors]] = crop.z_m[anchors]
    nearest = lookup[labels]
    own = np.abs(crop.z_m - nearest) < _STEP_M + 2 * sensor_sigma_m(nearest)
    return np.where(mask, np.where(own, crop.z_m, nearest), none).astype(np.float32)
