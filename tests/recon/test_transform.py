"""A model moved to another world looks from a moved camera as it did before."""

import numpy as np
import pytest
import splat_makers as make

from cuda_kernels.splat import eval_sh
from geo import se3
from recon.errors import ReconError
from recon.render import render
from recon.transform import transform_model, turned_sh

SCALE = 2.5


def similarity(seed=0):
    rng = np.random.default_rng(seed)
    matrix = se3.from_rotation_translation(se3.rotation_from_axis_angle(rng.normal(size=3)), rng.normal(size=3))
    matrix[:3, :3] *= SCALE
    return matrix


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_a_moved_camera_sees_the_moved_model_as_before(degree):
    model, way = make.cloud(degree=degree), similarity(degree)
    moved = transform_model(model, way)
    for pose in make.orbit(count=3):
        moved_pose = se3.from_rotation_translation(
            way[:3, :3] / SCALE @ pose[:3, :3], way[:3, :3] @ pose[:3, 3] + way[:3, 3]
        )
        before, after = render(model, make.camera(), pose), render(moved, make.camera(), moved_pose)
        # where an alpha crosses 1/255 the last bit of a centre decides: nearly all pixels, not all
        assert np.quantile(np.abs(before.rgb - after.rgb), 0.999) < 2e-3
        both = np.isfinite(before.expected_z_m) & np.isfinite(after.expected_z_m)
        ratio = after.expected_z_m[both] / before.expected_z_m[both]
        assert both.any() and np.quantile(np.abs(ratio - SCALE), 0.99) < 5e-3


def test_colours_turn_with_the_axes():
    """new(R d) = old(d); eval_sh cuts at 0, so the colours are kept away from there."""
    rng = np.random.default_rng(1)
    sh = rng.normal(size=(50, 16, 3)) * 0.05
    rotation = se3.rotation_from_axis_angle(np.array([0.3, -1.2, 2.0]))
    directions = rng.normal(size=(50, 3))
    old = eval_sh(sh, directions)
    np.testing.assert_allclose(eval_sh(turned_sh(sh, rotation), directions @ rotation.T), old, atol=1e-6)
    assert old.min() > 0 and np.abs(eval_sh(sh, directions @ rotation.T) - old).max() > 0.05


def test_a_quarter_turn_about_z_carries_x_to_y():
    """Degree 1 is (-y, z, -x): red that grows towards +x grows towards +y afterwards; z stays."""
    sh = np.zeros((1, 4, 3))
    sh[0, 3, 0], sh[0, 2, 1] = -1.0, 0.5
    quarter = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    expected = np.zeros((1, 4, 3))
    expected[0, 1, 0], expected[0, 2, 1] = -1.0, 0.5
    np.testing.assert_allclose(turned_sh(sh, quarter), expected, atol=1e-12)


def test_the_identity_changes_nothing_and_there_and_back_is_the_identity():
    model, way = make.cloud(), similarity()
    for moved, limit in ((transform_model(model, np.eye(4)), 1e-6), (
        transform_model(transform_model(model, way), np.linalg.inv(way)), 2e-5)):  # fmt: skip
        np.testing.assert_allclose(moved.means_in_world, model.means_in_world, atol=limit)
        np.testing.assert_allclose(moved.log_scales, model.log_scales, atol=limit)
        np.testing.assert_allclose(moved.sh_coeffs, model.sh_coeffs, atol=limit)
        np.testing.assert_array_equal(moved.opacity_logits, model.opacity_logits)
        same = np.abs((moved.quats_wxyz * model.quats_wxyz).sum(axis=1)) / np.square(model.quats_wxyz).sum(axis=1)
        np.testing.assert_allclose(same, 1, atol=1e-5)


@pytest.mark.parametrize(
    "matrix",
    [np.diag([1.0, 1.0, -1.0, 1.0]), np.diag([1.0, 2.0, 1.0, 1.0]), np.full((4, 4), np.nan), np.zeros((4, 4))],
)
def test_what_is_no_similarity_is_refused(matrix):
    with pytest.raises(ReconError, match="cannot be moved by this matrix"):
        transform_model(make.cloud(count=2), matrix)


def test_a_translation_that_is_not_finite_is_refused():
    matrix = np.eye(4)
    matrix[0, 3] = np.inf
    with pytest.raises(ReconError, match="translation is not finite"):
        transform_model(make.cloud(count=2), matrix)
