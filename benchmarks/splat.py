"""Speed and correctness of the CPU splat rasteriser: ``python benchmarks/splat.py [--quick] [--torch]``.

Every repetition measures the machine's fused multiply-add rate (8 and 16 lanes: the better one is the floor) and the
kernels in turn; ratios are of CPU seconds, best / median over the repetitions. Pairs are
(gaussian, pixel) evaluations, lanes included that turn out below 1/255; 42 flops a pair forward and 70 backward.
"raster" is the tile kernel (what the pairs are evaluated in), "call" the whole of ``rasterize`` or
``rasterize_backward``: projection, sorting, tile lists and checks included.
"""

import argparse
import os
import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from benchmarks.splat_scenes import evaluated_pairs, fitted_room, fma_rate_kernel, random_scene

FLOPS = {"blend": 42, "forward": 42, "blend_back": 70, "backward": 70}  # a pair
FLOORED = ("blend", "blend_back", "forward", "backward")
SIZES = (256, 512, 1024)
SCENES = [(10_000, 256), (50_000, 256), (100_000, 256), (10_000, 512), (100_000, 512), (10_000, 1024), (100_000, 1024)]
QUICK = [(10_000, 256), (100_000, 512), (100_000, 1024)]
LANES = (8, 16)
ROUNDS = 2_000_000  # of the multiply-add chains
REPEATS = 9


@dataclass(frozen=True)
class Measured:
    """One scene at one size. Times are wall and CPU seconds by repetition; ratios are over the multiply-add floor."""

    name: str
    size: int
    gaussians: int
    pairs: int
    times: dict[str, np.ndarray]
    workers: int

    def rate(self, lanes):
        """Flops per CPU second of one core, by repetition."""
        return 20.0 * lanes * ROUNDS * self.workers / self.times[f"fma{lanes}"][:, 1]

    def ratio(self, work):
        """CPU seconds over those that the multiply-adds alone would take at the machine's best rate: best and median.

        The best is least work over best rate. Neighbours that share caches and memory only ever add to the former and
        hardly touch the latter, so on a loaded machine the best is what the kernel itself needs.
        """
        rates = np.max([self.rate(lanes) for lanes in LANES], axis=0)
        seconds, flops = self.times[work][:, 1], FLOPS[work] * self.pairs
        return float(seconds.min() * rates.max() / flops), float(np.median(seconds * rates) / flops)

    def row(self):
        cells = [
            f"{1e3 * t[:, 0].min():.1f} / {1e3 * np.median(t[:, 0]):.1f} / {1e3 * np.median(t[:, 1]):.1f}"
            for t in (self.times["forward"], self.times["backward"])
        ]
        raster, back, call, call_back = (f"{best:.2f} / {middle:.2f}" for best, middle in map(self.ratio, FLOORED))
        rates = ", ".join(f"{np.median(self.rate(lanes)) / 1e9:.0f}" for lanes in LANES)
        return (
            f"| {self.name}, {self.size} | {self.pairs / 1e6:.1f} | {' | '.join(cells)} | {raster} | {back} "
            f"| {call} | {call_back} | {rates} |"
        )


HEAD = (
    "| scene, px | pairs (M) | forward | backward | raster forward, x floor | raster backward | call forward "
    "| call backward | GFLOP/s a core, 8, 16 lanes |\n|---|---|---|---|---|---|---|---|---|"
)


def clock(work):
    """Wall and CPU seconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def measure(name, arrays, camera, rates, repeats=REPEATS):
    import numba

    from cuda_kernels.splat import backward, bins, forward, rasterize, rasterize_backward
    from cuda_kernels.splat.api import _gradient_rows

    rng = np.random.default_rng(1)
    image = rasterize(*arrays, camera)
    d_rgb = rng.normal(size=image.rgb.shape).astype(np.float32)
    d_alpha, d_depth = d_rgb[..., 0].copy(), d_rgb[..., 1].copy()
    saved, shape, workers = image.saved, image.alpha.shape, numba.get_num_threads()
    lists = saved.records, saved.tile_start
    shares = bins.even_shares(saved.tile_start, saved.tile_order, workers)
    rows = _gradient_rows(len(saved.spans))
    columns = {
        "forward": lambda: rasterize(*arrays, camera),
        "backward": lambda: rasterize_backward(image, d_rgb, d_alpha, d_depth),
        "blend": lambda: forward.composite(
            *lists, saved.entries, saved.tile_order, shape, saved.background, shares
        ),
        "blend_back": lambda: backward.gradient_rows(
            rows, *lists, saved.tile_end, saved.entries, saved.spans, saved.tile_order,
            (image.rgb, image.alpha, image.depth_sum), (d_rgb, d_alpha, d_depth), saved.background, shares,
        ),
        **{f"fma{lanes}": lambda run=run: run(np.float32(1e-9), ROUNDS, workers) for lanes, run in rates.items()},
    }  # fmt: skip
    for work in columns.values():
        work()
    times = {work: [] for work in columns}
    for _ in range(repeats):
        for work, call in columns.items():
            times[work].append(clock(call))
    samples = {work: np.array(values) for work, values in times.items()}
    return Measured(name, camera.width_px, len(arrays[0]), evaluated_pairs(saved), samples, workers)


def random_name(count):
    return f"random {count // 1000}k"


def measure_random(count, size, rates, repeats=REPEATS):
    return measure(random_name(count), *random_scene(count, size), rates, repeats)


@dataclass(frozen=True)
class Correctness:
    """Colours against the float64 reference, and a derivative along a random direction of all parameters."""

    error_9999: float
    error_max: float
    slope: float
    finite_difference: float


def correctness():
    from cuda_kernels.splat import rasterize, rasterize_backward
    from cuda_kernels.splat.reference import rasterize_reference

    arrays, camera = random_scene(3000, 96)
    doubles = [array.astype(np.float64) for array in arrays]
    image, truth = rasterize(*arrays, camera), rasterize_reference(*doubles, camera, np.zeros(3))
    error = np.abs(image.rgb - truth.rgb)
    rng = np.random.default_rng(2)
    gradients = rasterize_backward(image, np.ones(image.rgb.shape))
    names = ("means_in_world", "quats_wxyz", "log_scales", "opacity_logits", "colors")
    ways = [rng.normal(size=array.shape) for array in arrays]
    slope = sum((getattr(gradients, name) * way).sum() for name, way in zip(names, ways, strict=True))
    ends = []
    for step in (1e-7, -1e-7):
        moved = [array + step * way for array, way in zip(doubles, ways, strict=True)]
        ends.append(rasterize_reference(*moved, camera, np.zeros(3)).rgb.sum())
    return Correctness(
        float(np.quantile(error, 0.9999)), float(error.max()), float(slope), float(ends[0] - ends[1]) / 2e-7
    )


def machine():
    import numba

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{platform.processor() or platform.machine()}, {cores} cores, {numba.get_num_threads()} threads, "
        f"load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}, numba {numba.__version__}, "
        f"numpy {np.__version__}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three random scenes only")
    parser.add_argument("--torch", action="store_true", help="gsplat's torch reference at 10k, 256 px too")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: gsplat, see splat_cuda.py")
    args, others = parser.parse_known_args()
    if args.device == "cuda":
        from benchmarks.splat_cuda import main as on_cuda

        sys.exit(on_cuda([*others, "--repeats", str(args.repeats), *["--quick"] * args.quick]))
    if others:
        parser.error(f"unknown: {' '.join(others)}")
    from benchmarks.splat_fit import fit_iterations, import_to_first_image

    wall, cpu = import_to_first_image()
    print(machine())
    print(f"import to first image, warm cache: {wall:.2f} s wall, {cpu:.2f} s CPU")
    found = correctness()
    print(f"colour against float64: 99.99 % within {found.error_9999:.1e}, largest {found.error_max:.1e}")
    print(f"derivative along a random direction: {found.slope:.6g}, finite difference {found.finite_difference:.6g}")
    rates = {lanes: fma_rate_kernel(lanes) for lanes in LANES}
    print(f"\nms: best wall / median wall / median CPU\n{HEAD}")
    for count, size in QUICK if args.quick else SCENES:
        print(measure_random(count, size, rates, args.repeats).row(), flush=True)
    if not args.quick:
        arrays, camera_of = fitted_room()
        for size in SIZES:
            name = f"fitted room {len(arrays[0]) / 1000:.0f}k"
            print(measure(name, arrays, camera_of(size), rates, args.repeats).row(), flush=True)
    steps = fit_iterations()
    wall, cpu = 1e3 * np.median(steps, axis=0)
    print(f"\nfit iteration, 50k at 256 px with SSIM: {1e3 * steps[:, 0].min():.1f} ms best wall, {wall:.1f} ms median "
          f"wall, {cpu:.1f} ms median CPU ({cpu / 2:.1f} a core)")  # fmt: skip
    if args.torch:
        from benchmarks.splat_torch import measure_torch

        forward, both, pairs, error = measure_torch(10_000, 256)
        print(f"gsplat's torch reference, 10k at 256 px, {pairs / 1e6:.1f} M pairs found beforehand: forward "
              f"{forward[0]:.2f} s wall, {forward[1]:.2f} s CPU, with backward {both[0]:.2f}, {both[1]:.2f}; "
              f"99.9 % of its colours within {error:.1e} of ours")  # fmt: skip
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
