"""Files that a printf pattern of a manifest names: ``rgb/%06d.png`` and the numbers that there are."""

import re
from pathlib import Path

from geo.errors import RecordingError
from geo.readers.evidence import path_inside

_PRINTF = re.compile(r"%(0\d{1,2})?d", re.ASCII)


def pattern_numbers(folder: Path, pattern: str, what: str) -> list[int]:
    """Numbers, rising, for which there is a file of exactly that name (``%06d`` does not mean ``1.png``).

    Args:
        folder: The pattern's root, which it may not leave.
        pattern: With one ``%d`` or ``%06d`` in the file's name.
        what: Begins messages.

    Raises:
        RecordingError: no such pattern, or its folder cannot be listed.
    """
    path_inside(folder, pattern, f"{what}: images")
    if len(_PRINTF.findall(pattern)) != 1 or pattern.count("%") != 1:
        raise RecordingError(f"{what}: images = {pattern!r} needs exactly one number such as %d or %06d")
    stem, tail = _split(pattern)
    if "/" in tail:
        raise RecordingError(f"{what}: images = {pattern!r}: the number must be in the file's name")
    parent = (folder / pattern).parent
    shape = re.compile(re.escape(stem) + r"(\d{1,19})" + re.escape(tail), re.ASCII)
    try:
        names = [entry.name for entry in parent.iterdir()] if parent.is_dir() else []
    except OSError as error:
        raise RecordingError(f"{what}: images = {pattern!r} cannot be listed: {error}") from error
    return sorted(
        int(match[1])
        for name in names
        if (match := shape.fullmatch(name)) and (pattern % int(match[1])).rsplit("/", 1)[-1] == name
    )


def pattern_files(folder: Path, pattern: str, numbers: list[int] | range, what: str) -> list[Path]:
    """The files of some numbers; see ``pattern_numbers``.

    Raises:
        RecordingError: one is missing (it is named), or lies outside the folder.
    """
    files = []
    for number in numbers:  # one by one: a single wrong number must not ask for a billion names
        file = path_inside(folder, pattern % number, f"{what}: images")
        if not file.is_file():
            raise RecordingError(f"{what}: image {file} is missing")
        files.append(file)
    return files


def _split(pattern: str) -> tuple[str, str]:
    """What stands before and after the number in the file's name."""
    match = _PRINTF.search(pattern)
    head, tail = (pattern, "") if match is None else (pattern[: match.start()], pattern[match.end() :])
    return head.rsplit("/", 1)[-1], tail
