"""How image kernels are compiled: ``cuda_kernels.jit.jit`` on the bare function."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from cuda_kernels.jit import jit

F = TypeVar("F", bound=Callable[..., Any])


def kernel(**options: Any) -> Callable[[F], F]:
    """Like ``jit``; wrappers that check shapes while tests run are taken off first, numba cannot compile them."""

    def decorate(function: F) -> F:
        compiled: F = jit(**options)(inspect.unwrap(function))
        return compiled

    return decorate
