"""The quality report of a rectified view against plain loops over single pixels."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from geo.cameras import KannalaBrandtCamera, PinholeCamera, Rays, camera_from_params
from geo.rectify import remap_table
from geo.rectify_quality import packed_pixels, rectify_quality, round_trip_error_px
from geo.view import RectifyConfig, canonical_view, turn_rotation

FISHEYE = KannalaBrandtCamera(160, 160, 60.0, 60.0, 79.5, 79.5, (0.021, -0.0045, 0.0008, -0.0001), np.radians(95))
ARIA = camera_from_params(
    "FISHEYE624",
    (96, 96),
    [41.66, 48.28, 48.39, 0.406, -0.49, 0.1746, 1.133, -1.7016, 0.6512, 6e-4, 1.9e-5, -1.5e-5, 2.6e-4, -6.6e-4, 3.8e-5],
    valid_radius_px=48.2,
)
VIEWS = {
    "fisheye, narrow": (FISHEYE, PinholeCamera(24, 18, 18.0, 19.8, 11.0, 9.0, 0.5), turn_rotation(-5.0, 10.0, 20.0)),
    "fisheye, off its picture": (FISHEYE, PinholeCamera(24, 24, 10.0, 10.0, 11.5, 11.5), turn_rotation(0.0, 60.0, 0.0)),
    "aria": (ARIA, PinholeCamera(22, 20, 10.0, 10.0, 11.0, 9.0), np.eye(3)),
}
each_view = pytest.mark.parametrize("name", VIEWS)


def source_pixel(source, target, turn, u, v):
    """One target pixel's source pixel, or None."""
    k = target.matrix
    y = (v - k[1, 2]) / k[1, 1]
    x = (u - k[0, 2] - k[0, 1] * y) / k[0, 0]
    found = source.project(turn @ np.array([x, y, 1.0]))
    return found.pixels_xy if bool(found.valid) else None


def inside(source, pixel):
    return pixel is not None and bool(
        (pixel >= -0.5).all() and pixel[0] <= source.width_px - 0.5 and pixel[1] <= source.height_px - 0.5
    )


@each_view
def test_coverage_and_density_are_those_of_single_pixels(name):
    """Density: the area of the quadrilateral that a target pixel a thousandth as large shows in the source."""
    source, target, turn = VIEWS[name]
    quality = rectify_quality(source, target, turn)
    seen, areas, h = 0, [], 5e-4
    for v in range(target.height_px):
        for u in range(target.width_px):
            if not inside(source, source_pixel(source, target, turn, u, v)):
                continue
            seen += 1
            corners = [(u - h, v - h), (u + h, v - h), (u + h, v + h), (u - h, v + h)]
            places = [source_pixel(source, target, turn, *corner) for corner in corners]
            if any(place is None for place in places):  # at the rim itself
                continue
            (x1, y1), (x2, y2), (x3, y3), (x4, y4) = places
            areas.append(abs((x3 - x1) * (y4 - y2) - (x4 - x2) * (y3 - y1)) / 2 / (2 * h) ** 2)
    assert quality.coverage == seen / (target.width_px * target.height_px)
    assert 0.3 < quality.coverage and len(areas) == seen
    assert quality.density_min == pytest.approx(min(areas), rel=1e-5)
    assert quality.density_median == pytest.approx(float(np.median(areas)), rel=1e-5)
    assert quality.density_max == pytest.approx(max(areas), rel=1e-5)


@each_view
def test_the_error_of_the_packed_map_is_the_largest_over_all_pixels(name):
    """Fractions of 1/2048 rounded to the nearest: at most half a step each way, and almost that somewhere."""
    source, target, turn = VIEWS[name]
    table, worst = remap_table(source, target, turn), 0.0
    for v in range(target.height_px):
        for u in range(target.width_px):
            if table.offsets[v, u] < 0:
                continue
            exact = np.clip(source_pixel(source, target, turn, u, v), 0, np.array(source.size_wh_px) - 1.0)
            packed = np.rint(exact * 2048) / 2048
            worst = max(worst, float(np.hypot(*(packed - exact))))
    quality = rectify_quality(source, target, turn)
    assert quality.table_error_px == pytest.approx(worst, rel=1e-9)
    assert 0.5 / 2048 < quality.table_error_px <= np.sqrt(0.5) / 2048 * (1 + 1e-9)
    assert (np.isnan(packed_pixels(table)[..., 0]) == ~table.valid).all()


def test_a_wrong_map_is_found_out(monkeypatch):
    """A map that is off by three steps of 1/2048 in a single pixel."""
    source, target, turn = VIEWS["fisheye, narrow"]
    table = remap_table(source, target, turn)
    fractions = table.fractions.copy()
    v, u = np.argwhere(table.valid & (fractions[..., 0] < 1000))[7]
    fractions[v, u, 0] += 3
    monkeypatch.setattr("geo.rectify_quality.remap_table", lambda *_: replace(table, fractions=fractions))
    assert 2.5 / 2048 <= rectify_quality(source, target, turn).table_error_px <= 3.6 / 2048


@dataclass(frozen=True)
class Skewed(KannalaBrandtCamera):
    """A lens whose unprojection is off by a hundredth of a pixel."""

    def unproject(self, pixels_xy: np.ndarray) -> Rays:
        return super().unproject(np.asarray(pixels_xy) + np.array([0.006, 0.008]))


@dataclass(frozen=True)
class Torn(KannalaBrandtCamera):
    """A lens whose rays do not all come back."""

    def unproject(self, pixels_xy: np.ndarray) -> Rays:
        rays = super().unproject(pixels_xy)
        back = rays.directions.copy()
        back[..., 2] -= 2.0
        return Rays(back, rays.valid)


def test_the_round_trip_is_measured_and_not_believed():
    values = (160, 160, 60.0, 60.0, 79.5, 79.5, (0.021, -0.0045, 0.0008, -0.0001), np.radians(95))
    assert round_trip_error_px(FISHEYE) < 1e-9
    assert round_trip_error_px(Skewed(*values)) == pytest.approx(0.01, rel=1e-3)
    assert round_trip_error_px(Torn(*values)) == np.inf
    blind = camera_from_params("KB4", (20, 20), [60.0, 60.0, 2000.0, 10.0, 0.0, 0, 0, 0])
    assert np.isnan(round_trip_error_px(blind))


def test_the_round_trip_covers_the_whole_picture():
    """A camera wrong in one corner only is found out."""

    @dataclass(frozen=True)
    class CornerWrong(KannalaBrandtCamera):
        def unproject(self, pixels_xy: np.ndarray) -> Rays:
            pixels = np.asarray(pixels_xy)
            corner = (pixels > 118.5).all(axis=-1, keepdims=True)
            return super().unproject(np.where(corner, pixels + np.array([0.3, 0.4]), pixels))

    camera = CornerWrong(120, 120, 60.0, 60.0, 59.5, 59.5, (0.0, 0.0, 0.0, 0.0))
    assert round_trip_error_px(camera) == pytest.approx(0.5, rel=1e-3)


def test_a_pinhole_shown_as_it_is_loses_nothing():
    camera = PinholeCamera(64, 48, 60.0, 61.0, 31.0, 24.0)
    quality = rectify_quality(camera, camera, np.eye(3))
    assert (quality.coverage, quality.table_error_px) == (1.0, pytest.approx(0, abs=1e-12))
    for density in (quality.density_min, quality.density_median, quality.density_max):
        assert density == pytest.approx(1.0, abs=1e-12)
    half = rectify_quality(camera, camera.resized((32, 24)), np.eye(3))
    assert half.density_median == pytest.approx(4.0)  # a quarter of the pixels: each shows four


def test_a_view_of_nothing_has_no_figures_but_a_coverage_of_zero():
    narrow = replace(FISHEYE, valid_theta_rad=0.5)
    quality = rectify_quality(narrow, PinholeCamera(20, 20, 30.0, 30.0, 9.5, 9.5), turn_rotation(0.0, 90.0, 0.0))
    assert quality.coverage == 0 and np.isnan(quality.density_median) and np.isnan(quality.table_error_px)


def test_the_default_view_of_an_aria_sized_camera_is_as_good_as_its_figures_say():
    """Straight ahead the view has 400 px and the lens 41.66: (41.66 / 400)^2 source pixels per pixel there."""
    view = canonical_view(ARIA, RectifyConfig(pitch_deg=0.0))
    quality = rectify_quality(ARIA, view.camera, view.source_from_canonical)
    assert 0.5 < quality.coverage < 1 and quality.round_trip_error_px < 1e-6
    assert quality.density_min < (41.66 / 400) ** 2 < quality.density_max
    assert "coverage" in quality.text and "px" in quality.text
