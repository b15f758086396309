"""Which of an object's points seeds its track, and what fresh segments at the other points say later."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool

from tracking.base import Observation, Prompt, Session, Tracker
from tracking.judges import GeometricJudge
from tracking.records import Grounding

MAX_SEEDS = 4
_FIRST_SEED_SHARE = 0.9
_NEIGHBOUR_M = 0.2
_NAN3 = np.full(3, np.nan)


@dataclass(frozen=True)
class PointGroup:
    """What one narration marks on one object in one frame."""

    narration_id: str
    frame: int
    points: tuple[Grounding, ...]

    @property
    def can_seed(self) -> bool:
        """True with at least one positive point."""
        return any(point.positive for point in self.points)

    def prompt(self) -> Prompt:
        """The group as a tracker's prompt."""
        points = np.array([point.point_xy_px for point in self.points], dtype=np.float64).reshape(-1, 2)
        return Prompt(self.frame, points, np.array([point.positive for point in self.points], dtype=bool))


@dataclass(frozen=True)
class Anchor:
    """A fresh session at one group of points, and how much its segment is worth."""

    group: PointGroup
    session: Session
    worth: float


class Seeder:
    """Starts sessions at groups of points of one object."""

    def __init__(self, tracker: Tracker, metric: GeometricJudge, groups: Sequence[PointGroup]) -> None:
        self._tracker, self._metric, self._groups = tracker, metric, tuple(groups)
        self.calls = 0

    def start(
        self, group: PointGroup, taken: Bool[np.ndarray, "H W"] | None = None, usual_area: float = float("nan")
    ) -> Session:
        """A fresh session at a group; ``usual_area`` is the object's distance-free area where it is known."""
        self.calls += 1
        prompt = self.with_neighbours(group).prompt()
        place = next((self._metric.surface.in_world(point) for point in group.points if point.positive), _NAN3)
        area_px = self._metric.area_px_at(usual_area, place, group.frame)
        if np.isfinite(area_px):
            prompt = replace(prompt, expected_area_px=float(area_px))
        return self._tracker.start(prompt, taken)

    def with_neighbours(self, group: PointGroup) -> PointGroup:
        """The group with what the same narration marks near the same spot in other frames.

        Several points tell the thing from its print. Only points that depth shows unmoved in this frame count.
        """
        surface = self._metric.surface
        place = next((surface.in_world(point) for point in group.points if point.positive), _NAN3)
        if not np.isfinite(place).all():
            return group
        more = []
        for other in self._groups:
            if other.narration_id == group.narration_id and other.frame != group.frame:
                moved = [surface.transferred(point, group.frame, _NEIGHBOUR_M, place) for point in other.points]
                more += [point for point in moved if point is not None]
        return replace(group, points=(*group.points, *more))

    def anchors(self, taken: Bool[np.ndarray, "H W"] | None = None) -> tuple[list[Anchor], int]:
        """Anchors at up to ``MAX_SEEDS`` groups of the first narration, and which of them should seed.

        The first point seeds, unless a later one gives a clearly better segment. Worth: the tracker's own score, times
        how well the segment's distance-free area fits the median of all of them (a label or a lid alone stands out
        against whole views), times 0.7 where depth does not place it.
        """
        first = next(group for group in self._groups if group.can_seed)
        same = [group for group in self._groups if group.can_seed and group.narration_id == first.narration_id]
        picks = np.unique(np.linspace(0, len(same) - 1, min(len(same), MAX_SEEDS)).round().astype(int))
        sessions = [self.start(same[i], taken if same[i] is first else None) for i in picks]
        worth = self._worth([session.seed for session in sessions])
        best = int(np.argmax(worth))
        chosen = 0 if worth[0] >= _FIRST_SEED_SHARE * worth[best] else best
        return [Anchor(same[i], s, float(w)) for i, s, w in zip(picks, sessions, worth, strict=True)], chosen

    def _worth(self, seeds: list[Observation]) -> np.ndarray:
        areas = np.array([self._metric.distance_free_area(seed) for seed in seeds])
        placed = np.array([bool(np.isfinite(seed.center_in_world).all()) for seed in seeds])
        sized = placed & (areas > 0)
        worth = np.array([seed.score for seed in seeds]) * np.where(placed | ~placed.any(), 1.0, 0.7)
        if sized.sum() >= 3:
            ratio = np.where(sized, np.maximum(areas, 1e-6) / np.median(areas[sized]), 1.0)
            worth = worth * np.exp(-np.abs(np.log(ratio)))
        return np.asarray(np.nan_to_num(worth))
