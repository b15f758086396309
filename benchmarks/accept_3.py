"""`make accept-3`: the acceptance lines of issue 4 that a command can judge.

Usage: python benchmarks/accept_3.py [--only LETTERS] [--again]
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.accept.harness import Letter, main


def _measure(module: str) -> Callable[[Letter], None]:
    """The letter's module, imported when its turn comes: a letter that cannot be imported fails alone."""
    return lambda letter: importlib.import_module(f"benchmarks.accept.{module}").measure(letter)


LETTERS = {
    "A": _measure("splat_speed"),
    "B": _measure("simulated_depth"),
    "C": _measure("kitchen_depth"),
    "D": _measure("fox"),
    "E": _measure("moving_depth"),
    "F": _measure("splat_formats"),
    "G": _measure("long_depth"),
}

if __name__ == "__main__":
    sys.exit(main(4, LETTERS))
