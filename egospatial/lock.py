"""One run at a time in one output folder."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from egospatial.errors import LockError
from egospatial.store import layout
from egospatial.store.atomic import write_failure


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold ``.lock`` in the folder while the block runs.

    The lock is the kernel's (``flock``): when its holder dies, however it dies, the lock is free at once, so a
    dead run never blocks the next. The file itself stays and says who holds it.

    Raises:
        LockError: another process holds it.
        StoreError: the folder cannot be written.
    """
    import fcntl

    path = folder / layout.LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        known = write_failure(path, error)
        if known is not None:
            raise known from error
        raise
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "unknown"
            raise LockError(
                f"{folder}: another run works here (process {holder}). Wait for it, end it, or choose another --out."
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)
