"""What every `make accept-N` shares: letters, verdict lines, results kept per commit, timed commands."""

import argparse
import importlib
import json
import os
import resource
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".accept"


@dataclass
class Check:
    """One measured figure against its threshold."""

    name: str
    figure: str
    threshold: str
    passed: bool


@dataclass
class Letter:
    """One acceptance line: its checks and free notes."""

    letter: str
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return bool(self.checks) and all(check.passed for check in self.checks)

    def at_most(self, name: str, value: float, limit: float, unit: str = "") -> None:
        """NaN fails."""
        self.checks.append(Check(name, f"{value:.4g}{unit}", f"<= {limit:g}{unit}", value <= limit))

    def at_least(self, name: str, value: float, limit: float, unit: str = "") -> None:
        """NaN fails."""
        self.checks.append(Check(name, f"{value:.4g}{unit}", f">= {limit:g}{unit}", value >= limit))

    def true(self, name: str, condition: bool, figure: str = "") -> None:
        self.checks.append(Check(name, figure or str(condition), "must hold", bool(condition)))

    def note(self, text: str) -> None:
        self.notes.append(text)
        print(f"  . {text}", file=sys.stderr, flush=True)

    def line(self) -> str:
        parts = "; ".join(f"{'' if c.passed else 'FAIL '}{c.name} {c.figure} ({c.threshold})" for c in self.checks)
        return f"{self.letter} {'pass' if self.passed else 'fail'}: {parts or 'nothing measured'}"


@dataclass
class Ran:
    """A finished command."""

    status: int
    wall_s: float
    cpu_s: float
    stdout: str
    stderr: str

    loaded: bool = False

    @property
    def judged_s(self) -> float:
        """Wall time; CPU time / 2 cores where other work loaded the machine (the wall time is printed all the same)."""
        return self.cpu_s / 2 if self.loaded else self.wall_s


def run(command: list[str], cwd: Path = ROOT, env: dict[str, str] | None = None, timeout_s: float = 3600) -> Ran:
    """Run a command to its end; CPU time is that of the command and the children that it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    wall = time.monotonic() - start
    others = os.getloadavg()[1] - min(cpu / wall, os.cpu_count() or 1)
    return Ran(done.returncode, wall, cpu, done.stdout, done.stderr, loaded=wall > 60 and others > 0.7)


def egospatial(*args: str | Path, timeout_s: float = 3600, env: dict[str, str] | None = None) -> Ran:
    """Run this checkout's command with the interpreter that runs the harness."""
    return run([sys.executable, "-m", "egospatial", *map(str, args)], timeout_s=timeout_s, env=env)


def unseen_seeds(count: int) -> list[int]:
    """Seeds nobody has looked at."""
    return [secrets.randbelow(900_000) + 100_000 for _ in range(count)]


def samples() -> Path:
    """The sample recordings."""
    return Path(os.environ.get("EGOSPATIAL_SAMPLES", ROOT.parent / "shared" / "data"))


def _commit() -> str | None:
    clean = not subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True).stdout
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return head if clean and head else None


def in_module(name: str) -> Callable[[Letter], None]:
    """``measure`` of a letter's module, imported when its turn comes: one that cannot be imported fails alone."""
    return lambda letter: importlib.import_module(f"benchmarks.accept.{name}").measure(letter)


def main(issue: int, letters: dict[str, Callable[[Letter], None]]) -> int:
    """Run the letters (or --only), print a line each; the status is the worst."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="letters to run, e.g. A or AC")
    parser.add_argument("--again", action="store_true", help="run although a result is kept for this commit")
    args = parser.parse_args()
    results = [_one(issue, name, letters[name], args.again) for name in letters if not args.only or name in args.only]
    print()
    for result in results:
        print(result.line(), flush=True)
    return 0 if all(result.passed for result in results) else 1


def _one(issue: int, name: str, measure: Callable[[Letter], None], again: bool) -> Letter:
    commit = _commit()
    kept = KEPT / f"{issue}-{name}-{commit}.json"
    if commit and kept.exists() and not again:
        raw = json.loads(kept.read_text())
        print(f"{name}: kept for this commit", file=sys.stderr)
        return Letter(name, [Check(**check) for check in raw["checks"]], raw["notes"], raw["seconds"])
    print(f"{name}: running", file=sys.stderr, flush=True)
    result = Letter(name)
    start = time.monotonic()
    try:
        measure(result)
    except Exception as error:  # a letter that cannot be measured has failed, and the others go on
        result.true(f"measured ({type(error).__name__}: {error})"[:300], False)
    result.seconds = time.monotonic() - start
    print(f"{result.line()}  [{result.seconds:.0f} s]", file=sys.stderr, flush=True)
    if commit:
        KEPT.mkdir(exist_ok=True)
        kept.write_text(json.dumps(asdict(result), indent=1))
    return result
