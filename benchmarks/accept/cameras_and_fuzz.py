"""Letter G: laws of every camera model over fresh random cameras and rays, and a fuzz of every reader.

The tests in tests/geo say what has to hold; here they run with a seed that nobody has looked at and more examples, and
their worst errors and counts become figures. Fuzz tests are found by their names.
"""

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.accept.harness import ROOT, Letter, Ran, run, samples, unseen_seeds

CAMERA_TESTS = "tests/geo/test_camera_models.py"
COVERAGE_TEST = "tests/house/test_fuzz_coverage.py"
FACTOR = 3
_MINUTES = 8.0


def measure(letter: Letter) -> None:
    """Run both parts and judge what they wrote."""
    (seed,) = unseen_seeds(1)
    letter.note(f"seed {seed}, {FACTOR} times the examples of the test suite")
    with tempfile.TemporaryDirectory() as scratch:
        rows = Path(scratch) / "rows.jsonl"
        env = {
            "EGOSPATIAL_PROPERTY_SEED": str(seed),
            "EGOSPATIAL_PROPERTY_FACTOR": str(FACTOR),
            "EGOSPATIAL_FUZZ_SEED": str(seed),
            "EGOSPATIAL_PROPERTY_REPORT": str(rows),
            "EGOSPATIAL_SAMPLES": str(samples()),
        }
        laws = _pytest([CAMERA_TESTS], env)
        fuzzes = _pytest([*fuzz_nodes(), COVERAGE_TEST], env)
        found = [json.loads(line) for line in rows.read_text().splitlines()] if rows.exists() else []
    _cameras(letter, laws, [row for row in found if row["kind"] == "camera"])
    _fuzz(letter, fuzzes, [row for row in found if row["kind"] == "fuzz"])
    letter.at_most("minutes (wall, or CPU/2 where loaded)", (laws.judged_s + fuzzes.judged_s) / 60, _MINUTES)
    letter.note(f"wall {laws.wall_s + fuzzes.wall_s:.0f} s, CPU {laws.cpu_s + fuzzes.cpu_s:.0f} s")


def fuzz_nodes() -> list[str]:
    """Every test function of tests/geo with "fuzz" in its name, as pytest takes it."""
    nodes = []
    for file in sorted((ROOT / "tests/geo").glob("test_*.py")):
        names = re.findall(r"^def (test_\w*fuzz\w*)\(", file.read_text(), re.MULTILINE)
        nodes += [f"{file.relative_to(ROOT)}::{name}" for name in names]
    return nodes


def _pytest(what: list[str], env: dict[str, str]) -> Ran:
    # the checks of array shapes at every call are the test suite's business; here they would be most of the time
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *what]
    return run(command, env={**os.environ, "EGOSPATIAL_NO_SHAPE_CHECKS": "1", **env}, timeout_s=1500)


def _counts(done: Ran) -> dict[str, int]:
    """Numbers of passed, failed, skipped tests and errors in pytest's last line."""
    return {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)", done.stdout)}


def _cameras(letter: Letter, done: Ran, rows: list[dict[str, Any]]) -> None:
    counts = _counts(done)
    passed = done.status == 0 and counts.get("passed", 0) > 0
    letter.true("camera tests", passed, f"{counts}{'' if passed else done.stdout[-400:]}")
    families = sorted({row["family"] for row in rows})
    letter.at_least("camera families with random cameras", len(families), 9)
    for key, limit, unit in (("pixel_px", 1e-6, " px"), ("ray_rad", 1e-9, " rad"), ("jacobian_rel", 1e-5, " rel")):
        values = [row[key] for row in rows if key in row]
        letter.at_most(f"worst {key}", max(values, default=float("nan")), limit, unit)
    for family in families:
        own = [row for row in rows if row["family"] == family]
        worst = {
            key: max((row[key] for row in own if key in row), default=float("nan")) for key in ("pixel_px", "ray_rad")
        }
        letter.note(f"{family}: {sum(row.get('cameras', 0) for row in own)} cameras, {worst}")


def _fuzz(letter: Letter, done: Ran, rows: list[dict[str, Any]]) -> None:
    counts = _counts(done)
    passed = done.status == 0 and counts.get("passed", 0) > 0
    letter.true("fuzz tests of all readers", passed, f"{counts}{'' if passed else done.stdout[-400:]}")
    letter.note(
        f"{len(fuzz_nodes())} fuzz tests found; every registered reader and every parser has one of >= 200 mutations"
    )
    if rows:
        letter.at_least("fewest mutations of a file", min(row["mutations"] for row in rows), 200)
        letter.at_most("slowest single mutation", max(row["slowest_s"] for row in rows), 20, " s")
        mutations, read = sum(row["mutations"] for row in rows), sum(row["read"] for row in rows)
        letter.note(
            f"fresh seed: {mutations} mutations of {len(rows)} files, {read} read soundly, the rest refused cleanly"
        )
    else:
        letter.true("fuzz with a fresh seed reported", False)
