"""Choices that depend on nothing but their key: same key, same choice, on every machine and Python build."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def canonical_json(value: Any) -> str:
    """JSON text with sorted keys and no blanks; the only form that is ever hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(*parts: Any) -> int:
    """A 64-bit number from the parts (anything JSON can hold)."""
    data = canonical_json(list(parts)).encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


def pick(count: int, *parts: Any) -> int:
    """A uniform index in [0, count) that depends on the parts alone."""
    return digest(*parts) % count


def shuffled(items: Sequence[T], *parts: Any) -> list[T]:
    """Fisher-Yates with one digest per swap."""
    out = list(items)
    for last in range(len(out) - 1, 0, -1):
        other = digest(*parts, last) % (last + 1)
        out[last], out[other] = out[other], out[last]
    return out


def tidy(value: Any) -> Any:
    """Plain Python with floats of ten significant digits: what is kept in memory is what a file gives back."""
    if isinstance(value, dict):
        return {str(key): tidy(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [tidy(item) for item in value]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if hasattr(value, "tolist"):
        return tidy(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.10g}")
    return value
