"""What a stage took: wall seconds, CPU seconds, peak memory."""

import contextlib
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Cost:
    """Filled when the measured block ends."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_mib: float = 0.0


@contextlib.contextmanager
def measured() -> Iterator[Cost]:
    """Measure a block. Peak memory is the block's own where Linux lets it be reset, else the process's so far."""
    cost = Cost()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    wall, cpu = time.perf_counter(), _cpu_seconds()
    try:
        yield cost
    finally:
        cost.seconds = round(time.perf_counter() - wall, 3)
        cost.cpu_seconds = round(_cpu_seconds() - cpu, 3)
        cost.peak_memory_mib = round(_peak_mib(), 1)


def _cpu_seconds() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _peak_mib() -> float:
    with contextlib.suppress(OSError, IndexError, ValueError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
