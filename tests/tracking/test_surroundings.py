"""Surroundings fused from many frames, in a ray-cast world of boxes on a table (z = 0) whose outlines are known.

Depth has 3 mm noise per pixel, the reported camera places are 2 mm off at random. Views are every second frame of a
sixth of an orbit, 24 frames to either side of the prompt's. Outlines are compared on cells as large as a voxel; faces
along an axis lie a quarter of a cell inside the last one, so that noise does not push every second point over a border.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scenes import BLUE, BLUE2, RED, RED2, Shape, TinyWorld, orbit
from scipy.ndimage import binary_fill_holes

from tracking.embedded.footprint import _opened
from tracking.embedded.frames import FrameStore
from tracking.embedded.surroundings import colour_at, place_of_point, surroundings_of

UP = np.array([0.0, 0.0, 1.0])
FRAME, COUNT = 24, 49  # the prompt's, and all: 25 frames at a stride of two
CELL_M = 0.005
STEEL, STEEL2 = (205, 210, 225), (190, 196, 214)
WALL, WALL2 = (225, 222, 215), (215, 212, 205)
SIZE_PX, FOCAL_PX = 192, 200.0


class NoisyWorld(TinyWorld):
    """Reports camera places that are a little off; blind and lost frames have no depth and no pose."""

    def __init__(self, shapes, poses, blind=(), lost=(), **kwargs):
        super().__init__(shapes, poses, size=SIZE_PX, focal=FOCAL_PX, depth_noise_m=kwargs.pop("noise_m", 0.003))
        self.blind, self.lost, self.pose_noise_m = frozenset(blind), frozenset(lost), kwargs.pop("pose_noise_m", 0.002)

    def sensor(self, frame):
        return np.full_like(self.cast(frame)[1], np.nan) if frame in self.blind else super().sensor(frame)

    def recording(self, *args, **kwargs):
        recording = super().recording(*args, **kwargs)
        poses = recording.world_from_camera.copy()
        poses[:, :3, 3] += np.random.default_rng(5).normal(0, self.pose_noise_m, (len(poses), 3))
        poses[list(self.lost)] = np.nan
        return replace(recording, world_from_camera=poses)

    def seen_as(self, **changes):
        """The same pictures (cast once) with other frames blind or lost."""
        other = NoisyWorld(self.shapes, self.poses, noise_m=self.depth_noise_m, pose_noise_m=self.pose_noise_m)
        other._cache = self._cache
        for name, value in changes.items():
            setattr(other, name, value)
        return other

    def pixel_of(self, place, frame=FRAME):
        pose = self.poses[frame]
        return self.camera.project((np.asarray(place, float) - pose[:3, 3]) @ pose[:3, :3]).pixels_xy


def store_of(world):
    return FrameStore(world.recording(), world, 1 << 28, 512)


def around(world, place, frame=FRAME, max_views=24, up=UP):
    """What stands at a place on a visible surface; the colour is that of its pixel."""
    store = store_of(world)
    colour = colour_at(store, frame, world.pixel_of(place, frame))
    return surroundings_of(store, frame, np.array(place, float), colour, up, 0.45, max_views)


def box(half, center, colour=RED, colour2=RED2, **kwargs):
    return Shape("box", half, center, colour, colour2, **kwargs)


def tray(x, y, length=0.1975, width=0.1375, rim=0.03, thick=0.008, floor=0.005):
    """A floor 5 mm over the table and four rims."""
    a, b, t = length / 2, width / 2, thick / 2
    parts = [((a, b, floor / 2), (x, y, floor / 2))]
    parts += [((t, b, rim / 2), (x + s * (a - t), y, rim / 2)) for s in (-1, 1)]
    parts += [((a, t, rim / 2), (x, y + s * (b - t), rim / 2)) for s in (-1, 1)]
    return [box(half, center, BLUE, BLUE2) for half, center in parts]


def outline(x, y, length, width, yaw=0.0):
    """Cells (5 mm) of a rectangle on the table, by their centres."""
    at = (np.stack(np.meshgrid(np.arange(-120, 120), np.arange(-120, 120)), axis=-1) + 0.5) * CELL_M - [x, y]
    c, s = np.cos(yaw), np.sin(yaw)
    along, across = at @ [c, s], at @ [-s, c]
    return (np.abs(along) < length / 2) & (np.abs(across) < width / 2)


def cells_of(points):
    out = np.zeros((240, 240), bool)
    cell = np.floor(points[:, :2] / CELL_M).astype(int) + 120
    out[cell[:, 1], cell[:, 0]] = True
    return out


def overlap(a, b):
    return (a & b).sum() / (a | b).sum()


def seen_outline(found):
    """The object's cells; what its own rim hides from the cameras is filled."""
    return binary_fill_holes(cells_of(found.points_in_world[found.is_object]))


def offset_m(a, b):
    """From the middle of one outline to that of another."""
    return CELL_M * (np.argwhere(a).mean(0) - np.argwhere(b).mean(0))[::-1]


BOX, KNIFE, TRAY, FULL_TRAY, CUBE = (-0.17, -0.12), (0.16, -0.16), (-0.16, 0.14), (0.15, 0.1), (0.13, 0.1)
BARE, BACK_M = (0.0, 0.0), 0.07875


@pytest.fixture(scope="module")
def table():
    """A box, a knife 7 mm thick, an empty tray, and a tray with a cube in it; nothing in the middle."""
    shapes = [
        box((0.06, 0.045, 0.04), (*BOX, 0.04), yaw=0.4),
        box((0.1, 0.0125, 0.0035), (*KNIFE, 0.0035), STEEL, STEEL2, yaw=0.5),
        *tray(*TRAY),
        *tray(*FULL_TRAY),
        box((0.01875, 0.01875, 0.01875), (*CUBE, 0.02375), RED, RED2),
    ]
    return NoisyWorld(shapes, orbit(COUNT, radius=0.6, height=0.5, target=(0, 0, 0)))


@pytest.fixture(scope="module")
def carried_box():
    """A box of 0.1 x 0.08 x 0.06 m, carried off between frames 30 and 32, back in its place from frame 40 on."""
    here, gone = (0.0, 0.0, 0.03), (0.9, 0.0, 0.5)
    path = {0: here, 30: here, 31: gone, 39: gone, 40: here, 48: here}
    return NoisyWorld([box((0.05, 0.04, 0.03), here, path=path)], orbit(COUNT, radius=0.5, height=0.45))


@cache
def wall_world(gap_m):
    """A box of 0.0975 x 0.0775 m, its back at y = 0.07875, before a wall 1.2 m long."""
    wall = box((0.6, 0.02, 0.25), (0, BACK_M + gap_m + 0.02, 0.25), WALL, WALL2)
    return NoisyWorld([box((0.04875, 0.03875, 0.03), (0, 0.04, 0.03)), wall], orbit(COUNT, radius=0.5, height=0.5))


@pytest.mark.parametrize("up", [UP, None])
def test_footprint_of_a_box_with_and_without_known_up(table, up):
    found, truth = around(table, (*BOX, 0.08), up=up), outline(*BOX, 0.12, 0.09, yaw=0.4)
    assert overlap(seen_outline(found), truth) > 0.8
    assert seen_outline(found).sum() * CELL_M**2 == pytest.approx(0.12 * 0.09, rel=0.25)
    assert np.abs(offset_m(seen_outline(found), truth)).max() < 0.0025
    assert found.plane.normal_in_world @ UP > np.cos(np.radians(0.5)) and abs(found.plane.offset_m) < 0.002
    assert not found.flat and len(found.seen_from_in_world) == 24


def test_a_knife_thinner_than_one_frames_noise_is_parted_from_the_table(table):
    """7 mm of steel: twice the noise of a depth pixel; a plan that is off by one cell of 4 mm fails."""
    found, truth = around(table, (*KNIFE, 0.007)), outline(*KNIFE, 0.2, 0.025, yaw=0.5)
    assert overlap(seen_outline(found), truth) > 0.75
    assert np.abs(offset_m(seen_outline(found), truth)).max() < 0.002


def test_opening_leaves_things_where_they_are():
    image = np.zeros((9, 9), bool)
    image[2:5, 3:7] = True
    line = image.copy()
    line[:, 1] = True
    assert np.array_equal(_opened(image), image) and np.array_equal(_opened(line), image)


@pytest.mark.parametrize("part", ["floor", "rim"])
def test_a_tray_is_one_object_with_its_floor(table, part):
    place = (*TRAY, 0.005) if part == "floor" else (TRAY[0], TRAY[1] + 0.065, 0.03)
    found, truth = around(table, place), outline(*TRAY, 0.1975, 0.1375)
    assert overlap(seen_outline(found), truth) > 0.8
    points = found.points_in_world
    x, y = np.abs(points[:, :2] - TRAY).T
    floor = (x < 0.08) & (y < 0.05) & (np.abs(points[:, 2] - 0.005) < 0.003)
    assert floor.sum() > 300 and found.is_object[floor].mean() > 0.9


def test_a_cube_in_a_tray_is_an_object_of_its_own(table):
    found, truth = around(table, (*CUBE, 0.0425)), outline(*CUBE, 0.0375, 0.0375)
    assert overlap(seen_outline(found), truth) > 0.6
    assert np.abs(found.points_in_world[found.is_object, :2] - CUBE).max() < 0.0375 / 2 + 0.01


@pytest.mark.parametrize("noise", [{}, {"depth_noise_m": 0.0, "pose_noise_m": 0.0}])
@pytest.mark.parametrize("gap_m, iou", [(0.02, 0.8), (0.0, 0.6)])
def test_a_wall_behind_a_box_stays_out(gap_m, iou, noise):
    """Of a box that touches the wall up to 20 mm are taken for the wall, a band 25 mm wide."""
    found = around(wall_world(gap_m).seen_as(**noise), (0, 0.04, 0.06))
    assert overlap(seen_outline(found), outline(0, 0.04, 0.0975, 0.0775)) > iou
    assert found.points_in_world[found.is_object, 1].max() < BACK_M + 0.005


def test_views_end_where_the_thing_is_carried_away(carried_box):
    """Frames 0, 2, .. 30 show it: 16 views; those from 40 on do too, but the thing was gone in between."""
    place = (0, 0, 0.06)
    found = around(carried_box, place, max_views=60)
    before = around(carried_box.seen_as(blind=frozenset(range(31, COUNT))), place, max_views=60)
    assert len(found.seen_from_in_world) == 16
    assert overlap(seen_outline(found), outline(0, 0, 0.1, 0.08)) > 0.8
    for name in ("points_in_world", "features", "is_object", "seen_from_in_world"):
        assert np.array_equal(getattr(found, name), getattr(before, name))


def test_nothing_stands_on_a_bare_place(table):
    assert around(table, (*BARE, 0.0)) is None


@pytest.mark.parametrize("views, enough", [(3, False), (4, True)])
def test_four_views_are_needed(table, views, enough):
    few = table.seen_as(blind=frozenset(range(COUNT)) - {FRAME, FRAME + 2, FRAME - 2, FRAME + 4})
    assert (around(few, (*BOX, 0.08), max_views=views) is not None) == enough


def test_frames_without_pose_or_depth_are_skipped(table):
    """25 views less two without a pose and three without depth; the others are all used."""
    world = table.seen_as(lost=frozenset({22, 30}), blind=frozenset({FRAME, 20, 26}))
    found = around(world, (*BOX, 0.08), max_views=60)
    used = [f for f in range(0, COUNT, 2) if f not in world.lost | world.blind]
    places = world.recording().world_from_camera[used, :3, 3]
    assert len(used) == 20 and np.array_equal(np.sort(found.seen_from_in_world, 0), np.sort(places, 0))
    assert overlap(seen_outline(found), outline(*BOX, 0.12, 0.09, yaw=0.4)) > 0.8


def place(world, pixel_xy, frame=FRAME):
    return place_of_point(store_of(world), frame, np.asarray(pixel_xy, float))


def surface_at(world, column, row, frame=FRAME):
    """The surface behind the middle of a pixel, as cast."""
    pose = world.poses[frame]
    ray = world.camera.normalised_points(np.array([column, row], float))
    return pose[:3, :3] @ (ray * world.cast(frame)[1][row, column]) + pose[:3, 3]


def test_place_of_a_point_by_the_sensor_of_its_own_frame(table):
    """25 pixels' median of 3 mm noise: below 1 mm; the camera's own place is exact here."""
    exact = table.seen_as(pose_noise_m=0.0)
    for target in ((*BOX, 0.08), (*KNIFE, 0.007), (*BARE, 0.0)):
        assert np.linalg.norm(place(exact, exact.pixel_of(target)) - target) < 0.004


def test_place_of_a_point_without_own_depth_by_its_neighbours(table):
    """Within the tolerance of comparing depth, 12 mm + 2.5 sigma = 20 mm, along the ray; far less in practice."""
    blind = table.seen_as(blind=frozenset({FRAME}), pose_noise_m=0.0)
    for target in ((*BOX, 0.08), (*BARE, 0.0)):
        assert np.linalg.norm(place(blind, blind.pixel_of(target)) - target) < 0.02


def test_place_is_unknown_where_nobody_sees_it(table):
    pixel = table.pixel_of((*BOX, 0.08))
    near = frozenset(range(FRAME - 20, FRAME + 21))
    assert np.isnan(place(table.seen_as(blind=near), pixel)).all()
    assert np.isnan(place(table.seen_as(blind=near - {FRAME + 2, FRAME + 4}), pixel)).all()  # two do not confirm it
    assert np.isnan(place(table.seen_as(lost=frozenset({FRAME})), pixel)).all()
    assert np.isnan(place_of_point(FrameStore(table.recording(), None, 1 << 28, 512), FRAME, pixel)).all()


@pytest.mark.parametrize("side", [-1, 0])
def test_a_point_on_a_silhouette_takes_the_depth_of_its_own_side(table, side):
    """Left (-1, the table) and right (0, the box) of every place in the box's outline where depth jumps by 5 cm."""
    exact = table.seen_as(depth_noise_m=0.0, pose_noise_m=0.0)
    _, depth, ids = exact.cast(FRAME)
    rows, columns = np.nonzero((ids[:, 1:] == 1) & (ids[:, :-1] == 0) & (np.diff(depth) < -0.05))
    assert len(rows) >= 5
    for row, column in zip(rows, columns + 1 + side, strict=True):
        assert np.linalg.norm(place(exact, (column, row)) - surface_at(exact, column, row)) < 0.01
