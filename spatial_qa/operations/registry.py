"""The computations that certificates name, and how they are run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from spatial_qa.decide import Measurement, on_ladder
from spatial_qa.view import NotMeasurable, SceneView

Operands = Mapping[str, Any]
Compute = Callable[[SceneView, Operands], Measurement]

KINDS = ("index", "object", "objects", "ladder")
"""What ``Measurement.answer`` means for the options.

index    an option's value equals the answer (sector, band, bin, count, interval)
object   the answer is an index into ``operands["labels"]``
objects  the answer is a list of such indices, in order
ladder   the answer is an index into ``operands["rungs"]``
"""

# Operands under these names are object ids or lists of them; everything else is a time, a number or a text.
ID_OPERANDS = ("object", "anchor", "facing", "target", "other", "candidates")


@dataclass(frozen=True)
class Operation:
    """A named pure function (scene, operands) -> measurement."""

    name: str
    kind: str
    compute: Compute


@dataclass(frozen=True)
class Unmeasured:
    """Could not be computed in this scene, and why."""

    reason: str


OPERATIONS: dict[str, Operation] = {}


def operation(name: str, kind: str) -> Callable[[Compute], Compute]:
    """Register a computation under a name that stored certificates use: names never change meaning."""

    def register(compute: Compute) -> Compute:
        if kind not in KINDS or name in OPERATIONS:
            raise ValueError(f"operation {name!r}: kind {kind!r} is unknown or the name is taken")
        OPERATIONS[name] = Operation(name, kind, compute)
        return compute

    return register


def measure(view: SceneView, name: str, operands: Operands) -> Measurement | Unmeasured:
    """Run an operation; on a ladder (``operands["rungs"]``) the answer is the rung that holds the value."""
    if name not in OPERATIONS:
        return Unmeasured("operation_unknown")
    try:
        found = OPERATIONS[name].compute(view, operands)
    except NotMeasurable as problem:
        return Unmeasured(problem.reason)
    if "rungs" in operands:
        found = on_ladder(found, operands["rungs"], operands["ratio"])
    answer = list(found.answer) if isinstance(found.answer, tuple) else found.answer
    return replace(found, answer=answer)
