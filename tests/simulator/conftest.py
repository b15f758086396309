"""One small recording for all tests of this room."""

from pathlib import Path

import pytest

from egospatial.simulator import Simulated, Truth, load_truth, simulate

SEED = 7


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    return simulate(tmp_path_factory.mktemp("simulated"), "small", SEED)


@pytest.fixture(scope="session")
def truth(small: Simulated) -> Truth:
    return load_truth(small.truth_dir)


@pytest.fixture(scope="session")
def recording_dir(small: Simulated) -> Path:
    return small.recording_dir
