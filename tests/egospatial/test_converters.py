"""``egospatial export --what nerfstudio|colmap|plain|tum|splats|points|mesh``: a finished folder out, and in again by the readers."""

import dataclasses
import json
from collections import Counter

import cv2
import frontdoor_makers as make
import h5py
import numpy as np
import open3d as o3d
import pytest
import splat_makers as scene
from typer.testing import CliRunner

from egospatial.cli import app
from egospatial.store import geometry_file, recording_file, splats_file
from geo import se3
from geo.readers import open_recording
from geo.readers.trajectory_files import read_tum
from geo.world import Gravity
from recon.compressed import morton_order
from recon.model import empty_model, select
from recon.ply import read_splat_file, read_splat_ply
from recon.point_cloud import splat_points
from recon.records import Reconstruction

SCALE = 2.0


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """World = source + (1, 2, 3); the source's files say that an older world was halved and turned."""
    folder = make.write_finished(tmp_path_factory.mktemp("finished") / "kitchen_03")
    document = json.loads((folder / "recording.json").read_text())
    older = np.eye(4)
    older[:3, :3] = SCALE * se3.rotation_from_axis_angle(np.array([0.1, 0.2, 0.3]))
    older[:3, 3] = [0.5, 0, -1]
    document["original_from_source_world"] = older.tolist()
    (folder / "recording.json").write_text(json.dumps(document))
    return folder


@pytest.fixture
def export_of(tmp_path):
    def run(folder, *words, code=0):
        result = CliRunner().invoke(app, ["export", str(folder), "--to", str(tmp_path / "out"), "--json", *words])
        assert result.exit_code == code, result.output
        return tmp_path / "out" if code == 0 else result.stderr

    return run


@pytest.fixture
def export(finished, export_of):
    return lambda *words, code=0: export_of(finished, *words, code=code)


def truth(finished):
    frames = geometry_file.read_frames(finished)
    known = np.isfinite(frames.world_from_camera).all(axis=(1, 2))
    return frames.timestamps_ns[known], frames.world_from_camera[known]


def test_a_new_folder_says_the_identity(tmp_path):
    document = recording_file.read(make.write_finished(tmp_path / "x", with_depth=False))
    assert (recording_file.original_from_source_world(document) == np.eye(4)).all()
    del document["original_from_source_world"]  # a folder of before
    assert (recording_file.original_from_source_world(document) == np.eye(4)).all()


@pytest.mark.parametrize("what", ["nerfstudio", "colmap", "plain"])
def test_out_and_in_is_the_same_recording(finished, export, what):
    recording = open_recording(export("--what", what, "--pictures", "png"), what)
    stamps, poses = truth(finished)
    np.testing.assert_allclose(recording.trajectory.world_from_body, poses, rtol=0, atol=1e-9)
    camera = recording.reference.camera
    np.testing.assert_allclose(camera.params, make.camera().params, rtol=0, atol=1e-9)
    assert camera.size_wh_px == make.camera().size_wh_px
    if what == "plain":
        assert recording.trajectory.timestamps_ns.tolist() == stamps.tolist() and recording.world.metric
        assert len(recording.reference.timestamps_ns) == 6
    picture = recording.reference.frames.read(0)
    assert picture.shape == (*camera.size_wh_px[::-1], 3) and picture.std() > 1
    if what == "colmap":
        model = read_splat_ply(finished / "splats.ply")
        solid = model.means_in_world[model.opacity_logits > 0]
        np.testing.assert_allclose(recording.points.points_in_world, solid, atol=1e-6)


def test_worlds_are_undone_one_after_the_other(finished, export):
    """canonical p; source p - (1, 2, 3); original 2 R (p - (1, 2, 3)) + t: positions worked out here."""
    _, poses = truth(finished)
    turn = se3.rotation_from_axis_angle(np.array([0.1, 0.2, 0.3]))
    expected = {
        "canonical": poses[:, :3, 3],
        "source": poses[:, :3, 3] - [1, 2, 3],
        "original": SCALE * (poses[:, :3, 3] - [1, 2, 3]) @ turn.T + [0.5, 0, -1],
    }
    for world, positions in expected.items():
        path = export("--what", "tum", "--world", world, "--force")
        found = read_tum(path, [])
        np.testing.assert_allclose(found.world_from_body[:, :3, 3], positions, rtol=0, atol=1e-9)
        rotation = turn @ poses[:, :3, :3] if world == "original" else poses[:, :3, :3]
        np.testing.assert_allclose(found.world_from_body[:, :3, :3], rotation, rtol=0, atol=1e-9)


@pytest.mark.parametrize("world", ["canonical", "source", "original"])
def test_nerfstudio_leads_to_the_same_original_world_whatever_world_is_written(finished, export, world):
    recording = open_recording(export("--what", "nerfstudio", "--world", world), "nerfstudio")
    back = recording.original_from_source_world @ np.linalg.inv(recording.world.world_from_source_world)
    positions = recording.trajectory.world_from_body[:, :3, 3]
    original = positions @ back[:3, :3].T + back[:3, 3]
    turn = se3.rotation_from_axis_angle(np.array([0.1, 0.2, 0.3]))
    _, poses = truth(finished)
    expected = SCALE * (poses[:, :3, 3] - [1, 2, 3]) @ turn.T + [0.5, 0, -1]
    np.testing.assert_allclose(original, expected, rtol=0, atol=1e-9)
    assert recording.world.metric == (world != "original")  # its unit is half a metre there
    assert recording.world.gravity is Gravity.UNKNOWN  # it was estimated, which the format cannot say


@pytest.mark.parametrize("world", ["canonical", "original"])
def test_depth_is_in_the_unit_of_the_poses(finished, export, world):
    recording = open_recording(export("--what", "nerfstudio", "--depth", "--world", world), "nerfstudio")
    stored = geometry_file.DepthReader(finished).read(0).z_depth_m
    found = recording.depth.frames.read(0)
    factor = SCALE if world == "original" else 1
    known = np.isfinite(stored) & np.isfinite(found)
    assert known.mean() > 0.9
    np.testing.assert_allclose(
        found[known], factor * stored[known], atol=factor * 0.000251
    )  # half a step of the images


@pytest.mark.parametrize("world", ["canonical", "original"])
@pytest.mark.parametrize("what", ["points", "ply"])
def test_points_are_the_solid_splats_in_the_world_that_was_asked_for(finished, export, what, world):
    found = o3d.io.read_point_cloud(str(export("--what", what, "--world", world)), format="ply")
    model = read_splat_ply(finished / "splats.ply")
    solid = model.opacity_logits > 0
    expected, turn = model.means_in_world[solid].astype(float), np.eye(3)
    if world == "original":
        turn = se3.rotation_from_axis_angle(np.array([0.1, 0.2, 0.3]))
        expected = SCALE * (expected - [1, 2, 3]) @ turn.T + [0.5, 0, -1]
    np.testing.assert_allclose(np.asarray(found.points), expected, atol=1e-9)
    colours = np.clip(0.5 + 0.28209479 * model.sh_coeffs[solid, 0], 0, 1)
    np.testing.assert_allclose(np.asarray(found.colors), colours, atol=0.5 / 255 + 1e-6)
    cameras = geometry_file.read_frames(finished).world_from_camera[:, :3, 3]
    normals = splat_points(model, cameras).normals_in_world
    np.testing.assert_allclose(np.asarray(found.normals), normals @ turn.T, atol=1e-6)
    assert normals.any()


def test_splats_as_they_are_are_copied_and_in_another_world_look_the_same(finished, export):
    assert export("--what", "splats").read_bytes() == (finished / "splats.ply").read_bytes()
    model = read_splat_ply(finished / "splats.ply")
    moved = read_splat_ply(export("--what", "splats", "--world", "original", "--force"))
    turn = se3.rotation_from_axis_angle(np.array([0.1, 0.2, 0.3]))
    np.testing.assert_allclose(
        moved.means_in_world, SCALE * (model.means_in_world - [1, 2, 3]) @ turn.T + [0.5, 0, -1], atol=1e-5
    )
    np.testing.assert_allclose(moved.log_scales, model.log_scales + np.log(SCALE), atol=1e-5)
    for before, after in zip(model.quats_wxyz[:5], moved.quats_wxyz[:5], strict=True):
        expected = turn @ se3.rotation_from_quat_wxyz(before / np.linalg.norm(before))
        np.testing.assert_allclose(se3.rotation_from_quat_wxyz(after / np.linalg.norm(after)), expected, atol=1e-5)


def test_splats_compressed_read_back_near_to_what_they_were(finished, export):
    found = read_splat_file(export("--what", "splats", "--format", "compressed"))
    model = read_splat_ply(finished / "splats.ply")
    model = select(model, morton_order(model.means_in_world))
    reach = np.ptp(model.means_in_world, axis=0).max()
    np.testing.assert_allclose(found.model.means_in_world, model.means_in_world, atol=reach / 1023)


@pytest.fixture
def room(tmp_path):
    """A finished folder whose splats are the inside of a box that every frame looks at, and a frame without a pose."""
    folder = make.write_finished(tmp_path / "room")
    frames, report = geometry_file.read_frames(folder), make.reconstruction().report
    with h5py.File(folder / "geometry.h5", "r+") as file:
        file["frames/world_from_camera"][:] = np.where(
            np.isfinite(frames.world_from_camera), scene.look_around(6), np.nan
        )
    report = dataclasses.replace(report, keyframes=(0, 1, 3, 4), held_out_frames=(5,))
    splats_file.write(folder, Reconstruction(scene.box(0.06), make.reconstruction().dynamic, report))
    return folder


@pytest.mark.parametrize("world", ["canonical", "source"])
def test_the_mesh_lies_on_the_rooms_sides(room, export_of, world):
    import trimesh

    path = export_of(room, "--what", "mesh", "--voxel", "0.05", "--world", world)
    mesh = trimesh.load(path, file_type="ply", process=False)
    vertices = mesh.vertices + ([1, 2, 3] if world == "source" else [0, 0, 0])
    assert np.median(np.abs(np.abs(vertices) - scene.HALF).min(axis=1)) < 0.03 and len(mesh.faces) > 500
    again = path.read_bytes()
    export_of(room, "--what", "mesh", "--voxel", "0.05", "--world", world, "--force")
    assert path.read_bytes() == again


def test_a_mesh_without_a_scale_or_without_splats_says_what_to_do(room, export_of):
    document = json.loads((room / "recording.json").read_text())
    document["world"]["metric"] = False
    (room / "recording.json").write_text(json.dumps(document))
    assert "give --voxel in the unit of the poses" in export_of(room, "--what", "mesh", code=2)
    report = dataclasses.replace(make.reconstruction().report, notes=("no depth, no splats",))
    splats_file.write(room, Reconstruction(empty_model(), make.reconstruction().dynamic, report))
    for what in ("mesh", "points"):
        assert "holds no solid splat (no depth, no splats)" in export_of(room, "--what", what, code=2)
    (room / "splats.ply").unlink()
    for what in ("mesh", "points", "splats"):
        assert "splats.ply: not there" in export_of(room, "--what", what, code=2)


def test_nerfstudio_gets_points_to_begin_with(finished, export):
    folder = export("--what", "nerfstudio", "--pictures", "none", "--world", "source")
    document = json.loads((folder / "transforms.json").read_text())
    found = o3d.io.read_point_cloud(str(folder / document["ply_file_path"]))  # as nerfstudio reads it
    model = read_splat_ply(finished / "splats.ply")
    expected = model.means_in_world[model.opacity_logits > 0].astype(float) - [1, 2, 3]
    np.testing.assert_allclose(np.asarray(found.points), expected, atol=1e-9)
    poses = np.array([frame["transform_matrix"] for frame in document["frames"]])
    np.testing.assert_allclose(poses[:, :3, 3], truth(finished)[1][:, :3, 3] - [1, 2, 3], atol=1e-9)


def test_nerfstudio_masks_are_black_where_something_may_move(finished, export):
    def masks(*words):
        folder = export("--what", "nerfstudio", "--pictures", "none", "--force", *words)
        frames = json.loads((folder / "transforms.json").read_text())["frames"]
        return [cv2.imread(str(folder / frame["mask_path"]), 0) if "mask_path" in frame else None for frame in frames]

    valid = geometry_file.read_frames(finished).valid_mask
    assert masks("--masks", "none") == [None] * 5
    assert all(((mask > 0) == valid).all() for mask in masks())
    moving = splats_file.read(finished).dynamic
    for mask, frame in zip(masks("--masks", "static"), (0, 1, 3, 4, 5), strict=True):  # frame 2 has no pose
        assert ((mask > 0) == (valid & ~moving.at(frame, (40, 30)))).all()
        assert 0.1 < (mask > 0).mean() < 0.9


def test_every_record_is_read_once_for_an_export(finished, export, monkeypatch):
    counts = Counter()
    for module, name in ((recording_file, "read"), (geometry_file, "read_frames")):
        inner = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, f=inner, n=name: counts.update([n]) or f(*a))
    export("--what", "nerfstudio", "--depth", "--world", "original")
    assert counts == {"read": 1, "read_frames": 1}


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--what", "colmap", "--world", "mars"], "expected canonical, source, original"),
        (["--what", "colmap", "--pictures", "gif"], "expected jpg, png, none"),
        (["--what", "colmap", "--depth"], "only nerfstudio has"),
        (["--what", "questions", "--world", "source"], "--world: only for nerfstudio"),
        (["--what", "colmap", "--masks", "none"], "only nerfstudio has"),
        (["--what", "nerfstudio", "--masks", "all"], "expected valid, static, none"),
        (["--what", "points", "--pictures", "png"], "points holds no pictures"),
        (["--what", "splats", "--voxel", "0.1"], "only mesh has"),
        (["--what", "mesh", "--voxel", "0"], "expected a length above 0"),
        (["--what", "mesh", "--format", "csv"], "only trajectories and splats"),
        (["--what", "splats", "--format", "csv"], "ply or compressed"),
        (["--what", "nothing"], "expected trajectories, questions, or nerfstudio"),
        (["--what", "trajectories", "--force"], "--force: only for nerfstudio"),
        (["--what", "tum", "--format", "csv"], "only trajectories"),
    ],
)
def test_what_cannot_be_is_refused(export, tmp_path, words, fault):
    assert fault in export(*words, code=2)
    assert not (tmp_path / "out").exists()


def test_nothing_is_replaced_without_force(export, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    assert "--force" in export("--what", "colmap", code=2)
    assert (tmp_path / "out" / "mine").read_text() == "x"
    assert "other things" in export("--what", "colmap", "--pictures", "none", "--force", code=2)
    (tmp_path / "out" / "mine").unlink()
    (tmp_path / "out").rmdir()
    export("--what", "plain", "--pictures", "none")
    export("--what", "colmap", "--pictures", "none", "--force")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    assert (
        not (tmp_path / "out" / "recording.json").exists()
        and (tmp_path / "out" / "sparse" / "0" / "images.txt").is_file()
    )
