"""Numeric kernels on arrays: CPU (numba) and GPU (CUDA) twins behind one signature, and a plain reference."""

from cuda_kernels.errors import InputError, KernelError

__all__ = ["InputError", "KernelError"]
