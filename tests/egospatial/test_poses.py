"""``egospatial poses``: a made-up room walked through, keyframes, scale from depth, and every refusal."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from egospatial.cli import app
from egospatial.errors import FrontDoorError
from egospatial.poses import PosesRequest
from egospatial.unposed import open_unposed
from geo import se3
from geo.alignment import absolute_error
from geo.cameras import Camera, PinholeCamera, camera_from_params
from geo.errors import GeoError, RecordingError
from geo.readers import open_recording
from geo.recording import DepthStream
from geo.sfm.config import PosesConfig
from geo.sfm.keyframes import PictureSignals, choose_keyframes, filler_pairs, keyframe_pairs, picture_signals
from geo.sfm.scale import scale_from_depth
from geo.trajectory import Trajectory
from geo.world import Gravity

SIZE = 360
COUNT = 26
STEP = 100_000_000
KB4 = camera_from_params(
    "KB4", (SIZE, SIZE), [130.0, 130.0, 179.5, 179.5, 0.021, -0.0045, 0.0008, -0.0001], np.radians(95)
)
PINHOLE = PinholeCamera(SIZE, SIZE, 300.0, 300.0, 179.5, 179.5)
STAMPS = np.arange(COUNT, dtype=np.int64) * STEP + 5_200_000_000


@pytest.fixture
def invoke():
    return CliRunner().invoke


def wall_texture(seed: int) -> np.ndarray:
    """Blobs of all sizes: features at every scale."""
    import cv2

    rng = np.random.default_rng(seed)
    out = np.zeros((800, 800, 3))
    for size in (8, 20, 50, 125, 320):
        layer = rng.uniform(0, 1, (size, size, 3))
        out += cv2.resize(layer, (800, 800), interpolation=cv2.INTER_CUBIC)
    out -= out.min()
    return (out / out.max() * 255).astype(np.uint8)


TEXTURES = [wall_texture(seed) for seed in range(6)]


def room_hit(origin: np.ndarray, rays: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distance along each ray to the walls of a box of half side 2 m, the axis and side of the wall hit."""
    with np.errstate(divide="ignore"):
        along = (np.where(rays >= 0, 2.0, -2.0) - origin) / rays
    axis = np.argmin(along, axis=-1)
    return (
        np.take_along_axis(along, axis[..., None], -1)[..., 0],
        axis,
        np.take_along_axis(rays, axis[..., None], -1)[..., 0] > 0,
    )


def picture_of(camera: Camera, pose: np.ndarray) -> np.ndarray:
    """The room as a camera sees it; black where it sees nothing."""
    rays = camera.unproject(camera.pixel_grid())
    directions = np.where(rays.valid[..., None], rays.directions, [0.0, 0.0, 1.0]) @ pose[:3, :3].T
    distance, axis, far = room_hit(pose[:3, 3], directions)
    points = pose[:3, 3] + directions * distance[..., None]
    out = np.zeros((camera.height_px, camera.width_px, 3), dtype=np.uint8)
    for wall in range(3):
        for side in (False, True):
            here = rays.valid & (axis == wall) & (far == side)
            uv = np.delete(points[here], wall, axis=1)
            u, v = np.clip((uv + 2) / 4 * 799, 0, 799).astype(int).T
            out[here] = TEXTURES[2 * wall + side][v, u]
    return out


def walk() -> np.ndarray:
    """world_from_camera: a curved path through the room, the head turning a little."""
    poses = []
    for i in range(COUNT):
        a = i / COUNT * 1.6
        turn = se3.rotation_from_axis_angle(np.array([0.15 * np.sin(3 * a), 0.5 * a - 0.4, 0.05 * np.sin(5 * a)]))
        origin = np.array([0.9 * np.sin(a) - 0.5, 0.15 * np.sin(4 * a), 0.5 * np.cos(1.5 * a) - 0.7])
        poses.append(se3.from_rotation_translation(turn, origin))
    return np.stack(poses)


def write_recording(folder: Path, camera: Camera, with_depth: bool = False) -> Path:
    """A plain recording without trajectory.csv."""
    import cv2

    (folder / "rgb").mkdir(parents=True)
    for i, pose in enumerate(walk()):
        _, data = cv2.imencode(".png", picture_of(camera, pose)[..., ::-1])
        (folder / "rgb" / f"{i:06d}.png").write_bytes(data.tobytes())
    theta = getattr(camera, "valid_theta_rad", None)
    entry = {
        "model": camera.model, "width": SIZE, "height": SIZE, "params": camera.params.tolist(),
        "valid_theta_deg": None if theta is None else float(np.degrees(theta)),
        "images": "rgb/%06d.png", "timestamps_ns": STAMPS.tolist(),
    }  # fmt: skip
    cameras = {"eye": entry}
    if with_depth:
        cameras["depth"] = depth_entry(folder)
    document = {
        "format": "egospatial/1", "id": "room", "reference_camera": "eye", "world": {"metric": True, "up": [0, 0, 1]},
        "cameras": cameras,
    }  # fmt: skip
    (folder / "recording.json").write_text(json.dumps(document))
    (folder / "hands.csv").write_text("timestamp_ns,side,joint,x_m,y_m,z_m\n5200000000,left,0,1,2,3\n")
    return folder


DEPTH = PinholeCamera(80, 60, 60.0, 60.0, 39.5, 29.5)
OFFSET = np.array([0.08, 0.0, 0.0])


def depth_image(pose: np.ndarray) -> np.ndarray:
    """Depth along z of a camera 8 cm to the right of the reference camera, in metres."""
    rays = DEPTH.unproject(DEPTH.pixel_grid()).directions
    origin = pose[:3, :3] @ OFFSET + pose[:3, 3]
    return room_hit(origin, rays @ pose[:3, :3].T)[0] * rays[..., 2]


def depth_entry(folder: Path) -> dict:
    import h5py

    with h5py.File(folder / "sensor.h5", "w") as file:
        file["mm"] = np.stack([np.rint(1000 * depth_image(pose)) for pose in walk()]).astype(np.uint16)
    mount = se3.from_rotation_translation(np.eye(3), OFFSET)
    return {
        "model": "PINHOLE", "width": 80, "height": 60, "params": DEPTH.params.tolist(),
        "reference_from_camera": mount.tolist(), "timestamps_ns": STAMPS.tolist(),
        "depth": {"file": "sensor.h5", "dataset": "mm", "unit_m": 0.001, "kind": "z"},
    }  # fmt: skip


def error_of(trajectory: Trajectory, align: str):
    truth = Trajectory(STAMPS, walk())
    length = np.linalg.norm(np.diff(truth.world_from_body[:, :3, 3], axis=0), axis=1).sum()
    error = absolute_error(trajectory, truth, align)
    return error, error.translation.rmse / length


# --- whole runs ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_fisheye_recording_gets_metric_poses_and_can_be_read(tmp_path, invoke):
    """Scale from a depth camera that sits 8 cm aside; twice the same bytes; hands of no world stay behind."""
    pytest.importorskip("pycolmap", reason="pycolmap is in the dev extra")
    source = write_recording(tmp_path / "in", KB4, with_depth=True)
    words = ["poses", str(source), "--scale-from", "depth", "--json", "--quiet", "--out"]
    result = invoke(app, [*words, str(tmp_path / "a")])
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["registered"] >= 0.9 * COUNT and said["metric"] and said["scale"]["spread"] < 0.05
    recording = open_recording(tmp_path / "a" / "room")
    assert recording.world.metric and recording.world.gravity is Gravity.UNKNOWN and not recording.hands
    error, part = error_of(recording.trajectory, "sim3")
    assert part < 0.01 and error.rotation_deg.rmse < 0.5
    assert error.alignment.scale == pytest.approx(1, abs=0.02)  # metres are metres
    assert recording.reference.frames.read(3).shape == (SIZE, SIZE, 3) and recording.depth is not None
    head = (tmp_path / "a" / "room" / "points.ply").read_bytes()[:100]
    assert f"element vertex {said['points']}\n".encode() in head
    again = invoke(app, [*words, str(tmp_path / "b")])
    assert again.exit_code == 0
    for name in ("trajectory.csv", "points.ply", "poses.json", "recording.json"):
        assert (tmp_path / "a" / "room" / name).read_bytes() == (tmp_path / "b" / "room" / name).read_bytes(), name
    blocked = invoke(app, [*words, str(tmp_path / "a")])
    assert blocked.exit_code == 2 and "--force" in blocked.stderr
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["room"]  # nothing left of the work


@pytest.mark.slow
def test_images_without_a_calibration(tmp_path, invoke):
    """A folder of images: focal length estimated, times nominal, scale unknown."""
    pytest.importorskip("pycolmap", reason="pycolmap is in the dev extra")
    source = write_recording(tmp_path / "in", PINHOLE)
    result = invoke(app, ["poses", str(source / "rgb"), "--out", str(tmp_path / "out"), "--rate", "10", "--json", "-q"])
    assert result.exit_code == 0, result.output
    recording = open_recording(tmp_path / "out" / "rgb")
    assert not recording.world.metric and len(recording.reference.timestamps_ns) == COUNT
    shifted = Trajectory(recording.trajectory.timestamps_ns + STAMPS[0], recording.trajectory.world_from_body)
    assert len(shifted.timestamps_ns) >= 0.9 * COUNT and error_of(shifted, "sim3")[1] < 0.02
    assert recording.reference.camera.params[0] == pytest.approx(300, rel=0.03)


@pytest.mark.slow
def test_pictures_of_nothing_end_in_one_clear_error(tmp_path, invoke):
    pytest.importorskip("pycolmap", reason="pycolmap is in the dev extra")
    import cv2

    for i in range(12):
        _, data = cv2.imencode(".png", np.full((64, 64, 3), 90 + i, dtype=np.uint8))
        (tmp_path / f"{i}.png").write_bytes(data.tobytes())
    result = invoke(app, ["poses", str(tmp_path), "--out", str(tmp_path / "out")])
    assert result.exit_code == 2 and "no map could be built" in result.stderr
    assert list((tmp_path / "out").iterdir()) == []


# --- refusals -----------------------------------------------------------------------------------------------------


def test_without_pycolmap_the_extra_is_named(tmp_path, invoke, monkeypatch):
    monkeypatch.setitem(sys.modules, "pycolmap", None)
    result = invoke(app, ["poses", str(tmp_path), "--out", str(tmp_path / "out")])
    assert result.exit_code == 2 and "pip install 'egospatial[poses]'" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_recording_without_poses_is_refused_elsewhere_with_one_line(tmp_path, invoke, make_recording_without_poses):
    folder = make_recording_without_poses
    for words in (["info", str(folder)], ["run", str(folder), "--out", str(tmp_path / "o")]):
        result = invoke(app, words)
        assert result.exit_code == 2 and f"egospatial poses {folder}" in result.stderr
        assert sum(line.startswith("error:") for line in result.stderr.splitlines()) == 1
    assert open_unposed(folder, None).calibrated


@pytest.fixture
def make_recording_without_poses(tmp_path) -> Path:
    import cv2

    folder = tmp_path / "bare"
    folder.mkdir()
    for i in range(3):
        _, data = cv2.imencode(".png", np.zeros((8, 10, 3), dtype=np.uint8))
        (folder / f"{i}.png").write_bytes(data.tobytes())
    entry = {
        "model": "PINHOLE",
        "width": 10,
        "height": 8,
        "params": [9, 9, 4.5, 3.5],
        "images": "%d.png",
        "timestamps_ns": [0, STEP, 2 * STEP],
    }
    document = {
        "format": "egospatial/1",
        "id": "bare",
        "reference_camera": "eye",
        "world": {"metric": False, "up": None},
        "cameras": {"eye": entry},
    }
    (folder / "recording.json").write_text(json.dumps(document))
    return folder


def test_a_video_and_a_folder_of_images_are_pointed_to_the_command(tmp_path, invoke, make_recording_without_poses):
    (make_recording_without_poses / "recording.json").unlink()
    video = tmp_path / "v.mp4"
    video.write_bytes(b"x")
    for path in (make_recording_without_poses, video):
        result = invoke(app, ["info", str(path)])
        assert result.exit_code == 2 and f"egospatial poses {path}" in result.stderr


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"scale_from": "imu"}, "an IMU is not used"),
        ({"scale_from": "depth", "metres_per_unit": 2.0}, "give one of them"),
        ({"metres_per_unit": 0.0}, "positive"),
        ({"rate_hz": -1.0}, "--rate"),
        ({"masks": Path("/nowhere/at/all")}, "no such folder"),
    ],
)
def test_impossible_requests(options, fault):
    with pytest.raises(FrontDoorError, match=fault):
        PosesRequest(Path("a"), Path("b"), **options)


@pytest.mark.parametrize(
    "options",
    [{"half_angle_deg": 89.0}, {"features": 0}, {"camera_model": "FOO"}, {"min_inliers": 3}, {"keyframe_flow": 0.0}],
)
def test_impossible_settings(options):
    with pytest.raises(GeoError):
        PosesConfig(**options)


def test_too_few_pictures_and_no_depth_to_scale_by(make_recording_without_poses, tmp_path, invoke):
    pytest.importorskip("pycolmap", reason="pycolmap is in the dev extra")
    words = ["poses", str(make_recording_without_poses), "--out", str(tmp_path / "o")]
    result = invoke(app, words)
    assert result.exit_code == 2 and "3 pictures; a map needs at least 10" in result.stderr


def test_an_empty_folder_is_no_recording(tmp_path):
    with pytest.raises(FrontDoorError, match="no images in it"):
        open_unposed(tmp_path, None)


# --- parts --------------------------------------------------------------------------------------------------------


def signals(flow: list[float], sharpness: list[float] | None = None) -> PictureSignals:
    count = len(flow)
    return PictureSignals(np.array(sharpness or [1.0] * count), np.array(flow), np.eye(max(count, 4))[:count])


def test_keyframes_follow_the_motion_and_the_time():
    stamps = np.arange(10, dtype=np.int64) * STEP
    steady = choose_keyframes(signals([0.0] + [0.02] * 9), stamps, 0.06, 10.0)
    assert steady.tolist() == [0, 3, 6, 9]
    still = choose_keyframes(signals([0.0] * 10), stamps, 0.06, 0.4)
    assert still.tolist() == [0, 4, 8, 9]  # the last is always there: nothing is extrapolated
    fast = choose_keyframes(signals([0.0] + [0.5] * 9), stamps, 0.06, 10.0)
    assert fast.tolist() == list(range(10))


def test_of_two_pictures_the_sharper_is_the_keyframe():
    stamps = np.arange(8, dtype=np.int64) * STEP
    blurred = [1.0, 1.0, 5.0, 0.1, 1.0, 1.0, 1.0, 1.0]
    assert choose_keyframes(signals([0.0] + [0.02] * 7, blurred), stamps, 0.06, 10.0)[:2].tolist() == [0, 2]


def test_pairs_are_neighbours_loops_and_fillers():
    keys = np.array([0, 3, 6, 9, 12])
    looks = np.eye(13)
    looks[12] = looks[0]  # the end looks like the beginning
    pairs = keyframe_pairs(keys, looks, 2, 1)
    assert {(0, 3), (0, 6), (3, 9), (0, 12)} <= set(pairs) and all(a < b for a, b in pairs)
    assert len(pairs) == len(set(pairs))
    fill = filler_pairs(keys, 13)
    assert {pair for pair in fill if 4 in pair} == {(0, 4), (3, 4), (4, 6), (4, 9)}
    assert not any(a in keys and b in keys for a, b in fill)


def test_signals_tell_blur_and_motion():
    import cv2

    texture = TEXTURES[0][:320, :320]
    moved = np.roll(texture, 16, axis=1)
    found = picture_signals([texture, moved, cv2.GaussianBlur(moved, (0, 0), 4)])
    assert found.flow[1] == pytest.approx(16 / 320, rel=0.1) and found.flow[2] < 0.01
    assert found.sharpness[2] < 0.2 * found.sharpness[1]


@pytest.mark.parametrize("scale", [0.02, 1.0, 37.0])
def test_scale_from_depth_with_a_camera_aside(scale):
    """Points on the walls, told in units of 1 / scale metres, a fifth of them moved: the scale comes back."""

    class Images:
        def __len__(self) -> int:
            return COUNT

        def read(self, index: int) -> np.ndarray:
            return depth_image(walk()[index]).astype(np.float32)

    rng = np.random.default_rng(2)
    origin = np.array([0.0, 0.0, -0.5])
    rays = rng.normal([0, 0, 2], 1, (3000, 3))
    points = origin + rays * room_hit(origin, rays)[0][:, None]
    points[::5] += rng.normal(0, 0.5, points[::5].shape)
    poses = walk().copy()
    poses[:, :3, 3] /= scale
    mount = se3.from_rotation_translation(np.eye(3), OFFSET)
    depth = DepthStream("depth", DEPTH, STAMPS, mount, Images())
    seen = {frame: np.arange(3000) for frame in range(0, COUNT, 4)}
    found = scale_from_depth(depth, Trajectory(STAMPS, poses), points / scale, seen, STAMPS, STEP // 2)
    assert found is not None and found.metres_per_unit == pytest.approx(scale, rel=0.01) and found.spread < 0.05
    few = {0: np.arange(20)}
    assert scale_from_depth(depth, Trajectory(STAMPS, poses), points / scale, few, STAMPS, STEP // 2) is None


def test_masks_are_read_by_number_and_checked(tmp_path):
    import cv2

    from geo.sfm.pictures import source_masks

    (tmp_path / "000001.png").write_bytes(cv2.imencode(".png", np.full((6, 8), 255, np.uint8))[1].tobytes())
    first, second = source_masks(tmp_path, [0, 1], (8, 6))
    assert first is None and second is not None and second.all()
    with pytest.raises(RecordingError, match="is 8x6, the pictures are 9x6"):
        list(source_masks(tmp_path, [0, 1], (9, 6)))
    with pytest.raises(RecordingError, match="not one mask"):
        list(source_masks(tmp_path / "none", [0, 1], (8, 6)))
