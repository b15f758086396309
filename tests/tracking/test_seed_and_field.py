"""From a point to a mask; support planes; the smooth field and geodesic distance by hand-checkable cases."""

from dataclasses import replace

import numpy as np
import pytest
from scenes import carried, still_life

from tracking.base import Prompt
from tracking.embedded._kernels import geodesic, mean_field, splat
from tracking.embedded.bare import bare_share
from tracking.embedded.frames import FrameStore, make_roi
from tracking.embedded.memory import memory_of
from tracking.embedded.plane import find_support
from tracking.embedded.predict import predict, roi_of
from tracking.embedded.refine import hand_logits
from tracking.embedded.seed import crop_points_in_world, segment_seed
from tracking.embedded.session import full_mask
from tracking.metrics import region_similarity

UP = np.array([0.0, 0.0, 1.0])


def store_of(world, depth=True):
    return FrameStore(world.recording(with_pose=depth), world if depth else None, 1 << 28, 512)


def prompt_on(truth, frame=0):
    v, u = np.nonzero(truth)
    return Prompt(frame, np.array([[u.mean(), v.mean()]]), np.array([True]))


@pytest.mark.parametrize("depth", [True, False])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_point_on_an_object_gives_its_mask(depth, number):
    world = still_life(depth_noise_m=0.004, holes=0.15)
    store = store_of(world, depth)
    truth = world.truth(10, number)
    seed = segment_seed(store, prompt_on(truth, 10), UP if depth else None, 160, 0.45)
    assert seed is not None
    assert region_similarity(full_mask(store, seed.crop, seed.logits), truth) > 0.9


def test_a_mask_prompt_is_taken_as_it_is():
    world = still_life()
    store, truth = store_of(world), world.truth(0, 1)
    seed = segment_seed(store, Prompt(0, np.zeros((0, 2)), np.zeros(0, bool), mask=truth), UP, 160, 0.45)
    assert seed is not None and region_similarity(full_mask(store, seed.crop, seed.logits), truth) > 0.97


def test_a_negative_point_keeps_the_neighbour_out():
    world = still_life()
    store = store_of(world)
    own, other = world.truth(0, 1), world.truth(0, 2)
    prompt = prompt_on(own)
    v, u = np.nonzero(other)
    points = np.vstack([prompt.points_xy_px, [[u.mean(), v.mean()]]])
    seed = segment_seed(store, Prompt(0, points, np.array([True, False])), UP, 160, 0.45)
    assert seed is not None and not (full_mask(store, seed.crop, seed.logits) & other).any()


@pytest.mark.parametrize("frame", [9, 19])
def test_a_known_hand_is_no_part_of_what_it_holds(frame):
    """The seed of a held box: without the hand's joints the fingers are taken as its own."""
    world = carried(depth_noise_m=0.002, hand_m=0.012)
    truth = world.truth(frame, 1)
    found = {}
    for known, recording in ((True, world.recording()), (False, replace(world.recording(), hands=()))):
        store = FrameStore(recording, world, 1 << 28, 512)
        seed = segment_seed(store, prompt_on(truth, frame), UP, 160, 0.45)
        found[known] = region_similarity(full_mask(store, seed.crop, seed.logits), truth)
    assert found[True] > 0.95 > 0.8 > found[False]


def test_the_arm_counts_as_hand_for_ten_centimetres_behind_the_wrist():
    joints = np.zeros((21, 3))
    joints[:, 1] = np.linspace(0, 0.16, 21)  # fingers along +y, the wrist at the origin: the arm comes from -y
    points = np.full((2, 8, 3), 9.0, np.float32)
    for column, place in enumerate([(0.02, -0.06, 0.0), (0.0, -0.2, 0.0), (0.09, -0.06, 0.0), (0.0, 0.05, 0.005)]):
        points[:, 2 * column : 2 * column + 2] = place
    assert np.array_equal(hand_logits(points, [joints])[0, ::2] < -1, [True, False, False, True])
    joints[0] = np.nan  # no wrist, no arm; the fingers stay
    assert np.array_equal(hand_logits(points, [joints])[0, ::2] < -1, [False, False, False, True])


def test_a_tall_thing_laid_into_the_table_is_told_from_one_that_stands_there():
    """The box of 6 x 6 x 8 cm rests in frame 4; in frame 18 it is elsewhere and its top side fits the bare table."""
    world = carried(depth_noise_m=0.001)
    store = store_of(world)
    seed = segment_seed(store, prompt_on(world.truth(4, 1), 4), UP, 160, 0.45)
    memory = memory_of(store, 4, seed)
    thin = memory.model.copy()
    thin.points_in_object[:, 2] *= 0.1
    lowered = memory.world_from_object.copy()
    lowered[2, 3] -= 0.08
    shares = {}
    for name, model, frame, place in (
        ("stands", memory.model, 4, memory.world_from_object),
        ("left", memory.model, 18, lowered),
        ("thin", thin, 18, lowered),
    ):
        roi, _ = roi_of(store, model, place, frame, 160)
        crop = store.crop(frame, roi)
        prediction = predict(crop, model, place, world.poses[frame])
        shares[name] = bare_share(store, model, frame, crop, prediction)
    assert shares["stands"] < 0.1 and shares["left"] > 0.9 and shares["thin"] == 0.0


def test_the_table_is_found_as_support_with_and_without_known_up():
    world = still_life(depth_noise_m=0.003)
    store = store_of(world)
    roi = make_roi((128.0, 118.0), (60.0, 60.0), store.image_wh, 160)
    assert roi is not None
    points = crop_points_in_world(store.crop(0, roi), world.poses[0])
    for up in (UP, None):
        plane = find_support(points, np.array([0, 0, 0.05]), world.poses[0][:3, 3], up)
        assert plane is not None
        assert plane.normal_in_world @ UP > np.cos(np.radians(2))
        assert abs(plane.height_m(np.array([0.0, 0.0, 0.05])) - 0.05) < 0.005


def test_no_support_in_empty_space():
    assert find_support(np.full((20, 20, 3), np.nan, np.float32), np.zeros(3), np.ones(3), UP) is None


def test_smoothing_without_edges_leaves_the_evidence_alone():
    unary = np.random.default_rng(0).normal(size=(6, 7)).astype(np.float32)
    assert np.allclose(mean_field(unary, np.zeros((4, 6, 7), np.float32), 5), unary)


def test_smoothing_two_pixels_is_the_fixed_point_by_hand():
    """u = (1, -0.2), w = 0.5: x = 1 + 0.5 tanh(y/2), y = -0.2 + 0.5 tanh(x/2), iterated to rest here."""
    weights = np.zeros((4, 1, 2), np.float32)
    weights[0, 0, 0] = 0.5
    x, y = 1.0, -0.2
    for _ in range(200):
        x = 1 + 0.5 * np.tanh(y / 2)
        y = -0.2 + 0.5 * np.tanh(x / 2)
    logits = mean_field(np.array([[1.0, -0.2]], np.float32), weights, 100)
    assert np.allclose(logits, [[x, y]], atol=1e-5)


def test_geodesic_distance_goes_round_a_wall():
    """A wall of cost 100 in column 2 with a gap in the last row of a 3 x 5 grid: 4 right, 2 down and 2 up."""
    right, down = np.ones((3, 5), np.float32), np.ones((3, 5), np.float32)
    right[:2, 1] = 100
    start = np.full((3, 5), 1e6, np.float32)
    start[0, 0] = 0
    assert geodesic(start, right, down, 8)[0, 4] == 8


def test_splat_keeps_the_nearer_point():
    depth, index = splat(np.array([[2.0, 2.0], [2.0, 2.0]]), np.array([2.0, 1.0]), np.array([0.6, 0.6]), (5, 5))
    assert depth[2, 2] == 1.0 and index[2, 2] == 1 and (index >= 0).sum() == 1
