"""The ledger: what is done is not done again, what was killed goes on, and the end is the same."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import fake_run
import numpy as np
import pytest

from egospatial import ledger as ledgers
from egospatial.errors import ConfigError, LockError, StoreError
from egospatial.lock import folder_lock
from egospatial.stages import Stage, StageNotes, make_plan, run_stages, stage_hashes

SCRIPT = Path(fake_run.__file__)
ROOT = SCRIPT.parent.parent.parent


def start(folder, log):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, str(SCRIPT), str(folder), str(log)], env=environment, cwd="/")


def contents(folder):
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.name not in ("run.json", ".lock")}


def quick(folder, log, config=None):
    fake_run.main(folder, log, step_s=0.0, config=config)


def test_killed_at_random_moments_the_run_ends_as_if_never_killed(tmp_path):
    quick(tmp_path / "whole", tmp_path / "whole.log")
    folder, log = tmp_path / "killed", tmp_path / "killed.log"
    draw = random.Random(20)
    kills = 0
    while kills < 5:
        process = start(folder, log)
        time.sleep(draw.uniform(0.25, 0.6))
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
    assert start(folder, log).wait() == 0
    assert kills >= 1
    assert contents(folder) == contents(tmp_path / "whole")
    computed = log.read_text().split("\n")
    done = ledgers.load(folder).stages
    assert {name: entry.status for name, entry in done.items()} == dict.fromkeys(fake_run.NAMES, "done")
    for name in fake_run.NAMES:
        assert computed.count(f"end {name}") <= 2  # at most once more: killed between renaming and noting it


def test_a_finished_stage_is_never_computed_again(tmp_path):
    quick(tmp_path / "a", tmp_path / "log")
    before = (tmp_path / "log").read_text()
    quick(tmp_path / "a", tmp_path / "log")
    assert (tmp_path / "log").read_text() == before


def test_killed_inside_a_stage_only_that_stage_and_later_ones_run(tmp_path):
    folder, log = tmp_path / "a", tmp_path / "log"
    quick(folder, log)
    document = json.loads((folder / "run.json").read_text())
    document["stages"]["three"]["status"] = "running"  # what a kill leaves
    (folder / "run.json").write_text(json.dumps(document))
    log.write_text("")
    quick(folder, log)
    assert [line for line in log.read_text().split("\n") if line.startswith("start")] == ["start three", "start four"]


def test_changed_settings_run_the_stage_and_what_builds_on_it(tmp_path):
    folder, log = tmp_path / "a", tmp_path / "log"
    quick(folder, log)
    log.write_text("")
    quick(folder, log, config={"three": {"x": 1}})
    assert "start two" not in log.read_text() and "start three" in log.read_text() and "start four" in log.read_text()


def test_an_output_changed_or_removed_on_disk_is_made_again(tmp_path):
    folder, log = tmp_path / "a", tmp_path / "log"
    quick(folder, log)
    whole = contents(folder)
    (folder / "two.h5").write_bytes(b"damaged")
    (folder / "four.h5").unlink()
    log.write_text("")
    quick(folder, log)
    assert "start one" not in log.read_text() and "start two" in log.read_text()
    assert contents(folder) == whole


def two_stages(calls, fail=False):
    def run(name):
        def work(folder, key, progress):
            calls.append(name)
            if fail and name == "b":
                raise StoreError("b broke")
            (folder / name).write_text(name)
            return StageNotes(["careful"], {"n": 3})

        return work

    def outputs(name):
        def digest(folder):
            if not (folder / name).is_file():
                raise StoreError(f"{folder / name}: not there")
            return (folder / name).read_text()

        return digest

    return tuple(Stage(n, needs, run(n), outputs(n)) for n, needs in (("a", ()), ("b", ("a",)), ("c", ("a",))))


def run_two(folder, stages, selected=(), configs=None):
    ledger = ledgers.load(folder) or ledgers.Ledger("r", "/s", "f", "d", {})
    hashes = stage_hashes(stages, configs or {}, {})
    plan = make_plan(stages, folder, ledger, hashes, selected)
    run_stages(stages, folder, ledger, plan, configs or {}, {})
    return plan


def test_a_failed_stage_is_noted_with_its_error_and_earlier_results_stay(tmp_path):
    with pytest.raises(StoreError, match="b broke"):
        run_two(tmp_path, two_stages([], fail=True))
    stages = ledgers.load(tmp_path).stages
    assert (stages["a"].status, stages["b"].status) == ("done", "failed")
    assert stages["b"].error == "StoreError: b broke" and (tmp_path / "a").is_file()
    calls = []
    run_two(tmp_path, two_stages(calls))
    assert calls == ["b", "c"]


def test_the_ledger_says_what_each_stage_took(tmp_path):
    run_two(tmp_path, two_stages([]))
    entry = ledgers.load(tmp_path).stages["a"]
    assert entry.seconds >= 0 and entry.cpu_seconds >= 0 and entry.peak_memory_mib > 1
    assert entry.warnings == ["careful"] and entry.measurements == {"n": 3}
    assert entry.versions["numpy"] == np.__version__ and entry.started_utc.endswith("+00:00")


def test_only_selected_stages_run(tmp_path):
    calls = []
    run_two(tmp_path, two_stages(calls), ("a",))
    run_two(tmp_path, two_stages(calls), ("c",))
    assert calls == ["a", "c"]
    assert set(ledgers.load(tmp_path).stages) == {"a", "c"}


def test_a_stage_without_what_it_needs_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"stage b needs a, which has to run first \(not run yet\)"):
        run_two(tmp_path, two_stages([]), ("b",))


def test_an_unknown_stage_is_refused_with_the_names(tmp_path):
    with pytest.raises(ConfigError, match="no stage 'x'; the stages are a, b, c"):
        run_two(tmp_path, two_stages([]), ("x",))


def test_what_builds_on_a_rerun_stage_is_outdated_until_it_runs(tmp_path):
    run_two(tmp_path, two_stages([]))
    calls = []
    run_two(tmp_path, two_stages(calls), ("a",), {"a": 1})
    assert calls == ["a"]
    assert {n: e.status for n, e in ledgers.load(tmp_path).stages.items()} == {
        "a": "done",
        "b": "outdated",
        "c": "outdated",
    }


def test_a_raised_stage_version_runs_it_again(tmp_path):
    import dataclasses

    run_two(tmp_path, two_stages([]))
    calls = []
    newer = tuple(dataclasses.replace(s, version=2) if s.name == "c" else s for s in two_stages(calls))
    run_two(tmp_path, newer)
    assert calls == ["c"]


def test_a_damaged_ledger_is_a_clear_error(tmp_path):
    (tmp_path / "run.json").write_text('{"schema": "egospatial.run/1", "recording_id"')
    with pytest.raises(StoreError, match=r"run\.json: damaged"):
        ledgers.load(tmp_path)


def test_two_runs_in_one_folder_are_kept_apart(tmp_path):
    with folder_lock(tmp_path):
        again = subprocess.run(
            [sys.executable, "-c", "import sys; from pathlib import Path; from egospatial.lock import folder_lock\n"
             "with folder_lock(Path(sys.argv[1])): print('in')", str(tmp_path)],
            capture_output=True, text=True, cwd=ROOT, check=False,
        )  # fmt: skip
    assert "LockError" in again.stderr and f"process {os.getpid()} on" in again.stderr and "in" not in again.stdout


def test_the_lock_of_a_dead_run_is_free(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from egospatial.lock import folder_lock\n"
        "with folder_lock(Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=False).returncode == -9
    with folder_lock(tmp_path):
        pass
    with pytest.raises(LockError), folder_lock(tmp_path), folder_lock(tmp_path):
        pass
