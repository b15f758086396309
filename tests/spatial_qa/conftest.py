"""Questions from noisy copies of synthetic scenes, made once for all tests that look at many."""

import importlib.util
import sys
from pathlib import Path

import pytest

for _name in ("scenes", "changes"):  # helpers beside the tests; importlib mode puts no folder on the path
    _spec = importlib.util.spec_from_file_location(f"spatial_qa_{_name}", Path(__file__).with_name(f"{_name}.py"))
    _module = importlib.util.module_from_spec(_spec)
    sys.modules[f"spatial_qa_{_name}"] = _module
    _spec.loader.exec_module(_module)


@pytest.fixture(scope="session")
def asked():
    """(exact scene, noisy scene, questions asked of the noisy one), three times: more than 800 questions."""
    from spatial_qa_scenes import asked_scenes

    return asked_scenes(range(3))
