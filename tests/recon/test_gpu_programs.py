"""The programs for a GPU run here as far as they can, and say so where they cannot."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def program(monkeypatch):
    """``benchmarks/splat.py``'s main, as if called with these words, on a machine without a GPU."""
    import torch

    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    from benchmarks import splat

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["splat.py", *words])
        with pytest.raises(SystemExit) as end:
            splat.main()
        return end.value.code

    return run


def test_the_benchmark_rehearses_on_the_cpu(program, tmp_path, capsys):
    """The whole program at toy sizes; there the stand-in is the CPU's rasteriser itself, so it agrees."""
    status = program("--device", "cuda", "--rehearse", "--repeats", "1", "--out", str(tmp_path))
    assert status == 0
    assert "| 0.3k, 32 |" in capsys.readouterr().out
    found = json.loads((tmp_path / "splat_cuda.json").read_text())
    assert max(found["agreement"].values()) < 1e-4
    assert found["fit"][0]["device"]["median_ms"] > 0 and [row["count"] for row in found["scenes"]] == [300]
    assert [path.name for path in tmp_path.iterdir()] == ["splat_cuda.json"]


def test_without_a_gpu_the_benchmark_ends_with_status_2(program, capsys):
    assert program("--device", "cuda") == 2
    told = capsys.readouterr()
    assert "no GPU to measure: torch sees no CUDA device" in told.err and told.out == ""


def test_an_unknown_word_is_refused_on_the_cpu_too(program, capsys):
    assert program("--nonsense") == 2
    assert "unknown: --nonsense" in capsys.readouterr().err


def test_without_a_gpu_the_check_ends_with_status_2_and_one_line(tmp_path):
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHON": sys.executable, "OUT": str(tmp_path)}
    done = subprocess.run(
        ["sh", "tools/gpu_check.sh"], capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300
    )
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == "no GPU to check: torch sees no CUDA device\n"
