"""Aria recordings: pictures and calibration beside projectaria_tools and the decoded pictures, MPS tables joined to them."""

import csv
import gzip
import json
import pickle
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import fuzzing
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from geo import se3
from geo.cameras import camera_from_params
from geo.cameras.prism_fisheye import Fisheye624Camera
from geo.errors import CameraError, GeoError, RecordingError, TimeError
from geo.readers import open_recording, sniff
from geo.readers.aria import reader as aria_reader
from geo.readers.aria.calibration import at_stream_size, upright
from geo.readers.aria.tracks import extended, gaze_track
from geo.readers.aria.vrs import VrsFile, VrsFrames, by_design
from geo.readers.mps.gaze import MpsGaze, read_gaze
from geo.trajectory import Trajectory
from geo.world import Gravity

START_US = 87551170910
UTC_US = 1_689_350_322_000_000


@pytest.fixture(scope="module")
def adt(samples_dir: Path) -> Path:
    return samples_dir / "adt_apartment_clip"


@pytest.fixture(scope="module")
def vrs(adt: Path) -> VrsFile:
    return VrsFile(adt / "original/video.vrs")


@pytest.fixture(scope="module")
def device(adt: Path) -> Any:
    """The official device calibration."""
    from projectaria_tools.core import data_provider

    return data_provider.create_vrs_data_provider(str(adt / "original/video.vrs")).get_device_calibration()


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def save(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def shifted(rows: list[dict[str, str]], start_us: int, step_us: int) -> list[dict[str, str]]:
    return [row | {"tracking_timestamp_us": str(start_us + i * step_us)} for i, row in enumerate(rows)]


@pytest.fixture
def folder(tmp_path: Path, samples_dir: Path, adt: Path) -> Path:
    """The VRS of the ADT clip with MPS tables on its clock: ADT's own poses and gaze, hands and points of the MPS sample."""
    root, mps = tmp_path / "walk", samples_dir / "aria_mps_sample"
    (root / "mps/slam").mkdir(parents=True)
    (root / "mps/eye_gaze").mkdir()
    (root / "mps/hand_tracking").mkdir()
    shutil.copy(adt / "original/video.vrs", root / "recording.vrs")
    shutil.copy(adt / "original/aria_trajectory.csv", root / "mps/slam/closed_loop_trajectory.csv")
    shutil.copy(adt / "original/eyegaze.csv", root / "mps/eye_gaze/general_eye_gaze.csv")
    hands = table(mps / "hand_tracking/hand_tracking_results_v2.csv")
    hands = [row for row in hands if float(row["right_tracking_confidence"]) > 0][:3]
    save(root / "mps/hand_tracking/hand_tracking_results.csv", shifted(hands, START_US, 33_000))
    graph = table(adt / "original/aria_trajectory.csv")[0]["graph_uid"]
    points = [
        dict(zip("uid graph_uid px_world py_world pz_world inv_dist_std dist_std".split(), row, strict=True))
        for row in (
            (1, graph, 1, 2, 3, 0.0005, 0.01),
            (2, graph, 4, 5, 6, 0.0011, 0.01),
            (3, graph, 7, 8, 9, 0.0, 0.06),
        )
    ]
    lines = [",".join(points[0]), *(",".join(str(v) for v in row.values()) for row in points)]
    (root / "mps/slam/semidense_points.csv.gz").write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    return root


def said(warnings: Any, text: str) -> bool:
    return any(text in warning for warning in warnings)


# --- pictures and calibration -------------------------------------------------------------------------------------


def test_recognised_and_what_is_in_it(folder):
    assert sniff(folder).format_name == "aria"
    recording = open_recording(folder)
    assert recording.recording_id == "walk" and recording.format_name == "aria"
    assert [stream.name for stream in (recording.reference, *recording.others)] == [
        "camera-rgb",
        "camera-slam-left",
        "camera-slam-right",
    ]
    assert recording.reference.timestamps_ns.tolist() == [87551170813262, 87551204152300, 87551237472175]
    assert recording.world.gravity is Gravity.KNOWN and recording.world.metric
    assert {path.name for path in recording.input_files} >= {"recording.vrs", "closed_loop_trajectory.csv"}


def test_pictures_are_the_decoded_ones_turned_clockwise(vrs, adt):
    """decoded/ holds them as stored: the first row from the left becomes the last column from the top."""
    for stream, name in (("214-1", "camera-rgb"), ("1201-1", "camera-slam-left"), ("1201-2", "camera-slam-right")):
        frames = VrsFrames(vrs, stream, 1)
        assert len(frames) == 3
        for index in range(3):
            stored = cv2.imread(str(adt / f"decoded/{name}/image_{index:02}.png"), cv2.IMREAD_COLOR)[..., ::-1]
            shown = frames.read(index)
            assert shown.shape == (stored.shape[1], stored.shape[0], 3)
            assert np.array_equal(shown[:, -1], stored[0]) and np.array_equal(shown[0], stored[::-1, 0])
            assert np.array_equal(shown, cv2.rotate(stored, cv2.ROTATE_90_CLOCKWISE))


@pytest.mark.parametrize("name", ["camera-rgb", "camera-slam-left", "camera-slam-right"])
def test_points_of_the_device_land_where_projectaria_puts_them(folder, device, name):
    """Intrinsics, distortion and extrinsics have turned together (FIELD R5): (u, v) of the stored is (H - 1 - v, u)."""
    streams = {stream.name: stream for stream in (lambda r: (r.reference, *r.others))(open_recording(folder))}
    stream, official = streams[name], device.get_camera_calib(name)
    rng = np.random.default_rng(5)
    device_from_camera = official.get_transform_device_camera().to_matrix()
    in_camera = rng.normal(size=(400, 3)) * [0.6, 0.6, 0.1] + [0, 0, 1]
    in_device = se3.transform_points(device_from_camera, in_camera)
    mine = stream.camera.project(se3.transform_points(se3.inverse(stream.reference_from_camera), in_device)).pixels_xy
    height = official.get_image_size()[1]
    compared = 0
    for point, pixel in zip(in_camera, mine, strict=True):
        theirs = official.project(point)
        if theirs is not None:
            np.testing.assert_allclose(pixel, [height - 1 - theirs[1], theirs[0]], rtol=0, atol=1e-6)
            compared += 1
    assert compared > 200
    assert np.linalg.det(stream.reference_from_camera[:3, :3]) == pytest.approx(1.0)


def test_a_quarter_turn_by_hand():
    """A pinhole that looks along the device's z: upright x is the stored -y, so a point above (stored left) is up."""
    camera = camera_from_params("PINHOLE", (640, 480), [500, 510, 330, 235])
    mounted = upright(camera, np.eye(4))
    assert mounted.camera.params.tolist() == [510, 500, 480 - 1 - 235, 330] and mounted.camera.size_wh_px == (480, 640)
    in_upright = se3.transform_points(se3.inverse(mounted.device_from_camera), np.array([0.2, -0.1, 2.0]))
    np.testing.assert_allclose(in_upright, [0.1, 0.2, 2.0], atol=1e-15)
    np.testing.assert_allclose(mounted.camera.project(in_upright).pixels_xy, [269.5, 380.0], atol=1e-9)


def test_2880_to_1408_is_crop_32_then_halve(vrs):
    """The calibration text of the file is for 2880; the library's own calibration of the stream is for 1408."""
    text = json.loads(vrs.tags["calib_json"])
    raw = next(entry for entry in text["CameraCalibrations"] if entry["Label"] == "camera-rgb")["Projection"]["Params"]
    full = camera_from_params("FISHEYE624", (2880, 2880), raw, valid_radius_px=1415.0)
    small = at_stream_size(full, (1408, 1408))
    assert vrs.calibration is not None
    given = vrs.calibration.cameras["camera-rgb"]
    want = camera_from_params("FISHEYE624", (1408, 1408), given.params, valid_radius_px=given.valid_radius_px)
    np.testing.assert_allclose(small.params, want.params, rtol=0, atol=1e-9)
    assert given.valid_radius_px == 707.5
    assert isinstance(small, Fisheye624Camera) and isinstance(want, Fisheye624Camera)
    assert small.valid_radius == pytest.approx(want.valid_radius)
    point = np.array([0.3, -0.4, 1.0])  # pixel (u, v) of 1408 is the middle of pixels 32 + 2 u and 33 + 2 u
    np.testing.assert_allclose(small.project(point).pixels_xy, (full.project(point).pixels_xy - 32.5) / 2, atol=1e-9)
    assert at_stream_size(full, (2880, 2880)) is full
    assert (
        at_stream_size(camera_from_params("PINHOLE", (640, 480), [9, 9, 319.5, 239.5]), (320, 240)).params[2] == 159.5
    )
    with pytest.raises(CameraError, match="no whole part"):
        at_stream_size(full, (1400, 1408))


def test_pixels_beyond_the_valid_radius_have_no_ray(folder):
    camera = open_recording(folder).reference.camera
    centre = camera.params[2:4]
    rays = camera.unproject(np.array([centre + np.array([0, 707.0]), centre - np.array([0, 708.0]), [1.0, 1.0]]))
    assert rays.valid.tolist() == [True, False, False]


def test_frames_survive_a_copy_and_the_end_of_their_process(vrs):
    frames = VrsFrames(vrs, "1201-1", 1)
    first = frames.read(1)
    copied = pickle.loads(pickle.dumps(frames))
    assert np.array_equal(copied.read(1), first)
    process = vrs._worker._process
    assert process is not None
    process.kill()
    process.wait()
    assert np.array_equal(frames.read(1), first) and np.array_equal(frames.read(-2), first)
    with pytest.raises(IndexError):
        frames.read(3)


def test_a_process_that_hangs_is_given_up(monkeypatch, tmp_path, adt):
    script = tmp_path / "hang.py"
    script.write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr("geo.readers.aria.worker._WORKER", script)
    monkeypatch.setattr("geo.readers.aria.worker._TIMEOUT_S", 0.5)
    with pytest.raises(RecordingError, match="gave no answer"):
        VrsFile(adt / "original/video.vrs")


def test_generation_2_is_recognised_and_said_to_be_untested(folder, monkeypatch):
    monkeypatch.setattr(VrsFile, "generation", "Gen2")
    recording = open_recording(folder)
    assert said(recording.warnings, "Gen 2: not tested") and recording.gaze is None
    monkeypatch.setattr(VrsFile, "generation", "NotValid")
    with pytest.raises(RecordingError, match="no known Aria device"):
        open_recording(folder)


# --- poses, gaze, hands, points -----------------------------------------------------------------------------------


def test_poses_by_hand_and_up_is_z(folder):
    """Gravity is (0, -9.81, 0) in the file: a quarter turn about x takes its +y to +z."""
    recording = open_recording(folder)
    turn = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]])
    for row, pose in zip(
        table(folder / "mps/slam/closed_loop_trajectory.csv"), recording.trajectory.world_from_body, strict=True
    ):
        rotation = Rotation.from_quat([float(row[f"q{a}_world_device"]) for a in "xyzw"]).as_matrix()
        np.testing.assert_allclose(pose[:3, :3], turn @ rotation, atol=1e-9)
        np.testing.assert_allclose(pose[:3, 3], turn @ [float(row[f"t{a}_world_device"]) for a in "xyz"], atol=1e-9)
    upright_axis = recording.trajectory.world_from_body[1] @ recording.reference.reference_from_camera
    assert -upright_axis[2, 1] > 0.4  # the wearer looks down, yet the top of the picture is up


def test_rows_of_quality_0_are_gaps(folder):
    path = folder / "mps/slam/closed_loop_trajectory.csv"
    rows = table(path)
    rows[2]["quality_score"] = "0"
    save(path, rows)
    recording = open_recording(folder)
    assert len(recording.trajectory.timestamps_ns) == 5 and said(recording.warnings, "1 of 6 rows are gaps (quality 0")


def test_gaze_is_where_projectaria_puts_it(folder, device):
    from projectaria_tools.core import mps
    from projectaria_tools.core.mps.utils import get_gaze_vector_reprojection

    recording = open_recording(folder)
    gaze, camera = recording.gaze, device.get_camera_calib("camera-rgb")
    assert gaze is not None and len(gaze.timestamps_ns) == 6 and gaze.timestamps_ns[0] == 87551170907000
    rows = mps.read_eyegaze(str(folder / "mps/eye_gaze/general_eye_gaze.csv"))
    for row, pixel, depth in zip(rows, gaze.points_xy_px, gaze.depth_m, strict=True):
        u, v = get_gaze_vector_reprojection(row, "camera-rgb", device, camera, row.depth or 1.0)
        np.testing.assert_allclose(pixel, [1407 - v, u], rtol=0, atol=1e-3)
        assert np.isnan(depth) == (row.depth == 0)
    assert said(recording.warnings, "1 of 6 gaze rows have no depth; their pixels are those of a point 1 m away")


def per_eye(folder: Path, samples_dir: Path) -> Path:
    """The file with a yaw per eye and a depth, on the clock of the pictures."""
    path = folder / "mps/eye_gaze/personalized_eye_gaze.csv"
    rows = table(samples_dir / "aria_mps_sample/eye_gaze_vergence/generalized_gaze.csv")[:4]
    save(path, shifted(rows, START_US, 33_000))
    return path


def test_gaze_with_a_yaw_per_eye(folder, samples_dir, device):
    """Vergence point by hand: mean of the tangents, depth along the ray, CPF -> device -> camera."""
    path = per_eye(folder, samples_dir)
    recording = open_recording(folder)
    assert said(recording.warnings, "personalized_eye_gaze.csv is read; of its kind are also there")
    camera = device.get_camera_calib("camera-rgb")
    camera_from_cpf = camera.get_transform_device_camera().inverse() @ device.get_transform_device_cpf()
    assert recording.gaze is not None
    for row, pixel, distance in zip(table(path), recording.gaze.points_xy_px, recording.gaze.depth_m, strict=True):
        slope = (np.tan(float(row["left_yaw_rads_cpf"])) + np.tan(float(row["right_yaw_rads_cpf"]))) / 2
        ray = np.array([slope, np.tan(float(row["pitch_rads_cpf"])), 1.0])
        point = camera_from_cpf @ (ray / np.linalg.norm(ray) * float(row["depth_m"]))
        u, v = camera.project(point.ravel())
        np.testing.assert_allclose(pixel, [1407 - v, u], rtol=0, atol=1e-6)
        assert distance == pytest.approx(float(np.linalg.norm(point)))


def test_gaze_that_the_camera_does_not_see_is_nan(folder):
    camera = open_recording(folder).reference.camera
    nan = np.full(3, np.nan)
    straight = MpsGaze(
        np.arange(3),
        np.array([0, 1.5, np.nan]),
        np.zeros(3),
        np.array([2.0, 2, 2]),
        np.full((3, 2), np.nan),
        nan[:, None].repeat(2, 1),
    )
    track = gaze_track(straight, camera, np.eye(4))
    np.testing.assert_allclose(track.points_xy_px[0], camera.project(np.array([0, 0, 2.0])).pixels_xy)
    assert np.isnan(track.points_xy_px[1:]).all() and track.depth_m[0] == 2 and np.isnan(track.depth_m[2])


def test_hands_are_joints_in_world(folder):
    """0 wrist is Aria's landmark 5; the thumb's tip, joint 4, its landmark 0; little finger's tip 20 its 4."""
    recording = open_recording(folder)
    hands = {hand.side: hand for hand in recording.hands}
    row = table(folder / "mps/hand_tracking/hand_tracking_results.csv")[1]
    pose = recording.trajectory.poses_at(hands["right"].timestamps_ns)[1]
    for joint, landmark in ((0, 5), (4, 0), (8, 1), (20, 4), (5, 8)):
        point = [float(row[f"t{axis}_right_landmark_{landmark}_device"]) for axis in "xyz"]
        np.testing.assert_allclose(
            hands["right"].joints_in_world[1, joint], se3.transform_points(pose, np.array(point)), atol=1e-12
        )
    assert np.isnan(hands["right"].joints_in_world[:, 1]).all()


def test_points_pass_the_usual_filter_and_turn_with_the_world(folder):
    points = open_recording(folder).points
    assert points is not None
    np.testing.assert_allclose(points.points_in_world, [[1, -3, 2]], atol=1e-12)
    assert points.sigma_m.tolist() == [0.01]


def test_online_calibration_is_reported(folder, samples_dir):
    shutil.copy(samples_dir / "aria_mps_sample/trajectory/online_calibration.jsonl", folder / "mps/slam")
    assert said(
        open_recording(folder).warnings, "online_calibration.jsonl is there and not used: cameras are at factory"
    )


# --- clocks (FIELD P5) ----------------------------------------------------------------------------------------------


def test_poses_on_another_clock_are_refused(folder):
    path = folder / "mps/slam/closed_loop_trajectory.csv"
    save(path, shifted(table(path), UTC_US, 33_000))
    with pytest.raises(TimeError, match=r"1689350322000000000 to .* the pictures from 87551170813262 to .* no overlap"):
        open_recording(folder)


def test_gaze_and_hands_on_another_clock_are_left_out_and_said(folder):
    for name in ("eye_gaze/general_eye_gaze.csv", "hand_tracking/hand_tracking_results.csv"):
        save(folder / "mps" / name, shifted(table(folder / "mps" / name), UTC_US, 33_000))
    recording = open_recording(folder)
    assert recording.gaze is None and recording.hands == ()
    for what in ("gaze", "hands"):
        assert said(recording.warnings, f"{what} is left out" if what == "gaze" else "hands are left out")
    assert said(recording.warnings, "from 1689350322000000000 to") and said(recording.warnings, "87551170813262")


def test_end_poses_are_held_within_the_limit_only():
    poses = np.stack([np.eye(4), np.eye(4)])
    poses[1, 0, 3] = 1
    track, held = extended(Trajectory(np.array([100, 200]), poses), np.array([89, 95, 150, 205, 211]), 10)
    assert track.timestamps_ns.tolist() == [95, 100, 200, 205] and held == 2
    assert track.world_from_body[:, 0, 3].tolist() == [0, 0, 1, 1]


# --- folders that cannot be ---------------------------------------------------------------------------------------


def test_what_is_missing_is_named(folder, adt):
    (folder / "recording.vrs").rename(folder / "a.vrs")
    assert sniff(folder).format_name == "aria"  # the only one
    shutil.copy(folder / "a.vrs", folder / "b.vrs")
    assert sniff(folder).format_name is None
    with pytest.raises(RecordingError, match=r"several VRS files \(a.vrs, b.vrs\)"):
        open_recording(folder, "aria")
    for name in ("a.vrs", "b.vrs"):
        (folder / name).unlink()
    with pytest.raises(RecordingError, match="has no VRS file"):
        open_recording(folder, "aria")
    assert sniff(adt / "original").format_name == "adt"
    with pytest.raises(RecordingError, match="without poses nothing can be placed"):
        shutil.copy(adt / "original/video.vrs", folder)
        shutil.rmtree(folder / "mps")
        open_recording(folder, "aria")


def test_vrs_files_that_cannot_be(folder, adt):
    path = folder / "recording.vrs"
    whole = path.read_bytes()
    path.write_bytes(b"no vrs")
    with pytest.raises(RecordingError, match="is no VRS file"):
        open_recording(folder)
    path.write_bytes(whole[:5000])
    with pytest.raises(RecordingError, match=r"recording\.vrs .*Is the file cut off or damaged"):
        open_recording(folder)
    shutil.copy(adt / "original/depth_images.vrs", path)
    with pytest.raises(RecordingError, match="has no calibration"):
        open_recording(folder)


def test_a_table_by_a_link_out_of_the_folder_is_refused(folder, tmp_path):
    path = folder / "mps/slam/closed_loop_trajectory.csv"
    path.rename(tmp_path / "elsewhere.csv")
    path.symlink_to(tmp_path / "elsewhere.csv")
    with pytest.raises(RecordingError, match="leaves the recording folder"):
        open_recording(folder)


def test_builds_of_gen_1():
    small, large = (by_design(build)[1]["camera-slam-right"][:3, 3] for build in ("DVT-S", "DVT-L"))
    assert np.linalg.norm(small) == pytest.approx(0.1381, abs=1e-4)
    assert np.linalg.norm(large) == pytest.approx(0.1427, abs=1e-4)
    with pytest.raises(RecordingError, match="DVT-X"):
        by_design("DVT-X")


# --- fuzz -----------------------------------------------------------------------------------------------------------


TABLES = (
    "mps/slam/closed_loop_trajectory.csv",
    "mps/slam/semidense_points.csv.gz",
    "mps/eye_gaze/general_eye_gaze.csv",
    "mps/hand_tracking/hand_tracking_results.csv",
)


@pytest.mark.parametrize("name", TABLES)
def test_fuzz_of_the_tables(folder, name, monkeypatch):
    """Changes of each table end in a clean error or a sound recording (the VRS file is opened once)."""
    rig = aria_reader.read_rig(folder / "recording.vrs", [])
    monkeypatch.setattr(aria_reader, "read_rig", lambda path, warnings: rig)

    def sound(recording):
        assert se3.is_rigid(recording.trajectory.world_from_body).all()
        assert (np.diff(recording.trajectory.timestamps_ns) > 0).all()
        if recording.gaze is not None:
            known = recording.gaze.points_xy_px[np.isfinite(recording.gaze.points_xy_px).all(axis=1)]
            assert ((known >= -0.5) & (known <= 1407.5)).all()
        if recording.points is not None:
            assert np.isfinite(recording.points.points_in_world).all()

    fuzzing.fuzz(f"aria {name}", folder / name, lambda: open_recording(folder), sound, name.endswith(".gz"))


def test_fuzz_of_the_vrs_file(tmp_path, adt):
    """Bytes of the head, of the index and of the records: a clean error, or pictures of the right size.

    The library ends its process at some of these; ours goes on.
    """
    whole = (adt / "original/video.vrs").read_bytes()
    path, rng, errors = tmp_path / "a.vrs", random.Random(8), 0
    for number in range(40):
        data = bytearray(whole)
        if number % 4 == 0:
            del data[rng.randrange(len(data)) :]
        elif number % 4 == 3:
            at = rng.randrange(len(data))
            del data[at : at + rng.randrange(1, 50)]
        else:
            end, changes = (200, 3) if number % 4 == 1 else (len(data), 20)
            for _ in range(changes):
                data[rng.randrange(end)] = rng.randrange(256)
        path.write_bytes(data)
        try:
            rig = aria_reader.read_rig(path, [])
            for stream in rig.streams:
                for index in range(min(2, len(stream.frames))):
                    width, height = stream.camera.size_wh_px
                    assert stream.frames.read(index).shape == (height, width, 3)
        except GeoError as error:
            assert str(path) in str(error) or "camera" in str(error)
            errors += 1
    assert 0 < errors


def test_gaze_of_the_mps_sample_in_both_versions(samples_dir, folder):
    """Every row of both files has a pixel in the colour picture or is said to be unknown."""
    rig = aria_reader.read_rig(folder / "recording.vrs", [])
    assert rig.camera_from_cpf is not None
    for name in ("eye_gaze/generalized_eye_gaze.csv", "eye_gaze_vergence/generalized_gaze.csv"):
        gaze = read_gaze(samples_dir / "aria_mps_sample" / name, [])
        track = gaze_track(gaze, rig.streams[0].camera, rig.camera_from_cpf)
        known = np.isfinite(track.points_xy_px).all(axis=1)
        assert known.mean() > 0.5 and len(track.timestamps_ns) == len(gaze.timestamps_ns)
        again = gaze_track(replace(gaze, depth_m=np.full(len(known), 1.0)), rig.streams[0].camera, rig.camera_from_cpf)
        rays = rig.streams[0].camera.unproject(again.points_xy_px)
        at = se3.transform_points(rig.camera_from_cpf, gaze.directions_in_cpf())
        at = at / np.linalg.norm(at, axis=1, keepdims=True)
        np.testing.assert_allclose(rays.directions[rays.valid], at[rays.valid], atol=1e-7)
