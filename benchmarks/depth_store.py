"""What storing depth costs: codings, codecs and lossy codecs on fused depth of real and simulated recordings.

Usage: python benchmarks/depth_store.py [RECORDING ...] [--frames 16] [--repeat 3]

Default recordings: the kitchen sample and a simulated one (demo, seed 5). Each gets a quick model (the draft preset,
150 iterations) and fused depth, sigma and origin of some frames, kept in out/depth_store/. Sizes are exact; MB/s count
the uncompressed array and CPU seconds, best of the repeats. Table for docs/decisions/0008-depth-store.md.
"""

import argparse
import io
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.accept.harness import samples  # noqa: E402
from egospatial.store.depth_coding import DepthCoding, left_differences, undo_left_differences  # noqa: E402

CACHE = ROOT / "out" / "depth_store"
Codec = dict[str, Any]


def fused_frames(recording: Path, count: int) -> dict[str, np.ndarray]:
    """Fused depth (z, sigma, origin) of frames spread over a recording, from a quick model."""
    kept = CACHE / f"{recording.name}_{count}.npz"
    if not kept.exists():
        from geo.readers.registry import open_recording
        from geo.rectify import rectify
        from recon.config import PRESETS
        from recon.fuse import DepthConfig, fuse_frames
        from recon.reconstruct import reconstruct

        canonical = rectify(open_recording(recording))
        model = reconstruct(canonical, replace(PRESETS["draft"], iterations=150))
        picked = np.linspace(0, len(canonical.timestamps_ns) - 1, count).astype(int).tolist()
        frames = [next(fuse_frames(canonical, model, None, DepthConfig(), start=f, stop=f + 1)) for f in picked]
        columns = {"z": "z_depth_m", "sigma": "sigma_m", "origin": "origin"}
        CACHE.mkdir(parents=True, exist_ok=True)
        np.savez(
            kept, **{name: np.stack([getattr(frame, field) for frame in frames]) for name, field in columns.items()}
        )
    with np.load(kept) as archive:
        return {name: archive[name] for name in archive.files}


def simulated() -> Path:
    """A simulated recording, made once."""
    folder = CACHE / "sim" / "demo_0005"
    if not folder.exists():
        command = [
            sys.executable,
            "-m",
            "egospatial",
            "simulate",
            str(folder.parent),
            "--preset",
            "demo",
            "--seed",
            "5",
        ]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return folder


def codecs() -> dict[str, Codec]:
    """Lossless codecs by name; level as it is usual for each."""
    import hdf5plugin as plugin

    return {
        "gzip 4 + shuffle": {"compression": "gzip", "compression_opts": 4, "shuffle": True},
        "Zstd 1 + shuffle": {"shuffle": True, **plugin.Zstd(clevel=1)},
        "Zstd 3 + shuffle": {"shuffle": True, **plugin.Zstd(clevel=3)},
        "Zstd 9 + shuffle": {"shuffle": True, **plugin.Zstd(clevel=9)},
        "Zstd 3": dict(plugin.Zstd(clevel=3)),
        "Bitshuffle + Zstd 3": dict(plugin.Bitshuffle(cname="zstd", clevel=3)),
        "Bitshuffle + LZ4": dict(plugin.Bitshuffle(cname="lz4")),
        "Blosc Zstd 5 + shuffle": dict(plugin.Blosc(cname="zstd", clevel=5, shuffle=plugin.Blosc.SHUFFLE)),
        "Blosc Zstd 5 + bitshuffle": dict(plugin.Blosc(cname="zstd", clevel=5, shuffle=plugin.Blosc.BITSHUFFLE)),
        "Blosc2 Zstd 5 + shuffle": dict(plugin.Blosc2(cname="zstd", clevel=5, filters=plugin.Blosc2.SHUFFLE)),
        "Blosc2 Zstd 5 + bitshuffle": dict(plugin.Blosc2(cname="zstd", clevel=5, filters=plugin.Blosc2.BITSHUFFLE)),
        "Blosc2 LZ4 5 + bitshuffle": dict(plugin.Blosc2(cname="lz4", clevel=5, filters=plugin.Blosc2.BITSHUFFLE)),
        "LZ4": dict(plugin.LZ4()),
    }


def lossy() -> dict[str, Codec]:
    """Lossy codecs on the logarithm of depth, bound to half a step of the coding."""
    import hdf5plugin as plugin

    bound = DepthCoding().z_step / 2
    return {
        "SZ3 absolute": dict(plugin.SZ3(absolute=bound)),
        "Zfp accuracy": dict(plugin.Zfp(accuracy=bound)),
        "Sperr absolute": dict(plugin.Sperr(absolute=bound)),
    }


def measured(array: np.ndarray, codec: Codec, repeat: int) -> tuple[float, float, float, np.ndarray]:
    """KiB a frame, MB/s written, MB/s read, and what came back."""
    import h5py

    writes, reads, size, back = [], [], 0, array
    for _ in range(repeat):
        memory, start = io.BytesIO(), time.process_time()
        with h5py.File(memory, "w") as file:
            shape = array.shape
            data = file.create_dataset("x", shape, array.dtype, chunks=(1, *shape[1:]), track_times=False, **codec)
            for frame in range(shape[0]):
                data[frame] = array[frame]
            file.flush()
            size = data.id.get_storage_size()
        writes.append(time.process_time() - start)
        start = time.process_time()
        with h5py.File(memory, "r") as file:
            back = np.stack([file["x"][frame] for frame in range(len(array))])
        reads.append(time.process_time() - start)
    mega = array.nbytes / 1e6
    return size / len(array) / 1024, mega / min(writes), mega / min(reads), back


def line(name: str, array: np.ndarray, codec: Codec, repeat: int, error: str = "") -> np.ndarray:
    """Print a row of a table."""
    kib, write, read, back = measured(array, codec, repeat)
    ratio = array.nbytes / len(array) / 1024 / kib
    print(f"| {name} | {kib:.1f} | {ratio:.2f} | {write:.0f} | {read:.0f} | {error} |", flush=True)
    return back


def head(title: str) -> None:
    """Head of a table."""
    print(f"\n**{title}**\n\n| | KiB a frame | ratio | write MB/s | read MB/s | error |\n|---|---|---|---|---|---|")


def z_codings(z: np.ndarray) -> dict[str, tuple[np.ndarray, str]]:
    """Ways to write depth, each with its worst relative error on these frames."""
    known = np.isfinite(z)

    def told(back: np.ndarray) -> str:
        return f"{np.abs(back[known].astype(np.float64) / z[known] - 1).max():.4%}"

    linear = np.where(known, np.rint(z / 0.0005), 0).astype(np.uint16)
    half = np.where(known, z, 0).astype(np.float16)
    found = {
        "float32": (np.where(known, z, 0).astype(np.float32), "0"),
        "float16": (half, told(half)),
        "uint16, 0.5 mm": (linear, told(linear * 0.0005)),
    }
    for power in (10, 11, 12, 13):
        first_z = 0.02 if power == 13 else DepthCoding().first_z  # the finest steps do not reach so far
        coding = replace(DepthCoding(), z_step=2.0**-power, first_z=first_z)
        stored = left_differences(codes_of(z, coding))
        back = coding.decode(stored[0], np.zeros(1, np.uint8), stored[0]).z_depth_m
        for index in range(1, len(z)):
            back = np.concatenate([back, coding.decode(stored[index], np.zeros(1, np.uint8), stored[index]).z_depth_m])
        error = told(back.reshape(z.shape))
        found[f"log, step 2^-{power}"] = (undo_left_differences(stored), error)
        found[f"log, step 2^-{power}, left differences"] = (stored, error)
    return found


def codes_of(z: np.ndarray, coding: DepthCoding) -> np.ndarray:
    """Codes of depth before differences."""
    from recon.records import DepthFrame

    zero = np.zeros(z.shape[1:], np.uint8)
    frames = [DepthFrame(image, image, zero) for image in z.astype(np.float32)]
    return np.stack([undo_left_differences(coding.encode(frame).z_depth) for frame in frames])


def sigma_codings(sigma: np.ndarray) -> dict[str, tuple[np.ndarray, str]]:
    """Ways to write sigma."""
    known = np.isfinite(sigma) & (sigma > 0)
    half = np.where(known, sigma, 0).astype(np.float16)
    error = np.abs(half[known].astype(np.float64) / sigma[known] - 1).max()
    found = {"float16": (half, f"{error:.3%}")}
    for step in (1 / 14, 0.1, 0.125):
        code = 1 + np.rint(np.log(np.where(known, sigma, 1.0) / 1e-5) / step)
        worst = np.abs(1e-5 * np.exp((code[known] - 1) * step) / sigma[known] - 1).max()
        found[f"uint8, log step {step:.3f}"] = (np.where(known, code, 0).astype(np.uint8), f"{worst:.1%}")
    return found


def tables(name: str, frames: dict[str, np.ndarray], repeat: int) -> None:
    """All tables of one recording."""
    all_codecs, z = codecs(), frames["z"]
    chosen = "Zstd 3 + shuffle"
    print(f"\n### {name}: {len(z)} frames of {z.shape[2]}x{z.shape[1]} px, depth on {np.isfinite(z).mean():.1%}")
    codings = z_codings(z)
    head(f"Coding of depth ({chosen})")
    for label, (array, error) in codings.items():
        line(label, array, all_codecs[chosen], repeat, error)
    stored, error = codings["log, step 2^-12, left differences"]
    plain = codings["log, step 2^-12"][0]
    for title, array in (("Codec, left differences", stored), ("Codec, the same codes without differences", plain)):
        head(title)
        for label, codec in all_codecs.items():
            line(label, array, codec, repeat, error)
    head("Lossy codecs on float32 log depth, bound to the same error")
    known = np.isfinite(z)
    logarithm = np.where(known, np.log(np.where(known, z, 1.0)), -9.0).astype(np.float32)
    for label, codec in lossy().items():
        line_lossy(label, logarithm, codec, known, repeat)
    head("Coding of sigma (Zstd 3)")
    for label, (array, error) in sigma_codings(frames["sigma"]).items():
        line(label, array, all_codecs["Zstd 3"], repeat, error)
    head("Origin")
    for label in ("gzip 4 + shuffle", "Zstd 3", "Blosc2 Zstd 5 + bitshuffle"):
        line(label, frames["origin"], all_codecs[label], repeat, "0")


def line_lossy(name: str, array: np.ndarray, codec: Codec, known: np.ndarray, repeat: int) -> None:
    """A row whose error is measured on what came back."""
    kib, write, read, back = measured(array, codec, repeat)
    error = np.expm1(np.abs(back.astype(np.float64) - array)[known].max())
    ratio = array.nbytes / len(array) / 1024 / kib
    print(f"| {name} | {kib:.1f} | {ratio:.2f} | {write:.0f} | {read:.0f} | {error:.4%} |", flush=True)


def whole_frames(frames: dict[str, np.ndarray], repeat: int) -> None:
    """Encoding and decoding alone, as the store does it."""
    from recon.records import DepthFrame

    coding = DepthCoding()
    records = [DepthFrame(*rows) for rows in zip(frames["z"], frames["sigma"], frames["origin"], strict=True)]
    encoded = [coding.encode(record) for record in records]

    def best(work: Callable[[], Any]) -> float:
        times = []
        for _ in range(repeat):
            start = time.process_time()
            work()
            times.append(time.process_time() - start)
        return min(times) / len(records) * 1e3

    encode = best(lambda: [coding.encode(record) for record in records])
    decode = best(lambda: [coding.decode(item.z_depth, item.sigma, item.origin) for item in encoded])
    print(f"\nCoding without compression: {encode:.1f} CPU ms to encode a frame, {decode:.1f} to decode it.")


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="*", type=Path)
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    for recording in args.recordings or [samples() / "sevenscenes_redkitchen", simulated()]:
        frames = fused_frames(recording, args.frames)
        tables(recording.name, frames, args.repeat)
        whole_frames(frames, args.repeat)
    return 0


if __name__ == "__main__":
    sys.exit(main())
