"""Rendered depth is on a surface, or it is none (FIELD_PROBLEMS G1, G5, G7)."""

import numpy as np
import pytest

from geo.cameras import PinholeCamera
from recon.errors import ReconError
from recon.model import drop_bad, empty_model, sh0_from_rgb
from recon.ply import logit
from recon.records import RenderedView, SplatModel
from recon.render import ray_spread, render, surface_depth

CAMERA = PinholeCamera(48, 40, 50.0, 50.0, 20.0, 25.0)  # the principal point is not the centre


def splats(rows):
    """Round splats from (x, y, z, radius, opacity); the camera sits at the origin and looks along +z."""
    rows = np.array(rows, dtype=np.float32).reshape(-1, 5)
    return SplatModel(
        rows[:, :3],
        np.log(np.repeat(rows[:, 3:4], 3, axis=1)),
        np.tile(np.float32([1, 0, 0, 0]), (len(rows), 1)),
        logit(rows[:, 4]).astype(np.float32),
        sh0_from_rgb(np.full((len(rows), 3), 0.5)),
    )


def test_a_half_opaque_surface_reads_its_full_distance():
    """G1: one layer of opacity 0.5 at 4 m accumulates 2 m; the expected depth is 4 m."""
    view = render(splats([[0, 0, 4, 1.0, 0.52]]), CAMERA, np.eye(4))
    assert view.alpha[25, 20] == pytest.approx(0.52, abs=0.01)
    assert view.expected_z_m[25, 20] == pytest.approx(4.0, abs=1e-4)


@pytest.mark.parametrize("opacity", [0.001, 0.3])
def test_where_alpha_is_below_the_threshold_there_is_no_depth(opacity):
    view = render(splats([[0, 0, 4, 1.0, opacity]]), CAMERA, np.eye(4))
    for image in (view.expected_z_m, view.median_z_m, view.sigma_z_m):
        assert np.isnan(image).all()


def test_two_layers_blend_by_weight_and_the_median_is_one_of_them():
    """G1: opacity 0.5 at 1 m and at 2 m: expected 4/3 m, accumulated alpha 0.75; the edge choice takes a surface."""
    view = render(splats([[0, 0, 1, 1.0, 0.501], [0, 0, 2, 2.0, 0.5]]), CAMERA, np.eye(4))
    assert view.expected_z_m[25, 20] == pytest.approx(4 / 3, abs=0.01)
    assert view.median_z_m[25, 20] == pytest.approx(1.0, abs=1e-3)
    assert surface_depth(view)[25, 20] == view.median_z_m[25, 20]
    assert surface_depth(view, "expected")[25, 20] == view.expected_z_m[25, 20]
    assert view.sigma_z_m[25, 20] > 0.3


def test_a_nearly_opaque_front_leaves_little_doubt_though_the_variance_is_large():
    """3 % of the weight 1.5 m behind: variance 0.0655 m^2 (26 cm), but the front is right: e = 4.5 cm remains."""
    share, gap = 0.03, 1.5
    one = np.ones((1, 1), dtype=np.float32)
    spread = ray_spread(one * (2 + share * gap), one * 2, one * (share * (1 - share) * gap**2))
    assert spread[0, 0] == pytest.approx(share * gap, rel=1e-3)


def test_one_small_splat_lands_where_the_intrinsics_say():
    """G5: X = (0.1, -0.1, 2), f = 50, c = (20, 25): pixel (22.5, 22.5)."""
    view = render(splats([[0.1, -0.1, 2, 0.02, 0.9]]), CAMERA, np.eye(4))
    v, u = np.mgrid[0:40, 0:48]
    centroid = [(view.alpha * grid).sum() / view.alpha.sum() for grid in (u, v)]
    np.testing.assert_allclose(centroid, [22.5, 22.5], atol=0.1)


def test_nothing_to_draw_gives_background_and_no_depth():
    """G7: no splats, and all of them behind the camera."""
    for model in (empty_model(), splats([[0, 0, -2, 0.5, 0.9]])):
        view = render(model, CAMERA, np.eye(4), background=(0.25, 0.5, 0.75))
        np.testing.assert_allclose(view.rgb[7, 9], [0.25, 0.5, 0.75])
        assert not view.alpha.any() and np.isnan(view.expected_z_m).all()


def test_poisoned_rows_are_dropped_and_do_not_spread():
    """G7: NaN and infinite centres, a zero quaternion, a scale that overflows; the first and the last row are good."""
    model = splats([[0, 0, 2, 0.2, 0.9]] * 6)
    model.means_in_world[1, 0] = np.nan
    model.means_in_world[2, 2] = np.inf
    model.quats_wxyz[3] = 0
    model.log_scales[4] = 800
    cleaned = drop_bad(model)
    assert cleaned.dropped == 4 and len(cleaned.model.means_in_world) == 2
    view = render(model, CAMERA, np.eye(4))
    assert np.isfinite(view.rgb).all()
    assert view.expected_z_m[25, 20] == pytest.approx(2.0, abs=1e-4)


def test_a_frame_without_pose_and_a_skewed_camera_are_refused():
    with pytest.raises(ReconError, match="no pose"):
        render(empty_model(), CAMERA, np.full((4, 4), np.nan))
    with pytest.raises(ReconError, match="skew"):
        render(empty_model(), PinholeCamera(48, 40, 50.0, 50.0, 20.0, 25.0, 1.5), np.eye(4))


def test_surface_depth_is_none_where_there_is_none():
    nan = np.full((2, 2), np.nan, dtype=np.float32)
    view = RenderedView(np.zeros((2, 2, 3), np.float32), np.zeros((2, 2), np.float32), nan, nan, nan)
    for choice in ("edge", "median", "expected"):
        assert np.isnan(surface_depth(view, choice)).all()
