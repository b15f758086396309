"""Splat files hold what the original 3DGS trainer writes (FIELD_PROBLEMS G3)."""

import struct

import numpy as np
import pytest

from recon.errors import ReconError
from recon.model import rgb_from_sh0, sigmoid
from recon.ply import read_splat_ply, write_point_ply, write_splat_ply
from recon.records import SplatModel

NAMES = "x y z nx ny nz f_dc_0 f_dc_1 f_dc_2 opacity scale_0 scale_1 scale_2 rot_0 rot_1 rot_2 rot_3".split()
VALUES = [1, 2, 3, 0, 0, 0, 0.7089815, 0, -0.7089815, 1.3862944, -3.912023, -3.912023, -2.302585, 2, 0, 0, 0]


def trainer_file(path, names=NAMES, values=VALUES):
    header = "ply\nformat binary_little_endian 1.0\nelement vertex 1\n"
    header += "".join(f"property float {name}\n" for name in names) + "end_header\n"
    path.write_bytes(header.encode() + struct.pack(f"<{len(values)}f", *values))
    return path


def random_model(degree, count=5, seed=1):
    rng = np.random.default_rng(seed)
    return SplatModel(
        *(rng.standard_normal((count, n)).astype(np.float32) for n in (3, 3, 4)),
        rng.standard_normal(count).astype(np.float32),
        rng.standard_normal((count, (degree + 1) ** 2, 3)).astype(np.float32),
    )


def test_the_trainers_numbers_mean_scale_opacity_colour_and_w_first(tmp_path):
    """Golden values of case G3: scales 2, 2, 10 cm, opacity 0.8, colour (0.7, 0.5, 0.3), identity rotation."""
    model = read_splat_ply(trainer_file(tmp_path / "g3.ply"))
    assert model.means_in_world.tolist() == [[1, 2, 3]]
    np.testing.assert_allclose(np.exp(model.log_scales[0]), [0.02, 0.02, 0.1], atol=1e-6)
    assert sigmoid(model.opacity_logits)[0] == pytest.approx(0.8, abs=1e-6)
    np.testing.assert_allclose(rgb_from_sh0(model.sh_coeffs)[0], [0.7, 0.5, 0.3], atol=1e-6)
    assert model.quats_wxyz[0].tolist() == [2, 0, 0, 0]


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_write_then_read_gives_the_same_numbers_and_write_again_the_same_bytes(tmp_path, degree):
    model = random_model(degree)
    write_splat_ply(tmp_path / "a.ply", model)
    again = read_splat_ply(tmp_path / "a.ply")
    for name in ("means_in_world", "log_scales", "quats_wxyz", "opacity_logits", "sh_coeffs"):
        np.testing.assert_array_equal(getattr(model, name), getattr(again, name))
    write_splat_ply(tmp_path / "b.ply", again)
    assert (tmp_path / "a.ply").read_bytes() == (tmp_path / "b.ply").read_bytes()


def test_higher_coefficients_run_channel_by_channel(tmp_path):
    """Degree 1: f_rest_0..2 are red's three coefficients, then green's, then blue's."""
    names = NAMES[:9] + [f"f_rest_{i}" for i in range(9)] + NAMES[9:]
    model = read_splat_ply(trainer_file(tmp_path / "d1.ply", names, VALUES[:9] + list(range(9)) + VALUES[9:]))
    assert model.sh_coeffs[0, 1:, 0].tolist() == [0, 1, 2]
    assert model.sh_coeffs[0, 1:, 2].tolist() == [6, 7, 8]


def test_opacity_zero_and_one_are_written_as_finite_numbers_and_stay(tmp_path):
    model = random_model(0, count=2)
    model.opacity_logits[:] = [-np.inf, np.inf]
    write_splat_ply(tmp_path / "a.ply", model)
    again = read_splat_ply(tmp_path / "a.ply")
    assert np.isfinite(again.opacity_logits).all()
    np.testing.assert_allclose(sigmoid(again.opacity_logits), [0, 1], atol=1e-6)
    write_splat_ply(tmp_path / "b.ply", again)
    assert (tmp_path / "a.ply").read_bytes() == (tmp_path / "b.ply").read_bytes()


def test_property_order_does_not_matter_and_unknown_ones_are_ignored(tmp_path):
    names, values = [*NAMES[::-1], "confidence"], [*VALUES[::-1], 7]
    model = read_splat_ply(trainer_file(tmp_path / "r.ply", names, values))
    assert model.means_in_world.tolist() == [[1, 2, 3]]


def test_an_empty_model_survives(tmp_path):
    write_splat_ply(tmp_path / "e.ply", random_model(0, count=0))
    assert len(read_splat_ply(tmp_path / "e.ply").means_in_world) == 0


def test_a_model_with_nan_is_refused_and_the_old_file_stays(tmp_path):
    target = tmp_path / "a.ply"
    target.write_bytes(b"old")
    model = random_model(0)
    model.means_in_world[3, 1] = np.nan
    with pytest.raises(ReconError, match=r"1 of 5 splats are not finite \(first: 3\)"):
        write_splat_ply(target, model)
    assert target.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.ply"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"solid cube", "is not a PLY file"),
        (b"ply\nformat ascii 1.0\nelement vertex 0\nproperty float x\nend_header\n", "text PLY"),
        (b"ply\nformat binary_little_endian 1.0\nelement vertex 9\nproperty float x\nend_header\n", "truncated"),
        (b"ply\nformat binary_little_endian 1.0\nelement vertex 0\nproperty float x\nend_header\n", "no property y, z"),
        (b"ply\nformat binary_little_endian 1.0\nend_header\n", "no readable 'element vertex'"),
    ],
)
def test_files_that_are_no_splats_are_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "bad.ply").write_bytes(content)
    with pytest.raises(ReconError, match=message):
        read_splat_ply(tmp_path / "bad.ply")


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(ReconError, match="cannot be read"):
        read_splat_ply(tmp_path / "none.ply")


def test_a_number_of_coefficients_that_fits_no_degree_is_refused(tmp_path):
    names = NAMES[:9] + [f"f_rest_{i}" for i in range(4)] + NAMES[9:]
    with pytest.raises(ReconError, match="4 f_rest properties"):
        read_splat_ply(trainer_file(tmp_path / "d.ply", names, VALUES[:9] + [0] * 4 + VALUES[9:]))


def test_points_are_written_as_floats_and_bytes(tmp_path):
    write_point_ply(tmp_path / "p.ply", np.array([[1.0, 2.0, 3.0]]), np.array([[255, 0, 7]], dtype=np.uint8))
    assert (tmp_path / "p.ply").read_bytes().endswith(struct.pack("<3f3B", 1, 2, 3, 255, 0, 7))
    with pytest.raises(ReconError, match="1 points are not finite"):
        write_point_ply(tmp_path / "p.ply", np.array([[np.nan, 0, 0]]))
