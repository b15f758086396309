"""Errors of the question room."""

from cuda_kernels.errors import InputError


class QuestionError(InputError):
    """Base of all errors of ``spatial_qa``."""


class QuestionFileError(QuestionError):
    """A line of a question file is no question: cut off, a field missing, a key that no option has."""
