"""Converters out: what is written reads back to the same cameras, poses and points; similarities are undone exactly."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from geo.cameras import Camera, camera_from_params
from geo.errors import CameraError, GeoError, PoseError, ShapeError
from geo.exporters import (
    PosedPictures,
    Similarity,
    in_world,
    transforms_document,
    write_colmap,
    write_nerfstudio,
    write_plain,
    write_points,
)
from geo.readers import open_recording
from geo.readers.trajectory_files import read_tum, write_tum
from geo.trajectory import Trajectory

W, H, N = 16, 12, 7
STEP = 100_000_000
CAMERAS = {
    "pinhole": camera_from_params("PINHOLE", (W, H), [20.1, 21.3, 7.7, 5.2]),
    "radtan": camera_from_params("OPENCV", (W, H), [20.1, 21.3, 7.7, 5.2, -0.1, 0.03, 0.002, -0.003]),
    "radtan k3": camera_from_params("OPENCV", (W, H), [20.1, 21.3, 7.7, 5.2, -0.1, 0.03, 0.002, -0.003, 0.01]),
    "kb4": camera_from_params("KB4", (W, H), [9.1, 9.3, 7.7, 5.2, 0.02, -0.004, 0.0008, -0.0001]),
    "fisheye624": camera_from_params(
        "FISHEYE624", (W, H), [9.1, 9.3, 7.7, 5.2, *np.linspace(-0.01, 0.01, 6), *np.linspace(-1e-3, 1e-3, 6)]
    ),
    "fov": camera_from_params("FOV", (W, H), [9.1, 9.3, 7.7, 5.2, 0.9]),
    "eucm": camera_from_params("EUCM", (W, H), [9.1, 9.3, 7.7, 5.2, 0.6, 1.1]),
}
NERFSTUDIO = ("pinhole", "radtan", "radtan k3", "kb4")


def random_pictures(camera: Camera, seed: int, gaps: tuple[int, ...] = ()) -> PosedPictures:
    rng = np.random.default_rng(seed)
    poses = np.tile(np.eye(4), (N, 1, 1))
    poses[:, :3, :3] = Rotation.random(N, random_state=seed).as_matrix()
    poses[:, :3, 3] = rng.normal(0, 10.0 ** rng.integers(-2, 4), (N, 3))
    poses[list(gaps)] = np.nan
    return PosedPictures(
        camera,
        tuple(f"images/{i:06d}.png" for i in range(N)),
        np.arange(N, dtype=np.int64) * STEP,
        poses,
        points_in_world=rng.normal(0, 3, (5, 3)),
        colours=rng.integers(0, 256, (5, 3), dtype=np.uint8),
    )


@pytest.fixture
def folder(tmp_path, png_writer) -> Path:
    (tmp_path / "images").mkdir()
    (tmp_path / "sparse" / "0").mkdir(parents=True)
    for i in range(N):
        png_writer(tmp_path / "images" / f"{i:06d}.png", np.full((H, W, 3), 9 * i, dtype=np.uint8))
    return tmp_path


def same(recording, pictures: PosedPictures) -> None:
    """The recording's cameras and poses are the pictures' own, to 1e-9 of their size."""
    known = pictures.known()
    size = np.abs(known.world_from_camera).max()
    back = recording.trajectory.world_from_body
    np.testing.assert_allclose(back, known.world_from_camera, rtol=0, atol=1e-9 * max(size, 1))
    camera = recording.reference.camera
    assert (camera.model, camera.size_wh_px) == (pictures.camera.model, pictures.camera.size_wh_px)
    count = len(pictures.camera.params)
    np.testing.assert_allclose(camera.params[:count], pictures.camera.params, rtol=0, atol=1e-9)
    assert not camera.params[count:].any()


@pytest.mark.parametrize("name", CAMERAS)
@pytest.mark.parametrize("seed", range(5))
def test_colmap_out_and_in(folder, name, seed):
    pictures = random_pictures(CAMERAS[name], seed, gaps=(2,))
    bare = PosedPictures(**{**pictures.__dict__, "names": tuple(Path(n).name for n in pictures.names)})
    write_colmap(folder / "sparse" / "0", bare)
    recording = open_recording(folder)
    assert recording.format_name == "colmap"
    same(recording, pictures)
    assert (recording.points.points_in_world == pictures.points_in_world).all()
    assert (recording.points.colours == pictures.colours).all()
    assert recording.reference.timestamps_ns.tolist() == [i * STEP for i in (0, 1, 3, 4, 5, 6)]  # nominal: 10 Hz


def test_the_written_model_is_read_by_colmap_itself(folder):
    """Centre, axis and pixel of each picture as pycolmap sees them: half a pixel more than ours."""
    pycolmap = pytest.importorskip("pycolmap", reason="pycolmap is in the dev extra")
    pictures = random_pictures(CAMERAS["kb4"], 3)
    write_colmap(folder / "sparse" / "0", pictures)
    model = pycolmap.Reconstruction(str(folder / "sparse" / "0"))
    assert len(model.images) == N and len(model.points3D) == 5
    for image in model.images.values():
        pose = pictures.world_from_camera[pictures.names.index(image.name)]
        np.testing.assert_allclose(image.projection_center(), pose[:3, 3], atol=1e-9 * np.abs(pose).max())
        np.testing.assert_allclose(image.viewing_direction(), pose[:3, 2], atol=1e-9)
        point = np.array([0.3, -0.2, 1.0])
        theirs = model.cameras[image.camera_id].img_from_cam(point)
        np.testing.assert_allclose(theirs, pictures.camera.project(point).pixels_xy + 0.5, atol=1e-9)


@pytest.mark.parametrize("name", NERFSTUDIO)
@pytest.mark.parametrize("seed", range(5))
def test_nerfstudio_out_and_in(folder, name, seed):
    pictures = random_pictures(CAMERAS[name], seed)
    write_nerfstudio(folder / "transforms.json", transforms_document(pictures))
    recording = open_recording(folder, "nerfstudio")
    same(recording, pictures)
    assert recording.reference.timestamps_ns.tolist() == pictures.timestamps_ns.tolist()
    assert (recording.original_from_source_world == np.eye(4)).all() and not recording.world.metric


def test_nerfstudio_keeps_the_older_world_and_says_metric_and_up(folder):
    older = np.eye(4)
    older[:3, :3] = 2.5 * Rotation.from_euler("xyz", [20, 40, 70], degrees=True).as_matrix()
    older[:3, 3] = [1, -2, 3]
    pictures = random_pictures(CAMERAS["pinhole"], 1)
    up = np.array([0.0, 0.6, 0.8])
    said = PosedPictures(**{**pictures.__dict__, "original_from_world": older, "metric": True, "up": up})
    document = transforms_document(said)
    write_nerfstudio(folder / "transforms.json", document)
    recording = open_recording(folder, "nerfstudio")
    np.testing.assert_allclose(recording.original_from_source_world, older, atol=1e-12)
    assert recording.world.metric
    turn = recording.world.world_from_source_world
    np.testing.assert_allclose(turn[:3, :3] @ up, [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(recording.trajectory.world_from_body, turn @ pictures.world_from_camera, atol=1e-9)
    # by hand: a point's way from the original world to the file's is applied_scale * (applied_transform @ p)
    point = np.array([0.3, 0.1, -0.7])
    rows = np.array(document["applied_transform"])
    in_file = document["applied_scale"] * (rows[:, :3] @ point + rows[:, 3])
    np.testing.assert_allclose(older[:3, :3] @ in_file + older[:3, 3], point, atol=1e-12)


def test_nerfstudio_lists_depth_and_mask_of_kept_pictures_only(folder):
    pictures = random_pictures(CAMERAS["pinhole"], 1, gaps=(0,))
    names = [f"depth/{i}.png" if i != 3 else None for i in range(N)]
    document = transforms_document(pictures, names, 0.0005, "mask.png")
    assert [frame["file_path"][-5] for frame in document["frames"]] == ["1", "2", "3", "4", "5", "6"]
    assert [frame.get("depth_file_path") for frame in document["frames"]] == [
        None if i == 3 else f"depth/{i}.png" for i in range(1, N)
    ]
    assert document["depth_unit_scale_factor"] == 0.0005 and document["frames"][0]["mask_path"] == "mask.png"
    json.dumps(document, allow_nan=False)


@pytest.mark.parametrize("name", ["pinhole", "radtan k3", "kb4", "fisheye624", "eucm"])
@pytest.mark.parametrize("up", [None, [0.0, 0.0, 1.0]])
def test_plain_out_and_in(folder, name, up):
    pictures = random_pictures(CAMERAS[name], 4, gaps=(3,))
    said = PosedPictures(**{**pictures.__dict__, "metric": True, "up": None if up is None else np.array(up)})
    write_plain(folder, "made", said, {"images": "images/%06d.png", "first": 0})
    recording = open_recording(folder, "plain")
    same(recording, pictures)
    assert recording.recording_id == "made" and recording.world.metric and recording.world.has_up == (up is not None)
    assert recording.reference.timestamps_ns.tolist() == pictures.timestamps_ns.tolist()
    assert len(recording.trajectory.timestamps_ns) == N - 1


@pytest.mark.parametrize("seed", range(5))
def test_tum_out_and_in(tmp_path, seed):
    pictures = random_pictures(CAMERAS["pinhole"], seed)
    stamps = pictures.timestamps_ns + 1_718_892_641_002_929_366
    write_tum(tmp_path / "p.txt", Trajectory(stamps, pictures.world_from_camera))
    back = read_tum(tmp_path / "p.txt", [])
    assert back.timestamps_ns.tolist() == stamps.tolist()
    size = np.abs(pictures.world_from_camera).max()
    np.testing.assert_allclose(back.world_from_body, pictures.world_from_camera, rtol=0, atol=1e-9 * max(1, size))


@pytest.mark.parametrize("seed", range(10))
def test_a_similarity_and_its_inverse_are_the_identity(seed):
    rng = np.random.default_rng(seed)
    there = np.eye(4)
    there[:3, :3] = 10.0 ** rng.uniform(-3, 3) * Rotation.random(random_state=seed).as_matrix()
    there[:3, 3] = rng.normal(0, 5, 3)
    pictures = PosedPictures(**{**random_pictures(CAMERAS["pinhole"], seed).__dict__, "original_from_world": there})
    other = in_world(pictures, there, metric=False)
    # a camera's own view of a point must not change: same direction, distance times the scale
    scale = Similarity.of(there).scale
    inside = np.linalg.inv(pictures.world_from_camera[2]) @ [*pictures.points_in_world[1], 1]
    outside = np.linalg.inv(other.world_from_camera[2]) @ [*other.points_in_world[1], 1]
    np.testing.assert_allclose(outside[:3], scale * inside[:3], rtol=1e-9, atol=1e-9 * scale * np.abs(inside).max())
    np.testing.assert_allclose(other.original_from_world, np.eye(4), atol=1e-9)
    back = in_world(other, np.linalg.inv(there), metric=False)
    size = np.abs(pictures.world_from_camera).max()
    np.testing.assert_allclose(back.world_from_camera, pictures.world_from_camera, rtol=0, atol=1e-9 * max(1, size))


@pytest.mark.parametrize(
    "linear", [np.diag([1.0, 1, -1]), np.diag([1.0, 1, 2]), np.zeros((3, 3)), np.full((3, 3), np.nan)]
)
def test_what_is_no_similarity_is_refused(linear):
    matrix = np.eye(4)
    matrix[:3, :3] = linear
    with pytest.raises(PoseError, match="no similarity"):
        Similarity.of(matrix)


def test_points_are_written_as_they_are(tmp_path):
    """Read back by hand: header, then 27 bytes a point."""
    points = np.array([[1.5, -2, 3e5], [0.1, 0.2, 0.3]])
    colours = np.array([[1, 2, 3], [255, 0, 7]], dtype=np.uint8)
    write_points(tmp_path / "p.ply", points, colours)
    head, body = (tmp_path / "p.ply").read_bytes().split(b"end_header\n")
    assert b"element vertex 2\n" in head and len(body) == 54
    rows = np.frombuffer(body, dtype=[("p", "<f8", 3), ("c", "u1", 3)])
    assert (rows["p"] == points).all() and (rows["c"] == colours).all()
    with pytest.raises(ShapeError, match="1 points are not finite"):
        write_points(tmp_path / "q.ply", np.array([[np.nan, 0, 0]]))
    assert not (tmp_path / "q.ply").exists()


def test_points_with_normals_open_in_open3d(tmp_path):
    import open3d as o3d

    points, normals = np.array([[1.5, -2, 3e5], [0.1, 0.2, 0.3]]), np.array([[0, 0.6, 0.8], [0, 0, 0]])
    colours = np.array([[1, 2, 3], [255, 0, 7]], dtype=np.uint8)
    write_points(tmp_path / "p.ply", points, colours, normals)
    found = o3d.io.read_point_cloud(str(tmp_path / "p.ply"))
    assert (np.asarray(found.points) == points).all()
    np.testing.assert_allclose(np.asarray(found.normals), normals, atol=1e-7)
    np.testing.assert_allclose(np.asarray(found.colors) * 255, colours, atol=1e-9)
    with pytest.raises(ShapeError, match="1 normals are not finite"):
        write_points(tmp_path / "q.ply", points, colours, np.array([[0, np.nan, 0], [0, 0, 1]]))


def test_a_mask_for_every_picture_and_points_to_begin_with():
    """The picture without a pose takes its mask with it."""
    said = random_pictures(CAMERAS["pinhole"], 1, gaps=(0,))
    masks = [None if i == 3 else f"masks/{i}.png" for i in range(N)]
    document = transforms_document(said, mask_name=masks, points_name="sparse_pc.ply")
    assert document["ply_file_path"] == "sparse_pc.ply"
    assert [frame.get("mask_path") for frame in document["frames"]] == masks[1:]
    assert "ply_file_path" not in transforms_document(said)


def test_normals_turn_with_the_world_and_unknown_ones_stay_unknown():
    """A quarter turn about z, scaled by 3: (1, 0, 0) becomes (0, 1, 0), 0 0 0 stays."""
    way = np.eye(4)
    way[:3, :3] = 3 * np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    normals = np.array([[1.0, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, -1], [0, 1, 0]])
    said = PosedPictures(**{**random_pictures(CAMERAS["pinhole"], 1).__dict__, "normals_in_world": normals})
    expected = [[0, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, -1], [-1, 0, 0]]
    np.testing.assert_allclose(in_world(said, way, False).normals_in_world, expected, atol=1e-12)


@pytest.mark.parametrize("write", [write_colmap, lambda path, pictures: transforms_document(pictures)])
def test_what_a_format_cannot_hold_is_said(tmp_path, write):
    omni = camera_from_params("OMNI", (W, H), [9.1, 9.3, 7.7, 5.2, 0.8, 0, 0, 0, 0])
    with pytest.raises(CameraError, match="OMNI"):
        write(tmp_path, random_pictures(omni, 0))
    skewed = camera_from_params("PINHOLE", (W, H), [9.1, 9.3, 7.7, 5.2, 0.8])
    with pytest.raises(CameraError, match="PINHOLE"):
        write(tmp_path, random_pictures(skewed, 0))
    with pytest.raises(PoseError, match="no picture has a pose"):
        write(tmp_path, random_pictures(CAMERAS["pinhole"], 0, gaps=tuple(range(N))))
    assert list(tmp_path.iterdir()) == []


def test_columns_of_different_length_are_refused():
    pictures = random_pictures(CAMERAS["pinhole"], 0)
    with pytest.raises(ShapeError, match="6 names"):
        PosedPictures(**{**pictures.__dict__, "names": pictures.names[:6]})


@pytest.mark.samples
def test_fox_through_both_formats(samples_dir, tmp_path):
    """The sample out to nerfstudio and COLMAP and in again, pictures linked: the same cameras and poses."""
    fox = open_recording(samples_dir / "ngp_fox")
    files = fox.reference.frames.files
    pictures = PosedPictures(
        fox.reference.camera,
        tuple(f"images/{path.name}" for path in files),
        fox.reference.timestamps_ns,
        fox.trajectory.world_from_body,
        original_from_world=fox.original_from_source_world,
    )
    (tmp_path / "images").mkdir()
    for path in files:
        (tmp_path / "images" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "sparse").mkdir()
    write_colmap(
        tmp_path / "sparse", PosedPictures(**{**pictures.__dict__, "names": tuple(path.name for path in files)})
    )
    same(open_recording(tmp_path), pictures)
    write_nerfstudio(tmp_path / "transforms.json", transforms_document(pictures))
    back = open_recording(tmp_path, "nerfstudio")
    same(back, pictures)
    assert not [text for text in back.warnings if "do not exist" in text]


def test_every_error_is_one_of_ours(tmp_path):
    with pytest.raises(GeoError):
        write_colmap(tmp_path / "nowhere", random_pictures(CAMERAS["pinhole"], 0))
