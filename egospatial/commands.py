"""Bodies of ``run``, the single stages, ``simulate`` and ``config``: parse, call the library, say what came of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from egospatial import batch
from egospatial.config import document_of, resolve
from egospatial.errors import FrontDoorError
from egospatial.rectification import rectification_facts
from egospatial.reporting import Reporter, dump
from egospatial.runner import RunRequest, request_of_folder, run_recording, shard
from egospatial.selection import Selection
from egospatial.store import layout, recording_file

Span = tuple[float | None, float | None, int]


def run_command(
    reporter: Reporter, recordings: Sequence[Path], out: Path, narrations: Path | None, span: Span, dry_run: bool,
    config_file: Path | None, assignments: tuple[str, ...], stages: str | None, engine: str, jobs: int,
    shard_spec: str | None, format_name: str | None, camera: str | None = None,
) -> int:  # fmt: skip
    """Body of ``egospatial run``; gives the exit status."""
    if engine != "local":
        raise FrontDoorError(f"--engine {engine!r}: only 'local' is there.")
    if jobs < 1:
        raise FrontDoorError(f"--jobs {jobs}: expected 1 or more.")
    if narrations is not None and len(recordings) > 1:
        raise FrontDoorError("--narrations goes with one recording; several bring their own narrations.jsonl.")
    config, selection = resolve(config_file, assignments), Selection(*span)
    names = tuple(name.strip() for name in stages.split(",")) if stages else ()
    sources = shard(recordings, shard_spec)
    if jobs > 1 and len(sources) > 1:
        options = _shared_options(out, span, dry_run, config_file, assignments, stages, format_name, camera)
        results = batch.run_in_processes(sources, options, jobs, reporter.note)
    else:

        def one(source: Path) -> dict[str, Any]:
            request = RunRequest(source, out, config, narrations, selection, names, dry_run, format_name, camera)
            return _run_and_say(reporter, request)

        results = batch.run_here(sources, one)
    _report_results(reporter, results)
    return batch.exit_status(results)


def _shared_options(
    out: Path, span: Span, dry_run: bool, config_file: Path | None, assignments: tuple[str, ...],
    stages: str | None, format_name: str | None, camera: str | None,
) -> list[str]:  # fmt: skip
    start, end, every = span
    given = {
        "--out": out, "--start": start, "--end": end, "--every": every, "--config": config_file, "--stages": stages,
        "--format": format_name, "--camera": camera,
    }  # fmt: skip
    words = [word for option, value in given.items() if value is not None for word in (option, str(value))]
    words += [word for text in assignments for word in ("--set", text)]
    return [*words, "--dry-run"] if dry_run else words


def _run_and_say(reporter: Reporter, request: RunRequest) -> dict[str, Any]:
    reporter.note(f"{request.source}")
    outcome = run_recording(request, reporter.progress, reporter.stage)
    for text in outcome.warnings:
        reporter.warn(text)
    if request.dry_run:
        for name, reason in outcome.plan.reasons.items():
            reporter.text(f"{name:<12} {reason}")
    else:
        reporter.text(f"{outcome.recording_id}: {outcome.folder}")
    document = outcome.document()
    if not request.dry_run and ("rectify" in outcome.plan.to_run or request.stages == ("rectify",)):
        facts = rectification_facts(outcome.folder)
        for line in facts.lines():
            reporter.text(line)
        document["rectification"] = facts.document()
    return document


def _report_results(reporter: Reporter, results: Sequence[batch.Result]) -> None:
    for result in results:
        if result.trace and result.status == batch.FAILED:
            reporter.warn(result.trace)
        if result.status != batch.DONE:
            reporter.warn(f"{result.source}: {result.error}") if len(results) > 1 else _error_line(reporter, result)
    documents = [
        result.document
        if result.status == batch.DONE
        else {"source": str(result.source), "status": "failed", "error": result.error, "trace": result.trace}
        for result in results
    ]
    reporter.result({"recordings": documents, "status": batch.exit_status(results)})


def _error_line(reporter: Reporter, result: batch.Result) -> None:
    import typer

    typer.echo(f"error: {result.error}", err=True)


def stage_command(
    reporter: Reporter, name: str, path: Path, out: Path | None, narrations: Path | None, span: Span,
    config_file: Path | None, assignments: tuple[str, ...], camera: str | None = None,
) -> None:  # fmt: skip
    """Body of the single-stage commands."""
    if layout.is_output_folder(path) and out is None and (path / layout.LEDGER).is_file():
        given = config_file is not None or assignments
        config = resolve(config_file or path / layout.CONFIG, assignments) if given else None
        request = request_of_folder(path, config, (name,))
        if camera is not None and camera != _camera_of(path):
            raise FrontDoorError(
                f"--camera {camera}: {path} holds the results of camera {_camera_of(path)}; give the recording and "
                "--out DIR."
            )
    elif out is None:
        raise FrontDoorError(f"{path}: no output folder (no {layout.LEDGER} in it); for a recording, give --out DIR.")
    else:
        config = resolve(config_file, assignments)
        request = RunRequest(path, out, config, narrations, Selection(*span), (name,), camera=camera)
    reporter.result({"recordings": [_run_and_say(reporter, request)], "status": 0})


def _camera_of(folder: Path) -> str | None:
    """Name of the camera that a folder's results are of; None in folders that do not say."""
    name = recording_file.read(folder)["source"].get("camera")
    return None if name is None else str(name)


def simulate_command(reporter: Reporter, out: Path, preset: str, seed: int) -> None:
    """Body of ``egospatial simulate``."""
    from egospatial.simulator import simulate

    made = simulate(out, preset, seed, progress=reporter.progress)
    document = {"preset": preset, "seed": seed, "recording": str(made.recording_dir), "truth": str(made.truth_dir)}
    reporter.text(f"recording: {made.recording_dir}\ntruth:     {made.truth_dir}")
    reporter.result(document)


def config_command(reporter: Reporter, config_file: Path | None, assignments: tuple[str, ...]) -> None:
    """Body of ``egospatial config``."""
    document = document_of(resolve(config_file, assignments))
    reporter.text(dump(document))
    reporter.result(document)
