"""Choices that depend on nothing but their key: same key, same choice, on every machine and Python build."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")
_MASK = (1 << 64) - 1


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
    """Fisher-Yates, driven by splitmix64 from the digest of the parts.

    Source: Steele, Lea & Flood (2014), Fast splittable pseudorandom number generators, figure 17.
    """
    out, state = list(items), digest(*parts)
    for last in range(len(out) - 1, 0, -1):
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        other = (mixed ^ (mixed >> 31)) % (last + 1)
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
