"""Text files as they come: byte order mark, CRLF, gzip; and numbers that are read strictly, with file and line.

``float`` and ``int`` take more than a data file should hold (``1_0``, digits of other scripts); here only plain decimal
numbers count, and time never passes through a float (FIELD P4).
"""

import contextlib
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from pathlib import Path

from geo.errors import RecordingError

_GZIP_MAGIC = b"\x1f\x8b"
_MAX_BYTES = 1 << 30
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?\d{1,30}", re.ASCII)
_MAX_CHARACTERS = 64
_INT64 = 2**63
_NS_DIGITS = 9


def read_text(path: Path) -> str:
    r"""Content of a UTF-8 file, gzipped or not, without byte order mark, lines ended by ``\n``.

    Raises:
        RecordingError: missing, unreadable, a gzip that is cut off or damaged, no UTF-8, or NUL bytes in it.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}") from error
    if data.startswith(_GZIP_MAGIC):
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
                data = file.read(_MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise RecordingError(
                f"{path} is a gzip file that is cut off or damaged ({error}); fetch it anew"
            ) from error
    if len(data) > _MAX_BYTES:
        raise RecordingError(f"{path} holds more than {_MAX_BYTES >> 20} MiB of text; is it the right file?")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecordingError(f"{path} is no UTF-8 text ({error}); save it as UTF-8") from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise RecordingError(f"{path} line {line} holds a NUL byte: it is no text file, or damaged")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def write_text(path: Path, text: str) -> None:
    """Write UTF-8, gzipped if the name ends in ``.gz``; the file appears whole or not at all.

    Raises:
        RecordingError: it cannot be written.
    """
    data = text.encode("utf-8")
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(gzip.compress(data, mtime=0) if path.suffix.lower() == ".gz" else data)
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise RecordingError(f"{path} cannot be written: {error.strerror}") from error


def data_lines(text: str) -> Iterator[tuple[int, str]]:
    """Stripped lines with their numbers from 1; blank lines and lines that begin with ``#`` are left out."""
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield number, stripped


def number_of(text: str, what: str) -> float:
    """A decimal number, or NaN or infinity where the file says so in letters; ``what`` begins the message.

    Raises:
        RecordingError: it is no number, or too large for one.
    """
    if _NUMBER.fullmatch(text):
        value = float(text)
        if abs(value) != float("inf"):
            return value
        raise RecordingError(f"{what} = {shown(text)} is too large; is the file damaged?")
    if _NOT_FINITE.fullmatch(text):
        return float(text)
    raise RecordingError(f"{what} = {shown(text)} is no number")


def whole_of(text: str, what: str) -> int:
    """A whole number of 64 bits, exact.

    Raises:
        RecordingError: it is no whole number, or does not fit.
    """
    if not _WHOLE.fullmatch(text):
        raise RecordingError(f"{what} = {shown(text)} is no whole number")
    value = int(text)
    if not -_INT64 <= value < _INT64:
        raise RecordingError(f"{what} = {value} does not fit 64 bits")
    return value


def nanoseconds_of(seconds: str, what: str) -> int:
    """Nanoseconds of a decimal number of seconds, exact to the nearest (a tie goes to the even one).

    Raises:
        RecordingError: it is no finite number, or does not fit 64-bit nanoseconds (then it was hardly in seconds).
    """
    if len(seconds) > _MAX_CHARACTERS or not _NUMBER.fullmatch(seconds):
        raise RecordingError(f"{what} = {shown(seconds)} is no time in seconds")
    with localcontext() as context:
        context.prec = 2 * _MAX_CHARACTERS
        value = Decimal(seconds)
        if value and value.adjusted() > _NS_DIGITS:
            whole = _INT64
        elif not value or value.adjusted() < -_NS_DIGITS - 1:
            whole = 0
        else:
            whole = int(value.scaleb(_NS_DIGITS).to_integral_value(ROUND_HALF_EVEN))
    if not -_INT64 <= whole < _INT64:
        raise RecordingError(
            f"{what} = {shown(seconds)} s does not fit 64-bit nanoseconds; are these nanoseconds or microseconds?"
        )
    return whole


def seconds_text(timestamp_ns: int) -> str:
    """Decimal seconds with nine places, exact: the inverse of ``nanoseconds_of``."""
    whole, rest = divmod(abs(timestamp_ns), 10**_NS_DIGITS)
    return f"{'-' if timestamp_ns < 0 else ''}{whole}.{rest:09d}"


def shown(text: str) -> str:
    """A piece of a file for a message, cut to a readable length."""
    return repr(text if len(text) <= 40 else text[:37] + "...")
