"""Errors of the question room."""

from cuda_kernels.errors import InputError


class QuestionError(InputError):
    """Base of all errors of ``spatial_qa``."""
