"""How this package compiles its kernels: ``cuda_kernels.jit.jit``, and a cache that knows what a kernel is made of."""

import hashlib
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from cuda_kernels.jit import jit

# Threads that wait for work must sleep. GNU OpenMP lets them spin, and where other programs want the cores too, two
# spinning threads made small fits twelve times slower at ten times the CPU seconds. Read when libgomp is first loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

F = TypeVar("F", bound=Callable[..., Any])


def _fingerprint() -> str:
    """Hash of this package's sources: constants and helpers are compiled into the kernels of other files."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_SOURCES = _fingerprint()


def kernel(**options: Any) -> Callable[[F], F]:
    """Compile a function; cached code is used again only while no source of this package has changed.

    numba compares the time stamp of the kernel's own file alone, so an edited constant in ``rules`` would go unseen.
    Wrappers that check shapes while tests run are taken off: numba compiles the function itself.
    """

    def decorate(function: F) -> F:
        compiled: F = jit(error_model="numpy", **options)(inspect.unwrap(function))
        index: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
        if hasattr(index, "_source_stamp"):  # private to numba: without it, the time stamp alone decides
            index._source_stamp = (*index._source_stamp, _SOURCES)
        return compiled

    return decorate
