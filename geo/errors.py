"""Errors of the geometry room; see ``cuda_kernels.errors`` for the tree."""

from cuda_kernels.errors import InputError


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
