"""Kalibr rigs: a made one with known places and times, the Hilti sample by a manifest, and broken manifests."""

import copy
import json
from pathlib import Path
from typing import Any

import fuzzing
import numpy as np
import pytest
import yaml
from scipy.spatial.transform import Rotation

from geo import se3
from geo.errors import PoseError, RecordingError, TimeError
from geo.readers import open_recording, sniff
from geo.readers.kalibr_rig import read_rig_with
from geo.recording import Recording, with_reference
from geo.video import write_video
from geo.world import Gravity

W, H, FRAMES = 48, 36, 4
RATE_NS = 100_000_000
SHIFT_S = 0.0019


def matrix(euler_deg: list[float], move: list[float]) -> np.ndarray:
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = Rotation.from_euler("xyz", euler_deg, degrees=True).as_matrix(), move
    return out


CAM0_FROM_IMU = matrix([90, 0, 10], [0.01, -0.02, 0.03])
CAM1_FROM_CAM0 = matrix([0, 2, 0], [-0.11, 0, 0.001])
REAR_FROM_IMU = matrix([-90, 5, 180], [0.0, 0.04, -0.05])


def camera(**more: Any) -> dict[str, Any]:
    return {
        "camera_model": "pinhole",
        "distortion_model": "equidistant",
        "intrinsics": [20.0, 20.1, 23.5, 17.5],
        "distortion_coeffs": [-0.03, -0.005, 0.004, -0.002],
        "resolution": [W, H],
        "timeshift_cam_imu": SHIFT_S,
        "rostopic": "/x",
        **{key: value.tolist() for key, value in more.items()},
    }


def world_from_imu(i: int) -> np.ndarray:
    return matrix([0, 0, 5 * i], [0.1 * i, 0.5, 1.0])


def row(pose: np.ndarray) -> str:
    return " ".join(repr(float(value)) for value in [*pose[:3, 3], *Rotation.from_matrix(pose[:3, :3]).as_quat()])


def manifest(**changes: Any) -> dict[str, Any]:
    """Images 3 t + k: cam0 and cam1 of front.yaml, the rear camera of another file; poses every 50 ms in a TUM file."""
    entry = {"images": "images/%d.png", "step": 3, "timestamps_ns": {"start_ns": 10**9, "rate_hz": 10}}
    return {
        "format": "kalibr_rig/1",
        "reference_camera": "left",
        "cameras": {
            "left": {"camchain": "calib/front.yaml", "camera": "cam0", "first": 0, **entry},
            "right": {"camchain": "calib/front.yaml", "camera": "cam1", "first": 1, **entry},
            "rear": {"camchain": "calib/rear.yaml", "first": 2, **entry},
        },
        "trajectory": {"file": "poses.txt", "format": "tum", "body": "imu"},
        "world": {"metric": True, "up": [0, 0, 1]},
        **changes,
    }


@pytest.fixture
def folder(tmp_path: Path, png_writer) -> Path:
    root = tmp_path / "rig"
    (root / "images").mkdir(parents=True)
    (root / "calib").mkdir()
    cam1 = camera(T_cn_cnm1=CAM1_FROM_CAM0, T_cam_imu=CAM1_FROM_CAM0 @ CAM0_FROM_IMU)
    front = {"cam0": camera(T_cam_imu=CAM0_FROM_IMU), "cam1": cam1}
    (root / "calib/front.yaml").write_text(yaml.safe_dump(front))
    (root / "calib/rear.yaml").write_text(yaml.safe_dump({"cam0": camera(T_cam_imu=REAR_FROM_IMU)}))
    for number in range(3 * FRAMES):
        png_writer(root / f"images/{number}.png", np.full((H, W, 3), 20 * number, dtype=np.uint8))
    rows = [f"{1 + i * 0.05:.9f} {row(world_from_imu(i))}" for i in range(-1, 2 * FRAMES + 1)]
    (root / "poses.txt").write_text("\n".join(rows) + "\n")
    (root / "rig.json").write_text(json.dumps(manifest()))
    return root


def said(recording: Recording, text: str) -> bool:
    return any(text in warning for warning in recording.warnings)


def test_a_rig_of_two_camchains(folder):
    assert sniff(folder).format_name == "kalibr_rig"
    recording = open_recording(folder)
    assert recording.recording_id == "rig" and recording.world.gravity is Gravity.KNOWN and recording.world.metric
    assert [s.name for s in recording.others] == ["right", "rear"] and recording.reference.camera.model == "KB4"
    for k, stream in enumerate((recording.reference, *recording.others)):
        assert len(stream.frames) == FRAMES and (stream.frames.read(2) == 20 * (6 + k)).all()
    assert len(recording.input_files) == 1 + 2 + 3 * FRAMES + 1


def test_the_shift_takes_camera_stamps_to_the_imu_clock(folder):
    """t_imu = t_cam + 1.9 ms: pictures get later, and their poses are those 1.9 ms further on."""
    recording = open_recording(folder)
    stamps = recording.reference.timestamps_ns
    assert stamps.tolist() == [10**9 + i * RATE_NS + 1_900_000 for i in range(FRAMES)]
    assert said(recording, "stamps of left are moved by +1.900 ms to the IMU's clock")
    pose = recording.trajectory.poses_at(stamps)[1] @ np.linalg.inv(np.linalg.inv(CAM0_FROM_IMU))
    fraction = 0.0019 / 0.05  # between pose 2 and pose 3, 50 ms apart
    assert pose[0, 3] == pytest.approx(0.1 * (2 + fraction), abs=2e-4)
    table = manifest()
    for entry in table["cameras"].values():
        entry["clock"] = "imu"
    unshifted = read_rig_with(folder, table)
    assert unshifted.reference.timestamps_ns.tolist() == [10**9 + i * RATE_NS for i in range(FRAMES)]
    assert not said(unshifted, "are moved")


def test_poses_on_a_cameras_clock_are_shifted_as_well(folder):
    table = manifest()
    table["trajectory"]["clock"] = "left"
    recording = read_rig_with(folder, table)
    assert recording.trajectory.timestamps_ns[1] == 10**9 + 1_900_000
    both = recording.trajectory.poses_at(recording.reference.timestamps_ns)
    np.testing.assert_allclose(both[1], world_from_imu(2) @ np.linalg.inv(CAM0_FROM_IMU), atol=1e-9)


def test_every_camera_where_it_was_put(folder):
    recording = open_recording(folder)
    poses = recording.trajectory.world_from_body
    places = {"left": CAM0_FROM_IMU, "right": CAM1_FROM_CAM0 @ CAM0_FROM_IMU, "rear": REAR_FROM_IMU}
    for name, camera_from_imu in places.items():
        seen = with_reference(recording, name).reference
        for i in (0, 3, 7):
            expected = world_from_imu(i - 1) @ np.linalg.inv(camera_from_imu)
            np.testing.assert_allclose(poses[i] @ seen.reference_from_camera, expected, atol=1e-9)


@pytest.mark.parametrize("reference", ["left", "right", "rear"])
def test_any_reference_and_any_body_give_the_same_world(folder, reference):
    """The trajectory of the right camera, read as such, puts all cameras where the IMU's does."""
    right = CAM1_FROM_CAM0 @ CAM0_FROM_IMU
    rows = [f"{1 + i * 0.05:.9f} {row(world_from_imu(i) @ np.linalg.inv(right))}" for i in range(8)]
    (folder / "right.txt").write_text("\n".join(rows))
    by_camera = read_rig_with(
        folder,
        manifest(reference_camera=reference, trajectory={"file": "right.txt", "format": "tum", "body": "right"}),
    )
    by_imu = read_rig_with(folder, manifest(reference_camera=reference))
    np.testing.assert_allclose(by_camera.trajectory.world_from_body, by_imu.trajectory.world_from_body[1:9], atol=1e-9)


def test_a_stated_up_becomes_z(folder):
    recording = read_rig_with(folder, manifest(world={"metric": True, "up": [0, -1, 0]}))
    turn = recording.world.world_from_source_world
    np.testing.assert_allclose(turn[:3, :3] @ [0, -1, 0], [0, 0, 1], atol=1e-12)
    plain = read_rig_with(folder, manifest(world={"metric": False, "up": None}))
    assert not plain.world.metric and plain.world.gravity is Gravity.UNKNOWN
    np.testing.assert_allclose(
        recording.trajectory.world_from_body, turn @ plain.trajectory.world_from_body, atol=1e-12
    )


def test_numbered_poses(folder):
    rows = [f"VERTEX_SE3:QUAT {i} {row(world_from_imu(i))}" for i in range(9)]
    (folder / "graph.g2o").write_text("\n".join(rows))
    trajectory = {"file": "graph.g2o", "format": "g2o", "body": "imu", "numbers": "frames"}
    recording = read_rig_with(folder, manifest(trajectory=trajectory))
    assert np.array_equal(recording.trajectory.timestamps_ns, recording.reference.timestamps_ns)
    assert said(recording, "5 numbered poses belong to no frame and are left out")
    np.testing.assert_allclose(
        recording.trajectory.world_from_body[3], world_from_imu(3) @ np.linalg.inv(CAM0_FROM_IMU), atol=1e-9
    )
    trajectory["numbers"] = {"start_ns": 10**9, "rate_hz": 20, "first": 2}
    counted = read_rig_with(folder, manifest(trajectory=trajectory))
    assert counted.trajectory.timestamps_ns.tolist() == [900_000_000 + i * 50_000_000 for i in range(9)]
    del trajectory["numbers"]
    with pytest.raises(RecordingError, match="says what the ids of a g2o file mean"):
        read_rig_with(folder, manifest(trajectory=trajectory))


def test_stamps_in_the_names(folder, png_writer):
    (folder / "cam").mkdir()
    stamps = [1_403_636_579_763_555_584 + i * 50_000_000 for i in (0, 1, 3)]
    for i, stamp in enumerate(stamps):
        png_writer(folder / f"cam/{stamp}.png", np.full((H, W, 3), 40 * i, dtype=np.uint8))
    table = manifest()
    table["cameras"] = {"left": {"camchain": "calib/front.yaml", "images": "cam/%d.png", "timestamps_ns": "names"}}
    rows = [f"{stamp},0,0,{i},1,0,0,0" for i, stamp in enumerate(stamps)]
    (folder / "gt.csv").write_text("\n".join(rows))
    table["trajectory"] = {"file": "gt.csv", "format": "euroc", "body": "imu"}
    recording = read_rig_with(folder, table)
    assert recording.reference.timestamps_ns.tolist() == [stamp + 1_900_000 for stamp in stamps]
    assert (recording.reference.frames.read(2) == 80).all()


def test_a_video(folder):
    pictures = (np.full((H, W, 3), 30 * i, dtype=np.uint8) for i in range(FRAMES))
    times = np.array([0, 100, 250, 300]) * 1_000_000
    write_video(folder / "left.mp4", pictures, timestamps_ns=times)
    table = manifest()
    table["cameras"] = {
        "left": {"camchain": "calib/front.yaml", "video": "left.mp4", "timestamps_ns": {"start_ns": 10**9}}
    }
    recording = read_rig_with(folder, table)
    assert (recording.reference.timestamps_ns - 10**9 - 1_900_000).tolist() == times.tolist()
    table["cameras"]["left"]["step"] = 2
    with pytest.raises(RecordingError, match="step is for images"):
        read_rig_with(folder, table)


def test_the_euroc_layout_needs_no_manifest(folder, png_writer, tmp_path):
    root = tmp_path / "room1"
    stamps = [1_520_530_308_199_447_626 + i * 50_000_000 for i in range(3)]
    for k in range(2):
        (root / f"mav0/cam{k}/data").mkdir(parents=True)
        for i, stamp in enumerate(stamps):
            picture = np.full((H, W, 3), 40 * i + k, dtype=np.uint8)
            png_writer(root / f"mav0/cam{k}/data/{stamp}.png", picture)
    assert "no one *camchain*.yaml" in sniff(root).explain()
    (root / "dso").mkdir()
    (root / "dso/camchain.yaml").write_text((folder / "calib/front.yaml").read_text())
    (root / "mav0/mocap0").mkdir()
    rows = ["#timestamp [ns], p_RS_R_x [m], p_RS_R_y [m], p_RS_R_z [m], q_RS_w [], q_RS_x [], q_RS_y [], q_RS_z []"]
    rows += [f"{stamp - 10**7},0,0,{i},1,0,0,0" for i, stamp in enumerate([*stamps, stamps[-1] + 50_000_000])]
    (root / "mav0/mocap0/data.csv").write_text("\r\n".join(rows))
    assert sniff(root).format_name == "kalibr_rig"
    recording = open_recording(root)
    assert recording.reference.timestamps_ns.tolist() == [stamp + 1_900_000 for stamp in stamps]
    assert (recording.others[0].frames.read(2) == 81).all() and recording.world.gravity is Gravity.UNKNOWN
    np.testing.assert_allclose(recording.others[0].reference_from_camera, np.linalg.inv(CAM1_FROM_CAM0), atol=1e-9)
    pose = recording.trajectory.poses_at(recording.reference.timestamps_ns)[1] @ CAM0_FROM_IMU
    assert pose[2, 3] == pytest.approx(1 + 11.9 / 50)  # 11.9 ms after pose 1 of one every 50 ms
    (root / "camchain-2.yaml").write_text("")
    with pytest.raises(RecordingError, match=r"there are camchain-2\.yaml, dso/camchain\.yaml"):
        open_recording(root)


# --- manifests and files that cannot be ---------------------------------------------------------------------------


def edited(*path: str, value: Any) -> dict[str, Any]:
    table = copy.deepcopy(manifest())
    node = table
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return table


@pytest.mark.parametrize(
    ("path", "value", "kind", "fault"),
    [
        (("reference_camera",), "middle", RecordingError, "'middle' is not among cameras left, right, rear"),
        (("cameras", "left", "camera"), "cam7", RecordingError, "is 'cam7' of .*front.yaml, which has cam0, cam1"),
        (("cameras", "left", "camchain"), "calib/none.yaml", RecordingError, "none.yaml is missing"),
        (("cameras", "left", "camchain"), "../x.yaml", RecordingError, "leaves the recording folder"),
        (("cameras", "left", "images"), "../images/%d.png", RecordingError, "leaves the recording folder"),
        (("cameras", "left", "images"), "images/0.png", RecordingError, "needs exactly one number"),
        (("cameras", "left", "images"), "images/%d-%d.png", RecordingError, "needs exactly one number"),
        (("cameras", "left", "images"), "%d/x.png", RecordingError, "must be in the file's name"),
        (("cameras", "left", "images"), "images/%06d.png", RecordingError, "no file fits"),
        (("cameras", "left", "images"), "x" * 5000 + "%d", RecordingError, "no file fits|cannot be"),
        (("cameras", "left", "first"), 99, RecordingError, "no file fits"),
        (("cameras", "left", "count"), 9, RecordingError, r"image .*12\.png is missing"),
        (("cameras", "left", "count"), 10**9, RecordingError, "4 files fit .* meant"),
        (("cameras", "left", "video"), "x.mp4", RecordingError, "exactly one of video, images; it has video, images"),
        (("cameras", "left", "timestamps_ns"), [1, 2], TimeError, "has 4 pictures but 2 time stamps"),
        (("cameras", "left", "timestamps_ns"), [4, 3, 2, 1], TimeError, "does not rise from picture 0"),
        (("cameras", "left", "timestamps_ns"), [0, 1, 2, 2**63], TimeError, "146 years"),
        (("cameras", "left", "timestamps_ns"), {"start_ns": 0}, TimeError, "without rate_hz is for videos"),
        (("cameras", "left", "timestamps_ns"), {"start_ns": 0, "rate_hz": 0}, RecordingError, "fits none of"),
        (("cameras", "left", "timestamps_ns"), "names", RecordingError, "first, step and count go with counted"),
        (("trajectory", "body"), "lidar", RecordingError, "'lidar' is neither imu nor a camera"),
        (("trajectory", "clock"), "wall", RecordingError, "'wall' is neither imu nor a camera"),
        (("trajectory", "format"), "kitti", RecordingError, "must be one of"),
        (("trajectory", "file"), "none.txt", RecordingError, "none.txt is missing"),
        (("trajectory", "numbers"), "frames", RecordingError, "needed there, and only there"),
        (("world", "up"), [0, 0, 0], RecordingError, "is no direction"),
        (("world",), {"metric": True}, RecordingError, "'up' is missing"),
        (("format",), "kalibr_rig/2", RecordingError, "must be"),
    ],
)
def test_manifests_that_cannot_be(folder, path, value, kind, fault):
    with pytest.raises(kind, match=fault):
        read_rig_with(folder, edited(*path, value=value))


def test_pictures_and_poses_on_two_clocks(folder):
    """FIELD P5: microseconds taken as nanoseconds, and a start in another epoch, are refused with both ranges."""
    table = manifest()
    for entry in table["cameras"].values():
        entry["timestamps_ns"] = {"start_ns": 10**6, "rate_hz": 10_000}
    with pytest.raises(TimeError, match=r"no overlap in time: images run from 2900000 .* poses from 950000000 to"):
        read_rig_with(folder, table)


def test_numbers_order_pictures_not_text(folder):
    """FIELD V2: 9 comes before 12, hidden and other files do not count."""
    for name in ("._0.png", "Thumbs.db", "0.png.txt", "03.png"):
        (folder / "images" / name).write_bytes(b"x")
    recording = open_recording(folder)
    assert [file.name for file in recording.reference.frames.files] == ["0.png", "3.png", "6.png", "9.png"]
    assert [file.name for file in recording.others[0].frames.files] == ["1.png", "4.png", "7.png", "10.png"]


def test_a_picture_in_the_middle_is_missing(folder):
    (folder / "images/3.png").unlink()
    with pytest.raises(RecordingError, match=r"image .*3\.png is missing"):
        open_recording(folder)


def test_pictures_of_another_size(folder, png_writer):
    png_writer(folder / "images/0.png", np.zeros((H, H, 3), dtype=np.uint8))
    with pytest.raises(RecordingError, match=r"is 36x36, its calibration is for \(48, 36\)"):
        open_recording(folder)


def test_cameras_that_nothing_ties_together(folder):
    (folder / "calib/rear.yaml").write_text(yaml.safe_dump({"cam0": camera()}))
    with pytest.raises(PoseError, match=r"come from two camchains, which only T_cam_imu ties together, and rear\.yaml"):
        open_recording(folder)
    table = manifest()
    del table["cameras"]["left"], table["cameras"]["right"]
    table["reference_camera"] = "rear"
    with pytest.raises(PoseError, match=r"the trajectory is the IMU's, and .*rear\.yaml has no T_cam_imu"):
        read_rig_with(folder, table)
    table["trajectory"]["body"] = "rear"
    recording = read_rig_with(folder, table)
    np.testing.assert_allclose(recording.trajectory.world_from_body[4], world_from_imu(3), atol=1e-9)


def test_an_imu_that_only_a_later_camera_knows(folder):
    front = {"cam0": camera(), "cam1": camera(T_cn_cnm1=CAM1_FROM_CAM0, T_cam_imu=CAM1_FROM_CAM0 @ CAM0_FROM_IMU)}
    (folder / "calib/front.yaml").write_text(yaml.safe_dump(front))
    recording = open_recording(folder)
    np.testing.assert_allclose(
        recording.trajectory.world_from_body[1], world_from_imu(0) @ np.linalg.inv(CAM0_FROM_IMU), atol=1e-9
    )


def test_a_link_out_of_the_folder(folder, tmp_path):
    (folder / "images/0.png").rename(tmp_path / "0.png")
    (folder / "images/0.png").symlink_to(tmp_path / "0.png")
    with pytest.raises(RecordingError, match="leaves the recording folder"):
        open_recording(folder)


# --- the sample ---------------------------------------------------------------------------------------------------


def hilti_manifest() -> dict[str, Any]:
    front = "calibration/calib_3_cam0-1-camchain-imucam.yaml"
    return {
        "format": "kalibr_rig/1",
        "reference_camera": "cam0",
        "cameras": {
            f"cam{k}": {
                "camchain": front if k < 2 else f"calibration/calib_3_cam{k}-camchain-imucam.yaml",
                "camera": f"cam{k}" if k < 2 else "cam0",
                "images": "images/%d.jpg",
                "first": k,
                "step": 5,
                "timestamps_ns": {"start_ns": 0, "rate_hz": 10},
                "clock": "imu",
            }
            for k in range(5)
        },
        "trajectory": {"file": "lidar/fastlio2.g2o", "format": "g2o", "numbers": "frames", "body": "imu"},
        "world": {"metric": True, "up": None},
    }


def test_hilti_from_the_raw_yaml(samples_dir):
    """Poses of all five cameras at instant 2 by plain numpy from the yaml and the graph's third line."""
    root = samples_dir / "hilti2022_fisheye_rig"
    recording = read_rig_with(root, hilti_manifest())
    assert [len(s.frames) for s in (recording.reference, *recording.others)] == [4, 3, 3, 3, 3]
    cells = [float(value) for value in (root / "lidar/fastlio2.g2o").read_text().split("\n")[2].split()[2:]]
    pose = matrix([0, 0, 0], cells[:3])
    pose[:3, :3] = Rotation.from_quat(cells[3:]).as_matrix()
    for k, stream in enumerate((recording.reference, *recording.others)):
        name = "calib_3_cam0-1" if k < 2 else f"calib_3_cam{k}"
        raw = yaml.safe_load((root / f"calibration/{name}-camchain-imucam.yaml").read_text())
        entry = raw[f"cam{k}" if k < 2 else "cam0"]
        expected = pose @ np.linalg.inv(np.array(entry["T_cam_imu"]))
        found = recording.trajectory.world_from_body[2] @ stream.reference_from_camera
        np.testing.assert_allclose(found, expected, atol=2e-6)
        assert stream.camera.params.tolist() == [*entry["intrinsics"], *entry["distortion_coeffs"]]
        assert stream.frames.read(2).shape == (540, 720, 3)
    assert not any("contradict" in warning for warning in recording.warnings)


def test_hilti_as_a_folder_of_its_own(samples_dir, tmp_path):
    """The manifest in a folder beside copies of the files: what a user does."""
    import shutil

    root = tmp_path / "hilti"
    for part in ("calibration", "images", "lidar"):
        shutil.copytree(samples_dir / "hilti2022_fisheye_rig" / part, root / part, copy_function=shutil.copyfile)
    (root / "rig.json").write_text(json.dumps(hilti_manifest()))
    recording = open_recording(root)
    assert recording.format_name == "kalibr_rig" and len(recording.others) == 4
    assert root / "rig.json" in recording.input_files and said(recording, "numbered poses belong to no frame")
    between = recording.others[0].reference_from_camera
    assert np.linalg.norm(between[:3, 3]) == pytest.approx(0.1082, abs=1e-4)  # 108 mm of forward stereo


@pytest.mark.parametrize("name", ["rig.json", "calib/front.yaml", "poses.txt"])
def test_fuzz(folder, name):
    """Changes of each file end in a clean error or a sound recording."""

    def read():
        recording = open_recording(folder)
        recording.reference.frames.read(0)
        return recording

    def sound(recording):
        assert se3.is_rigid(recording.trajectory.world_from_body).all()
        for stream in (recording.reference, *recording.others):
            assert len(stream.frames) == len(stream.timestamps_ns) >= 1
            assert (np.diff(stream.timestamps_ns) > 0).all() and se3.is_rigid(stream.reference_from_camera)

    fuzzing.fuzz(f"kalibr_rig {name}", folder / name, read, sound)
