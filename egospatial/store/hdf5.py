"""HDF5 with the store's rules: whole files, checked readers, the same bytes for the same content."""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from egospatial.errors import StoreError
from egospatial.store.atomic import atomic_path, check_schema, json_text, missing


class PatientFile:
    """A file for HDF5 to write to that never fails: it keeps the first error for whoever closes it.

    A write that fails inside HDF5 leaves the library in a state that ends in a crash at exit (h5py issue 914). Here
    HDF5 is told that all went well; nothing more is written, and the file is thrown away by ``create``.
    """

    def __init__(self, path: Path) -> None:
        """Open a new file without a buffer, so that an error shows at its own write."""
        self._file = open(path, "w+b", buffering=0)
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all bytes, or keep the error."""
        view = memoryview(data).cast("B")
        written = 0
        while self.error is None and written < len(view):
            try:
                written += self._file.write(view[written:])
            except OSError as error:
                self.error = error
        if self.error is not None:
            self._file.seek(len(view) - written, 1)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Set the size, or keep the error."""
        try:
            return self._file.truncate(size)
        except OSError as error:
            self.error = self.error or error
            return size or 0

    def readinto(self, buffer: Any) -> int:
        """Read back; what was never written is zero."""
        view = memoryview(buffer).cast("B")
        found = self._file.readinto(view)
        view[found:] = bytes(len(view) - found)
        return len(view)

    def read(self, size: int = -1) -> bytes:
        """Read back (h5py tells file-like objects by this name)."""
        return self._file.read(size) or b""

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Where it is."""
        return self._file.tell()

    def flush(self) -> None:
        """There is no buffer."""

    def close(self) -> None:
        """Close the file below."""
        self._file.close()


@contextlib.contextmanager
def create(path: Path, schema: str) -> Iterator[Any]:
    """A new HDF5 file under a temporary name, renamed to ``path`` when the block ends well.

    Format bound to HDF5 1.8 so that old tools open it; no time stamps, so equal content is equal bytes.

    Raises:
        StoreError: the disk is full, a size limit is hit, or the folder cannot be written.
    """
    import h5py

    with atomic_path(path) as temporary:
        target = PatientFile(temporary)
        try:
            with h5py.File(target, "w", libver=("earliest", "v108"), track_order=False) as file:
                file.attrs["schema"] = schema
                yield file
        except Exception as error:
            if target.error is not None and target.error is not error:
                raise target.error from error
            raise
        finally:
            target.close()
        if target.error is not None:
            raise target.error


@contextlib.contextmanager
def opened(path: Path, schema: str) -> Iterator[Any]:
    """Open for reading after checking that it is a whole HDF5 file of this schema.

    Raises:
        StoreError: missing, truncated or damaged, or another schema.
    """
    import h5py

    if not path.is_file():
        raise missing(path)
    try:
        file = h5py.File(path, "r", locking=False)
    except OSError as error:
        raise StoreError(f"{path}: not a readable HDF5 file ({error}): cut off? Run the stage again.") from error
    with file:
        check_schema(path, file.attrs.get("schema"), schema)
        try:
            yield file
        except StoreError:
            raise
        except (KeyError, OSError) as error:
            raise StoreError(f"{path}: damaged or incomplete ({error}). Run the stage again.") from error


_METADATA_BYTES = 1 << 18


def bound_metadata(file: Any) -> None:
    """Keep at most 256 KiB of an open file's chunk index, whatever the number of chunks.

    HDF5 counts what the index takes on disk; its nodes are five times as large in memory and, left alone, up to 32 MiB
    of them are kept: some 500 bytes a chunk.
    """
    config = file.id.get_mdc_config()
    config.set_initial_size = True
    config.initial_size = config.min_size = config.max_size = _METADATA_BYTES
    config.incr_mode = config.flash_incr_mode = config.decr_mode = 0
    file.id.set_mdc_config(config)


def put(group: Any, name: str, values: Any, compress: bool | None = None, **attributes: Any) -> Any:
    """Write an array with its attributes (units, meanings); big ones shuffled and deflated.

    Raises:
        TypeError: for object arrays (they would need pickle): our own mistake.
    """
    array = np.asarray(values)
    if array.dtype == bool:
        array = array.astype(np.uint8)
    if array.dtype.kind in "OU":
        raise TypeError(f"dataset {name}: dtype {array.dtype} cannot be stored; use put_strings for text")
    big = array.size > 256 if compress is None else compress and array.size > 0
    options: dict[str, Any] = {"compression": "gzip", "compression_opts": 4, "shuffle": True} if big else {}
    dataset = group.create_dataset(name, data=array, track_times=False, **options)
    for key, value in attributes.items():
        dataset.attrs[key] = value
    return dataset


def put_strings(group: Any, name: str, texts: Sequence[str], **attributes: Any) -> None:
    """Write text as fixed-length UTF-8 bytes."""
    encoded = [text.encode() for text in texts]
    width = max([1, *map(len, encoded)])
    put(group, name, np.array(encoded, dtype=f"S{width}"), **attributes)


def put_json(group: Any, name: str, document: Any) -> None:
    """Write a JSON document as UTF-8 bytes."""
    put(group, name, np.frombuffer(json_text(document).encode(), dtype=np.uint8))


def get(group: Any, name: str) -> np.ndarray[Any, Any]:
    """Read a dataset whole. Raises KeyError if it is not there (``opened`` makes it a StoreError)."""
    array: np.ndarray[Any, Any] = group[name][()]
    if array.dtype.kind == "O":
        raise StoreError(f"{group.file.filename}: dataset {name} has type {array.dtype}, which is never stored here")
    return array


def get_strings(group: Any, name: str) -> list[str]:
    """Read what ``put_strings`` wrote."""
    return [bytes(item).decode() for item in get(group, name)]


def get_json(group: Any, name: str) -> Any:
    """Read what ``put_json`` wrote."""
    return json.loads(get(group, name).tobytes().decode())


_BLOCK_BYTES = 1 << 20


def content_digest(node: Any) -> str:
    """SHA-256 over names, types, shapes, values and attributes of a group or dataset."""
    digest = hashlib.sha256()
    _feed(digest, node)
    return digest.hexdigest()


def _feed(digest: Any, node: Any) -> None:
    import h5py

    for key in sorted(node.attrs):
        digest.update(f"@{key}={node.attrs[key]!r}".encode())
    if isinstance(node, h5py.Group):
        for name in sorted(node):
            digest.update(f"/{name}".encode())
            _feed(digest, node[name])
        return
    digest.update(f"{node.dtype.str}{node.shape}".encode())
    if node.chunks is not None and node.ndim > 1 and node.chunks[0] == 1:
        for index in range(node.shape[0]):
            digest.update(node[index].tobytes())
    elif node.ndim and node.size:
        rows = max(1, _BLOCK_BYTES * len(node) // max(node.nbytes, 1))
        for start in range(0, len(node), rows):  # the bytes of the whole, never all of them at once
            digest.update(np.ascontiguousarray(node[start : start + rows]).tobytes())
    else:
        digest.update(np.ascontiguousarray(node[()]).tobytes())
