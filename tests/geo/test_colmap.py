"""COLMAP models as recordings: golden values from the files by plain struct and by pycolmap, every trap, a fuzz."""

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from geo.cameras import KannalaBrandtCamera, PinholeCamera
from geo.errors import CameraError, GeoError, PoseError, RecordingError
from geo.readers import open_recording, sniff
from geo.readers.colmap import read_model
from geo.readers.colmap.cameras import camera_of, model_of
from geo.recording import Recording
from geo.world import Gravity

W, H = 16, 12
NAMES = ["f_10.png", "f_2.png", "f_1.png"]  # in this order in the file
QUAT = [0.9238795325112867, 0.0, 0.3826834323650898, 0.0]  # w first: 45 degrees about y
SAMPLE = {  # COLMAP's numbers: the principal point counts from the corner
    "SIMPLE_PINHOLE": [500.0, 320.0, 240.0],
    "PINHOLE": [500.0, 510.0, 321.0, 239.0],
    "SIMPLE_RADIAL": [500.0, 320.0, 240.0, -0.1],
    "RADIAL": [500.0, 320.0, 240.0, -0.1, 0.03],
    "OPENCV": [500.0, 510.0, 321.0, 239.0, -0.1, 0.03, 0.002, -0.003],
    "FULL_OPENCV": [500.0, 510.0, 321.0, 239.0, -0.1, 0.03, 0.002, -0.003, 0.01, 0.02, -0.01, 0.005],
    "SIMPLE_RADIAL_FISHEYE": [300.0, 320.0, 240.0, -0.05],
    "RADIAL_FISHEYE": [300.0, 320.0, 240.0, -0.05, 0.01],
    "OPENCV_FISHEYE": [300.0, 310.0, 321.0, 239.0, -0.05, 0.01, 0.002, -0.001],
    "FOV": [300.0, 310.0, 321.0, 239.0, 0.9],
    "THIN_PRISM_FISHEYE": [300.0, 310.0, 321.0, 239.0, -0.03, 0.01, 1e-3, -2e-3, 5e-4, -1e-4, 2e-3, -1e-3],
    "RAD_TAN_THIN_PRISM_FISHEYE": [
        300.0, 310.0, 321.0, 239.0, -0.03, 0.01, 5e-3, -4e-3, 1e-3, -1e-4, 1e-3, -2e-3, 5e-4, -1e-4, 2e-4, 3e-4
    ],
    "SIMPLE_FISHEYE": [300.0, 320.0, 240.0],
    "FISHEYE": [300.0, 310.0, 321.0, 239.0],
    "EUCM": [300.0, 310.0, 321.0, 239.0, 0.6, 1.1],
}  # fmt: skip


def images_txt(names: list[str] = NAMES, cameras: list[int] | None = None) -> str:
    rows = ["# Image list with two lines of data per image:", f"# Number of images: {len(names)}"]
    for i, name in enumerate(names):
        quat = " ".join(map(repr, QUAT))
        rows += [f"{40 - i} {quat} {0.1 * i} 2 3 {(cameras or [3] * len(names))[i]} {name}", "1.5 2.5 7" if i else ""]
    return "\n".join(rows) + "\n"


CAMERAS_TXT = f"# cameras\n3 PINHOLE {W} {H} 20 21 8 6\n"
POINTS_TXT = "# points\n7 0.5 -1 4 10 20 30 0.4 40 0 39 0\n9 1 2 5 255 0 1 1.25\n"


@pytest.fixture
def make(tmp_path: Path, png_writer) -> Callable[..., Path]:
    """A complete folder; files by name replace or add to the usual ones, None leaves one out."""

    def write(files: dict[str, str | None] | None = None, names: list[str] = NAMES, where: str = "sparse/0") -> Path:
        folder = tmp_path / "model"
        for i, name in enumerate(names):
            path = folder / "images" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            png_writer(path, np.full((H, W, 3), 20 * i, dtype=np.uint8))
        (folder / where).mkdir(parents=True, exist_ok=True)
        given = {
            f"{where}/cameras.txt": CAMERAS_TXT, f"{where}/images.txt": images_txt(names),
            f"{where}/points3D.txt": POINTS_TXT, **(files or {}),
        }  # fmt: skip
        for name, text in given.items():
            if text is not None:
                (folder / name).write_text(text)
        return folder

    return write


def said(recording: Recording, text: str) -> bool:
    return any(text in warning for warning in recording.warnings)


# --- text models --------------------------------------------------------------------------------------------------


def test_p1_p7_a_text_model_as_written(make):
    """World to camera, w first; the second lines may be blank; names decide, not ids or the order in the file."""
    folder = make()
    assert sniff(folder).format_name == "colmap" and "images.txt" in sniff(folder).explain()
    recording = open_recording(folder)
    assert [path.name for path in recording.reference.frames.files] == ["f_1.png", "f_2.png", "f_10.png"]
    assert recording.reference.timestamps_ns.tolist() == [0, 100_000_000, 200_000_000] and said(recording, "10 Hz")
    rotation = Rotation.from_quat([*QUAT[1:], QUAT[0]]).as_matrix()
    for pose, x in zip(recording.trajectory.world_from_body, (0.2, 0.1, 0.0), strict=True):
        np.testing.assert_allclose(pose[:3, :3], rotation.T, atol=1e-12)
        np.testing.assert_allclose(pose[:3, 3], -rotation.T @ [x, 2, 3], atol=1e-12)
    camera = recording.reference.camera
    assert isinstance(camera, PinholeCamera) and camera.params.tolist() == [20, 21, 7.5, 5.5]
    assert not recording.world.metric and recording.world.gravity is Gravity.UNKNOWN and recording.depth is None
    assert recording.points is not None and recording.points.points_in_world.tolist() == [[0.5, -1, 4], [1, 2, 5]]
    assert recording.points.colours.tolist() == [[10, 20, 30], [255, 0, 1]]
    assert np.isnan(recording.points.sigma_m).all()
    assert recording.reference.frames.read(0).mean() == 40  # f_1 was written third


def test_p1_the_field_row(make):
    """The row, the position and the pixel of the field case, worked out there by scipy."""
    row = "7 0.9238795 0 0.3826834 0 1 2 3 3 f_1.png\n\n"
    recording = open_recording(
        make({"sparse/0/images.txt": row, "sparse/0/cameras.txt": f"3 PINHOLE {W} {H} 500 500 320.5 240.5\n"})
    )
    pose = recording.trajectory.world_from_body[0]
    np.testing.assert_allclose(pose[:3, 3], [1.414213, -2, -2.828427], atol=1e-5)
    np.testing.assert_allclose(pose[:3, 2], [-0.707107, 0, 0.707107], atol=1e-5)
    point = np.linalg.inv(pose) @ [0.5, -1, 4, 1]
    np.testing.assert_allclose(recording.reference.camera.project(point[:3]).pixels_xy, [701.925, 331.326], atol=1e-2)


@pytest.mark.parametrize("where", [".", "sparse", "sparse/0", "sparse/12"])
def test_where_a_model_may_lie(make, where):
    assert len(open_recording(make(where=where)).reference.timestamps_ns) == 3


def test_of_several_models_the_largest_is_read_unless_one_is_named(make):
    folder = make()
    small = folder / "sparse" / "1"
    small.mkdir()
    for name in ("cameras.txt", "points3D.txt"):
        (small / name).write_text((folder / "sparse" / "0" / name).read_text())
    (small / "images.txt").write_text(images_txt(NAMES[:2]))
    recording = open_recording(folder)
    assert len(recording.reference.timestamps_ns) == 3 and said(recording, "0 (3 images), 1 (2 images); 0 is read")
    (folder / "colmap.json").write_text('{"model": "sparse/1"}')
    assert len(open_recording(folder).reference.timestamps_ns) == 2


def test_what_the_manifest_says(make):
    text = json.dumps({"rate_hz": 29.97, "start_ns": 5, "metric": True, "up": [0, -2, 0]})
    recording = open_recording(make({"colmap.json": text}))
    assert recording.reference.timestamps_ns.tolist() == [5, 5 + round(1e11 / 2997), 5 + round(2e11 / 2997)]
    assert recording.world.metric and recording.world.gravity is Gravity.KNOWN and not said(recording, "nominal")
    turn = recording.world.world_from_source_world[:3, :3]
    np.testing.assert_allclose(turn @ [0, -1, 0], [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(recording.points.points_in_world[0], turn @ [0.5, -1, 4], atol=1e-12)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"rate_hz": 0}', "rate_hz"),
        ('{"rate": 10}', "unknown"),
        ('{"up": [0, 0, 0]}', "no direction"),
        ('{"model": "../x"}', "leaves the recording folder"),
        ('{"model": "images"}', "no cameras and images"),
        ('{"images": "pictures"}', "no folder"),
        ('{"reference_camera": "left"}', "none of the model's cameras: camera"),
        ("{", "no JSON"),
    ],
)
def test_a_manifest_that_cannot_be(make, text, fault):
    with pytest.raises(RecordingError, match=fault):
        open_recording(make({"colmap.json": text}), "colmap")


def test_pictures_that_were_not_registered_leave_their_time_free(make, png_writer):
    folder = make()
    png_writer(folder / "images" / "f_3.png", np.zeros((H, W, 3), dtype=np.uint8))
    assert open_recording(folder).reference.timestamps_ns.tolist() == [0, 100_000_000, 300_000_000]


def test_pictures_that_do_not_exist(make):
    folder = make()
    (folder / "images" / "f_2.png").unlink()
    recording = open_recording(folder)
    assert len(recording.reference.timestamps_ns) == 2 and said(recording, "1 of 3 images") and said(recording, "f_2")
    for path in (folder / "images").iterdir():
        path.unlink()
    with pytest.raises(RecordingError, match="not one of the 3 images"):
        open_recording(folder)


def test_a_folder_with_transforms_json_is_not_taken_silently(make):
    folder = make({"transforms.json": "{}"})
    assert sniff(folder).format_name is None
    assert len(open_recording(folder, "colmap").reference.timestamps_ns) == 3


@pytest.mark.parametrize(
    ("name", "text", "error", "fault"),
    [
        ("cameras.txt", "3 PINHOLE 16 12 20 21 8\n", CameraError, "PINHOLE has 4 parameters, got 3"),
        ("cameras.txt", "3 DIVISION 16 12 20 21 8 6 0\n", CameraError, "'DIVISION' is not known"),
        ("cameras.txt", "3 PINHOLE 16 12 20 21 8 six\n", RecordingError, "line 1: parameter 4"),
        ("cameras.txt", "3 PINHOLE 16\n", RecordingError, "is it cut off"),
        ("cameras.txt", "# nothing\n", RecordingError, "holds no camera"),
        ("cameras.txt", CAMERAS_TXT * 2, RecordingError, "lines 2 and 4 have the same CAMERA_ID"),
        ("cameras.txt", "4 PINHOLE 16 12 20 21 8 6\n", RecordingError, "has camera 3, which the cameras file"),
        ("cameras.txt", "3 PINHOLE 99999999999 12 20 21 8 6\n", CameraError, "impossible"),
        ("cameras.txt", "3 PINHOLE 32 24 20 21 8 6\n", RecordingError, "is 16x12, but its camera"),
        ("images.txt", "# Number of images: 9\n" + images_txt().split("\n", 2)[2], RecordingError, "cut off"),
        ("images.txt", "1 2 0 0 0 0 0 0 3 f_1.png\n\n", PoseError, "has length 2"),
        ("images.txt", "1 1 0 0 0 0 0 0 3 ../f_1.png\n\n", RecordingError, "leaves the recording folder"),
        ("points3D.txt", "7 1 2 3 256 0 0 1\n", RecordingError, "256 is no colour"),
        ("points3D.txt", "7 1 2 3 0 0 0\n", RecordingError, "line 1"),
        ("points3D.txt", POINTS_TXT + "7 1 2 3 0 0 0 1\n", RecordingError, "same POINT3D_ID 7"),
    ],
)
def test_damage_is_named(make, name, text, error, fault):
    with pytest.raises(error, match=fault):
        open_recording(make({f"sparse/0/{name}": text}))


def test_points_that_cannot_be_are_counted(make):
    text = POINTS_TXT + "10 nan 0 0 0 0 0 1\n11 1e12 0 0 0 0 0 1\n"
    recording = open_recording(make({"sparse/0/points3D.txt": text}))
    assert len(recording.points.points_in_world) == 2 and said(recording, "2 of 4 points")
    assert open_recording(make({"sparse/0/points3D.txt": "# none\n"})).points is None


# --- several cameras ----------------------------------------------------------------------------------------------


def rig_images(shift: list[float]) -> str:
    """left/ and right/ with three moments each; right is 0.1 to the right of left, plus a shift each."""
    rows = []
    for i in range(3):
        rows += [f"{2 * i + 1} 1 0 0 0 {-i} 0 0 1 left/{i}.png", ""]
        rows += [f"{2 * i + 2} 1 0 0 0 {-i - 0.1 - shift[i]} 0 0 2 right/{i}.png", ""]
    return "\n".join(rows) + "\n"


RIG_NAMES = [f"{side}/{i}.png" for side in ("left", "right") for i in range(3)]
RIG_CAMERAS = f"1 PINHOLE {W} {H} 20 21 8 6\n2 OPENCV_FISHEYE {W} {H} 9 9 8 6 0 0 0 0\n"


def test_two_cameras_of_a_rig(make):
    files = {"sparse/0/cameras.txt": RIG_CAMERAS, "sparse/0/images.txt": rig_images([0, 0, 0])}
    recording = open_recording(make(files, RIG_NAMES))
    (right,) = recording.others
    assert (recording.reference.name, right.name) == ("left", "right")
    assert isinstance(right.camera, KannalaBrandtCamera)
    np.testing.assert_allclose(right.reference_from_camera[:3, 3], [0.1, 0, 0], atol=1e-12)
    assert right.timestamps_ns.tolist() == recording.reference.timestamps_ns.tolist()


def test_the_named_camera_is_the_reference_and_lends_poses(make):
    """left/1 was not registered: its pose comes from right/1."""
    lines = rig_images([0, 0, 0]).split("\n")
    at = next(i for i, line in enumerate(lines) if "left/1" in line)
    files = {
        "sparse/0/cameras.txt": RIG_CAMERAS,
        "sparse/0/images.txt": "\n".join(lines[:at] + lines[at + 2 :]),
        "colmap.json": '{"reference_camera": "left"}',
    }
    recording = open_recording(make(files, RIG_NAMES))
    assert recording.reference.name == "left" and len(recording.reference.timestamps_ns) == 2
    np.testing.assert_allclose(recording.trajectory.world_from_body[:, 0, 3], [0, 1, 2], atol=1e-12)


def test_cameras_that_are_not_fixed_to_each_other(make):
    files = {"sparse/0/cameras.txt": RIG_CAMERAS, "sparse/0/images.txt": rig_images([0, 0.5, 0])}
    recording = open_recording(make(files, RIG_NAMES))
    assert np.isnan(recording.others[0].reference_from_camera).all() and said(recording, "right (3 pictures) is not")


def test_one_camera_in_two_folders_of_the_same_names_is_two_streams(make):
    cameras = f"1 PINHOLE {W} {H} 20 21 8 6\n2 PINHOLE {W} {H} 20 21 8 6\n"
    files = {"sparse/0/cameras.txt": cameras, "sparse/0/images.txt": rig_images([0, 0, 0])}
    recording = open_recording(make(files, RIG_NAMES))
    assert [recording.reference.name, recording.others[0].name] == ["left", "right"]


def test_chapters_of_one_camera_are_one_stream(make):
    names = ["a/1.png", "a/2.png", "b/3.png"]
    recording = open_recording(make(names=names))
    assert recording.reference.name == "camera" and not recording.others
    assert len(recording.reference.timestamps_ns) == 3


def test_a_camera_for_every_image_is_refused(make):
    cameras = "".join(f"{i} PINHOLE {W} {H} {20 + i} 21 8 6\n" for i in (1, 2, 3))
    files = {"sparse/0/cameras.txt": cameras, "sparse/0/images.txt": images_txt(NAMES, [1, 2, 3])}
    with pytest.raises(RecordingError, match="a camera of its own"):
        open_recording(make(files))


# --- camera models against COLMAP itself --------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLE)
def test_every_model_agrees_with_pycolmap(name):
    """1e-6 px over the valid region, the half pixel taken into account: theirs = ours + 0.5."""
    pycolmap = pytest.importorskip("pycolmap", reason="pycolmap is in the dev extra")
    theirs = pycolmap.Camera(model=name, width=640, height=480, params=SAMPLE[name])
    ours = camera_of(name, (640, 480), SAMPLE[name], "test")
    rng = np.random.default_rng(1)
    rays = ours.unproject(rng.uniform([-0.5, -0.5], [639.5, 479.5], (4000, 2)))
    points = rays.directions[rays.valid] * rng.uniform(0.3, 5, (int(rays.valid.sum()), 1))
    points = points[points[:, 2] > 1e-3]
    assert len(points) > 2000
    expected = np.array([theirs.img_from_cam(point) for point in points])
    np.testing.assert_allclose(ours.project(points).pixels_xy + 0.5, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", SAMPLE)
def test_model_out_and_in_is_the_same_camera(name):
    ours = camera_of(name, (640, 480), SAMPLE[name], "test")
    out = model_of(ours)
    again = camera_of(out.name, (640, 480), out.params, "test")
    np.testing.assert_allclose(again.params[: len(ours.params)], ours.params, rtol=0, atol=1e-12)
    assert (again.model, set(again.params[len(ours.params) :].tolist()) | {0.0}) == (ours.model, {0.0})


# --- binary models ------------------------------------------------------------------------------------------------


def binary_files() -> dict[str, bytes]:
    """The text model of ``make`` as bytes, packed here by hand."""
    cameras = struct.pack("<QIiQQ4d", 1, 3, 1, W, H, 20, 21, 8, 6)
    images = struct.pack("<Q", 3)
    for i, name in enumerate(NAMES):
        images += struct.pack("<I7dI", 40 - i, *QUAT, 0.1 * i, 2, 3, 3) + name.encode() + b"\0"
        images += struct.pack("<Qddq", 1, 1.5, 2.5, -1) if i else struct.pack("<Q", 0)
    points = struct.pack("<Q", 2)
    points += struct.pack("<Q3d3BdQ4I", 7, 0.5, -1, 4, 10, 20, 30, 0.4, 2, 40, 0, 39, 0)
    points += struct.pack("<Q3d3BdQ", 9, 1, 2, 5, 255, 0, 1, 1.25, 0)
    return {"cameras.bin": cameras, "images.bin": images, "points3D.bin": points}


def write_binary(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / "sparse" / "0" / name).write_bytes(data)
    return folder


def test_a_binary_model_is_the_text_model(make):
    folder = make()
    text = open_recording(folder)
    binary = open_recording(write_binary(folder, binary_files()))
    assert [path.suffix for path in binary.input_files[:3]] == [".bin"] * 3
    assert (binary.trajectory.world_from_body == text.trajectory.world_from_body).all()
    assert binary.reference.camera == text.reference.camera
    assert (binary.points.points_in_world == text.points.points_in_world).all()
    assert (binary.points.colours == text.points.colours).all()


def cut(name: str, at: int) -> Callable[[dict[str, bytes]], Any]:
    return lambda files: files.update({name: files[name][:at]})


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (cut("cameras.bin", -8), "ends within"),
        (cut("images.bin", -20), "ends within|states"),
        (cut("points3D.bin", 60), "states|ends within"),
        (cut("images.bin", 4), "ends within the number of images"),
        (lambda f: f.update({"images.bin": struct.pack("<Q", 1 << 60)}), "states 1152921504606846976 images"),
        (lambda f: f.update({"cameras.bin": f["cameras.bin"] + b"\0"}), "1 bytes after its last entry"),
        (
            lambda f: f.update(
                {
                    "cameras.bin": f["cameras.bin"].replace(
                        struct.pack("<i", 1) + struct.pack("<Q", W), struct.pack("<i", 99) + struct.pack("<Q", W)
                    )
                }
            ),
            "model number 99",
        ),
        (lambda f: f.update({"images.bin": f["images.bin"].replace(b"f_2", b"f\n2")}), "no file name"),
        (
            lambda f: f.update({"images.bin": f["images.bin"].replace(b"f_2.png", b"f_1.png")}),
            "two images with the name",
        ),
    ],
)
def test_damaged_binary_is_named(make, change, fault):
    files = binary_files()
    change(files)
    with pytest.raises(GeoError, match=fault):
        open_recording(write_binary(make(), files))


def test_what_pycolmap_writes_is_read(tmp_path):
    """A synthetic rig with two cameras a frame, in both forms: cameras, centres, points as pycolmap has them."""
    pycolmap = pytest.importorskip("pycolmap", reason="pycolmap is in the dev extra")
    options = pycolmap.SyntheticDatasetOptions()
    options.num_rigs, options.num_cameras_per_rig, options.num_frames_per_rig = 1, 2, 5
    options.num_points3D = 30
    truth = pycolmap.synthesize_dataset(options)
    for folder, write in (("txt", truth.write_text), ("bin", truth.write_binary)):
        (tmp_path / folder).mkdir()
        write(str(tmp_path / folder))
        model = read_model(tmp_path / folder, [])
        assert len(model.images.names) == len(truth.images) == 10 and len(model.points.points) == 30
        for name, pose, image_id in zip(
            model.images.names, model.images.world_from_camera, model.images.image_ids.tolist(), strict=True
        ):
            image = truth.images[image_id]
            assert image.name == name
            np.testing.assert_allclose(pose[:3, 3], image.projection_center(), atol=1e-9)
            np.testing.assert_allclose(pose[:3, 2], image.viewing_direction(), atol=1e-9)
        for camera_id, camera in model.cameras.items():
            assert camera.cx_px == pytest.approx(truth.cameras[camera_id].principal_point_x - 0.5, abs=1e-9)


# --- fuzz -----------------------------------------------------------------------------------------------------------


def mutated(data: bytes, rng: random.Random, text: bool) -> bytes:
    kind = rng.randrange(5)
    at = rng.randrange(len(data))
    if kind == 0:
        return data[:at]
    if kind == 1:
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        return bytes(changed)
    if text:
        lines = data.split(b"\n")
        row = rng.randrange(len(lines))
        if kind == 2:
            del lines[row]
        else:
            cells = lines[row].split(b" ")
            huge = [b"1e400", b"-9" * 20, b"nan", b"inf", b"0", b"", b"1" * 5000, b"\xff", b"99999999999999999999"]
            cells[rng.randrange(len(cells))] = rng.choice(huge)
            lines[row] = b" ".join(cells[: rng.randrange(1, len(cells) + 1)] if kind == 3 else cells)
        return b"\n".join(lines)
    if kind == 2:
        return data[:at] + data[at + rng.randrange(1, 40) :]
    filler = rng.choice([b"\xff" * 8, b"\0" * 8, struct.pack("<d", 1e300), struct.pack("<d", float("nan"))])
    return data[:at] + filler + data[at + (8 if kind == 3 else 0) :]


@pytest.mark.parametrize("form", ["txt", "bin"])
def test_fuzz_ends_in_a_clean_error_or_a_sound_read(make, form):
    folder = make()
    if form == "bin":
        write_binary(folder, binary_files())
    sparse = folder / "sparse" / "0"
    whole = {path: path.read_bytes() for path in sorted(sparse.glob(f"*.{form}"))}
    rng = random.Random(20)
    reads = 0
    for _ in range(450):
        path = rng.choice(list(whole))
        path.write_bytes(mutated(whole[path], rng, form == "txt"))
        try:
            recording = open_recording(folder, "colmap")
        except GeoError as error:
            assert len(str(error)) > 20
        else:
            reads += 1
            poses = recording.trajectory.world_from_body
            assert len(poses) and np.isfinite(poses).all()
            gram = poses[:, :3, :3] @ np.swapaxes(poses[:, :3, :3], 1, 2)
            assert np.abs(gram - np.eye(3)).max() < 1e-9
            assert np.isfinite(recording.reference.camera.params).all()
            assert recording.points is None or np.isfinite(recording.points.points_in_world).all()
        path.write_bytes(whole[path])
    assert 20 < reads < 440
