"""When things happened, and in which order."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lifting.records import Event, EventKind, MotionState
from spatial_qa.decide import Measurement, band, critical
from spatial_qa.motion import TAKING, decided_relocations, first_onset, joint_confidence, known_throughout, undecided
from spatial_qa.operations.registry import Operands, operation
from spatial_qa.view import NotMeasurable, SceneView

MIN_GAP_S = 1.0
MIN_EDGE_S = 0.3
MIN_SEEN_NS = 500_000_000
MIN_PIXELS = 400
REFERENCE_PIXELS = 1024 * 1024
OUT_OF_VIEW_DEG = 5.0


def _order_of_times(
    view: SceneView, operands: Operands, time_of: Callable[[int], float], sigma_s: float
) -> Measurement:
    seconds = np.array([time_of(i) for i in operands["candidates"]])
    ranks = np.argsort(seconds, kind="stable")
    gaps = np.diff(seconds[ranks])
    spread = np.full(len(gaps), np.sqrt(2) * sigma_s)
    sigma, margin, required = critical(gaps, spread, np.maximum(MIN_GAP_S, view.floors.sigmas * spread))
    return Measurement(seconds.tolist(), tuple(int(i) for i in ranks), sigma, margin, required)


@operation("order_first_moved", "objects")
def order_first_moved(view: SceneView, operands: Operands) -> Measurement:
    """``candidates`` in the order in which each was first taken from its place in the window."""
    window = (operands["from_ns"], operands["to_ns"])
    sigma = max(_time_sigma(view, i, window) for i in operands["candidates"])
    found = _order_of_times(view, operands, lambda i: view.seconds(first_onset(view, i, *window)), sigma)
    return _unless_undecided(view, operands["candidates"], window, found)


def _unless_undecided(view: SceneView, ids: list[int], window: tuple[int, int], found: Measurement) -> Measurement:
    """Events that are not decided leave no margin. Objects' doubts add up: their joint probability must hold."""
    events = [e for e in view.scene.lifted.events if e.object_id in ids and window[0] <= e.time_ns <= window[1]]
    clear = joint_confidence(events) >= 0.99 and not any(undecided(view, i, *window) for i in ids)
    return found if clear else replace(found, margin=0.0)


def _time_sigma(view: SceneView, object_id: int, window: tuple[int, int]) -> float:
    sigmas = [
        e.time_sigma_ns / 1e9
        for e in view.scene.lifted.events
        if e.object_id == object_id and window[0] <= e.time_ns <= window[1]
    ]
    return max([view.floors.event_time_s, *sigmas])


@operation("order_first_seen", "objects")
def order_first_seen(view: SceneView, operands: Operands) -> Measurement:
    """``candidates`` in the order in which each first came into view (for half a second, large enough) in the window.

    The time is when the mask first shows; what is earlier must be out of the picture by geometry, for a tracker
    that starts late sees late. So the margin is zero where an object could have been in view before.
    """
    window = (operands["from_ns"], operands["to_ns"])
    found = _order_of_times(view, operands, lambda i: view.seconds(first_seen(view, i, *window)), 0.1)
    hidden = all(out_of_view_before(view, i, *window) for i in operands["candidates"])
    return found if hidden else replace(found, margin=0.0)


def min_pixels(view: SceneView, reference: int = MIN_PIXELS) -> int:
    """A mask size given for 1024 x 1024 pixels, for this recording's pictures."""
    width, height = view.scene.image_size_wh_px
    return max(1, round(reference * width * height / REFERENCE_PIXELS))


def first_seen(view: SceneView, object_id: int, from_ns: int, to_ns: int) -> int:
    """First moment from which an object is visible, large enough, for at least half a second."""
    track = view.trajectory(object_id)
    stamps = track.timestamps_ns
    seen = (track.visible_pixels >= min_pixels(view)) & (stamps >= from_ns) & (stamps <= to_ns)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], seen, [False]]).astype(np.int8)))
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        if stamps[stop - 1] - stamps[start] >= MIN_SEEN_NS:
            return int(stamps[start])
    raise NotMeasurable("never_seen")


def out_of_view_before(view: SceneView, object_id: int, from_ns: int, to_ns: int) -> bool:
    """True if, until half a second before it was first seen, the object lay outside the picture by 5 degrees.

    Its place is the first one known from that sight on, where it lies still; before that, nobody saw it move.
    """
    seen_ns = first_seen(view, object_id, from_ns, to_ns)
    track = view.trajectory(object_id)
    known = np.isfinite(track.centers_in_world).all(axis=1) & (track.timestamps_ns >= seen_ns)
    rows = np.flatnonzero(known)
    if not len(rows) or track.states[rows[0]] != MotionState.REST:
        return False
    stamps = view.scene.timestamps_ns
    earlier = np.flatnonzero((stamps >= from_ns) & (stamps < seen_ns - MIN_SEEN_NS))
    return bool((outside_picture_deg(view, track.centers_in_world[rows[0]], earlier) >= OUT_OF_VIEW_DEG).all())


def outside_picture_deg(view: SceneView, place: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """How far a point [3] lies outside the nearest edge of the picture in some frames [F], as an angle.

    Negative inside, 180 behind the camera, NaN where the camera's pose is unknown.
    """
    pixels = view.pixels_of(place, frames)
    matrix, size = view.scene.camera_matrix, view.scene.image_size_wh_px
    found = np.full(len(frames), -180.0)
    for axis in (0, 1):
        focal, middle = matrix[axis, axis], matrix[axis, 2]
        low = np.degrees(np.arctan2(-0.5 - middle, focal))
        high = np.degrees(np.arctan2(size[axis] - 0.5 - middle, focal))
        angle = np.degrees(np.arctan2(pixels[:, axis] - middle, focal))
        found = np.maximum(found, np.maximum(low - angle, angle - high))
    return np.where(pixels[:, 2] <= 0, 180.0, found)


def merged_events(view: SceneView, from_ns: int, to_ns: int) -> list[Event]:
    """The log with doubles left out: taking out is also picking up, putting into is also putting down."""
    special = {EventKind.PICK_UP: EventKind.TAKE_OUT, EventKind.PUT_DOWN: EventKind.PUT_INTO}
    log = sorted(view.scene.lifted.events, key=lambda e: (e.time_ns, e.object_id, e.kind.value))
    kept = []
    for event in log:
        better = special.get(event.kind)
        double = any(
            other.kind is better
            and other.object_id == event.object_id
            and abs(other.time_ns - event.time_ns) < 500_000_000
            for other in log
        )
        if not double and from_ns <= event.time_ns <= to_ns:
            kept.append(event)
    return kept


@operation("event_between", "index")
def event_between(view: SceneView, operands: Operands) -> Measurement:
    """The only one of ``operands["cells"]`` that happens strictly between ``from_ns`` and ``to_ns``.

    A cell is [kind, position in ``candidates``]. Margin in seconds: from the interval's ends to every event of
    the candidates. What other things do in the interval is of no matter, so a log that lacks them does no harm;
    what the candidates do must be known and decided.
    """
    from_ns, to_ns, ids = operands["from_ns"], operands["to_ns"], operands["candidates"]
    stamps = view.scene.timestamps_ns
    log = [e for e in merged_events(view, int(stamps[0]), int(stamps[-1])) if e.object_id in ids]
    cells = [(kind, ids[position]) for kind, position in operands["cells"]]
    inside = [e for e in log if from_ns < e.time_ns < to_ns]
    stated = [e for e in inside if (e.kind.value, e.object_id) in cells]
    if len(stated) != 1:
        raise NotMeasurable("not_one_event")
    event = stated[0]
    sigma = max([view.floors.event_time_s, *(e.time_sigma_ns / 1e9 for e in log)])
    gaps = [abs(e.time_ns - edge) / 1e9 for e in log for edge in (from_ns, to_ns)]
    required = max(MIN_EDGE_S, view.floors.sigmas * sigma)
    answer = cells.index((event.kind.value, event.object_id))
    found = Measurement(view.seconds(event.time_ns), answer, sigma, min(gaps), required)
    known = len(inside) == 1 and all(known_throughout(view, i, from_ns, to_ns) for i in ids)
    if not known:
        found = replace(found, margin=0.0)
    return _unless_undecided(view, ids, (from_ns, to_ns), found)


@operation("event_time", "index")
def event_time(view: SceneView, operands: Operands) -> Measurement:
    """In which of eight equal intervals (``operands["edges_s"]``, nine of them) ``object`` was taken from its place."""
    window = (operands["from_ns"], operands["to_ns"])
    moves = decided_relocations(view, operands["object"], *window)
    if len(moves) != 1:
        raise NotMeasurable("not_one_move")
    sigma = _time_sigma(view, operands["object"], window)
    seconds = view.seconds(moves[0].start_ns)
    edges = operands["edges_s"]
    found = band(seconds, sigma, edges[1:-1], view.floors.sigmas, MIN_EDGE_S)
    logged = [e.time_ns for e in view.scene.lifted.events if e.object_id == operands["object"] and e.kind in TAKING]
    apart = min((abs(time - moves[0].start_ns) / 1e9 for time in logged), default=np.inf)
    if apart > 0.5:  # log and trajectory must tell the same story
        found = Measurement(seconds, found.answer, sigma, 0.0, found.required_margin)
    return _unless_undecided(view, [operands["object"]], window, found)
