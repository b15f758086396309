"""Splat files and other programs: what is written here opens elsewhere, what the original trainer writes opens here.

Readers: plyfile (which the original trainer itself uses), gsply, trimesh and Open3D.
"""

import itertools

import gsply
import numpy as np
import plyfile
import pytest
import splat_makers as make

import cuda_kernels.jit  # noqa: F401  (threads of numba, which gsply uses too)
from cuda_kernels.splat import eval_sh
from geo import se3
from recon.model import drop_bad
from recon.ply import read_splat_file, read_splat_ply, write_splat_ply
from recon.render import render

FIELDS = ("means_in_world", "log_scales", "quats_wxyz", "opacity_logits", "sh_coeffs")


def columns_of(rows, coefficients):
    """A model's arrays from named columns; f_rest as gaussian-splatting's load_ply takes it: (N, 3, K - 1) first."""
    count, per_channel = len(rows["x"]), coefficients - 1
    dc = np.stack([rows[f"f_dc_{i}"] for i in range(3)], axis=1)[:, None]
    rest = np.stack([rows[f"f_rest_{i}"] for i in range(3 * per_channel)], axis=1) if per_channel else None
    sh = dc if rest is None else np.concatenate([dc, rest.reshape(count, 3, per_channel).transpose(0, 2, 1)], axis=1)
    return {
        "means_in_world": np.stack([rows[axis] for axis in "xyz"], axis=1),
        "log_scales": np.stack([rows[f"scale_{i}"] for i in range(3)], axis=1),
        "quats_wxyz": np.stack([rows[f"rot_{i}"] for i in range(4)], axis=1),
        "opacity_logits": rows["opacity"],
        "sh_coeffs": sh,
    }


def by_plyfile(path, coefficients):
    return columns_of(plyfile.PlyData.read(path)["vertex"], coefficients)


def by_trimesh(path, coefficients):
    import trimesh

    return columns_of(trimesh.load(path).metadata["_ply_raw"]["vertex"]["data"], coefficients)


def by_gsply(path, coefficients):
    data = gsply.plyread(path)
    sh = np.concatenate([data.sh0[:, None], data.shN.reshape(len(data.means), -1, 3)], axis=1)
    return dict(zip(FIELDS, (data.means, data.scales, data.quats, data.opacities, sh), strict=True))


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("reader", [by_plyfile, by_gsply, by_trimesh])
def test_what_is_written_opens_elsewhere_with_identical_parameters(tmp_path, reader, degree):
    model = make.cloud(degree=degree)
    write_splat_ply(tmp_path / "a.ply", model)
    found = reader(tmp_path / "a.ply", (degree + 1) ** 2)
    for name in FIELDS:
        np.testing.assert_array_equal(found[name], getattr(model, name), err_msg=name)


@pytest.mark.parametrize("degree", [0, 3])
def test_open3d_takes_the_file_for_splats_and_understands_its_numbers(tmp_path, degree):
    """Open3D knows splat files: it hands out scales in metres, the logits as they are."""
    import open3d as o3d

    model = make.cloud(degree=degree)
    write_splat_ply(tmp_path / "a.ply", model)
    point = o3d.t.io.read_point_cloud(str(tmp_path / "a.ply")).point
    np.testing.assert_array_equal(point["positions"].numpy(), model.means_in_world)
    np.testing.assert_array_equal(point["rot"].numpy(), model.quats_wxyz)
    np.testing.assert_array_equal(point["f_dc"].numpy(), model.sh_coeffs[:, 0])
    np.testing.assert_allclose(point["scale"].numpy(), np.exp(model.log_scales), rtol=1e-6)
    np.testing.assert_array_equal(point["opacity"].numpy()[:, 0], model.opacity_logits)
    if degree:
        np.testing.assert_array_equal(point["f_rest"].numpy(), model.sh_coeffs[:, 1:])


def trainer_file(path, model, text=False, byte_order="<"):
    """As gaussian-splatting's GaussianModel.save_ply lays it out: names and columns follow its source line by line."""
    count, coefficients = model.sh_coeffs.shape[:2]
    names = ["x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2"]
    names += [f"f_rest_{i}" for i in range(3 * (coefficients - 1))]
    names += ["opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"]
    features_rest = model.sh_coeffs[:, 1:]  # (N, 15, 3), as the trainer holds it
    table = np.concatenate(
        [
            model.means_in_world, np.zeros((count, 3)), model.sh_coeffs[:, :1].swapaxes(1, 2).reshape(count, -1),
            features_rest.swapaxes(1, 2).reshape(count, -1), model.opacity_logits[:, None], model.log_scales,
            model.quats_wxyz,
        ],
        axis=1,
    )  # fmt: skip
    rows = np.empty(count, dtype=[(name, "f4") for name in names])
    rows[:] = [tuple(row) for row in table]
    plyfile.PlyData([plyfile.PlyElement.describe(rows, "vertex")], text=text, byte_order=byte_order).write(path)
    return path


@pytest.mark.parametrize(("text", "order"), [(False, "<"), (False, ">"), (True, "=")])
def test_a_trainers_file_has_the_trainers_parameters(tmp_path, text, order):
    model = make.cloud(degree=3)
    again = read_splat_ply(trainer_file(tmp_path / "t.ply", model, text, order))
    for name in FIELDS:
        np.testing.assert_allclose(
            getattr(again, name), getattr(model, name), rtol=0 if not text else 1e-6, err_msg=name
        )


def test_a_trainers_file_is_what_is_written_here_to_the_byte_but_for_the_header(tmp_path):
    model = make.cloud(degree=3)
    write_splat_ply(tmp_path / "a.ply", model)
    theirs, ours = trainer_file(tmp_path / "t.ply", model).read_bytes(), (tmp_path / "a.ply").read_bytes()
    assert theirs.split(b"end_header\n", 1)[1] == ours.split(b"end_header\n", 1)[1]


def test_a_trainers_file_is_drawn_as_its_parameters_are_from_every_side(tmp_path):
    """Five views on an arc; degree 3 makes the colours differ from side to side."""
    model = make.cloud(degree=3)
    again = read_splat_file(trainer_file(tmp_path / "t.ply", model)).model
    mixed = type(model)(*(getattr(model, name) for name in FIELDS[:4]), model.sh_coeffs.copy())
    mixed.sh_coeffs[:, 1:] = mixed.sh_coeffs[:, 1:].reshape(len(mixed.sh_coeffs), 3, 15).swapaxes(1, 2)
    pictures = []
    for pose in make.orbit():
        direct, read = (render(item, make.camera(), pose) for item in (model, again))
        for name in ("rgb", "alpha", "expected_z_m", "median_z_m"):
            np.testing.assert_array_equal(getattr(direct, name), getattr(read, name))
        assert np.abs(render(mixed, make.camera(), pose).rgb - read.rgb).mean() > 0.01  # the other order would show
        pictures.append(read.rgb)
    assert direct.alpha.mean() > 0.3
    assert all(np.abs(one - two).mean() > 0.02 for one, two in itertools.pairwise(pictures))


def test_the_colour_of_one_splat_from_two_sides_is_worked_out_by_hand(tmp_path):
    """Degree 1, red's z coefficient 0.6: 0.5 + 0.4886 * 0.6 * z seen along z = +1 and -1; the others stay 0.5."""
    model = drop_bad(make.cloud(count=1, degree=1)).model
    model.means_in_world[:] = 0
    model.log_scales[:] = -1
    model.opacity_logits[:] = 16
    model.sh_coeffs[:] = 0
    model.sh_coeffs[0, 2, 0] = 0.6
    again = read_splat_file(trainer_file(tmp_path / "t.ply", model)).model
    for side in (1, -1):
        rotation = np.diag([1.0, side, side])
        pose = se3.from_rotation_translation(rotation, np.array([0.0, 0.0, -2.0 * side]))
        seen = render(again, make.camera(65, 49), pose)
        np.testing.assert_allclose(
            seen.rgb[24, 32] / seen.alpha[24, 32], [0.5 + side * 0.48860251 * 0.6, 0.5, 0.5], atol=2e-3
        )


def test_the_colour_of_a_direction_is_the_one_that_gsplat_sees():
    import torch
    from gsplat.cuda._torch_impl import _spherical_harmonics

    model = make.cloud(degree=3)
    directions = np.random.default_rng(4).normal(size=(len(model.sh_coeffs), 3))
    theirs = _spherical_harmonics(3, torch.from_numpy(directions), torch.from_numpy(model.sh_coeffs.astype(np.float64)))
    expected = np.maximum(theirs.numpy() + 0.5, 0)
    np.testing.assert_allclose(eval_sh(model.sh_coeffs, directions), expected, atol=1e-5)
