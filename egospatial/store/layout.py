"""Names of the files in an output folder."""

from pathlib import Path

LEDGER = "run.json"
CONFIG = "config.json"
RECORDING = "recording.json"
VIDEO = "canonical.mp4"
VIEWS = "views"  # folder of further views of a wide lens; only where asked for
GEOMETRY = "geometry.h5"
SPLATS = "splats.ply"
RECONSTRUCTION = "reconstruction.h5"
TRACKS = "tracks.h5"
TRAJECTORIES = "trajectories.h5"
EVENTS = "events.jsonl"
QUESTIONS = "questions.jsonl"
AUDIT = "audit.json"
LOCK = ".lock"
WORK = ".work"  # finished segments of an unfinished stage
QUALITY = "quality"  # figures and pictures of how good the reconstruction is
PREVIEW = "preview"  # pictures of `demo` and `view`

RESULTS = (
    CONFIG, RECORDING, VIDEO, GEOMETRY, SPLATS, RECONSTRUCTION, TRACKS, TRAJECTORIES, EVENTS, QUESTIONS, AUDIT,
)  # fmt: skip


def is_output_folder(folder: Path) -> bool:
    """True if a run has begun here."""
    return (folder / LEDGER).is_file() or (folder / RECORDING).is_file()
