"""`make accept-2`: the acceptance lines of issue 2 that a command can judge.

Usage: python benchmarks/accept_2.py [--only LETTERS] [--again]
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
    "A": _measure("rectify_speed"),
    "B": _measure("adt"),
    "C": _measure("hot3d"),
    "D": _measure("hilti"),
    "E": _measure("xperience"),
    "F": _measure("long_video"),
    "G": _measure("cameras_and_fuzz"),
    "H": _measure("poses"),
}

if __name__ == "__main__":
    sys.exit(main(2, LETTERS))
