"""Letter E of issue 4: depth of what is carried, and what it leaves behind in the static model.

A demo recording nobody has seen, run whole. Ghost: on pixels where something carried passed or stood at another time,
in front of what is seen there now, the alpha-weighted distance between the static render and the true background, set
against the same fit without masks of what moves and without pruning by free space (what scripts for static scenes do).
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accept.harness import ROOT, Letter, egospatial, unseen_seeds

SCRATCH = ROOT / "out" / "accept"
FRAMES = 25
OFF_M = 0.03
NEVER = 1_000_000


def measure(letter: Letter, seed: int | None = None) -> None:
    """One unseen demo recording."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    seed = unseen_seeds(1)[0] if seed is None else seed
    letter.note(f"seed {seed}")
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
        done = egospatial("demo", "--out", scratch, "--seed", str(seed), "--json", "--quiet")
        letter.true("demo ends", done.status == 0, f"status {done.status} {done.stderr[-200:].strip()}")
        carried = json.loads(done.stdout)["evaluation"]["carried_depth"]
        letter.at_most("carried objects, depth abs-rel", 100 * carried["abs_rel_mean"], 2.0, " %")
        letter.note(f"of their pixels {carried['covered']:.1%} have depth, median {carried['abs_rel_median']:.2%}")
        ghosts(letter, next(path for path in Path(scratch).rglob("splats.ply")).parent, Path(scratch))


def ghosts(letter: Letter, folder: Path, scratch: Path) -> None:
    """The static model of the run against one that was told nothing of what moves."""
    from dataclasses import replace

    from benchmarks.accept.kitchen import bench_of
    from egospatial.simulator.truth import load_truth
    from recon.reconstruct import reconstruct

    bench = bench_of(folder)
    truth = load_truth(next(path for path in scratch.rglob("*_truth") if path.is_dir()))
    blind = replace(bench.config.reconstruct, dynamic_min_violations=NEVER, prune_violations=NEVER)
    unmasked = reconstruct(bench.canonical, blind)
    ours, off = residual(bench.canonical, bench.reconstruction, truth)
    theirs, off_unmasked = residual(bench.canonical, unmasked, truth)
    letter.note(f"off the background by more than 3 cm without masks: {off_unmasked:.1%}")
    letter.at_most("ghost, of the unmasked fit's", 100 * ours / theirs, 10, " %")
    letter.at_most("path pixels off the background by more than 3 cm", 100 * off, 1.0, " %")


def residual(canonical: Any, reconstruction: Any, truth: Any) -> tuple[float, float]:
    """Mean alpha-weighted distance to the true background on path pixels (m), and the share beyond 3 cm."""
    from recon.align import PosePrior
    from recon.render import surface_depth
    from recon.scene_depth import SceneDepth

    depth = SceneDepth(canonical, reconstruction, truth.depth_camera, pose_prior=PosePrior())
    count = len(canonical.timestamps_ns)
    weighted, weights, off = [], [], []
    for frame in range(3, count, max(1, count // FRAMES)):
        true, still = truth.z_depth_m(frame), truth.static_z_depth_m(frame)
        with np.errstate(invalid="ignore"):
            path = _path(truth, frame, still) & (np.abs(true - still) < 1e-3)
        view = depth.static(frame)
        z = surface_depth(view)
        known = path & np.isfinite(z)
        error = np.abs(z - still)[known]
        weighted.append(view.alpha[known] * error)
        weights.append(view.alpha[known])
        off.append(error > OFF_M)
    total = np.concatenate(weights).sum()
    return float(np.concatenate(weighted).sum() / total), float(np.concatenate(off).mean())


def _path(truth: Any, frame: int, background_z: np.ndarray) -> np.ndarray:
    """Pixels on which a carried object's inner part stood or passed at another time, in front of the background."""
    from geo import se3
    from lifting.records import MotionState

    camera, mask = truth.depth_camera, np.zeros(background_z.shape, dtype=bool)
    rows, cols = np.indices(mask.shape)
    camera_from_world = se3.inverse(truth.world_from_camera[frame])
    for item in truth.lifted.trajectories:
        if not np.isin(item.states, (MotionState.HELD, MotionState.MOVING)).any():
            continue
        centres = se3.transform_points(camera_from_world, item.centers_in_world)
        radius_m = 0.4 * float(np.median(item.extent_m))
        away = np.linalg.norm(item.centers_in_world - item.centers_in_world[frame], axis=1) > np.linalg.norm(
            item.extent_m
        )
        for x, y, z in np.unique(np.round(centres[away & (centres[:, 2] > 0.1)], 2), axis=0):
            u, v = camera.fx_px * x / z + camera.cx_px, camera.fy_px * y / z + camera.cy_px
            disc = (cols - u) ** 2 + (rows - v) ** 2 <= (camera.fx_px * radius_m / z) ** 2
            with np.errstate(invalid="ignore"):
                mask |= disc & (background_z > z + radius_m)
    return mask
