"""Where the files of an Aria recording are: the VRS file, and MPS output beside it or in ``mps``."""

import os
from dataclasses import dataclass
from pathlib import Path

from geo.errors import RecordingError
from geo.readers.evidence import path_inside

VRS_NAMES = ("video.vrs", "recording.vrs", "sample.vrs")
TRAJECTORY_NAMES = ("closed_loop_trajectory.csv", "closed_loop_trajectory.csv.gz")
POINT_NAMES = ("semidense_points.csv.gz", "global_points.csv.gz", "semidense_points.csv", "global_points.csv")
GAZE_NAMES = (
    "personalized_eye_gaze.csv",
    "general_eye_gaze.csv",
    "generalized_eye_gaze.csv",
    "generalized_gaze.csv",
    "eyegaze.csv",
)
HAND_NAMES = ("hand_tracking_results.csv", "wrist_and_palm_poses.csv")
CALIBRATION_NAMES = ("online_calibration.jsonl",)
_DEPTH = 4
_MAX_FILES = 100_000


@dataclass(frozen=True)
class AriaFiles:
    """Files of a recording; None where there is none."""

    vrs: Path | None
    trajectory: Path | None
    points: Path | None
    gaze: Path | None
    hands: Path | None
    online_calibration: Path | None


def vrs_file(folder: Path) -> Path | None:
    """The recording's VRS file: one of the usual names, else the only one there is; None if that does not decide."""
    for name in VRS_NAMES:
        if (folder / name).is_file():
            return folder / name
    others = sorted(path for path in folder.glob("*.vrs") if path.is_file())
    return others[0] if len(others) == 1 else None


def _by_name(folder: Path) -> dict[str, list[Path]]:
    """Files by name, the least deep first; hidden folders are left out."""
    found: dict[str, list[Path]] = {}
    count = 0
    for root, folders, names in os.walk(folder):
        depth = len(Path(root).relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and depth < _DEPTH)
        count += len(names)
        if count > _MAX_FILES:
            break
        for name in names:
            found.setdefault(name, []).append(Path(root) / name)
    return {name: sorted(paths, key=lambda path: (len(path.parts), str(path))) for name, paths in found.items()}


def _chosen(names: tuple[str, ...], found: dict[str, list[Path]], folder: Path, warnings: list[str]) -> Path | None:
    """The file of the first name that there is; more of its kind are named in a warning."""
    there = [path for name in names for path in found.get(name, [])]
    if not there:
        return None
    if len(there) > 1:
        rest = ", ".join(str(path.relative_to(folder)) for path in there[1:4])
        warnings.append(f"{there[0].relative_to(folder)} is read; of its kind are also there: {rest}")
    return path_inside(folder, there[0].relative_to(folder).as_posix(), there[0].name)


def find_files(folder: Path, warnings: list[str]) -> AriaFiles:
    """All files of a recording that this reader knows.

    Raises:
        RecordingError: a file lies outside the folder (a symbolic link).
    """
    found = _by_name(folder)
    kinds = (TRAJECTORY_NAMES, POINT_NAMES, GAZE_NAMES, HAND_NAMES, CALIBRATION_NAMES)
    vrs = vrs_file(folder)
    if vrs is not None:
        vrs = path_inside(folder, vrs.relative_to(folder).as_posix(), vrs.name)
    return AriaFiles(vrs, *(_chosen(names, found, folder, warnings) for names in kinds))


def required_vrs(folder: Path) -> Path:
    """The VRS file.

    Raises:
        RecordingError: there is none, or several of no usual name.
    """
    path = vrs_file(folder)
    if path is None:
        names = sorted(found.name for found in folder.glob("*.vrs"))
        what = f"several VRS files ({', '.join(names[:5])}) of no usual name" if names else "no VRS file"
        raise RecordingError(f"{folder} has {what}; name the recording's {VRS_NAMES[0]}")
    return path_inside(folder, path.relative_to(folder).as_posix(), path.name)
