"""PLY as a container: its header, and the columns of one element; text or binary, either byte order.

Every length that a header claims is checked against the file's size before anything of that size is made, so that a
damaged or hostile file costs no more memory than a few times its own bytes.

Source: Turk, "The PLY Polygon File Format" (1994).
"""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np

from recon.errors import ReconError

ByteOrder = Literal["<", ">"]

NUMPY_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2",
    "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4",
    "double": "f8", "float64": "f8",
}  # fmt: skip
_ORDERS: Mapping[str, ByteOrder | None] = {
    "binary_little_endian": "<", "binary_big_endian": ">", "ascii": None,
}  # fmt: skip
_MAX_HEADER_BYTES = 64 * 1024
_MAX_DIGITS = 18


@dataclass(frozen=True)
class Property:
    """One property; a list (of ``kind``) has the type of its length in ``length_kind``. Types as NumPy writes them."""

    name: str
    kind: str
    length_kind: str | None = None


@dataclass(frozen=True)
class Element:
    """One element of the header: its rows and what a row holds."""

    name: str
    count: int
    properties: tuple[Property, ...]

    @property
    def has_lists(self) -> bool:
        """True if rows differ in length."""
        return any(item.length_kind is not None for item in self.properties)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the properties, in the file's order."""
        return tuple(item.name for item in self.properties)


@dataclass(frozen=True)
class Header:
    """What a PLY says of itself; ``byte_order`` None is text. Rows start at byte ``start``."""

    byte_order: ByteOrder | None
    elements: tuple[Element, ...]
    comments: tuple[str, ...]
    start: int

    def element(self, name: str) -> Element | None:
        """The element of that name."""
        return next((item for item in self.elements if item.name == name), None)


def read_header(path: Path) -> Header:
    """Read the header of a PLY.

    Raises:
        ReconError: no such file, not a PLY, or a header that is damaged or longer than 64 KiB.
    """
    try:
        with open(path, "rb") as file:
            return _parse(path, file.read(_MAX_HEADER_BYTES))
    except OSError as error:
        raise ReconError(f"{path}: cannot be read ({error.strerror}); give the path of a PLY file") from error


def read_columns(path: Path, header: Header, name: str) -> dict[str, np.ndarray]:
    """All columns of an element that has no lists, as they are stored (text: as float64).

    Raises:
        ReconError: no such element, a list among its properties, a file that ends too early, or text that is no number.
    """
    element = header.element(name)
    if element is None or not element.properties:
        raise ReconError(f"{path}: its header has no readable 'element {name}' with properties")
    if element.has_lists:
        listed = next(item.name for item in element.properties if item.length_kind is not None)
        raise ReconError(f"{path}: property {listed!r} of {name} is a list; only plain numbers are read")
    try:
        with open(path, "rb") as file:
            read = _text_rows if header.byte_order is None else _binary_rows
            return read(path, file, header, element)
    except OSError as error:
        raise ReconError(f"{path}: cannot be read ({error.strerror})") from error


def write_whole(path: Path, header: str, *rows: np.ndarray) -> None:
    """Write a header and the bytes of arrays after it, under a temporary name first: a whole file or none.

    Raises:
        OSError: it cannot be written; an older file stays.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(part, "wb") as file:
            file.write(header.encode("ascii"))
            for array in rows:
                file.write(np.ascontiguousarray(array).data)  # not tofile: its error for a full disk has no number
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def _parse(path: Path, content: bytes) -> Header:
    if content[:3] != b"ply" or content[3:4] not in (b"\n", b"\r"):
        raise ReconError(f"{path} is not a PLY file: it does not start with a line 'ply'")
    ending = b"\r\n" if content[3:5] == b"\r\n" else content[3:4]
    order: ByteOrder | Literal["unknown"] | None = "unknown"
    found: list[tuple[str, int, list[Property]]] = []
    comments: list[str] = []
    position = 3 + len(ending)
    while True:
        end = content.find(ending, position)
        if end < 0:
            raise ReconError(f"{path} is not a whole PLY file: no line 'end_header' in its first 64 KiB")
        line, position = content[position:end].decode("latin-1"), end + len(ending)
        words = line.split()
        match words[:1]:
            case ["end_header"]:
                break
            case ["format"]:
                order = _ORDERS.get(words[1], "unknown") if len(words) > 1 else "unknown"
            case ["comment"]:
                comments.append(line.strip()[len("comment") :].strip())
            case ["element"]:
                found.append(_element(path, line, words, [item[0] for item in found]))
            case ["property"]:
                if not found:
                    raise ReconError(f"{path}: property line {line!r} comes before any element")
                found[-1][2].append(_property(path, line, words, found[-1][2]))
    if order == "unknown":
        raise ReconError(f"{path}: its format is none of {', '.join(_ORDERS)}")
    elements = tuple(Element(name, count, tuple(properties)) for name, count, properties in found)
    return Header(order, elements, tuple(comments), position)


def _element(path: Path, line: str, words: list[str], earlier: list[str]) -> tuple[str, int, list[Property]]:
    if len(words) != 3 or not (words[2].isascii() and words[2].isdecimal() and len(words[2]) <= _MAX_DIGITS):
        raise ReconError(f"{path}: element line {line[:80]!r} has no name and count")
    if words[1] in earlier:
        raise ReconError(f"{path}: element {words[1]} is there twice")
    return words[1], int(words[2]), []


def _property(path: Path, line: str, words: list[str], earlier: list[Property]) -> Property:
    kinds = words[1:-1] if len(words) == 3 else words[2:-1] if len(words) == 5 and words[1] == "list" else []
    if not kinds or any(kind not in NUMPY_TYPES for kind in kinds):
        raise ReconError(f"{path}: property line {line[:80]!r} has no known type and name")
    if any(item.name == words[-1] for item in earlier):
        raise ReconError(f"{path}: property {words[-1]} is there twice in one element")
    return Property(words[-1], NUMPY_TYPES[kinds[-1]], NUMPY_TYPES[kinds[0]] if len(kinds) == 2 else None)


def _binary_rows(path: Path, file: BinaryIO, header: Header, element: Element) -> dict[str, np.ndarray]:
    size = os.fstat(file.fileno()).st_size
    order = header.byte_order or "<"
    start = header.start
    for earlier in header.elements:
        if earlier.name == element.name:
            break
        start = _end_of(path, file, earlier, order, start, size)
    dtype = _dtype(element, order)
    end = start + element.count * dtype.itemsize
    if size < end:
        raise ReconError(
            f"{path} is truncated: its header promises {element.count} rows of {element.name}, {dtype.itemsize} bytes "
            f"each ({end} bytes in all), the file has {size}; write or copy it again"
        )
    file.seek(start)
    rows = np.fromfile(file, dtype=dtype, count=element.count)
    return {name: rows[name] for name in element.names}


def _dtype(element: Element, order: ByteOrder) -> np.dtype:
    return np.dtype([(item.name, item.kind) for item in element.properties]).newbyteorder(order)


def _end_of(path: Path, file: BinaryIO, element: Element, order: ByteOrder, start: int, size: int) -> int:
    """Where the rows of an element end; with lists, row by row."""
    if not element.has_lists:
        return start + element.count * (_dtype(element, order).itemsize if element.properties else 0)
    position = start
    for _ in range(element.count):
        for item in element.properties:
            width = np.dtype(item.kind).itemsize
            if item.length_kind is not None:
                length = np.dtype(item.length_kind).newbyteorder(order)
                file.seek(position)
                raw = file.read(length.itemsize)
                if len(raw) < length.itemsize:
                    raise ReconError(f"{path} is truncated: it ends within the rows of {element.name}")
                number = int(np.frombuffer(raw, dtype=length)[0])
                if number < 0:
                    raise ReconError(f"{path}: a list of {element.name} has a length below 0")
                position += length.itemsize + number * width
            else:
                position += width
        if position > size:
            raise ReconError(f"{path} is truncated: it ends within the rows of {element.name}")
    return position


def _text_rows(path: Path, file: BinaryIO, header: Header, element: Element) -> dict[str, np.ndarray]:
    """Rows of a text PLY, one a line; empty lines do not count."""
    size = os.fstat(file.fileno()).st_size
    file.seek(header.start)
    names = element.names
    if element.count * (2 * len(names) - 1) > size - header.start:  # a digit each and a blank between
        raise ReconError(
            f"{path} is truncated: its header promises {element.count} rows of {element.name}, more than the file's "
            f"{size} bytes can hold"
        )
    lines = (line.decode("latin-1") for line in file if not line.isspace())
    for earlier in header.elements:
        if earlier.name == element.name:
            break
        for _ in islice(lines, earlier.count if earlier.properties else 0):
            pass
    if not element.count:
        return {name: np.zeros(0) for name in names}
    text = list(islice(lines, element.count))
    if len(text) < element.count:
        raise ReconError(f"{path} is truncated: {len(text)} of {element.count} rows of {element.name} are there")
    try:
        values = np.loadtxt(text, dtype=np.float64, comments=None, ndmin=2)
    except ValueError as error:
        raise ReconError(f"{path}: a row of {element.name} is not numbers as the header says ({error})") from error
    if values.shape[1] != len(names):
        raise ReconError(f"{path}: rows of {element.name} hold {values.shape[1]} numbers; the header has {len(names)}")
    return {name: values[:, column] for column, name in enumerate(names)}
