"""nerfstudio and instant-ngp folders: the fox sample as a golden record, made-up files for everything else."""

import copy
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geo import se3
from geo.cameras import KannalaBrandtCamera, PinholeCamera, RadTanCamera
from geo.errors import CameraError, GeoError, PoseError, RecordingError
from geo.readers import open_recording, sniff
from geo.recording import Recording
from geo.world import Gravity

W, H = 16, 12
NAMES = ["frame_10.png", "frame_2.png", "frame_1.png"]  # in this order in the file


def pose_of(number: int) -> list[list[float]]:
    """Camera to world, OpenGL axes; the position tells the number."""
    return [[1.0, 0, 0, 0.1 * number], [0, 0, -1.0, 2], [0, 1.0, 0, 3], [0, 0, 0, 1]]


def document() -> dict[str, Any]:
    return {
        "camera_model": "OPENCV",
        "fl_x": 20.0,
        "fl_y": 21.0,
        "cx": 8.0,
        "cy": 6.0,
        "w": W,
        "h": H,
        "frames": [{"file_path": f"images/{name}", "transform_matrix": pose_of(int(name[6:-4]))} for name in NAMES],
    }


@pytest.fixture
def make(tmp_path: Path, png_writer) -> Callable[..., Path]:
    """A complete folder; `change` edits the document before it is written."""
    (tmp_path / "images").mkdir()
    for name in NAMES:
        png_writer(tmp_path / "images" / name, np.full((H, W, 3), 20 * int(name[6:-4]), dtype=np.uint8))

    def write(change: Callable[[dict[str, Any]], object] | None = None) -> Path:
        data = document()
        if change:
            change(data)
        (tmp_path / "transforms.json").write_text(json.dumps(data))
        return tmp_path

    return write


def said(recording: Recording, text: str) -> bool:
    return any(text in warning for warning in recording.warnings)


# --- the sample -------------------------------------------------------------------------------------------------


@pytest.mark.samples
def test_fox(samples_dir):
    recording = open_recording(samples_dir / "ngp_fox")
    assert recording.format_name == "nerfstudio" and recording.recording_id == "ngp_fox"
    camera = recording.reference.camera
    assert isinstance(camera, RadTanCamera) and camera.size_wh_px == (1080, 1920)
    expected = [1375.52, 1374.49, 554.558 - 0.5, 965.268 - 0.5, 0.0578421, -0.0805099, -0.000980296, 0.00015575]
    np.testing.assert_allclose(camera.params, expected, rtol=0, atol=1e-12)
    assert len(recording.reference.timestamps_ns) == len(recording.trajectory.timestamps_ns) == 50
    assert said(recording, "17 of 67 images") and said(recording, "images/0005.jpg, images/0016.jpg, images/0017.jpg")
    assert said(recording, "images/0113.jpg") and said(recording, "nominal 10 Hz")
    # frame 0001 of the file: columns 1 and 2 negated, to the 3e-6 by which the file's rotation is not orthonormal
    by_hand = [
        [0.8926439112, -0.0879960028, -0.4420900262, 3.168359405609479],
        [0.4464189983, 0.0367545219, 0.8940689141, -5.4794898611466945],
        [-0.0624256826, -0.9954425191, 0.0720917849, -0.9791660699008925],
        [0, 0, 0, 1],
    ]
    np.testing.assert_allclose(recording.trajectory.world_from_body[0], by_hand, rtol=0, atol=1e-5)
    assert not recording.world.metric and recording.world.gravity is Gravity.UNKNOWN and recording.depth is None
    assert (recording.original_from_source_world == np.eye(4)).all()
    files = [path.name for path in recording.reference.frames.files]
    assert files == sorted(files) and files[0] == "0001.jpg" and files[-1] == "0115.jpg"
    image = recording.reference.frames.read(49)
    assert image.shape == (1920, 1080, 3) and 20 < image.mean() < 235


@pytest.mark.samples
def test_fox_cameras_look_at_one_place(samples_dir):
    """Looking the right way: the point nearest to all optical axes lies in front of every camera and in its image."""
    recording = open_recording(samples_dir / "ngp_fox")
    poses = recording.trajectory.world_from_body
    centres, axes = poses[:, :3, 3], poses[:, :3, 2]
    across = np.eye(3) - axes[:, :, None] * axes[:, None, :]
    middle = np.linalg.solve(across.sum(axis=0), np.einsum("nij,nj->i", across, centres))
    seen = np.array([se3.transform_points(se3.inverse(pose), middle) for pose in poses])
    shown = recording.reference.camera.project(seen)
    assert (seen[:, 2] > 0).all() and shown.valid.all()
    assert recording.reference.camera.in_image(shown.pixels_xy).mean() > 0.9


# --- made-up files: poses, order, times -------------------------------------------------------------------------


def test_a_small_file_as_written(make):
    folder = make()
    assert sniff(folder).format_name == "nerfstudio" and "transforms.json" in sniff(folder).explain()
    recording = open_recording(folder)
    assert [path.name for path in recording.reference.frames.files] == ["frame_1.png", "frame_2.png", "frame_10.png"]
    assert recording.reference.timestamps_ns.tolist() == [0, 100_000_000, 200_000_000]
    np.testing.assert_allclose(recording.trajectory.world_from_body[:, 0, 3], [0.1, 0.2, 1.0])
    # OpenGL's back (0, 0, 1) is the world's -y, so forward is +y; OpenGL's up is the world's z, so down is -z
    np.testing.assert_allclose(recording.trajectory.world_from_body[0, :3, 2], [0, 1, 0], atol=1e-12)
    np.testing.assert_allclose(recording.trajectory.world_from_body[0, :3, 1], [0, 0, -1], atol=1e-12)
    assert (recording.reference.frames.read(2) == 200).all()
    assert {path.name for path in recording.input_files} == {"transforms.json", *NAMES}
    camera = recording.reference.camera  # a missing or zero distortion is a pinhole; pixel corners became centres
    assert isinstance(camera, PinholeCamera) and camera.params.tolist() == [20, 21, 7.5, 5.5]


def test_missing_images_leave_their_time_and_are_named(make):
    folder = make()
    (folder / "images/frame_2.png").unlink()
    recording = open_recording(folder)
    assert said(recording, "1 of 3 images in transforms.json do not exist and are left out: images/frame_2.png")
    assert recording.reference.timestamps_ns.tolist() == [0, 200_000_000]
    np.testing.assert_allclose(recording.trajectory.world_from_body[:, 0, 3], [0.1, 1.0])
    for name in NAMES:
        (folder / "images" / name).unlink(missing_ok=True)
    with pytest.raises(RecordingError, match=r"not one of the 3 images that .*transforms\.json lists exists"):
        open_recording(folder)


def test_names_without_an_ending(make):
    recording = open_recording(make(lambda d: [f.update(file_path="./" + f["file_path"][:-4]) for f in d["frames"]]))
    assert len(recording.reference.frames) == 3


def test_a_frame_listed_twice(make):
    assert len(open_recording(make(lambda d: d["frames"].append(d["frames"][0]))).reference.frames) == 3
    twin = {"file_path": "./images/frame_10.png", "transform_matrix": pose_of(11)}
    with pytest.raises(RecordingError, match=r"frames\[0\] and frames\[3\] have the same image .* different poses"):
        open_recording(make(lambda d: d["frames"].append(twin)))


@pytest.mark.parametrize(
    ("matrix", "fault"),
    [
        ([[2.0, 0, 0, 0], [0, 2.0, 0, 0], [0, 0, 2.0, 0], [0, 0, 0, 1]], r"frames\[1\].*no scale or mirror"),
        ([[-1.0, 0, 0, 0], [0, 1.0, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 1]], r"frames\[1\].*no scale or mirror"),
        ([[1.0, 0, 0, 0], [0, 1.0, 0, 0], [0, 0, 1.0, 0], [4.0, 5, 6, 1]], "is it transposed"),
        ([[1.0, 0, 0, 10**400], [0, 1.0, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 1]], "not finite or out of this world"),
    ],
)
def test_matrices_that_are_no_pose(make, matrix, fault):
    with pytest.raises(PoseError, match=f"(?s){fault}"):
        open_recording(make(lambda d: d["frames"][1].update(transform_matrix=matrix)))


def test_three_rows_are_enough(make):
    assert open_recording(make(lambda d: [f["transform_matrix"].pop() for f in d["frames"]])).format_name


# --- cameras ----------------------------------------------------------------------------------------------------


def test_lenses_by_name(make):
    camera = open_recording(make(lambda d: d.update(k1=0.1, k2=-0.02, p1=0.001, p2=0.002))).reference.camera
    assert isinstance(camera, RadTanCamera) and camera.distortion == (0.1, -0.02, 0.001, 0.002)
    camera = open_recording(make(lambda d: d.update(k1=0.1, k3=0.01))).reference.camera
    assert isinstance(camera, RadTanCamera) and camera.distortion == (0.1, 0, 0, 0, 0.01)
    fisheye = {"camera_model": "OPENCV_FISHEYE", "k1": 0.1, "k2": 0.02, "k3": 0.003, "k4": -0.004}
    camera = open_recording(make(lambda d: d.update(fisheye))).reference.camera
    assert isinstance(camera, KannalaBrandtCamera) and camera.distortion == (0.1, 0.02, 0.003, -0.004)
    for name in ("PINHOLE", "SIMPLE_PINHOLE", "simple_pinhole"):
        camera = open_recording(make(lambda d, name=name: d.update(camera_model=name, k1=0.0))).reference.camera
        assert isinstance(camera, PinholeCamera)


def test_lenses_without_a_name(make):
    camera = open_recording(make(lambda d: (d.pop("camera_model"), d.update(k1=0.1)))).reference.camera
    assert isinstance(camera, RadTanCamera)
    camera = open_recording(make(lambda d: (d.pop("camera_model"), d.update(k1=0.1, is_fisheye=True)))).reference.camera
    assert isinstance(camera, KannalaBrandtCamera)


def test_old_files_with_an_angle(make):
    def old(data: dict[str, Any]) -> None:
        for key in ("camera_model", "fl_x", "fl_y", "cx", "cy", "w", "h"):
            del data[key]
        data["camera_angle_x"] = math.pi / 2

    recording = open_recording(make(old))
    np.testing.assert_allclose(recording.reference.camera.params, [W / 2, W / 2, W / 2 - 0.5, H / 2 - 0.5])
    assert recording.reference.camera.size_wh_px == (W, H) and said(recording, "no cx, cy")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"camera_model": "FISHEYE624"}, "camera_model 'FISHEYE624' is not known here; known are PINHOLE"),
        ({"camera_model": "PINHOLE", "k1": 0.1}, "PINHOLE has no distortion, but there is k1 = 0.1"),
        ({"camera_model": "OPENCV_FISHEYE", "p1": 0.1}, "coefficients k1 k2 k3 k4, but there is p1 = 0.1"),
        ({"k4": 0.1}, "OPENCV has the coefficients .* but there is k4 = 0.1"),
        ({"is_fisheye": True}, "contradicts is_fisheye"),
        ({"equirectangular": True}, "a lens that is not known here"),
        ({"w": 16.5}, "is no image size"),
        ({"fl_x": 10**400}, "fl_x = 1000.* cannot be"),
        ({"fl_x": -5.0}, "transforms.json: .*positive focal lengths"),
    ],
)
def test_cameras_that_cannot_be(make, change, fault):
    with pytest.raises(CameraError, match=fault):
        open_recording(make(lambda d: d.update(change)))


def test_no_focal_length_and_half_a_size(make):
    with pytest.raises(CameraError, match=r"no focal length; give fl_x"):
        open_recording(make(lambda d: d.pop("fl_x")))
    with pytest.raises(CameraError, match="w and h belong together"):
        open_recording(make(lambda d: d.pop("h")))
    with pytest.raises(CameraError, match="between 0 and pi in radians"):
        open_recording(make(lambda d: (d.pop("fl_x"), d.update(camera_angle_x=43.0))))


def test_images_of_another_size(make):
    with pytest.raises(RecordingError, match=r"frame_1\.png is 16x12, but .*transforms\.json is calibrated for 32x24"):
        open_recording(make(lambda d: d.update(w=32, h=24)))


def test_cameras_of_their_own(make):
    def own(data: dict[str, Any], change: float) -> None:
        keys = ("fl_x", "fl_y", "cx", "cy", "w", "h")
        shared = {key: data.pop(key) for key in keys}
        for frame in data["frames"]:
            frame.update(shared)
        data["frames"][1]["fl_x"] += change

    camera = open_recording(make(lambda d: own(d, 1e-10))).reference.camera
    np.testing.assert_allclose(camera.params, [20, 21, 7.5, 5.5], atol=1e-9)
    with pytest.raises(
        CameraError, match=r"1 of 3 frames have another camera than images/frame_1\.png \(images/frame_2"
    ):
        open_recording(make(lambda d: own(d, 1e-6)))


# --- world ------------------------------------------------------------------------------------------------------

APPLIED = [[[0, 1, 0, 0.5], [1, 0, 0, 0], [0, 0, -1, 0]], [[1, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 2]]]


@pytest.mark.parametrize("applied", APPLIED)
def test_what_the_writer_did_can_be_undone(make, applied):
    """Original poses, changed as nerfstudio's writers do, come back by the stored inverse."""
    original = [np.array(pose_of(int(name[6:-4]))) for name in NAMES]

    def change(data: dict[str, Any]) -> None:
        for frame, pose in zip(data["frames"], original, strict=True):
            moved = np.array([*applied, [0, 0, 0, 1]]) @ pose
            moved[:3, 3] *= 0.25
            frame["transform_matrix"] = moved.tolist()
        data.update(applied_transform=applied, applied_scale=0.25)

    recording = open_recording(make(change))
    assert not recording.world.metric and recording.world.gravity is Gravity.UNKNOWN
    centres = se3.transform_points(recording.original_from_source_world, recording.trajectory.world_from_body[:, :3, 3])
    np.testing.assert_allclose(centres, [original[i][:3, 3] for i in (2, 1, 0)], atol=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        {"applied_scale": 10**400},
        {"applied_scale": 1e-300},
        {"applied_transform": [[0, 0, 0, 0]] * 3},
        {"applied_scale": 0},
    ],
)
def test_what_cannot_be_undone(make, change):
    with pytest.raises(RecordingError, match=r"cannot be undone|applied_scale: must be greater"):
        open_recording(make(lambda d: d.update(change)))


def test_scale_and_up_only_if_the_file_says_so(make):
    assert not open_recording(make(lambda d: d.update(scale=1.0, aabb_scale=4))).world.metric
    assert open_recording(make(lambda d: d.update(metric=True))).world.metric
    recording = open_recording(make(lambda d: d.update(up=[0, 3, 0])))
    assert recording.world.gravity is Gravity.KNOWN
    turn = recording.world.world_from_source_world
    np.testing.assert_allclose(turn[:3, :3] @ [0, 1, 0], [0, 0, 1], atol=1e-12)
    flat = np.array(pose_of(1)) @ np.diag([1, -1, -1, 1])
    np.testing.assert_allclose(recording.trajectory.world_from_body[0], turn @ flat, atol=1e-12)
    with pytest.raises(RecordingError, match=r"up = \[0, 0, 0\] is no direction"):
        open_recording(make(lambda d: d.update(up=[0, 0, 0])))


# --- depth and masks --------------------------------------------------------------------------------------------


def add_depth(folder: Path, png_writer, size: tuple[int, int] = (W, H)) -> Callable[[dict[str, Any]], None]:
    (folder / "depth").mkdir(exist_ok=True)
    for name in NAMES[1:]:
        image = np.full(size[::-1], 1000 * int(name[6:-4]), dtype=np.uint16)
        image[0, 0] = 0
        png_writer(folder / "depth" / name, image)

    def change(data: dict[str, Any]) -> None:
        for frame in data["frames"]:
            frame["depth_file_path"] = frame["file_path"].replace("images", "depth")

    return change


def test_depth_in_millimetres(make, png_writer, tmp_path):
    change = add_depth(tmp_path, png_writer)
    recording = open_recording(make(change))
    depth = recording.depth
    assert depth is not None and said(recording, "1 of 3 depth files") and said(recording, "as nerfstudio does")
    assert depth.frames.read(1)[5, 5] == 2.0 and np.isnan(depth.frames.read(1)[0, 0])
    assert np.isnan(depth.frames.read(2)).all() and "depth/frame_1.png" in str(recording.input_files)
    assert depth.camera == recording.reference.camera
    recording = open_recording(make(lambda d: (change(d), d.update(depth_unit_scale_factor=0.0002, metric=True))))
    assert recording.depth is not None and recording.depth.frames.read(0)[5, 5] == np.float32(0.2)
    assert not said(recording, "as nerfstudio does")


@pytest.mark.parametrize(
    "lens",
    [{"k1": 0.1, "p1": 0.01}, {"camera_model": "OPENCV_FISHEYE", "k1": 0.05}, {"k1": -0.2}],
    ids=["radtan", "fisheye", "barrel"],
)
@pytest.mark.parametrize("size", [(W, H), (W // 2, H // 2)], ids=["same size", "smaller"])
def test_depth_of_a_distorted_camera_is_undistorted(make, png_writer, tmp_path, lens, size):
    """A wall at z = 2 stays one, and every depth that there was is met by a pixel of the pinhole."""
    change = add_depth(tmp_path, png_writer, size)
    recording = open_recording(make(lambda d: (change(d), d.update(lens))))
    depth, picture = recording.depth, recording.reference.camera
    assert depth is not None and said(recording, "they are undistorted") and not said(recording, "not used")
    image = depth.frames.read(1)
    assert image.shape == depth.camera.size_wh_px[::-1] and image.dtype == np.float32
    known = np.isfinite(image)
    assert (image[known] == 2.0).all() and known.mean() > 0.5
    # the pinhole keeps the density of the depth image's centre, and shows the whole of the picture
    assert depth.camera.fx_px == pytest.approx(picture.params[0] * size[0] / W)
    corners = picture.unproject(np.array([[0.0, 0], [W - 1, 0], [0, H - 1], [W - 1, H - 1]]))
    shown = depth.camera.project(corners.directions)
    assert corners.valid.all() and shown.valid.all() and depth.camera.in_image(shown.pixels_xy).all()
    # the one pixel without depth, at the upper left of the depth image, leaves a hole where its ray goes
    hole = picture.resized(size).unproject(np.array([0.0, 0.0])).directions
    u, v = np.rint(depth.camera.project(hole).pixels_xy).astype(int)
    assert np.isnan(image[v, u])
    assert np.isnan(depth.frames.read(2)).all()


def test_depth_that_is_smaller(make, png_writer, tmp_path):
    recording = open_recording(make(add_depth(tmp_path, png_writer, (W // 2, H // 2))))
    assert recording.depth is not None and recording.depth.frames.read(0).shape == (H // 2, W // 2)
    np.testing.assert_allclose(recording.depth.camera.params, [10, 10.5, 3.5, 2.5])  # corner 4, 3


def test_what_is_not_used_is_said(make):
    def change(data: dict[str, Any]) -> None:
        data["rolling_shutter"] = [0, 0, 0.02, 0]
        data["frames"][0]["mask_path"] = "masks/frame_10.png"

    recording = open_recording(make(change))
    assert said(recording, "1 frames have a mask_path (black: ignore), which is not used yet")
    assert said(recording, "rolling shutter")


# --- broken files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../x.png", "/etc/passwd", "images\\frame_1.png", "a\0b", "\ud800", "x" * 5000])
def test_paths_stay_inside(make, name):
    with pytest.raises(RecordingError, match=r"relative path|leaves the recording|is no path"):
        open_recording(make(lambda d: d["frames"][0].update(file_path=name)))


def test_links_do_not_lead_out(make, tmp_path_factory):
    folder = make()
    outside = tmp_path_factory.mktemp("outside") / "secret.png"
    (folder / "images/frame_1.png").rename(outside)
    (folder / "images/frame_1.png").symlink_to(outside)
    with pytest.raises(RecordingError, match="leaves the recording folder"):
        open_recording(folder)


def test_damaged_and_foreign_json(make):
    folder = make()
    text = (folder / "transforms.json").read_text()
    (folder / "transforms.json").write_text(text[:-40])
    with pytest.raises(RecordingError, match=r"transforms\.json is no JSON"):
        open_recording(folder)
    (folder / "transforms.json").write_text('{"train": []}')
    with pytest.raises(RecordingError, match=r'is no known recording.*no "frames" in transforms\.json'):
        open_recording(folder)
    with pytest.raises(RecordingError, match=r"'frames' is missing"):
        open_recording(folder, "nerfstudio")
    for change, fault in (
        (lambda d: d.update(frames=[]), "at least 1 entries"),
        (lambda d: d["frames"][1].pop("transform_matrix"), r"frames\[1\]: 'transform_matrix' is missing"),
        (lambda d: d["frames"][1].update(transform_matrix=[[1, 2], [3, 4]]), r"frames\[1\]\.transform_matrix"),
        (lambda d: d.update(fl_x="20"), "fl_x: expected number"),
    ):
        with pytest.raises(RecordingError, match=fault):
            open_recording(make(change), "nerfstudio")


def mutated(data: Any, rng: random.Random) -> Any:
    """The document with one value somewhere replaced, removed or doubled."""
    data = copy.deepcopy(data)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in list(items):
            places.append((node, key))
            walk(value)

    walk(data)
    parent, key = rng.choice(places)
    action = rng.randrange(3)
    if action == 0:
        del parent[key]
    elif action == 1 and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(parent[key]))
    else:
        parent[key] = rng.choice(
            [
                None,
                True,
                -1,
                0,
                1e308,
                10**320,
                1e-320,
                "",
                "x",
                "..",
                [],
                {},
                [1],
                0.5,
                -parent[key] if isinstance(parent[key], float) else 7,
            ]
        )
    return data


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """One to three bytes changed, removed or added, or the end cut off."""
    out = bytearray(data)
    if rng.random() < 0.1:
        return bytes(out[: rng.randrange(len(out))])
    for _ in range(rng.randint(1, 3)):
        at, action = rng.randrange(len(out)), rng.randrange(3)
        if action == 0:
            out[at] = rng.randrange(256)
        elif action == 1:
            del out[at]
        else:
            out.insert(at, rng.choice(b'0123456789-eE.,[]{}" \n\0'))
    return bytes(out)


def test_fuzz(make, png_writer, tmp_path):
    """200 changes of the structure and 200 of the bytes end in a clean error or a sound recording."""
    add_depth(tmp_path, png_writer)(base := document())
    base.update(applied_transform=APPLIED[1], applied_scale=0.5, up=[0, 0, 1], k1=0.0, depth_unit_scale_factor=0.001)
    folder, rng, good = make(), random.Random(7), 0
    whole = json.dumps(base).encode()
    for i in range(400):
        content = json.dumps(mutated(base, rng)).encode() if i % 2 else mutated_bytes(whole, rng)
        (folder / "transforms.json").write_bytes(content)
        try:
            recording = open_recording(folder, "nerfstudio")
            recording.reference.frames.read(0)
            if recording.depth is not None:
                recording.depth.frames.read(0)
        except GeoError as error:
            assert str(error)
            continue
        good += 1
        count = len(recording.reference.frames)
        assert 1 <= count <= 4 and (np.diff(recording.reference.timestamps_ns) > 0).all()
        assert len(recording.trajectory.timestamps_ns) == count
        assert se3.is_rigid(recording.trajectory.world_from_body).all() and not recording.world.metric
        assert np.isfinite(recording.original_from_source_world).all()
    assert 40 < good < 360
