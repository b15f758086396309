"""Errors of the reconstruction room."""

from cuda_kernels.errors import InputError


class ReconError(InputError):
    """Base of all errors of ``recon``."""
