"""``egospatial export --what nerfstudio|colmap|plain|tum|ply``: a finished folder out, and in again by the readers."""

import json

import frontdoor_makers as make
import numpy as np
import pytest
from typer.testing import CliRunner

from egospatial.cli import app
from egospatial.store import geometry_file, recording_file
from geo import se3
from geo.readers import open_recording
from geo.readers.trajectory_files import read_tum
from geo.world import Gravity

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
def export(finished, tmp_path):
    def run(*words, code=0):
        result = CliRunner().invoke(app, ["export", str(finished), "--to", str(tmp_path / "out"), "--json", *words])
        assert result.exit_code == code, result.output
        return tmp_path / "out" if code == 0 else result.stderr

    return run


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
        from recon.ply import read_splat_ply

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


def test_points_as_ply(finished, export):
    path = export("--what", "ply")
    assert path.read_bytes().startswith(b"ply\nformat binary_little_endian 1.0\nelement vertex ")


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--what", "colmap", "--world", "mars"], "expected canonical, source, original"),
        (["--what", "colmap", "--pictures", "gif"], "expected jpg, png, none"),
        (["--what", "colmap", "--depth"], "only nerfstudio has"),
        (["--what", "splats", "--world", "source"], "--world: only for nerfstudio"),
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
