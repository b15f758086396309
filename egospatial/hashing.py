"""Identities: of input files, of settings, of a stage."""

import dataclasses
import enum
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from egospatial.errors import FrontDoorError

WHOLE_FILE_BYTES = 8 << 20  # files up to this size are hashed whole
_SAMPLES = 32
_SAMPLE_BYTES = 64 << 10


def file_identity(path: Path) -> dict[str, Any]:
    """Identity of an input file.

    Up to 8 MiB: SHA-256 of the content, so that a copy counts as the same file. Bigger: SHA-256 of 32 evenly
    spread blocks of 64 KiB with the first and last byte among them, together with size and modification time; a
    rewritten big file is then never taken for the old one, a merely touched one is processed again.

    Raises:
        FrontDoorError: the file is missing or cannot be read.
    """
    try:
        status = path.stat()
        with open(path, "rb") as handle:
            if status.st_size <= WHOLE_FILE_BYTES:
                return {"name": path.name, "size": status.st_size, "sha256": hashlib.sha256(handle.read()).hexdigest()}
            digest = hashlib.sha256()
            last = status.st_size - _SAMPLE_BYTES
            for number in range(_SAMPLES):
                handle.seek(last * number // (_SAMPLES - 1))
                digest.update(handle.read(_SAMPLE_BYTES))
    except OSError as error:
        raise FrontDoorError(f"{path}: cannot be read ({error.strerror}). Is the recording complete?") from error
    return {
        "name": path.name, "size": status.st_size, "mtime_ns": status.st_mtime_ns, "sampled_sha256": digest.hexdigest(),
    }  # fmt: skip


def files_identity(paths: Iterable[Path]) -> dict[str, Any]:
    """Identity of a list of files: how many, how big, one digest over all."""
    identities = [file_identity(path) for path in paths]
    return {
        "files": len(identities),
        "bytes": sum(item["size"] for item in identities),
        "digest": digest_of(identities),
    }


def plain(value: Any) -> Any:
    """JSON-able form of a setting: dataclasses to dicts, paths and enums to text, tuples to lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    return value


def digest_of(value: Any) -> str:
    """SHA-256 of a JSON-able value; floats by their shortest exact text, keys sorted."""
    text = json.dumps(plain(value), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a whole file, read in blocks."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
