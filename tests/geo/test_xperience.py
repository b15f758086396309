"""HOMIE / Xperience-10M episodes: the sample's proved relations, small episodes made here, and broken ones."""

import json
import random
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from geo.cameras import PinholeCamera
from geo.errors import CameraError, GeoError, PoseError, RecordingError, TimeError
from geo.readers import open_recording, sniff
from geo.readers import xperience as xp
from geo.recording import MissingFrames, Recording, with_reference
from geo.video import write_video
from geo.world import Gravity

N, STEREO, FISHEYE = 6, (32, 32), (40, 48)  # W, H
T0 = 82_777_404_821_554
STAMPS = [T0 + 50_000_000 * i for i in range(N)]
K01, K, D = [20.0, 20, 16, 16], [13.0, 13.1, 19.5, 23.5], [-0.05, 0.003, -0.006, 0.001]
BASELINE = 0.12


def matrix(rotation: Rotation, move: list[float]) -> np.ndarray:
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = rotation.as_matrix(), move
    return out


def rig() -> dict[str, np.ndarray]:
    """Body (x right, y down, z forward) to cameras: cam0 and cam1 turned outwards, where the rectified pair sits."""
    left = matrix(Rotation.from_euler("x", -30, degrees=True), [0.06, 0.1, -0.2])
    right = np.eye(4)
    right[0, 3] = -BASELINE
    out = {"stereo_left": left, "stereo_right": right @ left}
    for number, (yaw, source) in enumerate(((-25, "stereo_left"), (25, "stereo_right"))):
        turn = matrix(Rotation.from_euler("y", -yaw, degrees=True), [0, 0, 0])
        out[f"fisheye_cam{number}"] = turn @ out[source]
    for number, yaw in ((2, 150), (3, -150)):
        turn = Rotation.from_euler("y", -yaw, degrees=True)
        out[f"fisheye_cam{number}"] = matrix(turn, [0.1 * number, 0.01, 0.05])
    return out


def hand(thumb_last: bool = False) -> np.ndarray:
    """A flat hand of 21 joints: the thumb starts 3 cm from the wrist, the others 9 cm; the little finger is short."""
    fingers = []
    for base, way, bone in (
        ([-0.03, 0, 0], [-0.7, 0.7, 0], 0.03),
        ([-0.03, 0.085, 0], [0, 1, 0], 0.03),
        ([0, 0.09, 0], [0, 1, 0], 0.032),
        ([0.02, 0.085, 0], [0, 1, 0], 0.03),
        ([0.04, 0.08, 0], [0, 1, 0], 0.022),
    ):
        fingers.append([np.array(base) + i * bone * np.array(way) for i in range(4)])
    order = [1, 2, 4, 3, 0] if thumb_last else [0, 1, 2, 3, 4]
    joints = np.array([np.zeros(3), *(joint for i in order for joint in fingers[i])])
    return joints + np.array([0.1, 0.05, 0.5])


def world_from_body() -> np.ndarray:
    """The body looks along world x, upright (world z up), goes forward and turns."""
    upright = Rotation.from_matrix(np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]], dtype=float))
    return np.array(
        [matrix(Rotation.from_euler("z", 4 * i, degrees=True) * upright, [0.05 * i, 0.2, 1.6]) for i in range(N)]
    )


CAPTION: dict[str, Any] = {
    "config": {"Main Task": "Packing"},
    "segments": [
        {
            "segment_id": 0,
            "start_frame": str(STAMPS[0]),
            "end_frame": "frame_0000007",
            "Sub Task": "fill the bin",
            "Current Action": [
                {"label": "reach", "description": "to the bin", "start_frame": 2, "end_frame_name": f"{STAMPS[3]}.jpg"},
                {
                    "label": "put",
                    "description": "",
                    "start_frame": STAMPS[4] + 20_000_000,
                    "end_frame": "frame_0000004",
                },
            ],
            "objects": {str(STAMPS[2]): ["bin", "hand"]},
            "interaction": {"frame_0000003": "reaching"},
        }
    ],
    "global_summary": "tidying",
}


def write(folder: Path, **changes: Any) -> Path:
    """annotation.hdf5 without videos; a change names a dataset (with __ for /) and gives its new content, or None."""
    import h5py

    folder.mkdir(parents=True, exist_ok=True)
    cameras = rig()
    inverse = np.linalg.inv(world_from_body())
    quats = Rotation.from_matrix(inverse[:, :3, :3]).as_quat()[:, [3, 0, 1, 2]]
    depth = np.full((N, 16, 16), 2.0, dtype=np.float32)
    depth[:, 8:] = 1.0
    depth[:, 0, 0] = 0
    confidence = np.full((N, 16, 16), 255, dtype=np.uint8)
    confidence[:, 3, 5:8] = [50, 51, 52]
    joints = np.zeros((N, 21, 3))
    joints[1:4] = hand()
    body = np.zeros((N, 52, 3))
    body[2] = 1.0
    body[3] = np.nan
    values: dict[str, Any] = {
        "calibration/cam01/K": K01,
        "calibration/cam01/T_c0_b": cameras["stereo_left"],
        "calibration/cam01/baseline": BASELINE,
        "slam/quat_wxyz": quats,
        "slam/trans_xyz": inverse[:, :3, 3],
        "slam/frame_names": np.array([f"{stamp}.jpg" for stamp in STAMPS], dtype="S32"),
        "slam/point_cloud": np.array([[1.0, 2, 3], [np.nan, 0, 0], [4, 5, 6]]),
        "depth/depth": depth,
        "depth/confidence": confidence,
        "depth/scale": 0.5,
        "hand_mocap/left_joints_3d": joints,
        "hand_mocap/right_joints_3d": np.zeros((N, 21, 3)),
        "full_body_mocap/keypoints": body[None],
        "full_body_mocap/contacts": np.full((N, 21), 0.25),
        "imu/device_timestamp_ns": T0 + np.arange(10) * 5_000_000,
        "imu/accel_xyz": np.ones((10, 3)),
        "imu/gyro_xyz": np.zeros((10, 3)),
        "imu/keyframe_indices": np.arange(N),
        "video/device_timestamp": np.array([str(stamp) for stamp in STAMPS], dtype="S20"),
        "metadata/ground_height": -1.6,
        "caption": json.dumps(CAPTION),
    }
    for i in range(4):
        group = f"calibration/cam{i}"
        values[f"{group}/K"], values[f"{group}/D"] = K, D
        key = "T_cn_cnm1" if i else "T_c_b"
        before = np.linalg.inv(cameras[f"fisheye_cam{i - 1}"]) if i else np.eye(4)
        values[f"{group}/{key}"] = cameras[f"fisheye_cam{i}"] @ before
        values[f"{group}/camera_model"], values[f"{group}/distortion_model"] = "pinhole", "equidistant"
    values |= {name.replace("__", "/"): value for name, value in changes.items()}
    with h5py.File(folder / "annotation.hdf5", "w") as file:
        for name, value in values.items():
            if callable(value):
                value(file, name)
            elif value is not None:
                file[name] = value
    return folder


def grey(value: int, size: tuple[int, int]) -> np.ndarray:
    return np.full((size[1], size[0], 3), value, dtype=np.uint8)


def add_videos(folder: Path, frames: dict[str, int] | None = None) -> Path:
    """Six videos; camera k shows grey 30 k + 20 on frame 0, and 5 brighter every frame."""
    for k, name in enumerate(xp.CAMERA_NAMES):
        size = STEREO if name.startswith("stereo") else FISHEYE
        count = (frames or {}).get(name, N)
        pictures = (grey(30 * k + 20 + 5 * i, size) for i in range(count))
        write_video(folder / f"{name}.mp4", pictures, rate_hz=20.0, preset="ultrafast")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "episode")


@pytest.fixture
def sample(samples_dir: Path) -> Path:
    return samples_dir / "xperience10m_format"


def said(recording: Recording, text: str) -> bool:
    return any(text in warning for warning in recording.warnings)


# --- the sample: FORMAT.md's proved relations -------------------------------------------------------------------------


def raw_chain(sample: Path) -> dict[str, np.ndarray]:
    """camera_from_body by plain numpy from the real calibration numbers."""
    raw = json.loads((sample / "xperience_sample_calibration.json").read_text())
    left = np.array(raw["cam01"]["T_c0_b"])
    right = left.copy()
    right[0, 3] -= raw["cam01"]["baseline"]
    out = {"stereo_left": left, "stereo_right": right, "fisheye_cam0": np.array(raw["cam0"]["T_c_b"])}
    for i in (1, 2, 3):
        out[f"fisheye_cam{i}"] = np.array(raw[f"cam{i}"]["T_cn_cnm1"]) @ out[f"fisheye_cam{i - 1}"]
    return out


def test_the_sample_rig_has_the_proved_relations(sample):
    warnings: list[str] = []
    found = xp.read_rig(sample, warnings)
    assert not warnings
    centre = {name: found.body_from_camera(name)[:3, 3] for name in xp.CAMERA_NAMES}
    for name, expected in raw_chain(sample).items():
        np.testing.assert_allclose(found.camera_from_body(name), expected, atol=5e-5)
        np.testing.assert_allclose(centre[name], np.linalg.inv(expected)[:3, 3], atol=1e-4)
    assert np.linalg.norm(centre["stereo_left"] - centre["fisheye_cam0"]) < 1e-4
    assert np.linalg.norm(centre["stereo_right"] - centre["fisheye_cam1"]) < 1e-4
    listed = [[-0.091, 0.029, 0.241], [0.054, 0.029, 0.240], [-0.134, 0.027, 0.048], [0.096, 0.027, 0.048]]
    for i, expected in enumerate(listed):
        np.testing.assert_allclose(centre[f"fisheye_cam{i}"], expected, atol=6e-4)
    axes = [found.body_from_camera(f"fisheye_cam{i}")[:3, 2] for i in (0, 1)]
    assert np.degrees(np.arccos(axes[0] @ axes[1])) == pytest.approx(51, abs=0.5)
    assert np.linalg.norm(centre["stereo_right"] - centre["stereo_left"]) == pytest.approx(0.1453, abs=1e-4)


def test_the_published_loaders_other_function_is_not_ours(sample):
    """Inverting T_cn_cnm1 puts cam1 seven centimetres away: the relation above tells the two readings apart."""
    raw = json.loads((sample / "xperience_sample_calibration.json").read_text())
    wrong = np.linalg.inv(np.array(raw["cam1"]["T_cn_cnm1"])) @ np.array(raw["cam0"]["T_c_b"])
    right = xp.read_rig(sample, []).body_from_camera("stereo_right")[:3, 3]
    assert np.linalg.norm(np.linalg.inv(wrong)[:3, 3] - right) > 0.05


def test_the_sample_opens_without_videos(sample):
    assert sniff(sample).format_name == "xperience"
    recording = open_recording(sample)
    assert isinstance(recording.reference.frames, MissingFrames) and said(recording, "stereo_left.mp4 is missing")
    with pytest.raises(RecordingError, match=r"picture 3 cannot be read: .*stereo_left\.mp4 is missing; fetch it"):
        recording.reference.frames.read(3)
    assert said(recording, "with it the image size of fisheye_cam2")
    assert recording.reference.name == "stereo_left" and [s.name for s in recording.others] == ["stereo_right"]
    assert recording.reference.timestamps_ns.tolist() == [T0 + i * 50_000_000 for i in range(20)]
    assert recording.world.metric and recording.world.gravity is Gravity.KNOWN and said(recording, "viewer's floor")
    assert recording.points is not None and recording.points.points_in_world.shape == (47, 3)


def test_sample_poses_from_the_raw_rows(sample):
    """world_from_left of every frame by scipy from the raw numbers; the invented body walks 0.2 m along world x."""
    import h5py

    recording = open_recording(sample)
    with h5py.File(sample / "annotation.hdf5") as file:
        quats, moves = file["slam/quat_wxyz"][()], file["slam/trans_xyz"][()]
    chain = raw_chain(sample)
    for i in (0, 7, 19):
        body_from_world = matrix(Rotation.from_quat(quats[i][[1, 2, 3, 0]]), moves[i])
        assert np.linalg.inv(body_from_world)[0, 3] == pytest.approx(0.2 * i / 19)
        for stream in (recording.reference, *recording.others):
            pose = recording.trajectory.world_from_body[i] @ stream.reference_from_camera
            np.testing.assert_allclose(pose, np.linalg.inv(chain[stream.name] @ body_from_world), atol=1e-4)


def test_sample_depth_and_captions(sample):
    recording = open_recording(sample)
    depth = recording.depth
    assert depth is not None and depth.camera == PinholeCamera(256, 256, 100.0, 100.0, 127.75, 127.75)
    image = depth.frames.read(19)
    assert (image[:128] == 1.5).all() and (image[128:] == 1.0).all() and image.dtype == np.float32
    warnings: list[str] = []
    captions = xp.read_captions(sample, warnings)
    segment = captions.segments[0]
    assert (segment.first_frame, segment.last_frame) == (0, 19) and not warnings  # frame_0000021 of 20: the last
    assert segment.start_ns == T0 and segment.actions[0].label == "Arrange items in bin"
    assert segment.objects == {0: ("plastic storage bin", "hand", "cardboard box")}
    assert xp.read_ground_height(sample) == -1.6


def test_the_other_caption_records_belong_to_other_recordings(sample):
    frames = xp.FrameNames(tuple(f"{T0 + i}.jpg" for i in range(3)), np.arange(T0, T0 + 3))
    records = json.loads((sample / "caption_samples.json").read_text())
    from geo.readers.xperience.captions import captions_from

    for record in records[1:]:
        warnings: list[str] = []
        captions = captions_from(record, frames, "caption", warnings)
        assert captions.segments[0].first_frame is None and captions.segments[0].start_ns is None
        assert "references name no frame of this recording: '7" in warnings[0]


# --- small episodes ---------------------------------------------------------------------------------------------------


def test_all_cameras_with_pictures(folder):
    add_videos(folder)
    recording = open_recording(folder)
    assert (
        said(recording, "fisheye_cam0 and fisheye_cam2 are reported to be exchanged") and len(recording.warnings) == 2
    )
    assert [s.name for s in recording.others] == list(xp.CAMERA_NAMES[1:])
    assert recording.others[1].camera.size_wh_px == FISHEYE and recording.others[1].camera.model == "KB4"
    assert recording.others[1].camera.params.tolist() == [*K, *D]
    for k, stream in enumerate((recording.reference, *recording.others)):
        assert int(stream.frames.read(4)[5, 5, 0]) == pytest.approx(30 * k + 40, abs=3)
    assert len(recording.input_files) == 7


def test_poses_of_every_camera(folder):
    add_videos(folder)
    recording = open_recording(folder)
    for name, camera_from_body in rig().items():
        seen = with_reference(recording, name)
        poses = seen.trajectory.world_from_body @ seen.reference.reference_from_camera
        np.testing.assert_allclose(poses, world_from_body() @ np.linalg.inv(camera_from_body), atol=1e-9)


def test_sound_is_a_videos_own_or_that_of_another(folder, tmp_path):
    """The fisheyes have sound, the rectified pair has none: all start with row 0, so it fits any of them."""
    import av

    with av.open(str(tmp_path / "sound.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=16000, layout="mono")
        samples = np.zeros((1, 8000), dtype=np.float32)
        frame = av.AudioFrame.from_ndarray(samples, format="fltp", layout="mono")
        frame.sample_rate = 16000
        for packet in (*stream.encode(frame), *stream.encode(None)):
            container.mux(packet)
    add_videos(folder)
    for name in ("fisheye_cam1", "fisheye_cam3"):
        pictures = (grey(20 * i, FISHEYE) for i in range(N))
        write_video(folder / f"{name}.mp4", pictures, rate_hz=20.0, audio_file=tmp_path / "sound.mp4")
    recording = open_recording(folder)
    assert recording.reference.audio_file == folder / "fisheye_cam1.mp4"
    assert with_reference(recording, "fisheye_cam3").reference.audio_file == folder / "fisheye_cam3.mp4"


def test_videos_that_are_exchanged(folder):
    add_videos(folder)
    swap = {"fisheye_cam0": "fisheye_cam2.mp4", "fisheye_cam2": "fisheye_cam0.mp4"}
    (folder / "cameras.json").write_text(json.dumps({"videos": swap}))
    recording = open_recording(folder)
    assert not said(recording, "exchanged")
    greys = {s.name: int(s.frames.read(0)[5, 5, 0]) for s in recording.others}
    assert greys["fisheye_cam0"] == pytest.approx(140, abs=3) and greys["fisheye_cam2"] == pytest.approx(80, abs=3)
    assert folder / "cameras.json" in recording.input_files


@pytest.mark.parametrize(
    ("entries", "fault"),
    [
        ({"videos": {"fisheye_cam0": "fisheye_cam2.mp4"}}, "would be the video of fisheye_cam0 and of fisheye_cam2"),
        ({"videos": {"fisheye_cam0": "../x.mp4"}}, "leaves the recording folder"),
        ({"videos": {"fisheye_cam0": "none.mp4"}}, r"none\.mp4 of fisheye_cam0 is missing"),
        ({"videos": {"cam0": "fisheye_cam0.mp4"}}, "videos.cam0: unknown"),
        ({"sizes": {"fisheye_cam0": [50, 50]}}, "fisheye_cam0.mp4 shows 40x48, cameras.json says"),
        ([], "expected object"),
    ],
)
def test_cameras_json_that_cannot_be(folder, entries, fault):
    add_videos(folder)
    (folder / "cameras.json").write_text(json.dumps(entries))
    with pytest.raises(RecordingError, match=fault):
        open_recording(folder)


def test_a_stated_size_keeps_a_camera_without_video(folder):
    (folder / "cameras.json").write_text(json.dumps({"sizes": {"fisheye_cam3": [40, 48]}}))
    recording = open_recording(folder)
    assert [s.name for s in recording.others] == ["stereo_right", "fisheye_cam3"]
    assert isinstance(recording.others[1].frames, MissingFrames)


def test_videos_of_other_lengths(folder):
    add_videos(folder, {"fisheye_cam1": N - 2, "stereo_left": N + 3})
    recording = open_recording(folder)
    assert said(recording, f"fisheye_cam1.mp4 has {N - 2} frames, the annotation {N} rows: the first {N - 2} are used")
    short = next(s for s in recording.others if s.name == "fisheye_cam1")
    assert len(short.frames) == len(short.timestamps_ns) == N - 2
    assert len(recording.reference.frames) == len(recording.reference.timestamps_ns) == N
    write_video(folder / "fisheye_cam1.mp4", (grey(0, FISHEYE) for _ in range(40)), rate_hz=20.0)
    with pytest.raises(RecordingError, match=r"fisheye_cam1\.mp4 has 40 frames, the annotation 6 rows"):
        open_recording(folder)


def test_videos_of_other_sizes(folder):
    add_videos(folder)
    write_video(folder / "fisheye_cam1.mp4", (grey(0, (80, 96)) for _ in range(N)), rate_hz=20.0)
    assert said(open_recording(folder), "K of fisheye_cam1 has its centre at [20.0, 24.0], far from the middle")
    write_video(folder / "stereo_left.mp4", (grey(0, (64, 64)) for _ in range(N)), rate_hz=20.0)
    with pytest.raises(RecordingError, match=r"stereo_left\.mp4 shows \(64, 64\), but the depth images belong to"):
        open_recording(folder)


def test_depth_is_cleaned_by_confidence_and_lies_in_the_middle_of_its_four_pixels(folder):
    recording = open_recording(folder)
    depth = recording.depth
    assert depth is not None
    image = depth.frames.read(2)
    assert np.isnan(image[0, 0]) and np.isnan(image[3, 5]) and image[3, 6] == 2 and image[3, 7] == 2  # 51 / 255 = 0.2
    assert np.isfinite(image).sum() == 16 * 16 - 2
    full = recording.reference.camera
    for u, v in ((0, 0), (7, 3), (15, 15)):
        ray = depth.camera.unproject(np.array([u, v], dtype=float)).directions
        np.testing.assert_allclose(full.project(ray).pixels_xy, [2 * u + 0.5, 2 * v + 0.5], atol=1e-9)
    with pytest.raises(IndexError):
        depth.frames.read(N)


def test_invalid_rows_are_gaps(tmp_path):
    inverse = np.linalg.inv(world_from_body())
    quats = Rotation.from_matrix(inverse[:, :3, :3]).as_quat()[:, [3, 0, 1, 2]]
    moves = inverse[:, :3, 3].copy()
    quats[1], moves[1] = 0, 0
    moves[4, 2] = np.nan
    folder = write(tmp_path / "e", slam__quat_wxyz=quats, slam__trans_xyz=moves)
    recording = open_recording(folder)
    assert recording.trajectory.timestamps_ns.tolist() == [STAMPS[i] for i in (0, 2, 3, 5)]
    assert said(recording, "2 rows without a finite pose are gaps (frames 1, 4)")
    assert recording.hands[0].timestamps_ns.tolist() == STAMPS[2:4]  # frame 1 shows a hand, but nobody knows where


@pytest.mark.parametrize("thumb_last", [False, True])
def test_hands_in_world_and_in_our_order(tmp_path, thumb_last):
    joints = np.zeros((N, 21, 3))
    joints[1:4] = hand(thumb_last)
    recording = open_recording(write(tmp_path / "e", hand_mocap__left_joints_3d=joints))
    (left,) = recording.hands
    assert left.side == "left" and left.timestamps_ns.tolist() == STAMPS[1:4] and np.isnan(left.confidence).all()
    poses = world_from_body() @ np.linalg.inv(rig()["stereo_left"])
    expected = np.array([(poses[i, :3, :3] @ hand().T).T + poses[i, :3, 3] for i in (1, 2, 3)])
    np.testing.assert_allclose(left.joints_in_world, expected, atol=1e-9)


def test_fingers_that_cannot_be_told_apart(tmp_path):
    joints = np.zeros((N, 21, 3))
    joints[2] = np.random.default_rng(1).normal(scale=0.1, size=(21, 3))
    recording = open_recording(write(tmp_path / "e", hand_mocap__left_joints_3d=joints))
    assert not recording.hands and said(recording, "the left hand is left out")


def test_body_imu_and_floor(folder):
    body = xp.read_body(folder, [])
    assert np.isnan(body.keypoints_in_world[[0, 1, 3, 4, 5]]).all() and (body.keypoints_in_world[2] == 1).all()
    assert (body.contact_probability == 0.25).all() and body.timestamps_ns.tolist() == STAMPS
    imu = xp.read_imu(folder)
    assert imu.timestamps_ns[1] - imu.timestamps_ns[0] == 5_000_000 and imu.frame_rows.tolist() == list(range(N))
    assert xp.read_ground_height(folder) == -1.6


@pytest.mark.parametrize(("name", "value", "expected"), [("body_height", 1.5, -1.5), ("floor_z", -1.2, -1.2)])
def test_floor_by_its_other_names(tmp_path, name, value, expected):
    assert xp.read_ground_height(write(tmp_path / "e", **{name: value})) == expected
    assert xp.read_ground_height(write(tmp_path / "f", metadata__ground_height=None)) is None


def test_upside_down_cameras_leave_gravity_unknown(tmp_path):
    flip = matrix(Rotation.from_euler("x", 180, degrees=True), [0, 0, 0])
    inverse = np.linalg.inv(flip @ world_from_body())
    quats = Rotation.from_matrix(inverse[:, :3, :3]).as_quat()[:, [3, 0, 1, 2]]
    recording = open_recording(write(tmp_path / "e", slam__quat_wxyz=quats, slam__trans_xyz=inverse[:, :3, 3]))
    assert recording.world.gravity is Gravity.UNKNOWN and said(recording, "would hold the cameras upside down")


def test_an_inverted_chain_is_noticed(tmp_path):
    cameras = rig()
    step = cameras["fisheye_cam1"] @ np.linalg.inv(cameras["fisheye_cam0"])
    recording = open_recording(write(tmp_path / "e", calibration__cam1__T_cn_cnm1=np.linalg.inv(step)))
    assert said(recording, "fisheye_cam1 sits") and said(recording, "is a transform the inverse")


def test_cam1_with_its_own_transform_to_body(tmp_path):
    changes = {"calibration__cam1__T_cn_cnm1": None, "calibration__cam1__T_c_b": rig()["fisheye_cam1"]}
    found = xp.read_rig(write(tmp_path / "e", **changes), [])
    np.testing.assert_allclose(found.camera_from_body("fisheye_cam3"), rig()["fisheye_cam3"], atol=1e-9)


def test_without_the_rectified_pairs_transform_the_pose_is_the_left_cameras(tmp_path):
    recording = open_recording(write(tmp_path / "e", calibration__cam01__T_c0_b=None))
    np.testing.assert_allclose(recording.trajectory.world_from_body, world_from_body(), atol=1e-9)
    assert said(recording, "no calibration/cam01/T_c0_b") and [s.name for s in recording.others] == ["stereo_right"]


def test_a_camera_that_is_not_there(tmp_path):
    changes = {f"calibration__cam3__{key}": None for key in ("K", "D", "T_cn_cnm1", "camera_model", "distortion_model")}
    recording = open_recording(add_videos(write(tmp_path / "e", **changes)))
    assert said(recording, "no calibration/cam3") and [s.name for s in recording.others] == list(xp.CAMERA_NAMES[1:5])


# --- captions ---------------------------------------------------------------------------------------------------------


def test_captions_in_four_forms(folder):
    warnings: list[str] = []
    captions = xp.read_captions(folder, warnings)
    assert not warnings and captions.main_task == "Packing" and captions.summary == "tidying"
    (segment,) = captions.segments
    assert (segment.first_frame, segment.last_frame) == (0, N - 1)
    assert (segment.start_ns, segment.end_ns) == (STAMPS[0], STAMPS[-1])
    reach, put = segment.actions
    assert (reach.first_frame, reach.last_frame) == (1, 3)  # the number 2 counts from 1; a name with its ending
    assert (put.first_frame, put.last_frame) == (3, 4)  # 20 ms after frame 4 is frame 4; and the ends were exchanged
    assert segment.objects == {2: ("bin", "hand")} and segment.interactions == {2: "reaching"}


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (STAMPS[3], 3),
        (str(STAMPS[3] + 24_000_000), 3),
        (str(STAMPS[3] + 26_000_000), 4),
        (f"{STAMPS[5] + 7}.jpg", 5),
        (STAMPS[0] - 900_000_000, 0),
        (STAMPS[0] - 1_100_000_000, None),
        (STAMPS[5] + 1_100_000_000, None),
        (99_999_999, N - 1),
        (100_000_000, None),
        (1, 0),
        ("6", 5),
        (0, 0),
        ("frame_0000001", 0),
        ("frame_0000006.jpg", 5),
        ("frame_0000999", N - 1),
        (f"{STAMPS[2]}", 2),
        (f"{STAMPS[2]}.jpg", 2),
        ("10**9", None),
        ("", None),
        (None, None),
        (True, None),
        (2.5, None),
        (10**30, None),
        (-3, None),
    ],
)
def test_references(reference, expected):
    frames = xp.FrameNames(tuple(f"{stamp}.jpg" for stamp in STAMPS), np.array(STAMPS, dtype=np.int64))
    assert frames.index(reference) == expected


def test_a_name_wins_over_a_number():
    frames = xp.FrameNames(("2", "1", "frame_0000001"), np.array(STAMPS[:3], dtype=np.int64))
    assert frames.index("2") == 0 and frames.index(1) == 1 and frames.index("frame_0000001") == 2
    assert frames.index(3) == 2


def test_a_caption_in_a_file_of_its_own(tmp_path):
    folder = write(tmp_path / "e", caption=None, captions="caption.json")
    with pytest.raises(RecordingError, match=r"caption\.json cannot be read"):
        xp.read_captions(folder, [])
    (folder / "caption.json").write_text(json.dumps(CAPTION))
    assert xp.read_captions(folder, []).segments[0].task == "fill the bin"
    with pytest.raises(RecordingError, match="leaves the recording folder"):
        xp.read_captions(write(tmp_path / "f", caption="../e/caption.json"), [])


@pytest.mark.parametrize(
    ("caption", "fault"),
    [
        (None, "has no caption"),
        ("", "is empty"),
        ('{"segments": [', "is no JSON.*cut off"),
        ("[1]", "must be a JSON object"),
        ('{"segments": 3}', "segments must be a list"),
        ('{"segments": ["x"]}', r"segments\[0\] must be a JSON object"),
        ("x" * 5000, "cannot be read|neither JSON"),
        ("[" * 100_000, "is no JSON"),
    ],
)
def test_captions_that_cannot_be(tmp_path, caption, fault):
    with pytest.raises(RecordingError, match=fault):
        xp.read_captions(write(tmp_path / "e", caption=caption), [])


# --- files that are not what they claim ---------------------------------------------------------------------------


def external_link(file: Any, name: str) -> None:
    import h5py

    file[name] = h5py.ExternalLink("/etc/hostname", "/x")


def soft_link(file: Any, name: str) -> None:
    import h5py

    file[name] = h5py.SoftLink("/calibration")


def reference(file: Any, name: str) -> None:
    import h5py

    file.create_dataset(name, data=np.array([file["calibration"].ref] * N, dtype=h5py.ref_dtype))


def external_bytes(file: Any, name: str) -> None:
    file.create_dataset(name, (N, 4), "f8", external=[("/etc/passwd", 0, 4 * N * 8)])


def virtual(file: Any, name: str) -> None:
    import h5py

    layout = h5py.VirtualLayout((N, 4), "f8")
    layout[:] = h5py.VirtualSource("/tmp/other.h5", "x", (N, 4))
    file.create_virtual_dataset(name, layout)


def huge(file: Any, name: str) -> None:
    file.create_dataset(name, (10**9, 4), "f8", chunks=(1000, 4))


def huge_and_packed(file: Any, name: str) -> None:
    data = file.create_dataset(name, (10**8, 4), "f8", chunks=(1000, 4), compression="gzip")
    data[:2000] = 0


def hollow(file: Any, name: str) -> None:
    file.create_dataset(name, (N, 4), "f8", chunks=(N, 4))


def one_chunk(file: Any, name: str) -> None:
    file.create_dataset(name, (N, 4096, 4096), "f4", chunks=(N, 4096, 4096), compression="gzip")


def ragged(file: Any, name: str) -> None:
    import h5py

    data = file.create_dataset(name, (N,), h5py.vlen_dtype(np.float64))
    data[0] = [1.0]


def nothing(file: Any, name: str) -> None:
    import h5py

    file[name] = h5py.Empty("f8")


def named_type(file: Any, name: str) -> None:
    file[name] = np.dtype("f8")


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("slam/quat_wxyz", external_link, "is a ExternalLink .* links to elsewhere are not read"),
        ("slam/quat_wxyz", soft_link, "is a SoftLink"),
        ("slam/quat_wxyz", reference, "holds object, no numbers"),
        ("slam/quat_wxyz", external_bytes, "has its data in other files"),
        ("slam/quat_wxyz", virtual, "has its data in other files"),
        ("slam/quat_wxyz", huge, "holds no data"),
        ("slam/quat_wxyz", huge_and_packed, r"shape \(100000000, 4\), expected \(6, 4\)"),
        ("slam/point_cloud", huge_and_packed, r"expected \(any, 3\)"),
        ("slam/quat_wxyz", hollow, "holds no data"),
        ("slam/quat_wxyz", ragged, "holds object, no numbers"),
        ("slam/quat_wxyz", nothing, "is empty"),
        ("slam/quat_wxyz", named_type, "is a datatype, no dataset"),
        ("slam/quat_wxyz", "words", "holds object, no numbers"),
        ("slam/quat_wxyz", np.array(["a"] * N, dtype="S4"), r"holds \|S4, no numbers"),
        ("slam/quat_wxyz", np.zeros((N, 4), complex), "holds complex128, no numbers"),
        ("slam/quat_wxyz", None, "slam/quat_wxyz is missing"),
        ("slam/frame_names", np.arange(N), "holds int64, no text"),
        ("slam/frame_names", reference, "holds object, no text"),
        ("slam/frame_names", np.array([b"\xff"] * N), "is no UTF-8"),
        ("depth/depth", one_chunk, "comes in chunks"),
        ("depth/depth", np.ones((N, 16, 16), np.int32), "is int32 .*, expected floats"),
        ("depth/depth", np.ones((N - 1, 16, 16), np.float32), r"expected \(6, height, width\)"),
        ("depth/confidence", np.ones((N, 16, 16)), "is float64 .*, expected uint8"),
        ("depth/confidence", np.ones((N, 8, 8), np.uint8), "expected uint8"),
        ("depth/scale", 0.3, "depth/scale = 0.3 does not fit"),
        ("depth/scale", 0.0, "does not fit"),
        ("calibration/cam01/K", np.eye(3), r"has shape \(3, 3\), expected \(4\)"),
        ("hand_mocap/left_joints_3d", np.ones((N, 20, 3)), r"expected \(6, 21, 3\)"),
    ],
)
def test_datasets_of_another_kind(tmp_path, name, value, fault):
    folder = write(tmp_path / "e", **{name.replace("/", "__"): value})
    with pytest.raises(RecordingError, match=fault) as caught:
        open_recording(folder).depth.frames.read(0)
    assert "annotation.hdf5" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "kind", "fault"),
    [
        ("calibration/cam0/K", [-1.0, 1, 1, 1], CameraError, "positive focal lengths"),
        ("calibration/cam0/D", [np.nan] * 4, CameraError, "four numbers of sensible size"),
        ("calibration/cam0/distortion_model", "radtan", CameraError, "the format's fisheyes are Kannala-Brandt"),
        ("calibration/cam0/T_c_b", 2 * np.eye(4), PoseError, "not a rigid"),
        ("calibration/cam2/T_cn_cnm1", np.full((4, 4), 1e300), RecordingError, "moves by more than 10 m"),
        ("calibration/cam01/baseline", -0.1, RecordingError, r"must lie in \(0, 1\)"),
        ("slam/quat_wxyz", np.full((N, 4), 0.9), PoseError, "has length"),
        ("slam/quat_wxyz", np.full((N, 4), np.nan), RecordingError, "no usable pose"),
        ("slam/frame_names", np.array([b"1"] * N), TimeError, "time does not rise|no time stamps"),
    ],
)
def test_numbers_that_cannot_be(tmp_path, name, value, kind, fault):
    changes: dict[str, Any] = {name.replace("/", "__"): value}
    if name == "slam/frame_names":
        changes["video__device_timestamp"] = None
    with pytest.raises(kind, match=fault):
        open_recording(write(tmp_path / "e", **changes))


def test_times_by_the_video_clock(tmp_path):
    names = np.array([f"frame_{i:06d}.jpg".encode() for i in range(N)])
    recording = open_recording(write(tmp_path / "e", slam__frame_names=names))
    assert recording.reference.timestamps_ns.tolist() == STAMPS
    whole = np.array(STAMPS) + 5_000_000
    recording = open_recording(write(tmp_path / "f", video__device_timestamp=whole))
    assert recording.reference.timestamps_ns.tolist() == STAMPS and said(recording, "differ by up to 5.0 ms")
    with pytest.raises(TimeError, match="are no time stamps, and there is no video/device_timestamp"):
        open_recording(write(tmp_path / "g", slam__frame_names=names, video__device_timestamp=None))
    with pytest.raises(TimeError, match="does not rise from frame 0"):
        open_recording(write(tmp_path / "h", slam__frame_names=names, video__device_timestamp=whole[::-1].copy()))


@pytest.mark.parametrize("kind", ["fixed", "variable", "numbers"])
def test_string_types(tmp_path, kind):
    texts = [f"{stamp}.jpg" for stamp in STAMPS]
    value: Any = np.array(texts, dtype="S40")
    if kind == "variable":
        value = texts
    if kind == "numbers":
        value = np.array([list(text.encode().ljust(24, b"\0")) for text in texts], dtype=np.uint8)
    recording = open_recording(write(tmp_path / "e", slam__frame_names=value))
    assert recording.reference.timestamps_ns.tolist() == STAMPS


@pytest.mark.parametrize("size", [0, 2**64 - 8, 10**6])
def test_a_text_heap_that_would_never_end(folder, size):
    """The HDF5 library loops for ever over heap objects that do not move on; they are seen before."""
    path = folder / "annotation.hdf5"
    data = bytearray(path.read_bytes())
    at = data.index(b"GCOL") + 16
    data[at : at + 16] = struct.pack("<HHIQ", 0 if size == 0 else 1, 1, 0, size)
    path.unlink()
    path.write_bytes(data)
    with pytest.raises(RecordingError, match=r"refers to a text heap that is damaged \(object"):
        xp.read_captions(folder, [])
    with pytest.raises(RecordingError, match="damaged"):
        open_recording(folder)


def test_text_of_variable_length_in_chunks(tmp_path):
    def chunked(file: Any, name: str) -> None:
        import h5py

        file.create_dataset(name, data=[f"{stamp}.jpg" for stamp in STAMPS], dtype=h5py.string_dtype(), chunks=(2,))

    with pytest.raises(RecordingError, match="variable length in chunks, which is not read"):
        open_recording(write(tmp_path / "e", slam__frame_names=chunked))


def test_a_file_that_is_cut_off(folder):
    path = folder / "annotation.hdf5"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(RecordingError, match=r"annotation\.hdf5 .*is it cut off"):
        open_recording(folder)


def test_user_written_narrations_are_taken(folder):
    (folder / "narrations.jsonl").write_text("")
    recording = open_recording(folder)
    assert recording.narrations_file == folder / "narrations.jsonl"


def test_fuzz_bytes(folder):
    """250 changed files end in a clean error or a sound recording."""
    path = folder / "annotation.hdf5"
    whole, rng, good = path.read_bytes(), random.Random(5), 0
    for _ in range(250):
        data = bytearray(whole)
        if rng.random() < 0.1:
            data = data[: rng.randrange(len(data))]
        for _ in range(rng.randint(1, 20)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        path.unlink()  # h5py may still hold the former file open
        path.write_bytes(data)
        try:
            recording = open_recording(folder)
            if recording.depth is not None:
                recording.depth.frames.read(3)
            xp.read_captions(folder, [])
        except GeoError as error:
            assert str(error)
            continue
        good += 1
        assert 1 <= len(recording.reference.timestamps_ns) == N
        assert np.isfinite(recording.trajectory.world_from_body).all()
    assert 5 < good < 245


def test_fuzz_datasets(tmp_path):
    """200 episodes in which some datasets are missing, cut, doubled, of another type, or hold huge numbers."""
    import h5py

    rng, good = np.random.default_rng(7), 0
    folder = write(tmp_path / "e")
    names: list[str] = []
    with h5py.File(folder / "annotation.hdf5") as file:
        file.visititems(lambda name, node: names.append(name) if isinstance(node, h5py.Dataset) else None)
    for round_number in range(200):
        shutil.copy(folder / "annotation.hdf5", tmp_path / "copy.h5")
        target = tmp_path / f"m{round_number}"
        target.mkdir()
        with h5py.File(tmp_path / "copy.h5", "a") as file:
            for name in rng.choice(names, size=rng.integers(1, 3), replace=False):
                value = file[name][()]
                del file[name]
                action = rng.integers(6)
                if action == 0 or not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu" or not value.ndim:
                    continue
                if action == 1:
                    file[name] = value[:-1]
                elif action == 2:
                    file[name] = np.concatenate([value, value])
                elif action == 3:
                    value = value.astype(np.float64)
                    value.flat[rng.integers(value.size)] = rng.choice([np.nan, np.inf, 1e300, -1e10, 0])
                    file[name] = value
                elif action == 4:
                    file[name] = np.nan_to_num(value).astype(np.int16)
                else:
                    file[name] = value[..., None]
        shutil.move(tmp_path / "copy.h5", target / "annotation.hdf5")
        try:
            recording = open_recording(target)
            if recording.depth is not None:
                recording.depth.frames.read(0)
        except GeoError as error:
            assert str(error)
            continue
        good += 1
        assert np.isfinite(recording.trajectory.world_from_body).all()
        for track in recording.hands:
            assert np.isfinite(track.joints_in_world).all()
    assert 5 < good < 195
