"""A shared fuzz: broken copies of a file go to a reader, which has to end in a clean error or a sound read.

``EGOSPATIAL_FUZZ_SEED`` gives another seed and ``EGOSPATIAL_FUZZ_CASES`` more mutations; with
``EGOSPATIAL_PROPERTY_REPORT`` every fuzz adds a line of JSON to that file (acceptance letter G reads it).
"""

import json
import os
import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from geo.errors import GeoError

LEAST_CASES = 200
LONGEST_CASE_S = 20.0
_ODD = [b"", b"0", b"-1", b"1e308", b"-1e308", b"1e999", b"nan", b"inf", b"9" * 30, b"-0", b"1e-320", b"x", b'"', b"..",
        b"null", b"true", b"[]", b"{}", b"65536", b"4294967296", b"/", b"\xff", b"\0"]  # fmt: skip


def cases() -> int:
    """Mutations of a file; never fewer than 200."""
    return max(LEAST_CASES, int(os.environ.get("EGOSPATIAL_FUZZ_CASES", "0")))


def seed_of(name: str) -> str:
    """The same each time, unless the environment gives another seed."""
    return f"{os.environ.get('EGOSPATIAL_FUZZ_SEED', '1')} {name}"


def mutated(data: bytes, rng: random.Random) -> bytes:
    """One to three accidents: cut off, bytes flipped, lost or added, rows or columns lost, odd or huge numbers."""
    for _ in range(rng.randint(1, 3)):
        data = _ACCIDENTS[rng.randrange(len(_ACCIDENTS))](data or b"\n", rng)
    return data


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _flip(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def _lose(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.randint(1, 40) :]


def _rows(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(3)
    if kind == 0:
        del lines[i]
    elif kind == 1:
        lines.insert(j, lines[i])
    else:
        lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)


def _column(data: bytes, rng: random.Random) -> bytes:
    separator = b"," if data.count(b",") else b" "
    column = rng.randrange(max(1, data.split(b"\n")[0].count(separator) + 1))
    lines = [line.split(separator) for line in data.split(b"\n")]
    return b"\n".join(separator.join(cells[:column] + cells[column + 1 :]) for cells in lines)


def _odd(data: bytes, rng: random.Random) -> bytes:
    tokens = list(re.finditer(rb"[^\s,\[\]{}:\"]+", data))
    if not tokens:
        return data + rng.choice(_ODD)
    token = tokens[rng.randrange(len(tokens))]
    return data[: token.start()] + rng.choice(_ODD) + data[token.end() :]


_ACCIDENTS = (_cut, _flip, _flip, _lose, _rows, _column, _odd, _odd, _odd)


def fuzz(name: str, path: Path, read: Callable[[], Any], sound: Callable[[Any], None], checksums: bool = False) -> None:
    """Break the file again and again; it is whole again at the end.

    Args:
        name: Reader and file, for the report.
        path: The file to break.
        read: Reads all of it; a ``GeoError`` is a clean end, anything else a failure.
        sound: Asserts what must hold for whatever was read.
        checksums: The file proves itself whole (PNG, HDF5), so that every mutation may be refused.
    """
    whole, rng = path.read_bytes(), random.Random(seed_of(name))
    sound(read())
    good, slowest, started = 0, 0.0, time.monotonic()
    for case in range(cases()):
        path.write_bytes(mutated(whole, rng))
        start = time.monotonic()
        try:
            found = read()
        except GeoError as error:
            assert str(error), (name, case)
            found = None
        except Exception as error:
            raise AssertionError(
                f"{name}, mutation {case} of seed {seed_of(name)!r}: {type(error).__name__}"
            ) from error
        finally:
            slowest = max(slowest, time.monotonic() - start)
        if found is not None:
            good += 1
            sound(found)
    path.write_bytes(whole)
    report(kind="fuzz", name=name, mutations=cases(), read=good, seconds=time.monotonic() - started, slowest_s=slowest)
    assert slowest < LONGEST_CASE_S, f"{name}: one mutation took {slowest:.1f} s"
    assert good < cases() and (good or checksums), (
        f"{name}: {good} of {cases()} mutations were read; they break too much or nothing"
    )


def report(**row: Any) -> None:
    """A line for whoever runs these tests for their figures."""
    file = os.environ.get("EGOSPATIAL_PROPERTY_REPORT")
    if file:
        with Path(file).open("a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")
