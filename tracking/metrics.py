"""J and F as the DAVIS benchmark defines them, for masks on single frames."""

import numpy as np
from jaxtyping import Bool

_BOUNDARY_SHARE = 0.008  # of the image diagonal, as in the official evaluation


def region_similarity(mask: Bool[np.ndarray, "H W"], truth: Bool[np.ndarray, "H W"]) -> float:
    """J: intersection over union; 1 where both are empty. Source: Perazzi et al. (2016), eq. 1."""
    union = int((mask | truth).sum())
    return 1.0 if union == 0 else float((mask & truth).sum() / union)


def boundary_pixels(mask: Bool[np.ndarray, "H W"]) -> Bool[np.ndarray, "H W"]:
    """Pixels whose right, lower or lower-right neighbour differs (the seg2bmap of the DAVIS code)."""
    mask = np.asarray(mask, bool)
    edge = np.zeros_like(mask)
    edge[:, :-1] |= mask[:, :-1] != mask[:, 1:]
    edge[:-1] |= mask[:-1] != mask[1:]
    edge[:-1, :-1] |= mask[:-1, :-1] != mask[1:, 1:]
    edge[-1, -1] = False
    return edge


def boundary_similarity(
    mask: Bool[np.ndarray, "H W"], truth: Bool[np.ndarray, "H W"], tolerance_px: float | None = None
) -> float:
    """F: harmonic mean of boundary precision and recall within a tolerance.

    Default tolerance: 0.8 % of the image diagonal, rounded up. Both without boundary: 1; one of them: 0.
    Source: Perazzi et al. (2016), section 4; matching by dilation as in the official code.
    """
    import cv2

    if tolerance_px is None:
        tolerance_px = float(np.ceil(_BOUNDARY_SHARE * np.hypot(*mask.shape)))
    ours, theirs = boundary_pixels(mask), boundary_pixels(truth)
    if not ours.any() or not theirs.any():
        return float(ours.any() == theirs.any())

    def near(edge: np.ndarray) -> np.ndarray:
        away = cv2.distanceTransform((~edge).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
        return np.asarray(away <= tolerance_px)

    precision = float((ours & near(theirs)).sum() / ours.sum())
    recall = float((theirs & near(ours)).sum() / theirs.sum())
    return 0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall)
