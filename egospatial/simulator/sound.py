"""The audio track: quiet noise with a beep at every event."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from jaxtyping import Float32

RATE_HZ = 16_000
TONE_HZ = {"pick_up": 880.0, "put_down": 660.0, "put_into": 550.0, "take_out": 990.0, "use": 440.0}
BEEP_S = 0.12


def soundtrack(
    beeps: Iterable[tuple[float, str]], duration_s: float, rng: np.random.Generator
) -> Float32[np.ndarray, "S"]:
    """Samples of the whole recording; ``beeps`` are (seconds from the first frame, kind of event)."""
    count = round(duration_s * RATE_HZ)
    sound = 0.002 * rng.standard_normal(count, dtype=np.float32)
    for start_s, kind in beeps:
        first = round(start_s * RATE_HZ)
        length = min(round(BEEP_S * RATE_HZ), count - first)
        if length <= 0:
            continue
        time_s = np.arange(length) / RATE_HZ
        ramp = np.minimum(1.0, np.minimum(time_s, BEEP_S - time_s) / 0.01)
        sound[first : first + length] += (0.3 * ramp * np.sin(2 * np.pi * TONE_HZ[kind] * time_s)).astype(np.float32)
    return np.asarray(np.clip(sound, -1.0, 1.0))


def write_aac(path: Path, samples: Float32[np.ndarray, "S"]) -> None:
    """One mono AAC track in an MP4 container."""
    import av

    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("aac", rate=RATE_HZ, layout="mono")
        stream.bit_rate = 64_000
        for start in range(0, len(samples), 1024):
            block = np.ascontiguousarray(samples[None, start : start + 1024])
            frame = av.AudioFrame.from_ndarray(block, format="fltp", layout="mono")
            frame.sample_rate, frame.pts = RATE_HZ, start
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
