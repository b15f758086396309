"""The command ``egospatial``. Nothing heavy is imported before a command runs: ``--help`` stays quick."""

from pathlib import Path
from typing import Annotated, Any

import typer

from egospatial.options import (
    CameraName,
    ConfigFile,
    End,
    Every,
    Finished,
    FormatName,
    Json,
    Narrations,
    OptionalOut,
    OutRoot,
    Quiet,
    Sets,
    StagePath,
    Start,
)
from egospatial.reporting import command

app = typer.Typer(
    name="egospatial",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Egocentric recordings to metric 3D, tracked objects, trajectories and spatial questions.",
)


@app.command()
def run(
    recordings: Annotated[list[Path], typer.Argument(help="Recording folders or files.")],
    out: OutRoot,
    narrations: Narrations = None,
    start: Start = None,
    end: End = None,
    every: Every = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and write nothing.")] = False,
    config: ConfigFile = None,
    set_: Sets = None,
    stages: Annotated[str | None, typer.Option(help="Only these, e.g. track,lift.")] = None,
    engine: Annotated[str, typer.Option(help="local: processes on this machine.")] = "local",
    jobs: Annotated[int, typer.Option(help="Recordings at a time.")] = 1,
    shard: Annotated[str | None, typer.Option(help="i/n: every n-th recording from the i-th.")] = None,
    format_name: FormatName = None,
    camera: CameraName = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run all stages on recordings; what is done already is skipped, a killed run goes on where it was."""
    with command(as_json, quiet) as reporter:
        from egospatial.commands import run_command

        status = run_command(
            reporter, recordings, out, narrations, (start, end, every), dry_run, config, tuple(set_ or ()),
            stages, engine, jobs, shard, format_name, camera,
        )  # fmt: skip
        if status:
            raise typer.Exit(status)


@app.command()
def rectify(
    path: StagePath,
    out: OptionalOut = None,
    narrations: Narrations = None,
    start: Start = None,
    end: End = None,
    every: Every = 1,
    camera: CameraName = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Stage 1: canonical video, poses, calibration."""
    with command(as_json, quiet) as reporter:
        from egospatial.commands import stage_command

        stage_command(
            reporter, "rectify", path, out, narrations, (start, end, every), config, tuple(set_ or ()), camera
        )  # fmt: skip


def _stage_command(name: str, text: str) -> None:
    def one_stage(
        path: StagePath,
        out: OptionalOut = None,
        narrations: Narrations = None,
        start: Start = None,
        end: End = None,
        every: Every = 1,
        config: ConfigFile = None,
        set_: Sets = None,
        as_json: Json = False,
        quiet: Quiet = False,
    ) -> None:
        with command(as_json, quiet) as reporter:
            from egospatial.commands import stage_command

            stage_command(
                reporter, name, path, out, narrations, (start, end, every), config, tuple(set_ or ())
            )  # fmt: skip

    app.command(name, help=text)(one_stage)


_stage_command("reconstruct", "Stage 2: the static scene as Gaussian splats.")
_stage_command("track", "Stage 3: masks of narrated objects through time.")
_stage_command("lift", "Stage 4: boxes, trajectories, events.")
_stage_command("depth", "Stage 5: fused depth of every frame.")
_stage_command("ask", "Stage 6: questions with certificates.")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything.")] = Path("out/demo"),
    seed: Annotated[int, typer.Option(help="Another seed, another scene.")] = 1,
    preset: Annotated[str, typer.Option(help="demo; small is quicker and coarser.")] = "demo",
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate a recording with exact truth, run every stage, compare with the truth."""
    with command(as_json, quiet) as reporter:
        from egospatial.demo import demo_command

        demo_command(reporter, out, preset, seed, config, tuple(set_ or ()))


@app.command()
def simulate(
    out: Annotated[Path, typer.Argument(help="Folder that takes the recording and its truth.")],
    preset: Annotated[str, typer.Option(help="standard, demo, small or truth.")] = "demo",
    seed: Annotated[int, typer.Option(help="Seed of the scene.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a simulated recording, and its exact truth beside it."""
    with command(as_json, quiet) as reporter:
        from egospatial.commands import simulate_command

        simulate_command(reporter, out, preset, seed)


@app.command()
def info(
    recording: Annotated[Path, typer.Argument(help="A recording or an output folder.")],
    format_name: FormatName = None,
    camera: CameraName = None,
    check: Annotated[bool, typer.Option("--check", help="Test the claimed conventions on the data.")] = False,
    as_json: Json = False,
) -> None:
    """Cameras, rates, gaps, scale, gravity of a recording; stages of an output folder.

    With --check the status is 1 if another reading of the files fits the data better than the claimed one.
    """
    with command(as_json) as reporter:
        from egospatial.info import info_command

        _exit_unless(info_command(reporter, recording, format_name, camera, check))


@app.command()
def poses(
    recording: Annotated[
        Path, typer.Argument(help="A recording without trajectory.csv, a video, or a folder of images.")
    ],
    out: OutRoot,
    scale_from: Annotated[str | None, typer.Option(help="depth: metres from sensor depth. Default: unknown.")] = None,
    metres_per_unit: Annotated[float | None, typer.Option(help="Metres of one unit, from a known length.")] = None,
    masks: Annotated[Path | None, typer.Option(help="Folder of 000000.png ...; black is left out.")] = None,
    rate: Annotated[float | None, typer.Option(help="Pictures a second, for a folder of images.")] = None,
    camera_model: Annotated[str, typer.Option(help="COLMAP's model, where there is no calibration.")] = "SIMPLE_RADIAL",
    end: Annotated[float | None, typer.Option(help="Only the first seconds.")] = None,
    every: Annotated[int | None, typer.Option(help="Look at every N-th picture; default: at most 15 a second.")] = None,
    seed: Annotated[int, typer.Option(help="Of every random choice.")] = 0,
    threads: Annotated[int, typer.Option(help="For features and matches.")] = 2,
    force: Annotated[bool, typer.Option("--force", help="Replace a folder that is there already.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Estimate the poses of a recording that has none (needs the extra: pip install 'egospatial[poses]')."""
    with command(as_json, quiet) as reporter:
        from egospatial.poses import PosesRequest, poses_command
        from geo.sfm.config import PosesConfig

        config = PosesConfig(camera_model=camera_model, seed=seed, threads=threads)
        request = PosesRequest(recording, out, metres_per_unit, scale_from, masks, rate, end, every, force, config)
        poses_command(reporter, request)


@app.command()
def verify(out: Finished, as_json: Json = False) -> None:
    """Re-execute the certificates of all questions. Status 1 if one does not hold."""
    with command(as_json) as reporter:
        from egospatial.verify import verify_command

        _exit_unless(verify_command(reporter, out))


@app.command()
def check(out: Finished, as_json: Json = False) -> None:
    """Test the integrity of a finished folder. Status 1 if something is wrong with it."""
    with command(as_json) as reporter:
        from egospatial.check import check_command

        _exit_unless(check_command(reporter, out))


@app.command()
def evaluate(
    out: Finished,
    truth: Annotated[Path, typer.Option(help="Truth folder that `egospatial simulate` wrote.")],
    as_json: Json = False,
) -> None:
    """Compare a finished folder with exact truth."""
    with command(as_json) as reporter:
        from egospatial.evaluate import evaluate_command

        evaluate_command(reporter, out, truth)


@app.command()
def export(
    out: Finished,
    what: Annotated[
        str,
        typer.Option(
            help="trajectories, questions; the scene as splats, points or mesh; the recording as nerfstudio, colmap, "
            "plain or tum."
        ),
    ] = "trajectories",
    format_: Annotated[
        str | None,
        typer.Option("--format", help="Of trajectories: json, csv or tum; of splats: ply or compressed."),
    ] = None,
    to: Annotated[Path | None, typer.Option(help="File or folder to write; default: beside the results.")] = None,
    world: Annotated[str | None, typer.Option(help="canonical (default), source or original.")] = None,
    pictures: Annotated[str | None, typer.Option(help="jpg (default), png or none.")] = None,
    depth: Annotated[bool, typer.Option("--depth", help="nerfstudio: the fused depth as well.")] = False,
    masks: Annotated[
        str | None, typer.Option(help="nerfstudio: valid (default), static (what may move is black too) or none.")
    ] = None,
    voxel: Annotated[float | None, typer.Option(help="mesh: side of a voxel, in the unit of the poses (0.02).")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there already.")] = False,
    as_json: Json = False,
) -> None:
    """Hand results on in plain formats."""
    with command(as_json) as reporter:
        from egospatial.export import export_command

        given = {
            "world": world, "pictures": pictures, "depth": depth or None, "force": force or None, "masks": masks,
            "voxel": voxel,
        }  # fmt: skip
        options = {name: value for name, value in given.items() if value is not None}
        export_command(reporter, out, what, format_, to, options)


@app.command()
def view(
    out: Finished,
    screenshot: Annotated[Path | None, typer.Option(help="Write a picture instead of opening a window.")] = None,
    frame: Annotated[int | None, typer.Option(help="Frame; default: the middle one.")] = None,
    what: Annotated[
        str, typer.Option(help="scene (3D), points, overlay, depth, sheet or quality (of the reconstruction).")
    ] = "scene",
    as_json: Json = False,
) -> None:
    """Look at results: splats, boxes and trajectories in 3D, or masks and depth in the picture."""
    with command(as_json) as reporter:
        from egospatial.view.command import view_command

        view_command(reporter, out, screenshot, frame, what)


@app.command()
def config(
    config_file: ConfigFile = None,
    set_: Sets = None,
    as_json: Json = False,
) -> None:
    """Print every setting with its value: defaults, a file and --set put together."""
    with command(as_json) as reporter:
        from egospatial.commands import config_command

        config_command(reporter, config_file, tuple(set_ or ()))


def _exit_unless(fine: bool) -> None:
    if not fine:
        raise typer.Exit(1)


def main(arguments: list[str] | None = None) -> Any:
    """Entry point of the command."""
    return app(arguments)
