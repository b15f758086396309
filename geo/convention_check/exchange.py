"""Does every video belong to the camera that it is given for? All orders of the videos of cameras of one size.

Evidence are points matched between videos at one time (cameras that see the same things) and within a video over time
(a camera that moves with the rig). The pixels are matched once; an order of the videos only changes with which lens
and place they are read.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from geo.convention_check.epipolar import UNIT, relative_pose, residual_px, typical_px
from geo.convention_check.features import Features, Matches
from geo.convention_check.pairs import frame_pairs, posed_rows
from geo.convention_check.records import CLAIMS, Finding, Measured, Topic, Verdict
from geo.convention_check.statistics import Comparison, compare
from geo.nearest import nearest_row
from geo.recording import CameraStream, Recording

EVIDENCE = "points seen by two cameras, and by one over time"
PLAUSIBLE_PX = 8.0
_PLAUSIBLE_OVER_TIME_PX = 3.0
_CLEARLY = 3.0
_LEAST_PIECES = 4
_INSTANTS = 4
_PAIRS_OVER_TIME = 6
_ALL_ORDERS_UP_TO = 5
_SAME_TIME_NS = 5_000_000
Order = tuple[int, ...]  # camera i shows the video of camera order[i]


def check_exchange(recording: Recording, features: Features) -> Finding | None:
    """Judge the claimed order of the videos; None if no two cameras have pictures of one size."""
    streams = [recording.reference, *recording.others]
    names = [stream.name for stream in streams]
    orders = _orders(streams)
    if len(orders) < 2:
        return None
    found = _matches(recording, streams, features)
    costs = _Costs(recording, streams, found)
    judged = [one for order in orders[1:] if (one := _judge(costs, orders[0], order)) is not None]
    if not judged:
        return _finding(Verdict.UNDECIDED, "too few points are seen twice, by two cameras or over time")
    better = [one for one in judged if one.better]
    best = min(better or judged, key=lambda one: one.other.typical() if better else one.result.log_ratio)
    if better:
        alike = [one for one in better if one.other.typical() < 1.5 * best.other.typical()]
        best = min(alike, key=lambda one: (sum(a != b for a, b in enumerate(one.order)), one.other.typical()))
        return _finding(Verdict.LOOK_ALIKE, "", best, names)
    told_apart = {one.order for one in judged if one.worse}
    swaps = [order for order in orders[1:] if order not in told_apart and sum(a != b for a, b in enumerate(order)) == 2]
    if swaps:
        text = "; ".join(_named(order, names) for order in swaps)
        return _finding(Verdict.UNDECIDED, f"the data cannot tell whether {text}", best, names)
    return _finding(Verdict.FITS, "", best, names)


@dataclass(frozen=True)
class _Judged:
    """Another order of the videos against the claimed one, on the points whose cameras it changes."""

    order: Order
    claimed: Measured
    other: Measured
    result: Comparison
    better: bool
    worse: bool


def _judge(costs: "_Costs", same: Order, order: Order) -> _Judged | None:
    """Points that two cameras see at one time decide; points over time only where there are none, and clearly.

    The latter hang on the poses, of the rig and in time, as well.
    """
    moved = {i for i, video in enumerate(order) if i != video}
    for across, least, limit_px in ((True, 1.0, PLAUSIBLE_PX), (False, _CLEARLY, _PLAUSIBLE_OVER_TIME_PX)):
        claimed, other = costs.measure(same, moved, across), costs.measure(order, moved, across)
        if len(np.unique(claimed.clusters)) < _LEAST_PIECES:
            continue
        result = compare(claimed, other)
        better = bool(result.other_is_better and result.log_ratio < -np.log(least) and other.typical() <= limit_px)
        worse = result.claim_is_better and claimed.typical() <= limit_px
        if across or better or worse:
            return _Judged(order, claimed, other, result, better, worse)
    return None


def _finding(verdict: Verdict, reason: str, judged: _Judged | None = None, names: Sequence[str] = ()) -> Finding:
    claim, nan = CLAIMS[Topic.EXCHANGE], float("nan")
    if judged is None:
        return Finding(Topic.EXCHANGE, verdict, claim, nan, "", nan, UNIT, nan, nan, 0, EVIDENCE, reason)
    return Finding(
        Topic.EXCHANGE, verdict, claim, judged.claimed.typical(), _named(judged.order, names), judged.other.typical(),
        UNIT,
        judged.result.log_ratio, judged.result.sigma, judged.result.pairs, EVIDENCE, reason,
    )  # fmt: skip


def _orders(streams: list[CameraStream]) -> list[Order]:
    """Orders that keep picture sizes, the claimed one first; with many cameras only exchanges of two."""
    count = len(streams)
    sizes = [stream.camera.size_wh_px for stream in streams]
    same: Order = tuple(range(count))
    if count <= _ALL_ORDERS_UP_TO:
        candidates = itertools.permutations(range(count))
    else:
        pairs = itertools.combinations(range(count), 2)
        candidates = iter([same, *(_swapped(same, i, j) for i, j in pairs)])  # type: ignore[assignment]
    return [order for order in candidates if all(sizes[i] == sizes[j] for i, j in enumerate(order))]


def _swapped(order: Order, i: int, j: int) -> Order:
    out = list(order)
    out[i], out[j] = out[j], out[i]
    return tuple(out)


def _matches(recording: Recording, streams: list[CameraStream], features: Features) -> list[Matches]:
    """Points between videos at some instants, and within each video between some of its pictures."""
    out: list[Matches | None] = []
    reference = streams[0]
    rows = np.unique(np.linspace(0, len(reference.timestamps_ns) - 1, _INSTANTS).astype(np.int64))
    for row in rows.tolist() if len(reference.timestamps_ns) else []:
        instant = int(reference.timestamps_ns[row])
        at = {stream.name: nearest_row(stream.timestamps_ns, instant, _SAME_TIME_NS) for stream in streams}
        seeing = [(name, there) for name, there in at.items() if there is not None]
        for (a, row_a), (b, row_b) in itertools.combinations(seeing, 2):
            out.append(features.matches(a, row_a, b, row_b))
    for stream in streams:
        posed: Int64[np.ndarray, "P"] = posed_rows(recording.trajectory, stream.timestamps_ns)
        pairs = frame_pairs(stream.timestamps_ns[posed])
        for a, b in posed[pairs[:: max(1, len(pairs) // _PAIRS_OVER_TIME)]].tolist():
            out.append(features.matches(stream.name, a, stream.name, b))
    return [matches for matches in out if matches is not None]


@dataclass
class _Costs:
    """Residual of each set of points under each pair of cameras, worked out when asked for and kept."""

    recording: Recording
    streams: list[CameraStream]
    found: list[Matches]

    def __post_init__(self) -> None:
        self._known: dict[tuple[int, int, int], list[float]] = {}
        self._number = {stream.name: number for number, stream in enumerate(self.streams)}

    def measure(self, order: Order, moved: set[int], across: bool) -> Measured:
        """Residuals of an order on points of videos that are ``moved``: across cameras, or over time in one."""
        camera_of_video = {video: camera for camera, video in enumerate(order)}
        residuals: list[float] = []
        clusters: list[int] = []
        for number, matches in enumerate(self.found):
            videos = self._number[matches.video_a], self._number[matches.video_b]
            if (videos[0] != videos[1]) is across and moved & set(videos):
                residuals += self._of(number, camera_of_video[videos[0]], camera_of_video[videos[1]])
                clusters += [2 * number, 2 * number + 1]
        few = len(residuals) < 16
        pieces = np.array(clusters, dtype=np.int64) // (1 if few else 2)
        return Measured(np.array(residuals), pieces, float("nan"))

    def _of(self, number: int, camera_a: int, camera_b: int) -> list[float]:
        """Residuals of every second match, and of the others."""
        key = (number, camera_a, camera_b)
        if key not in self._known:
            matches = self.found[number]
            video_a = self.streams[self._number[matches.video_a]]
            video_b = self.streams[self._number[matches.video_b]]
            stream_a, stream_b = (
                CameraStream(at.name, at.camera, video.timestamps_ns, at.reference_from_camera, video.frames)
                for at, video in ((self.streams[camera_a], video_a), (self.streams[camera_b], video_b))
            )
            pose = relative_pose(self.recording, stream_a, matches.row_a, stream_b, matches.row_b)
            errors = residual_px(matches, stream_a.camera, stream_b.camera, pose)
            self._known[key] = [typical_px(errors[0::2]), typical_px(errors[1::2])]
        return self._known[key]


def _named(order: Order, names: Sequence[str]) -> str:
    moved = [i for i, video in enumerate(order) if i != video]
    if len(moved) == 2:
        return f"the videos of {names[moved[0]]} and {names[moved[1]]} are exchanged"
    return "the videos are exchanged: " + ", ".join(f"{names[i]} shows {names[order[i]]}'s" for i in moved)
