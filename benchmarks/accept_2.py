"""`make accept-2`: the acceptance lines of issue 2 that a command can judge.

Usage: python benchmarks/accept_2.py [--only LETTERS] [--again]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.accept.harness import in_module, main

LETTERS = {
    "A": in_module("rectify_speed"),
    "B": in_module("adt"),
    "C": in_module("hot3d"),
    "D": in_module("hilti"),
    "E": in_module("xperience"),
    "F": in_module("long_video"),
    "G": in_module("cameras_and_fuzz"),
    "H": in_module("poses"),
}

if __name__ == "__main__":
    sys.exit(main(2, LETTERS))
