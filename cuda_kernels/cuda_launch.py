"""How every CUDA twin starts: one thread an item, arrays copied to the device and results back.

Import this module where it is used only: it imports ``numba.cuda``. The twins run in numba's simulator
(``NUMBA_ENABLE_CUDASIM=1``, set before numba is imported) where there is no GPU.
"""

import warnings
from typing import Any

import numpy as np
from numba import cuda

from cuda_kernels.errors import KernelError

THREADS = 256


def check_device(instead: str) -> None:
    """Refuse to start without a device.

    Raises:
        KernelError: no CUDA device, and no simulator; names what to use instead.
    """
    if not cuda.is_available():
        raise KernelError(f"this needs a CUDA device (or NUMBA_ENABLE_CUDASIM=1); use {instead} instead")


def to_device(array: Any) -> Any:
    """A device array: the same memory if the array is on the device already (torch, cupy), else a copy."""
    if hasattr(array, "__cuda_array_interface__"):
        return cuda.as_cuda_array(array)
    return cuda.to_device(np.ascontiguousarray(array))


def launch(kernel: Any, count: int, *arguments: Any) -> None:
    """Run a kernel on ``count`` threads in one row; nothing to do is nothing done (CUDA refuses an empty grid)."""
    if count == 0:
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Grid size .* under-utilization")  # small images are welcome
        configured = kernel[-(-count // THREADS), THREADS]
    configured(*arguments)


def result(array: Any) -> np.ndarray:
    """A device array as a NumPy array, after everything before it is done."""
    return np.asarray(array.copy_to_host())
