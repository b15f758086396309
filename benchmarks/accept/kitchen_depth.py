"""Letter C of issue 4: the real RGB-D kitchen at half size, splats against a 2 cm TSDF of the same frames.

Colour and depth cameras are kept apart (each pixel of the sensor is compared in the sensor's own picture); every 8th
keyframe is held out; all figures are of held-out frames. The TSDF is Open3D's VoxelBlockGrid on the depth images of the
fit's frames at their given poses.
"""

import time
from typing import Any

import numpy as np

from benchmarks.accept.harness import Letter, samples

VOXEL_M = 0.02
NOISE = 0.005  # differences of a share (or relative error) below this are noise


def measure(letter: Letter) -> None:
    """Fit, render into the sensor's pictures, compare."""
    from geo.readers.registry import open_recording
    from geo.rectify import rectify
    from recon.reconstruct import ReconstructConfig, reconstruct

    canonical = rectify(open_recording(samples() / "sevenscenes_redkitchen"))
    wall, cpu = time.monotonic(), time.process_time()
    result = reconstruct(canonical, ReconstructConfig(width_px=320, max_gaussians=80_000))
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    report = result.report
    letter.note(f"{len(report.keyframes)} keyframes, {report.gaussians} splats, wall {wall:.0f} s, CPU {cpu:.0f} s")
    letter.at_least("held-out PSNR", report.psnr_held_out_db, 22, " dB")
    ours, theirs = compare(canonical, result)
    for name, rows in (("splats", ours), ("TSDF", theirs)):
        letter.note(f"{name}: " + ", ".join(f"{key} {value:.4f}" for key, value in rows.items()))
    letter.at_least("depth within 2 %", 100 * ours["within 2 %"], 88, " %")
    letter.at_least("coverage", 100 * ours["coverage"], 99, " %")
    for key in ("within 2 %", "coverage"):
        letter.at_least(f"{key}, above the TSDF's", ours[key] - theirs[key], -NOISE)
    for key in ("median", "mean of covered"):
        letter.at_most(f"{key} relative error, above the TSDF's", ours[key] - theirs[key], NOISE)
    letter.at_most("minutes, CPU / 2", cpu / 2 / 60, 6)


def compare(canonical: Any, result: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Figures of splats and TSDF on the held-out frames' valid sensor pixels."""
    from geo import se3
    from recon.align import PosePrior, aligned_pose
    from recon.backend import CpuRenderer
    from recon.config import ReconstructConfig
    from recon.render import render, surface_depth
    from recon.sensor import SensorNoise, sensor_image
    from recon.views import load_views

    camera = canonical.sensor.camera.resized((320, 240))
    grid = tsdf(canonical, result.report.keyframes)
    splats, volume = [], []
    for frame in result.report.held_out_frames:
        found = sensor_image(canonical, frame, 60.0, (0.15, 8.0))
        if found is None:
            continue
        sensor = _halved(found[0])
        view = load_views(canonical, [frame], result.dynamic, ReconstructConfig())[0]
        aligned = aligned_pose(view, result.model, PosePrior(), SensorNoise(), CpuRenderer())
        world_from_sensor = aligned @ se3.inverse(view.world_from_camera) @ found[1]
        z = surface_depth(render(result.model, camera, world_from_sensor))
        valid = np.isfinite(sensor)
        splats.append((z / sensor - 1)[valid])
        volume.append((tsdf_depth(grid, camera, found[1]) / sensor - 1)[valid])
    return _figures(splats), _figures(volume)


def _halved(z: np.ndarray) -> np.ndarray:
    """Every second pixel of the second row and column: no depth is mixed."""
    return np.asarray(z[1::2, 1::2])


def _figures(parts: list[np.ndarray]) -> dict[str, float]:
    error = np.abs(np.concatenate(parts))
    known = np.isfinite(error)
    return {
        "within 2 %": float((error[known] < 0.02).sum() / error.size),
        "coverage": float(known.mean()),
        "median": float(np.median(error[known])),
        "mean of covered": float(error[known].mean()),
    }


def tsdf(canonical: Any, frames: tuple[int, ...]) -> Any:
    """Open3D's voxel blocks, filled with the depth images of these frames."""
    import open3d as o3d

    from geo import se3
    from recon.sensor import sensor_image

    core = o3d.core
    grid = o3d.t.geometry.VoxelBlockGrid(
        ("tsdf", "weight"), (core.float32, core.float32), ((1,), (1,)), VOXEL_M, 16, 20_000, core.Device("CPU:0")
    )
    intrinsic = core.Tensor(canonical.sensor.camera.matrix)
    for frame in frames:
        found = sensor_image(canonical, frame, 60.0, (0.15, 8.0))
        if found is None:
            continue
        image = o3d.t.geometry.Image(core.Tensor(np.nan_to_num(found[0])[..., None].astype(np.float32)))
        extrinsic = core.Tensor(se3.inverse(found[1]))
        blocks = grid.compute_unique_block_coordinates(image, intrinsic, extrinsic, 1.0, 8.0, 4.0)
        grid.integrate(blocks, image, intrinsic, extrinsic, 1.0, 8.0, 4.0)
    return grid


def tsdf_depth(grid: Any, camera: Any, world_from_sensor: np.ndarray) -> np.ndarray:
    """Ray-cast z depth; NaN where nothing is hit."""
    import open3d as o3d

    from geo import se3

    core = o3d.core
    coordinates = grid.hashmap().key_tensor()
    drawn = grid.ray_cast(
        coordinates, core.Tensor(camera.matrix), core.Tensor(se3.inverse(world_from_sensor)),
        camera.width_px, camera.height_px, ["depth"], 1.0, 0.1, 8.0, 1.0, 4.0,
    )  # fmt: skip
    z = drawn["depth"].numpy()[..., 0].astype(np.float32)
    z[z <= 0] = np.nan
    return np.asarray(z)
