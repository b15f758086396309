"""Rectification against what users have now: ``python benchmarks/rectify.py [--rounds N] [--quick]``.

One Project Aria view, 1408x1408 FISHEYE624 to a 1024x1024 pinhole of 400 px, uint8 RGB, two threads each:

* kernel: ``remap_bilinear`` against ``cv2.remap`` with ready-made float32 maps and projectaria-tools'
  ``distort_by_calibration``, and its largest distance from a float64 bilinear reference;
* stream: decode + rectify + encode (x264 medium, crf 18, yuv420p) against decode + encode of the same output frames,
  which lie ready as yuv420p: the yardstick converts and remaps nothing.

In every round all contestants run one after the other, in an order that changes; ratios are taken within a round and
their median is reported. Prints a Markdown table, with the machine and the versions.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from geo.cameras import PinholeCamera, camera_from_params

SOURCE_PX, TARGET_PX, FOCAL_PX, THREADS = 1408, 1024, 400.0, 2
ARIA_RGB = [
    *(610.0, 715.0, 707.5),
    *(0.406, -0.490, 0.176, 1.132, -1.702, 0.652),
    *(0.00065, -0.00051, -0.00005, 0.00010, 0.00046, -0.00018),
]
VALID_RADIUS_PX = 707.5
FRAMES = 48


@dataclass
class Rounds:
    """Seconds of every contestant, one entry a round."""

    wall: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)

    def ratio(self, ours: str, other: str, clock: str = "wall") -> float:
        """Median over the rounds of ours / other."""
        times = self.wall if clock == "wall" else self.cpu
        return float(np.median(np.array(times[ours]) / np.array(times[other])))

    def row(self, name: str, ours: str) -> str:
        """A line of the table: milliseconds of wall time (best, median), of CPU time, and ours / this one."""
        wall, cpu = np.array(self.wall[name]) * 1e3, np.array(self.cpu[name]) * 1e3
        wall_ratio, cpu_ratio = self.ratio(ours, name), self.ratio(ours, name, "cpu")
        return (
            f"| {name} | {wall.min():.1f} | {np.median(wall):.1f} | {np.median(cpu):.1f} | "
            f"{wall_ratio:.2f} | {cpu_ratio:.2f} |"
        )


def run_rounds(contestants: dict[str, Callable[[], Any]], rounds: int) -> Rounds:
    """Everybody in every round, once before to warm up; the order turns by one from round to round."""
    result = Rounds({name: [] for name in contestants}, {name: [] for name in contestants})
    for contestant in contestants.values():
        contestant()
    names = list(contestants)
    for k in range(rounds):
        for name in names[k % len(names) :] + names[: k % len(names)]:
            wall, cpu = time.perf_counter(), time.process_time()
            contestants[name]()
            result.wall[name].append(time.perf_counter() - wall)
            result.cpu[name].append(time.process_time() - cpu)
    return result


def aria_map() -> tuple[np.ndarray, np.ndarray]:
    """Source pixel of every target pixel, and where there is one."""
    centre = (TARGET_PX - 1) / 2
    target = PinholeCamera(TARGET_PX, TARGET_PX, FOCAL_PX, FOCAL_PX, centre, centre)
    source = camera_from_params("FISHEYE624", (SOURCE_PX, SOURCE_PX), ARIA_RGB, valid_radius_px=VALID_RADIUS_PX)
    projection = source.project(target.unproject(target.pixel_grid()).directions)
    return projection.pixels_xy, projection.valid


def picture(seed: int = 0, size: int = SOURCE_PX) -> np.ndarray:
    """Soft blobs of every size with sensor noise on top."""
    import cv2

    rng = np.random.default_rng(seed)
    image = np.zeros((size, size, 3), np.float32)
    for cells in (6, 24, 96, 352):
        layer = rng.normal(size=(cells, cells, 3)).astype(np.float32)
        image += cv2.resize(layer, (size, size), interpolation=cv2.INTER_CUBIC) * (40 if cells < 300 else 15)
    return np.clip(image + 128 + rng.normal(0, 2, image.shape), 0, 255).astype(np.uint8)


def measure_kernel(rounds: int, aria: bool = True) -> tuple[Rounds, float]:
    """Times of the kernel and its rivals; largest distance from the float64 reference in grey levels."""
    import cv2
    import numba

    from cuda_kernels.remap import make_table, remap_bilinear

    cv2.setNumThreads(THREADS)
    numba.set_num_threads(min(THREADS, numba.config.NUMBA_NUM_THREADS))
    source_xy, valid = aria_map()
    table, image = make_table(source_xy, valid, (SOURCE_PX, SOURCE_PX)), picture()
    map_x, map_y = (np.where(valid, source_xy[..., k], -1e4).astype(np.float32) for k in (0, 1))
    contestants = {
        "remap_bilinear (ours)": lambda: remap_bilinear(image, table),
        "cv2.remap": lambda: cv2.remap(image, map_x, map_y, cv2.INTER_LINEAR),
    }
    if aria:
        contestants["distort_by_calibration"] = _by_projectaria(image)
    worst = 0.0
    noise = np.random.default_rng(1).integers(0, 256, image.shape).astype(np.uint8)
    for hard in (image, noise):
        worst = max(worst, float(np.abs(remap_bilinear(hard, table) - _reference(hard, source_xy, valid)).max()))
    return run_rounds(contestants, rounds), worst


def _reference(image: np.ndarray, source_xy: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """The float64 reference, in strips to keep memory low."""
    from cuda_kernels.remap import remap_bilinear_reference

    strips = range(0, len(valid), 128)
    return np.concatenate([remap_bilinear_reference(image, source_xy[k : k + 128], valid[k : k + 128]) for k in strips])


def _by_projectaria(image: np.ndarray) -> Callable[[], Any]:
    """Their rectification of the same image to the same pinhole."""
    from projectaria_tools.core import calibration
    from projectaria_tools.core.sophus import SE3

    model = calibration.CameraModelType.FISHEYE624
    source = calibration.CameraCalibration(
        "rgb", model, np.array(ARIA_RGB), SE3(), SOURCE_PX, SOURCE_PX, VALID_RADIUS_PX, np.pi, ""
    )
    target = calibration.get_linear_camera_calibration(TARGET_PX, TARGET_PX, FOCAL_PX)
    return lambda: calibration.distort_by_calibration(image, target, source)


# --- the stream ---------------------------------------------------------------------------------------------------


def measure_stream(rounds: int, folder: Path, frames: int = FRAMES) -> Rounds:
    """Times of the whole stream and of its yardsticks."""
    import cv2
    import numba

    from cuda_kernels.remap import make_table, remap_bilinear
    from geo.rectify_stream import write_canonical_video
    from geo.video import VideoFrames, write_video

    cv2.setNumThreads(THREADS)
    numba.set_num_threads(min(THREADS, numba.config.NUMBA_NUM_THREADS))
    source_xy, valid = aria_map()
    table = make_table(source_xy, valid, (SOURCE_PX, SOURCE_PX))
    film = folder / "source.mp4"
    write_video(film, moving_picture(frames), rate_hz=20.0, crf=18, preset="veryfast")
    with VideoFrames(film) as video:
        ready = [_yuv(remap_bilinear(video.read(k), table)) for k in range(frames)]

    def ours() -> None:
        with VideoFrames(film) as video:
            canonical = _canonical(video, table)
            write_canonical_video(folder / "ours.mp4", canonical, crf=18, preset="medium", threads=THREADS)

    contestants = {
        "decode + rectify + encode (ours)": ours,
        "decode + encode of ready frames": lambda: _decode_and_encode(film, ready, folder / "theirs.mp4"),
    }
    return run_rounds(contestants, rounds)


def moving_picture(frames: int) -> Any:
    """A wide picture that the camera turns over, with fresh noise in every frame."""
    wide = picture(2, SOURCE_PX + 512)
    rng = np.random.default_rng(3)
    noise = rng.integers(-3, 4, (SOURCE_PX + 64, SOURCE_PX + 64, 3)).astype(np.int16)
    for k in range(frames):
        x, y = round(256 + 250 * np.sin(k / 15)), round(256 + 120 * np.cos(k / 11))
        dx, dy = rng.integers(0, 64, 2)
        seen = wide[y : y + SOURCE_PX, x : x + SOURCE_PX].astype(np.int16)
        seen += noise[dy : dy + SOURCE_PX, dx : dx + SOURCE_PX]
        yield np.clip(seen, 0, 255).astype(np.uint8)


def _canonical(video: Any, table: Any) -> Any:
    """The least that the stream needs of a canonical recording."""
    from geo.recording import CanonicalRecording
    from geo.rectify import RectifiedFrames
    from geo.world import Gravity, World

    centre = (TARGET_PX - 1) / 2
    return CanonicalRecording(
        recording_id="benchmark",
        camera=PinholeCamera(TARGET_PX, TARGET_PX, FOCAL_PX, FOCAL_PX, centre, centre),
        timestamps_ns=video.timestamps_ns,
        world_from_camera=np.tile(np.eye(4), (len(video), 1, 1)),
        valid_mask=table.valid,
        frames=RectifiedFrames(video, table),
        world=World(metric=True, gravity=Gravity.KNOWN),
        source_camera=camera_from_params("FISHEYE624", (SOURCE_PX, SOURCE_PX), ARIA_RGB),
        canonical_from_source=np.eye(3),
    )


def _yuv(image: np.ndarray) -> Any:
    import av

    return av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format="yuv420p")


def _decode_and_encode(film: Path, ready: list[Any], target: Path) -> None:
    """Decode the source and encode the ready frames, one for one, with the encoder settings of ``write_video``."""
    import av

    with av.open(os.fspath(film)) as source, av.open(os.fspath(target), "w") as sink:
        stream = source.streams.video[0]
        stream.thread_type = "AUTO"
        stream.codec_context.thread_count = THREADS
        options = {"crf": "18", "preset": "medium", "x264-params": "mbtree=0"}
        out = sink.add_stream("libx264", rate=20, options=options)
        out.width = out.height = TARGET_PX
        out.pix_fmt = "yuv420p"
        out.codec_context.thread_count, out.codec_context.thread_type = THREADS, "AUTO"
        for k, _ in enumerate(source.decode(stream)):
            ready[k].pts = None
            sink.mux(out.encode(ready[k]))
        sink.mux(out.encode(None))


# --- the report ---------------------------------------------------------------------------------------------------


def machine() -> str:
    """Processor, cores, load and versions."""
    name = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        name = models[0].split(":", 1)[1].strip() if models else name
    packages = ("numpy", "numba", "opencv-python-headless", "av", "projectaria-tools")
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    loads = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    cores = f"{os.cpu_count()} cores ({platform.machine()})"
    return f"{name}, {cores}, load {loads}; Python {platform.python_version()}, {versions}"


def table_of(rounds: Rounds) -> str:
    """A Markdown table; the first contestant is ours."""
    ours = next(iter(rounds.wall))
    head = "| | wall best (ms) | wall median (ms) | CPU median (ms) | ours / this, wall | ours / this, CPU |"
    return "\n".join([head, "|---|---|---|---|---|---|", *(rounds.row(name, ours) for name in rounds.wall)])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="paired rounds of the kernel; half as many streams")
    parser.add_argument("--quick", action="store_true", help="three rounds, few frames")
    args = parser.parse_args()
    rounds, frames = (3, 12) if args.quick else (args.rounds, FRAMES)
    print(f"{time.strftime('%Y-%m-%d')}: {machine()}\n")
    kernel, worst = measure_kernel(rounds)
    print(f"Kernel, {rounds} paired rounds; largest distance from the float64 reference {worst:.3f} grey levels\n")
    print(table_of(kernel))
    with tempfile.TemporaryDirectory() as folder:
        stream = measure_stream(max(rounds // 2, 3), Path(folder), frames)
    print(f"\nStream of {frames} frames, {max(rounds // 2, 3)} paired rounds\n")
    print(table_of(stream))
    print(f"\nAt the end: load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
