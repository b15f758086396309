"""Every example runs as its usage line says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = {
    "01_depth_to_points/depth_to_points.py": ["3071 of 3072 pixels have a point", "196 of them lie in the box"],
    "02_rectify_a_recording/rectify_a_recording.py": ["KB4 -> focal length 100.0 px", "60 of 60 frames have a pose"],
    "03_questions_that_prove_themselves/questions.py": ["replayed: True", "in x, y and z: False"],
    "04_views_of_a_wide_lens/views.py": ["front view alone shows 31 %", "5 views together show 99.9 %"],
    "05_read_and_hand_on/read_and_hand_on.py": ["plain fits", "10 pictures written", "poses within 1e-9: True"],
}


def test_every_example_is_listed_here():
    found = {str(path.relative_to(ROOT / "examples")) for path in (ROOT / "examples").rglob("*.py")}
    assert found == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example_runs(name, tmp_path):
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, str(ROOT / "examples" / name)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env, check=False)
    assert done.returncode == 0, done.stderr
    for text in EXPECTED[name]:
        assert text in done.stdout
