"""Scale and gravity as a manifest states them: the schema of its ``world``, and the world that it means."""

from collections.abc import Sequence

import numpy as np

from geo.errors import RecordingError
from geo.readers.schema import Schema
from geo.world import World

_MAX_NUMBER = 1e9
_MIN_LENGTH = 1e-6

WORLD_SCHEMA: Schema = {
    "type": "object",
    "required": ["metric", "up"],
    "additionalProperties": False,
    "properties": {
        "metric": {"type": "boolean", "description": "false: the scale is unknown"},
        "up": {
            "anyOf": [
                {"description": "null (unknown)", "type": "null"},
                {
                    "description": "direction against gravity in world",
                    "type": "array",
                    "minItems": 3,
                    "maxItems": 3,
                    "items": {"type": "number"},
                },
            ]
        },
    },
}


def stated_world(metric: bool, up: Sequence[float | int] | None, what: str) -> World:
    """A world that is turned so that a known up (any length, in the files' own world) is +z; None: unknown.

    Args:
        metric: True if the files' unit is the metre.
        up: Direction against gravity.
        what: File and name of the value, for the message.

    Raises:
        RecordingError: an up that is no direction.
    """
    if up is None:
        return World.without_up(metric)
    # Whole numbers of a JSON file have no limit: compared before they become floats.
    numbers = [float(value) if abs(value) <= _MAX_NUMBER else np.inf for value in up]
    length = float(np.linalg.norm(numbers))
    if not _MIN_LENGTH < length < np.inf:
        raise RecordingError(
            f"{what} = {str(list(up))[:80]} is no direction; use null or leave it out if it is unknown"
        )
    return World.with_up(metric, np.array(numbers) / length)
