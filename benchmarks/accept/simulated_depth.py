"""Letter B of issue 4: depth of the static scene on simulated recordings nobody has seen.

A standard recording, at most 60 keyframes at 256x256. Frames that the fit never saw (neither for splats nor for
poses) are drawn at the truth's own size from where their picture and depth fit the model (``SceneDepth`` with a pose
prior: given poses carry 2 mm and 0.1 degrees of noise from frame to frame) and compared with exact depth on what stands
still. Coverage and the overall error count pixels whose surface the depth sensor saw in at least one frame of the
recording: of the rest nothing is known but colour, and the figures for all pixels are printed beside.
"""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accept.harness import ROOT, Letter, egospatial, unseen_seeds

SCRATCH = ROOT / "out" / "accept"
SEEDS = 3
FRAMES = 20  # compared, spread over the recording
SENSOR_FRAMES = 150  # asked whether they saw a surface
BAND = 1.645  # standard deviations of a 90 % band
NEAR_SURFACE_M = 0.05
MAX_HITS = 64


@dataclass
class Pool:
    """Errors of all pixels of all frames."""

    relative: list[np.ndarray]
    raw_relative: list[np.ndarray]
    at_sensor: list[np.ndarray]
    everywhere: list[np.ndarray]
    in_band: list[np.ndarray]
    off_surface: list[np.ndarray]


def measure(letter: Letter) -> None:
    """Letter B."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    seeds = unseen_seeds(SEEDS)
    letter.note(f"seeds {seeds}")
    pool = Pool([], [], [], [], [], [])
    seconds = []
    for seed in seeds:
        with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
            made = egospatial("simulate", scratch, "--preset", "standard", "--seed", str(seed))
            if made.status:
                letter.true(f"seed {seed} simulated", False, made.stderr[-200:])
                continue
            recording = Path(scratch) / f"standard_{seed:04d}"
            seconds.append(compare(letter, recording, seed, pool))
    judge(letter, pool, seconds)


def compare(letter: Letter, recording: Path, seed: int, pool: Pool) -> float:
    """Fit one recording, compare its unseen frames, and return the seconds of the fit (CPU / 2)."""
    from egospatial.simulator.truth import load_truth
    from geo.readers.registry import open_recording
    from geo.rectify import rectify
    from recon.align import PosePrior
    from recon.reconstruct import ReconstructConfig, reconstruct
    from recon.render import surface_depth
    from recon.scene_depth import SceneDepth

    canonical = rectify(open_recording(recording))
    truth = load_truth(recording.parent / f"{recording.name}_truth")
    config = ReconstructConfig(max_keyframes=60, width_px=256)
    wall, cpu = time.monotonic(), time.process_time()
    result = reconstruct(canonical, config)
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    prior = PosePrior.of(config)
    depth = SceneDepth(canonical, result, truth.depth_camera, pose_prior=prior)
    fitted = set(result.report.keyframes)
    frames = [f for f in range(7, len(canonical.timestamps_ns), len(canonical.timestamps_ns) // FRAMES)]
    frames = [frame for frame in frames if frame not in fitted]
    sensors = _sensor_views(canonical)
    rays = _Rays(seed)
    here = Pool([], [], [], [], [], [])
    for frame in frames:
        view, sensor = depth.static(frame), depth.sensor(frame)
        z, true, still = surface_depth(view), truth.z_depth_m(frame), truth.static_z_depth_m(frame)
        with np.errstate(invalid="ignore"):
            static = np.isfinite(true) & (np.abs(true - still) < 1e-3)
            error = np.abs(z - true)
            band = error < BAND * view.sigma_z_m
        world_from_true = canonical.world.world_from_source_world @ truth.world_from_camera[frame]
        ever = _ever_seen(true, static, truth.depth_camera, world_from_true, sensors)
        now = static & np.isfinite(sensor)
        here.relative.append((error / true)[static & ever])
        here.everywhere.append((error / true)[static])
        here.at_sensor.append((error / true)[now])
        here.raw_relative.append((np.abs(sensor - true) / true)[now])
        here.in_band.append(band[static & np.isfinite(z)])
        here.off_surface.append(rays.off_surface(frame, z, static & ever & np.isfinite(z)))
    for name in vars(pool):
        getattr(pool, name).extend(getattr(here, name))
    letter.note(
        f"seed {seed}: {len(fitted)} keyframes, {len(result.model.means_in_world)} splats, {wall:.0f} s wall, "
        f"{cpu:.0f} CPU s; {len(frames)} unseen frames: abs-rel {_mean(here.relative):.2%}, at the sensor "
        f"{_mean(here.at_sensor):.2%} (raw {_mean(here.raw_relative):.2%}), all pixels {_mean(here.everywhere):.2%}, "
        f"{_known(here.everywhere):.1%} covered"
    )
    return cpu / 2


def judge(letter: Letter, pool: Pool, seconds: list[float]) -> None:
    """All seeds pooled."""
    letter.at_most("depth abs-rel", 100 * _mean(pool.relative), 1.0, " %")
    letter.at_most("over the raw sensor's, where it sees", _mean(pool.at_sensor) / _mean(pool.raw_relative), 0.55)
    letter.at_least("coverage of what the sensor ever saw", 100 * _known(pool.relative), 99, " %")
    off = np.concatenate(pool.off_surface)
    letter.at_most("more than 5 cm from every surface of the ray", 100 * float(off.mean()), 1.0, " %")
    band = 100 * float(np.concatenate(pool.in_band).mean())
    letter.at_least("inside the 90 % band", band, 86, " %")
    letter.at_most("inside the 90 % band", band, 94, " %")
    letter.at_most("minutes of the stage, CPU / 2", max(seconds) / 60, 3)
    letter.note(f"all static pixels: abs-rel {_mean(pool.everywhere):.2%}, covered {_known(pool.everywhere):.1%}")


def _mean(parts: list[np.ndarray]) -> float:
    values = np.concatenate(parts)
    return float(values[np.isfinite(values)].mean(dtype=np.float64))


def _known(parts: list[np.ndarray]) -> float:
    return float(np.isfinite(np.concatenate(parts)).mean())


def _sensor_views(canonical: Any) -> list[tuple[np.ndarray, Any, np.ndarray]]:
    from geo import se3
    from recon.sensor import sensor_image

    count, views = len(canonical.timestamps_ns), []
    for frame in range(0, count, max(1, count // SENSOR_FRAMES)):
        found = sensor_image(canonical, frame, 60.0, (0.15, 8.0))
        if found is not None:
            views.append((found[0], canonical.sensor.camera, se3.inverse(found[1])))
    return views


def _ever_seen(
    true: np.ndarray, static: np.ndarray, camera: Any, world_from_camera: np.ndarray, sensors: list[Any]
) -> np.ndarray:
    """Pixels whose true point lies within 2 cm + 2 % of some sensor image's depth."""
    from geo import se3

    v, u = np.nonzero(static)
    rays = camera.normalised_points(np.stack([u, v], axis=1).astype(np.float64))
    points = se3.transform_points(world_from_camera, rays * true[v, u][:, None])
    seen = np.zeros(len(v), dtype=bool)
    for image, sensor, sensor_from_world in sensors:
        left = np.flatnonzero(~seen)
        here = se3.transform_points(sensor_from_world, points[left])
        projected = sensor.project(here)
        inside = np.flatnonzero(projected.valid & sensor.in_image(projected.pixels_xy))
        pixels = np.rint(projected.pixels_xy[inside]).astype(np.int64)
        depth = image[pixels[:, 1].clip(0, sensor.height_px - 1), pixels[:, 0].clip(0, sensor.width_px - 1)]
        with np.errstate(invalid="ignore"):
            near = np.abs(depth - here[inside, 2]) < 0.02 + 0.02 * here[inside, 2]
        seen[left[inside[near]]] = True
    mask = np.zeros(static.shape, dtype=bool)
    mask[v, u] = seen
    return mask


class _Rays:
    """Every surface along the pixels' rays, from the scene that the seed draws again."""

    def __init__(self, seed: int) -> None:
        from egospatial.simulator.frames import FrameMaker
        from egospatial.simulator.presets import preset_by_name
        from egospatial.simulator.recorder import make_scene
        from egospatial.simulator.views import make_views

        self.preset = preset_by_name("standard")
        scene, self.timeline = make_scene(self.preset, seed)
        self.views = make_views(self.preset)
        self.maker = FrameMaker(scene, self.timeline, self.preset, self.views, seed)

    def off_surface(self, frame: int, z: np.ndarray, where: np.ndarray) -> np.ndarray:
        """For the pixels ``where``: whether z is farther than 5 cm from all surfaces that their ray meets."""
        from egospatial.simulator.raycast import rays_in

        moment = self.timeline.at(frame / self.preset.rate_hz)
        view = self.views.canonical_depth
        rows = np.flatnonzero(where.ravel())
        rays = rays_in(moment.world_from_head @ view.head_from_camera, view.directions)[rows]
        along = z.ravel()[rows] / view.directions[rows, 2]  # in units of the direction's length
        nearest = np.full(len(rows), np.inf)
        for hits in self._hits(moment, rays):
            with np.errstate(invalid="ignore"):
                nearest = np.fmin(nearest, np.abs(hits - along) * view.directions[rows, 2])
        return np.asarray(nearest > NEAR_SURFACE_M)

    def _hits(self, moment: Any, rays: np.ndarray) -> Any:
        """Distances of one surface after the other: each cast starts just behind the last hit."""
        from egospatial.simulator.raycast import cast

        scene = self.maker.bodies_at(moment).scene
        start, rays = np.zeros(len(rays)), rays.copy()
        origin = rays[:, :3].copy()
        for _ in range(MAX_HITS):
            hit = start + cast(scene, rays, ("t_hit",))["t_hit"]
            if not np.isfinite(hit).any():
                return
            yield hit
            start = np.where(np.isfinite(hit), hit + 1e-3, 1e6)
            rays[:, :3] = (origin + rays[:, 3:] * start[:, None]).astype(np.float32)
