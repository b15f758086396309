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


@contextlib.contextmanager
def create(path: Path, schema: str) -> Iterator[Any]:
    """A new HDF5 file under a temporary name, renamed to ``path`` when the block ends well.

    Format bound to HDF5 1.8 so that old tools open it; no time stamps, so equal content is equal bytes.
    """
    import h5py

    with atomic_path(path) as temporary:
        try:
            with h5py.File(temporary, "w", libver=("earliest", "v108"), track_order=False) as file:
                file.attrs["schema"] = schema
                yield file
        except RuntimeError as error:  # h5py's word for a failed flush on close; errno is in its text
            raise OSError(str(error)) from error


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
    else:
        digest.update(np.ascontiguousarray(node[()]).tobytes())
