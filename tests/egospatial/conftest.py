"""Makers of small records (``frontdoor_makers``) are importable by name from every test of this room."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "recon"))  # splat_makers

import pytest


@pytest.fixture(scope="session")
def simulated_small(tmp_path_factory):
    """A simulated recording of preset small with its exact truth, made once."""
    from egospatial.simulator import simulate

    return simulate(tmp_path_factory.mktemp("simulated"), "small", 5)
