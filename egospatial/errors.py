"""Errors of the front door."""

from cuda_kernels.errors import InputError


class FrontDoorError(InputError):
    """Base of all errors of ``egospatial``: configuration, output folders, commands."""
