"""Only what pyproject.toml cannot say. Today that is nothing: the kernels are compiled by numba at first use.

``make setup`` is the tested way to install (it handles sam2's build); ``pip install .`` works too, more slowly.
"""

from setuptools import setup

setup()
