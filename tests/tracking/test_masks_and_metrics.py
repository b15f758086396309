"""Run-length masks, logits to masks (T1), J and F."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracking import masks
from tracking.metrics import boundary_pixels, boundary_similarity, region_similarity
from tracking.records import decode_rle, encode_rle


def random_mask(seed, share=0.4, size=(13, 9)):
    return np.random.default_rng(seed).random(size) < share


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 10_000), st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))
def test_run_length_arithmetic_is_that_of_the_pixels(seed_a, seed_b, share):
    a, b = random_mask(seed_a, share), random_mask(seed_b)
    rle_a, rle_b = encode_rle(a), encode_rle(b)
    assert (decode_rle(rle_a) == a).all()
    assert masks.area(rle_a) == a.sum()
    assert masks.intersection(rle_a, rle_b) == (a & b).sum()
    union = (a | b).sum()
    assert masks.iou(rle_a, rle_b) == pytest.approx((a & b).sum() / union if union else 0.0)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(-4, 14), st.floats(-4, 18))
def test_distance_to_a_mask_is_that_to_its_nearest_pixel_square(seed, x, y):
    mask = random_mask(seed, 0.1)
    v, u = np.nonzero(mask)
    away = np.hypot(np.maximum(np.abs(u - x) - 0.5, 0), np.maximum(np.abs(v - y) - 0.5, 0))
    assert masks.distance_px(encode_rle(mask), (x, y)) == pytest.approx(away.min() if len(away) else np.inf)


def test_bounds_of_a_mask_that_runs_over_column_ends():
    mask = np.zeros((4, 5), bool)
    mask[2:, 1] = mask[:, 2] = True
    assert masks.bounds(encode_rle(mask)) == (1, 0, 2, 3)
    assert masks.bounds(encode_rle(np.zeros((4, 5), bool))) is None


def test_coco_tools_read_our_run_lengths():
    coco = pytest.importorskip("pycocotools.mask")
    mask = random_mask(5, 0.5, (40, 30))
    rle = encode_rle(mask)
    packed = coco.frPyObjects({"size": list(rle.size_hw), "counts": rle.counts.tolist()}, *rle.size_hw)
    assert (coco.decode(packed).astype(bool) == mask).all()


def test_t1_logits_are_cut_at_zero():
    """A disc of logits: 1245 pixels where logit > 0; cutting at 0.5 would lose 240 of them."""
    yy, xx = np.mgrid[-60:61, -60:61]
    logits = ((20 - np.hypot(xx, yy)) * 0.25).astype(np.float32)
    assert masks.logits_to_mask(logits, (121, 121)).sum() == 1245


def test_t1_logits_are_resized_before_the_cut():
    """A ramp that crosses zero between two pixels, doubled: the edge falls where the ramp does, not on a pixel pair."""
    logits = np.tile(np.array([-1.0, -0.2, 0.6, 1.4], np.float32), (4, 1))
    # doubled, half-pixel centres: -1 -.8 -.4 0 .4 .8 1.2 1.4 -> positive from column 4 on
    assert masks.logits_to_mask(logits, (8, 8))[3].tolist() == [False] * 4 + [True] * 4
    shifted = logits + 0.15  # -.85 -.65 -.25 .15 ...: the edge moves by one small pixel; a doubled mask could not
    assert masks.logits_to_mask(shifted, (8, 8))[3].tolist() == [False] * 3 + [True] * 5


def test_j_of_two_squares_is_shared_over_united_area():
    a, b = np.zeros((20, 20), bool), np.zeros((20, 20), bool)
    a[5:15, 5:15] = True
    b[5:15, 10:20] = True
    assert region_similarity(a, b) == pytest.approx(50 / 150)
    assert region_similarity(a & ~a, b & ~b) == 1.0


def test_boundary_of_a_square_is_the_davis_map():
    """A 2x2 square in a 5x5 image: pixels whose right, lower or lower-right neighbour differs."""
    mask = np.zeros((5, 5), bool)
    mask[1:3, 1:3] = True
    expected = np.zeros((5, 5), bool)
    expected[0, 0:3] = expected[1, [0, 2]] = expected[2, 0:3] = True
    assert (boundary_pixels(mask) == expected).all()


def test_f_forgives_a_shift_within_the_tolerance_and_not_beyond():
    a = np.zeros((60, 60), bool)
    a[20:40, 20:40] = True
    assert boundary_similarity(a, np.roll(a, 1, axis=1), tolerance_px=1.0) == 1.0
    shifted = boundary_similarity(a, np.roll(a, 3, axis=1), tolerance_px=1.0)
    # Precision: two horizontal sides of 20 stay matched on 20 - 3 + 1 columns each side, upright sides are lost.
    assert 0.3 < shifted < 0.6
    assert boundary_similarity(a, a & ~a) == 0.0
    assert boundary_similarity(a & ~a, a & ~a) == 1.0
