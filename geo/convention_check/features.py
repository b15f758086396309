"""Points found in two pictures: pixels only, so that every reading of cameras and poses is measured on the same."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, UInt8

from geo.errors import RecordingError
from geo.recording import FrameSource

MIN_MATCHES = 25
_LONGEST_SIDE_PX = 1000
_FEATURES = 1500
_RATIO = 0.75


@dataclass(frozen=True)
class Matches:
    """Points of picture ``row_a`` of one video and of picture ``row_b`` of another (or the same) that look the same."""

    video_a: str
    row_a: int
    video_b: str
    row_b: int
    pixels_a: Float[np.ndarray, "K 2"]
    pixels_b: Float[np.ndarray, "K 2"]


PointsAndWords = tuple[Float[np.ndarray, "_ 2"], Float32[np.ndarray, "_ 128"]]
PixelPairs = tuple[Float[np.ndarray, "K 2"], Float[np.ndarray, "K 2"]]


@dataclass
class FeatureStore:
    """What was found in pictures, by where they come from: readings of the same pictures can share it."""

    points: dict[tuple[int, int], PointsAndWords] = field(default_factory=dict)
    pairs: dict[tuple[int, int, int, int], PixelPairs | None] = field(default_factory=dict)
    sources: dict[int, FrameSource] = field(default_factory=dict)  # kept alive, so that an id stays its own


@dataclass
class Features:
    """SIFT points of the pictures of videos, and their matches; found when asked for and kept."""

    videos: dict[str, FrameSource]
    store: FeatureStore = field(default_factory=FeatureStore)

    def of(self, source: FrameSource, row: int) -> PointsAndWords:
        """Pixels and descriptors; none for a picture that cannot be read."""
        self.store.sources[id(source)] = source
        key = (id(source), row)
        if key not in self.store.points:
            try:
                self.store.points[key] = _detect(source.read(row))
            except RecordingError:
                self.store.points[key] = np.zeros((0, 2)), np.zeros((0, 128), dtype=np.float32)
        return self.store.points[key]

    def matches(self, video_a: str, row_a: int, video_b: str, row_b: int) -> Matches | None:
        """Points that are each other's best and clearly better than the second best; None if they are too few."""
        source_a, source_b = self.videos[video_a], self.videos[video_b]
        key = (id(source_a), row_a, id(source_b), row_b)
        if key not in self.store.pairs:
            self.store.pairs[key] = _match(self.of(source_a, row_a), self.of(source_b, row_b))
        found = self.store.pairs[key]
        return None if found is None else Matches(video_a, row_a, video_b, row_b, *found)


def _match(a: PointsAndWords, b: PointsAndWords) -> PixelPairs | None:
    import cv2

    (pixels_a, words_a), (pixels_b, words_b) = a, b
    if min(len(words_a), len(words_b)) < MIN_MATCHES:
        return None
    matcher = cv2.BFMatcher(cv2.NORM_L2)
    there = _best(matcher.knnMatch(words_a, words_b, 2))
    back = _best(matcher.knnMatch(words_b, words_a, 2))
    both = np.array([(i, j) for i, j in there.items() if back.get(j) == i], dtype=np.int64).reshape(-1, 2)
    if len(both) < MIN_MATCHES:
        return None
    return pixels_a[both[:, 0]], pixels_b[both[:, 1]]


def _best(candidates: Any) -> dict[int, int]:
    """Rows whose best partner is clearly better than the second best."""
    return {m.queryIdx: m.trainIdx for m, n in candidates if m.distance < _RATIO * n.distance}


def _detect(rgb: UInt8[np.ndarray, "H W 3"]) -> tuple[Float[np.ndarray, "K 2"], Float32[np.ndarray, "K 128"]]:
    import cv2

    tools: Any = cv2  # its type stubs lack SIFT
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    scale = max(1.0, max(grey.shape) / _LONGEST_SIDE_PX)
    if scale > 1:
        size = (round(grey.shape[1] / scale), round(grey.shape[0] / scale))
        factor = np.array([grey.shape[1] / size[0], grey.shape[0] / size[1]])
        grey = cv2.resize(grey, size, interpolation=cv2.INTER_AREA)
    else:
        factor = np.ones(2)
    # without the precise upscale OpenCV's points lie a quarter of a pixel off
    points, words = tools.SIFT_create(nfeatures=_FEATURES, enable_precise_upscale=True).detectAndCompute(grey, None)
    if words is None:
        return np.zeros((0, 2)), np.zeros((0, 128), dtype=np.float32)
    pixels = np.array([point.pt for point in points], dtype=np.float64).reshape(-1, 2)
    return factor * (pixels + 0.5) - 0.5, np.asarray(words, dtype=np.float32)
