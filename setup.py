"""What pyproject.toml cannot say: one sentence for those whose plain install cannot work.

Everything else is in pyproject.toml. ``make setup`` is the tested way to install (it handles sam2's build).
"""

import sys

from setuptools import setup

if sys.version_info < (3, 11):
    sys.exit("egospatial needs python >= 3.11; in a checkout, `make demo` or `make test` sets everything up.")

setup()
