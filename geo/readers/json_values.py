"""Values of JSON files that have no schema of their own: parsed, and checked where they are used."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from geo.errors import RecordingError, TimeError

_RATES_HZ = (1e-6, 1e6)


def parsed_json(text: str, where: str) -> Any:
    """The value of a JSON text; ``where`` (a file, a line) begins the message.

    Raises:
        RecordingError: it is no JSON, or nested beyond all measure.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"{where} is no JSON ({error}); is it cut off? Fetch it anew") from error


def json_object(path: Path) -> dict[str, Any]:
    """Content of a JSON file that must be an object.

    Raises:
        RecordingError: it cannot be read, is no JSON, or another thing than an object.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise RecordingError(f"{path} is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise RecordingError(f"{path} must hold a JSON object")
    return data


def is_number(value: object, limit: float) -> bool:
    """True for a number within the limit (NaN is not); True and False are no numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= limit


def finite_numbers(value: Any, count: int | None, where: str, limit: float = 1e12) -> list[float]:
    """A list of numbers within the limit.

    Args:
        value: What the file has there.
        count: How many there must be; None: any number of them.
        where: File and place, begins the message.
        limit: Largest size of a number that can be meant.

    Raises:
        RecordingError: it is no list, of another length, or holds something else.
    """
    if not isinstance(value, list) or (count is not None and len(value) != count):
        raise RecordingError(f"{where} = {str(value)[:60]} must be a list of {count or 'some'} numbers")
    for number in value:
        if not is_number(number, limit):
            raise RecordingError(f"{where} holds {str(number)[:40]!r}, which is no finite number")
    return [float(number) for number in value]


def rate_of(value: float | int, where: str) -> Fraction:
    """Pictures a second as the decimal number that was meant (29.97, not its nearest float).

    Raises:
        TimeError: it is no rate: infinite, NaN, or outside 1e-6 to 1e6 Hz.
    """
    if not _RATES_HZ[0] <= value <= _RATES_HZ[1]:
        raise TimeError(f"{where}: rate_hz = {str(value)[:40]} is no rate of pictures (1e-6 to 1e6 a second)")
    return Fraction(str(value))
