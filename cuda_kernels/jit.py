"""numba with an on-disk cache where one can be written, without where not (containers, read-only installs)."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

if not os.environ.get("NUMBA_THREADING_LAYER_PRIORITY"):
    # Open3D brings a TBB that numba warns about and then refuses; OpenMP first asks for none of it.
    numba.config.THREADING_LAYER_PRIORITY = ["omp", "workqueue", "tbb"]


def jit(**options: Any) -> Callable[[F], F]:
    """Like ``numba.njit(cache=True, **options)``, but gives the cache up quietly if no folder takes it.

    ``NUMBA_CACHE_DIR`` is honoured by numba itself. Never pass ``fastmath=True``: reassociation folds rounding
    tricks and gave wrong colours; name the flags (e.g. ``fastmath={"contract", "nnan"}``) and hold the kernel
    against its reference.
    """

    def decorate(function: F) -> F:
        try:
            return numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            return numba.njit(**options)(function)  # type: ignore[no-any-return]

    return decorate
