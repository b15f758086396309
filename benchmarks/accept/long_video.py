"""Letter F of issue 2: rectifying half an hour takes no more memory than rectifying a minute."""

import json
import os
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accept.harness import ROOT, Letter

MINUTES = (1, 30)
RATE_HZ = 20
SOURCE, TARGET = 160, 128  # pixels a side
BLOCK_S = 60
SCRATCH = ROOT / "out" / "accept"


def measure(letter: Letter) -> None:
    """``egospatial rectify`` on a fisheye video of 1 and of 30 minutes; judged without sound, noted with it."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
        silent = _grown(letter, Path(scratch) / "silent", sound=False)
        letter.at_most("peak memory, 30 min / 1 min", silent, 1.10)
        loud = _grown(letter, Path(scratch) / "sound", sound=True)
        letter.note(f"with AAC at 48 kHz (70 % of the packets are sound): peak memory, 30 min / 1 min {loud:.3f}")


def _grown(letter: Letter, folder: Path, sound: bool) -> float:
    """Peak of the longest video over that of the shortest; what was written is complete."""
    folder.mkdir(parents=True)
    block = make_block(folder / "block.mp4", sound)
    peaks = []
    for minutes in MINUTES:
        recording = make_recording(folder / f"fisheye_{minutes}min", block, minutes)
        peak_mib, seconds, output = rectify_and_watch(recording, folder / "out")
        video = output / "canonical.mp4"
        frames, sound_s = inspect(video)
        what = f"{minutes} min{', sound' if sound else ''}"
        letter.true(f"{what}: frames written", frames == minutes * 60 * RATE_HZ, str(frames))
        if sound:
            letter.true(f"{what}: sound to the end", abs(sound_s - minutes * 60) < 0.2, f"{sound_s:.2f} s")
        letter.note(f"{what}: peak {peak_mib:.1f} MiB, {seconds:.0f} s wall, {video.stat().st_size} bytes")
        peaks.append(peak_mib)
    return peaks[-1] / peaks[0]


def make_block(path: Path, sound: bool) -> Path:
    """One minute of moving fisheye picture and a tone, encoded once; longer videos repeat its packets."""
    import av

    v, u = np.mgrid[0:SOURCE, 0:SOURCE]
    with av.open(os.fspath(path), "w", format="mp4") as container:
        video = container.add_stream("libx264", rate=RATE_HZ, options={"preset": "ultrafast", "crf": "28", "bf": "0"})
        video.width = video.height = SOURCE
        video.pix_fmt = "yuv420p"
        voice = container.add_stream("aac", rate=48_000, layout="mono") if sound else None
        for k in range(BLOCK_S * RATE_HZ):
            grey = (127 + 60 * np.sin((u + 3 * k) / 9.0) + 60 * np.sin((v - k) / 7.0)).astype(np.uint8)
            image = np.stack([grey, np.roll(grey, k, 1), np.full_like(grey, k % 256)], axis=-1)
            container.mux(video.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(video.encode(None))
        if voice is None:
            return path
        for start in range(0, BLOCK_S * 48_000, 1024):
            wave = 0.2 * np.sin(2 * np.pi * 440 * np.arange(start, start + 1024) / 48_000)
            frame = av.AudioFrame.from_ndarray(wave.astype(np.float32)[None], format="fltp", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = 48_000, start, Fraction(1, 48_000)
            container.mux(voice.encode(frame))
        container.mux(voice.encode(None))
    return path


def make_recording(folder: Path, block: Path, minutes: int) -> Path:
    """A recording in the project's own layout: video with sound, KB4 calibration, a pose for every frame."""
    folder.mkdir()
    _repeat(block, folder / "rgb.mp4", minutes * 60 // BLOCK_S)
    start_ns, step_ns = 5_000_000_000, 1_000_000_000 // RATE_HZ
    camera = {
        "model": "KB4",
        "width": SOURCE,
        "height": SOURCE,
        "params": [62.0, 62.0, 79.5, 79.5, 0.05, -0.01, 0.002, -0.0005],
        "reference_from_camera": None,
        "rolling_shutter_s": 0,
        "video": "rgb.mp4",
        "timestamps_ns": {"start_ns": start_ns, "rate_hz": RATE_HZ},
    }
    manifest = {
        "format": "egospatial/1",
        "id": folder.name,
        "reference_camera": "eye",
        "world": {"metric": True, "up": [0, 0, 1]},
        "cameras": {"eye": camera},
    }
    (folder / "recording.json").write_text(json.dumps(manifest))
    with (folder / "trajectory.csv").open("w") as file:
        file.write("timestamp_ns,tx,ty,tz,qw,qx,qy,qz\n")
        for k in range(minutes * 60 * RATE_HZ):
            file.write(f"{start_ns + k * step_ns},{np.sin(k / 50):.6f},{np.cos(k / 50):.6f},1.5,1,0,0,0\n")
    return folder


def _repeat(block: Path, target: Path, times: int) -> None:
    """The block's packets again and again, each time later by its length; nothing is encoded."""
    import av

    with av.open(os.fspath(target), "w", format="mp4") as out:
        streams: dict[int, Any] = {}
        last: dict[int, int] = {}
        for round_ in range(times):
            with av.open(os.fspath(block)) as source:
                if not streams:
                    streams = {stream.index: out.add_stream_from_template(stream) for stream in source.streams}
                for packet in source.demux():
                    if packet.dts is None or packet.pts is None:
                        continue
                    index, shift = packet.stream.index, round(round_ * BLOCK_S / packet.time_base)
                    packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
                    if packet.dts <= last.get(index, packet.dts - 1):
                        continue  # the encoder's lead-in of a later block
                    last[index] = packet.dts
                    packet.stream = streams[index]
                    out.mux(packet)


def rectify_and_watch(recording: Path, out: Path) -> tuple[float, float, Path]:
    """Run the command; its peak resident memory in MiB, wall seconds, and the output folder.

    The command resets its own high-water mark when a stage begins, so the mark is read every few milliseconds and the
    largest is kept: what came before a reset counts as well.
    """
    size = f"rectify.width_px={TARGET}", f"rectify.height_px={TARGET}"
    command = [sys.executable, "-m", "egospatial", "rectify", os.fspath(recording), "--out", os.fspath(out), "--quiet"]
    command += [word for text in size for word in ("--set", text)]
    start, peak_kib = time.monotonic(), 0
    log = out.with_suffix(".log")
    with log.open("w") as sink:
        child = subprocess.Popen(command, cwd=ROOT, stdout=sink, stderr=sink)
        while child.poll() is None:
            peak_kib = max(peak_kib, _high_water_kib(child.pid))
            time.sleep(0.02)
    if child.returncode:
        raise RuntimeError(f"status {child.returncode}: {log.read_text()[-400:]}")
    return peak_kib / 1024, time.monotonic() - start, out / recording.name


def _high_water_kib(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    except OSError:
        pass  # it ended in between
    return 0


def inspect(video: Path) -> tuple[int, float]:
    """Frames and seconds of sound of a video, counted packet by packet."""
    import av

    with av.open(os.fspath(video)) as container:
        frames, end_s = 0, 0.0
        for packet in container.demux():
            if packet.pts is None:
                continue
            if packet.stream.type == "video":
                frames += 1
            else:
                end_s = float((packet.pts + packet.duration) * packet.time_base)
        return frames, end_s
