"""Errors of the tracking room."""

from cuda_kernels.errors import InputError


class TrackingError(InputError):
    """Base of all errors of ``tracking``."""
