"""Values from an HDF5 file that nobody vouches for: what they are is checked before they are read.

A file may point elsewhere (external and soft links, raw data in other files, virtual datasets), hold references or
named types where numbers belong, or claim a shape of terabytes without holding a byte. All of that is refused, with
the dataset's name; values come from the file itself or not at all.
"""

from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from geo.errors import RecordingError
from geo.readers.xperience.heap_check import heap_fault

_MAX_BYTES = 1 << 28  # of one dataset that is read whole, and of one chunk
_MAX_TEXT = 1 << 26
_HDF5_ERRORS = (OSError, KeyError, RuntimeError, ValueError, TypeError, OverflowError, MemoryError, AttributeError)
Shape = tuple[int | None, ...]


def _shape_text(shape: Shape) -> str:
    return "(" + ", ".join("any" if side is None else str(side) for side in shape) + ")"


class Hdf5Values:
    """An open HDF5 file; use it in a ``with`` statement, or close it."""

    def __init__(self, path: Path) -> None:
        """Open for reading.

        Raises:
            RecordingError: missing, no HDF5, or cut off.
        """
        import h5py
        import hdf5plugin  # noqa: F401  (registers the compression filters)

        self.path = path
        if not path.is_file():
            raise RecordingError(f"{path} is missing")
        try:
            self._file: Any = h5py.File(path, "r")
        except _HDF5_ERRORS as error:
            raise RecordingError(f"{path} is no HDF5 file that can be read: {error}; is it cut off?") from error

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> "Hdf5Values":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _fault(self, name: str, what: str) -> RecordingError:
        return RecordingError(f"{self.path}: {name} {what}")

    def _node(self, name: str) -> Any:
        """The object of a path, one hard link after the other; None where there is none."""
        import h5py

        node: Any = self._file
        try:
            for part in name.split("/"):
                if not isinstance(node, h5py.Group):
                    return None
                link = node.get(part, getlink=True)
                if link is None:
                    return None
                if not isinstance(link, h5py.HardLink):
                    raise self._fault(name, f"is a {type(link).__name__} at {part!r}: links to elsewhere are not read")
                node = node[part]
        except _HDF5_ERRORS as error:
            if isinstance(error, RecordingError):
                raise
            raise self._fault(name, f"cannot be read: {error}; is the file cut off or damaged?") from error
        return node

    def has(self, name: str) -> bool:
        """True if there is something of that name."""
        return self._node(name) is not None

    def dataset(self, name: str) -> Any:
        """A dataset whose bytes lie in this file, not yet read.

        Raises:
            RecordingError: it is missing, no dataset, or its bytes lie elsewhere or nowhere.
        """
        import h5py

        node = self._node(name)
        if node is None:
            raise self._fault(name, "is missing; is this a whole annotation file?")
        if not isinstance(node, h5py.Dataset):
            raise self._fault(name, f"is a {type(node).__name__.lower()}, no dataset")
        try:
            if node.is_virtual or node.external:
                raise self._fault(name, "has its data in other files, which are not read")
            if node.shape is None:
                raise self._fault(name, "is empty")
            item = node.dtype.itemsize  # a damaged type fails here, not at the caller's
            if node.chunks is not None and int(np.prod(node.chunks, dtype=object)) * item > _MAX_BYTES:
                raise self._fault(name, f"comes in chunks of {node.chunks}: more than {_MAX_BYTES >> 20} MiB at a time")
            if node.size and not node.id.get_storage_size():
                raise self._fault(name, f"claims the shape {node.shape} but holds no data")
        except _HDF5_ERRORS as error:
            if isinstance(error, RecordingError):
                raise
            raise self._fault(name, f"cannot be read: {error}") from error
        return node

    def numbers(self, name: str, shape: Shape) -> Shaped[np.ndarray, "..."]:
        """All numbers of a dataset of this shape (None: any length), as stored.

        Raises:
            RecordingError: see ``dataset``; another shape, no numbers, or too many to be meant.
        """
        data = self.dataset(name)
        self.check(name, data, shape)
        return self._read(name, data, ())

    def check(self, name: str, data: Any, shape: Shape, kinds: str = "fiu") -> None:
        """Refuse a dataset of another kind, shape or size than is meant to be read whole."""
        if data.dtype.kind not in kinds or data.dtype.hasobject:
            raise self._fault(name, f"holds {data.dtype}, no {'numbers' if kinds == 'fiu' else 'text'}")
        found = tuple(data.shape)
        if len(found) != len(shape) or any(want is not None and want != got for want, got in zip(shape, found)):  # noqa: B905
            raise self._fault(name, f"has shape {found}, expected {_shape_text(shape)}")
        if int(np.prod(found, dtype=object)) * data.dtype.itemsize > _MAX_BYTES:
            raise self._fault(name, f"of shape {found} is larger than {_MAX_BYTES >> 20} MiB; is the file damaged?")

    def row(self, name: str, data: Any, index: int) -> Shaped[np.ndarray, "..."]:
        """One row of a dataset that was checked before."""
        return self._read(name, data, index)

    def _read(self, name: str, data: Any, key: Any) -> Shaped[np.ndarray, "..."]:
        try:
            return np.asarray(data[key])
        except _HDF5_ERRORS as error:
            raise self._fault(name, f"cannot be read: {error}; is the file cut off or damaged?") from error

    def floats(self, name: str, shape: Shape) -> Float64[np.ndarray, "..."]:
        """Numbers as float64; see ``numbers``. NaN and infinity stay what they are."""
        with np.errstate(over="ignore"):
            return np.asarray(self.numbers(name, shape), dtype=np.float64)

    def scalar(self, name: str) -> float:
        """The one number of a dataset of shape () or (1,).

        Raises:
            RecordingError: see ``numbers``; or it is not finite.
        """
        data = self.dataset(name)
        shape = () if data.ndim == 0 else (1,)
        value = float(self.floats(name, shape).ravel()[0])
        if not np.isfinite(value):
            raise self._fault(name, f"= {value} is not finite")
        return value

    def whole(self, name: str, shape: Shape) -> Int64[np.ndarray, "..."]:
        """Whole numbers as int64, exact.

        Raises:
            RecordingError: see ``numbers``; or they are floats, or do not fit.
        """
        values = self.numbers(name, shape)
        if values.dtype.kind not in "iu":
            raise self._fault(name, f"holds {values.dtype}, no whole numbers")
        if values.dtype.kind == "u" and values.size and int(values.max()) >= 2**63:
            raise self._fault(name, "holds a number that does not fit 64 bits")
        return values.astype(np.int64)

    def texts(self, name: str, count: int | None = None) -> list[str]:
        """Strings of a dataset of one dimension or none: fixed bytes (NUL padded), variable length, or bytes as uint8.

        Raises:
            RecordingError: see ``dataset``; no text, no UTF-8, or another number of strings.
        """
        import h5py

        data = self.dataset(name)
        if data.ndim > 1 and not (data.ndim == 2 and data.dtype == np.uint8):
            raise self._fault(name, f"has shape {tuple(data.shape)}, expected a list of strings")
        if count is not None and (data.ndim == 0 or data.shape[0] != count):
            raise self._fault(name, f"has shape {tuple(data.shape)}, expected {count} strings")
        if int(np.prod(data.shape, dtype=object)) * max(data.dtype.itemsize, 1) > _MAX_BYTES:
            raise self._fault(name, f"of shape {tuple(data.shape)} is too large to be meant")
        variable = h5py.check_string_dtype(data.dtype)
        if variable is None and data.dtype != np.uint8:
            raise self._fault(name, f"holds {data.dtype}, no text")
        if variable is not None and variable.length is None:
            self._check_heap(name, data)
        values = self._read(name, data, ())
        if data.dtype == np.uint8:
            rows = [row.tobytes() for row in values] if data.ndim == 2 else [values.tobytes()]
        else:
            rows = [values.item()] if data.ndim == 0 else list(values.tolist())
        return [self._decoded(name, row) for row in rows]

    def _check_heap(self, name: str, data: Any) -> None:
        """Text of variable length only from heaps that are in order: the library does not return from others."""
        try:
            fault = heap_fault(self.path, data, int(self._file.userblock_size))
        except _HDF5_ERRORS as error:
            raise self._fault(name, f"cannot be read: {error}") from error
        if fault:
            raise self._fault(name, fault)

    def _decoded(self, name: str, value: Any) -> str:
        if isinstance(value, str):
            value = value.encode("utf-8", "surrogateescape")
        if not isinstance(value, bytes) or len(value) > _MAX_TEXT:
            raise self._fault(name, "holds a string that cannot be meant")
        try:
            return value.rstrip(b"\0").decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._fault(name, f"is no UTF-8 text: {error}") from error
