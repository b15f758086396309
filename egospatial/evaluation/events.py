"""Pick-ups and put-downs: which were found, and which were not there."""

from dataclasses import dataclass

from egospatial.evaluation.aligned import Aligned
from lifting.records import Event, EventKind

TOLERANCE_NS = 500_000_000
_SAME_EVENT_NS = 300_000_000
_KINDS = {
    EventKind.PICK_UP: "pick_up", EventKind.TAKE_OUT: "pick_up",
    EventKind.PUT_DOWN: "put_down", EventKind.PUT_INTO: "put_down",
}  # fmt: skip


@dataclass(frozen=True)
class EventScore:
    """``missed`` and ``extra`` say which object, what and when (seconds from the first frame)."""

    truth: int
    found: int
    matched: int
    time_errors_s: tuple[float, ...]
    missed: tuple[str, ...]
    extra: tuple[str, ...]

    @property
    def recall(self) -> float:
        """Share of true events that were found."""
        return self.matched / self.truth if self.truth else float("nan")

    @property
    def precision(self) -> float:
        """Share of found events that are true."""
        return self.matched / self.found if self.found else float("nan")


def event_score(aligned: Aligned) -> EventScore:
    """Match by object, kind (taking out is a pick-up, putting into a put-down) and time within half a second."""
    true, found = _simple(aligned.truth_in_world.events), _simple(aligned.lifted.events)
    pairs = sorted(
        (abs(t[2] - f[2]), i, j)
        for i, t in enumerate(true)
        for j, f in enumerate(found)
        if t[:2] == f[:2] and abs(t[2] - f[2]) <= TOLERANCE_NS
    )
    used_true: set[int] = set()
    used_found: set[int] = set()
    errors = []
    for distance, i, j in pairs:
        if i not in used_true and j not in used_found:
            used_true.add(i)
            used_found.add(j)
            errors.append(distance / 1e9)
    labels = {object_id: label for label, object_id in aligned.label_ids.items()}
    start = int(aligned.timestamps_ns[0])

    def say(item: tuple[int, str, int]) -> str:
        return f"{labels.get(item[0], f'object {item[0]}')}: {item[1]} at {(item[2] - start) / 1e9:.2f} s"

    return EventScore(
        len(true), len(found), len(errors), tuple(errors),
        tuple(say(t) for i, t in enumerate(true) if i not in used_true),
        tuple(say(f) for j, f in enumerate(found) if j not in used_found),
    )  # fmt: skip


def _simple(events: tuple[Event, ...]) -> list[tuple[int, str, int]]:
    """Object, kind and time; what is logged twice (put down, and put into) counts once."""
    kept: list[tuple[int, str, int]] = []
    for event in sorted(events, key=lambda item: item.time_ns):
        row = (event.object_id, _KINDS[event.kind], event.time_ns)
        if not any(row[:2] == other[:2] and row[2] - other[2] <= _SAME_EVENT_NS for other in kept):
            kept.append(row)
    return kept
