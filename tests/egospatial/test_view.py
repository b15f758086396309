"""Pictures: what is drawn where, by hand-worked numbers."""

import itertools

import frontdoor_makers as make
import numpy as np
import pytest

from egospatial.errors import FrontDoorError
from egospatial.view.colours import depth_picture, object_colour
from egospatial.view.command import make_picture
from egospatial.view.finished import Finished
from egospatial.view.overlay import Marked, overlay, put_text
from egospatial.view.plain import draw_scene
from egospatial.view.project import box_edges, project_segments
from egospatial.view.scene import look_at, path_segments, scene_of, viewer_camera
from geo.boxes import Box3
from geo.cameras import PinholeCamera

CAMERA = PinholeCamera(101, 101, 100.0, 100.0, 50.0, 50.0)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return Finished(make.write_finished(tmp_path_factory.mktemp("finished") / "kitchen_03"))


def test_a_box_has_twelve_edges_of_its_own_lengths():
    edges = box_edges(Box3(np.array([1.0, 2, 3]), np.array([1.0, 2, 4]), np.eye(3)))
    lengths = np.linalg.norm(edges[:, 1] - edges[:, 0], axis=1)
    assert sorted(lengths.tolist()) == [1.0] * 4 + [2.0] * 4 + [4.0] * 4


def test_a_segment_on_the_axis_plane_lands_where_the_pinhole_says():
    """At 2 m, 1 m to the right: 50 + 100 * 1 / 2 = 100."""
    pixels = project_segments(CAMERA, np.eye(4), np.array([[[0.0, 0, 2], [1, 0, 2]]]))
    assert pixels.tolist() == [[[50.0, 50.0], [100.0, 50.0]]]


def test_a_segment_behind_the_viewer_is_not_drawn_and_one_that_crosses_is_cut():
    behind = project_segments(CAMERA, np.eye(4), np.array([[[0.0, 0, -1], [1, 0, -2]]]))
    assert len(behind) == 0
    crossing = project_segments(CAMERA, np.eye(4), np.array([[[0.0, 0, 2], [2.0, 0, -2]]]))
    assert crossing.shape == (1, 2, 2) and np.isfinite(crossing).all()
    assert crossing[0, 1, 0] > 100  # leaves to the right, does not come back mirrored from the left


def test_segments_without_a_place_are_left_out():
    assert len(project_segments(CAMERA, np.eye(4), np.full((2, 2, 3), np.nan))) == 0


def test_a_viewer_that_looks_at_a_point_has_it_in_the_middle_and_up_is_up():
    view = look_at(np.array([0.0, -3, 2]), np.array([0.5, 1.0, 0.5]), np.array([0.0, 0, 1]))
    camera = viewer_camera(640, 400)
    target = np.array([0.5, 1.0, 0.5])
    middle, above = project_segments(camera, view, np.stack([target, target + np.array([0, 0, 0.2])])[None])[0]
    assert middle == pytest.approx([319.5, 199.5]) and above[1] < middle[1]
    assert abs(np.linalg.det(view[:3, :3]) - 1) < 1e-12


def test_looking_straight_down_works():
    view = look_at(np.array([0.0, 0, 2]), np.zeros(3), np.array([0.0, 0, 1]))
    assert np.isfinite(view).all() and abs(np.linalg.det(view[:3, :3]) - 1) < 1e-12


def test_a_path_has_a_gap_where_places_are_unknown():
    points = np.array([[0.0, 0, 0], [1, 0, 0], [np.nan] * 3, [2, 0, 0], [2, 0, 0], [3, 0, 0]])
    assert path_segments(points)[:, :, 0].tolist() == [[0, 1], [2, 3]]


def test_masks_tint_their_own_pixels_only_and_the_given_picture_stays():
    image = np.full((200, 800, 3), 100, np.uint8)
    mask = np.zeros((200, 800), bool)
    mask[100:150, 300:500] = True
    drawn = overlay(image, make.camera((800, 200)), np.full((4, 4), np.nan), [Marked(1, "jar", mask)])
    changed = (drawn != 100).any(axis=2)
    assert (image == 100).all() and changed[mask].all()
    assert not changed[152:].any() and not changed[:, :250].any() and not changed[:, 550:].any()


def test_small_pictures_are_enlarged_with_their_masks():
    mask = np.zeros((30, 40), bool)
    mask[10:20, 10:20] = True
    drawn = overlay(np.zeros((30, 40, 3), np.uint8), make.camera(), np.full((4, 4), np.nan), [Marked(1, "", mask)])
    assert drawn.shape == (576, 768, 3)
    assert drawn[288, 288].any() and not drawn[288, 600].any()


def test_labels_do_not_cover_each_other():
    canvas, taken = np.zeros((200, 300, 3), np.uint8), []
    for number in range(4):
        put_text(canvas, f"object {number}", (150, 100), (255, 0, 0), 1.0, taken)
    for i, (x0, y0, x1, y1) in enumerate(taken):
        assert 0 <= x0 < x1 <= 300 and 0 <= y0 < y1 <= 200
        for a0, b0, a1, b1 in taken[:i]:
            assert x0 >= a1 or x1 <= a0 or y0 >= b1 or y1 <= b0


def test_neighbouring_ids_have_different_colours_that_never_change():
    colours = [np.array(object_colour(i), float) for i in range(12)]
    assert all(np.abs(a - b).max() > 40 for a, b in itertools.pairwise(colours))
    assert object_colour(3) == object_colour(3)


def test_no_depth_is_black_and_near_is_red():
    picture = depth_picture(np.array([[np.nan, 0.5, 3.0]]), (0.5, 3.0))
    assert picture[0, 0].tolist() == [0, 0, 0]
    assert picture[0, 1, 0] > picture[0, 1, 2] and picture[0, 2, 2] > picture[0, 2, 0]


@pytest.mark.parametrize("what", ["overlay", "depth", "sheet"])
def test_every_picture_is_drawn(finished, tmp_path, what):
    assert make_picture(finished, what, 2, tmp_path / "a.png") == ""  # frame 2 has no pose: masks and labels alone
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_an_unknown_kind_frame_or_ending_is_refused(finished, tmp_path):
    with pytest.raises(FrontDoorError, match="expected one of scene"):
        make_picture(finished, "dream", None, tmp_path / "a.png")
    with pytest.raises(FrontDoorError, match="has frames 0 to 5"):
        make_picture(finished, "overlay", 6, tmp_path / "a.png")
    with pytest.raises(FrontDoorError, match=r"pictures end in \.png"):
        make_picture(finished, "overlay", 1, tmp_path / "a.gif")


def test_a_scene_has_boxes_paths_and_the_wearer(finished):
    scene = scene_of(finished, 3)
    assert scene.labels == ("red jar", "茶碗")
    assert (scene.object_ids == 3).sum() == 12 + 4  # a box, and four known steps from frame 1 on
    assert (scene.object_ids == -1).sum() == 3  # six frames, frame 2 without a pose
    drawn = draw_scene(scene, None, 320, 200)
    assert drawn.shape == (200, 320, 3) and drawn.std() > 1
