"""Which reader a folder belongs to, and why."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from geo.errors import RecordingError
from geo.images import list_images
from geo.readers import adt, aria, colmap, epic_fields, hot3d, kalibr_rig, nerfstudio, plain, rgbd, tum_rgbd, xperience
from geo.readers.evidence import Evidence
from geo.recording import Recording


@dataclass(frozen=True)
class Reader:
    """One format: its name, what it is, how it is recognised and read."""

    name: str
    summary: str
    look: Callable[[Path], Evidence]
    read: Callable[[Path], Recording]


_MAX_FOLDERS, _MAX_NAMED = 32, 3

READERS: dict[str, Reader] = {
    reader.name: reader
    for reader in (
        Reader("plain", "this project's own layout: recording.json, trajectory.csv, videos", plain.look, plain.read),
        Reader("rgbd", "7-Scenes / tsdf-fusion folder: frame-NNNNNN.color/depth/pose", rgbd.look, rgbd.read),
        Reader("nerfstudio", "nerfstudio / instant-ngp folder: transforms.json", nerfstudio.look, nerfstudio.read),
        Reader("aria", "Project Aria: a VRS file and MPS output", aria.look, aria.read),
        Reader(
            "adt", "Aria Digital Twin sequence: video.vrs, aria_trajectory.csv, scene_objects.csv", adt.look, adt.read
        ),
        Reader("hot3d", "HOT3D sequence: metadata.json, headset_trajectory.csv", hot3d.look, hot3d.read),
        Reader("colmap", "COLMAP model (text or binary) with its images", colmap.look, colmap.read),
        Reader("tum_rgbd", "TUM RGB-D folder: rgb.txt, depth.txt, groundtruth.txt", tum_rgbd.look, tum_rgbd.read),
        Reader("epic_fields", "EPIC-Fields JSON with its video or frames", epic_fields.look, epic_fields.read),
        Reader(
            "kalibr_rig", "Kalibr rig: rig.json, camchain.yaml, pictures, trajectory", kalibr_rig.look, kalibr_rig.read
        ),
        Reader(
            "xperience", "HOMIE / Xperience-10M episode: annotation.hdf5, six videos", xperience.look, xperience.read
        ),
    )
}


@dataclass(frozen=True)
class SniffReport:
    """The chosen format (None: no or no single reader fits) and what each reader found and missed."""

    path: Path
    format_name: str | None
    evidence: dict[str, Evidence]

    def explain(self) -> str:
        """One line per reader."""
        lines = []
        for name, found in self.evidence.items():
            verdict = "fits" if found.matches else "does not fit"
            lines.append(f"{name} {verdict}: {'; '.join([*found.present, *('no ' + m for m in found.missing)])}")
        return "\n".join(lines)


def sniff(path: Path | str) -> SniffReport:
    """Look at a folder and say which reader takes it and why.

    Raises:
        RecordingError: the path does not exist or is no folder.
    """
    folder = Path(path)
    if not folder.exists():
        raise RecordingError(f"recording {folder} does not exist")
    if not folder.is_dir():
        raise RecordingError(
            f"recording {folder} is a file; give the folder that holds the recording. For a video without poses, "
            f"`egospatial poses {folder} --out DIR` makes one"
        )
    evidence = {name: reader.look(folder) for name, reader in READERS.items()}
    fitting = [name for name, found in evidence.items() if found.matches]
    return SniffReport(folder, fitting[0] if len(fitting) == 1 else None, evidence)


def open_recording(path: Path | str, format_name: str | None = None) -> Recording:
    """Read a recording: cameras, times and poses now, pictures and depth when asked for.

    Args:
        path: Folder of the recording.
        format_name: One of ``READERS``, or None to look (see ``sniff``).

    Raises:
        RecordingError: no reader or several fit, a file is missing, cut off or contradicts another, or nothing is
            in it. CameraError, TimeError, PoseError: where the fault is one of these.
    """
    if format_name is not None and format_name not in READERS:
        raise RecordingError(f"unknown format {format_name!r}; known are {', '.join(READERS)}")
    report = sniff(path)
    name = format_name or report.format_name
    if name is None:
        raise RecordingError(_why_none(report))
    recording = READERS[name].read(report.path)
    if len(recording.reference.timestamps_ns) == 0:
        raise RecordingError(f"{report.path}: reader {name} found not a single frame")
    if len(recording.trajectory.timestamps_ns) == 0:
        raise RecordingError(f"{report.path}: reader {name} found not a single pose")
    return replace(recording, format_name=name)


def _why_none(report: SniffReport) -> str:
    """What to tell a user whose folder no single reader takes."""
    several = [name for name, found in report.evidence.items() if found.matches]
    if several:
        return f"{report.path} fits several formats ({', '.join(several)}): name one with --format"
    parts = [f"{report.path} is no known recording"]
    parts += [f"its folder {name}/ is one ({fits}): give that" for name, fits in _recordings_below(report.path)]
    near = [line for line, found in zip(report.explain().split("\n"), report.evidence.values(), strict=True)
            if found.present]  # fmt: skip
    if near:
        parts.append("nearest: " + " | ".join(near))
    else:
        parts.append(f"of no format ({', '.join(READERS)}) is a single file here: docs/formats.md says what each needs")
    if any(folder.is_dir() and list_images(folder) for folder in (report.path, report.path / "images")):
        parts.append(f"for images without poses, `egospatial poses {report.path} --out DIR` makes one")
    return "; ".join(parts)


def _recordings_below(path: Path) -> list[tuple[str, str]]:
    """Sub-folders that a reader takes, with its name; a look at the first few, not a search."""
    folders = sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    fits = ((entry.name, sniff(entry).format_name) for entry in folders[:_MAX_FOLDERS])
    return [(name, found) for name, found in fits if found is not None][:_MAX_NAMED]
