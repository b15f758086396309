"""Every kernel of the fit gives the same bytes with one, two, three and four threads, on any machine."""

import os
import subprocess
import sys

SCRIPT = """
import hashlib
from dataclasses import replace

import numba
import numpy as np
from splat_scenes import FIELDS, camera, cloud, image_gradients, tilted

from cuda_kernels.adam import adam_rows
from cuda_kernels.splat import eval_sh, eval_sh_backward, rasterize, rasterize_backward
from cuda_kernels.ssim import ssim_with_gradient

rng = np.random.default_rng(0)
scene, pinhole = cloud(1500, seed=5), tilted(camera(150, 110, focal=120.0))
fisheye = replace(pinhole, kb4=(0.05, -0.01, 0.002, 0.0), fx_px=70.0, fy_px=70.0)
coefficients = rng.normal(0, 0.3, (1500, 16, 3)).astype(np.float32)
pictures = rng.random((2, 110, 150, 3), dtype=np.float32)
for threads in (1, 2, 3, 4):
    numba.set_num_threads(threads)
    arrays = [*ssim_with_gradient(*pictures), eval_sh(coefficients, scene.means)]
    arrays += eval_sh_backward(coefficients, scene.means, scene.colors)
    for view in (pinhole, fisheye):
        image = rasterize(*scene.arrays, view, depth_statistics=True)
        gradients = rasterize_backward(image, *image_gradients(view))
        arrays += [image.rgb, image.alpha, image.depth_sum, image.statistics.median_z, image.statistics.variance_z]
        arrays += [getattr(gradients, name) for name in (*FIELDS, "mean2d_norm", "camera_twist")]
    table = [scene.means.copy(), np.zeros_like(scene.means), np.zeros_like(scene.means), np.zeros(1500, np.int64)]
    rate, row_scale = np.full(3, 0.1, np.float32), scene.logits
    adam_rows(*table, np.arange(0, 1500, 2), gradients.means_in_world[::2].copy(), rate, row_scale, 2)
    print(threads, hashlib.sha256(b"".join(array.tobytes() for array in arrays + table)).hexdigest())
"""


def test_one_to_four_threads_give_the_same_bytes():
    """In a process of its own: numba cannot start more threads than the machine has cores unless told at the start."""
    here = os.path.dirname(os.path.abspath(__file__))
    paths = os.pathsep.join([here, os.path.dirname(os.path.dirname(here)), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "NUMBA_NUM_THREADS": "4", "PYTHONPATH": paths}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [threads for threads, _ in lines] == ["1", "2", "3", "4"]
    assert len({digest for _, digest in lines}) == 1
