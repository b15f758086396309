"""Shared rules of the tests: where samples are, what a skip means in CI, shapes checked by jaxtyping + beartype."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("cuda_kernels", "geo", "recon", "tracking", "lifting", "spatial_qa")

# Threads that wait for work sleep. cuda_kernels.jit sees to it for numba; a test file may import torch before, which
# brings an OpenMP of its own, and on a loaded machine its spinning threads cost a fit step 211 CPU ms instead of 12.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Shapes and types of public array functions are checked while tests run. EGOSPATIAL_NO_SHAPE_CHECKS=1 turns it off.
if os.environ.get("EGOSPATIAL_NO_SHAPE_CHECKS") != "1":
    from jaxtyping import install_import_hook

    install_import_hook(list(ROOMS), "beartype.beartype")


def samples_root() -> Path:
    """Where the sample recordings are (EGOSPATIAL_SAMPLES, else ../shared/data beside the checkout)."""
    return Path(os.environ.get("EGOSPATIAL_SAMPLES", ROOT.parent / "shared" / "data"))


@pytest.fixture(scope="session")
def samples_dir() -> Path:
    """Folder of the sample recordings, used in place; skips where it is absent."""
    root = samples_root()
    if not root.is_dir():
        pytest.skip(f"no sample recordings at {root}; set EGOSPATIAL_SAMPLES")
    return root


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One rule for GPU tests: skipped where no CUDA device is."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not _has_cuda():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA device here (a CPU twin of this test runs)"))


def _has_cuda() -> bool:
    import torch

    return bool(torch.cuda.is_available())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests were skipped, always."""
    skipped = terminalreporter.stats.get("skipped", [])
    terminalreporter.write_line(f"skipped tests: {len(skipped)}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """With CI=true and the samples at hand, a skip (other than a GPU test's) is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") != "true" or not samples_root().is_dir() or reporter is None:
        return
    skipped = [r for r in reporter.stats.get("skipped", []) if "no CUDA device" not in str(r.longrepr)]
    if skipped and exitstatus == 0:
        reporter.write_line(f"CI: {len(skipped)} skipped test(s) count as failures where the samples are")
        session.exitstatus = 1
