"""Text of variable length in HDF5 lies in global heaps; a damaged heap makes the HDF5 library loop for ever.

So the heaps that a dataset refers to are walked here, by plain bytes, before the library does.

Source: HDF5 File Format Specification, III.E "Disk Format: Level 1E - Global Heap", and "Variable-length datatypes".
"""

import struct
from pathlib import Path
from typing import Any

_REFERENCE = 16  # length (4), address of the collection (8), index (4)
_HEADER = 16
_MAX_COLLECTION = 1 << 28


def heap_fault(path: Path, data: Any, base: int) -> str:
    """What is wrong with the text of a dataset of variable-length strings; empty if nothing is.

    Args:
        path: The HDF5 file.
        data: The open dataset.
        base: Where the file's addresses count from (its user block's size).
    """
    if data.size == 0:
        return ""
    offset = data.id.get_offset()
    if offset is None:
        return "holds text of variable length in chunks, which is not read; write it as fixed bytes"
    with path.open("rb") as file:
        file.seek(offset)
        raw = file.read(_REFERENCE * int(data.size))
        if len(raw) < _REFERENCE * int(data.size):
            return "is cut off"
        addresses = {address for length, address, _ in struct.iter_unpack("<IQI", raw) if length and address}
        for address in sorted(addresses):
            if address >= 2**62:
                return "refers to a place beyond the file"
            file.seek(base + address)
            fault = _collection_fault(file.read(_HEADER), file)
            if fault:
                return f"refers to a text heap that is damaged ({fault})"
    return ""


def _collection_fault(head: bytes, file: Any) -> str:
    """Walk one collection, whose header was read: every object must move on, and end inside."""
    if len(head) < _HEADER or head[:5] != b"GCOL\x01":
        return "no heap there"
    (size,) = struct.unpack("<Q", head[8:])
    if not _HEADER <= size <= _MAX_COLLECTION:
        return f"{size} bytes"
    body = file.read(size - _HEADER)
    if len(body) != size - _HEADER:
        return "cut off"
    at = 0
    while at + _HEADER <= len(body):
        index, _, _, length = struct.unpack_from("<HHIQ", body, at)
        step = length if index == 0 else _HEADER + (length + 7) // 8 * 8
        if step < _HEADER or at + step > len(body):
            return f"object {index} of {length} bytes"
        at += step
    return ""
