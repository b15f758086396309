"""What ``simulate`` writes is a recording in the plain layout, with the stated noise and nothing of the truth in it."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from egospatial.errors import FrontDoorError
from egospatial.simulator import PRESETS, Simulated, Truth, load_truth, simulate
from egospatial.simulator.recorder import make_scene
from geo import se3
from geo.readers import open_recording
from geo.world import Gravity


def digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_plain_reader_opens_it(small: Simulated, truth: Truth):
    recording = open_recording(small.recording_dir)
    assert recording.format_name == "plain"
    assert recording.world.metric and recording.world.gravity is Gravity.KNOWN
    assert recording.reference.camera.model == "KB4" and recording.reference.camera.size_wh_px == (320, 320)
    assert np.array_equal(recording.reference.timestamps_ns, truth.timestamps_ns)
    assert recording.depth is not None and recording.depth.camera.size_wh_px == (192, 144)
    assert recording.reference.audio_file is not None
    assert recording.gaze is not None and recording.hands[0].side == "right"
    assert recording.reference.frames.read(30).shape == (320, 320, 3)
    assert not recording.warnings


def test_time_is_whole_nanoseconds_of_a_device_clock(truth: Truth):
    assert truth.timestamps_ns[0] == 5_200_000_000
    assert set(np.diff(truth.timestamps_ns).tolist()) == {100_000_000}
    assert len(truth.timestamps_ns) == 60


def test_the_recording_folder_holds_no_truth(small: Simulated):
    names = {path.name for path in small.recording_dir.iterdir()}
    assert names == {
        "recording.json", "trajectory.csv", "fisheye.mp4", "sensor.h5", "narrations.jsonl", "gaze.csv", "hands.csv",
    }  # fmt: skip


def test_given_poses_are_off_by_the_stated_noise_only(small: Simulated, truth: Truth):
    """White noise of 2 mm an axis is sqrt(3) * 2 = 3.5 mm rms; drift adds at most 1 mm within 6 s."""
    recording = open_recording(small.recording_dir)
    poses = recording.trajectory.poses_at(truth.timestamps_ns, 10**9)
    pitch = np.radians(5.0)  # canonical looks 5 degrees lower than the source camera
    down = np.eye(4)
    down[1:3, 1:3] = [[np.cos(pitch), np.sin(pitch)], [-np.sin(pitch), np.cos(pitch)]]
    true_source = truth.world_from_camera @ np.linalg.inv(down)
    error_m = np.linalg.norm(poses[:, :3, 3] - true_source[:, :3, 3], axis=1)
    assert 0.0028 < np.sqrt((error_m**2).mean()) < 0.0045
    turn = np.swapaxes(true_source[:, :3, :3], 1, 2) @ poses[:, :3, :3]
    error_deg = np.degrees(np.linalg.norm(se3.axis_angle_from_rotation(turn), axis=1))
    assert 0.12 < np.sqrt((error_deg**2).mean()) < 0.24


def test_sensor_depth_agrees_with_the_truth_within_its_sigma(small: Simulated, truth: Truth):
    """Truth points, taken to the sensor with the true pose, against what it measured: unbiased, some mm."""
    recording = open_recording(small.recording_dir)
    assert recording.depth is not None
    sensor, holes = recording.depth.camera, []
    pitch = np.radians(5.0)
    residuals = []
    for frame in (2, 20, 40):
        measured = recording.depth.frames.read(frame)
        holes.append(float(np.isnan(measured).mean()))
        z = truth.z_depth_m(frame)
        points = truth.depth_camera.normalised_points(truth.depth_camera.pixel_grid()) * z[..., None]
        y, depth = points[..., 1], points[..., 2]
        in_source = np.stack(  # canonical +z is 5 degrees below the source's
            [points[..., 0], np.cos(pitch) * y + np.sin(pitch) * depth, np.cos(pitch) * depth - np.sin(pitch) * y], -1
        )
        in_sensor = in_source - [0.03, 0.0, 0.0]
        pixels = sensor.project(in_sensor.reshape(-1, 3)).pixels_xy
        inside = sensor.in_image(pixels)
        cols, rows = np.rint(pixels[inside]).astype(int).T
        residuals.append(measured[np.clip(rows, 0, 143), np.clip(cols, 0, 191)] - in_sensor.reshape(-1, 3)[inside, 2])
    error = np.concatenate(residuals)
    error = error[np.isfinite(error)]
    assert abs(np.median(error)) < 0.003
    assert 0.002 < np.median(np.abs(error)) < 0.02
    assert all(0.14 < share < 0.25 for share in holes), holes


def test_the_same_seed_gives_the_same_bytes(small: Simulated, tmp_path: Path):
    again = simulate(tmp_path, "small", 7)
    assert digest(again.recording_dir) == digest(small.recording_dir)
    assert digest(again.truth_dir) == digest(small.truth_dir)


def test_another_seed_is_another_scene():
    scenes = [make_scene(PRESETS["small"], seed)[0] for seed in (1, 2)]
    assert scenes[0].room.size_m.tolist() != scenes[1].room.size_m.tolist()
    first, second = (scene.places["mover"][0].world_from_object for scene in scenes)
    assert np.linalg.norm(first - second) > 0.01


def test_truth_and_standard_are_the_same_scene_and_motion():
    one, other = (make_scene(PRESETS[name], 7) for name in ("standard", "truth"))
    assert [spec.label for spec in one[0].specs] == [spec.label for spec in other[0].specs]
    for time_s in (0.0, 13.37, 42.0):
        a, b = one[1].at(time_s), other[1].at(time_s)
        assert np.array_equal(a.world_from_head, b.world_from_head)
        assert np.array_equal(a.world_from_object, b.world_from_object)


def test_a_beep_sounds_at_every_event(small: Simulated, truth: Truth):
    import av

    with av.open(str(small.recording_dir / "fisheye.mp4")) as container:
        assert len(container.streams.audio) == 1
        rate = container.streams.audio[0].rate
        blocks = [frame.to_ndarray()[0] for frame in container.decode(audio=0)]
    sound = np.concatenate(blocks)
    for event in truth.lifted.events:
        start = int((event.time_ns - truth.timestamps_ns[0]) / 1e9 * rate)
        loud = np.abs(sound[start + 200 : start + 1600]).mean()
        before = np.abs(sound[start - 4000 : start - 1500]).mean()
        assert loud > 10 * before, event


def test_gaze_is_on_the_object_before_the_hand_gets_there(truth: Truth, recording_dir: Path):
    """From 0.3 s before lift-off the true gaze falls on the object's centre; the recorded one within 2 degrees."""
    recording = open_recording(recording_dir)
    assert truth.gaze is not None and recording.gaze is not None
    pitch = np.radians(5.0)
    for event in truth.lifted.events:
        if event.kind != "pick_up":
            continue
        frame = int(np.searchsorted(truth.timestamps_ns, event.time_ns - 300_000_000))
        center = truth.lifted.trajectories[event.object_id - 1].centers_in_world[frame]
        camera_from_world = np.linalg.inv(truth.world_from_camera[frame])
        x, y, z = (camera_from_world @ [*center, 1.0])[:3]
        in_source = np.array([x, np.cos(pitch) * y + np.sin(pitch) * z, np.cos(pitch) * z - np.sin(pitch) * y])
        expected = recording.reference.camera.project(in_source).pixels_xy
        assert np.allclose(truth.gaze.points_xy_px[frame], expected, atol=0.02)
        assert np.linalg.norm(recording.gaze.points_xy_px[frame] - expected) < 2.0 * 120 * np.pi / 180 * 2


def test_unknown_presets_negative_seeds_and_taken_folders_are_refused(small: Simulated, tmp_path: Path):
    with pytest.raises(FrontDoorError, match="no simulator preset 'huge'; there are: standard, demo, small, truth"):
        simulate(tmp_path, "huge", 1)
    with pytest.raises(FrontDoorError, match="seed -1 is negative"):
        simulate(tmp_path, "small", -1)
    with pytest.raises(FrontDoorError, match="is there already"):
        simulate(small.recording_dir.parent, "small", 7)


def test_a_folder_that_is_no_truth_is_refused(small: Simulated, tmp_path: Path):
    with pytest.raises(FrontDoorError, match="is no truth folder"):
        load_truth(tmp_path)
    shutil.copytree(small.truth_dir, tmp_path / "copy")
    document = json.loads((tmp_path / "copy/truth.json").read_text())
    (tmp_path / "copy/truth.json").write_text(json.dumps({**document, "format": "egospatial-truth/9"}))
    with pytest.raises(FrontDoorError, match="expected 'egospatial-truth/1'"):
        load_truth(tmp_path / "copy")


def test_importing_the_simulator_loads_no_heavy_package():
    code = "import sys, egospatial.simulator; print([m for m in ('torch', 'open3d', 'cv2', 'h5py', 'av') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
