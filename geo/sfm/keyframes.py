"""Which pictures the map is built from: sharp ones that see something new."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64, UInt8

_SMALL_PX = 320
_THUMBNAIL_PX = 24
_CORNERS = 200
_LOST = 1.0  # flow where nothing could be followed: as much as the whole width


@dataclass(frozen=True)
class PictureSignals:
    """What is measured on every picture, made small; sharpness means something only beside another picture's."""

    sharpness: Float[np.ndarray, "N"]  # variance of the Laplacian
    flow: Float[np.ndarray, "N"]  # median motion since the picture before, as a part of the width; 0 for the first
    thumbnails: Float[np.ndarray, "N T"]  # zero mean, unit length


def picture_signals(pictures: Iterable[UInt8[np.ndarray, "H W 3"]]) -> PictureSignals:
    """Measure pictures in order; two small ones are held in memory."""
    import cv2

    sharpness: list[float] = []
    flow: list[float] = []
    thumbnails: list[np.ndarray] = []
    before: np.ndarray | None = None
    for picture in pictures:
        height, width = picture.shape[:2]
        factor = min(1.0, _SMALL_PX / max(height, width))
        size = (max(8, round(width * factor)), max(8, round(height * factor)))
        grey = cv2.cvtColor(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), cv2.COLOR_RGB2GRAY)
        sharpness.append(float(cv2.Laplacian(grey, cv2.CV_64F).var()))
        flow.append(0.0 if before is None else _flow(before, grey))
        thumbnails.append(_thumbnail(grey))
        before = grey
    return PictureSignals(np.array(sharpness), np.array(flow), np.array(thumbnails))


def _thumbnail(grey: np.ndarray) -> np.ndarray:
    import cv2

    small = cv2.resize(grey, (_THUMBNAIL_PX, _THUMBNAIL_PX), interpolation=cv2.INTER_AREA).astype(np.float64).ravel()
    small = small - small.mean()
    length = float(np.linalg.norm(small))
    return np.asarray(small / length if length > 0 else small)


def _flow(before: np.ndarray, after: np.ndarray) -> float:
    """Median motion of corners that could be followed, as a part of the width."""
    import cv2

    corners = cv2.goodFeaturesToTrack(before, _CORNERS, 0.01, 7)
    if corners is None or len(corners) < 8:
        return _LOST
    moved, found, _ = cv2.calcOpticalFlowPyrLK(before, after, corners, None, winSize=(21, 21), maxLevel=4)
    kept = found.ravel() == 1
    if kept.sum() < 8:
        return _LOST
    motion = np.linalg.norm((moved - corners).reshape(-1, 2)[kept], axis=1)
    return float(min(np.median(motion) / before.shape[1], _LOST))


def choose_keyframes(
    signals: PictureSignals, timestamps_ns: Int64[np.ndarray, "N"], flow: float, max_gap_s: float
) -> Int64[np.ndarray, "K"]:
    """Pictures for the map: a new one is due where motion has added up to ``flow``, or ``max_gap_s`` has passed.

    Of a due picture and the one before it the sharper is taken, so that a blurred one is passed over; the first and the
    last picture are always taken, because nothing is extrapolated beyond them.
    """
    count = len(timestamps_ns)
    chosen = [0]
    moved = 0.0
    for i in range(1, count):
        moved += float(signals.flow[i])
        late = int(timestamps_ns[i] - timestamps_ns[chosen[-1]]) >= max_gap_s * 1e9
        if moved < flow and not late:
            continue
        sharper_before = i - 1 > chosen[-1] and signals.sharpness[i - 1] > signals.sharpness[i]
        chosen.append(i - 1 if sharper_before else i)
        moved = float(signals.flow[i]) if sharper_before else 0.0
    if chosen[-1] != count - 1:
        chosen.append(count - 1)
    return np.array(chosen, dtype=np.int64)


def keyframe_pairs(
    keyframes: Int64[np.ndarray, "K"], thumbnails: Float[np.ndarray, "N T"], neighbours: int, loops: int
) -> list[tuple[int, int]]:
    """Pairs of frames to match: each keyframe with the next ones, and with those elsewhere that look most like it."""
    count = len(keyframes)
    pairs = {(i, j) for i in range(count) for j in range(i + 1, min(i + 1 + neighbours, count))}
    looks = thumbnails[keyframes]
    for i in range(count):
        likeness = looks @ looks[i]
        likeness[max(0, i - neighbours) : i + neighbours + 1] = -np.inf
        for j in np.argsort(-likeness, kind="stable")[:loops].tolist():
            if np.isfinite(likeness[j]):
                pairs.add((min(i, j), max(i, j)))
    return [(int(keyframes[i]), int(keyframes[j])) for i, j in sorted(pairs)]


def filler_pairs(keyframes: Int64[np.ndarray, "K"], count: int, each_side: int = 2) -> list[tuple[int, int]]:
    """Pairs of every other picture with the keyframes around it."""
    out: list[tuple[int, int]] = []
    taken = set(keyframes.tolist())
    for frame in range(count):
        if frame not in taken:
            at = int(np.searchsorted(keyframes, frame))
            around = keyframes[max(0, at - each_side) : at + each_side].tolist()
            out += [(min(frame, key), max(frame, key)) for key in around]
    return out
