"""Speed and correctness of the CPU splat rasteriser: ``python benchmarks/splat.py [--quick]``.

Scenes: N gaussians at random in a frustum 1.5 to 6 m deep, sizes such that the covered area does not depend on N.
Every repetition measures the machine's fused multiply-add rate and the kernels in turn, so that a loaded machine slows
both; ratios are medians over repetitions of CPU seconds. Pairs are (gaussian, pixel) evaluations, lanes included that
turn out below 1/255; flops per pair as counted in docs/kernels.md.
"""

import argparse
import os
import platform
import time

import numpy as np

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
FLOPS_FORWARD, FLOPS_BACKWARD = 42, 70
SCENES = [(10_000, 256), (50_000, 256), (100_000, 256), (10_000, 512), (100_000, 512), (100_000, 1024)]
QUICK = [(10_000, 256), (100_000, 512)]


def random_scene(count, size, seed=0):
    from cuda_kernels.splat import SplatCamera

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
    camera = SplatCamera(0.9 * size, 0.9 * size, (size - 1) / 2, (size - 1) / 2, size, size, np.eye(4))
    return tuple(np.ascontiguousarray(array, dtype=np.float32) for array in arrays), camera


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


def clock(work):
    """Wall and CPU seconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def evaluated_pairs(saved):
    """Lanes that the forward kernel computed: every listed block up to where each tile ran out of light."""
    total = 0
    for start, end in zip(saved.tile_start[:-1], saved.tile_end, strict=True):
        code = saved.entries[start:end, 1]
        total += int(((code >> 4 & 15) - (code & 15) + (code >> 12 & 15) - (code >> 8 & 15)).sum())
    return 16 * total


def measure(count, size, repeats, rates):
    import numba

    from cuda_kernels.splat import backward, forward, rasterize, rasterize_backward
    from cuda_kernels.splat.api import _gradient_rows

    arrays, camera = random_scene(count, size)
    rng = np.random.default_rng(1)
    image = rasterize(*arrays, camera)
    d_rgb = rng.normal(size=image.rgb.shape).astype(np.float32)
    d_alpha, d_depth = d_rgb[..., 0].copy(), d_rgb[..., 1].copy()
    saved, shape, workers = image.saved, (size, size), numba.get_num_threads()
    lists = saved.records, saved.tile_start
    pairs = evaluated_pairs(saved)
    rounds = 2_000_000
    rows = _gradient_rows(len(saved.spans))
    columns = {
        "forward": lambda: rasterize(*arrays, camera),
        "backward": lambda: rasterize_backward(image, d_rgb, d_alpha, d_depth),
        "blend": lambda: forward.composite(
            *lists, saved.entries, saved.tile_order, shape, saved.background, workers
        ),
        "blend_back": lambda: backward.gradient_rows(
            rows, *lists, saved.tile_end, saved.entries, saved.spans, saved.tile_order,
            (image.rgb, image.alpha, image.depth_sum), (d_rgb, d_alpha, d_depth), saved.background, workers,
        ),
        **{f"fma{lanes}": lambda run=run: run(np.float32(1e-9), rounds, workers) for lanes, run in rates.items()},
    }  # fmt: skip
    for work in columns.values():
        work()
    times = {name: [] for name in columns}
    for _ in range(repeats):
        for name, work in columns.items():
            times[name].append(clock(work))
    seconds = {name: np.array(samples) for name, samples in times.items()}
    middle = {name: np.median(samples, axis=0) for name, samples in seconds.items()}
    best = {name: samples.min(axis=0) for name, samples in seconds.items()}
    ratios = {}
    for name, flops in (("blend", FLOPS_FORWARD), ("blend_back", FLOPS_BACKWARD)):
        for lanes in rates:
            per_flop = seconds[f"fma{lanes}"][:, 1] / (20.0 * lanes * rounds * workers)
            ratios[name, lanes] = np.median(seconds[name][:, 1] / (flops * pairs * per_flop))
    return pairs, middle, best, ratios, {n: 20e-9 * n * rounds * workers / best[f"fma{n}"][0] for n in rates}


def correctness():
    """Images against the float64 reference, and one directional derivative against its finite difference."""
    from cuda_kernels.splat import rasterize, rasterize_backward
    from cuda_kernels.splat.reference import rasterize_reference

    arrays, camera = random_scene(3000, 96)
    doubles = [array.astype(np.float64) for array in arrays]
    image, truth = rasterize(*arrays, camera), rasterize_reference(*doubles, camera, np.zeros(3))
    error = np.abs(image.rgb - truth.rgb)
    print(f"colour against float64: 99.99 % within {np.quantile(error, 0.9999):.1e}, largest {error.max():.1e}")
    rng = np.random.default_rng(2)
    d_rgb = np.ones(image.rgb.shape)
    gradients = rasterize_backward(image, d_rgb)
    names = ("means_in_world", "quats_wxyz", "log_scales", "opacity_logits", "colors")
    ways = [rng.normal(size=array.shape) for array in arrays]
    slope = sum((getattr(gradients, name) * way).sum() for name, way in zip(names, ways, strict=True))
    ends = []
    for step in (1e-7, -1e-7):
        moved = [array + step * way for array, way in zip(doubles, ways, strict=True)]
        ends.append(rasterize_reference(*moved, camera, np.zeros(3)).rgb.sum())
    truth_slope = (ends[0] - ends[1]) / 2e-7
    print(f"derivative along a random direction: {slope:.6g}, finite difference {truth_slope:.6g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two scenes only")
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args()
    began = time.perf_counter()
    import numba

    from cuda_kernels.splat import rasterize

    arrays, camera = random_scene(1000, 64)
    rasterize(*arrays, camera)
    print(f"import to first image {time.perf_counter() - began:.2f} s (compiles if the cache is cold)")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"{platform.processor() or platform.machine()}, {cores} cores, {numba.get_num_threads()} threads, "
          f"load {os.getloadavg()[0]:.1f}, numba {numba.__version__}, numpy {np.__version__}")  # fmt: skip
    correctness()
    rates = {lanes: fma_rate_kernel(lanes) for lanes in (8, 16)}
    print("\nms: best wall / median wall / median CPU; x floor: CPU of the tile kernel over the multiply-add floor")
    print("| N, px | pairs (M) | forward | backward | x floor fwd, bwd (8 lanes) | (16 lanes) | GFLOP/s 8, 16 lanes |")
    print("|---|---|---|---|---|---|---|")
    for count, size in QUICK if args.quick else SCENES:
        pairs, middle, best, ratios, gflops = measure(count, size, args.repeats, rates)
        cells = [
            f"{1e3 * best[name][0]:.1f} / {1e3 * middle[name][0]:.1f} / {1e3 * middle[name][1]:.1f}"
            for name in ("forward", "backward")
        ]
        floors = [f"{ratios['blend', lanes]:.2f}, {ratios['blend_back', lanes]:.2f}" for lanes in (8, 16)]
        print(f"| {count // 1000}k, {size} | {pairs / 1e6:.1f} | {' | '.join([*cells, *floors])} "
              f"| {gflops[8]:.0f}, {gflops[16]:.0f} |", flush=True)  # fmt: skip
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
