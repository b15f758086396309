"""Stages, their order, and the rule for what has to run again.

A stage is skipped if the ledger says that it is done with the same stage hash (its own settings, its inputs, the
hashes of the stages it builds on) and its outputs on disk still have the digest that was noted.
"""

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuda_kernels.errors import InputError
from egospatial import ledger as ledgers
from egospatial.errors import ConfigError, StoreError
from egospatial.hashing import digest_of
from egospatial.ledger import Ledger, StageEntry
from egospatial.measure import measured

Progress = Callable[[int, int, str], None]


@dataclass
class StageNotes:
    """What a stage's run leaves for the ledger."""

    warnings: list[str] = field(default_factory=list)
    measurements: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """One stage: what it builds on, how it runs, how its outputs on disk are told.

    ``run(folder, stage_hash, progress)`` writes the outputs; ``outputs(folder)`` gives their digest and raises
    ``StoreError`` if they are missing or damaged. ``version`` is raised when the stage's code changes its results.
    """

    name: str
    needs: tuple[str, ...]
    run: Callable[[Path, str, Progress], StageNotes]
    outputs: Callable[[Path], str]
    version: int = 1


@dataclass(frozen=True)
class Plan:
    """What would be done: per stage "skip" or why it runs."""

    hashes: dict[str, str]
    reasons: dict[str, str]

    @property
    def to_run(self) -> tuple[str, ...]:
        """Names of the stages that run, in order."""
        return tuple(name for name, reason in self.reasons.items() if reason != "skip")


def stage_hashes(stages: Sequence[Stage], configs: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, str]:
    """Hash of every stage: name, code version, own settings, own inputs, hashes of what it needs."""
    hashes: dict[str, str] = {}
    for stage in stages:
        hashes[stage.name] = digest_of(
            {
                "stage": stage.name, "version": stage.version, "config": configs.get(stage.name),
                "inputs": inputs.get(stage.name), "needs": [hashes[name] for name in stage.needs],
            }
        )  # fmt: skip
    return hashes


def make_plan(
    stages: Sequence[Stage], folder: Path, ledger: Ledger | None, hashes: dict[str, str], selected: Sequence[str] = ()
) -> Plan:
    """Decide what has to run.

    Args:
        stages: All stages in order.
        folder: The output folder.
        ledger: Its ledger, if there is one.
        hashes: From ``stage_hashes``.
        selected: Only these stages (and nothing before them) may run; empty: all.

    Raises:
        ConfigError: an unknown stage in ``selected``, or one whose needs are not finished and not selected.
    """
    names = [stage.name for stage in stages]
    for name in selected:
        if name not in names:
            raise ConfigError(f"--stages: no stage {name!r}; the stages are {', '.join(names)}.")
    reasons: dict[str, str] = {}
    for stage in stages:
        again = [name for name in stage.needs if reasons.get(name, "skip") != "skip"]
        reason = f"{again[0]} runs" if again else _reason(stage, folder, ledger, hashes[stage.name])
        if selected and stage.name not in selected:
            reasons[stage.name] = "skip"
            continue
        if selected and reason != "skip":
            _check_needs(stage, stages, folder, ledger, hashes, reasons)
        reasons[stage.name] = reason
    return Plan(hashes, reasons)


def _check_needs(
    stage: Stage, stages: Sequence[Stage], folder: Path, ledger: Ledger | None, hashes: dict[str, str],
    reasons: dict[str, str],
) -> None:  # fmt: skip
    by_name = {item.name: item for item in stages}
    for need in stage.needs:
        state = _reason(by_name[need], folder, ledger, hashes[need])
        if reasons.get(need, "skip") == "skip" and state != "skip":
            raise ConfigError(
                f"{folder}: stage {stage.name} needs {need}, which has to run first ({state}). "
                f"Add it: --stages {need},{stage.name}, or leave --stages out."
            )


def _reason(stage: Stage, folder: Path, ledger: Ledger | None, stage_hash: str) -> str:
    entry = None if ledger is None else ledger.stages.get(stage.name)
    if entry is None:
        return "not run yet"
    if entry.status != "done":
        return "failed before" if entry.status == "failed" else "was interrupted"
    if entry.stage_hash != stage_hash:
        return "settings or inputs changed"
    try:
        return "skip" if stage.outputs(folder) == entry.outputs else "outputs changed on disk"
    except StoreError as error:
        return f"outputs damaged ({error})"


def run_stages(
    stages: Sequence[Stage],
    folder: Path,
    ledger: Ledger,
    plan: Plan,
    configs: Mapping[str, Any],
    inputs: Mapping[str, Any],
    progress: Progress | None = None,
    announce: Callable[[str, str], None] | None = None,
) -> Ledger:
    """Run what the plan says, noting every step in run.json before and after.

    The caller holds the folder's lock. A stage that fails is noted as failed and its error goes on up; what
    earlier stages wrote stays.
    """
    say = announce or (lambda name, text: None)
    for stage in stages:
        reason = plan.reasons[stage.name]
        if reason == "skip":
            say(stage.name, "skip" if stage.name in ledger.stages else "left out")
            continue
        say(stage.name, reason)
        for later in _built_on(stage, stages):
            if later in ledger.stages:
                ledger.stages[later].status = "outdated"
        entry = StageEntry(
            status="running",
            stage_hash=plan.hashes[stage.name],
            config_hash=digest_of(configs.get(stage.name)),
            inputs=dict(inputs.get(stage.name) or {}),
            started_utc=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            versions=ledgers.versions(),
        )
        ledger.stages[stage.name] = entry
        ledger.save(folder)
        _run_one(stage, folder, ledger, entry, progress or (lambda done, total, what: None))
        say(stage.name, f"done in {entry.seconds:.1f} s")
    return ledger


def _run_one(stage: Stage, folder: Path, ledger: Ledger, entry: StageEntry, progress: Progress) -> None:
    try:
        with measured() as cost:
            notes = stage.run(folder, entry.stage_hash, progress)
            entry.outputs = stage.outputs(folder)
    except Exception as error:
        entry.status, entry.error = "failed", f"{type(error).__name__}: {error}"
        try:
            ledger.save(folder)
        except InputError:
            raise error from None  # a full disk must not hide the first error
        raise
    entry.status, entry.warnings, entry.measurements = "done", notes.warnings, notes.measurements
    entry.seconds, entry.cpu_seconds, entry.peak_memory_mib = cost.seconds, cost.cpu_seconds, cost.peak_memory_mib
    ledger.save(folder)


def _built_on(stage: Stage, stages: Sequence[Stage]) -> list[str]:
    """Names of the stages that build on this one, directly or not."""
    found = {stage.name}
    for other in stages:
        if found & set(other.needs):
            found.add(other.name)
    return [other.name for other in stages if other.name in found and other is not stage]
