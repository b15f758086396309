"""Letter H of issue 2: `egospatial poses` on a simulated fisheye recording whose trajectory was taken away."""

import json
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.accept.harness import ROOT, Letter, egospatial, unseen_seeds
from geo.alignment import absolute_error
from geo.readers import open_recording
from geo.trajectory import Trajectory

SCRATCH = ROOT / "out" / "accept"
SECONDS = 12.0  # 120 pictures at 10 Hz
MIN_PICTURES = 100


def measure(letter: Letter) -> None:
    """Simulate an unseen seed, take the poses away, estimate them, compare with the exact ones."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
        (seed,) = unseen_seeds(1)
        letter.note(f"seed {seed}")
        made = egospatial("simulate", scratch, "--preset", "demo", "--seed", str(seed), "--quiet")
        letter.true("simulated", made.status == 0, f"status {made.status} {made.stderr[-200:].strip()}")
        recording = Path(scratch) / f"demo_{seed}"
        (recording / "trajectory.csv").unlink()
        refused = egospatial("info", recording)
        letter.true(
            "without poses: one line that names the command",
            refused.status == 2 and "egospatial poses" in refused.stderr and refused.stderr.count("error:") == 1,
            f"status {refused.status}",
        )
        out = Path(scratch) / "posed"
        done = egospatial(
            "poses", recording, "--out", out, "--end", str(SECONDS), "--scale-from", "depth", "--quiet", "--json"
        )
        letter.true("poses ends", done.status == 0, f"status {done.status} {done.stderr[-200:].strip()}")
        letter.note(f"wall {done.wall_s:.0f} s, CPU {done.cpu_s:.0f} s (/2 = {done.cpu_s / 2:.0f} s)")
        judge(letter, out / f"demo_{seed}", Path(scratch) / f"demo_{seed}_truth")


def judge(letter: Letter, posed: Path, truth: Path) -> None:
    """Registered share, error after Sim3; the scale from depth is a note."""
    import h5py

    with h5py.File(truth / "truth.h5") as file:
        stamps, poses = file["timestamps_ns"][:], file["world_from_source"][:]
    recording = open_recording(posed)
    end = recording.reference.timestamps_ns[0] + round(SECONDS * 1e9)
    frames = recording.reference.timestamps_ns[recording.reference.timestamps_ns < end]
    reference = Trajectory.from_rows(stamps[stamps < end], poses[stamps < end])
    report = json.loads((posed / "poses.json").read_text())
    letter.at_least("consecutive pictures", len(frames), MIN_PICTURES)
    registered = np.isin(recording.trajectory.timestamps_ns, frames).sum()
    letter.at_least("registered", 100 * float(registered) / len(frames), 90, " %")
    error = absolute_error(recording.trajectory, reference, "sim3")
    path_m = float(np.linalg.norm(np.diff(reference.world_from_body[:, :3, 3], axis=0), axis=1).sum())
    letter.at_most("ATE after Sim3", 100 * error.translation.rmse / path_m, 2, " % of the path")
    letter.note(
        f"path {path_m:.2f} m, ATE rmse {100 * error.translation.rmse:.2f} cm, largest "
        f"{100 * error.translation.max:.2f} cm, rotation {error.rotation_deg.rmse:.2f} degrees"
    )
    scale = report["scale"]
    letter.note(
        f"scale from depth: {scale['metres_per_unit']:.4f} m a unit, spread {scale['spread']:.1%}, so lengths are "
        f"wrong by {100 * abs(error.alignment.scale - 1):.2f} % (metric said: {recording.world.metric})"
    )
    letter.note(
        f"{report['mapped_keyframes']} of {report['keyframes']} keyframes mapped, {report['points']} points, "
        f"{report['reprojection_error_px']:.2f} px, track length {report['track_length']:.1f}"
    )
