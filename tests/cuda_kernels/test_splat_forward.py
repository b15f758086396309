"""What the splat rasteriser draws, against the float64 reference and against numbers worked out by hand."""

from dataclasses import replace

import numba
import numpy as np
import pytest
from splat_scenes import balls, camera, cloud, logit_of, tilted

from cuda_kernels.errors import KernelError
from cuda_kernels.splat import SplatImage, rasterize
from cuda_kernels.splat.api import _checked_gaussians
from cuda_kernels.splat.reference import rasterize_reference

BLACK = np.zeros(3)
PAPER = np.array([0.2, 0.5, 0.8])


def draw(scene, view, background=BLACK, **options) -> SplatImage:
    return rasterize(*scene.arrays, view, background, **options)


@pytest.mark.parametrize(
    ("count", "sigma_m", "width", "height"),
    [
        (300, 0.05, 40, 30),
        (150, 0.4, 37, 50),
        (800, 0.01, 64, 64),
        (60, 0.1, 9, 7),
        (40, 0.6, 1, 1),
        (500, 0.2, 90, 33),
    ],
)
def test_images_agree_with_the_float64_reference(count, sigma_m, width, height):
    """As distributions: where alpha crosses 1/255 or transmittance 1e-4, float32 may fall on the other side."""
    scene, view = cloud(count, sigma_m, seed=count), tilted(camera(width, height, focal=0.9 * width))
    image = draw(scene, view, PAPER, depth_statistics=True)
    truth = rasterize_reference(*scene.doubles, view, PAPER)
    assert truth.alpha.mean() > 0.05
    for name, limit in (("rgb", 2e-5), ("alpha", 2e-5), ("depth_sum", 1e-4)):
        error = np.abs(getattr(image, name) - getattr(truth, name))
        assert np.quantile(error, 0.998) < limit, name
        assert error.max() < 2e-2, name
    spread = np.abs(np.sqrt(image.statistics.variance_z) - np.sqrt(truth.variance_z))[truth.alpha > 0.1]
    assert np.quantile(spread, 0.99) < 1e-3
    assert np.array_equal(np.isnan(image.statistics.variance_z), np.isnan(truth.variance_z))
    median = image.statistics.median_z
    same = np.isclose(median, truth.median_z, atol=1e-5, equal_nan=True)
    assert same.mean() > 0.995


def test_long_thin_gaussians_keep_their_shape():
    """A needle of 3 m by 1 mm across the image: a naive float32 conic loses it to cancellation."""
    scene = balls([[0, 0, 2]])
    scene = replace(scene, log_scales=np.log(np.array([[3.0, 1e-3, 1e-3]], dtype=np.float32)))
    scene = replace(scene, quats=np.array([[np.cos(0.3), 0, 0, np.sin(0.3)]], dtype=np.float32))
    view = camera(200, 160, focal=180.0)
    error = np.abs(draw(scene, view).alpha - rasterize_reference(*scene.doubles, view, BLACK).alpha)
    assert error.max() < 2e-3
    assert np.sqrt((error**2).mean()) < 1e-4


@pytest.mark.parametrize(
    ("depths", "opacities", "depth_sum", "alpha"),
    [([4.0], [0.5], 2.0, 0.5), ([1.0, 2.0], [0.5, 0.5], 1.0, 0.75), ([2.0, 1.0], [0.5, 0.5], 1.0, 0.75)],
)
def test_accumulated_depth_is_weighted_and_expected_depth_divides_it(depths, opacities, depth_sum, alpha):
    """Case G1: z 4 at alpha 0.5 sums to 2 and is expected at 4; z 1 and 2 at alpha 0.5 are expected at 4/3."""
    view = camera(9, 9)
    scene = balls([[0, 0, z] for z in depths], sigma_m=10.0, logit=[logit_of(o) for o in opacities])
    image = draw(scene, view)
    assert image.depth_sum[4, 4] == pytest.approx(depth_sum, abs=1e-4)
    assert image.alpha[4, 4] == pytest.approx(alpha, abs=1e-5)
    assert image.expected_z()[4, 4] == pytest.approx(depth_sum / alpha, abs=1e-4)


def test_where_there_is_little_alpha_there_is_no_expected_depth():
    view = camera(33, 33)
    image = draw(balls([[0, 0, 2]], logit=logit_of(0.3)), view)
    assert np.isnan(image.expected_z(alpha_min=0.5)).all()
    assert image.expected_z(alpha_min=0.2)[16, 16] == pytest.approx(2.0, abs=1e-5)
    assert np.isnan(image.expected_z(alpha_min=0.0)[0, 0])


def test_median_depth_is_the_gaussian_that_takes_half_the_light():
    """Alpha 0.4 at 1 m, 0.4 at 2 m, opaque at 3 m: 0.6, then 0.36 of the light left, so the median is 2 m."""
    scene = balls([[0, 0, 1], [0, 0, 2], [0, 0, 3]], sigma_m=10.0, logit=[logit_of(0.4), logit_of(0.4), 20.0])
    statistics = draw(scene, camera(9, 9), depth_statistics=True).statistics
    assert statistics.median_z[4, 4] == pytest.approx(2.0, abs=1e-6)
    weights = np.array([0.4, 0.24, 0.36 * 0.999])
    mean = (weights * [1, 2, 3]).sum() / weights.sum()
    variance = (weights * (np.array([1, 2, 3]) - mean) ** 2).sum() / weights.sum()
    assert statistics.variance_z[4, 4] == pytest.approx(variance, rel=1e-4)


def test_one_surface_has_no_spread_however_far_it_is():
    """sqrt(E[z^2] - E[z]^2) of float32 sums would read some centimetres here."""
    scene = balls(np.stack([np.linspace(-1, 1, 30), np.zeros(30), np.full(30, 80.0)], axis=1), sigma_m=2.0, logit=-1.0)
    statistics = draw(scene, camera(40, 30), depth_statistics=True).statistics
    assert np.nanmax(np.sqrt(statistics.variance_z)) < 1e-3


@pytest.mark.parametrize(("cx", "cy", "x", "y"), [(20.0, 16.0, 0.5, 0.0), (55.25, 10.5, -0.4, 0.1), (31.5, 23.5, 0, 0)])
def test_the_principal_point_is_where_k_says(cx, cy, x, y):
    """Case G5: the centroid of one small splat's alpha is its projected centre, pixel (0, 0) centred at (0, 0)."""
    view = camera(64, 48, focal=50.0, cx_px=cx, cy_px=cy)
    alpha = draw(balls([[x, y, 2.0]], logit=0.0), view).alpha
    v, u = np.mgrid[0:48, 0:64]
    assert (u * alpha).sum() / alpha.sum() == pytest.approx(50.0 * x / 2 + cx, abs=0.02)
    assert (v * alpha).sum() / alpha.sum() == pytest.approx(50.0 * y / 2 + cy, abs=0.02)


def test_a_lone_splat_covers_the_area_of_its_gaussian():
    """Sum of alpha = opacity * 2 pi * sqrt(det), sigma 0.1 m at 2 m and focal 40 px: 2 px, blurred by 0.3 px^2."""
    alpha = draw(balls([[0, 0, 2]], sigma_m=0.1, logit=0.0), camera(64, 64)).alpha
    assert alpha.sum() == pytest.approx(0.5 * 2 * np.pi * (4 + 0.3), rel=0.02)  # tails below 1/255 are cut


def test_the_nearer_gaussian_hides_the_farther_whatever_their_order():
    red, green = [1, 0, 0], [0, 1, 0]
    view = camera(9, 9)
    for order in ([0, 1], [1, 0]):
        scene = balls([[0, 0, 1], [0, 0, 2]], sigma_m=1.0, colors=[red, green]).rows(order)
        assert np.allclose(draw(scene, view).rgb[4, 4], [0.999, 0.0, 0.0], atol=2e-3)


def test_blending_stops_before_transmittance_falls_to_its_limit():
    """0.999 leaves 1e-3, a second 0.999 would leave 1e-6 <= 1e-4: it is not blended, nor the faint one behind it."""
    scene = balls([[0, 0, 1], [0, 0, 2], [0, 0, 3]], sigma_m=50.0, logit=[20.0, 20.0, logit_of(0.5)])
    image = draw(scene, camera(5, 5))
    assert image.alpha[2, 2] == pytest.approx(0.999, abs=1e-6)
    assert image.depth_sum[2, 2] == pytest.approx(0.999, abs=1e-5)


def test_without_gaussians_there_is_only_background():
    """Case G7."""
    view = camera(20, 18)
    image = draw(cloud(0), view, PAPER, depth_statistics=True)
    assert np.allclose(image.rgb, PAPER)
    assert not image.alpha.any() and not image.depth_sum.any()
    assert np.isnan(image.expected_z()).all()
    assert np.isnan(image.statistics.median_z).all() and np.isnan(image.statistics.variance_z).all()
    assert image.visible.shape == (0,)
    assert image.dropped == 0


def test_gaussians_behind_or_beside_the_camera_are_not_drawn():
    view = camera(20, 18)
    scene = balls([[0, 0, -2], [0, 0, 0.001], [50, 0, 2], [0, 0, 2]])
    image = draw(scene, view, PAPER)
    assert image.visible.tolist() == [False, False, False, True]
    assert image.dropped == 0
    nothing = draw(scene.rows(slice(0, 3)), view, PAPER)
    assert np.allclose(nothing.rgb, PAPER) and not nothing.alpha.any()


def test_poisoned_rows_are_dropped_and_counted():
    """Case G7: four broken rows, one behind the camera; alpha comes from the first row alone."""
    scene = balls([[0, 0, 2], [np.nan, 0, 2], [0, 0, np.inf], [0, 0, 3], [0, 0, -1], [0, 0, 4]])
    scene.quats[3] = 0
    scene.log_scales[5] = 800
    view = camera(21, 21)
    image = draw(scene, view)
    assert image.dropped == 4
    assert image.visible.tolist() == [True, False, False, False, False, False]
    assert np.array_equal(image.alpha, draw(scene.rows(slice(0, 1)), view).alpha)
    assert image.alpha.max() > 0.5


@pytest.mark.parametrize(
    "poison",
    [
        lambda s: s.quats.__setitem__((1, 2), np.nan),
        lambda s: s.log_scales.__setitem__((1, 0), np.inf),
        lambda s: s.logits.__setitem__(1, np.nan),
        lambda s: s.colors.__setitem__((1, 1), -np.inf),
    ],
)
def test_each_kind_of_poison_is_dropped(poison):
    scene = balls([[0, 0, 2], [0, 0, 1]])
    poison(scene)
    assert draw(scene, camera(9, 9)).visible.tolist() == [True, False]


@pytest.mark.parametrize("log_scale", [-90.0, -30.0, 20.0, 80.0, 88.0])
def test_extreme_but_finite_scales_give_finite_images(log_scale):
    scene = balls([[0.1, 0, 2], [0, 0.2, 3]], logit=1.0)
    scene.log_scales[:] = log_scale
    image = draw(scene, camera(40, 30), depth_statistics=True)
    assert np.isfinite(image.rgb).all() and np.isfinite(image.depth_sum).all()
    assert image.dropped == 0
    assert 0 < image.alpha.max() <= 1


def test_quaternions_of_any_length_and_sign_draw_the_same():
    scene, view = cloud(100), camera()
    scaled = replace(scene, quats=scene.quats * np.float32(-4.0))  # a power of two: the same bits after division
    assert np.abs(draw(scene, view).rgb - draw(scaled, view).rgb).max() < 1e-6


def test_world_and_camera_moved_together_give_the_same_image():
    scene, view = cloud(200, seed=3), camera()
    pose = tilted(view).camera_from_world
    still = draw(scene, view)
    rotation = np.linalg.inv(pose)[:3, :3]
    w = np.sqrt(1 + np.trace(rotation)) / 2
    qx, qy, qz = (
        (rotation[2, 1] - rotation[1, 2]) / (4 * w),
        (rotation[0, 2] - rotation[2, 0]) / (4 * w),
        (rotation[1, 0] - rotation[0, 1]) / (4 * w),
    )
    a, b, c, d = scene.quats.T.astype(np.float64)
    turned = np.stack(
        [
            w * a - qx * b - qy * c - qz * d,
            w * b + qx * a + qy * d - qz * c,
            w * c - qx * d + qy * a + qz * b,
            w * d + qx * c - qy * b + qz * a,
        ],
        axis=1,
    )
    means = scene.means @ rotation.T + np.linalg.inv(pose)[:3, 3]
    moved = replace(scene, means=means.astype(np.float32), quats=turned.astype(np.float32))
    error = np.abs(draw(moved, replace(view, camera_from_world=pose)).rgb - still.rgb)
    assert np.quantile(error, 0.998) < 1e-4


def test_any_number_of_threads_gives_the_same_bytes():
    scene, view = cloud(2000, seed=5), tilted(camera(150, 110, focal=120.0))
    results = []
    available = numba.get_num_threads()
    try:
        for threads in sorted({1, min(2, available), available}):
            numba.set_num_threads(threads)
            image = draw(scene, view, PAPER, depth_statistics=True)
            results.append(
                [image.rgb, image.alpha, image.depth_sum, image.statistics.median_z, image.statistics.variance_z]
            )
    finally:
        numba.set_num_threads(available)
    for other in results[1:]:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(results[0], other, strict=True))


def test_the_callers_arrays_stay_unchanged():
    scene, view = cloud(50), camera()
    before = [array.copy() for array in scene.arrays]
    draw(scene, view)
    assert all(np.array_equal(a, b) for a, b in zip(before, scene.arrays, strict=True))


def test_shapes_that_do_not_fit_are_named():
    scene = cloud(5)
    with pytest.raises(KernelError, match=r"log_scales has shape \(4, 3\), expected \(5, 3\)"):
        _checked_gaussians(scene.means, scene.quats, scene.log_scales[:4], scene.logits, scene.colors)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"camera_from_world": np.full((4, 4), np.nan)}, "without a pose cannot be rendered"),
        ({"width_px": 0}, "cannot be rendered"),
        ({"fx_px": -1.0}, "fx -1.0"),
        ({"cy_px": float("nan")}, "cannot be rendered"),
        ({"near_m": 0.0}, "near_m must be positive"),
    ],
)
def test_unusable_cameras_are_refused(changes, message):
    with pytest.raises(KernelError, match=message):
        draw(cloud(2), replace(camera(), **changes))
