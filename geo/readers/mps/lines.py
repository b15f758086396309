"""Lines of big text files, gzipped or not, block by block: memory stays bounded, errors name file and line."""

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from geo.errors import RecordingError

_GZIP_MAGIC = b"\x1f\x8b"
_BLOCK_CHARACTERS = 1 << 22
_MAX_LINE_CHARACTERS = 1 << 20


def line_blocks(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Number of the first line and the lines, block by block, of a UTF-8 file, gzipped or not.

    Raises:
        RecordingError: missing, unreadable, a gzip that is cut off or damaged, no UTF-8, NUL bytes, endless lines.
    """
    try:
        raw = path.open("rb")
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}") from error
    with raw:
        number, rest = 1, ""
        stream = None
        try:
            packed = raw.read(2) == _GZIP_MAGIC
            raw.seek(0)
            binary: IO[bytes] = gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[assignment]
            stream = io.TextIOWrapper(binary, encoding="utf-8-sig", newline=None)
            while text := stream.read(_BLOCK_CHARACTERS):
                lines = (rest + text).split("\n")
                rest = lines.pop()
                _check_text(path, number, lines, rest)
                if lines:
                    yield number, lines
                number += len(lines)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise RecordingError(
                f"{path} after line {number - 1}: a gzip file that is cut off or damaged ({error}); fetch it anew"
            ) from error
        except UnicodeDecodeError as error:
            raise RecordingError(f"{path} after line {number - 1}: no UTF-8 text ({error}); fetch it anew") from error
        except OSError as error:
            raise RecordingError(f"{path} cannot be read: {error.strerror or error}") from error
        finally:
            if stream is not None:
                stream.detach()
        if rest:
            yield number, [rest + "\0"]


def _check_text(path: Path, number: int, lines: list[str], rest: str) -> None:
    """No NUL bytes, no line of a size that no table has."""
    for i, line in enumerate([*lines, rest]):
        if "\0" in line:
            raise RecordingError(f"{path} line {number + i} holds a NUL byte: no text file, or damaged; fetch it anew")
        if len(line) > _MAX_LINE_CHARACTERS:
            raise RecordingError(f"{path} line {number + i} is longer than {_MAX_LINE_CHARACTERS} characters; no table")


def whole_line(path: Path, number: int, line: str) -> str:
    """The line; one that the file ends in without a line break (``line_blocks`` marks it) may be cut off.

    Raises:
        RecordingError: it has no line break.
    """
    if line.endswith("\0"):
        raise RecordingError(
            f"{path} line {number} ends without a line break: the file is cut off, the last number may be half of one. "
            "Fetch it anew; if it is whole, end it with a line break"
        )
    return line
