"""Broken files of the plain layout and of RGB-D folders: a clean error or a sound recording, 200 times a file."""

import json
from pathlib import Path

import fuzzing
import numpy as np
import pytest

from geo import se3
from geo.errors import RecordingError
from geo.readers import open_recording
from geo.readers.plain import read_unposed
from geo.readers.tables import read_gaze, read_hands, read_trajectory
from geo.recording import Recording


def sound(recording: Recording) -> None:
    """What holds for every recording, whatever its files say."""
    reference = recording.reference
    assert 1 <= len(reference.frames) == len(reference.timestamps_ns)
    assert reference.timestamps_ns.dtype == np.int64 and (np.diff(reference.timestamps_ns) > 0).all()
    assert len(recording.trajectory.timestamps_ns) > 0 and (np.diff(recording.trajectory.timestamps_ns) > 0).all()
    assert se3.is_rigid(recording.trajectory.world_from_body, 1e-3).all()
    assert np.isfinite(reference.camera.params).all()


def read_all(folder: Path, name: str) -> Recording:
    """Open, and decode a picture and a depth image."""
    recording = open_recording(folder, name)
    image = recording.reference.frames.read(0)
    assert image.shape == (recording.reference.camera.height_px, recording.reference.camera.width_px, 3)
    if recording.depth is not None:
        depth = recording.depth.frames.read(0)
        assert depth.shape == (recording.depth.camera.height_px, recording.depth.camera.width_px)
        assert (np.isnan(depth) | ((depth > 0) & (depth <= 20.0))).all()
    return recording


@pytest.fixture
def full_plain(plain_folder: Path) -> Path:
    stamps = json.loads((plain_folder / "recording.json").read_text())["cameras"]["eye"]["timestamps_ns"]
    gaze = ["timestamp_ns,x_px,y_px,depth_m", *(f"{t},{10 + i},20.5,1.25" for i, t in enumerate(stamps))]
    (plain_folder / "gaze.csv").write_text("\n".join(gaze) + "\n")
    hands = ["timestamp_ns,side,joint,x_m,y_m,z_m,confidence"]
    hands += [
        f"{t},{side},{joint},0.1,0.2,{joint}e-2,0.9"
        for t in stamps[:3]
        for side in ("left", "right")
        for joint in (0, 4, 20)
    ]
    (plain_folder / "hands.csv").write_text("\n".join(hands) + "\n")
    return plain_folder


@pytest.mark.parametrize("file", ["recording.json", "trajectory.csv", "gaze.csv", "hands.csv", "rgb/000000.png"])
def test_fuzz_of_the_plain_layout(full_plain, file):
    recording = open_recording(full_plain)
    assert recording.gaze is not None and len(recording.hands) == 2
    fuzzing.fuzz(f"plain {file}", full_plain / file, lambda: read_all(full_plain, "plain"), sound, file.endswith("png"))


def test_fuzz_of_a_plain_folder_without_poses(full_plain):
    (full_plain / "trajectory.csv").unlink()
    assert len(read_unposed(full_plain).trajectory.timestamps_ns) == 0

    def has_pictures(found: Recording) -> None:
        assert len(found.reference.frames) == len(found.reference.timestamps_ns) > 0

    fuzzing.fuzz("plain, no poses", full_plain / "recording.json", lambda: read_unposed(full_plain), has_pictures)


def test_fuzz_of_depth_in_hdf5(full_plain):
    """HDF5's own parts carry checksums; what its library lets through has the size and range of a depth image."""
    fuzzing.fuzz("plain sensor.h5", full_plain / "sensor.h5", lambda: read_all(full_plain, "plain"), sound, True)


@pytest.mark.parametrize(
    "file",
    [
        "calibration.json",
        "camera-intrinsics.txt",
        "frame-000005.pose.txt",
        "frame-000000.depth.png",
        "frame-000000.color.png",
    ],
)
def test_fuzz_of_rgbd_folders(rgbd_folder, file):
    if file == "camera-intrinsics.txt":
        (rgbd_folder / "calibration.json").unlink()
    fuzzing.fuzz(f"rgbd {file}", rgbd_folder / file, lambda: read_all(rgbd_folder, "rgbd"), sound, file.endswith("png"))


@pytest.mark.parametrize("name", ["trajectory", "gaze", "hands"])
def test_fuzz_of_tables_alone(full_plain, name):
    """Rows come out in order of time and finite or NaN, never infinite."""
    path = full_plain / f"{name}.csv"

    def fine(found):
        for track in found if isinstance(found, tuple) else (found,):
            assert (np.diff(track.timestamps_ns) >= 0).all()
            arrays = [value for value in vars(track).values() if isinstance(value, np.ndarray)]
            assert not any(np.isinf(array).any() for array in arrays if array.dtype == np.float64)

    readers = {
        "trajectory": lambda: read_trajectory(path, []),
        "gaze": lambda: read_gaze(path),
        "hands": lambda: read_hands(path),
    }
    fuzzing.fuzz(f"table {name}.csv", path, readers[name], fine)


def test_the_fuzz_fails_where_a_reader_lets_an_error_through(tmp_path):
    path = tmp_path / "numbers.txt"
    path.write_text("1 2 3\n4 5 6\n")
    with pytest.raises(AssertionError, match=r"naive, mutation .*(ValueError|UnicodeDecodeError)"):
        fuzzing.fuzz("naive", path, lambda: [float(cell) for cell in path.read_text().split()], lambda _: None)


def test_the_fuzz_fails_where_everything_is_refused_or_nothing(tmp_path):
    path = tmp_path / "numbers.txt"
    path.write_text("1 2 3\n4 5 6\n")
    with pytest.raises(AssertionError, match="break too much or nothing"):
        fuzzing.fuzz("blind", path, lambda: 1, lambda _: None)
    calls = []

    def once():
        calls.append(1)
        if len(calls) > 1:
            raise RecordingError("no")
        return 1

    with pytest.raises(AssertionError, match="break too much or nothing"):
        fuzzing.fuzz("deaf", path, once, lambda _: None)
