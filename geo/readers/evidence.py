"""What a reader found in a folder, and paths that stay inside it."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

from geo.errors import RecordingError


@dataclass(frozen=True)
class Evidence:
    """What speaks for a format and what is missing for it."""

    present: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def matches(self) -> bool:
        """True if nothing is missing."""
        return not self.missing


def path_inside(folder: Path, relative: str, what: str) -> Path:
    """Path of a file that a manifest names, which must lie in the recording's folder.

    Raises:
        RecordingError: absolute, climbing out by ``..`` or by a symbolic link.
    """
    pure = PurePosixPath(relative)
    if not relative or pure.is_absolute() or PureWindowsPath(relative).drive or "\\" in relative or "\0" in relative:
        raise RecordingError(f"{what} = {relative!r} in {folder} must be a relative path with / between its parts")
    path = folder / pure
    if not path.resolve().is_relative_to(folder.resolve()):
        raise RecordingError(f"{what} = {relative!r} leaves the recording folder {folder}; copy the file into it")
    return path


def own_narrations(folder: Path) -> Path | None:
    """``narrations.jsonl`` of a recording, which every format may have beside its own files; None without one.

    Raises:
        RecordingError: it is a symbolic link that leaves the folder.
    """
    path = path_inside(folder, "narrations.jsonl", "narrations")
    return path if path.is_file() else None
