"""Errors of the geometry room; see ``cuda_kernels.errors`` for the tree."""

from collections.abc import Sequence

from cuda_kernels.errors import InputError


def listed(names: Sequence[object], most: int) -> str:
    """The first few of some names, numbers or paths for a message, and dots if there are more."""
    return ", ".join(str(name) for name in names[:most]) + (" ..." if len(names) > most else "")


class GeoError(InputError):
    """Base of all errors of ``geo``."""


class ShapeError(GeoError):
    """An array does not have the shape that its camera, clock or partner array asks for."""


class CameraError(GeoError):
    """A camera model is unknown, has the wrong number of parameters or impossible values."""


class PoseError(GeoError):
    """A pose is not a rigid transform, or not finite where it has to be."""


class TimeError(GeoError):
    """Time stamps clash, run in two clocks, or a join has no overlap."""


class RecordingError(GeoError):
    """A folder is no recording, or one of its files is missing, truncated or contradicts another."""
