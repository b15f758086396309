"""Letter A of issue 1: `make demo` in a fresh clone, and three unseen demo seeds against exact truth together."""

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accept.harness import ROOT, Letter, egospatial, run, unseen_seeds

SEEDS = 3


def measure(letter: Letter) -> None:
    """The fresh clone first, then the seeds."""
    fresh_clone(letter)
    unseen(letter)


def fresh_clone(letter: Letter) -> None:
    """Clone the commit, set up with a new virtual environment, run `make demo`, then call it again."""
    with tempfile.TemporaryDirectory() as scratch:
        clone = Path(scratch) / "clone"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        env = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH", "MAKEFLAGS")}
        installed = run(["make", "setup"], cwd=clone, env=env, timeout_s=3000)
        letter.true("set-up", installed.status == 0, f"status {installed.status} in {installed.wall_s:.0f} s")
        again = run(["make", "setup"], cwd=clone, env=env)
        letter.at_most("seconds of a second set-up", again.wall_s, 10)
        demo = run(["make", "demo"], cwd=clone, env=env, timeout_s=3000)
        letter.true("make demo", demo.status == 0, f"status {demo.status}")
        letter.note(f"make demo: wall {demo.wall_s:.0f} s, CPU {demo.cpu_s:.0f} s, loaded by others: {demo.loaded}")
        letter.at_most("minutes of make demo", demo.judged_s / 60, 12)
        letter.true("it prints the table", bool(re.search(r"against exact truth", demo.stdout)))


def unseen(letter: Letter, seeds: list[int] | None = None) -> None:
    """Simulate, run and evaluate each seed; judge them together."""
    chosen = unseen_seeds(SEEDS) if seeds is None else seeds
    letter.note(f"seeds {chosen}")
    documents: list[dict[str, Any]] = []
    for seed in chosen:
        with tempfile.TemporaryDirectory() as scratch:
            done = egospatial("demo", "--out", scratch, "--seed", str(seed), "--json", "--quiet")
            if done.status != 0:
                letter.true(f"seed {seed} ends", False, f"status {done.status}: {done.stderr[-300:]}")
                continue
            documents.append(json.loads(done.stdout)["evaluation"])
            letter.note(f"seed {seed}: wall {done.wall_s:.0f} s, CPU {done.cpu_s:.0f} s; {_headline(documents[-1])}")
    judge(letter, documents)


def _headline(document: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in document.items() if isinstance(value, int | float))


def judge(letter: Letter, documents: list[dict[str, Any]]) -> None:
    """All seeds pooled."""
    letter.at_most("static depth abs-rel median", 100 * _weighted(documents, "static_depth"), 2.0, " %")
    letter.at_most("carried depth abs-rel median", 100 * _weighted(documents, "carried_depth"), 4.0, " %")
    letter.at_least("carried depth covered", 100 * _weighted(documents, "carried_depth", "covered"), 60, " %")
    masks = [item for document in documents for item in document["masks"]]
    compact = [item["mean_j"] for item in masks if not item["thin"] and item["frames_visible"]]
    letter.at_least("mean J of compact objects", float(np.mean(compact)), 0.70)
    errors = [item["error_m"] for document in documents for item in document["rests"]]
    known = np.array([value for value in errors if value is not None and value == value], dtype=np.float64)
    letter.at_most("rest-position error median", 100 * float(np.median(known)), 2.5, " cm")
    letter.at_most("rest-position error p95", 100 * float(np.quantile(known, 0.95)), 8.0, " cm")
    letter.at_most("rest intervals without a place", 100 * (1 - len(known) / len(errors)), 10, " %")
    events = [document["events"] for document in documents]
    matched = sum(item["matched"] for item in events)
    letter.at_least("event recall", matched / sum(item["truth"] for item in events), 0.90)
    letter.at_least("event precision", matched / max(1, sum(item["found"] for item in events)), 0.90)
    asked, right = (sum(document[key] for document in documents) for key in ("questions", "questions_right"))
    letter.at_least("questions", asked, 150)
    letter.at_least("questions right", 100 * right / max(1, asked), 97, " %")
    for document in documents:
        for item in document["questions_wrong"]:
            letter.note(
                f"wrong {item['template']}: {item['text']} key {item['key_text']}, truth {item['truth_text']} "
                f"(stored {item['stored_value']}, true {item['truth_value']}, sigma {item['sigma']:.3g}, "
                f"margin {item['margin']:.3g}) {item['reason']}"
            )


def _weighted(documents: list[dict[str, Any]], group: str, field: str = "abs_rel_median") -> float:
    """Mean over the seeds, weighted by their pixels."""
    weights = [document[group]["pixels"] for document in documents]
    return float(np.average([document[group][field] for document in documents], weights=weights))
