"""`make accept-3`: the acceptance lines of issue 4 that a command can judge.

Usage: python benchmarks/accept_3.py [--only LETTERS] [--again]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.accept.harness import in_module, main

LETTERS = {
    "A": in_module("splat_speed"),
    "B": in_module("simulated_depth"),
    "C": in_module("kitchen_depth"),
    "D": in_module("fox"),
    "E": in_module("moving_depth"),
    "F": in_module("splat_formats"),
    "G": in_module("long_depth"),
}

if __name__ == "__main__":
    sys.exit(main(4, LETTERS))
