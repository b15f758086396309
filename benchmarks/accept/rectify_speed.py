"""Letter A of issue 2: rectification against cv2.remap, projectaria-tools and a plain transcode."""

import os
import tempfile
from pathlib import Path

from benchmarks.accept.harness import ROOT, Letter
from benchmarks.rectify import Rounds, machine, measure_kernel, measure_stream, table_of

KERNEL_ROUNDS, STREAM_ROUNDS = 20, 10
SCRATCH = ROOT / "out" / "accept"


def measure(letter: Letter) -> None:
    """Medians over paired rounds; on a loaded machine ratios of CPU seconds are judged, both are printed."""
    letter.note(machine())
    loaded = os.getloadavg()[0] > 0.7
    kernel, worst = measure_kernel(KERNEL_ROUNDS)
    ours, cv2_remap, aria = kernel.wall
    letter.at_most("grey levels from the float64 reference", worst, 1.0)
    letter.at_most("kernel / cv2.remap", _judged(letter, kernel, ours, cv2_remap, loaded), 1.0, "x")
    letter.at_most("kernel / distort_by_calibration", _judged(letter, kernel, ours, aria, loaded), 0.05, "x")
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        stream = measure_stream(STREAM_ROUNDS, Path(folder))
    ours, transcode = stream.wall
    speed = 1 / _judged(letter, stream, ours, transcode, loaded)
    letter.at_least("speed of decode + rectify + encode / decode + encode", speed, 0.75, "x")
    for rounds in (kernel, stream):
        letter.note("\n" + table_of(rounds))


def _judged(letter: Letter, rounds: Rounds, ours: str, other: str, loaded: bool) -> float:
    """Median ratio of times: wall, or CPU where other work loads the machine."""
    wall, cpu = rounds.ratio(ours, other), rounds.ratio(ours, other, "cpu")
    letter.note(f"{ours} / {other}: wall {wall:.3f}, CPU {cpu:.3f}; judged: {'CPU' if loaded else 'wall'}")
    return cpu if loaded else wall
