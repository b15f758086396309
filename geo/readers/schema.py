"""A small validator for the part of JSON Schema that this project's manifests use; faults name their place.

Understood: type, enum, const, required, properties, additionalProperties, items, minItems, maxItems, minLength,
minimum, exclusiveMinimum, exclusiveMaximum, pattern, anyOf, minProperties. Anything else in a schema is our mistake.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from geo.errors import RecordingError

Schema = dict[str, Any]
_ANNOTATIONS = {"$schema", "$id", "title", "description", "default", "examples"}
_MAX_LISTED = 5


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[object], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": _is_number,
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
}

# keyword -> (applies to, is fulfilled, how to say that it is not)
_CHECKS: dict[str, tuple[str, Callable[[Any, Any], bool], str]] = {
    "minItems": ("array", lambda v, n: len(v) >= n, "needs at least {} entries"),
    "maxItems": ("array", lambda v, n: len(v) <= n, "may have at most {} entries"),
    "minProperties": ("object", lambda v, n: len(v) >= n, "needs at least {} entries"),
    "minLength": ("string", lambda v, n: len(v) >= n, "needs at least {} characters"),
    "pattern": ("string", lambda v, p: re.search(p, v) is not None, "must match {}"),
    "minimum": ("number", lambda v, n: v >= n, "must be at least {}"),
    "exclusiveMinimum": ("number", lambda v, n: v > n, "must be greater than {}"),
    "exclusiveMaximum": ("number", lambda v, n: v < n, "must be less than {}"),
}


def faults(value: object, schema: Schema, where: str = "") -> Iterator[str]:
    """Every way in which a value breaks a schema, as "place: what is wrong"."""
    place = where or "(top level)"
    unknown = set(schema) - _ANNOTATIONS - set(_CHECKS) - {
        "type", "enum", "const", "required", "properties", "additionalProperties", "items", "anyOf"
    }  # fmt: skip
    if unknown:
        raise NotImplementedError(f"schema keywords {sorted(unknown)}")
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(_TYPES[name](value) for name in names):
            yield f"{place}: expected {' or '.join(names)}, got {_short(value)}"
            return
    if "const" in schema and value != schema["const"]:
        yield f"{place}: must be {_short(schema['const'])}, got {_short(value)}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: must be one of {_short(schema['enum'])}, got {_short(value)}"
    for keyword, (kind, fulfilled, text) in _CHECKS.items():
        if keyword in schema and _TYPES[kind](value) and not fulfilled(value, schema[keyword]):
            yield f"{place}: {text.format(schema[keyword])}, got {_short(value)}"
    if "anyOf" in schema:
        yield from _any_of(value, schema["anyOf"], place, where)
    if isinstance(value, dict):
        yield from _object_faults(value, schema, where, place)
    if isinstance(value, list) and "items" in schema:
        for i, entry in enumerate(value):
            yield from faults(entry, schema["items"], f"{where}[{i}]")


def _any_of(value: object, options: list[Schema], place: str, where: str) -> Iterator[str]:
    attempts = [list(faults(value, option, where)) for option in options]
    if all(attempts):
        said = " / ".join(option.get("description", "?") for option in options)
        yield f"{place}: fits none of: {said} ({min(attempts, key=len)[0]})"


def _object_faults(value: dict[str, Any], schema: Schema, where: str, place: str) -> Iterator[str]:
    for name in schema.get("required", []):
        if name not in value:
            yield f"{place}: {name!r} is missing"
    properties, more = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, entry in value.items():
        inner = f"{where}.{name}" if where else name
        if name in properties:
            yield from faults(entry, properties[name], inner)
        elif more is False:
            yield f"{inner}: unknown; known here are {', '.join(properties)}"
        elif isinstance(more, dict):
            yield from faults(entry, more, inner)


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def load_json(path: Path) -> Any:
    """Content of a JSON file; NaN and Infinity are not JSON.

    Raises:
        RecordingError: missing, not text, not JSON; the path is named.
    """

    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is no JSON number")

    try:
        return json.loads(path.read_text(encoding="utf-8-sig"), parse_constant=refuse)
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise RecordingError(f"{path} is no JSON: {error}") from error


def validate(value: object, schema: Schema, path: Path) -> None:
    """Check a manifest against its schema.

    Raises:
        RecordingError: with the file and the first faults, each with its place.
    """
    found = list(faults(value, schema))
    if found:
        more = f" (and {len(found) - _MAX_LISTED} more)" if len(found) > _MAX_LISTED else ""
        raise RecordingError(f"{path}: {'; '.join(found[:_MAX_LISTED])}{more}. See docs/formats.md")
