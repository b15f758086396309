"""The programs for a GPU run here as far as they can, and say so where they cannot."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NO_GPU = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=NO_GPU, timeout=300)


def test_the_benchmark_rehearses_on_the_cpu(tmp_path):
    """The whole program at toy sizes; there the stand-in is the CPU's rasteriser itself, so it agrees."""
    done = run(
        sys.executable,
        "benchmarks/splat.py",
        "--device",
        "cuda",
        "--rehearse",
        "--repeats",
        "1",
        "--out",
        str(tmp_path),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "| 0.3k, 32 |" in done.stdout
    found = json.loads((tmp_path / "splat_cuda.json").read_text())
    assert max(found["agreement"].values()) < 1e-4
    assert found["fit"][0]["device"]["median_ms"] > 0 and [row["count"] for row in found["scenes"]] == [300]
    assert [path.name for path in tmp_path.iterdir()] == ["splat_cuda.json"]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ((sys.executable, "benchmarks/splat_cuda.py"), "no GPU to measure: torch sees no CUDA device"),
        (("sh", "tools/gpu_check.sh"), "no GPU to check: torch sees no CUDA device"),
    ],
)
def test_without_a_gpu_the_status_is_2_and_one_line_says_why(command, text, tmp_path, monkeypatch):
    monkeypatch.setitem(NO_GPU, "PYTHON", sys.executable)
    monkeypatch.setitem(NO_GPU, "OUT", str(tmp_path))
    done = run(*command)
    assert done.returncode == 2
    assert text in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""
