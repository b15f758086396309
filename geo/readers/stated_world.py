"""Scale and gravity as a manifest states them."""

from collections.abc import Sequence

import numpy as np

from geo import se3
from geo.errors import RecordingError
from geo.world import Gravity, World, rotation_to_z_up

_MAX_NUMBER = 1e9
_MIN_LENGTH = 1e-6


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
        return World(metric=metric, gravity=Gravity.UNKNOWN, up_sigma_rad=float("nan"))
    # Whole numbers of a JSON file have no limit: compared before they become floats.
    numbers = [float(value) if abs(value) <= _MAX_NUMBER else np.inf for value in up]
    length = float(np.linalg.norm(numbers))
    if not _MIN_LENGTH < length < np.inf:
        raise RecordingError(
            f"{what} = {str(list(up))[:80]} is no direction; use null or leave it out if it is unknown"
        )
    turn = se3.from_rotation_translation(rotation_to_z_up(np.array(numbers) / length), np.zeros(3))
    return World(metric=metric, gravity=Gravity.KNOWN, world_from_source_world=turn)
