"""`make accept-1`: the acceptance lines of issue 1 that a command can judge.

Usage: python benchmarks/accept_1.py [--only LETTERS] [--again]
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.accept import bad_inputs, demo_runs, kills, kitchen
from benchmarks.accept.harness import Letter, main, run, samples


def kills_c(letter: Letter) -> None:
    """First 60 frames of the kitchen."""
    command = [sys.executable, "-m", "egospatial", "run", str(samples() / "sevenscenes_redkitchen"), "--quiet"]
    command += ["--end", "9.99", "--out"]
    with tempfile.TemporaryDirectory() as scratch:
        kills.measure_kills(letter, command, Path(scratch) / "killed", Path(scratch) / "whole")


def house_d(letter: Letter) -> None:
    """Tests, lint, types, imports, and a help text that comes at once."""
    tests = run(["make", "test"], timeout_s=3000)
    letter.true("make test", tests.status == 0, tests.stdout.strip().splitlines()[-1] if tests.stdout.strip() else "")
    letter.note(f"make test: wall {tests.wall_s:.0f} s, CPU {tests.cpu_s:.0f} s")
    letter.at_most("minutes of make test (wall, or CPU/2 where loaded)", tests.judged_s / 60, 20)
    for recipe in ("lint", "types", "imports"):
        done = run(["make", recipe])
        letter.true(f"make {recipe}", done.status == 0, "clean" if done.status == 0 else done.stdout[-200:])
    help_runs = [run([str(Path(sys.executable).parent / "egospatial"), "--help"]) for _ in range(5)]
    letter.at_most("seconds of --help (best of 5)", min(done.wall_s for done in help_runs), 0.5)
    code = "import sys, egospatial.cli as c\ntry: c.main(['--help'])\n"
    code += "except SystemExit: pass\nprint('torch' in sys.modules)"
    probe = run([sys.executable, "-c", code])
    letter.true("--help without torch", probe.stdout.strip().endswith("False"))


LETTERS = {
    "A": demo_runs.measure,
    "B": kitchen.measure,
    "C": kills_c,
    "D": house_d,
    "E": bad_inputs.measure,
}

if __name__ == "__main__":
    sys.exit(main(1, LETTERS))
