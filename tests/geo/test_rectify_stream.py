"""The canonical video: every frame the right one, times and sound kept, ahead of the encoder, in constant memory."""

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from geo.cameras import KannalaBrandtCamera, camera_from_params
from geo.errors import RecordingError, ShapeError
from geo.readers import open_recording
from geo.rectify import RectifyConfig, rectify
from geo.rectify_stream import AHEAD, ahead, even_sized, write_canonical_video
from geo.video import VideoFrames, write_video

N = 40
SIZE = (64, 48)


def picture(index: int) -> np.ndarray:
    """A horizontal ramp whose level is the frame's number."""
    u = np.arange(SIZE[0])
    row = np.clip(30 + 4 * index + u // 4, 0, 255).astype(np.uint8)
    return np.repeat(np.tile(row, (SIZE[1], 1))[..., None], 3, axis=2)


@pytest.fixture
def fisheye(make_plain, tmp_path):
    """A fisheye video with a variable frame rate, in the plain layout, as a canonical recording."""
    rng = np.random.default_rng(0)
    stamps = np.cumsum(np.r_[0, rng.integers(20_000_000, 90_000_000, N - 1)]).astype(np.int64)
    film = tmp_path / "film.mp4"
    write_video(film, (picture(k) for k in range(N)), timestamps_ns=stamps, preset="veryfast", crf=10)

    def use_video(m):
        eye = m["cameras"]["eye"]
        eye.pop("images")
        eye.update(video="film.mp4", model="KB4", params=[24.0, 24.0, 31.5, 23.5, 0.0, 0.0, 0.0, 0.0])
        eye["timestamps_ns"] = [int(t) + 5_000_000_000 for t in stamps]
        m["cameras"].pop("depth")

    folder = make_plain(use_video)
    film.rename(folder / "film.mp4")
    rows = [f"{5_000_000_000 + k * 50_000_000},0,0,0,1,0,0,0" for k in range(80)]
    (folder / "trajectory.csv").write_text("timestamp_ns,tx,ty,tz,qw,qx,qy,qz\n" + "\n".join(rows) + "\n")
    return rectify(open_recording(folder), RectifyConfig(width_px=66, height_px=50, view="canonical", pitch_deg=0.0))


class Pictures:
    """Frames made in code; counts how many were read."""

    def __init__(self, count, size=SIZE):
        self.count, self.size, self.read_so_far = count, size, 0

    def __len__(self):
        return self.count

    def read(self, index):
        self.read_so_far += 1
        return np.full((self.size[1], self.size[0], 3), index % 256, np.uint8)


def test_frames_times_and_number_are_those_of_the_recording(fisheye, tmp_path):
    assert isinstance(fisheye.source_camera, KannalaBrandtCamera)
    seen = []
    written = write_canonical_video(tmp_path / "o.mp4", fisheye, progress=lambda k, n: seen.append((k, n)), crf=10)
    assert written.frames == N and seen == [(k + 1, N) for k in range(N)]
    with VideoFrames(tmp_path / "o.mp4") as video:
        assert video.size_wh_px == (66, 50) and len(video) == N
        wanted = fisheye.timestamps_ns - fisheye.timestamps_ns[0]
        assert np.abs(video.timestamps_ns - wanted).max() <= 500  # microseconds in the file: variable rate kept
        for k in (0, 7, 39):
            inside = fisheye.valid_mask[10:40, 20:46]
            apart = video.read(k)[10:40, 20:46].astype(int) - fisheye.frames.read(k)[10:40, 20:46]
            assert inside.all() and np.abs(apart).mean() < 2 and np.abs(apart.mean()) < 1


def test_the_same_recording_gives_the_same_bytes(fisheye, tmp_path):
    for name in ("a.mp4", "b.mp4"):
        write_canonical_video(tmp_path / name, fisheye)
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


def test_a_thread_ahead_gives_the_bytes_of_one_frame_after_the_other(fisheye, tmp_path):
    write_canonical_video(tmp_path / "a.mp4", fisheye)
    frames = (fisheye.frames.read(k) for k in range(N))
    write_video(tmp_path / "b.mp4", frames, timestamps_ns=fisheye.timestamps_ns)
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


def test_odd_sizes_are_made_even_by_doubling_the_border(fisheye, tmp_path):
    image = np.arange(5 * 3 * 3, dtype=np.uint8).reshape(5, 3, 3)
    even = even_sized(image)
    assert even.shape == (6, 4, 3) and (even[:5, :3] == image).all()
    assert (even[5, :3] == image[4]).all() and (even[:5, 3] == image[:, 2]).all()
    assert even_sized(even) is even
    odd = replace(fisheye, frames=Pictures(N, (33, 21)))
    write_canonical_video(tmp_path / "o.mp4", odd)
    with VideoFrames(tmp_path / "o.mp4") as video:
        assert video.size_wh_px == (34, 22)


def test_a_frame_that_cannot_be_read_is_the_error_and_leaves_nothing(fisheye, tmp_path):
    class Broken(Pictures):
        def read(self, index):
            if index == 11:
                raise RecordingError("frame 11 is lost")
            return super().read(index)

    out = tmp_path / "out"
    out.mkdir()
    (out / "o.mp4").write_bytes(b"old")
    with pytest.raises(RecordingError, match="frame 11 is lost"):
        write_canonical_video(out / "o.mp4", replace(fisheye, frames=Broken(N)))
    assert [path.name for path in out.iterdir()] == ["o.mp4"] and (out / "o.mp4").read_bytes() == b"old"
    assert not worker_alive()


def test_an_encoder_that_fails_stops_the_reading(fisheye, tmp_path):
    class Uneven(Pictures):
        def read(self, index):
            return super().read(index)[: SIZE[1] - (4 if index == 3 else 0)]

    pictures = Uneven(N)
    with pytest.raises(ShapeError, match="frame 3 is uint8"):
        write_canonical_video(tmp_path / "o.mp4", replace(fisheye, frames=pictures))
    assert pictures.read_so_far <= 3 + 2 + AHEAD + 1 and not worker_alive()


# --- one thread ahead ---------------------------------------------------------------------------------------------


def worker_alive() -> bool:
    return any(thread.name == "frames-ahead" for thread in threading.enumerate())


def test_items_come_in_order_and_no_more_than_a_few_are_made_ahead():
    made = []

    def items():
        for k in range(50):
            made.append(k)
            yield k

    taken = []
    for k in ahead(items(), waiting=3):
        time.sleep(0.002)
        taken.append(k)
        assert len(made) <= len(taken) + 3 + 1
    assert taken == list(range(50)) and not worker_alive()


def test_making_and_taking_go_on_at_the_same_time():
    """The maker finishes item k + 1 while the caller still holds item k: neither could if they took turns."""
    made = [threading.Event() for _ in range(5)]

    def items():
        for k in range(5):
            made[k].set()
            yield k

    for k in ahead(items()):
        assert k == 4 or made[k + 1].wait(timeout=10)


def test_an_error_comes_at_its_place_and_an_early_leaver_ends_the_thread():
    def items():
        yield from (1, 2)
        raise RecordingError("third")

    taken = []
    with pytest.raises(RecordingError, match="third"):
        for item in ahead(items()):
            taken.append(item)
    assert taken == [1, 2] and not worker_alive()

    endless = ahead(iter(int, 1))
    assert [next(endless) for _ in range(3)] == [0, 0, 0] and worker_alive()
    endless.close()
    assert not worker_alive()


def test_nothing_to_make_is_nothing():
    assert list(ahead([])) == []


# --- memory -------------------------------------------------------------------------------------------------------

LONG = """
import sys
import numpy as np
from dataclasses import replace
from pathlib import Path
from geo.rectify_stream import write_canonical_video
from tests.geo.test_rectify_stream import Pictures, bare_recording

def peak_kib():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])

size = (256, 256)
write_canonical_video(sys.argv[1], bare_recording(60, size), preset="ultrafast")
before = peak_kib()
write_canonical_video(sys.argv[1], bare_recording(900, size), preset="ultrafast")
print("grown", peak_kib() - before)
"""


def bare_recording(count, size):
    """A canonical recording of pictures made in code."""
    from geo.recording import CanonicalRecording
    from geo.world import Gravity, World

    camera = camera_from_params("PINHOLE", size, [100.0, 100.0, 31.5, 23.5])
    return CanonicalRecording(
        recording_id="bare",
        camera=camera,
        timestamps_ns=np.arange(count, dtype=np.int64) * 50_000_000,
        world_from_camera=np.tile(np.eye(4), (count, 1, 1)),
        valid_mask=np.ones(size[::-1], bool),
        frames=Pictures(count, size),
        world=World(metric=True, gravity=Gravity.KNOWN),
        source_camera=camera,
        canonical_from_source=np.eye(3),
    )


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here to read the peak memory from")
def test_memory_does_not_grow_with_the_length(tmp_path):
    """840 further frames of 192 kB would be 157 MiB if anything held them; 8 MiB are allowed for the packet list."""
    import subprocess
    import sys

    root = Path(__file__).resolve().parents[2]
    run = subprocess.run(
        [sys.executable, "-c", LONG, os.fspath(tmp_path / "o.mp4")],
        capture_output=True,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.fspath(root)},
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert int(run.stdout.split("grown")[1]) < 8 * 1024
