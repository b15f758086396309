"""Frozen dataclasses from files and ``key=value`` words: typed, with errors that name the near matches."""

import dataclasses
import difflib
import enum
import json
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from egospatial.errors import ConfigError

T = TypeVar("T")


def read_config_file(path: Path) -> dict[str, Any]:
    """Read a TOML, YAML or JSON file of settings.

    Raises:
        ConfigError: missing, another ending, or not well-formed.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: config file cannot be read ({error.strerror}).") from error
    try:
        document = _parse(path, text)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"{path}: not well-formed: {' '.join(str(error).split())}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: expected a table of stages (rectify, track, ...), found {type(document).__name__}.")
    return document


def _parse(path: Path, text: str) -> Any:
    ending = path.suffix.lower()
    if ending == ".toml":
        return tomllib.loads(text)
    if ending == ".json":
        return json.loads(text)
    if ending in (".yaml", ".yml"):
        import yaml

        return yaml.safe_load(text)
    raise ConfigError(f"{path}: config files end in .toml, .yaml, .yml or .json, not {ending or 'nothing'!r}.")


def parse_assignments(words: Sequence[str]) -> dict[str, Any]:
    """``["rectify.width_px=512", ...]`` as a nested dict; a value is JSON if it reads as JSON, else text.

    Raises:
        ConfigError: a word without ``=`` or with an empty key.
    """
    nested: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        parts = key.strip().split(".")
        if not equals or not all(parts):
            raise ConfigError(f"--set {word!r}: expected stage.key=value, for example rectify.width_px=512.")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        node = nested
        for part in parts[:-1]:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                raise ConfigError(f"--set {word!r}: {part!r} was given a value before.")
        node[parts[-1]] = value
    return nested


def updated(base: T, changes: Mapping[str, Any], where: str = "") -> T:
    """A copy of a (nested) dataclass with changes, each checked against the field's type.

    Raises:
        ConfigError: an unknown key (near matches are named), a value of the wrong type, or one that the
            dataclass itself refuses.
    """
    hints = typing.get_type_hints(type(base))
    names = [field.name for field in dataclasses.fields(base)]  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, value in changes.items():
        full = f"{where}.{key}" if where else str(key)
        if key not in names:
            raise _unknown_key(full, str(key), base, where)
        current = getattr(base, key)
        if dataclasses.is_dataclass(current) and isinstance(value, Mapping):
            values[key] = updated(current, value, full)
        else:
            values[key] = converted(value, hints[key], full)
    try:
        return dataclasses.replace(base, **values)  # type: ignore[type-var]
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{where or 'config'}: {error}") from error


def _unknown_key(full: str, key: str, base: Any, where: str) -> ConfigError:
    here = [field.name for field in dataclasses.fields(base)]
    prefix = f"{where}." if where else ""
    near = [prefix + name for name in difflib.get_close_matches(key, here, 3, 0.6)]
    near = near or difflib.get_close_matches(full, all_keys(base, where), 3, 0.6)
    hint = f" Did you mean {' or '.join(near)}?" if near else f" Known here: {', '.join(here)}."
    return ConfigError(f"setting {full!r} is not known.{hint}")


def all_keys(base: Any, where: str = "") -> list[str]:
    """Every dotted key below a config dataclass."""
    found = []
    for field in dataclasses.fields(base):
        full = f"{where}.{field.name}" if where else field.name
        value = getattr(base, field.name)
        found += all_keys(value, full) if dataclasses.is_dataclass(value) else [full]
    return found


def converted(value: Any, kind: Any, where: str) -> Any:
    """Check and convert one value to an annotated type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _first_that_fits(value, arguments, where)
    if origin is typing.Literal:
        return _one_of(value, list(arguments), where)
    if origin in (tuple, list):
        return _sequence(value, origin, arguments, where)
    if origin is typing.Annotated:
        return converted(value, arguments[0], where)
    if kind is type(None) and value is None:
        return None
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(_one_of(value, [item.value for item in kind], where))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and isinstance(value, Mapping):
        return updated(kind(), value, where)
    return _scalar(value, kind, where)


def _scalar(value: Any, kind: Any, where: str) -> Any:
    if kind is Any:
        return value
    if kind is bool and isinstance(value, bool):
        return value
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind is str and isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    name = getattr(kind, "__name__", str(kind))
    raise ConfigError(f"setting {where} = {value!r}: expected {name}, got {type(value).__name__}.")


def _first_that_fits(value: Any, kinds: Sequence[Any], where: str) -> Any:
    failure: ConfigError | None = None
    for kind in kinds:
        try:
            return converted(value, kind, where)
        except ConfigError as error:
            failure = failure or error
    raise failure or ConfigError(f"setting {where} = {value!r} fits no allowed type.")


def _one_of(value: Any, allowed: list[Any], where: str) -> Any:
    if value in allowed:
        return value
    near = difflib.get_close_matches(str(value), [str(item) for item in allowed], 1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise ConfigError(f"setting {where} = {value!r}: expected one of {', '.join(map(str, allowed))}.{hint}")


def _sequence(value: Any, origin: Any, arguments: Sequence[Any], where: str) -> Any:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"setting {where} = {value!r}: expected a list, got {type(value).__name__}.")
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        if len(value) != len(arguments):
            raise ConfigError(f"setting {where} = {value!r}: expected {len(arguments)} values, got {len(value)}.")
        pairs = zip(value, arguments, strict=True)
        return tuple(converted(item, kind, f"{where}[{i}]") for i, (item, kind) in enumerate(pairs))
    kind = arguments[0] if arguments else Any
    return origin(converted(item, kind, f"{where}[{i}]") for i, item in enumerate(value))
