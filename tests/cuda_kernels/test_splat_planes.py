"""Depth along the splats' planes: right values from the geometry of a slanted wall."""

import numpy as np
import pytest

from cuda_kernels.splat import SplatCamera, plane_depth_sum, rasterize

F, SIZE = 100.0, 96
CENTRE = (SIZE - 1) / 2


def wall(slope, spacing=0.02):
    """Flat opaque splats on the plane z = 1.5 + slope * y, and that plane's depth on every pixel."""
    x, y = np.meshgrid(np.arange(-1.2, 1.2, spacing), np.arange(-1.2, 1.2, spacing))
    z = 1.5 + slope * y
    keep = z > 0.4
    means = np.stack([x[keep], y[keep], z[keep]], axis=1).astype(np.float32)
    angle = np.arctan(slope) / 2  # turns the splat's thin axis from z onto the wall's normal
    quats = np.tile(np.array([np.cos(angle), np.sin(angle), 0, 0], np.float32), (len(means), 1))
    log_scales = np.tile(np.log([spacing * 0.7, spacing * 0.7, spacing * 0.05]).astype(np.float32), (len(means), 1))
    rows = (np.arange(SIZE) - CENTRE) / F
    with np.errstate(divide="ignore"):
        true = np.repeat((1.5 / (1 - slope * rows))[:, None], SIZE, axis=1)
    return (means, quats, log_scales, np.full(len(means), 2.0, np.float32), np.ones((len(means), 3), np.float32)), true


def drawn(gaussians):
    camera = SplatCamera(F, F, CENTRE, CENTRE, SIZE, SIZE, np.eye(4))
    return rasterize(*gaussians, camera)


@pytest.mark.parametrize("slope", [0.0, 0.5, 1.2, -1.2])
def test_a_slanted_wall_has_the_plane_s_depth(slope):
    gaussians, true = wall(slope)
    image = drawn(gaussians)
    inside = (image.alpha > 0.99) & (true > 0.8) & (true < 2.5)
    assert inside.sum() > 800
    error = (plane_depth_sum(image) / np.maximum(image.alpha, 1e-6) / true - 1)[inside]
    centre = (image.depth_sum / np.maximum(image.alpha, 1e-6) / true - 1)[inside]
    assert abs(np.median(error)) < 4e-3 and np.quantile(np.abs(error), 0.95) < 1e-2
    if slope:  # centre depths lean to the near side: the reason for all this
        assert np.median(centre) < -2e-3 and abs(np.median(error)) < 0.35 * abs(np.median(centre))


def test_one_splat_s_depth_is_its_plane_under_every_pixel():
    """A single big flat splat: no blending of several, so the ray meets its plane."""
    gaussians, _ = wall(0.0)
    angle = np.arctan(0.8) / 2
    one = (
        np.array([[0, 0, 2.0]], np.float32),
        np.array([[np.cos(angle), np.sin(angle), 0, 0]], np.float32),
        np.log(np.array([[0.3, 0.3, 1e-3]], np.float32)),
        np.array([6.0], np.float32),
        gaussians[4][:1],
    )
    image = drawn(one)
    rows = (np.arange(SIZE) - CENTRE) / F
    near = np.abs(rows) < 0.06  # to first order only, so near its centre
    z = plane_depth_sum(image) / np.maximum(image.alpha, 1e-9)
    expected = (2.0 / (1 - 0.8 * rows))[:, None]
    np.testing.assert_allclose(z[near][:, 40:56], np.repeat(expected, 16, axis=1)[near], rtol=4e-3)


def test_nothing_in_view_has_no_depth():
    gaussians, _ = wall(0.0)
    behind = (-gaussians[0], *gaussians[1:])
    image = drawn(behind)
    assert not plane_depth_sum(image).any() and not image.alpha.any()
