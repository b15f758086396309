"""A process of its own that holds projectaria_tools and one VRS file (``_worker.py``), and how it is asked.

The library ends the whole process at some damaged files and prints a lot; a child keeps both away from the user: a file
that ends it is a ``RecordingError`` here. It starts when something is asked for, and goes when its ``Worker`` goes.
Nothing of it is pickled: a copy in another process starts its own.
"""

import json
import os
import select
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from geo.errors import RecordingError

ADVICE = "Is the file cut off or damaged? Fetch it anew"
_WORKER = Path(__file__).with_name("_worker.py")
_TIMEOUT_S = 120.0
_MAX_HEAD_BYTES = 1 << 28


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Close the pipes and wait; a worker that does not go is killed."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                pass
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@dataclass
class Worker:
    """A child process that answers requests about one VRS file (or none, for what needs no file)."""

    path: Path | None
    _process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)
    _owner: int = field(default=0, repr=False)
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """A copy starts its own process."""
        return {"path": self.path, "_process": None, "_owner": 0}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """See ``__getstate__``."""
        self.__dict__.update(state, _lock=threading.Lock())

    def ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Answer and raw bytes.

        Raises:
            RecordingError: the library refuses, crashes or hangs; the file is named.
        """
        with self._lock:
            process = self._running()
            try:
                assert process.stdin is not None
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
                deadline = time.monotonic() + _TIMEOUT_S
                size = int.from_bytes(self._bytes(process, 8, deadline), "little")
                if size > _MAX_HEAD_BYTES:
                    raise EOFError
                head = json.loads(self._bytes(process, size, deadline))
                raw = self._bytes(process, int(head["nbytes"]), deadline)
            except (EOFError, OSError, ValueError, KeyError) as error:
                raise self._gone(process, error) from None
        if "error" in head:
            raise RecordingError(f"{self._named(request)} cannot be read: {head['error']}. {ADVICE}")
        return head, raw

    def _named(self, request: dict[str, Any]) -> str:
        where = "the design of Aria glasses" if self.path is None else f"VRS file {self.path}"
        return f"picture {request['index']} of stream {request['stream']} in {where}" if "index" in request else where

    def _running(self) -> "subprocess.Popen[bytes]":
        """The process of this Python process: one that was inherited by a fork is not used."""
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            command = [sys.executable, "-P", str(_WORKER), "" if self.path is None else str(self.path)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            self._owner = os.getpid()
            weakref.finalize(self, _end, self._process)
        return self._process

    def _bytes(self, process: "subprocess.Popen[bytes]", count: int, deadline: float) -> bytes:
        """Exactly so many bytes of the answer."""
        assert process.stdout is not None
        descriptor, parts, left = process.stdout.fileno(), [], count
        while left:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(descriptor, min(left, 1 << 20)) if ready else b""
            if not part:
                raise EOFError
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _gone(self, process: "subprocess.Popen[bytes]", error: Exception) -> RecordingError:
        """What to say of a process that gave no answer; it is ended."""
        try:
            status: int | None = process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            status = None
            process.kill()
        self._process = None
        how = f"gave no answer in {_TIMEOUT_S:.0f} s" if status is None else f"crashed (status {status})"
        what = "the design of Aria glasses" if self.path is None else f"VRS file {self.path}"
        return RecordingError(f"{what} cannot be read: projectaria_tools {how}. {ADVICE}")
