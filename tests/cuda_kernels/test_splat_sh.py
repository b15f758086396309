"""Spherical harmonics: the basis, colours, and gradients by coefficients, centres and the camera."""

import inspect
from dataclasses import replace

import numba
import numpy as np
import pytest
from splat_scenes import camera, cloud, tilted

from cuda_kernels.errors import KernelError
from cuda_kernels.splat import (
    eval_sh,
    eval_sh_backward,
    rasterize,
    rasterize_backward,
    seen_colors,
    seen_colors_backward,
)
from cuda_kernels.splat.reference import rasterize_reference
from cuda_kernels.splat.sh import SH_C0, _checked, sh_basis
from cuda_kernels.splat.sh_reference import eval_sh_backward_reference, eval_sh_reference


def test_degree_zero_colour_is_half_plus_the_coefficient():
    """Case G3's numbers: (0.7, 0.5, 0.3) is stored as +-0.7089815."""
    coefficients = np.array([[[0.7089815, 0.0, -0.7089815]]], dtype=np.float32)
    assert eval_sh(coefficients, np.array([[0.0, 0, 1]]))[0] == pytest.approx([0.7, 0.5, 0.3], abs=1e-6)


def test_the_basis_is_orthonormal_over_the_sphere():
    """Integrals of products over a fine grid of directions are the identity."""
    cos_polar, weights = np.polynomial.legendre.leggauss(12)
    azimuth = np.arange(24) * 2 * np.pi / 24
    sin_polar = np.sqrt(1 - cos_polar**2)
    directions = np.stack(
        [
            np.outer(sin_polar, np.cos(azimuth)).ravel(),
            np.outer(sin_polar, np.sin(azimuth)).ravel(),
            np.repeat(cos_polar, 24),
        ],
        axis=1,
    )
    basis = sh_basis(directions, 3)
    gram = (basis * np.repeat(weights, 24)[:, None] * (2 * np.pi / 24)).T @ basis
    assert np.allclose(gram, np.eye(16), atol=1e-6)


def test_first_degree_has_the_signs_of_3dgs():
    """sh[1] goes with -y, sh[2] with +z, sh[3] with -x."""
    basis = sh_basis(np.eye(3), 1)
    assert np.sign(basis[0]).tolist() == [1, 0, 0, -1]
    assert np.sign(basis[1]).tolist() == [1, -1, 0, 0]
    assert np.sign(basis[2]).tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_sh_gradients_agree_with_finite_differences(degree):
    rng = np.random.default_rng(degree)
    coefficients = rng.normal(0, 0.3, (6, (degree + 1) ** 2, 3))
    directions = rng.normal(size=(6, 3)) * 3.0
    d_colors = rng.normal(size=(6, 3))
    d_coefficients, d_directions = eval_sh_backward(coefficients, directions, d_colors)

    def loss(c, d):
        unit = d / np.linalg.norm(d, axis=1, keepdims=True)
        raw = 0.5 + np.einsum("nk,nkc->nc", sh_basis(unit, degree), c)
        return (np.maximum(raw, 0) * d_colors).sum()

    for ours, which in ((d_coefficients, 0), (d_directions, 1)):
        for index in np.ndindex(ours.shape):
            ends = []
            for step in (1e-6, -1e-6):
                arrays = [coefficients.copy(), directions.copy()]
                arrays[which][index] += step
                ends.append(loss(*arrays))
            assert ours[index] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-5)


def test_colours_are_clamped_at_black_and_then_get_no_gradient():
    coefficients = np.full((1, 1, 3), -1.0 / SH_C0)
    assert not eval_sh(coefficients, np.ones((1, 3))).any()
    assert not eval_sh_backward(coefficients, np.ones((1, 3)), np.ones((1, 3)))[0].any()


def test_a_lower_degree_ignores_the_higher_coefficients():
    rng = np.random.default_rng(1)
    coefficients, directions = rng.normal(0, 0.1, (4, 16, 3)), rng.normal(size=(4, 3))
    assert np.array_equal(eval_sh(coefficients, directions, 1), eval_sh(coefficients[:, :4], directions))


def test_odd_numbers_of_coefficients_are_refused():
    with pytest.raises(KernelError, match="has 5 coefficients per channel; expected 1, 4, 9 or 16"):
        eval_sh(np.zeros((2, 5, 3)), np.ones((2, 3)))
    with pytest.raises(KernelError, match="degree 2 asked for, but sh_coeffs holds degree 1"):
        eval_sh(np.zeros((2, 4, 3)), np.ones((2, 3)), 2)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_colours_and_gradients_agree_with_the_float64_reference(degree):
    rng = np.random.default_rng(degree)
    coefficients = rng.normal(0, 1.0, (1500, 16, 3)).astype(np.float32)
    directions, d_colors = rng.normal(size=(2, 1500, 3)).astype(np.float32)
    doubles = [array.astype(np.float64) for array in (coefficients, directions, d_colors)]
    colours = eval_sh(coefficients, directions, degree)
    assert (colours == 0).any() and (colours > 0).any()
    assert np.abs(colours - eval_sh_reference(*doubles[:2], degree)).max() < 2e-6
    ours, truth = (
        eval_sh_backward(coefficients, directions, d_colors, degree),
        eval_sh_backward_reference(*doubles, degree),
    )
    for mine, right in zip(ours, truth, strict=True):
        assert np.abs(mine - right).max() <= 1e-6 * max(1.0, np.abs(right).max())


def test_a_direction_of_no_length_has_the_constant_colour_and_no_slope():
    coefficients = np.full((1, 16, 3), 0.2, dtype=np.float32)
    nowhere = np.zeros((1, 3), dtype=np.float32)
    assert np.isfinite(eval_sh(coefficients, nowhere)).all()
    assert all(np.isfinite(g).all() for g in eval_sh_backward(coefficients, nowhere, np.ones((1, 3), np.float32)))
    assert not len(eval_sh(coefficients[:0], nowhere[:0]))


def test_a_colour_is_seen_from_the_cameras_centre():
    """Degree 1, one coefficient along +z: a splat 1 m in front of a camera that looks along +z, then from behind."""
    coefficients = np.zeros((1, 4, 3), dtype=np.float32)
    coefficients[0, 2] = 0.5
    mean = np.array([[0.0, 0.0, 5.0]], dtype=np.float32)
    near, turned = np.eye(4), np.diag([-1.0, 1.0, -1.0, 1.0])
    near[2, 3], turned[2, 3] = -4.0, 6.0  # both stand 1 m from the mean, at z = 4 and z = 6
    for pose, sign in ((near, 1), (turned, -1)):
        seen = seen_colors(coefficients, mean, camera(camera_from_world=pose))
        assert seen[0] == pytest.approx(np.full(3, 0.5 + sign * 0.5 * 0.4886025), abs=1e-6)


def test_gradients_through_colour_and_image_agree_with_finite_differences():
    """Coefficients, centres (both ways they act) and the camera's twist, over the plain formulas in float64."""
    scene, view = cloud(8, sigma_m=0.3, seed=6), tilted(camera(17, 14, focal=15.0))
    rng = np.random.default_rng(1)
    coefficients = rng.normal(0, 0.25, (8, 16, 3)).astype(np.float32)
    d_rgb = rng.normal(size=(14, 17, 3))
    means, *shape, _ = scene.doubles

    def loss(moved_means, moved_coefficients, twist):
        a, b, c = twist[:3]
        hat = np.array([[0, -c, b], [c, 0, -a], [-b, a, 0]])
        step = np.eye(4)
        step[:3, :3], step[:3, 3] = np.eye(3) + hat + hat @ hat / 2, twist[3:]
        there = replace(view, camera_from_world=step @ view.camera_from_world)
        centre = np.linalg.inv(there.camera_from_world)[:3, 3]
        colours = eval_sh_reference(moved_coefficients, moved_means - centre, 3)
        return (rasterize_reference(moved_means, *shape, colours, there, np.zeros(3)).rgb * d_rgb).sum()

    colours = seen_colors(coefficients, scene.means, view)
    direct = rasterize_backward(rasterize(*scene.arrays[:4], colours, view), d_rgb)
    through = seen_colors_backward(coefficients, scene.means, view, direct.colors)
    ours = (
        direct.means_in_world + through.means_in_world,
        through.sh_coeffs,
        direct.camera_twist + through.camera_twist,
    )
    start = (means, coefficients.astype(np.float64), np.zeros(6))
    assert np.abs(through.means_in_world).max() > 0.02 * np.abs(direct.means_in_world).max()
    assert np.abs(through.camera_twist[3:]).max() > 0 and not through.camera_twist[:3].any()
    for which, gradient in enumerate(ours):
        scale, asked = float(np.abs(gradient).max()), 0
        for index in np.ndindex(gradient.shape):
            slopes = []
            for step in (1e-6, 4e-6):
                ends = []
                for sign in (1, -1):
                    arrays = [array.copy() for array in start]
                    arrays[which][index] += sign * step
                    ends.append(loss(*arrays))
                slopes.append((ends[0] - ends[1]) / (2 * step))
            if abs(slopes[0] - slopes[1]) < 1e-5 * scale:
                asked += 1
                assert gradient[index] == pytest.approx(slopes[0], abs=2e-4 * scale), (which, index)
        assert asked > 0.8 * gradient.size


def test_any_number_of_threads_gives_the_same_bytes():
    rng = np.random.default_rng(0)
    coefficients = rng.normal(0, 0.4, (3000, 16, 3)).astype(np.float32)
    directions, d_colors = rng.normal(size=(2, 3000, 3)).astype(np.float32)
    available = numba.get_num_threads()
    results = set()
    try:
        for threads in range(1, available + 1):
            numba.set_num_threads(threads)
            arrays = eval_sh(coefficients, directions), *eval_sh_backward(coefficients, directions, d_colors)
            results.add(b"".join(array.tobytes() for array in arrays))
    finally:
        numba.set_num_threads(available)
    assert len(results) == 1


def test_arrays_of_different_length_are_refused():
    with pytest.raises(KernelError, match="2 gaussians have coefficients, 3 a direction"):
        inspect.unwrap(_checked)(np.zeros((2, 4, 3)), np.ones((3, 3)))
