"""HOT3D sequences: poses to pixels, two clocks, wrists, meshes, pictures that are not there, and every file broken."""

import csv
import json
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzzing
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from geo import se3
from geo.errors import CameraError, PoseError, RecordingError, TimeError
from geo.readers import hot3d, open_recording, sniff
from geo.readers.aria.vrs import VrsFile, VrsStream
from geo.readers.hot3d import pictures as hot3d_pictures
from geo.readers.hot3d.library import ENVIRONMENT, mesh_bounds
from geo.recording import MissingFrames, Recording
from geo.world import Gravity

ARIA, QUEST3 = "Aria/P0003_c701bd11", "Quest3/P0002_273c2819"
OFFSET_NS = 56833060899305  # device minus time code, see test_the_clocks


@pytest.fixture(scope="module")
def sample(samples_dir: Path) -> Path:
    return samples_dir / "hot3d_trimmed"


@pytest.fixture(scope="module")
def aria(sample: Path) -> Recording:
    return open_recording(sample / ARIA)


@pytest.fixture(scope="module")
def quest3(sample: Path) -> Recording:
    return open_recording(sample / QUEST3)


def copied(sample: Path, sequence: str, target: Path) -> Path:
    """The sequence without its largest file, which nobody reads."""
    return Path(shutil.copytree(sample / sequence, target, ignore=shutil.ignore_patterns("*.csv.gz", "open_loop*")))


@pytest.fixture
def aria_folder(sample: Path, tmp_path: Path) -> Path:
    return copied(sample, ARIA, tmp_path / "walk")


@pytest.fixture
def quest3_folder(sample: Path, tmp_path: Path) -> Path:
    return copied(sample, QUEST3, tmp_path / "sit")


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def edit(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")


def said(recording: Recording, text: str) -> bool:
    return any(text in warning for warning in recording.warnings)


def pose_of(row: dict[str, str]) -> np.ndarray:
    out = np.eye(4)
    out[:3, :3] = Rotation.from_quat([float(row[f"q_wo_{axis}"]) for axis in "xyzw"]).as_matrix()
    out[:3, 3] = [float(row[f"t_wo_{axis}[m]"]) for axis in "xyz"]
    return out


# --- as it is ---------------------------------------------------------------------------------------------------------


def test_recognised(sample, aria, quest3):
    for sequence in (ARIA, QUEST3):
        assert sniff(sample / sequence).format_name == "hot3d"
    assert aria.recording_id == "P0003_c701bd11" and len(aria.given_objects) == 6
    assert [s.name for s in (aria.reference, *aria.others)] == ["camera-rgb", "camera-slam-left", "camera-slam-right"]
    assert [s.name for s in (quest3.reference, *quest3.others)] == ["camera-slam-left", "camera-slam-right"]
    assert len(aria.reference.timestamps_ns) == 34 and len(quest3.reference.timestamps_ns) == 15


def test_pictures_that_are_missing(aria):
    assert said(aria, "recording.vrs is missing: the recording has no pictures")
    frames = aria.reference.frames
    assert isinstance(frames, MissingFrames) and len(frames) == 34
    with pytest.raises(RecordingError, match=r"recording\.vrs is missing; download"):
        frames.read(0)


@pytest.mark.parametrize("sequence", [ARIA, QUEST3])
def test_poses_by_hand(sample, sequence):
    recording = open_recording(sample / sequence)
    rows = table(sample / sequence / "headset_trajectory.csv")
    assert recording.trajectory.timestamps_ns.tolist() == [int(row["timestamp[ns]"]) for row in rows]
    for row, pose in zip(rows, recording.trajectory.world_from_body, strict=True):
        np.testing.assert_allclose(pose, pose_of(row), atol=1e-9)
    objects = {item.object_id: item for item in recording.given_objects}
    for row in table(sample / sequence / "dynamic_objects.csv")[::7]:
        item = objects[row["object_uid"]]
        pose = item.world_from_object_at(int(row["timestamp[ns]"]), 0)
        np.testing.assert_allclose(pose, pose_of(row), atol=1e-9)


def stored(camera: Any, pixels: np.ndarray) -> np.ndarray:
    """Upright pixels as those of the picture on its side: (u, v) upright was (v, W - 1 - u)."""
    return np.stack([pixels[..., 1], camera.width_px - 1 - pixels[..., 0]], axis=-1)


@pytest.mark.parametrize("sequence", [ARIA, QUEST3])
def test_origins_of_objects_lie_in_their_boxes(sample, sequence):
    """The whole chain to the pixel for every given box, also of objects without a mesh."""
    recording = open_recording(sample / sequence)
    names = {"214-1": "camera-rgb", "1201-1": "camera-slam-left", "1201-2": "camera-slam-right"}
    streams = {stream.name: stream for stream in (recording.reference, *recording.others)}
    objects = {item.object_id: item for item in recording.given_objects}
    inside = []
    for row in table(sample / sequence / "box2d_objects.csv"):
        if not row["x_min[pixel]"]:
            continue
        stream, stamp = streams[names[row["stream_id"]]], int(row["timestamp[ns]"])
        place = objects[row["object_uid"]].world_from_object_at(stamp, 0)
        assert place is not None
        pose = recording.trajectory.poses_at(np.array([stamp]))[0] @ stream.reference_from_camera
        pixel = stored(stream.camera, stream.camera.project((se3.inverse(pose) @ place)[:3, 3]).pixels_xy)
        low, high = ([float(row[f"{axis}_{end}[pixel]"]) for axis in "xy"] for end in ("min", "max"))
        if np.isfinite(pixel).all():
            inside.append(bool((pixel >= np.array(low) - 2).all() and (pixel <= np.array(high) + 2).all()))
    assert len(inside) > 150 and np.mean(inside) > 0.97


def test_quest3_is_upright(quest3):
    """Only turned once clockwise does the right camera lie along the left one's +x (63.7 mm), and not along y."""
    left, right = quest3.reference, quest3.others[0]
    assert left.camera.size_wh_px == (1024, 1280)
    apart = (se3.inverse(left.reference_from_camera) @ right.reference_from_camera)[:3, 3]
    assert apart[0] == pytest.approx(0.0637, abs=1e-4) and np.abs(apart[1:]).max() < 2e-3
    assert left.camera.max_theta_rad == pytest.approx(1.4847613418777272)
    assert quest3.world.gravity is Gravity.UNKNOWN and quest3.gaze is None


def test_the_clocks(sample, aria):
    """Equal positions in the two tables, paired by plain search, bound the offset to half a millisecond."""
    loop = table(sample / ARIA / "mps/slam/closed_loop_trajectory.csv")
    by_position = {
        tuple(row[f"t{axis}_world_device"] for axis in "xyz"): int(row["tracking_timestamp_us"]) * 1000 for row in loop
    }
    keys = {
        int(row["timestamp[ns]"]): tuple(row[f"t_wo_{axis}[m]"] for axis in "xyz")
        for row in table(sample / ARIA / "headset_trajectory.csv")
    }
    apart = [by_position[key] - stamp for stamp, key in keys.items() if key in by_position]
    assert len(apart) > 20 and max(apart) - min(apart) < 1_000_000
    assert min(apart) <= OFFSET_NS <= max(apart) and said(aria, f"they differ by {OFFSET_NS} ns, by 68 equal poses")
    assert aria.world.gravity is Gravity.KNOWN  # the world of MPS: gravity is (0, 0, -9.81)
    np.testing.assert_allclose(aria.world.world_from_source_world, np.eye(4), atol=1e-12)


def test_gaze_is_brought_to_the_sequence_clock(sample, aria):
    gaze = aria.gaze
    assert gaze is not None and said(aria, "the glasses are taken for DVT-S")
    rows = table(sample / ARIA / "mps/eye_gaze/personalized_eye_gaze.csv")
    stamps = [int(row["tracking_timestamp_us"]) * 1000 - OFFSET_NS for row in rows]
    assert gaze.timestamps_ns.tolist() == stamps
    first, last = aria.reference.timestamps_ns[[0, -1]]
    assert ((gaze.timestamps_ns >= first) & (gaze.timestamps_ns <= last + 100_000_000)).all()
    assert np.isfinite(gaze.points_xy_px).all() and (gaze.depth_m < 1).all()


def test_wrists_are_joint_0(sample, aria, quest3):
    for recording, sequence in ((aria, ARIA), (quest3, QUEST3)):
        hands = {hand.side: hand for hand in recording.hands}
        lines = (sample / sequence / "umetrack_hand_pose_trajectory.jsonl").read_text().splitlines()
        for line in lines[::5]:
            entry = json.loads(line)
            for key, side in (("0", "left"), ("1", "right")):
                row = hands[side].timestamps_ns.tolist().index(entry["timestamp_ns"])
                want = entry["hand_poses"][key]["wrist_xform"]["t_xyz"]
                np.testing.assert_allclose(hands[side].joints_in_world[row, 0], want, atol=1e-12)
                assert np.isnan(hands[side].joints_in_world[row, 1:]).all() and hands[side].confidence[row] == 1
        assert said(recording, "hands have their wrist only")


def test_parameters_of_both_hand_models(sample):
    umetrack = hot3d.read_hand_poses(sample / ARIA / "umetrack_hand_pose_trajectory.jsonl")
    mano = hot3d.read_hand_poses(sample / ARIA / "mano_hand_pose_trajectory.jsonl")
    assert [hand.side for hand in umetrack] == [hand.side for hand in mano] == ["left", "right"]
    assert umetrack[0].parameters.shape == (68, 22) and mano[0].parameters.shape == (68, 15)
    assert np.isnan(mano[0].confidence).all() and se3.is_rigid(mano[1].world_from_wrist).all()
    assert mano[0].world_from_wrist[0, 0, 3] == 0.07462563864324634


# --- object library ---------------------------------------------------------------------------------------------------


def test_the_library_is_looked_for_inside_or_named(sample, quest3_folder, quest3, monkeypatch):
    assert said(quest3, f"6 of 6 objects have no mesh (no object library in the folder; {ENVIRONMENT} names one")
    assert all(item.label == item.object_id for item in quest3.given_objects)
    monkeypatch.setenv(ENVIRONMENT, str(sample / "object_library"))
    named = open_recording(quest3_folder)
    assert said(named, "2 of 6 objects have no mesh") and sum(i.mesh_file is not None for i in named.given_objects) == 4
    assert {item.label for item in named.given_objects} >= {"mouse", "keyboard", "coffee_pot", "mug_white"}
    monkeypatch.setenv(ENVIRONMENT, "nowhere")
    with pytest.raises(RecordingError, match=f"{ENVIRONMENT} = 'nowhere' is no folder"):
        open_recording(quest3_folder)
    monkeypatch.delenv(ENVIRONMENT)
    (quest3_folder / "object_library").mkdir()
    shutil.copy(sample / "object_library/instance.json", quest3_folder / "object_library")
    shutil.copy(sample / "object_library/5462893327580.glb", quest3_folder / "object_library")
    inside = open_recording(quest3_folder)
    assert [item.mesh_file.name for item in inside.given_objects if item.mesh_file] == ["5462893327580.glb"]
    (quest3_folder / "object_library/5462893327580.glb").write_bytes(b"glTF")
    with pytest.raises(RecordingError, match=r"5462893327580\.glb is no GLB file"):
        open_recording(quest3_folder)


@pytest.mark.parametrize("uid", ["5462893327580", "37787722328019", "265826671143948"])
def test_bounds_of_meshes_are_those_of_their_vertices(sample, uid):
    import trimesh

    path = sample / f"object_library/{uid}.glb"
    vertices = trimesh.load(path, process=False, force="mesh").vertices
    np.testing.assert_allclose(mesh_bounds(path), [vertices.min(axis=0), vertices.max(axis=0)], atol=1e-6)


def glb(path: Path, document: Any) -> Path:
    text = json.dumps(document).encode()
    path.write_bytes(struct.pack("<4sIII4s", b"glTF", 2, 20 + len(text), len(text), b"JSON") + text)
    return path


def test_bounds_of_a_turned_node(tmp_path):
    """A box 1 x 2 x 3 from the origin, turned 90 degrees about z ((x, y) -> (-y, x)), doubled, moved by 10 in x."""
    half = float(np.sqrt(0.5))
    document: dict[str, Any] = {
        "scenes": [{"nodes": [0]}],
        "nodes": [
            {"translation": [10, 0, 0], "children": [1]},
            {"rotation": [0, 0, half, half], "scale": [2, 2, 2], "mesh": 0},
        ],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
        "accessors": [{"min": [0, 0, 0], "max": [1, 2, 3]}],
    }
    np.testing.assert_allclose(mesh_bounds(glb(tmp_path / "a.glb", document)), [[6, 0, 0], [10, 2, 6]], atol=1e-12)
    document["nodes"][1].update(children=[0], scale=[1, 1, 1])
    with pytest.raises(RecordingError, match="without end"):
        mesh_bounds(glb(tmp_path / "a.glb", document))
    with pytest.raises(RecordingError, match="damaged or holds no mesh"):
        mesh_bounds(glb(tmp_path / "a.glb", {"scenes": [{"nodes": []}]}))
    path = glb(tmp_path / "a.glb", document)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(RecordingError, match="is cut off"):
        mesh_bounds(path)


# --- masks, clocks, pictures ------------------------------------------------------------------------------------------


def test_times_that_did_not_pass_are_gaps(quest3_folder):
    def fail(lines: list[str]) -> list[str]:
        return [lines[0], *(line.replace("True", "False") for line in lines[1:3]), *lines[3:]]

    for name in ("headset_pose_available", "object_pose_available", "hand_pose_available"):
        edit(quest3_folder / f"masks/mask_{name}.csv", fail)
    recording = open_recording(quest3_folder)
    assert said(recording, "mask_headset_pose_available.csv: 2 of 30 pictures did not pass")
    assert len(recording.trajectory.timestamps_ns) == 14 and len(recording.reference.timestamps_ns) == 15
    assert {len(item.timestamps_ns) for item in recording.given_objects} == {14}
    assert (
        np.isnan(recording.hands[0].joints_in_world[0]).all()
        and np.isfinite(recording.hands[0].joints_in_world[1, 0]).all()
    )


def test_without_masks_the_boxes_tell_the_times(quest3_folder, quest3):
    shutil.rmtree(quest3_folder / "masks")
    assert np.array_equal(open_recording(quest3_folder).reference.timestamps_ns, quest3.reference.timestamps_ns)
    (quest3_folder / "box2d_objects.csv").unlink()
    with pytest.raises(RecordingError, match=r"neither masks nor box2d_objects\.csv tell the times"):
        open_recording(quest3_folder)


def test_mps_of_another_recording_is_not_joined(aria_folder):
    path = aria_folder / "mps/slam/closed_loop_trajectory.csv"
    rows = table(path)
    text = ",".join(rows[0]) + "\n"
    for row in rows:
        text += ",".join((row | {"tx_world_device": str(float(row["tx_world_device"]) + 0.1)}).values()) + "\n"
    path.write_text(text)
    recording = open_recording(aria_folder)
    assert said(recording, "its poses are not those of the headset (0 of 68 are the same)")
    assert recording.gaze is None and recording.world.gravity is Gravity.UNKNOWN
    path.unlink()
    assert said(open_recording(aria_folder), "no closed_loop_trajectory.csv of MPS: gravity is not known")


def test_gaze_of_another_time_is_left_out(aria_folder):
    for path in (aria_folder / "mps/eye_gaze").glob("*.csv"):
        edit(path, lambda lines: [lines[0], *("9" + line for line in lines[1:])])
    recording = open_recording(aria_folder)
    assert recording.gaze is None and said(recording, "gaze is left out") and said(recording, "no overlap")


def test_poses_of_another_time_are_refused(quest3_folder):
    edit(
        quest3_folder / "headset_trajectory.csv",
        lambda lines: [lines[0], *(x.replace(",431", ",931") for x in lines[1:])],
    )
    with pytest.raises(TimeError, match="no overlap"):
        open_recording(quest3_folder)


class FakeVrs(VrsFile):
    """Streams with times and no file; a picture says which it is."""

    def __init__(self, path: Path, streams: dict[str, tuple[tuple[int, int], np.ndarray]], offset_ns: int = 0) -> None:
        self.path, self.offset_ns = path, offset_ns
        self.__dict__["streams"] = {k: VrsStream(k, None, size, stamps) for k, (size, stamps) in streams.items()}

    def time_code_ns(self, device_ns: np.ndarray) -> np.ndarray:
        return np.asarray(device_ns - self.offset_ns)

    def raw(self, stream_id: str, index: int) -> np.ndarray:
        width, height = self.streams[stream_id].size_wh_px
        return np.full((height, width), index, dtype=np.uint8)


def test_pictures_of_an_aria_vrs_by_time_code(aria_folder, aria, monkeypatch):
    """The file has one picture more at the start and lacks the third one of the sequence."""
    stamps = aria.reference.timestamps_ns
    taken = np.concatenate([stamps[:1] - 33_000_000, np.delete(stamps, 2)]) + OFFSET_NS
    fake = FakeVrs(aria_folder, {"214-1": ((1408, 1408), taken)}, OFFSET_NS)
    (aria_folder / "recording.vrs").write_bytes(b"VisionRe")
    monkeypatch.setattr(hot3d_pictures, "VrsFile", lambda path: fake)
    recording = open_recording(aria_folder)
    assert said(recording, "1 of 34 times of stream 214-1 have no picture")
    assert said(recording, "no pictures of stream 1201-1") and isinstance(recording.others[0].frames, MissingFrames)
    assert recording.reference.timestamps_ns.tolist() == np.delete(stamps, 2).tolist()
    assert [int(recording.reference.frames.read(i)[0, 0, 0]) for i in (0, 1, 2, 32)] == [1, 2, 3, 33]
    fake.__dict__["streams"]["214-1"] = VrsStream("214-1", None, (2880, 2880), taken)
    with pytest.raises(RecordingError, match=r"are \(2880, 2880\) px .* but camera-rgb is calibrated for \(1408"):
        open_recording(aria_folder)
    fake.__dict__["streams"]["214-1"] = VrsStream("214-1", None, (1408, 1408), taken)
    fake.offset_ns = 0
    with pytest.raises(RecordingError, match="not a picture of stream 214-1 within 1 ms"):
        open_recording(aria_folder)


def test_pictures_of_a_quest3_vrs_by_their_place(quest3_folder, quest3, monkeypatch):
    stamps = quest3.reference.timestamps_ns
    sizes = {"8010-1": (640, 480), "8010-2": (640, 480), "8010-3": (1280, 1024), "8010-4": (1280, 1024)}
    fake = FakeVrs(quest3_folder, {key: (size, stamps) for key, size in sizes.items()})
    (quest3_folder / "recording.vrs").write_bytes(b"VisionRe")
    monkeypatch.setattr(hot3d_pictures, "VrsFile", lambda path: fake)
    recording = open_recording(quest3_folder)
    assert said(recording, "stream 8010-4 is taken for 1201-2, by its place (not tested)")
    assert recording.others[0].frames.read(3).shape == (1280, 1024, 3)


def test_a_vrs_file_that_cannot_be_read(quest3_folder, aria_folder):
    """An error for Aria; for Quest 3, whose files the library was not made for, a recording without pictures."""
    for folder in (quest3_folder, aria_folder):
        (folder / "recording.vrs").write_bytes(b"nothing")
    with pytest.raises(RecordingError, match="is no VRS file"):
        open_recording(aria_folder)
    recording = open_recording(quest3_folder)
    assert said(recording, "no pictures:") and isinstance(recording.reference.frames, MissingFrames)
    with pytest.raises(RecordingError, match="cannot be read by projectaria_tools"):
        recording.reference.frames.read(0)


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "kind", "fault"),
    [
        ({"imageWidth": 0}, CameraError, "image size 0x1024 is impossible"),
        ({"imageWidth": "1280"}, RecordingError, "'?1280.* is no whole number"),
        ({"projectionParams": [1, 2]}, CameraError, "FISHEYE624 has 15 or 16 parameters"),
        ({"projectionParams": ["a"] * 16}, RecordingError, "holds 'a', which is no finite number"),
        ({"projectionModelType": "CameraModelType.OTHER"}, RecordingError, "no known projectionModelType"),
        ({"maxSolidAngle": -1}, CameraError, "valid_theta_rad = -1"),
        ({"stream_id": "1201-2"}, RecordingError, "two cameras with one stream_id"),
        ({"T_Device_Camera": None}, RecordingError, "has no T_Device_Camera"),
    ],
)
def test_quest3_cameras_that_cannot_be(quest3_folder, change, kind, fault):
    path = quest3_folder / "camera_models.json"
    cameras = json.loads(path.read_text())
    cameras[0] |= change
    path.write_text(json.dumps(cameras))
    with pytest.raises(kind, match=fault):
        open_recording(quest3_folder)


def test_a_headset_that_is_not_known(quest3_folder):
    (quest3_folder / "metadata.json").write_text('{"headset": "Rift"}')
    with pytest.raises(RecordingError, match=r"headset in .* is 'Rift'; known are Aria and Quest3"):
        open_recording(quest3_folder)


def test_two_headsets(quest3_folder):
    edit(quest3_folder / "headset_trajectory.csv", lambda lines: [*lines[:-1], "1" + lines[-1]])
    with pytest.raises(RecordingError, match="poses of 2 headsets"):
        open_recording(quest3_folder)


def test_hands_that_cannot_be(quest3_folder):
    path = quest3_folder / "umetrack_hand_pose_trajectory.jsonl"
    lines = path.read_text().splitlines()
    for bad, kind, fault in (
        (lines[0], RecordingError, "is no time after the line before"),
        (lines[-1][:-20].replace("433", "533"), RecordingError, "is no JSON"),
        ('{"timestamp_ns": 99999999999999, "hand_poses": {"2": {}}}', RecordingError, "neither 0 .left. nor 1"),
        ('{"timestamp_ns": 99999999999999, "hand_poses": {"0": {}}}', RecordingError, "has no wrist_xform"),
        ('{"timestamp_ns": 99999999999999}', RecordingError, "has no hand_poses"),
    ):
        path.write_text("\n".join([*lines, bad]) + "\n")
        with pytest.raises(kind, match=fault):
            open_recording(quest3_folder)
    entry = json.loads(lines[-1])
    entry["timestamp_ns"] += 1
    entry["hand_poses"]["0"]["wrist_xform"]["q_wxyz"] = [1, 1, 0, 0]
    path.write_text("\n".join([*lines, json.dumps(entry)]) + "\n")
    with pytest.raises(PoseError, match="line 16: quaternion"):
        open_recording(quest3_folder)
    path.unlink()
    assert said(open_recording(quest3_folder), "joints need the MANO model") and not open_recording(quest3_folder).hands


FUZZED = (
    (QUEST3, "metadata.json"),
    (QUEST3, "camera_models.json"),
    (QUEST3, "headset_trajectory.csv"),
    (QUEST3, "dynamic_objects.csv"),
    (QUEST3, "masks/mask_object_pose_available.csv"),
    (QUEST3, "umetrack_hand_pose_trajectory.jsonl"),
    (ARIA, "mps/slam/closed_loop_trajectory.csv"),
    (ARIA, "mps/slam/online_calibration.jsonl"),
    (ARIA, "mps/eye_gaze/personalized_eye_gaze.csv"),
)


@pytest.mark.parametrize(("sequence", "name"), FUZZED)
def test_fuzz(sample, tmp_path, sequence, name):
    """Changes of each file end in a clean error or a sound recording."""
    folder = copied(sample, sequence, tmp_path / "x")
    edit(folder / "dynamic_objects.csv", lambda lines: lines[:30])
    if sequence == ARIA:
        edit(folder / "mps/slam/online_calibration.jsonl", lambda lines: lines[:3])
        edit(folder / "mps/slam/closed_loop_trajectory.csv", lambda lines: lines[:400])
        edit(folder / "headset_trajectory.csv", lambda lines: lines[:24])
        (folder / "umetrack_hand_pose_trajectory.jsonl").unlink()

    def sound(recording):
        assert se3.is_rigid(recording.trajectory.world_from_body).all()
        for item in recording.given_objects:
            assert se3.is_rigid(item.world_from_object).all() and (np.diff(item.timestamps_ns) > 0).all()
        for stream in (recording.reference, *recording.others):
            assert len(stream.frames) == len(stream.timestamps_ns) and (np.diff(stream.timestamps_ns) > 0).all()
            assert se3.is_rigid(stream.reference_from_camera)

    fuzzing.fuzz(f"hot3d {sequence} {name}", folder / name, lambda: open_recording(folder), sound)


def test_fuzz_of_a_mesh(sample, tmp_path):
    whole = (sample / "object_library/5462893327580.glb").read_bytes()[:4000]
    rng, path, errors = random.Random(5), tmp_path / "a.glb", 0
    for _ in range(200):
        data = bytearray(whole)
        struct.pack_into("<I", data, 8, len(data))
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(1, 2000)] = rng.choice(b'0123456789-+eE.,[]{}/" \n\0\xff')
        path.write_bytes(data)
        try:
            assert np.isfinite(mesh_bounds(path)).all()
        except RecordingError as error:
            assert str(path) in str(error)
            errors += 1
    assert errors > 20
