"""Running recordings: open, plan, lock, run; one after the other or in processes of their own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from egospatial import ledger as ledgers
from egospatial.config import RunConfig, document_of
from egospatial.errors import FrontDoorError
from egospatial.ledger import Ledger
from egospatial.lock import folder_lock
from egospatial.pipeline import stages_for
from egospatial.selection import Selection
from egospatial.stages import Plan, Progress, make_plan, run_stages, stage_hashes
from egospatial.store import layout
from egospatial.store.atomic import remove_leftovers, write_json
from egospatial.workbench import Workbench
from geo.recording import MissingFrames


@dataclass(frozen=True)
class RunRequest:
    """What to do with one recording. ``out`` is the folder that takes a folder per recording."""

    source: Path
    out: Path
    config: RunConfig
    narrations: Path | None = None
    selection: Selection = field(default_factory=Selection)
    stages: tuple[str, ...] = ()
    dry_run: bool = False
    format_name: str | None = None
    camera: str | None = None  # which camera of the rig is rectified; None: the recording's reference
    folder: Path | None = None  # instead of out / recording id, for a folder that is there already


@dataclass(frozen=True)
class RunOutcome:
    """What came of it."""

    recording_id: str
    folder: Path
    plan: Plan
    ledger: Ledger | None
    warnings: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """JSON-able summary."""
        entries = {} if self.ledger is None else self.ledger.stages
        return {
            "recording_id": self.recording_id,
            "folder": str(self.folder),
            "status": "planned" if self.ledger is None else "done",
            "ran": list(self.plan.to_run),
            "plan": self.plan.reasons,
            "stages": {
                name: {
                    "status": entry.status, "seconds": entry.seconds, "cpu_seconds": entry.cpu_seconds,
                    "peak_memory_mib": entry.peak_memory_mib, "measurements": entry.measurements,
                }
                for name, entry in entries.items()
            },
            "warnings": list(self.warnings),
        }  # fmt: skip


def run_recording(
    request: RunRequest,
    progress: Progress | None = None,
    announce: Callable[[str, str], None] | None = None,
) -> RunOutcome:
    """Run the stages of one recording that are not done yet.

    Nothing is written before the recording has been opened and its inputs checked.

    Raises:
        InputError: something about the recording, the settings or the folder is wrong.
    """
    bench = Workbench(
        request.source, Path(), request.config, request.selection, request.narrations, request.format_name,
        request.camera,
    )  # fmt: skip
    recording = bench.recording
    bench.folder = folder = request.folder or request.out / bench.folder_name
    stages = stages_for(bench)
    configs = {stage.name: request.config.of_stage(stage.name) for stage in stages}
    inputs = bench.inputs()
    hashes = stage_hashes(stages, configs, inputs)
    digest = str(inputs["rectify"]["digest"])
    if request.dry_run:
        ledger = ledgers.load(folder)
        _check_same_recording(folder, ledger, bench, digest)
        plan = make_plan(stages, folder, ledger, hashes, request.stages)
        _check_pictures(bench, plan)
        return RunOutcome(recording.recording_id, folder, plan, None, recording.warnings)
    _check_pictures(bench, make_plan(stages, folder, ledgers.load(folder), hashes, request.stages))
    with folder_lock(folder):
        remove_leftovers(folder)
        ledger = ledgers.load(folder)
        _check_same_recording(folder, ledger, bench, digest)
        plan = make_plan(stages, folder, ledger, hashes, request.stages)
        ledger = _ledger_for(bench, ledger, digest)
        write_json(folder / layout.CONFIG, document_of(request.config))
        run_stages(stages, folder, ledger, plan, configs, inputs, progress, announce)
        ledger.save(folder)
    warnings = [*recording.warnings, *(text for entry in ledger.stages.values() for text in entry.warnings)]
    return RunOutcome(recording.recording_id, folder, plan, ledger, tuple(dict.fromkeys(warnings)))


def request_of_folder(folder: Path, config: RunConfig | None, stages: tuple[str, ...]) -> RunRequest:
    """The request that a folder was made with, for running single stages of it again.

    Raises:
        FrontDoorError: no ledger there, or the recording that it came from is gone.
    """
    from egospatial.config import resolve

    ledger = ledgers.load(folder)
    if ledger is None:
        raise FrontDoorError(f"{folder}: neither a recording nor an output folder (no {layout.LEDGER} in it).")
    source = Path(ledger.source)
    if not source.exists():
        raise FrontDoorError(f"{folder}: came from {source}, which is not there any more; give the recording itself.")
    return RunRequest(
        source,
        folder.parent,
        config or resolve(folder / layout.CONFIG),
        None if ledger.narrations is None else Path(ledger.narrations),
        Selection(**ledger.selection),
        stages,
        format_name=ledger.format_name,
        camera=ledger.camera,
        folder=folder,
    )


def _check_pictures(bench: Workbench, plan: Plan) -> None:
    """Refuse to rectify a camera whose pictures are not there, before anything is written."""
    recording = bench.recording
    frames = recording.reference.frames
    if "rectify" not in plan.to_run or not isinstance(frames, MissingFrames):
        return
    seeing = [stream.name for stream in recording.others if not isinstance(stream.frames, MissingFrames)]
    choice = f". With pictures: {', '.join(seeing)}; choose one with --camera" if seeing else ""
    raise FrontDoorError(
        f"{recording.recording_id}: camera {recording.reference.name} has no pictures: {frames.reason}{choice}"
    )


def _check_same_recording(folder: Path, ledger: Ledger | None, bench: Workbench, digest: str) -> None:
    source = str(bench.source.resolve())
    if ledger is None or ledger.source == source or ledger.input_digest == digest:
        return
    raise FrontDoorError(
        f"{folder}: holds the results of {ledger.source}, another recording with the same id as {source}. "
        "Give another --out, or rename one of the two (the `id` in recording.json, or the folder)."
    )


def _ledger_for(bench: Workbench, old: Ledger | None, digest: str) -> Ledger:
    narrations = bench.narrations_file
    return Ledger(
        recording_id=bench.recording.recording_id,
        source=str(bench.source.resolve()),
        format_name=bench.recording.format_name,
        input_digest=digest,
        selection=dict(bench.selection.__dict__),
        stages={} if old is None else old.stages,
        warnings=list(bench.recording.warnings),
        narrations=None if narrations is None else str(narrations.resolve()),
        camera=bench.chosen_camera,
    )


def shard(recordings: Sequence[Path], spec: str | None) -> list[Path]:
    """Every n-th recording from the i-th on, for ``i/n`` with i from 1.

    Raises:
        FrontDoorError: not of the form i/n with 1 <= i <= n.
    """
    if spec is None:
        return list(recordings)
    first, slash, count = spec.partition("/")
    if not (slash and first.isdigit() and count.isdigit() and 1 <= int(first) <= int(count)):
        raise FrontDoorError(f"--shard {spec!r}: expected i/n with 1 <= i <= n, for example 2/8.")
    return list(recordings)[int(first) - 1 :: int(count)]
