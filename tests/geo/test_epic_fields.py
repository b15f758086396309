"""EPIC-Fields as a recording: poses of structure from motion on a video or on extracted frames."""

import json
from pathlib import Path
from typing import Any

import fuzzing
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from geo import se3
from geo.errors import CameraError, RecordingError
from geo.readers import open_recording, sniff
from geo.recording import Recording
from geo.video import write_video
from geo.world import Gravity

W, H = 44, 24  # the file's frames; twice as large in the video
PARAMS = [30.0, 31.0, 22.0, 12.0, 0.01, -0.002, 0.0005, 0.0003]
CENTRES = {1: [0.0, 0, 0], 2: [0.1, 0, 0.2], 4: [0.3, 0.1, 0.6]}
ANGLES = {1: 0.0, 2: 10.0, 4: 30.0}


def camera_row(number: int) -> list[float]:
    """qw qx qy qz tx ty tz of camera_from_world, from the camera's centre and its turn about the vertical."""
    camera_from_world = Rotation.from_euler("y", ANGLES[number], degrees=True)
    move = -camera_from_world.apply(CENTRES[number])
    x, y, z, w = camera_from_world.as_quat()
    return [float(value) for value in (w, x, y, z, *move)]


def content(**changes: Any) -> dict[str, Any]:
    return {
        "camera": {"id": 1, "model": "OPENCV", "width": W, "height": H, "params": PARAMS},
        "images": {f"frame_{number:010d}.jpg": camera_row(number) for number in CENTRES},
        "points": [[0, 0, 2.0, 255, 0, 10], [1, 0.5, 3.0, 0, 128, 20]],
        **changes,
    }


@pytest.fixture
def frames_folder(tmp_path: Path, png_writer) -> Path:
    """Extracted frames 1, 2, 3, 5; poses of 1, 2, 4."""
    root = tmp_path / "a"
    (root / "P02_104").mkdir(parents=True)
    for number in (1, 2, 3, 5):
        png_writer(root / f"P02_104/frame_{number:010d}.png", np.full((H, W, 3), 40 * number, dtype=np.uint8))
    (root / "P02_104.json").write_text(json.dumps(content()))
    return root


@pytest.fixture
def video_folder(tmp_path: Path) -> Path:
    root = tmp_path / "v"
    root.mkdir()
    pictures = (np.full((2 * H, 2 * W, 3), 40 * i, dtype=np.uint8) for i in range(5))
    write_video(root / "P02_104.MP4", pictures, timestamps_ns=np.array([0, 20, 41, 60, 80]) * 1_000_000)
    (root / "P02_104.json").write_text(json.dumps(content()))
    return root


def said(recording: Recording, text: str) -> bool:
    return any(text in warning for warning in recording.warnings)


def test_extracted_frames(frames_folder):
    assert sniff(frames_folder).format_name == "epic_fields"
    recording = open_recording(frames_folder)
    assert recording.recording_id == "P02_104" and not recording.world.metric
    assert recording.world.gravity is Gravity.UNKNOWN
    stream = recording.reference
    assert stream.timestamps_ns.tolist() == [0, 20_000_000, 40_000_000, 80_000_000]  # 50 Hz, from frame 1
    assert stream.source_frame_numbers().tolist() == [0, 1, 2, 4] and stream.start_ns() == 0
    assert (stream.frames.read(3) == 200).all()
    assert stream.camera.params.tolist() == [30, 31, 21.5, 11.5, *PARAMS[4:]]  # COLMAP's corner, half a pixel
    assert recording.trajectory.timestamps_ns.tolist() == [0, 20_000_000]
    assert said(recording, "1 of 3 poses belong to no picture") and said(
        recording, "2 of 4 pictures were not registered"
    )
    assert said(recording, "counted at the nominal 50.00 Hz; add the video P02_104.mp4")
    assert recording.points is not None and recording.points.colours is not None
    assert recording.points.points_in_world.tolist() == [[0, 0, 2], [1, 0.5, 3]]
    assert recording.points.colours.tolist() == [[255, 0, 10], [0, 128, 20]]


def test_a_video_gives_true_times_and_a_scaled_calibration(video_folder):
    recording = open_recording(video_folder)
    assert recording.trajectory.timestamps_ns.tolist() == [0, 20_000_000, 60_000_000]  # frame 4 is picture 3
    assert recording.reference.camera.size_wh_px == (2 * W, 2 * H)
    # corner numbers double: 44 and 24, which are 43.5 and 23.5 from the centre of the first pixel
    assert recording.reference.camera.params[:4].tolist() == [60, 62, 43.5, 23.5]
    assert said(recording, "the calibration for 44x24 is scaled to pictures of 88x48")
    assert int(recording.reference.frames.read(3)[5, 5, 0]) == pytest.approx(120, abs=3)


def test_poses_are_turned_round(frames_folder):
    """FIELD P1: the file has world to camera; the camera's place and its viewing direction by hand."""
    pose = open_recording(frames_folder).trajectory.world_from_body[1]
    np.testing.assert_allclose(pose[:3, 3], CENTRES[2], atol=1e-12)
    turn = np.radians(
        ANGLES[2]
    )  # camera_from_world turns by +10 degrees, so the camera looks along the inverse of that
    np.testing.assert_allclose(pose[:3, 2], [-np.sin(turn), 0, np.cos(turn)], atol=1e-12)


def test_the_older_layout_and_the_older_data_set(frames_folder):
    (frames_folder / "P02_104.json").unlink()
    (frames_folder / "P02_104").rename(frames_folder / "frames")
    rows = [[*camera_row(number), f"frame_{number:010d}.jpg"] for number in CENTRES]
    (frames_folder / "P02_04.json").write_text(json.dumps(content(images=rows)))
    recording = open_recording(frames_folder)
    assert recording.reference.timestamps_ns[1] == 16_683_333  # 1001 / 60000 s
    assert said(recording, "nominal 59.94 Hz")


def test_two_files_of_this_kind(frames_folder):
    (frames_folder / "P02_105.json").write_text(json.dumps(content()))
    with pytest.raises(RecordingError, match=r"exactly one EPIC-Fields JSON, there are: P02_104\.json, P02_105\.json"):
        open_recording(frames_folder)


@pytest.mark.parametrize(
    ("changes", "kind", "fault"),
    [
        ({"camera": {"model": "OPENCV"}}, RecordingError, "'width' is missing"),
        ({"camera": {"model": "BAG", "width": W, "height": H, "params": PARAMS}}, CameraError, "unknown camera model"),
        ({"camera": {"model": "OPENCV", "width": W, "height": H, "params": [1, 2, 3]}}, CameraError, "has 8 or"),
        ({"camera": {"model": "OPENCV", "width": H, "height": W, "params": PARAMS}}, RecordingError, "another shape"),
        ({"camera": {"model": "PINHOLE", "width": W, "height": H, "params": [1e300] * 4}}, CameraError, "out of this"),
        ({"points": [[0, 0, 1, 2]]}, RecordingError, "must be rows of x, y, z"),
        ({"points": [[0, 0, 1, 300, 0, 0]]}, RecordingError, "must lie in 0..255"),
        ({"points": [[0, 0, 1e300]]}, RecordingError, "out of this world"),
        ({"points": [["a", 0, 1]]}, RecordingError, "expected number"),
        ({"images": {"frame_0000000077.jpg": camera_row(1)}}, RecordingError, "not one in common"),
    ],
)
def test_files_that_cannot_be(frames_folder, changes, kind, fault):
    (frames_folder / "P02_104.json").write_text(json.dumps(content(**changes)))
    with pytest.raises(kind, match=fault):
        open_recording(frames_folder)


def test_neither_video_nor_frames(frames_folder):
    (frames_folder / "P02_104").rename(frames_folder / "elsewhere")
    with pytest.raises(RecordingError, match=r"neither the video P02_104\.mp4 nor frames"):
        open_recording(frames_folder)


def test_fuzz(frames_folder):
    """Changes end in a clean error or a sound recording."""

    def read():
        recording = open_recording(frames_folder)
        recording.reference.frames.read(0)
        return recording

    def sound(recording):
        assert se3.is_rigid(recording.trajectory.world_from_body).all()
        assert len(recording.reference.frames) == 4 and len(recording.trajectory.timestamps_ns) >= 1

    fuzzing.fuzz("epic_fields P02_104.json", frames_folder / "P02_104.json", read, sound)
