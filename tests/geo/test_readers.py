"""Readers: what a good folder gives, and one clear error for everything that is wrong with a bad one."""

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from geo.cameras import KannalaBrandtCamera, PinholeCamera
from geo.errors import CameraError, GeoError, PoseError, RecordingError, TimeError
from geo.readers import READERS, open_recording, sniff
from geo.recording import with_reference
from geo.world import Gravity

START = 1_718_892_641_002_929_366


def edit_lines(path: Path, change) -> None:
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")


# --- choosing a reader ------------------------------------------------------------------------------------------


def test_the_choice_is_explained(plain_folder, rgbd_folder):
    assert sniff(plain_folder).format_name == "plain" and sniff(rgbd_folder).format_name == "rgbd"
    text = sniff(rgbd_folder).explain()
    assert "rgbd fits: 4 frame-*.color files" in text and "plain does not fit: no recording.json" in text


def test_a_folder_that_is_no_recording_says_so_and_names_what_is_near(tmp_path, rgbd_folder):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(RecordingError, match=r"is no known recording; .*of no format \(plain, rgbd, .* a single file"):
        open_recording(tmp_path)
    for pose in rgbd_folder.glob("*.pose.txt"):
        pose.unlink()
    with pytest.raises(RecordingError, match=r"nearest: rgbd does not fit: 4 frame.*no frame-\*\.pose files"):
        open_recording(rgbd_folder)


def test_a_recording_one_folder_below_is_pointed_at(tmp_path, plain_folder):
    shutil.copytree(plain_folder, tmp_path / "set" / "take 1")
    with pytest.raises(RecordingError, match=r"its folder take 1/ is one \(plain\): give that"):
        open_recording(tmp_path / "set")


def test_narrations_that_are_a_link_out_of_the_folder_are_refused(tmp_path, rgbd_folder):
    (tmp_path / "elsewhere.jsonl").write_text("{}")
    (rgbd_folder / "narrations.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    with pytest.raises(RecordingError, match="leaves the recording folder"):
        open_recording(rgbd_folder)


def test_paths_that_are_no_folder(tmp_path):
    with pytest.raises(RecordingError, match="does not exist"):
        open_recording(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordingError, match="is a file; give the folder"):
        open_recording(tmp_path / "file")
    with pytest.raises(RecordingError, match=r"unknown format 'vrs'; known are plain, rgbd"):
        open_recording(tmp_path, "vrs")


def test_a_folder_that_fits_two_formats_must_be_named(plain_folder, rgbd_folder):
    for path in rgbd_folder.iterdir():
        shutil.copy(path, plain_folder)
    with pytest.raises(RecordingError, match=r"fits several formats \(plain, rgbd\): name one"):
        open_recording(plain_folder)
    assert open_recording(plain_folder, "rgbd").format_name == "rgbd"


# --- the plain layout -------------------------------------------------------------------------------------------


def test_plain_recording_as_written(plain_folder, image_of_frame):
    recording = open_recording(plain_folder)
    assert recording.recording_id == "wall_01" and recording.format_name == "plain" and not recording.warnings
    assert recording.reference.timestamps_ns.tolist() == [START + i * 100_000_000 for i in range(6)]
    assert (recording.reference.frames.read(4) == image_of_frame(4)).all()
    assert recording.world.metric and recording.world.gravity is Gravity.KNOWN
    np.testing.assert_allclose(recording.trajectory.world_from_body[:, 0, 3], 0.1 * np.arange(6))
    depth = recording.depth
    assert depth is not None and depth.reference_from_camera[0, 3] == 0.03
    image = depth.frames.read(3)
    assert image.dtype == np.float32 and np.isnan(image[0, 0]) and (np.delete(image.ravel(), 0) == 2.0).all()
    names = {path.name for path in recording.input_files}
    assert {"recording.json", "trajectory.csv", "sensor.h5", "000000.png"} <= names


def test_an_up_that_is_not_z_turns_the_world(make_plain):
    recording = open_recording(make_plain(lambda m: m["world"].update(up=[0, -2, 0])))
    turn = recording.world.world_from_source_world
    np.testing.assert_allclose(turn[:3, :3] @ [0, -1, 0], [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(recording.trajectory.world_from_body[2], turn @ pose_of_row(2), atol=1e-12)


def pose_of_row(i: int) -> np.ndarray:
    out = np.eye(4)
    out[:3, 3] = [0.1 * i, 0, 1.5]
    return out


def test_unknown_up_and_scale_stay_unknown(make_plain):
    world = open_recording(make_plain(lambda m: m.update(world={"metric": False, "up": None}))).world
    assert not world.metric and world.gravity is Gravity.UNKNOWN and np.isnan(world.up_sigma_rad)
    assert not world.has_up


def test_start_and_rate_give_exact_stamps(make_plain):
    def change(m):
        m["cameras"]["eye"]["timestamps_ns"] = {"start_ns": START, "rate_hz": 29.97}

    stamps = open_recording(make_plain(change)).reference.timestamps_ns
    assert stamps.tolist() == [START + round(i * 100_000_000_000 / 2997) for i in range(6)]


def test_ray_distance_becomes_z_depth(make_plain):
    folder = make_plain(lambda m: m["cameras"]["depth"]["depth"].update(kind="ray"))
    depth = open_recording(folder).depth
    assert depth is not None
    np.testing.assert_allclose(
        depth.frames.read(0)[23, 0], 2.0 / np.sqrt(1 + (31.5 / 60) ** 2 + (0.5 / 60) ** 2), rtol=1e-6
    )


def test_a_fisheye_with_its_valid_angle(make_plain):
    def change(m):
        m["cameras"]["eye"].update(model="KB4", params=[30, 30, 31.5, 23.5, 0.02, 0, 0, 0], valid_theta_deg=88.0)

    camera = open_recording(make_plain(change)).reference.camera
    assert isinstance(camera, KannalaBrandtCamera) and camera.max_theta_rad == pytest.approx(np.radians(88))


def test_gaze_and_hands_are_read_with_gaps_as_nan(plain_folder):
    (plain_folder / "gaze.csv").write_text(f"timestamp_ns,x_px,y_px,depth_m\n{START + 5},1.5,2,\n{START},,,0.7\n")
    rows = [f"{START},left,{j},{j / 10},0,1,0.9" for j in range(20)]
    (plain_folder / "hands.csv").write_text("timestamp_ns,side,joint,x_m,y_m,z_m,confidence\n" + "\n".join(rows) + "\n")
    recording = open_recording(plain_folder)
    assert recording.gaze is not None and recording.gaze.timestamps_ns.tolist() == [START, START + 5]
    assert np.isnan(recording.gaze.points_xy_px[0]).all() and recording.gaze.points_xy_px[1].tolist() == [1.5, 2.0]
    assert recording.gaze.depth_m[0] == 0.7 and np.isnan(recording.gaze.depth_m[1])
    (hand,) = recording.hands
    assert hand.side == "left" and hand.joints_in_world[0, 7, 0] == 0.7 and np.isnan(hand.joints_in_world[0, 20]).all()
    assert hand.confidence[0] == pytest.approx(0.9)


def test_bom_and_crlf_are_no_matter(plain_folder):
    for name in ("trajectory.csv", "recording.json"):
        text = (plain_folder / name).read_text()
        (plain_folder / name).write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert len(open_recording(plain_folder).trajectory.timestamps_ns) == 6


def test_a_nan_pose_is_a_gap_with_a_warning_naming_its_line(plain_folder):
    edit_lines(plain_folder / "trajectory.csv", lambda rows: [*rows[:3], rows[3].replace("1.5", "nan"), *rows[4:]])
    recording = open_recording(plain_folder)
    assert len(recording.trajectory.timestamps_ns) == 5
    assert recording.warnings == ("trajectory.csv: 1 rows without a finite pose are gaps (lines 4)",)


def test_only_nan_poses_are_an_error(plain_folder):
    edit_lines(plain_folder / "trajectory.csv", lambda rows: [rows[0], *(r.replace("1.5", "nan") for r in rows[1:])])
    with pytest.raises(RecordingError, match=r"trajectory\.csv has no usable pose"):
        open_recording(plain_folder)


def test_equal_stamps_with_different_poses_name_both_lines(plain_folder):
    edit_lines(plain_folder / "trajectory.csv", lambda rows: [*rows, rows[2].replace(",0.1,", ",0.9,")])
    with pytest.raises(TimeError, match=r"trajectory\.csv rows 3 and 8 have the same time stamp"):
        open_recording(plain_folder)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda m: m.pop("cameras"), RecordingError, "'cameras' is missing"),
        (lambda m: m.update(format="egospatial/9"), RecordingError, 'format: must be "egospatial/1"'),
        (lambda m: m.update(reference_camera="ear"), RecordingError, "reference_camera 'ear' is not among"),
        (lambda m: m["world"].update(up=[0, 0, 0]), RecordingError, "is no direction; use null"),
        (
            lambda m: m["cameras"]["eye"].update(timestamps_ns={"start_ns": 0, "rate_hz": 1e-300}),
            TimeError,
            "rate_hz = 1e-300 is no rate",
        ),
        (lambda m: m["world"].pop("metric"), RecordingError, "world: 'metric' is missing"),
        (lambda m: m["cameras"]["eye"].update(model="FISHEYE"), CameraError, "camera 'eye': unknown camera model"),
        (lambda m: m["cameras"]["eye"].update(params=[1, 2, 3]), CameraError, "PINHOLE has 4 or 5 parameters"),
        (lambda m: m["cameras"]["eye"].update(colour="red"), RecordingError, r"cameras\.eye\.colour: unknown"),
        (lambda m: m["cameras"]["eye"].update(width="64"), RecordingError, r"cameras\.eye\.width: expected integer"),
        (lambda m: m["cameras"]["eye"].update(timestamps_ns=[1.5]), RecordingError, "list of integer nanoseconds"),
        (lambda m: m["cameras"]["eye"]["timestamps_ns"].reverse(), TimeError, "time does not rise from frame 0"),
        (lambda m: m["cameras"]["eye"]["timestamps_ns"].append(10**19), RecordingError, r"000006\.png is missing"),
        (lambda m: m["cameras"]["eye"].update(video="a.mp4"), RecordingError, "exactly one of video, images"),
        (lambda m: m["cameras"]["eye"].update(images="rgb/%s.png"), RecordingError, "exactly one number"),
        (lambda m: m["cameras"]["eye"].update(images="../rgb/%06d.png"), RecordingError, "leaves the recording folder"),
        (lambda m: m["cameras"]["depth"]["depth"].update(file="/etc/passwd"), RecordingError, "relative path"),
        (lambda m: m["cameras"]["depth"]["depth"].update(file="x.h5"), RecordingError, r"file .*x\.h5 is missing"),
        (lambda m: m["cameras"]["depth"]["depth"].update(dataset="z"), RecordingError, "has no dataset 'z'"),
        (lambda m: m["cameras"]["depth"]["depth"].pop("unit_m"), RecordingError, "'unit_m' is missing"),
        (lambda m: m["cameras"]["depth"].update(width=32), RecordingError, "dataset depth_mm .* has shape"),
        (lambda m: m["cameras"]["depth"]["timestamps_ns"].pop(), TimeError, "'depth' has 6 frames but 5 time stamps"),
        (lambda m: m["cameras"]["depth"]["reference_from_camera"][0].__setitem__(0, 2), PoseError, "not a rigid"),
        (lambda m: m["cameras"]["depth"].update(model="KB4", params=[9.0] * 7), CameraError, "KB4 has 8 parameters"),
    ],
)  # fmt: skip
def test_each_fault_of_a_manifest_is_one_clear_error(make_plain, change, error, text):
    with pytest.raises(error, match=text):
        open_recording(make_plain(change))


@pytest.mark.parametrize("kind", ["z", "ray"])
def test_depth_of_a_distorted_camera_comes_as_a_pinhole(make_plain, kind):
    """2 m along the axis is a wall and stays 2 in every pixel; 2 m along the rays is a bowl, and less than 2 outside."""

    def change(manifest):
        manifest["cameras"]["depth"].update(model="KB4", params=[60.0, 60.0, 31.5, 23.5, 0.02, 0.0, 0.0, 0.0])
        manifest["cameras"]["depth"]["depth"]["kind"] = kind

    recording = open_recording(make_plain(change))
    depth = recording.depth
    assert depth is not None and any("undistorted to a pinhole" in text for text in recording.warnings)
    assert (depth.camera.fx_px, depth.camera.skew_px) == (60.0, 0.0)
    image = depth.frames.read(2)
    known = np.isfinite(image)
    assert image.shape == depth.camera.size_wh_px[::-1] and known.mean() > 0.8
    cosine = 1 / np.linalg.norm(depth.camera.normalised_points(depth.camera.pixel_grid()), axis=-1)
    expected = 2 * (cosine if kind == "ray" else np.ones_like(cosine))
    # a bowl is not flat between pixels, and beyond the outermost ones
    np.testing.assert_allclose(image[known], expected[known], rtol=1e-6 if kind == "z" else 1e-2)


def test_further_picture_cameras_are_read_with_their_mounts(make_plain):
    def change(manifest):
        eye = manifest["cameras"]["eye"]
        mount = [[0, 0, 1, 0.1], [0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 0, 1]]
        manifest["cameras"]["side"] = {**eye, "model": "KB4", "params": [60, 60, 31.5, 23.5, 0, 0, 0, 0]}
        manifest["cameras"]["side"]["reference_from_camera"] = mount
        manifest["cameras"]["gone"] = {**manifest["cameras"]["side"], "images": "gone/%06d.png"}
        manifest["cameras"]["loose"] = dict(eye)

    recording = open_recording(make_plain(change))
    (side,) = recording.others
    assert (side.name, side.camera.model) == ("side", "KB4") and len(side.frames) == 6
    np.testing.assert_array_equal(side.reference_from_camera[:3, 3], [0.1, 0, 0])
    assert any("camera gone is left out" in text and "no file fits" in text for text in recording.warnings)
    assert any("camera loose is left out" in text and "no reference_from_camera" in text for text in recording.warnings)
    assert sum(path.parent.name == "rgb" for path in recording.input_files) == 12
    seen_by_side = with_reference(recording, "side")
    assert seen_by_side.reference is side and [other.name for other in seen_by_side.others] == ["eye"]


def test_a_missing_image_names_its_full_path(plain_folder):
    gone = plain_folder / "rgb" / "000003.png"
    gone.unlink()
    with pytest.raises(RecordingError) as caught:
        open_recording(plain_folder)
    assert str(gone) in str(caught.value)


def test_a_truncated_depth_file_is_named(plain_folder):
    path = plain_folder / "sensor.h5"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(RecordingError, match=r"sensor\.h5 cannot be read: .*cut off"):
        open_recording(plain_folder)


def test_a_link_that_leaves_the_folder_is_refused(plain_folder, tmp_path):
    (tmp_path / "secret.h5").write_bytes((plain_folder / "sensor.h5").read_bytes())
    (plain_folder / "sensor.h5").unlink()
    os.symlink(tmp_path / "secret.h5", plain_folder / "sensor.h5")
    with pytest.raises(RecordingError, match="leaves the recording folder"):
        open_recording(plain_folder)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": NaN}', "\x00\x01"])
def test_broken_json_is_named(plain_folder, text):
    (plain_folder / "recording.json").write_text(text)
    with pytest.raises(RecordingError, match=r"recording\.json"):
        open_recording(plain_folder)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["a,b"], "line 1: columns are"),
        (["timestamp_ns,tx,ty,tz,qw,qx,qy,qz", "1,2,3"], "line 2 has 3 cells"),
        (["timestamp_ns,tx,ty,tz,qw,qx,qy,qz", "1.5,0,0,0,1,0,0,0"], "is no whole number"),
        (["timestamp_ns,tx,ty,tz,qw,qx,qy,qz", "1,x,0,0,1,0,0,0"], "tx = 'x' is no number"),
        (["timestamp_ns,tx,ty,tz,qw,qx,qy,qz", f"{2**63},0,0,0,1,0,0,0"], "does not fit 64 bits"),
        (["timestamp_ns,tx,ty,tz,qw,qx,qy,qz"], "no usable pose"),
        ([], "line 1: columns are"),
    ],
)
def test_each_fault_of_a_table_names_its_line(plain_folder, lines, text):
    (plain_folder / "trajectory.csv").write_text("\n".join(lines))
    with pytest.raises(RecordingError, match=text):
        open_recording(plain_folder)


def test_mutilated_files_end_in_a_clean_error_or_a_correct_read(plain_folder):
    """40 truncations and byte flips of the text files: never a foreign exception."""
    rng = np.random.default_rng(0)
    for name in ("recording.json", "trajectory.csv"):
        good = (plain_folder / name).read_bytes()
        for k in range(20):
            data = bytearray(good)
            if k % 2:
                data = data[: int(rng.integers(0, len(data)))]
            else:
                data[int(rng.integers(0, len(data)))] ^= int(rng.integers(1, 256))
            (plain_folder / name).write_bytes(bytes(data))
            try:
                open_recording(plain_folder)
            except GeoError:
                pass
        (plain_folder / name).write_bytes(good)


def test_schema_in_the_docs_is_the_one_that_is_checked():
    from geo.readers.plain_schema import PLAIN_SCHEMA

    text = (Path(__file__).resolve().parents[2] / "docs" / "formats.md").read_text()
    block = text.split("<!-- schema -->")[1].split("```json")[1].split("```")[0]
    assert json.loads(block) == PLAIN_SCHEMA


def test_the_formats_page_has_a_row_for_every_reader():
    text = (Path(__file__).resolve().parents[2] / "docs" / "formats.md").read_text().split("## The plain layout")[0]
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(READERS)


# --- RGB-D folders ----------------------------------------------------------------------------------------------


def test_rgbd_keeps_colour_and_depth_cameras_apart(rgbd_folder, image_of_frame):
    recording = open_recording(rgbd_folder)
    assert recording.reference.timestamps_ns.tolist() == [0, 166_666_666, 333_333_333, 500_000_000]  # 5 frames at 30 Hz
    assert recording.reference.camera == PinholeCamera(64, 48, 54.0, 54.0, 32.0, 24.0)
    assert recording.depth is not None and recording.depth.camera == PinholeCamera(64, 48, 60.0, 60.0, 32.0, 24.0)
    np.testing.assert_allclose(recording.depth.reference_from_camera[:3, 3], [-0.026, -0.004, 0])
    # the files hold the depth camera's pose: world_from_colour = pose @ inv(T_color_depth), 26 mm to the right
    np.testing.assert_allclose(recording.trajectory.world_from_body[1, :3, 3], [0.1 + 0.026, 0.004, 0], atol=1e-12)
    depth = recording.depth.frames.read(2)
    assert np.isnan(depth[0, :2]).all() and depth[1, 1] == 1.5
    assert (recording.reference.frames.read(3) == image_of_frame(3)).all()
    assert recording.world.metric and recording.world.gravity is Gravity.UNKNOWN


def test_rgbd_without_calibration_takes_colour_as_registered_and_says_so(rgbd_folder):
    (rgbd_folder / "calibration.json").unlink()
    recording = open_recording(rgbd_folder)
    assert recording.depth is not None and (recording.depth.reference_from_camera == np.eye(4)).all()
    assert "registered to depth" in recording.warnings[0]


def test_rgbd_truncated_depth_is_a_frame_without_depth_and_a_warning(rgbd_folder):
    path = rgbd_folder / "frame-000005.depth.png"
    path.write_bytes(path.read_bytes()[:-20])
    recording = open_recording(rgbd_folder)
    assert recording.depth is not None and np.isnan(recording.depth.frames.read(1)).all()
    assert len(recording.warnings) == 1 and str(path) in recording.warnings[0]
    assert np.isfinite(recording.depth.frames.read(2)).any()


def test_rgbd_missing_files_are_named(rgbd_folder):
    for kind in ("color.png", "depth.png", "pose.txt"):
        path = rgbd_folder / f"frame-000010.{kind}"
        data = path.read_bytes()
        path.unlink()
        with pytest.raises(RecordingError) as caught:
            open_recording(rgbd_folder)
        assert str(path) in str(caught.value)
        path.write_bytes(data)


def test_rgbd_nan_pose_is_a_gap_and_only_nan_is_an_error(rgbd_folder):
    nan = np.full((4, 4), np.nan)
    np.savetxt(rgbd_folder / "frame-000005.pose.txt", nan)
    recording = open_recording(rgbd_folder)
    assert recording.trajectory.timestamps_ns.tolist() == [0, 333_333_333, 500_000_000]
    assert "frames without a finite pose (gaps): 5" in recording.warnings[0]
    for path in rgbd_folder.glob("*.pose.txt"):
        np.savetxt(path, nan)
    with pytest.raises(RecordingError, match=r"no pose of .* is finite"):
        open_recording(rgbd_folder)


def test_rgbd_images_that_contradict_the_calibration_are_refused(rgbd_folder):
    data = json.loads((rgbd_folder / "calibration.json").read_text())
    data["color_K"] = [[528, 0, 320], [0, 528, 240], [0, 0, 1]]
    (rgbd_folder / "calibration.json").write_text(json.dumps(data))
    with pytest.raises(RecordingError, match=r"are 64x48, but the calibration's principal point is \(320, 240\)"):
        open_recording(rgbd_folder)


def test_rgbd_hidden_and_foreign_files_are_left_out(rgbd_folder):
    for name in ("._frame-000000.color.png", "Thumbs.db", "frame-x.color.png"):
        (rgbd_folder / name).write_bytes(b"x")
    assert len(open_recording(rgbd_folder).reference.timestamps_ns) == 4


@pytest.mark.samples
def test_kitchen_sample(samples_dir):
    recording = open_recording(samples_dir / "sevenscenes_redkitchen")
    assert recording.format_name == "rgbd" and len(recording.reference.frames) == 200 and recording.depth is not None
    assert recording.reference.camera == PinholeCamera(640, 480, 528.0, 528.0, 320.0, 240.0)
    assert recording.depth.camera == PinholeCamera(640, 480, 585.0, 585.0, 320.0, 240.0)
    assert recording.narrations_file is not None and recording.narrations_file.name == "narrations.jsonl"
    depth = recording.depth.frames.read(60)
    assert 0.8 < np.isfinite(depth).mean() < 0.95 and 0.7 < np.nanmin(depth) and np.nanmax(depth) < 4.0
