"""gsplat and the CUDA twins on a GPU: ``python benchmarks/splat_cuda.py [--quick] [--out DIR]``.

The scenes of ``benchmarks/splat.py``; milliseconds per picture forward, and forward and back; one step of the fit at
50k splats; peak memory of the device; the twins against the CPU's functions, with and without copies. Pictures and
gradients are compared with the CPU's rasteriser first. A table is printed, and the figures are written to
DIR/splat_cuda.json. The build of gsplat, if it is not done yet, is timed apart. Status 2 where there is no GPU.

``--rehearse`` runs the whole program at toy sizes with the CPU's rasteriser in gsplat's place, to see that it runs.
"""

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.splat import QUICK, SCENES, random_scene

TOY = [(300, 32)]
PARAMETERS = ("means_in_world", "quats_wxyz", "log_scales", "opacity_logits", "colors")


class Clock:
    """Milliseconds of work on a device, all of it finished."""

    def __init__(self, device, repeats):
        self.device, self.repeats = device, repeats

    def finish(self):
        if self.device == "cuda":
            import torch

            torch.cuda.synchronize()

    def ms(self, work, warm=3):
        """Best and median of the repetitions."""
        for _ in range(warm):
            work()
        self.finish()
        times = []
        for _ in range(self.repeats):
            began = time.perf_counter()
            work()
            self.finish()
            times.append(1e3 * (time.perf_counter() - began))
        return {"best_ms": float(np.min(times)), "median_ms": float(np.median(times))}


def peak_mib(device, work):
    """Most memory that tensors held on the device during the work; None where that is no GPU."""
    if device != "cuda":
        return None
    import torch

    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 2**20


def measure_scene(engine, clock, count, size):
    """One of the scenes of benchmarks/splat.py: pictures forward, and forward and back."""
    import torch

    from recon.tensor_draw import draw

    arrays, camera = random_scene(count, size)
    means, quats, log_scales, logits, colors = (
        torch.tensor(array, device=engine.device, requires_grad=True) for array in arrays
    )
    weights = torch.randn(size, size, 3, device=engine.device, generator=torch.Generator(engine.device).manual_seed(0))

    def forward():
        return draw(
            engine, means, quats, log_scales.exp(), logits.sigmoid(), colors, camera, (0.0, 0.0, 0.0)
        )  # fmt: skip

    def both():
        drawn = forward()
        loss = (drawn.rgb * weights).sum() + drawn.depth_sum.mean() + drawn.alpha.mean()
        torch.autograd.grad(loss, [means, quats, log_scales, logits, colors])

    def blind():
        with torch.no_grad():
            forward()

    return {
        "count": count, "size": size, "forward": clock.ms(blind), "both": clock.ms(both),
        "peak_mib": peak_mib(engine.device, both),
    }  # fmt: skip


def agreement(engine, count, size):
    """99 % quantiles of the difference to the CPU's rasteriser, and relative difference of gradients."""
    from recon.backend import CpuRenderer
    from recon.gsplat_backend import GsplatRenderer
    from recon.renderer import Gaussians

    arrays, camera = random_scene(count, size)
    gaussians = Gaussians(*arrays)
    renderers = CpuRenderer(), GsplatRenderer(engine)
    ours, theirs = (r.forward(gaussians, camera, (0.1, 0.2, 0.3), depth_statistics=True) for r in renderers)
    found = {}
    for name in ("rgb", "alpha", "depth_sum"):
        found[name] = float(np.quantile(np.abs(getattr(ours, name) - getattr(theirs, name)), 0.99))
    found["median_z"] = float(np.nanquantile(np.abs(ours.statistics.median_z - theirs.statistics.median_z), 0.98))
    rng = np.random.default_rng(1)
    slopes = [rng.normal(size=s).astype(np.float32) for s in (ours.rgb.shape, ours.alpha.shape, ours.alpha.shape)]
    a, b = (r.backward(image, *slopes) for r, image in zip(renderers, (ours, theirs), strict=True))
    for name in (*PARAMETERS, "camera_twist"):
        want, got = getattr(a, name), getattr(b, name)
        found[f"d_{name}"] = float(np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-12))
    return found


def fit_case(count, size):
    """A model, and eight views whose pictures and depths it drew itself, from places 2 cm apart."""
    from geo.cameras import PinholeCamera
    from recon.backend import CpuRenderer, splat_camera
    from recon.records import SplatModel
    from recon.renderer import Gaussians
    from recon.views import View

    (means, quats, log_scales, logits, colors), _ = random_scene(count, size)
    camera = PinholeCamera(size, size, 0.9 * size, 0.9 * size, (size - 1) / 2, (size - 1) / 2)
    gaussians = Gaussians(means, quats, log_scales, logits, colors)
    views = []
    for frame in range(8):
        pose = np.eye(4)
        pose[0, 3] = 0.02 * frame
        image = CpuRenderer().forward(gaussians, splat_camera(camera, pose), (0.5, 0.5, 0.5))
        z = image.expected_z(0.5)
        rgb = (np.clip(image.rgb, 0, 1) * 255).astype(np.uint8)
        views.append(View(frame, rgb, z, np.ones(z.shape, dtype=bool), camera, pose))
    sh = ((colors - 0.5) / 0.28209479177387814).astype(np.float32)[:, None, :]
    return SplatModel(means, log_scales, quats, logits, sh), views


def measure_fit(engine, clock, count, size):
    """A step of the fit with all its terms: the device's and the CPU's state."""
    from recon.backend import CpuRenderer
    from recon.config import ReconstructConfig
    from recon.fit import _State
    from recon.gsplat_backend import GsplatRenderer
    from recon.sensor import SensorNoise

    config, noise = ReconstructConfig(width_px=size, max_gaussians=count), SensorNoise()
    model, views = fit_case(count, size)
    arguments = (model, np.ones((len(views), 3), np.float32), views, config, (0.5, 0.5, 0.5), False)
    gsplat = GsplatRenderer(engine)
    device = gsplat.fit_state(*arguments)
    turn = iter(range(10**9))

    def step(state, renderer):
        index = next(turn) % len(views)
        state.step(views[index], index, 0.5, noise, renderer)

    found = {"count": count, "size": size, "device": clock.ms(lambda: step(device, gsplat), warm=len(views))}
    found["peak_mib"] = peak_mib(engine.device, lambda: step(device, gsplat))
    cpu, renderer = _State(*arguments), CpuRenderer()
    short = Clock("cpu", min(clock.repeats, 5))
    found["cpu"] = short.ms(lambda: step(cpu, renderer), warm=2)
    return found


def twin_cases(size):
    """Name, CPU function, CUDA twin: of arrays of that size."""
    from cuda_kernels import depth_cuda, remap, remap_cuda, reproject, reproject_cuda
    from geo import se3
    from geo.cameras import PinholeCamera
    from geo.depth import unproject
    from recon import render
    from recon.fuse import DepthConfig, combine
    from recon.records import RenderedView

    rng = np.random.default_rng(0)
    v, u = np.mgrid[0:size, 0:size]
    z = (2 + 0.3 * np.sin(u / 40) + 0.2 * np.cos(v / 30)).astype(np.float32)
    z[rng.random(z.shape) < 0.1] = np.nan
    sensor = (z + rng.normal(0, 0.004, z.shape)).astype(np.float32)
    sigma = np.full(z.shape, 0.004, np.float32)
    still, none = np.zeros(z.shape, dtype=bool), np.full(z.shape, np.nan, np.float32)
    camera = PinholeCamera(size, size, 0.8 * size, 0.8 * size, size / 2, size / 2)
    numbers, pose = np.array([0.8 * size, 0.8 * size, size / 2, size / 2, 0.0]), np.eye(4)
    pose[:3, 3] = 0.02, 0.01, -0.03
    config = DepthConfig(hole_px=0)
    fusing = {
        "disagreement_m": config.disagreement_m, "disagreement_sigmas": config.disagreement_sigmas,
        "disagreement_radius_px": config.disagreement_radius_px, "object_sigma_m": config.object_sigma_m,
    }  # fmt: skip
    choosing = {
        "split_share": render._SPLIT_SHARE, "split_floor_m": render._SPLIT_FLOOR_M,
        "least_gap_m": render._MIN_GAP_M, "sure_share": render._SURE_SHARE,
    }  # fmt: skip
    view = RenderedView(np.zeros((size, size, 3), np.float32), z, z, sensor, sigma)
    moved = (z, numbers[:4], numbers[:4], (size, size), pose, 0.05, 1e-3)
    image = rng.integers(0, 256, (size, size, 3)).astype(np.uint8)
    table = remap.make_table(np.stack([u, v], axis=-1) * 0.97 + 0.3, np.ones(z.shape, bool), (size, size))
    return [
        (
            "unproject to the world",
            lambda: se3.transform_points(pose, unproject(z, camera).reshape(-1, 3)),
            lambda: depth_cuda.unproject_cuda(z, numbers, pose),
        ),
        (
            "choose a surface, spread",
            lambda: (render.surface_depth(view), render.ray_spread(z, sensor, sigma)),
            lambda: depth_cuda.choose_surface_cuda(z, sensor, sigma, **choosing),
        ),
        (
            "fuse static and sensor",
            lambda: combine(z, sigma, sensor, sigma, still, none, config),
            lambda: depth_cuda.fuse_depth_cuda(z, sigma, sensor, sigma, still, none, **fusing),
        ),
        (
            "reproject sensor depth",
            lambda: reproject.reproject_z_depth(*moved),
            lambda: reproject_cuda.reproject_z_depth_cuda(*moved),
        ),
        (
            "remap, bilinear",
            lambda: remap.remap_bilinear(image, table),
            lambda: remap_cuda.remap_bilinear_cuda(image, table),
        ),
    ]


def measure_twins(size, repeats):
    """Wall milliseconds of CPU function and CUDA twin, copies to and from the device included."""
    clock = Clock("cpu", repeats)  # the twins return host arrays, so they are done when they return
    return [
        {"name": name, "size": size, "cpu": clock.ms(cpu, warm=2), "device": clock.ms(twin, warm=2)}
        for name, cpu, twin in twin_cases(size)
    ]


def device_name(device):
    if device != "cuda":
        return f"rehearsal on {platform.machine()}"
    import torch

    free, total = torch.cuda.mem_get_info()
    return (
        f"{torch.cuda.get_device_name()}, {total / 2**30:.0f} GiB ({free / 2**30:.0f} free), torch {torch.__version__}"
    )


def mib(row):
    return "-" if row["peak_mib"] is None else f"{row['peak_mib']:.0f}"


def table(found):
    """What is printed."""
    lines = ["", f"machine: {found['machine']}; gsplat {found['gsplat']}; ready in {found['build_s']:.1f} s", ""]
    lines += ["difference to the CPU's rasteriser (pictures: 99 % quantile; gradients: relative L2):"]
    lines += ["  " + ", ".join(f"{name} {value:.1e}" for name, value in found["agreement"].items()), ""]
    lines += [
        "| N, px | forward best / median ms | forward and back best / median ms | peak MiB |",
        "|---|---|---|---|",
    ]
    for row in found["scenes"]:
        cells = [f"{row[name]['best_ms']:.2f} / {row[name]['median_ms']:.2f}" for name in ("forward", "both")]
        lines.append(f"| {row['count'] / 1000:g}k, {row['size']} | {' | '.join(cells)} | {mib(row)} |")
    lines += [
        "",
        "| a step of the fit: N, px | device best / median ms | CPU median ms | peak MiB |",
        "|---|---|---|---|",
    ]
    for row in found["fit"]:
        lines.append(
            f"| {row['count'] / 1000:g}k, {row['size']} | {row['device']['best_ms']:.2f} / "
            f"{row['device']['median_ms']:.2f} | {row['cpu']['median_ms']:.1f} | {mib(row)} |"
        )
    lines += ["", "| twin (copies included), px | CPU median ms | device median ms |", "|---|---|---|"]
    for row in found["twins"]:
        cells = f"{row['cpu']['median_ms']:.2f} | {row['device']['median_ms']:.2f}"
        lines.append(f"| {row['name']}, {row['size']} | {cells} |")
    return "\n".join([*lines, "", f"all in {found['seconds']:.0f} s"])


def run(engine, build_s, scenes, fits, twin_size, repeats):
    """All measurements, within a minute or two on a GPU."""
    from importlib.metadata import version

    began = time.perf_counter()
    clock = Clock(engine.device, repeats)
    found = {"machine": device_name(engine.device), "gsplat": version("gsplat"), "build_s": build_s}
    found["agreement"] = agreement(engine, min(20_000, scenes[-1][0]), scenes[0][1])
    found["scenes"] = [measure_scene(engine, clock, *scene) for scene in scenes]
    found["fit"] = [measure_fit(engine, clock, *case) for case in fits]
    found["twins"] = measure_twins(twin_size, min(repeats, 9)) if engine.device == "cuda" or _simulated() else []
    found["seconds"] = time.perf_counter() - began + build_s
    return found


def _simulated():
    return os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two scenes only")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="folder of splat_cuda.json")
    parser.add_argument("--rehearse", action="store_true", help="toy sizes on the CPU")
    args = parser.parse_args(arguments)
    from recon.gsplat_backend import gsplat_engine, why_not

    began = time.perf_counter()
    if args.rehearse:
        from recon.torch_cpu import cpu_engine

        found = run(cpu_engine(), 0.0, TOY, TOY, 12, min(args.repeats, 2))
    else:
        reason = why_not()
        if reason is not None:
            print(f"no GPU to measure: {reason}. benchmarks/splat.py measures the CPU.", file=sys.stderr)
            return 2
        engine = gsplat_engine()
        random_scene_drawn(engine)
        build_s = time.perf_counter() - began
        scenes = QUICK if args.quick else SCENES
        fits = [(50_000, 256)] if args.quick else [(50_000, 256), (50_000, 512), (200_000, 1024)]
        found = run(engine, build_s, scenes, fits, 512 if args.quick else 1024, args.repeats)
    print(table(found))
    args.out.mkdir(parents=True, exist_ok=True)
    partial = args.out / "splat_cuda.json.part"
    partial.write_text(json.dumps(found, indent=1), encoding="utf-8")
    partial.replace(args.out / "splat_cuda.json")
    return 0


def random_scene_drawn(engine):
    """The first picture builds gsplat where that is not done yet."""
    measure_scene(engine, Clock(engine.device, 1), 100, 32)


if __name__ == "__main__":
    sys.exit(main())
