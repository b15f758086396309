"""The CUDA twins of the depth kernels against the CPU's functions, in numba's simulator. On a GPU: tests/gpu."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def test_cuda_twins_agree_with_the_cpu_in_the_simulator():
    """In a process of its own: the simulator is switched on before numba is imported. Odd sizes, NaN, nothing."""
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    run = subprocess.run(
        [sys.executable, str(HERE / "twin_checks.py")], capture_output=True, text=True, env=environment, timeout=300,
        cwd=HERE.parent.parent,
    )  # fmt: skip
    assert "twins agree" in run.stdout, run.stderr[-2000:]


def test_without_a_device_the_error_names_the_cpu_function():
    """Where there is a device the twins run instead (tests/gpu)."""
    from numba import cuda

    from cuda_kernels.cuda_launch import check_device
    from cuda_kernels.errors import KernelError

    if not cuda.is_available():
        with pytest.raises(KernelError, match=r"needs a CUDA device .* use recon.fuse.combine instead"):
            check_device("recon.fuse.combine")
    else:
        check_device("recon.fuse.combine")


def test_every_kernel_compiles_where_there_is_a_compiler():
    """To PTX, without a GPU. Where no CUDA toolkit is either, the program says so, and there is nothing to try."""
    run = subprocess.run(
        [sys.executable, str(HERE.parent.parent / "tools" / "ptx_check.py"), "8.0"], capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    if run.returncode == 2:
        assert "no compiler for CUDA kernels here" in run.stderr
    else:
        assert run.returncode == 0, run.stdout[-2000:]
        assert run.stdout.count("bytes of PTX") >= 12 and "not in this program's list" not in run.stdout
