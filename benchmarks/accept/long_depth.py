"""Letter G of issue 4: depth of ten minutes takes no more memory than depth of half a minute.

Usage of the child: python -m benchmarks.accept.long_depth RECORDING FOLDER  (prints JSON)
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.accept.harness import ROOT, Letter, run

FRAMES = (600, 12_000)
WIDTH, HEIGHT = 512, 384  # pixels of picture and depth
SENSOR_WIDTH, SENSOR_HEIGHT = 64, 48
ROOM_M = np.array([2.2, 2.0, 1.3])  # half sides; the camera walks around the middle
SPLAT_STEP_M = 0.11
RATE_HZ = 20
MOVING_PX = 15  # side of the patch of a moving object
MASK_WIDTH, MASK_HEIGHT = 80, 60
SCRATCH = ROOT / "out" / "accept"


def measure(letter: Letter) -> None:
    """The depth stage on a simulated walk of 600 and of 12,000 frames, each in a process of its own."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
        peaks = []
        for count in (16, *FRAMES):  # the first one only compiles
            recording, folder = Path(scratch) / f"walk_{count}", Path(scratch) / f"out_{count}"
            make(recording, folder, count)
            found = child(recording, folder)
            if count in FRAMES:
                peaks.append(found["peak_mib"])
                report(letter, count, found)
        letter.at_most(f"peak memory, {FRAMES[1]} / {FRAMES[0]} frames", peaks[1] / peaks[0], 1.10)


def report(letter: Letter, count: int, found: dict[str, float]) -> None:
    """Figures of one pass."""
    letter.true(f"{count} frames: all stored, as written", found["frames"] == count and bool(found["whole"]))
    letter.note(
        f"{count} frames of {WIDTH}x{HEIGHT}: peak {found['peak_mib']:.0f} MiB, {found['wall_s']:.0f} s wall, "
        f"{found['cpu_s'] / count * 1e3:.0f} CPU ms a frame; depth known on {found['known']:.1%}; stored "
        f"{found['stored_bytes'] / count / 1024:.1f} KiB a frame ({found['ratio']:.1f} times smaller than float32 "
        f"depth and sigma with a byte of origin); decoded {found['in_order_hz']:.0f} frames a CPU second in order, "
        f"{found['single_hz']:.0f} one by one"
    )
    if count == FRAMES[1]:
        letter.at_most(f"minutes of {count} frames (CPU / 2)", found["cpu_s"] / 2 / 60, 15)
        letter.at_most("KiB stored a frame", found["stored_bytes"] / count / 1024, 250)
        letter.at_least("frames decoded a CPU second", found["in_order_hz"], 100)


def child(recording: Path, folder: Path) -> dict[str, float]:
    """Run the depth stage in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.accept.long_depth", str(recording), str(folder)]
    done = run(command, env={"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])})
    if done.status:
        raise RuntimeError(f"status {done.status}: {done.stderr[-400:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def pass_and_tell(recording: Path, folder: Path) -> dict[str, float]:
    """The stage as the pipeline runs it, its peak resident memory, and what it stored."""
    from egospatial.config import RunConfig
    from egospatial.pipeline import stages_for
    from egospatial.selection import Selection
    from egospatial.workbench import Workbench

    wall, cpu = time.monotonic(), time.process_time()
    bench = Workbench(recording, folder, RunConfig(), Selection())
    stage = next(stage for stage in stages_for(bench) if stage.name == "depth")
    stage.run(folder, "key", lambda done, total, what: None)
    cost = {"wall_s": time.monotonic() - wall, "cpu_s": time.process_time() - cpu, "peak_mib": peak_mib()}
    return {**cost, **stored(folder)}


def stored(folder: Path) -> dict[str, float]:
    """Size and decoding speed of what was stored (CPU seconds)."""
    from egospatial.store import depth_group, geometry_file

    with depth_group.opened(folder) as file:
        size = sum(file["depth"][name].id.get_storage_size() for name in depth_group.DEPTH_DATASETS)
    reader = geometry_file.DepthReader(folder)
    start, known, taken = time.process_time(), 0.0, 0
    for taken, frame in enumerate(reader, start=1):
        known += float(np.isfinite(frame.z_depth_m[::8, ::8]).mean())
        if taken == min(len(reader), 600):
            break
    in_order = time.process_time() - start
    start = time.process_time()
    singles = np.random.default_rng(0).integers(0, len(reader), 50)
    for number in singles.tolist():
        reader.read(number)
    single = time.process_time() - start
    return {
        "frames": len(reader),
        "whole": float(geometry_file.depth_is_as_written(folder)),
        "stored_bytes": size,
        "ratio": len(reader) * WIDTH * HEIGHT * 9 / size,
        "known": known / taken,
        "in_order_hz": taken / in_order,
        "single_hz": len(singles) / single,
    }


def peak_mib() -> float:
    """High-water mark of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def make(recording: Path, folder: Path, count: int) -> None:
    """A recording in the plain layout and an output folder that waits for its depth stage."""
    from egospatial.config import RunConfig
    from egospatial.selection import Selection
    from egospatial.store import geometry_file, splats_file, trajectories_file
    from egospatial.workbench import Workbench

    recording.mkdir(parents=True)
    folder.mkdir(parents=True)
    write_recording(recording, count)
    geometry_file.write_frames(folder, Workbench(recording, folder, RunConfig(), Selection()).canonical)
    splats_file.write(folder, room_model(count))
    trajectories_file.write(folder, moving_square(count))


def write_recording(folder: Path, count: int) -> None:
    """Flat pictures, a pose for each, and a small depth sensor beside the camera."""
    from geo.video_writer import write_video

    stamps = 5_000_000_000 + np.arange(count, dtype=np.int64) * (1_000_000_000 // RATE_HZ)
    grey = np.full((HEIGHT, WIDTH, 3), 120, np.uint8)
    write_video(folder / "rgb.mp4", (grey for _ in range(count)), timestamps_ns=stamps, crf=40, preset="ultrafast")
    times = {"start_ns": int(stamps[0]), "rate_hz": RATE_HZ}
    focal, sensor_focal = 0.6 * WIDTH, 0.75 * SENSOR_WIDTH
    offset = np.eye(4)
    offset[0, 3] = 0.03
    middle = [(WIDTH - 1) / 2, (HEIGHT - 1) / 2, (SENSOR_WIDTH - 1) / 2, (SENSOR_HEIGHT - 1) / 2]
    eye = {"width": WIDTH, "height": HEIGHT, "params": [focal, focal, *middle[:2]], "video": "rgb.mp4"}
    sensor = {
        "width": SENSOR_WIDTH,
        "height": SENSOR_HEIGHT,
        "params": [sensor_focal, sensor_focal, *middle[2:]],
        "depth": {"file": "sensor.h5", "dataset": "depth_mm", "unit_m": 0.001, "kind": "z"},
    }
    common = {"model": "PINHOLE", "timestamps_ns": times, "rolling_shutter_s": 0}
    cameras = {
        "eye": {**common, **eye, "reference_from_camera": None},
        "depth": {**common, **sensor, "reference_from_camera": offset.tolist()},
    }
    world = {"metric": True, "up": [0, 0, 1]}
    manifest = {"format": "egospatial/1", "id": folder.name, "reference_camera": "eye", "world": world}
    (folder / "recording.json").write_text(json.dumps({**manifest, "cameras": cameras}))
    write_poses(folder / "trajectory.csv", stamps)
    write_sensor(folder / "sensor.h5", count, sensor_focal, offset)


def world_from_camera(frame: int) -> np.ndarray:
    """A walk in a small circle, looking outwards and a little down, a turn in forty seconds."""
    angle = 2 * np.pi * frame / (40 * RATE_HZ)
    forward = np.array([np.cos(angle), np.sin(angle), -0.3])
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3, :3] = np.stack([right, np.cross(forward, right), forward], axis=1)
    pose[:3, 3] = [0.4 * np.sin(2 * angle), 0.4 * np.cos(angle), 0.1 * np.sin(5 * angle)]
    return pose


def write_poses(path: Path, stamps: np.ndarray) -> None:
    """trajectory.csv of the walk."""
    from geo import se3

    with path.open("w") as file:
        file.write("timestamp_ns,tx,ty,tz,qw,qx,qy,qz\n")
        for frame, stamp in enumerate(stamps.tolist()):
            pose = world_from_camera(frame)
            row = [*pose[:3, 3], *se3.quat_wxyz_from_rotation(pose[:3, :3])]
            file.write(f"{stamp}," + ",".join(f"{value:.9f}" for value in row) + "\n")


def write_sensor(path: Path, count: int, focal: float, offset: np.ndarray) -> None:
    """Depth of the room's walls in millimetres with 5 mm of noise and 10 % holes."""
    import h5py

    rng = np.random.default_rng(1)
    v, u = np.mgrid[0:SENSOR_HEIGHT, 0:SENSOR_WIDTH]
    rays = np.stack([(u - (SENSOR_WIDTH - 1) / 2) / focal, (v - (SENSOR_HEIGHT - 1) / 2) / focal, np.ones(u.shape)], -1)
    shape = (SENSOR_HEIGHT, SENSOR_WIDTH)
    with h5py.File(path, "w") as file:
        data = file.create_dataset("depth_mm", (count, *shape), np.uint16, chunks=(1, *shape), compression="lzf")
        for frame in range(count):
            pose = world_from_camera(frame) @ offset
            directions = rays @ pose[:3, :3].T
            with np.errstate(divide="ignore"):
                z = ((np.sign(directions) * ROOM_M - pose[:3, 3]) / directions).min(axis=-1)
            noisy = 1000 * z + 5 * rng.standard_normal(shape)
            data[frame] = np.where(rng.random(shape) < 0.1, 0, noisy).astype(np.uint16)


def room_model(count: int):  # type: ignore[no-untyped-def]
    """Flat splats on the six walls, and masks with a square that wanders."""
    from recon.records import DynamicMasks, ReconReport, Reconstruction, SplatModel

    means, quats = [], []
    half = np.sqrt(0.5)
    turns = {0: [half, 0.0, half, 0.0], 1: [half, half, 0.0, 0.0], 2: [1.0, 0.0, 0.0, 0.0]}  # splat's z to the normal
    for axis in range(3):
        across = [other for other in range(3) if other != axis]
        steps = [np.arange(-ROOM_M[other], ROOM_M[other] + SPLAT_STEP_M, SPLAT_STEP_M) for other in across]
        grid = np.stack(np.meshgrid(*steps, indexing="ij"), axis=-1).reshape(-1, 2)
        for side in (-1.0, 1.0):
            points = np.empty((len(grid), 3))
            points[:, across] = grid
            points[:, axis] = side * ROOM_M[axis]
            means.append(points)
            quats.append(np.tile(turns[axis], (len(points), 1)))
    centres = np.concatenate(means).astype(np.float32)
    number = len(centres)
    scales = np.tile(np.log([0.6 * SPLAT_STEP_M, 0.6 * SPLAT_STEP_M, 0.004]), (number, 1)).astype(np.float32)
    colours = np.random.default_rng(2).normal(0, 0.5, (number, 1, 3)).astype(np.float32)
    opacity = np.full(number, 4.0, np.float32)
    model = SplatModel(centres, scales, np.concatenate(quats).astype(np.float32), opacity, colours)
    masks = np.zeros((count, MASK_HEIGHT, MASK_WIDTH), dtype=bool)
    for frame in range(count):
        masks[frame, 20:40, frame % 60 : frame % 60 + 20] = True
    nan = float("nan")
    report = ReconReport((0,), (), 0, number, 0, nan, nan, nan, nan, 0.0)
    return Reconstruction(model, DynamicMasks(masks), report)


def moving_square(count: int):  # type: ignore[no-untyped-def]
    """An object of lifting in every frame."""
    from lifting.records import Lifted, SceneSurfaces
    from recon.records import MovingDepth

    v, u = np.mgrid[0:MOVING_PX, 0:MOVING_PX].reshape(2, -1)
    pixels = tuple(np.stack([v + 180, u + 100 + frame % 300], axis=1).astype(np.int64) for frame in range(count))
    depth = tuple(np.full(len(v), 1.0 + 0.001 * (frame % 100), np.float32) for frame in range(count))
    numbers = np.arange(count, dtype=np.int64)
    surfaces = SceneSurfaces(np.zeros(0), np.zeros(0), float("nan"), float("nan"))
    return Lifted((), (), (), surfaces, MovingDepth(numbers, np.ones(count, np.int64), pixels, depth), ())


if __name__ == "__main__":
    print(json.dumps(pass_and_tell(Path(sys.argv[1]), Path(sys.argv[2]))))
