"""A run with four small, slow stages, as a process that a test can kill: ``python fake_run.py FOLDER LOG``.

Each stage notes in LOG (outside the folder) when it starts and ends computing. Its output depends on the content of
the stage before, so that a half-read file would show.
"""

import sys
import time
from pathlib import Path

import numpy as np

from egospatial import ledger as ledgers
from egospatial.errors import StoreError
from egospatial.hashing import digest_of, file_digest
from egospatial.ledger import Ledger
from egospatial.lock import folder_lock
from egospatial.stages import Stage, StageNotes, make_plan, run_stages, stage_hashes
from egospatial.store import hdf5
from egospatial.store.atomic import missing, remove_leftovers

NAMES = ("one", "two", "three", "four")
PARTS = 8


def make_stages(log: Path, step_s: float):
    def note(text):
        with open(log, "a") as handle:
            handle.write(text + "\n")

    def run(name, needs):
        def work(folder, key, progress):
            note(f"start {name}")
            seed = int(file_digest(folder / f"{needs[0]}.h5")[:8], 16) if needs else 1
            with hdf5.create(folder / f"{name}.h5", "fake/1") as file:
                for part in range(PARTS):
                    time.sleep(step_s)
                    hdf5.put(file, f"part{part}", np.random.default_rng([seed, part]).random((50, 50)))
            note(f"end {name}")
            return StageNotes()

        return work

    def outputs(name):
        def digest(folder):
            if not (folder / f"{name}.h5").is_file():
                raise missing(folder / f"{name}.h5")
            return digest_of(file_digest(folder / f"{name}.h5"))

        return digest

    before = (None, *NAMES[:-1])
    return tuple(
        Stage(name, (need,) if need else (), run(name, (need,) if need else ()), outputs(name))
        for name, need in zip(NAMES, before, strict=True)
    )


def main(folder: Path, log: Path, step_s: float = 0.01, config=None) -> None:
    stages = make_stages(log, step_s)
    configs = config or {}
    hashes = stage_hashes(stages, configs, {})
    with folder_lock(folder):
        remove_leftovers(folder)
        ledger = ledgers.load(folder) or Ledger("fake", "/src", "fake", "d", {})
        plan = make_plan(stages, folder, ledger, hashes)
        run_stages(stages, folder, ledger, plan, configs, {})


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except StoreError as error:
        sys.exit(f"error: {error}")
