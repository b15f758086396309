"""Options that several commands share: one name, one help text."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="Settings: .toml, .yaml or .json.")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="One setting, e.g. rectify.width_px=512. Repeatable.")]
Narrations = Annotated[Path | None, typer.Option(help="narrations.jsonl; default: the recording's own.")]
Start = Annotated[float | None, typer.Option(help="Seconds from the first frame.")]
End = Annotated[float | None, typer.Option(help="Seconds from the first frame; this moment is not included.")]
Every = Annotated[int, typer.Option(help="Take every N-th frame (frames with grounding points are kept).")]
CameraName = Annotated[str | None, typer.Option("--camera", help="Camera of the rig; default: its reference.")]
# Written out, since the readers themselves are too heavy for --help; a test keeps the two equal.
FORMATS = "plain, rgbd, nerfstudio, aria, adt, hot3d, colmap, tum_rgbd, epic_fields, kalibr_rig, xperience"
FormatName = Annotated[str | None, typer.Option("--format", help=f"Reader: {FORMATS}; default: found by itself.")]
OutRoot = Annotated[Path, typer.Option("--out", help="Folder that takes one folder per recording.")]
OptionalOut = Annotated[Path | None, typer.Option("--out", help="Folder that takes one folder per recording.")]
StagePath = Annotated[Path, typer.Argument(help="A recording (then --out is needed) or an output folder.")]
Finished = Annotated[Path, typer.Argument(help="Output folder of one recording.")]
