"""Big tables with named columns, read in blocks: memory stays bounded, every error names file, line and column."""

import difflib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int64

from geo.errors import RecordingError, TimeError
from geo.readers.mps.lines import line_blocks, whole_line
from geo.readers.text_files import number_of, shown, whole_of

TIME_COLUMN = "tracking_timestamp_us"
_NUMBER_CHARACTERS = frozenset("0123456789+-.eE")
_WHOLE_CHARACTERS = frozenset("0123456789-")
_NS_PER_US = 1000
_MAX_US = (2**63 - 1) // _NS_PER_US
_LISTED = 6


@dataclass(frozen=True)
class Block:
    """Some rows of a table as text by column, with the lines they come from."""

    path: Path
    lines: list[int]
    cells: dict[str, list[str]]

    def place(self, row: int, column: str) -> str:
        """Where a cell is, for messages."""
        return f"{self.path} line {self.lines[row]} column {column}"

    def numbers(self, column: str) -> Float[np.ndarray, "R"]:
        """Numbers; an empty cell is NaN.

        Raises:
            RecordingError: a cell that is no number.
        """
        cells = self.cells[column]
        if all(cells) and _NUMBER_CHARACTERS.issuperset("".join(cells)):
            try:
                values = np.array([float(cell) for cell in cells], dtype=np.float64)
            except ValueError:
                values = np.array([np.inf])
            if np.isfinite(values).all():
                return values
        texts = [cell.strip() for cell in cells]
        read = [number_of(text, self.place(i, column)) if text else np.nan for i, text in enumerate(texts)]
        return np.array(read, dtype=np.float64)

    def integers(self, column: str) -> Int64[np.ndarray, "R"]:
        """Whole numbers, exact.

        Raises:
            RecordingError: a cell that is no whole number of 64 bits.
        """
        return np.array(self._whole(column), dtype=np.int64)

    def stamps_ns(self, column: str = TIME_COLUMN) -> Int64[np.ndarray, "R"]:
        """Nanoseconds of a column of whole microseconds, exact.

        Raises:
            RecordingError: no whole number, negative, or too large for 64-bit nanoseconds.
        """
        values = self._whole(column)
        if values and not 0 <= min(values) <= max(values) <= _MAX_US:
            row = next(i for i, value in enumerate(values) if not 0 <= value <= _MAX_US)
            raise RecordingError(
                f"{self.place(row, column)} = {values[row]} is no time of the device clock in microseconds; "
                "is it in another unit?"
            )
        return np.array(values, dtype=np.int64) * _NS_PER_US

    def _whole(self, column: str) -> list[int]:
        cells = self.cells[column]
        if _WHOLE_CHARACTERS.issuperset("".join(cells)) and all(1 <= len(cell) <= 18 for cell in cells):
            try:
                return [int(cell) for cell in cells]
            except ValueError:
                pass
        return [whole_of(cell.strip(), self.place(i, column)) for i, cell in enumerate(cells)]


@dataclass(frozen=True)
class Rows:
    """A whole table as arrays, in the order of the file."""

    path: Path
    lines: Int64[np.ndarray, "R"]
    stamps_ns: Int64[np.ndarray, "R"]
    numbers: dict[str, np.ndarray]
    texts: dict[str, list[str]]

    def stack(self, names: Sequence[str]) -> Float[np.ndarray, "R C"]:
        """Columns side by side."""
        return np.stack([self.numbers[name] for name in names], axis=1)


@dataclass
class Table:
    """A table that has been opened: its header is read, its rows are not. Rows can be read once."""

    path: Path
    header: list[str]
    _blocks: Iterator[tuple[int, list[str]]] = field(repr=False)
    _first: tuple[int, list[str]] = field(repr=False)

    def check(
        self,
        required: Sequence[str],
        warnings: list[str],
        groups: Mapping[str, Sequence[str]] | None = None,
        ignored: Sequence[str] = (),
    ) -> frozenset[str]:
        """Names of the optional groups that the table has. Columns that nobody knows are added to ``warnings``.

        Args:
            required: Columns that have to be there.
            warnings: Unknown columns are named here.
            groups: Optional columns that come together or not at all.
            ignored: Columns that belong to the format and are not read.

        Raises:
            RecordingError: a column is missing, or a part of a group.
        """
        found = set(self.header)
        parts = groups or {}
        present = frozenset(name for name, columns in parts.items() if found & set(columns))
        wanted = [*required, *(column for name in present for column in parts[name])]
        missing = [column for column in wanted if column not in found]
        known = {*wanted, *ignored}
        unknown = [column for column in self.header if column not in known]
        if missing:
            close = [difflib.get_close_matches(column, unknown, 1, 0.75) for column in missing[:_LISTED]]
            hints = [
                f"is {shown(near[0])} {column} renamed?" for near, column in zip(close, missing, strict=False) if near
            ]
            raise RecordingError(
                f"{self.path} line 1: no column {_listed(missing)}. {' '.join(hints)} "
                f"It has {_listed(self.header)}; is it another file, or from another version?"
            )
        if unknown:
            self_named = f"{self.path.name}: columns that are not known are ignored ({_listed(unknown)})"
            warnings.append(self_named)
        return present

    def blocks(self) -> Iterator[Block]:
        """Rows, block by block.

        Raises:
            RecordingError: a row of another length than the header, a file without rows, and what ``line_blocks`` says.
        """
        width = len(self.header)
        count = 0
        for first, texts in _chained(self._first, self._blocks):
            lines: list[int] = []
            rows: list[list[str]] = []
            for number, text in enumerate(texts, start=first):
                if not text.strip(" \t\0"):
                    continue
                cells = whole_line(self.path, number, text).split(",")
                if len(cells) != width:
                    raise RecordingError(
                        f"{self.path} line {number} has {len(cells)} cells, the header {width}; is it cut off?"
                    )
                lines.append(number)
                rows.append(cells)
            if rows:
                count += len(rows)
                columns = zip(*rows, strict=True)
                yield Block(self.path, lines, {name: list(c) for name, c in zip(self.header, columns, strict=True)})
        if not count:
            raise RecordingError(f"{self.path} has a header and no rows; is it cut off? Fetch it anew")

    def rows(self, numbers: Sequence[str], texts: Sequence[str] = ()) -> Rows:
        """All rows of some columns.

        Raises:
            RecordingError: see ``blocks``, ``Block.numbers`` and ``Block.stamps_ns``.
        """
        lines: list[np.ndarray] = []
        stamps: list[np.ndarray] = []
        values: dict[str, list[np.ndarray]] = {name: [] for name in numbers}
        strings: dict[str, list[str]] = {name: [] for name in texts}
        for block in self.blocks():
            lines.append(np.array(block.lines, dtype=np.int64))
            stamps.append(block.stamps_ns())
            for name in numbers:
                values[name].append(block.numbers(name))
            for name in texts:
                strings[name] += [sys.intern(cell.strip()) for cell in block.cells[name]]
        arrays = {name: np.concatenate(parts) for name, parts in values.items()}
        return Rows(self.path, np.concatenate(lines), np.concatenate(stamps), arrays, strings)


def _chained(first: tuple[int, list[str]], rest: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    yield first
    yield from rest


def _listed(names: Sequence[str]) -> str:
    return ", ".join(shown(name) for name in names[:_LISTED]) + (
        f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    )


def open_table(path: Path) -> Table:
    """Open a table whose first line names its columns.

    Raises:
        RecordingError: see ``line_blocks``; empty, or a column named twice.
    """
    blocks = line_blocks(path)
    first = next(blocks, None)
    if first is None:
        raise RecordingError(f"{path} is empty; fetch it anew")
    number, lines = first
    header = [name.strip() for name in whole_line(path, number, lines[0]).split(",")]
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise RecordingError(f"{path} line 1: column {_listed(twice)} is there twice; which one counts?")
    return Table(path, header, blocks, (number + 1, lines[1:]))


def order_in_time(rows: Rows, values: Float[np.ndarray, "R C"]) -> Int64[np.ndarray, "K"]:
    """Rows in rising time, equal ones once (FIELD P6).

    Raises:
        TimeError: two rows with one time stamp and different numbers.
    """
    order = np.argsort(rows.stamps_ns, kind="stable")
    same = np.flatnonzero(np.diff(rows.stamps_ns[order]) == 0) + 1
    for i in same.tolist():
        before, row = int(order[i - 1]), int(order[i])
        if not np.array_equal(values[before], values[row], equal_nan=True):
            raise TimeError(
                f"{rows.path} lines {rows.lines[before]} and {rows.lines[row]} have the same time stamp "
                f"{rows.stamps_ns[row]} ns but different values; remove one of them"
            )
    return np.asarray(np.delete(order, same))
