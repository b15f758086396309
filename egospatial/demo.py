"""``egospatial demo``: a recording with exact truth, every stage on it, and the comparison."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egospatial.config import RunConfig, resolve
from egospatial.errors import FrontDoorError
from egospatial.evaluate import Evaluation, evaluate, print_evaluation
from egospatial.reporting import Reporter
from egospatial.runner import RunOutcome, RunRequest, run_recording
from egospatial.settings import parse_assignments, updated
from egospatial.simulator.presets import preset_by_name
from egospatial.store import layout
from egospatial.store.atomic import write_json

if TYPE_CHECKING:
    from egospatial.simulator import Simulated


@dataclass(frozen=True)
class Demo:
    """What a demo made."""

    recording_dir: Path
    truth_dir: Path
    outcome: RunOutcome
    evaluation: Evaluation
    pictures: tuple[Path, ...]


def demo_config(preset: str, config_file: Path | None, assignments: tuple[str, ...]) -> RunConfig:
    """The run's settings: defaults at the preset's canonical size, then the user's."""
    size = preset_by_name(preset).canonical_size_px
    sized = updated(RunConfig(), parse_assignments([f"rectify.width_px={size}", f"rectify.height_px={size}"]))
    if config_file is not None:
        return resolve(config_file, assignments)
    return updated(sized, parse_assignments(assignments))


def demo(out: Path, preset: str, seed: int, config: RunConfig, reporter: Reporter | None = None) -> Demo:
    """Simulate into ``out/input``, run into ``out/results``, evaluate; a second call goes on where the first was.

    Raises:
        FrontDoorError: an unknown preset, or the folder holds another demo.
    """
    say = reporter or Reporter(quiet=True)
    made = simulated(out / "input", preset, seed, say)
    request = RunRequest(made.recording_dir, out / "results", config)
    outcome = run_recording(request, say.progress, say.stage)
    for text in outcome.warnings:
        say.warn(text)
    say.note("comparing with the truth")
    evaluation = evaluate(outcome.folder, made.truth_dir)
    write_json(out / "evaluation.json", evaluation.document())
    return Demo(made.recording_dir, made.truth_dir, outcome, evaluation, draw(outcome.folder, say))


def simulated(folder: Path, preset: str, seed: int, reporter: Reporter) -> "Simulated":
    """The recording of this preset and seed: the one that is there if it is whole, else a new one."""
    from egospatial.simulator import Simulated, load_truth, simulate

    name = f"{preset}_{seed:04d}"
    there = Simulated(folder / name, folder / f"{name}_truth")
    if there.recording_dir.is_dir() and there.truth_dir.is_dir():
        try:
            load_truth(there.truth_dir)
            reporter.stage("simulate", f"skip: {there.recording_dir} is there")
            return there
        except FrontDoorError:
            reporter.note(f"{there.truth_dir} is not whole; it is made again")
    reporter.stage("simulate", f"preset {preset}, seed {seed}")
    return simulate(folder, preset, seed, progress=reporter.progress, overwrite=True)


def draw(folder: Path, reporter: Reporter) -> tuple[Path, ...]:
    """Pictures of a finished folder; one that cannot be drawn is a warning, not a failure."""
    from egospatial.view.command import make_picture
    from egospatial.view.finished import Finished

    finished, made = Finished(folder), []
    for what in ("scene", "sheet", "overlay", "depth"):
        path = folder / layout.PREVIEW / f"{what}.png"
        try:
            note = make_picture(finished, what, None, path)
        except FrontDoorError as error:
            reporter.warn(f"no preview {what}: {error}")
            continue
        made.append(path)
        if note:
            reporter.note(note)
    return tuple(made)


def demo_command(
    reporter: Reporter, out: Path, preset: str, seed: int, config_file: Path | None, assignments: tuple[str, ...]
) -> None:
    """Body of the command."""
    made = demo(out, preset, seed, demo_config(preset, config_file, assignments), reporter)
    print_evaluation(reporter, made.evaluation)
    reporter.text(f"results:  {made.outcome.folder}")
    for path in made.pictures:
        reporter.text(f"picture:  {path}")
    document: dict[str, Any] = {
        **made.outcome.document(),
        "truth": str(made.truth_dir),
        "evaluation": made.evaluation.document(),
        "pictures": [str(path) for path in made.pictures],
    }
    reporter.result(document)
