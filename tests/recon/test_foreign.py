"""A model of another trainer: moved into the world, drawn, measured, never fitted."""

from dataclasses import replace

import numpy as np
import pytest

from geo import se3
from recon.config import ReconstructConfig
from recon.errors import ReconError
from recon.foreign import matrix_of, reconstruct_from_model
from recon.ply import write_splat_ply
from recon.reconstruct import reconstruct
from recon.records import SplatModel
from recon.transform import transform_model

CONFIG = ReconstructConfig(
    width_px=96, dynamic_width_px=64, max_gaussians=2500, iterations=0, keyframe_step_m=0.02, device="cpu"
)
FIELDS = ("means_in_world", "log_scales", "opacity_logits", "sh_coeffs")


@pytest.fixture(scope="module")
def own(room):
    """The room's model and report, as this project makes them without a fit."""
    return reconstruct(room.canonical, CONFIG)


def rigid(seed, scale=1.0):
    rng = np.random.default_rng(seed)
    matrix = se3.from_rotation_translation(se3.rotation_from_axis_angle(rng.normal(size=3)), rng.normal(size=3))
    matrix[:3, :3] *= scale
    return matrix


def test_a_model_comes_in_as_it_is_and_is_measured(room, own, tmp_path):
    write_splat_ply(tmp_path / "theirs.ply", own.model)
    found = reconstruct_from_model(room.canonical, tmp_path / "theirs.ply", CONFIG)
    for name in FIELDS:
        np.testing.assert_allclose(getattr(found.model, name), getattr(own.model, name), atol=1e-6)
    np.testing.assert_array_equal(found.dynamic.masks, own.dynamic.masks)
    report = found.report
    assert (report.keyframes, report.held_out_frames) == (own.report.keyframes, own.report.held_out_frames)
    assert report.psnr_held_out_db == pytest.approx(own.report.psnr_held_out_db, abs=0.05)
    assert report.depth_median_error_m == pytest.approx(own.report.depth_median_error_m, abs=1e-4)
    assert report.iterations == 0 and report.gaussians == len(own.model.means_in_world) and report.fit_seconds > 0
    assert any("not fitted" in note and "theirs.ply" in note for note in report.notes)
    assert any("may have seen" in note for note in report.notes) and not any("covers" in note for note in report.notes)


def test_it_is_told_in_the_recordings_own_world_and_may_have_one_of_its_own(room, own, tmp_path):
    """canonical = W @ source and source = S @ model's, S with a scale of 0.4: the file is told in the last."""
    world_from_source, source_from_model = rigid(1), rigid(2, 0.4)
    canonical = replace(room.canonical, world=replace(room.canonical.world, world_from_source_world=world_from_source))
    theirs = transform_model(own.model, np.linalg.inv(world_from_source @ source_from_model))
    write_splat_ply(tmp_path / "theirs.ply", theirs)
    found = reconstruct_from_model(canonical, tmp_path / "theirs.ply", CONFIG, source_from_model=source_from_model)
    np.testing.assert_allclose(found.model.means_in_world, own.model.means_in_world, atol=2e-5)
    np.testing.assert_allclose(found.model.log_scales, own.model.log_scales, atol=1e-5)
    assert found.report.psnr_held_out_db == pytest.approx(own.report.psnr_held_out_db, abs=0.1)
    astray = reconstruct_from_model(canonical, tmp_path / "theirs.ply", CONFIG)
    assert any("Give reconstruct.model_transform" in note for note in astray.report.notes)


def test_what_was_dropped_and_what_is_not_known_is_said(room, own, tmp_path):
    model = SplatModel(*(getattr(own.model, name).copy() for name in own.model.__dataclass_fields__))
    model.quats_wxyz[:3] = 0
    path = tmp_path / "theirs.ply"
    write_splat_ply(path, model)
    head, body = path.read_bytes().split(b"end_header\n", 1)
    width = len(body) // len(model.means_in_world)
    rows = [body[i : i + width] + b"\0\0\0\0" for i in range(0, len(body), width)]
    path.write_bytes(head + b"property float filter_3D\nend_header\n" + b"".join(rows))
    report = reconstruct_from_model(room.canonical, path, CONFIG).report
    assert report.floaters_pruned == 0 and report.gaussians == len(model.means_in_world) - 3
    assert any("3 splats of theirs.ply cannot be drawn" in note for note in report.notes)
    assert any("filter_3D" in note for note in report.notes)


def test_without_a_pose_nothing_is_measured(room, own, without_poses, tmp_path):
    write_splat_ply(tmp_path / "theirs.ply", own.model)
    canonical = without_poses(room.canonical, range(len(room.canonical.timestamps_ns)))
    report = reconstruct_from_model(canonical, tmp_path / "theirs.ply", CONFIG).report
    assert np.isnan(report.psnr_held_out_db) and any("no frame has a pose" in note for note in report.notes)


def test_a_file_without_anything_to_draw_is_refused(room, own, tmp_path):
    model = SplatModel(*(getattr(own.model, name)[:2].copy() for name in own.model.__dataclass_fields__))
    model.quats_wxyz[:] = 0
    write_splat_ply(tmp_path / "theirs.ply", model)
    with pytest.raises(ReconError, match="none of its 2 splats can be drawn"):
        reconstruct_from_model(room.canonical, tmp_path / "theirs.ply", CONFIG)
    with pytest.raises(ReconError, match="cannot be read"):
        reconstruct_from_model(room.canonical, tmp_path / "none.ply", CONFIG)


def test_a_settings_numbers_are_a_matrix_row_by_row():
    rows = [float(i) for i in range(12)]
    assert matrix_of(()) is None
    assert matrix_of(rows).tolist() == [*np.arange(12.0).reshape(3, 4).tolist(), [0, 0, 0, 1]]
    assert (matrix_of([*rows, 0.0, 0.0, 0.0, 1.0]) == matrix_of(rows)).all()
    with pytest.raises(ReconError, match="has 9 numbers; expected 12 or 16"):
        matrix_of(rows[:9])
    with pytest.raises(ReconError, match="as last row; expected 0 0 0 1"):
        matrix_of([*rows, 0.0, 0.0, 0.0, 2.0])


def test_the_stage_takes_the_model_that_the_settings_name(room, own, tmp_path):
    way = rigid(3, 2.0)
    write_splat_ply(tmp_path / "theirs.ply", transform_model(own.model, np.linalg.inv(way)))
    config = replace(CONFIG, iterations=50, model=str(tmp_path / "theirs.ply"), model_transform=tuple(way.ravel()))
    found = reconstruct(room.canonical, config)
    np.testing.assert_allclose(found.model.means_in_world, own.model.means_in_world, atol=2e-5)
    assert found.report.iterations == 0


def test_settings_of_a_model_that_cannot_be_are_refused():
    with pytest.raises(ReconError, match="has 3 numbers"):
        ReconstructConfig(model="a.ply", model_transform=(1.0, 2.0, 3.0))
    with pytest.raises(ReconError, match="none is given"):
        ReconstructConfig(model_transform=(1.0,) * 12)
