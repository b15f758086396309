"""The Kannala-Brandt fisheye in the rasteriser: against the float64 reference, geo's lens, a pinhole, and by hand."""

from dataclasses import replace

import numpy as np
import pytest
from splat_scenes import FIELDS, assert_gradients_are_slopes, balls, camera, cloud, logit_of, tilted

from cuda_kernels.errors import KernelError
from cuda_kernels.splat import SplatCamera, rasterize, rasterize_backward
from cuda_kernels.splat.camera import packed_camera
from cuda_kernels.splat.lens import fisheye, fisheye_backward
from cuda_kernels.splat.reference import rasterize_reference
from geo.cameras import KannalaBrandtCamera, PinholeCamera

PAPER = np.array([0.2, 0.5, 0.8])
K = (-0.02, 0.01, -0.004, 0.0005)


def wide(width=60, height=50, focal=20.0, kb4=K, **changes) -> SplatCamera:
    """A lens of more than 180 degrees, image circle and all."""
    return camera(width, height, focal=focal, kb4=kb4, **changes)


def around(count: int, sigma_m=0.08, seed=0):
    """A cloud on all sides of the camera, behind it too."""
    scene = cloud(count, sigma_m, seed)
    scene.means[:, 2] -= np.float32(2.3)
    return scene


@pytest.mark.parametrize(
    ("count", "sigma_m", "kb4"), [(400, 0.08, K), (300, 0.3, (0.0,) * 4), (300, 0.1, (0.3, 0.0, 0.0, 0.0))]
)
def test_images_agree_with_the_float64_reference(count, sigma_m, kb4):
    scene, view = around(count, sigma_m, seed=count), tilted(wide(kb4=kb4))
    image = rasterize(*scene.arrays, view, PAPER, depth_statistics=True)
    truth = rasterize_reference(*scene.doubles, view, PAPER)
    assert truth.alpha.mean() > 0.05
    assert image.along_ray
    for name, limit in (("rgb", 2e-5), ("alpha", 2e-5), ("depth_sum", 1e-4)):
        error = np.abs(getattr(image, name) - getattr(truth, name))
        assert np.quantile(error, 0.998) < limit, name
        assert error.max() < 2e-2, name
    same = np.isclose(image.statistics.median_z, truth.median_z, atol=1e-5, equal_nan=True)
    assert same.mean() > 0.995


def test_gradients_agree_with_finite_differences_of_the_float64_reference():
    """One centre on the axis, some beyond 90 degrees."""
    scene, view = around(12, sigma_m=0.3, seed=4), tilted(wide(17, 14, focal=6.0))
    world_from_camera = np.linalg.inv(view.camera_from_world)
    scene.means[0] = world_from_camera[:3, :3] @ [0, 0, 1.0] + world_from_camera[:3, 3]
    scene.means[1] = world_from_camera[:3, :3] @ [0.9, -0.2, -0.2] + world_from_camera[:3, 3]
    assert_gradients_are_slopes(scene, view, PAPER)


@pytest.mark.parametrize("tangent", [0.0, 1e-9, 1e-4, 0.0099, 0.0101, 0.3, 5.0])
def test_the_lens_and_its_slopes_hold_on_and_near_the_axis(tangent):
    """Mean, Jacobian and the slopes of both; the series takes over at a tangent of 0.01, on both sides alike."""
    packed = packed_camera(wide())
    point = np.array([0.6 * tangent, -0.8 * tangent, 1.0]) * 1.7
    mean_and_jacobian = np.array(fisheye(*point, packed))
    for axis in range(3):
        step = np.zeros(3)
        step[axis] = 1e-5
        ends = [np.array(fisheye(*(point + sign * step), packed)) for sign in (1, -1)]
        slopes = (ends[0] - ends[1]) / 2e-5
        assert mean_and_jacobian[[2 + axis, 5 + axis]] == pytest.approx(slopes[:2], abs=1e-7)
        for k in range(8):
            ours = fisheye_backward(*point, packed, *np.eye(8)[k])[axis]
            assert ours == pytest.approx(slopes[k], abs=2e-6), k


@pytest.mark.parametrize("angle_deg", [0, 40, 88, 90, 100])
def test_a_splat_lands_where_the_lens_of_geo_puts_it(angle_deg):
    """Centroid of one small splat's alpha, pixel (0, 0) centred at (0, 0), also at and beyond 90 degrees."""
    lens = KannalaBrandtCamera(201, 181, 45.0, 47.0, 104.0, 88.5, distortion=K)
    view = SplatCamera(45.0, 47.0, 104.0, 88.5, 201, 181, np.eye(4), kb4=K)
    angle = np.radians(angle_deg)
    point = 2.0 * np.array([np.sin(angle) * 0.8, np.sin(angle) * 0.6, np.cos(angle)])
    pixel = lens.project(point[None]).pixels_xy[0]
    image = rasterize(*balls([point], sigma_m=0.05, logit=0.0).arrays, view)
    v, u = np.mgrid[0:181, 0:201]
    centroid = [(axis * image.alpha).sum() / image.alpha.sum() for axis in (u, v)]
    assert centroid == pytest.approx(pixel, abs=0.03)
    v, u = np.rint(pixel[::-1]).astype(int)
    assert image.expected_ray_distance(0.1)[v, u] == pytest.approx(2.0, abs=1e-5)


def test_a_fisheye_view_is_the_pinhole_view_through_its_lens():
    """The same scene drawn by a pinhole of 100 degrees and pulled through geo's lens: what differs is the local
    linearisation and the low-pass, both small for splats of some pixels. Distances against z likewise."""
    from cuda_kernels.remap import make_table, remap_bilinear

    rng = np.random.default_rng(3)
    count = 400
    z = rng.uniform(2, 6, count)
    scene = balls(np.stack([rng.uniform(-1, 1, count) * z, rng.uniform(-1, 1, count) * z, z], axis=1))
    scene = replace(
        scene,
        log_scales=np.log(z[:, None] * rng.uniform(0.02, 0.05, (count, 3))).astype(np.float32),
        quats=rng.normal(size=(count, 4)).astype(np.float32),
        logits=rng.normal(1, 1, count).astype(np.float32),
        colors=rng.uniform(0, 1, (count, 3)).astype(np.float32),
    )
    pinhole = PinholeCamera(501, 501, 210.0, 210.0, 250.0, 250.0)
    lens = KannalaBrandtCamera(181, 181, 100.0, 100.0, 90.0, 90.0, distortion=K)
    flat = rasterize(*scene.arrays, SplatCamera(210.0, 210.0, 250.0, 250.0, 501, 501, np.eye(4)), PAPER)
    bent = rasterize(*scene.arrays, SplatCamera(100.0, 100.0, 90.0, 90.0, 181, 181, np.eye(4), kb4=K), PAPER)
    v, u = np.mgrid[0:181, 0:181].astype(np.float64)
    rays = lens.unproject(np.stack([u, v], axis=-1))
    landed = pinhole.project(rays.directions)
    valid = rays.valid & landed.valid & pinhole.in_image(landed.pixels_xy)
    assert valid.mean() > 0.7
    pulled = remap_bilinear(np.rint(flat.rgb * 255).astype(np.uint8), make_table(landed.pixels_xy, valid, (501, 501)))
    difference = np.abs(pulled / 255.0 - bent.rgb)[valid]
    assert np.median(difference) < 0.005
    assert np.quantile(difference, 0.95) < 0.03
    x, y = np.rint(np.where(valid[..., None], landed.pixels_xy, 0)).astype(int).transpose(2, 0, 1)
    distance = flat.expected_z(0.9)[y, x] / np.where(valid, rays.directions[..., 2], 1)
    both = valid & np.isfinite(distance) & np.isfinite(bent.expected_ray_distance(0.9))
    relative = np.abs(bent.expected_ray_distance(0.9) - distance)[both] / distance[both]
    assert both.sum() > 800
    assert np.median(relative) < 0.01


def test_without_distortion_the_radius_is_the_angle():
    """At 90 degrees to the right, 20 px per radian: 10 pi px from the centre."""
    view = wide(101, 9, kb4=(0.0, 0.0, 0.0, 0.0))
    alpha = rasterize(*balls([[3.0, 0, 0]], sigma_m=0.1, logit=0.0).arrays, view).alpha
    assert (np.arange(101) * alpha.sum(axis=0)).sum() / alpha.sum() == pytest.approx(50 + 10 * np.pi, abs=0.02)


def test_the_nearer_along_the_ray_hides_the_farther_also_behind_the_image_plane():
    """At 100 degrees z of the nearer one is larger: -0.17 against -0.35. Distance decides, not z."""
    direction = np.array([np.sin(np.radians(100)), 0, np.cos(np.radians(100))])
    scene = balls([2 * direction, 1 * direction], sigma_m=[0.2, 0.1], colors=[[1, 0, 0], [0, 1, 0]])
    view = wide(101, 9, kb4=(0.0, 0.0, 0.0, 0.0))
    u = round(50 + 20 * np.radians(100))
    assert rasterize(*scene.arrays, view).rgb[4, u] == pytest.approx([0, 0.999, 0], abs=0.02)


def test_a_sheet_across_the_ray_has_its_distance_as_depth():
    view = wide(9, 9, focal=3.0)
    image = rasterize(*balls([[0, 0, 4]], sigma_m=1.5, logit=logit_of(0.5)).arrays, view, depth_statistics=True)
    assert image.depth_sum[4, 4] == pytest.approx(2.0, abs=1e-3)
    assert image.statistics.median_z[4, 4] == pytest.approx(4.0, abs=1e-5)
    with pytest.raises(KernelError, match="use expected_ray_distance"):
        image.expected_z()
    with pytest.raises(KernelError, match="use expected_z"):
        rasterize(*balls([[0, 0, 4]]).arrays, camera()).expected_ray_distance()


def test_centres_beyond_the_limit_are_not_drawn():
    """The corner of 31 x 31 px at 20 px per radian is at sqrt(2) 15.5 / 20 rad = 62.8 degrees: drawn up to 81.6."""
    view = wide(31, 31, kb4=(0.0, 0.0, 0.0, 0.0))

    def drawn(angle_deg, **changes):
        angle = np.radians(angle_deg)
        scene = balls([[np.sin(angle), 0, np.cos(angle)]], sigma_m=1.0)
        return bool(rasterize(*scene.arrays, replace(view, **changes)).visible[0])

    assert drawn(81) and not drawn(82.5)
    assert drawn(49, valid_theta_rad=np.radians(50)) and not drawn(51, valid_theta_rad=np.radians(50))
    turning = dict(kb4=(-0.4, 0.0, 0.0, 0.0))  # r' = 1 - 1.2 theta^2 is zero at 52.3 degrees
    assert drawn(52, **turning) and not drawn(52.6, **turning)
    assert not drawn(10, near_m=1.5) and drawn(10, near_m=0.9)


def test_straight_behind_and_at_the_centre_nothing_is_drawn_nor_pulled():
    view = wide(201, 201, near_m=0.01)
    scene = balls([[0, 0, -1], [0, 0, 0], [1e-9, 0, -1], [0, 0, 2]], sigma_m=0.5)
    image = rasterize(*scene.arrays, view)
    assert image.visible.tolist() == [False, False, False, True]
    gradients = rasterize_backward(image, np.ones((201, 201, 3)))
    assert all(np.isfinite(getattr(gradients, name)).all() for name in (*FIELDS, "camera_twist"))
    assert not gradients.means_in_world[:3].any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kb4": (0.0, float("nan"), 0.0, 0.0)}, "four finite numbers"),
        ({"valid_theta_rad": 0.0}, "valid_theta_rad must be positive"),
    ],
)
def test_unusable_lenses_are_refused(changes, message):
    with pytest.raises(KernelError, match=message):
        rasterize(*balls([[0, 0, 1]]).arrays, replace(wide(), **changes))
