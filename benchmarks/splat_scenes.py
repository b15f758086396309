"""Scenes of the splat benchmark: gaussians at random, a simulated room fitted on the spot; and the machine's limit.

Random scenes: N gaussians in a frustum 1.5 to 6 m deep, sizes such that the covered area does not depend on N.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np


def square_camera(size, focal, world_from_camera=None):
    from cuda_kernels.splat import SplatCamera

    pose = np.eye(4) if world_from_camera is None else np.linalg.inv(world_from_camera)
    return SplatCamera(focal, focal, (size - 1) / 2, (size - 1) / 2, size, size, pose)


def random_scene(count, size, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.uniform(1.5, 6, count)
    means = np.stack([rng.uniform(-0.6, 0.6, count) * z, rng.uniform(-0.6, 0.6, count) * z, z], axis=1)
    sigmas = 0.02 * np.sqrt(100_000 / count) * rng.uniform(0.3, 1.5, (count, 3))
    arrays = (
        means,
        rng.normal(size=(count, 4)),
        np.log(sigmas),
        rng.normal(0.5, 1.5, count),
        rng.uniform(0, 1, (count, 3)),
    )
    camera = square_camera(size, 0.9 * size)
    return tuple(np.ascontiguousarray(array, dtype=np.float32) for array in arrays), camera


def fitted_room(seed=7, iterations=150):
    """Gaussians of a small simulated recording after a short fit, and a function that gives a camera of any size.

    The commands a user would type, in a folder that is gone afterwards. The view is that of the middle frame.
    """
    import h5py

    from recon.backend import packed
    from recon.ply import read_splat_ply

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _egospatial("simulate", place, "--preset", "small", "--seed", str(seed))
        _egospatial(
            "run", place / f"small_{seed:04d}", "--out", place / "out", "--stages", "rectify,reconstruct",
            "--set", f"reconstruct.iterations={iterations}",
        )  # fmt: skip
        done = place / "out" / f"small_{seed:04d}"
        with h5py.File(done / "geometry.h5") as file:
            poses = file["frames/world_from_camera"][:]
        pose = poses[len(poses) // 2]
        room = packed(read_splat_ply(done / "splats.ply"), pose)
        fx, width = (
            json.loads((done / "recording.json").read_text())["canonical_camera"][k] for k in ("params", "width")
        )
    arrays = (room.means_in_world, room.quats_wxyz, room.log_scales, room.opacity_logits, room.colors)
    return arrays, lambda size: square_camera(size, fx[0] * size / width, pose)


def _egospatial(*words):
    done = subprocess.run(
        [sys.executable, "-m", "egospatial", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parent.parent,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"egospatial {words[0]} failed: {done.stderr[-500:]}")


def fma_rate_kernel(lanes):
    """A numba function that runs chains of independent multiply-adds of that many lanes; 20 * lanes flops a round."""
    import numba
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    vector = ir.VectorType(ir.FloatType(), lanes)

    @intrinsic
    def chains(typingctx, seed, rounds):
        def codegen(context, builder, sig, args):
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), args[0], ir.Constant(ir.IntType(32), 0))
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [ir.Constant(ir.IntType(32), 0)] * lanes)
            start = builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)
            sums = [cgutils.alloca_once_value(builder, start) for _ in range(10)]
            fma = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{lanes}f32"
            )
            with cgutils.for_range(builder, args[1]):
                for total in sums:
                    builder.store(builder.call(fma, [builder.load(total), start, start]), total)
            result = builder.load(sums[0])
            for total in sums[1:]:
                result = builder.fadd(result, builder.load(total))
            return builder.extract_element(result, ir.Constant(ir.IntType(32), 0))

        return types.float32(types.float32, types.intp), codegen

    @numba.njit(parallel=True)
    def run(seed, rounds, workers):
        out = np.empty(workers, dtype=np.float32)
        for worker in numba.prange(workers):
            out[worker] = chains(seed, rounds)
        return out

    return run


def evaluated_pairs(saved):
    """Lanes that the forward kernel computed: every listed block up to where each tile ran out of light."""
    total = 0
    for start, end in zip(saved.tile_start[:-1], saved.tile_end, strict=True):
        code = saved.entries[start:end, 1]
        total += int(((code >> 4 & 15) - (code & 15) + (code >> 12 & 15) - (code >> 8 & 15)).sum())
    return 16 * total
