"""Errors of the lifting room."""

from cuda_kernels.errors import InputError


class LiftingError(InputError):
    """Base of all errors of ``lifting``."""
