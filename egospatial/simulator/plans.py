"""What happens in each scene: which objects take part, where they begin, and the steps of the wearer."""

from dataclasses import dataclass

import numpy as np

from egospatial.simulator import catalogue
from egospatial.simulator.catalogue import Maker, ObjectSpec, reseeded


@dataclass(frozen=True)
class Step:
    """One step. ``where`` is a support's name or a role's; moves end there."""

    verb: str  # survey, watch, glance, move, into, use, walk
    role: str = ""
    where: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Plan:
    """Roles with the support that each begins on, and the steps. ``tempo`` > 1 is a hasty wearer."""

    roles: dict[str, str]
    steps: tuple[Step, ...]
    room_width_m: float = 4.4
    tempo: float = 1.0


PLANS: dict[str, Plan] = {
    "small": Plan(
        {
            "crate": "table",
            "mover": "table",
            "small": "table",
            "tool": "table",
            "bowl": "table",
            "tall": "table",
            "second mover": "table",
            "standing": "shelf",
            "second small": "shelf",
        },
        (
            Step("watch", where="shelf", seconds=0.45),
            Step("move", "mover", "table"),
            Step("into", "small", "crate"),
            Step("glance", where="shelf", seconds=0.4),
        ),
        room_width_m=3.3,
        tempo=1.45,
    ),
    "demo": Plan(
        {
            "crate": "table",
            "mover": "table",
            "small": "table",
            "tool": "table",
            "bowl": "table",
            "look-alike": "table",
            "second look-alike": "table",
            "tall": "shelf",
            "standing": "shelf",
        },
        (
            Step("survey", where="table", seconds=0.6),
            Step("glance", where="shelf", seconds=0.7),
            Step("move", "mover", "table"),
            Step("into", "small", "crate"),
            Step("use", "tool", "bowl"),
            Step("glance", where="counter", seconds=0.8),
            Step("move", "small", "shelf"),
        ),
        room_width_m=4.0,
        tempo=1.55,
    ),
    "standard": Plan(
        {
            "crate": "table",
            "mover": "table",
            "small": "table",
            "tool": "table",
            "bowl": "table",
            "look-alike": "table",
            "second look-alike": "table",
            "tall": "shelf",
            "shelved": "shelf",
            "second mover": "counter",
            "second tool": "counter",
            "third tool": "counter",
        },
        (
            Step("survey", where="table", seconds=1.6),
            Step("glance", where="shelf", seconds=1.2),
            Step("glance", where="counter", seconds=1.2),
            Step("move", "mover", "table"),
            Step("into", "small", "crate"),
            Step("use", "tool", "bowl"),
            Step("walk", where="shelf"),
            Step("move", "shelved", "counter"),
            Step("move", "second mover", "counter"),
            Step("use", "second tool", "second mover"),
            Step("walk", where="table"),
            Step("survey", where="table", seconds=1.0),
            Step("move", "small", "table"),
            Step("glance", where="counter", seconds=1.0),
            Step("move", "look-alike", "table"),
            Step("move", "mover", "home"),
        ),
        tempo=1.14,
    ),
}

_POOLS: dict[str, tuple[Maker, ...]] = {
    "crate": catalogue.CONTAINERS,
    "mover": catalogue.RELOCATED,
    "second mover": catalogue.RELOCATED,
    "shelved": catalogue.RELOCATED,
    "small": catalogue.SMALL,
    "second small": catalogue.SMALL,
    "tool": catalogue.TOOLS,
    "second tool": catalogue.TOOLS,
    "third tool": catalogue.TOOLS,
    "bowl": catalogue.TARGETS,
    "tall": catalogue.TALL,
    "standing": catalogue.STANDING,
}


def cast_roles(plan: Plan, rng: np.random.Generator) -> dict[str, ObjectSpec]:
    """An object for every role, none twice, in the order of the plan."""
    left: dict[int, list[Maker]] = {}
    for pool in _POOLS.values():
        if id(pool) not in left:
            left[id(pool)] = [pool[k] for k in rng.permutation(len(pool))]
    pair = catalogue.LOOK_ALIKES[int(rng.integers(len(catalogue.LOOK_ALIKES)))]
    special = {"look-alike": pair[0], "second look-alike": pair[1]}
    out: dict[str, ObjectSpec] = {}
    for role in plan.roles:
        made = special[role]() if role in special else left[id(_POOLS[role])].pop(0)()
        if role == "second look-alike":
            out[role] = reseeded(made, out["look-alike"].materials[0].seed)
        else:
            out[role] = reseeded(made, int(rng.integers(1, 2**30)))
    return out
