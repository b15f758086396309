"""Eight options around a measured answer. Every way of making them is blind to which one is the key where it can be.

A plan holds the options in a fixed order; `lay_out` shuffles them by ``qa_id`` and letters them.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spatial_qa.decide import Measurement
from spatial_qa.errors import QuestionError
from spatial_qa.hashing import pick, shuffled, tidy
from spatial_qa.records import LETTERS, OPTION_COUNT, Option

MIN_STEP = 1.12
MAX_LENGTH_Z = 1.5
KEY = "key"


@dataclass(frozen=True)
class Plan:
    """Eight options before shuffling; ``extra`` joins the certificate's operands."""

    options: tuple[Option, ...]
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NoPlan:
    """Eight valid options cannot be made, and why."""

    reason: str
    measured: float = float("nan")
    required: float = float("nan")


OptionMaker = Callable[[Measurement, Mapping[str, Any], str], Plan | NoPlan]


def lay_out(plan: Plan, qa_id: str) -> tuple[tuple[Option, ...], str]:
    """Shuffle by ``qa_id``; returns options and the key's letter.

    Raises:
        QuestionError: if there are not eight different options with exactly one key (a fault of a template).
    """
    options = tuple(shuffled(plan.options, "positions", qa_id))
    keys = [i for i, option in enumerate(options) if option.origin == KEY]
    if len(options) != OPTION_COUNT or len({o.text for o in options}) != OPTION_COUNT or len(keys) != 1:
        raise QuestionError(f"{qa_id}: need {OPTION_COUNT} different options and one key, have {options}")
    return options, LETTERS[keys[0]]


# -- natural eights and counts ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Natural:
    """All eight values of a complete set; ``origins`` may say of some where they would be true."""

    texts: tuple[str, ...]
    origins: Mapping[int, str] = field(default_factory=dict)

    def __call__(self, found: Measurement, operands: Mapping[str, Any], qa_id: str) -> Plan | NoPlan:
        """Make the plan."""
        options = [
            Option(text, index, KEY if index == found.answer else self.origins.get(index, "complete set of eight"))
            for index, text in enumerate(self.texts)
        ]
        return Plan(tuple(options))


COUNTS = Natural(tuple(str(number) for number in range(OPTION_COUNT)))
"""The numbers 0 to 7."""


# -- ladders ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ladder:
    """Eight log-spaced values; the key's rank is uniform over the eight, by hash of ``qa_id``.

    The step is wide enough that three sigma stay inside the half step around the key: with s = sigma / value,
    value - value / sqrt(ratio) >= 3 s value gives ratio >= (1 - 3 s)^-2. Every rung has the same decimals and
    characters. Where a rung comes near one of ``operands["asides"]`` ({text: value}), its origin says so.
    """

    unit: str
    min_ratio: float = MIN_STEP
    max_ratio: float = 1.6

    def __call__(self, found: Measurement, operands: Mapping[str, Any], qa_id: str) -> Plan | NoPlan:
        """Make the plan."""
        value, need = float(found.value), found.required_margin
        if not value > 0 or not np.isfinite(need) or need >= value:
            return NoPlan("sigma_too_large", found.sigma, value)
        # 3 % are kept for the rounding of the printed rungs.
        ratio = float(max(self.min_ratio, MIN_STEP, 1.03 * (1 - need / value) ** -2))
        if ratio > self.max_ratio:
            return NoPlan("sigma_too_large", ratio, self.max_ratio)
        rank = pick(OPTION_COUNT, "rank", qa_id)
        texts = same_width([value * ratio ** (i - rank) for i in range(OPTION_COUNT)])
        if texts is None:
            return NoPlan("ladder_not_printable", value)
        rungs = [float(text) for text in texts]
        if any(high / low < MIN_STEP - 1e-9 for low, high in itertools.pairwise(rungs)):
            return NoPlan("ladder_not_printable", value)
        noted = operands.get("asides", {})
        options = [
            Option(f"{text} {self.unit}", rung, KEY if i == rank else _aside(rung, ratio, noted))
            for i, (text, rung) in enumerate(zip(texts, rungs, strict=True))
        ]
        return Plan(tuple(options), {"rungs": rungs, "ratio": tidy(ratio)})


def _aside(rung: float, ratio: float, noted: Mapping[str, float]) -> str:
    for text, value in sorted(noted.items()):
        if value > 0 and abs(np.log(rung / value)) < np.log(ratio) / 2:
            return f"true elsewhere: {text}"
    return "rung of the ladder"


def same_width(values: Sequence[float]) -> list[str] | None:
    """Numbers with equal decimals and equal characters, or None. Tens are padded: 04.2, 12.7.

    Two decimals if the smallest is at least 0.3 (rounding then stays below 1.7 %), else three.
    """
    low, high = min(values), max(values)
    if low < 0.03 or high >= 1000:
        return None
    decimals = 3 if low < 0.3 else 2 if high < 10 else 1 if low >= 3 else 2
    width = len(f"{high:.{decimals}f}")
    return [f"{value:0{width}.{decimals}f}" for value in values]


# -- objects and orders -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Objects:
    """The eight objects of ``operands["labels"]``; refused where the key's length stands out."""

    def __call__(self, found: Measurement, operands: Mapping[str, Any], qa_id: str) -> Plan | NoPlan:
        """Make the plan."""
        options = [
            Option(the(label), label, KEY if i == found.answer else "true elsewhere: object of the scene")
            for i, label in enumerate(operands["labels"])
        ]
        return free_text(Plan(tuple(options)))


# The dihedral group of the square as permutations of four places, in its three conjugate forms: eight orders each.
# All contain the mirror image; whichever of an orbit's members is the key, the orbit is the same set.
_PAIRINGS = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))


@dataclass(frozen=True)
class Orders:
    """Orders of four: the orbit of the key under a group of eight, so that the options cannot give the key away.

    Every object stands at every place in exactly two of the eight options. In two of three questions the set
    has single swaps of neighbours; it always has the mirrored order.
    """

    def __call__(self, found: Measurement, operands: Mapping[str, Any], qa_id: str) -> Plan | NoPlan:
        """Make the plan."""
        labels, key = operands["labels"], list(found.answer)
        options = []
        for places in square_group(_PAIRINGS[pick(len(_PAIRINGS), "pairing", qa_id)]):
            order = [labels[key[place]] for place in places]
            origin = KEY if places == (0, 1, 2, 3) else order_origin(places)
            options.append(Option(", ".join(the(label) for label in order), order, origin))
        return Plan(tuple(options))


def square_group(pairs: tuple[tuple[int, int], tuple[int, int]]) -> list[tuple[int, ...]]:
    """The eight permutations of 0..3 that keep two pairs together (as a set of pairs)."""
    kept = {frozenset(pair) for pair in pairs}
    return [p for p in itertools.permutations(range(4)) if {frozenset(p[i] for i in pair) for pair in pairs} == kept]


def order_origin(places: Sequence[int]) -> str:
    """How an order differs from the key: the mirror image, or how many pairs are swapped."""
    swapped = sum(a > b for a, b in itertools.combinations(places, 2))
    if swapped == 6:
        return "mirrored order"
    if swapped == 1:
        return "neighbours swapped"
    return f"order with {swapped} pairs swapped"


@dataclass(frozen=True)
class Cells:
    """Options of two attributes, [kind, position in labels] in ``operands["cells"]``; ``texts`` has one per kind."""

    texts: Mapping[str, str]

    def __call__(self, found: Measurement, operands: Mapping[str, Any], qa_id: str) -> Plan | NoPlan:
        """Make the plan."""
        key_kind, key_position = operands["cells"][found.answer]
        options = []
        for i, (kind, position) in enumerate(operands["cells"]):
            label = operands["labels"][position]
            same = {key_kind: "same event, other object"}.get(kind, "other event, other object")
            origin = "same object, other event" if position == key_position else same
            text = self.texts[kind].format(the(label))
            options.append(Option(text, [kind, label], KEY if i == found.answer else origin))
        return free_text(Plan(tuple(options)))


def ring_of_cells(kinds: Sequence[str], count: int) -> list[list[Any]]:
    """Eight cells of a 4 x 4 table, two in every row and column: [kinds[i], i] and [kinds[i], i + 1].

    Each cell shares one attribute with two others and none with five, whichever is the key.
    """
    if len(kinds) != 4 or count != 4:
        raise QuestionError(f"a ring of cells needs 4 kinds and 4 objects, not {len(kinds)} and {count}")
    return [[kinds[i], (i + step) % 4] for i in range(4) for step in (0, 1)]


def free_text(plan: Plan) -> Plan | NoPlan:
    """Refuse options whose key is longer or shorter than the wrong ones by more than 1.5 standard deviations."""
    z = length_z(plan.options)
    return NoPlan("length_z", z, MAX_LENGTH_Z) if abs(z) > MAX_LENGTH_Z else plan


def length_z(options: Sequence[Option]) -> float:
    """(key length - mean of the wrong ones) / their population standard deviation; 0 or inf where that is 0."""
    key = next(len(option.text) for option in options if option.origin == KEY)
    wrong = np.array([len(option.text) for option in options if option.origin != KEY], dtype=np.float64)
    difference = key - float(wrong.mean())
    spread = float(wrong.std())
    if spread == 0:
        return 0.0 if difference == 0 else float(np.copysign(np.inf, difference))
    return difference / spread


def the(label: str) -> str:
    """A label with its article."""
    words = label.strip()
    return words if words.lower().startswith(("the ", "my ", "his ", "her ")) else f"the {words}"
