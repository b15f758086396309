"""ADT sequences: against the decoded truth of the sample, by hand, and with every file broken."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import fuzzing
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from geo import se3
from geo.errors import PoseError, RecordingError, TimeError
from geo.readers import adt, open_recording, sniff
from geo.readers.adt import reader as adt_reader
from geo.readers.depth_files import DepthCoding
from geo.readers.object_tables import read_boxes_2d
from geo.recording import Recording
from geo.world import Gravity

Z_UP = np.array([[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1.0]])  # +y of the files is up
UPRIGHT = np.array([[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])  # turned once clockwise
SMALL = (
    "aria_trajectory.csv",
    "scene_objects.csv",
    "3d_bounding_box.csv",
    "instances.json",
    "eyegaze.csv",
    "metadata.json",
)


@pytest.fixture(scope="module")
def sample(samples_dir: Path) -> Path:
    return samples_dir / "adt_apartment_clip"


@pytest.fixture(scope="module")
def recording(sample: Path) -> Recording:
    return open_recording(sample / "original")


@pytest.fixture(scope="module")
def rig(sample: Path) -> Any:
    return adt_reader.read_rig(sample / "original/video.vrs", [])


@pytest.fixture
def folder(tmp_path: Path, sample: Path, rig: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tables of the sample with a stand-in for the VRS file, whose content is that of the sample's."""
    for name in SMALL:
        shutil.copy(sample / "original" / name, tmp_path)
    (tmp_path / "video.vrs").write_bytes(b"VisionRe")
    monkeypatch.setattr(adt_reader, "read_rig", lambda path, warnings: rig)
    return tmp_path


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def edit(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")


def said(recording: Recording, text: str) -> bool:
    return any(text in warning for warning in recording.warnings)


# --- against the decoded sample -------------------------------------------------------------------------------------


def test_recognised(sample, recording):
    assert sniff(sample / "original").format_name == "adt" and recording.format_name == "adt"
    assert recording.world.gravity is Gravity.KNOWN and recording.world.metric
    np.testing.assert_allclose(recording.world.world_from_source_world, Z_UP, atol=1e-15)
    assert len(recording.given_objects) == 349
    assert sum(item.static for item in recording.given_objects) == 304


def test_poses_of_all_nine_pictures(sample, recording):
    """frames.json has world_from_camera of the stored picture, by the nearest pose (at most 0.1 ms away)."""
    streams = {stream.name: stream for stream in (recording.reference, *recording.others)}
    frames = json.loads((sample / "decoded/frames.json").read_text())
    assert len(frames) == 9
    for frame in frames:
        stream = streams[frame["camera"]]
        stamp = int(stream.timestamps_ns[frame["index"]])
        assert stamp == frame["capture_timestamp_ns"]
        mine = recording.trajectory.poses_at(np.array([stamp]))[0] @ stream.reference_from_camera
        want = Z_UP @ np.array(frame["T_world_camera"]) @ UPRIGHT.T
        np.testing.assert_allclose(mine[:3, :3], want[:3, :3], atol=5e-4)
        np.testing.assert_allclose(mine[:3, 3], want[:3, 3], atol=1e-5 + abs(frame["pose_dt_ns"]) * 1e-9)


def test_cameras_are_the_decoded_ones(sample, recording):
    cameras = json.loads((sample / "decoded/cameras.json").read_text())
    for stream in (recording.reference, *recording.others):
        want = cameras[stream.name]
        focal, cu, cv = want["params"][:3]
        height = want["image_size_wh"][1]
        np.testing.assert_allclose(stream.camera.params[:4], [focal, focal, height - 1 - cv, cu], atol=1e-9)
        assert stream.camera.size_wh_px == tuple(want["image_size_wh"][::-1])
        stored = np.array(want["T_device_camera"]) @ UPRIGHT.T
        np.testing.assert_allclose(stream.reference_from_camera, stored, atol=1e-9)


def test_the_picture_before_the_first_pose_holds_it(recording):
    """The colour picture is 97 us older than the first pose; no pose would leave out a third of this clip."""
    assert said(recording, "1 pictures lie up to 1 ms outside")
    poses = recording.trajectory.poses_at(recording.reference.timestamps_ns)
    assert np.isfinite(poses).all() and np.array_equal(poses[0], recording.trajectory.world_from_body[1])


def test_depth_and_masks_are_upright(sample, recording):
    original, decoded = sample / "original", sample / "decoded"
    text = json.loads((decoded / "segmentation_index_to_object_uid.json").read_text())
    uids = np.zeros(1 + max(map(int, text)), dtype=np.int64)
    for index, uid in text.items():
        uids[int(index)] = 0 if uid == "background" else int(uid)
    cameras = {"214-1": "camera-rgb", "1201-1": "camera-slam-left", "1201-2": "camera-slam-right"}
    streams = {stream.name: stream for stream in (recording.reference, *recording.others)}
    for stream_id, name in cameras.items():
        coding = DepthCoding(streams[name].camera, 0.001, invalid=(0.0,))
        stamps, depth = adt.open_depth(original / "depth_images.vrs", stream_id, coding)
        masks = adt.open_segmentations(original, stream_id)
        assert stamps.tolist() == masks.timestamps_ns.tolist() == [87551170910000, 87551204237999]
        for index in range(2):
            counts = cv2.imread(str(decoded / f"{name}/depth_{index:02}.png"), cv2.IMREAD_UNCHANGED)
            counts = cv2.rotate(counts, cv2.ROTATE_90_CLOCKWISE).astype(float)
            np.testing.assert_allclose(depth.read(index), np.where(counts > 0, counts / 1000, np.nan), rtol=1e-6)
            labels = cv2.imread(str(decoded / f"{name}/segmentation_{index:02}.png"), cv2.IMREAD_UNCHANGED)
            labels = cv2.rotate(labels, cv2.ROTATE_90_CLOCKWISE)
            assert np.array_equal(masks.read(index), uids[labels])
    assert masks.nearest(87551204238000, 5) == 1 and masks.nearest(87551204238005, 5) is None


def test_masked_depth_lies_in_the_true_boxes(sample, recording):
    """Chain: depth, camera, extrinsics, pose, world, object pose, box. Nearly all pixels of 40 objects, to 2 cm."""
    original = sample / "original"
    reference = recording.reference
    _, depth = adt.open_depth(
        original / "depth_images.vrs", "214-1", DepthCoding(reference.camera, 0.001, invalid=(0.0,))
    )
    masks, z = adt.open_segmentations(original).read(1), depth.read(1)
    grid = reference.camera.pixel_grid()
    world_from_camera = recording.trajectory.world_from_body[2] @ reference.reference_from_camera
    good = 0
    for item in recording.given_objects:
        mine = (masks == int(item.object_id)) & np.isfinite(z)
        if mine.sum() < 100:
            continue
        pixels, depths = grid[mine][::20], z[mine][::20]
        rays = reference.camera.unproject(pixels)
        if not rays.valid.any():
            continue
        directions = rays.directions[rays.valid]
        points = directions / directions[:, 2:] * depths[rays.valid][:, None]
        world_from_object = item.world_from_object_at(int(reference.timestamps_ns[1]), 1_000_000)
        box = item.box_in_object
        assert world_from_object is not None and box is not None
        at = se3.transform_points(se3.inverse(world_from_object) @ world_from_camera, points)
        inside = ((at >= box[0] - 0.02) & (at <= box[1] + 0.02)).all(axis=1)
        good += bool(inside.mean() > 0.99)
    assert good >= 40


def test_rectified_depth_is_there(recording):
    depth = recording.depth
    assert depth is not None and len(depth.frames) == 2
    image = depth.frames.read(0)
    assert image.shape == (depth.camera.height_px, depth.camera.width_px)
    assert 0.3 < np.nanmin(image) < np.nanmax(image) < 6


def test_objects_by_hand(sample, recording):
    given = {item.object_id: item for item in recording.given_objects}
    truth = json.loads((sample / "decoded/objects.json").read_text())
    assert set(truth) == set(given)
    for uid, want in truth.items():
        item = given[uid]
        assert item.label == want["name"] and item.static == (want["motion_type"] == "static")
        box = item.box_in_object
        assert box is not None
        np.testing.assert_allclose(box, [want["aabb_local_min"], want["aabb_local_max"]], atol=1e-12)


def test_poses_of_objects_by_hand(sample, recording):
    given = {item.object_id: item for item in recording.given_objects}
    rows = table(sample / "original/scene_objects.csv")
    for row in rows[::10]:
        item = given[row["object_uid"]]
        index = 0 if item.static else item.timestamps_ns.tolist().index(int(row["timestamp[ns]"]))
        quat = [float(row[f"q_wo_{axis}"]) for axis in "xyzw"]
        want = np.eye(4)
        want[:3, :3] = Rotation.from_quat(quat).as_matrix()
        want[:3, 3] = [float(row[f"t_wo_{axis}[m]"]) for axis in "xyz"]
        np.testing.assert_allclose(item.world_from_object[index], Z_UP @ want, atol=1e-6)


def test_spoon_and_fork_move(recording):
    moved = {
        item.label: float(np.linalg.norm(item.world_from_object[-1, :3, 3] - item.world_from_object[0, :3, 3]))
        for item in recording.given_objects
    }
    assert moved.pop("WoodenFork") == pytest.approx(0.126, abs=5e-4)
    assert moved.pop("WoodenSpoon") == pytest.approx(0.103, abs=5e-4)
    assert max(moved.values()) < 1e-4


def test_boxes_2d_are_read_as_stored(sample):
    boxes = read_boxes_2d(sample / "original/2d_bounding_box.csv", [])
    assert len(boxes.uids) == 1438 and boxes.of_stream("214-1").sum() == 544
    assert boxes.box_xyxy_px[0].tolist() == [519, 721, 564, 800] and boxes.visibility[0] == 0.991078


# --- faults -----------------------------------------------------------------------------------------------------------


def test_without_depth(folder):
    recording = open_recording(folder)
    assert recording.depth is None and said(recording, "no depth_images.vrs")


def test_another_clock_is_refused(folder):
    path = folder / "metadata.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"gt_time_domain": "TIME_CODE"}))
    with pytest.raises(TimeError, match=r"gt_time_domain in .* is 'TIME_CODE'"):
        open_recording(folder)
    path.unlink()
    assert open_recording(folder).given_objects


@pytest.mark.parametrize("name", ["video.vrs", "aria_trajectory.csv", "scene_objects.csv", "instances.json"])
def test_a_file_is_missing(folder, name):
    (folder / name).unlink()
    assert sniff(folder).format_name is None
    with pytest.raises(RecordingError, match=rf"adt does not fit.*no {name}"):
        open_recording(folder)


def test_rows_that_cannot_be(folder):
    path = folder / "scene_objects.csv"
    whole = path.read_text()
    row = whole.splitlines()[1].split(",")
    for cells, kind, fault in (
        ([row[0], "5", *row[2:]], RecordingError, "is static .-1. here and at a time elsewhere"),
        ([row[0], "-7", *row[2:]], RecordingError, "= -7 is no time of a clock"),
        (["", *row[1:]], RecordingError, "object_uid is empty"),
        ([*row[:2], "x", *row[3:]], RecordingError, "is no number"),
        ([*row[:5], "3", *row[6:]], PoseError, "has length"),
        ([row[0], "-1", "9", *row[3:]], TimeError, "different poses"),
    ):
        path.write_text(whole + ",".join(cells) + "\n")
        with pytest.raises(kind, match=fault):
            open_recording(folder)


def test_objects_without_name_or_box_are_counted(folder):
    edit(folder / "3d_bounding_box.csv", lambda lines: lines[:1] + lines[3:])
    names = json.loads((folder / "instances.json").read_text())
    first = next(iter(names))
    del names[first]
    (folder / "instances.json").write_text(json.dumps(names))
    recording = open_recording(folder)
    assert said(recording, "2 of 349 objects have no box") and said(recording, "1 of 349 objects have no name")
    assert sum(item.box_in_object is None for item in recording.given_objects) == 2
    assert next(item for item in recording.given_objects if item.object_id == first).label == first


def test_a_box_inside_out_is_refused(folder):
    edit(folder / "3d_bounding_box.csv", lambda lines: [*lines[:-1], lines[-1].rsplit(",", 1)[0] + ",-90"])
    with pytest.raises(RecordingError, match=r"line 350: .* is no box in metres"):
        open_recording(folder)


def test_masks_of_a_camera_that_is_not_there(sample):
    with pytest.raises(RecordingError, match="ADT has no camera 1201-7"):
        adt.open_segmentations(sample / "original", "1201-7")


@pytest.mark.parametrize("name", SMALL)
def test_fuzz(folder, name):
    """Changes of each file end in a clean error or a sound recording."""
    edit(folder / "scene_objects.csv", lambda lines: lines[:12] + lines[-12:])
    edit(folder / "3d_bounding_box.csv", lambda lines: lines[:12])

    def sound(recording):
        assert recording.given_objects and se3.is_rigid(recording.trajectory.world_from_body).all()
        for item in recording.given_objects:
            assert se3.is_rigid(item.world_from_object).all() and (np.diff(item.timestamps_ns) > 0).all()
            assert item.box_in_object is None or (item.box_in_object[0] <= item.box_in_object[1]).all()

    fuzzing.fuzz(f"adt {name}", folder / name, lambda: open_recording(folder), sound)
