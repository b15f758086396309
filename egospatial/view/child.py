"""Calling the Open3D child and surviving whatever happens to it."""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from egospatial.view.scene import Scene, save_arrays

_TIMEOUT_S = 120


@dataclass(frozen=True)
class ChildResult:
    """``problem`` is empty if the picture is there."""

    problem: str = ""


def picture_in_child(scene: Scene, path: Path, width_px: int = 1280, height_px: int = 800) -> ChildResult:
    """Let Open3D draw the scene to a PNG file; on any failure say why, and raise nothing."""
    with tempfile.TemporaryDirectory(prefix="egospatial-view-") as folder:
        arrays = Path(folder) / "scene.npz"
        save_arrays(arrays, scene)
        words = ["picture", str(arrays), str(path), str(width_px), str(height_px)]
        return _call(words, timeout_s=_TIMEOUT_S, expected=path)


def window_in_child(scene: Scene) -> ChildResult:
    """Open a window and wait until it is closed."""
    with tempfile.TemporaryDirectory(prefix="egospatial-view-") as folder:
        arrays = Path(folder) / "scene.npz"
        save_arrays(arrays, scene)
        return _call(["window", str(arrays)], timeout_s=None, expected=None)


def has_display() -> bool:
    """True if the environment names a screen."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _call(words: list[str], timeout_s: float | None, expected: Path | None) -> ChildResult:
    command = [sys.executable, "-m", "egospatial.view.open3d_child", *words]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return ChildResult(f"Open3D gave no picture within {timeout_s} s")
    except OSError as error:
        return ChildResult(f"the child could not be started: {error}")
    if ended.returncode == 0 and (expected is None or expected.is_file()):
        return ChildResult()
    last = (ended.stderr.strip().splitlines() or ["no message"])[-1]
    how = f"signal {-ended.returncode}" if ended.returncode < 0 else f"status {ended.returncode}"
    return ChildResult(f"Open3D ended with {how}: {last}")
