"""TUM RGB-D folders: written here with depth and poses, read back, and broken in every way that was thought of."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzzing
import numpy as np
import pytest

from geo import se3
from geo.cameras import PinholeCamera, RadTanCamera
from geo.errors import GeoError, PoseError, RecordingError, TimeError
from geo.readers import open_recording, sniff
from geo.readers.tum_rgbd import pair_by_time
from geo.recording import Recording
from geo.world import Gravity

W, H = 32, 24
K = [[30.0, 0, 15.5], [0, 31.0, 11.5], [0, 0, 1]]
START_S = 1305031102
START_NS = START_S * 1_000_000_000
# A wall at world z = 3, cameras that look along +z, turned about their axis by 0, 20, 40 degrees: depth is exact.
CENTRES = [[0, 0, 1.0], [0.1, -0.05, 1.5], [0.2, 0.1, 2.0]]
ANGLES = np.radians([0.0, 20.0, 40.0])
COUNTS = [10000, 7500, 5000]  # 5000 counts a metre


def write(folder: Path, png_writer, calibration: dict[str, Any] | None = None) -> Path:
    """Pictures at 0, 100, 200 ms; depth images 8 ms later; poses at both times, equal ones."""
    for name in ("rgb", "depth"):
        (folder / name).mkdir(parents=True)
    rgb, depth, truth = ["# color images"], ["# depth maps"], ["# timestamp tx ty tz qx qy qz qw"]
    for i in range(3):
        picture, sensor = f"{START_S}.{i}00000", f"{START_S}.{i}08000"
        png_writer(folder / f"rgb/{picture}.png", np.full((H, W, 3), 50 * i, dtype=np.uint8))
        counts = np.full((H, W), COUNTS[i], dtype=np.uint16)
        counts[0, :2] = [0, 65535]
        png_writer(folder / f"depth/{sensor}.png", counts)
        rgb.append(f"{picture} rgb/{picture}.png")
        depth.append(f"{sensor} depth/{sensor}.png")
        quat = f"0 0 {np.sin(ANGLES[i] / 2)!r} {np.cos(ANGLES[i] / 2)!r}".replace("np.float64(", "").replace(")", "")
        truth += [f"{stamp} {' '.join(map(str, CENTRES[i]))} {quat}" for stamp in (picture, sensor)]
    for name, lines in (("rgb", rgb), ("depth", depth), ("groundtruth", truth)):
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    (folder / "calibration.json").write_text(json.dumps({"color_K": K} if calibration is None else calibration))
    return folder


@pytest.fixture
def folder(tmp_path: Path, png_writer) -> Path:
    return write(tmp_path / "desk", png_writer)


def edit(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")


def calibrate(folder: Path, **entries: Any) -> None:
    (folder / "calibration.json").write_text(json.dumps({"color_K": K} | entries))


def said(recording: Recording, text: str) -> bool:
    return any(text in warning for warning in recording.warnings)


def test_as_written(folder):
    assert sniff(folder).format_name == "tum_rgbd"
    recording = open_recording(folder)
    assert recording.recording_id == "desk" and recording.format_name == "tum_rgbd" and not recording.warnings
    assert recording.reference.timestamps_ns.tolist() == [START_NS + i * 100_000_000 for i in range(3)]
    depth = recording.depth
    assert depth is not None
    assert depth.timestamps_ns.tolist() == [START_NS + i * 100_000_000 + 8_000_000 for i in range(3)]
    assert recording.world.metric and recording.world.gravity is Gravity.UNKNOWN
    camera = recording.reference.camera
    assert isinstance(camera, PinholeCamera) and camera.params.tolist() == [30, 31, 15.5, 11.5]
    image = depth.frames.read(1)
    assert image[5, 5] == 1.5 and np.isnan(image[0, :2]).all() and np.isfinite(image).sum() == W * H - 2
    assert (recording.reference.frames.read(2) == 100).all()
    assert len(recording.input_files) == 4 + 6


def test_a_point_reprojected_between_two_frames(folder):
    """Pixel of frame 0 -> wall -> frame 1 by the reader's numbers, against the same by hand; then back from frame 1."""
    recording = open_recording(folder)
    depth = recording.depth
    assert depth is not None
    poses = recording.trajectory.poses_at(depth.timestamps_ns)
    u, v = 20, 9
    z = float(depth.frames.read(0)[v, u])
    in_camera = np.array([(u - 15.5) / 30 * z, (v - 11.5) / 31 * z, z])
    in_world = se3.transform_points(poses[0], in_camera)
    np.testing.assert_allclose(in_world, [0.3, -2.5 / 31 * 2, 3.0], atol=1e-6)  # by hand: camera 0 is not turned
    back = se3.transform_points(se3.inverse(poses[1]), in_world)
    pixel = depth.camera.project(back).pixels_xy
    dx, dy, c, s = in_world[0] - 0.1, in_world[1] + 0.05, np.cos(ANGLES[1]), np.sin(ANGLES[1])
    by_hand = [30 * (c * dx + s * dy) / 1.5 + 15.5, 31 * (-s * dx + c * dy) / 1.5 + 11.5]
    np.testing.assert_allclose(pixel, by_hand, rtol=0, atol=1e-6)
    near = depth.frames.read(1)[round(float(pixel[1])), round(float(pixel[0]))]
    ray = depth.camera.unproject(pixel).directions
    again = se3.transform_points(poses[1], ray / ray[2] * float(near))
    np.testing.assert_allclose(again, in_world, rtol=0, atol=1e-6)


def test_unmatched_are_left_out_and_counted(folder, png_writer):
    extra = f"{START_S}.350000"
    png_writer(folder / "rgb/extra.png", np.zeros((H, W, 3), dtype=np.uint8))
    edit(folder / "rgb.txt", lambda lines: [*lines, f"{extra} rgb/extra.png"])
    edit(
        folder / "depth.txt", lambda lines: [line.replace(f"{START_S}.108000 ", f"{START_S}.121000 ") for line in lines]
    )
    recording = open_recording(folder)
    assert said(
        recording, "2 of 4 pictures and 1 of 3 depth images have no partner within 20 ms (2 pairs) or no pose (0"
    )
    assert recording.reference.timestamps_ns.tolist() == [START_NS, START_NS + 200_000_000]
    assert recording.depth is not None and recording.depth.frames.read(1)[5, 5] == 1.0


def test_pictures_without_a_pose_are_left_out(folder):
    edit(folder / "groundtruth.txt", lambda lines: lines[:1] + lines[3:])
    recording = open_recording(folder)
    assert said(recording, "1 of 3 pictures and 1 of 3 depth images") and said(recording, "no pose (1 of these pairs)")
    assert recording.reference.timestamps_ns.tolist()[0] == START_NS + 100_000_000


def test_no_common_clock(folder):
    edit(folder / "groundtruth.txt", lambda lines: [line.replace(str(START_S), "17") for line in lines])
    with pytest.raises(TimeError, match="no overlap in time"):
        open_recording(folder)
    edit(folder / "depth.txt", lambda lines: [line.replace(f"{START_S}", "17", 1) for line in lines])
    with pytest.raises(RecordingError, match=r"\(0 pairs\).*nothing is left. Do the three lists have one clock"):
        open_recording(folder)


def test_pairs_by_brute_force():
    rng = np.random.default_rng(3)
    for _ in range(50):
        first, second = (np.unique(rng.integers(0, 300, rng.integers(1, 20))).astype(np.int64) for _ in range(2))
        away = np.abs(first[:, None] - second[None])
        expected = [
            (i, int(j)) for i, j in enumerate(away.argmin(axis=1)) if away[:, j].argmin() == i and away[i, j] <= 20
        ]
        rows, partners = pair_by_time(first, second, 20)
        assert list(zip(rows.tolist(), partners.tolist(), strict=True)) == expected


def test_order_and_doubles(folder):
    edit(folder / "rgb.txt", lambda lines: [*lines[::-1], lines[1]])
    edit(folder / "groundtruth.txt", lambda lines: lines[::-1])
    recording = open_recording(folder)
    assert len(recording.reference.frames) == 3 and (recording.reference.frames.read(2) == 100).all()
    edit(folder / "rgb.txt", lambda lines: [*lines, f"{START_S}.000000 rgb/{START_S}.100000.png"])
    with pytest.raises(TimeError, match=r"rgb\.txt lines 3 and 6 have the same time .* different files"):
        open_recording(folder)


# --- calibration ------------------------------------------------------------------------------------------------


def test_intrinsics_are_not_guessed(folder):
    (folder / "calibration.json").unlink()
    with pytest.raises(RecordingError, match=r'calibration\.json is missing.*Give \{"color_K": \[\[fx, 0, cx\]'):
        open_recording(folder)


def test_cameras_apart_and_distorted(folder):
    offset = np.eye(4)
    offset[0, 3] = 0.02
    calibrate(
        folder,
        color_distortion=[0.2, -0.1, 0.001, 0.002, 0.01],
        depth_K=[[29, 0, 15], [0, 29, 12], [0, 0, 1]],
        T_color_depth=offset.tolist(),
        depth_scale=1000,
    )
    recording = open_recording(folder)
    camera, depth = recording.reference.camera, recording.depth
    assert isinstance(camera, RadTanCamera) and camera.distortion == (0.2, -0.1, 0.001, 0.002, 0.01)
    assert depth is not None and depth.camera.params.tolist() == [29, 29, 15, 12]
    assert depth.reference_from_camera[0, 3] == 0.02 and depth.frames.read(0)[5, 5] == 10.0


@pytest.mark.parametrize(
    ("entries", "kind", "fault"),
    [
        ({"color_K": None}, RecordingError, "has no color_K. Give"),
        ({"color_K": [[1, 2], [3, 4]]}, RecordingError, "color_K in .* must be a 3x3 matrix"),
        ({"color_K": [[30, 0, 31], [0, 30, 23], [0, 0, 1]]}, RecordingError, "do not belong together"),
        ({"color_distortion": [0.1]}, RecordingError, "has 1 numbers, need k1 k2 p1 p2"),
        ({"color_distortion": ["a"] * 4}, RecordingError, "must be a list k1 k2 p1 p2"),
        ({"color_K": [[-30, 0, 15.5], [0, 30, 11.5], [0, 0, 1]]}, RecordingError, "calibration of colour images"),
        ({"T_color_depth": np.diag([2.0, 2, 2, 1]).tolist()}, PoseError, "T_color_depth in .* is not a rigid"),
        ({"depth_scale": 0}, RecordingError, "depth_scale in .* must be a positive number"),
        ({"depth_scale": "5000"}, RecordingError, "depth_scale in .* must be a positive number"),
    ],
)
def test_calibrations_that_cannot_be(folder, entries, kind, fault):
    calibrate(folder, **entries)
    with pytest.raises(kind, match=fault):
        open_recording(folder)


# --- broken folders ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rgb.txt", "depth.txt", "groundtruth.txt"])
def test_a_list_is_missing_or_empty(folder, name):
    (folder / name).write_text("# nothing\n")
    with pytest.raises(RecordingError, match=r"not a single file|no usable pose|no pose"):
        open_recording(folder)
    (folder / name).unlink()
    with pytest.raises(RecordingError, match=rf"is no known recording.*tum_rgbd does not fit.*no {name}"):
        open_recording(folder)


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (f"{START_S}.300000", "a row is 'seconds file'; is it cut off"),
        ("soon rgb/x.png", "line 5: time = 'soon' is no time"),
        (f"{START_S}.300000 rgb/none.png", r"line 5: file .*none\.png is missing; remove the row"),
        (f"{START_S}.300000 ../x.png", "leaves the recording folder"),
        (f"{START_S}.300000 /etc/hostname", "must be a relative path"),
        (f"{START_S}.300000 {'x' * 5000}", "is no path|is missing"),
        (f"{START_S}000000000 rgb/{START_S}.000000.png", "nanoseconds"),
    ],
)
def test_rows_that_cannot_be(folder, row, fault):
    edit(folder / "rgb.txt", lambda lines: [*lines, row])
    with pytest.raises(GeoError, match=fault):
        open_recording(folder)


def test_a_cut_off_depth_image(folder):
    path = next((folder / "depth").iterdir())
    path.write_bytes(path.read_bytes()[:-20])
    recording = open_recording(folder)
    assert said(recording, "1 depth images are cut off") and len(recording.reference.frames) == 3


@pytest.mark.parametrize("name", ["rgb.txt", "depth.txt", "groundtruth.txt", "calibration.json"])
def test_fuzz(folder, name):
    """Changes of each file end in a clean error or a sound recording."""
    offset = np.eye(4).tolist()
    calibrate(folder, depth_K=K, T_color_depth=offset, color_distortion=[0.01, 0.0, 0.0, 0.0], depth_scale=5000)

    def read():
        recording = open_recording(folder)
        assert recording.depth is not None
        recording.reference.frames.read(0), recording.depth.frames.read(0)
        return recording

    def sound(recording):
        count = len(recording.reference.frames)
        assert 1 <= count <= 3 and len(recording.depth.frames) == count
        poses = recording.trajectory.poses_at(recording.reference.timestamps_ns)
        assert se3.is_rigid(poses).all() and (np.diff(recording.reference.timestamps_ns) > 0).all()
        apart = np.abs(recording.depth.timestamps_ns - recording.reference.timestamps_ns)
        assert (apart <= 20_000_000).all()

    fuzzing.fuzz(f"tum_rgbd {name}", folder / name, read, sound)
