"""Files that are there whole or not at all."""

import contextlib
import errno
import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from egospatial.errors import StoreError

_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
_WRONG_PLACE = (  # a folder that may not be written, or a path on which a file or a folder cannot be made
    errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENOTEMPTY,
    errno.ENAMETOOLONG, errno.ELOOP,
)  # fmt: skip
# HDF5 tells the reason in its text only: "errno = 28, error message = 'No space left on device'"
_ERRNO_IN_TEXT = re.compile(r"errno = (\d+)")
_TEMPORARY = re.compile(r"^\..+\.(tmp|partial)")


def flush_folder(folder: Path) -> None:
    """Make renames in a folder durable (a no-op where folders cannot be opened)."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current


def no_room_reason(error: BaseException) -> str | None:
    """The system's words if an error (or its cause) means that no more can be written, else None."""
    seen: BaseException | None = error
    while seen is not None:
        number = getattr(seen, "errno", None)
        in_text = _ERRNO_IN_TEXT.search(str(seen))
        if number is None and in_text:
            number = int(in_text.group(1))
        if number in _NO_ROOM:
            return os.strerror(number)
        seen = seen.__cause__ or seen.__context__
    return None


def write_failure(path: Path, error: BaseException) -> StoreError | None:
    """Known error for a failed write, or None if the failure has nothing to do with writing."""
    reason = no_room_reason(error)
    if reason is not None:
        return StoreError(
            f"{path}: could not be written: no space left or a file size limit ({reason}). Earlier results are "
            "untouched; free some space and run the same command again, it goes on from there."
        )
    if isinstance(error, OSError) and error.errno in _WRONG_PLACE:
        return StoreError(f"{path}: could not be written: {error.strerror}. Choose an --out folder that you may write.")
    return None


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path in the same folder; on success flush it and rename it to ``path``.

    On any failure the temporary file is removed and ``path`` stays as it was.

    Raises:
        StoreError: if the disk is full, a size limit is hit, or the folder cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with open(temporary, "rb+") as handle:
            os.fchmod(handle.fileno(), 0o666 & ~_umask())
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        known = write_failure(path, error)
        if known is not None:
            raise known from error
        raise
    flush_folder(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def _plain(value: Any, keep_arrays: bool = False) -> Any:
    """JSON-able form: numpy to lists and numbers, NaN and infinities to null; arrays may be left for the encoder."""
    if hasattr(value, "tolist"):
        if keep_arrays and getattr(value, "size", 1) > 1:
            return value
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(item, keep_arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, keep_arrays) for item in value]
    return value


def json_text(document: Any, indent: int | None = None) -> str:
    """JSON with the keys in the order given, non-ASCII as it is; what is not finite becomes null."""
    return json.dumps(_plain(document), ensure_ascii=False, indent=indent, allow_nan=False)


def write_json(path: Path, document: Any) -> None:
    """Write one JSON document atomically, indented, UTF-8; never the whole text in memory, arrays one at a time."""
    encoder = json.JSONEncoder(ensure_ascii=False, indent=1, allow_nan=False, default=_plain)
    with atomic_path(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as handle:
        handle.writelines(encoder.iterencode(_plain(document, keep_arrays=True)))
        handle.write("\n")


def write_jsonl(path: Path, rows: Iterable[Any]) -> None:
    """Write one JSON document per line atomically, UTF-8."""
    write_bytes(path, "".join(json_text(row) + "\n" for row in rows).encode())


def read_json(path: Path, schema: str) -> dict[str, Any]:
    """Read a JSON document and check its ``schema`` entry.

    Raises:
        StoreError: missing, not JSON (truncated), or another schema.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise missing(path) from None
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read as JSON ({error}). Remove it and run the stage again.") from error
    if not isinstance(document, dict):
        raise StoreError(f"{path}: expected one JSON object, found {type(document).__name__}.")
    check_schema(path, document.get("schema"), schema)
    return document


def read_jsonl(path: Path, schema: str) -> list[dict[str, Any]]:
    """Read JSON lines whose first line is a header with ``schema`` and ``rows``; the header is left out.

    Raises:
        StoreError: missing, truncated (a cut line, or fewer rows than the header says), or another schema.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise missing(path) from None
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read ({error}). Run the stage again.") from error
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise StoreError(f"{path} line {number}: not JSON ({error}): cut off? Run the stage again.") from error
    if not rows:
        raise StoreError(f"{path}: empty; expected a header line. Run the stage again.")
    header = rows.pop(0)
    check_schema(path, header.get("schema"), schema)
    if header.get("rows") != len(rows):
        raise StoreError(f"{path}: the header says {header.get('rows')} rows, the file holds {len(rows)}: cut off?")
    return rows


def missing(path: Path) -> StoreError:
    """Error for a file that is not there."""
    return StoreError(f"{path}: not there. Run the stage that writes it, or check that this is an output folder.")


def check_schema(path: Path, found: Any, expected: str) -> None:
    """Refuse a file of another kind or version."""
    if found != expected:
        raise StoreError(
            f"{path}: schema is {found!r}, this version reads {expected!r}. "
            "Run the stage again with this version, or open the folder with the version that wrote it."
        )


def remove_leftovers(folder: Path) -> list[Path]:
    """Remove temporary files of killed runs; only while holding the folder's lock."""
    found = [p for p in sorted(folder.rglob(".*")) if p.is_file() and _TEMPORARY.match(p.name)]
    for path in found:
        path.unlink(missing_ok=True)
    return found
