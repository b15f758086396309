"""Several pinholes out of one lens: together they show all of it, each shows what its camera would have seen."""

import numpy as np
import pytest

from cuda_kernels.remap import remap_bilinear
from geo.cameras import PinholeCamera, camera_from_params
from geo.errors import CameraError, GeoError
from geo.rectify import remap_table
from geo.virtual_views import coverage, virtual_views


def equidistant(fov_deg, focal=70.0, size=None):
    """A plain fisheye: theta = r / f, up to fov / 2; the picture holds the whole circle unless a size is given."""
    half = np.radians(fov_deg) / 2
    size = size or 2 * int(np.ceil(focal * half)) + 3
    centre = (size - 1) / 2
    return camera_from_params("KB4", (size, size), [focal, focal, centre, centre, 0.0, 0.0, 0.0, 0.0], half)


def share_shown(camera, focal, views):
    """Share of the valid pixels that a view shows, with the fisheye and the pinhole written out."""
    size = camera.width_px
    v, u = np.mgrid[0:size, 0:size]
    x, y = (u - (size - 1) / 2) / focal, (v - (size - 1) / 2) / focal
    theta = np.hypot(x, y)
    seen = theta <= camera.valid_theta_rad
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = np.where(theta > 0, np.sin(theta) / theta, 1.0)
    rays = np.stack([x * factor, y * factor, np.cos(theta)], axis=-1)[seen]
    shown = np.zeros(len(rays), bool)
    for view in views:
        k, local = view.camera.matrix, rays @ view.source_from_view  # the transpose takes rays to the view
        with np.errstate(invalid="ignore", divide="ignore"):
            px, py = k[0, 0] * local[:, 0] / local[:, 2] + k[0, 2], k[1, 1] * local[:, 1] / local[:, 2] + k[1, 2]
        inside = (px >= -0.5) & (px <= view.camera.width_px - 0.5) & (py >= -0.5) & (py <= view.camera.height_px - 0.5)
        shown |= inside & (local[:, 2] > 0)
    return shown.mean()


@pytest.mark.parametrize("fov_deg", [60, 99, 120, 150, 180, 190, 200, 220, 250])
@pytest.mark.parametrize("view_fov_deg", [90.0, 100.0, 110.0])
def test_the_views_together_show_what_the_lens_sees(fov_deg, view_fov_deg):
    camera = equidistant(fov_deg)
    views = virtual_views(camera, view_fov_deg, 64)
    share = share_shown(camera, 70.0, views)
    assert share >= 0.99
    assert coverage(camera, views) == pytest.approx(share, abs=1e-6)  # below 512 px a side: the same pixels
    assert views[0].name == "front" and len(views) <= 6


def test_no_more_views_than_the_lens_needs():
    assert [view.name for view in virtual_views(equidistant(80))] == ["front"]
    assert [view.name for view in virtual_views(equidistant(190))] == ["front", "left", "right", "up", "down"]
    assert [view.name for view in virtual_views(equidistant(300))] == ["front", "left", "right", "up", "down", "back"]
    flat = camera_from_params("KB4", (240, 90), [70.0, 70.0, 119.5, 44.5, 0.0, 0.0, 0.0, 0.0], np.radians(95))
    assert [view.name for view in virtual_views(flat)] == ["front", "left", "right"]  # no room above and below


def test_every_view_but_the_front_is_needed():
    camera = equidistant(200)
    views = virtual_views(camera, 100.0, 64)
    for left_out in views[1:]:
        rest = [view for view in views if view is not left_out]
        assert share_shown(camera, 70.0, rest) < share_shown(camera, 70.0, views) - 4e-4


def test_each_view_looks_where_its_name_says():
    views = {view.name: view.source_from_view @ [0.0, 0, 1] for view in virtual_views(equidistant(300))}
    np.testing.assert_allclose(views["front"], [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(views["back"], [0, 0, -1], atol=1e-12)
    assert views["right"][0] > 0.5 and views["left"][0] < -0.5 and abs(views["right"][1]) < 1e-12
    assert views["down"][1] > 0.5 and views["up"][1] < -0.5 and abs(views["up"][0]) < 1e-12


def colour_of(directions):
    d = directions
    return 127 + 100 * np.stack([np.sin(3 * d[..., 0]), np.sin(3 * d[..., 1]), np.cos(2 * d[..., 0] + d[..., 2])], -1)


def test_each_view_shows_what_its_camera_would_have_seen_also_behind_90_degrees():
    """Colour is a function of the direction alone, so the right picture is known without the lens (FIELD R3)."""
    camera = equidistant(220, 130.0)
    rays = camera.unproject(camera.pixel_grid())
    picture = np.where(rays.valid[..., None], colour_of(np.nan_to_num(rays.directions)), 0).round().astype(np.uint8)
    behind = 0
    for view in virtual_views(camera, 100.0, 96):
        image = remap_bilinear(picture, remap_table(camera, view.camera, view.source_from_view)).astype(float)
        k = view.camera.matrix
        v, u = np.mgrid[0:96, 0:96]
        local = np.stack([(u - k[0, 2]) / k[0, 0], (v - k[1, 2]) / k[1, 1], np.ones(u.shape)], axis=-1)
        directions = local / np.linalg.norm(local, axis=-1, keepdims=True) @ view.source_from_view.T
        theta = np.arccos(np.clip(directions[..., 2], -1, 1))
        assert (view.valid_mask == (theta <= np.radians(110))).mean() > 0.999
        assert (image[~view.valid_mask] == 0).all()
        inner = theta < np.radians(108)  # a pixel within the rim: its four neighbours have a colour
        assert np.abs(image - colour_of(directions))[inner].max() < 2.5, view.name
        behind += int((inner & (theta > np.radians(91))).sum())
    assert behind > 1000


@pytest.mark.parametrize(
    ("model", "params", "size", "theta"),
    [
        (
            "FISHEYE624",
            [120.0, 160.0, 120.0, 0.02, -0.01, 1e-3, 0, 0, 0, 1e-3, -1e-3, 1e-3, 0, -1e-3, 0],
            (320, 240),
            1.7,
        ),
        ("DOUBLE_SPHERE", [79.0, 79.0, 127.0, 128.0, -0.172, 0.593], (256, 256), None),
        ("EUCM", [95.0, 95.0, 127.0, 128.0, 0.6291, 1.0418], (256, 256), None),
        ("OMNI", [170.0, 171.0, 128.0, 128.0, 1.2, -0.05, 0.01, 1e-3, -5e-4], (256, 256), None),
        ("FOV", [110.0, 110.0, 128.0, 128.0, 1.2], (256, 256), None),
        (
            "THIN_PRISM_FISHEYE",
            [70.0, 72.0, 127.0, 128.0, 0.01, -4e-3, 1e-3, -1e-3, 0, 0, 1e-3, -1e-3],
            (256, 256),
            1.92,
        ),
    ],
)
def test_every_model_is_covered(model, params, size, theta):
    """By pixels drawn at random, each looked for in the views one by one."""
    camera = camera_from_params(model, size, params, theta)
    views = virtual_views(camera, 100.0, 200)
    rng = np.random.default_rng(0)
    pixels = rng.uniform([-0.5, -0.5], np.array(size) - 0.5, (4000, 2))
    rays = camera.unproject(pixels)
    shown = np.zeros(len(pixels), bool)
    for view in views:
        there = view.camera.project(rays.directions @ view.source_from_view)
        inside = there.valid & view.camera.in_image(there.pixels_xy)
        shown |= inside
        column, row = np.clip(np.rint(there.pixels_xy[inside & rays.valid]).astype(int), 0, 199).T
        assert view.valid_mask[row, column].mean() > 0.97  # where a source pixel lands, the mask says so
    assert shown[rays.valid].mean() >= 0.99


def test_the_density_of_the_centre_is_kept_unless_a_size_is_given():
    front = virtual_views(equidistant(190))[0].camera
    assert front.width_px == 2 * np.ceil(70 * np.tan(np.radians(50)))
    assert front.fx_px == pytest.approx(70, rel=0.01) and front.fx_px == front.fy_px
    assert front.field_of_view_deg() > 100 and front.cx_px == (front.width_px - 1) / 2
    sized = virtual_views(equidistant(190), 90.0, 50)[0].camera
    assert sized == PinholeCamera(50, 50, sized.fx_px, sized.fx_px, 24.5, 24.5)
    assert sized.fx_px == pytest.approx(25)


def test_numbers_that_make_no_views_are_refused():
    for bad in (0.0, 151.0, float("nan")):
        with pytest.raises(GeoError, match="virtual views must lie in"):
            virtual_views(equidistant(190), bad)
    blind = camera_from_params("KB4", (20, 20), [60.0, 60.0, 2000.0, 10.0, 0.0, 0, 0, 0])
    with pytest.raises(CameraError, match="not one pixel has a ray"):
        virtual_views(blind)
