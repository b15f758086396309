"""What a user waits for around the rasteriser: one iteration of the fit, and the first image after an import."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.splat_scenes import random_scene

FIRST_IMAGE = """
import time
wall, cpu = time.perf_counter(), time.process_time()
import numpy as np
from cuda_kernels.splat import SplatCamera, rasterize
rng = np.random.default_rng(0)
means = np.concatenate([rng.uniform(-1, 1, (1000, 2)), rng.uniform(2, 4, (1000, 1))], axis=1)
arrays = means, rng.normal(size=(1000, 4)), rng.normal(-3, 0.3, (1000, 3)), rng.normal(size=1000), rng.random((1000, 3))
camera = SplatCamera(60.0, 60.0, 31.5, 31.5, 64, 64, np.eye(4))
rasterize(*(array.astype(np.float32) for array in arrays), camera)
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


def import_to_first_image(runs=3):
    """Wall and CPU seconds from import to the first image in a fresh process, best of some, with a warm cache."""
    best = (np.inf, np.inf)
    for turn in range(runs + 1):
        done = subprocess.run(
            [sys.executable, "-c", FIRST_IMAGE],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).resolve().parent.parent,
        )
        if turn:
            best = min(best, tuple(map(float, done.stdout.split())))
    return best


def fit_iterations(count=50_000, size=256, iterations=40):
    """Wall and CPU seconds of each iteration of ``recon.fit.fit``: draw, L1 + SSIM + depth, back, regularise, Adam.

    The view is the random scene as others would see it: colours with noise, depth with 1 % noise and 19 % holes.
    """
    from geo.cameras import PinholeCamera
    from recon.backend import choose_renderer, packed
    from recon.config import ReconstructConfig
    from recon.fit import fit
    from recon.model import sh0_from_rgb
    from recon.records import SplatModel
    from recon.sensor import SensorNoise
    from recon.views import View

    arrays, camera = random_scene(count, size)
    model = SplatModel(arrays[0], arrays[2], arrays[1], arrays[3], sh0_from_rgb(arrays[4]))
    renderer = choose_renderer("cpu")
    image = renderer.forward(packed(model, np.eye(4)), camera, (0.5, 0.5, 0.5))
    rng = np.random.default_rng(0)
    z = image.expected_z(0.3) * rng.normal(1.0, 0.01, image.alpha.shape).astype(np.float32)
    z[rng.random(z.shape) < 0.19] = np.nan
    view = View(
        frame=0,
        rgb=np.clip(255 * image.rgb + rng.normal(0, 10, image.rgb.shape), 0, 255).astype(np.uint8),
        z_depth_m=z,
        static=np.ones(z.shape, dtype=bool),
        camera=PinholeCamera(size, size, camera.fx_px, camera.fy_px, camera.cx_px, camera.cy_px),
        world_from_camera=np.eye(4),
    )
    config = replace(
        ReconstructConfig(), iterations=iterations, coarse_fraction=0.0, prune_at=(), patience=0, max_gaussians=count
    )
    if not config.ssim_weight > 0:
        raise RuntimeError("the configuration has no SSIM term: this would not measure what is asked for")
    stamps = []

    def stamp(*_):
        stamps.append((time.perf_counter(), time.process_time()))

    fit(model, np.ones((1, 3), np.float32), [view], [], config, SensorNoise(), renderer, stamp)
    return np.diff(np.array(stamps), axis=0)[3:]
