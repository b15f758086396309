"""Does every video belong to the camera that it is given for? All orders of the videos of cameras of one size.

Evidence are points matched between videos at one time (cameras that see the same things) and within a video over time
(a camera that moves with the rig). The pixels are matched once; an order of the videos only changes with which lens
and place they are read.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from geo.convention_check.epipolar import UNIT, relative_pose, residual_px, typical_px
from geo.convention_check.features import Features, Matches
from geo.convention_check.pairs import frame_pairs, posed_rows
from geo.convention_check.records import CLAIMS, Finding, Measured, Topic, Verdict
from geo.convention_check.statistics import Comparison, compare
from geo.recording import CameraStream, Recording

EVIDENCE = "points seen by two cameras, and by one over time"
PLAUSIBLE_PX = 8.0
_INSTANTS = 4
_PAIRS_OVER_TIME = 6
_ALL_ORDERS_UP_TO = 5
_SAME_TIME_NS = 5_000_000
Order = tuple[int, ...]  # camera i shows the video of camera order[i]


def check_exchange(recording: Recording, features: Features) -> Finding | None:
    """Judge the claimed order of the videos; None if no two cameras have pictures of one size."""
    streams = [recording.reference, *recording.others]
    orders = _orders(streams)
    if len(orders) < 2:
        return None
    found = _matches(recording, streams, features)
    if not found:
        return _finding(Verdict.UNDECIDED, "too few points are seen twice, by two cameras or over time")
    costs = _Costs(recording, streams, found)
    measured = {order: costs.measure(order) for order in orders}
    claimed = measured.pop(orders[0])
    compared = {order: compare(claimed, other) for order, other in measured.items()}
    best = min(measured, key=lambda order: compared[order].log_ratio)
    names = [stream.name for stream in streams]
    fits = measured[best].typical() < PLAUSIBLE_PX
    if compared[best].other_is_better and fits:
        verdict, reason = Verdict.LOOK_ALIKE, ""
    else:
        open_orders = [order for order in measured if not compared[order].claim_is_better]
        swaps = [order for order in open_orders if sum(a != b for a, b in enumerate(order)) == 2]
        told = "; ".join(_named(order, names) for order in swaps or open_orders[:1])
        verdict = Verdict.UNDECIDED if told else Verdict.FITS
        reason = f"the data cannot tell whether {told}" if told else ""
    return _finding(verdict, reason, claimed, measured[best], _named(best, names), compared[best])


def _finding(
    verdict: Verdict, reason: str, claimed: Measured | None = None, other: Measured | None = None, name: str = "",
    result: Comparison | None = None,
) -> Finding:  # fmt: skip
    nan = float("nan")
    return Finding(
        Topic.EXCHANGE, verdict, CLAIMS[Topic.EXCHANGE], nan if claimed is None else claimed.typical(), name,
        nan if other is None else other.typical(), UNIT, nan if result is None else result.log_ratio,
        nan if result is None else result.sigma, 0 if result is None else result.pairs, EVIDENCE, reason,
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
        at = {stream.name: _row_at(stream, int(reference.timestamps_ns[row])) for stream in streams}
        seeing = [(name, there) for name, there in at.items() if there is not None]
        for (a, row_a), (b, row_b) in itertools.combinations(seeing, 2):
            out.append(features.matches(a, row_a, b, row_b))
    for stream in streams:
        posed: Int64[np.ndarray, "P"] = posed_rows(recording.trajectory, stream.timestamps_ns)
        pairs = frame_pairs(stream.timestamps_ns[posed])
        for a, b in posed[pairs[:: max(1, len(pairs) // _PAIRS_OVER_TIME)]].tolist():
            out.append(features.matches(stream.name, a, stream.name, b))
    return [matches for matches in out if matches is not None]


def _row_at(stream: CameraStream, timestamp_ns: int) -> int | None:
    if len(stream.timestamps_ns) == 0:
        return None
    row = int(np.argmin(np.abs(stream.timestamps_ns - timestamp_ns)))
    return row if abs(int(stream.timestamps_ns[row]) - timestamp_ns) <= _SAME_TIME_NS else None


@dataclass
class _Costs:
    """Residual of each set of points under each pair of cameras, worked out when asked for and kept."""

    recording: Recording
    streams: list[CameraStream]
    found: list[Matches]

    def __post_init__(self) -> None:
        self._known: dict[tuple[int, int, int], list[float]] = {}
        self._number = {stream.name: number for number, stream in enumerate(self.streams)}

    def measure(self, order: Order) -> Measured:
        """Residuals of an order; one cluster per pair of pictures."""
        camera_of_video = {video: camera for camera, video in enumerate(order)}
        residuals: list[float] = []
        clusters: list[int] = []
        for number, matches in enumerate(self.found):
            cameras = (
                camera_of_video[self._number[matches.video_a]],
                camera_of_video[self._number[matches.video_b]],
            )
            parts = self._of(number, *cameras)
            residuals += parts
            clusters += [number] * len(parts) if len(self.found) >= 8 else [2 * number + i for i in range(len(parts))]
        return Measured(np.array(residuals), np.array(clusters, dtype=np.int64), float("nan"))

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


def _named(order: Order, names: list[str]) -> str:
    moved = [i for i, video in enumerate(order) if i != video]
    if len(moved) == 2:
        return f"the videos of {names[moved[0]]} and {names[moved[1]]} are exchanged"
    return "the videos are exchanged: " + ", ".join(f"{names[i]} shows {names[order[i]]}'s" for i in moved)
