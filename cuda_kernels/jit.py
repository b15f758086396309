"""numba with an on-disk cache where one can be written, without where not (containers, read-only installs)."""

import functools
import hashlib
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

# Threads that wait for work must sleep. GNU OpenMP lets them spin, and where other programs want the cores too, two
# spinning threads made small fits twelve times slower at ten times the CPU seconds. Read when libgomp is first loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if not os.environ.get("NUMBA_THREADING_LAYER_PRIORITY"):
    # Open3D brings a TBB that numba warns about and then refuses; OpenMP first asks for none of it.
    numba.config.THREADING_LAYER_PRIORITY = ["omp", "workqueue", "tbb"]


def jit(**options: Any) -> Callable[[F], F]:
    """Like ``numba.njit(cache=True, **options)``, but gives the cache up quietly if no folder takes it.

    Wrappers that check shapes while tests run are taken off: numba compiles the function itself. Cached code is used
    again only while no source file beside the kernel's own has changed: numba compares that one file's time stamp,
    so an edited constant or helper in another module would go unseen.

    ``NUMBA_CACHE_DIR`` is honoured by numba itself. Never pass ``fastmath=True``: reassociation folds rounding
    tricks and gave wrong colours; name the flags (e.g. ``fastmath={"contract", "nnan"}``) and hold the kernel
    against its reference.
    """

    def decorate(function: F) -> F:
        bare = inspect.unwrap(function)
        try:
            compiled: F = numba.njit(cache=True, **options)(bare)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            return numba.njit(**options)(bare)  # type: ignore[no-any-return]
        index: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
        if hasattr(index, "_source_stamp"):  # private to numba: without it, the time stamp alone decides
            index._source_stamp = (*index._source_stamp, _fingerprint(Path(bare.__code__.co_filename).parent))
        return compiled

    return decorate


@functools.cache
def _fingerprint(folder: Path) -> str:
    """Hash of the sources in a folder and below it."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
