"""What only a GPU can show: ``pytest -m gpu tests/gpu``. Every test here has a CPU twin in tests/recon or cuda_kernels.

Without a CUDA device all of it is skipped by the one rule of tests/conftest.py. The build of gsplat, where it is not
done yet, happens once, in a fixture, with torch's own warnings allowed.
"""

import importlib.util
import sys
import time
import warnings
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "cuda_kernels"))  # twin_checks, splat_scenes


@pytest.fixture(scope="session")
def scene_of():
    """Maker of the small room of tests/recon."""
    spec = importlib.util.spec_from_file_location("recon_scenes", TESTS / "recon" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["recon_scenes"] = module
    spec.loader.exec_module(module)
    return module.make_scene


@pytest.fixture(scope="session")
def build_seconds():
    """Builds gsplat's extension, or finds it built; how long that took."""
    from recon.gsplat_backend import gsplat_engine

    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gsplat_engine()
        from gsplat.cuda._backend import _C
    assert _C is not None, "gsplat found no CUDA toolkit: nvcc must be on the path, or CUDA_HOME set"
    return time.perf_counter() - began


@pytest.fixture(scope="session")
def engine(build_seconds):
    """gsplat, ready to draw."""
    from recon.gsplat_backend import gsplat_engine

    return gsplat_engine()


@pytest.fixture
def memory_returns():
    """What a test takes of the device's memory it gives back, but for 64 MiB of libraries' own."""
    import gc

    import torch

    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    yield
    gc.collect()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() - before < 64 << 20
