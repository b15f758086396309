"""Growth of the model: who is copied, where copies go, and what together they look like."""

import numpy as np
import pytest

from recon.densify import Shapes, adaptive_growth, jitter, mcmc_growth, shared_opacity
from recon.ply import logit


def shapes_of(count, sizes_m=0.1, opacity=0.5, seed=0):
    rng = np.random.default_rng(seed)
    quats = rng.standard_normal((count, 4))
    sizes = np.broadcast_to(np.asarray(sizes_m, dtype=float), (count,))
    return Shapes(
        rng.standard_normal((count, 3)).astype(np.float32),
        np.log(np.repeat(sizes[:, None], 3, axis=1)).astype(np.float32),
        quats.astype(np.float32),
        logit(np.broadcast_to(np.asarray(opacity, dtype=float), (count,))).astype(np.float32),
    )


def test_the_hardest_pulled_are_copied_first_and_no_more_than_asked():
    pull = np.array([0.0, 5.0, 1.0, 4.0, 3.0], dtype=np.float32)
    found = adaptive_growth(shapes_of(5), pull, np.zeros(5, np.float32), 2.0, 2, np.random.default_rng(0))
    assert found.parents.tolist() == [1, 3] and not found.dropped.any()
    everyone = adaptive_growth(shapes_of(5), pull, np.zeros(5, np.float32), 2.0, 99, np.random.default_rng(0))
    assert everyone.parents.tolist() == [1, 3, 4]
    none = adaptive_growth(shapes_of(5), pull, np.zeros(5, np.float32), 2.0, 0, np.random.default_rng(0))
    assert not len(none.parents)


def test_small_splats_are_cloned_in_place_and_large_ones_split_smaller():
    """Two clones of opacity 1 - sqrt(1/2) let half the light through, as the one of opacity 1/2 did."""
    shapes = shapes_of(2, [0.05, 0.2])
    limit = np.log(np.array([0.1, 0.1])).astype(np.float32)
    found = adaptive_growth(shapes, np.ones(2, np.float32), limit, 0.5, 9, np.random.default_rng(0))
    np.testing.assert_array_equal(found.children.means_in_world[0], shapes.means_in_world[0])
    np.testing.assert_array_equal(found.new.log_scales[0], shapes.log_scales[0])
    assert np.exp(found.children.log_scales[1]) == pytest.approx([0.2 / 1.6] * 3)
    assert np.exp(found.new.log_scales[1]) == pytest.approx([0.2 / 1.6] * 3)
    opacity = 1 / (1 + np.exp(-found.children.opacity_logits))
    assert opacity == pytest.approx([1 - np.sqrt(0.5), 0.5]) and (1 - opacity[0]) ** 2 == pytest.approx(0.5)
    assert np.linalg.norm(found.new.means_in_world[1] - found.children.means_in_world[1]) > 0.01


def test_halves_are_drawn_from_the_splat_itself():
    """A disc of 0.3 x 0.1 x 0.001 m turned a quarter turn about x: spread along x and z, hardly along y."""
    half = np.sqrt(0.5)
    count = 4000
    disc = Shapes(
        np.zeros((count, 3), np.float32),
        np.tile(np.log(np.array([0.3, 0.1, 0.001], np.float32)), (count, 1)),
        np.tile(np.array([half, half, 0, 0], np.float32), (count, 1)),
        np.zeros(count, np.float32),
    )
    pull, limit = np.ones(count, np.float32), np.full(count, np.log(0.01), np.float32)
    found = adaptive_growth(disc, pull, limit, 0.5, count, np.random.default_rng(1))
    assert found.children.means_in_world.std(axis=0) == pytest.approx([0.3, 0.001, 0.1], rel=0.06)


@pytest.mark.parametrize(("opacity", "copies"), [(0.3, 2), (0.9, 3), (0.99, 5), (0.6, 1)])
def test_copies_together_are_as_opaque_as_the_one_was(opacity, copies):
    """Through the centre 1 - (1 - o')^n = o; and the integral of alpha over a line through it stays (numerically)."""
    each, shrink = shared_opacity(np.array([opacity]), np.array([copies]))
    assert 1 - (1 - each[0]) ** copies == pytest.approx(opacity)
    x = np.linspace(-12, 12, 20_001)
    one = opacity * np.exp(-(x**2) / 2)
    many = 1 - (1 - each[0] * np.exp(-((x / shrink[0]) ** 2) / 2)) ** copies
    assert many.sum() == pytest.approx(one.sum(), rel=1e-3)


def test_dead_splats_move_to_live_ones_and_more_join():
    shapes = shapes_of(100, opacity=np.where(np.arange(100) < 40, 0.001, 0.7))
    found = mcmc_growth(shapes, 0.01, 10, np.random.default_rng(0))
    assert found.dropped.sum() == 40 and found.dropped[:40].all()
    assert len(found.parents) == 50 and found.parents.min() >= 40
    np.testing.assert_array_equal(found.children.means_in_world, shapes.means_in_world[found.parents])
    copied = np.isin(np.arange(100), found.changed)
    assert copied.sum() > 20 and not copied[:40].any()
    faded = mcmc_growth(shapes_of(5, opacity=0.001), 0.01, 3, np.random.default_rng(0))
    assert not len(faded.parents) and not faded.dropped.any(), "with nothing alive nothing can move"


def test_only_faint_splats_jitter():
    shapes = shapes_of(2000, 0.1, np.where(np.arange(2000) < 1000, 1e-6, 0.5))
    step = jitter(shapes, 0.3, np.random.default_rng(0))
    assert step[:1000].std() == pytest.approx(0.3 * 0.1 * 0.62, rel=0.1)  # the gate is open 0.62 at opacity 0
    assert np.abs(step[1000:]).max() < 1e-10
