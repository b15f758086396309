"""The parts under the rasteriser: vectors of sixteen lanes, depth order, tile lists."""

import itertools

import numba
import numpy as np
import pytest
from splat_scenes import camera, cloud, tilted

from cuda_kernels.splat import backward, forward, rasterize, simd
from cuda_kernels.splat.bins import depth_order, even_shares, nearby_order
from cuda_kernels.splat.projection import BROKEN, DRAWN, FLAT_FLOATS, HIDDEN
from cuda_kernels.splat.reference import project_reference
from cuda_kernels.splat.rules import ALPHA_MIN, DEPTH


@numba.njit
def _lanes(x, out):
    value = simd.load(x, 0)
    power = simd.exp2(value)
    simd.store(out, 0, power)
    simd.store(out, 16, simd.reciprocal(power))
    simd.store(out, 32, simd.sums_of_lanes((value, power, value * value)))
    simd.store(out, 48, simd.select(value > simd.splat(-4.0), value, simd.negative_abs(power)))
    simd.store(out, 64, simd.minimum(value, simd.splat(-3.0)))
    simd.store(out, 80, simd.lanes_x() + simd.lanes_y())
    return simd.any_lane(value > simd.splat(100.0)), simd.any_lane(value > simd.splat(-1.0))


def test_lanes_compute_what_numpy_computes():
    x, out = np.linspace(-8, 0, 16).astype(np.float32), np.zeros(96, dtype=np.float32)
    nowhere, somewhere = _lanes(x, out)
    exact = 2.0 ** x.astype(np.float64)
    assert np.abs(out[:16] / exact - 1).max() < 4e-7
    assert np.abs(out[16:32] * exact - 1).max() < 6e-7
    assert out[32:35] == pytest.approx([x.sum(), exact.sum(), (x * x).sum()], rel=1e-5)
    assert not out[35:48].any()
    assert np.array_equal(out[48:64], np.where(x > -4, x, -out[:16]))
    assert np.array_equal(out[64:80], np.minimum(x, -3))
    assert out[80:].tolist() == [*range(8), *range(1, 9)]
    assert not nowhere and somewhere


def test_exp2_is_accurate_over_its_range():
    out = np.zeros(96, dtype=np.float32)
    worst = 0.0
    for start in np.linspace(-119, 119, 400):
        x = (start + np.linspace(0, 0.6, 16)).astype(np.float32)
        _lanes(x, out)
        worst = max(worst, np.abs(out[:16] / 2.0 ** x.astype(np.float64) - 1).max())
    assert worst < 4e-7


def test_the_tile_kernels_are_vectorised():
    """Packed multiply-adds in their machine code: 12 forward and 21 backward, twice that where vectors are split."""
    floats, pairs, number = numba.float32[::1], numba.int32[:, ::1], (numba.int64,) * 5
    tiles = (
        (forward._blend_tile, (floats, numba.int64, floats, pairs, *number), 12),
        (backward._tile_rows, (floats, numba.int64, floats, numba.int32[::1], pairs, *number, floats), 21),
    )
    for tile, types, least in tiles:
        fresh = numba.njit(error_model="numpy")(tile.py_func)  # cached code cannot be read
        fresh.compile(types)
        code = "\n".join(fresh.inspect_asm().values())
        names = [f"{name}{order}ps" for name in ("vfmadd", "vfnmadd") for order in (132, 213, 231)]
        assert sum(map(code.count, [*names, "fmla", "fmls"])) >= least


def test_depth_order_is_near_to_far_and_stable():
    rng = np.random.default_rng(0)
    flat = np.zeros((5000, FLAT_FLOATS), dtype=np.float32)
    flat[:, DEPTH] = np.exp(rng.uniform(-5, 12, 5000)).astype(np.float32)
    flat[1000:2000, DEPTH] = 7.0
    status = rng.choice([HIDDEN, DRAWN, BROKEN], 5000, p=[0.2, 0.7, 0.1]).astype(np.uint8)
    drawn = np.flatnonzero(status == DRAWN)
    assert np.array_equal(depth_order(flat, status), drawn[np.argsort(flat[drawn, DEPTH], kind="stable")])


@pytest.mark.parametrize(("width", "height", "sigma_m"), [(70, 50, 0.05), (33, 80, 0.5)])
def test_tile_lists_hold_every_pixel_that_a_gaussian_reaches_and_hardly_more(width, height, sigma_m):
    scene, view = cloud(120, sigma_m, seed=7), tilted(camera(width, height, focal=50.0))
    saved = rasterize(*scene.arrays, view).saved
    columns = -(-width // 16)
    listed = np.zeros((len(saved.order), height + 16, width + 16), dtype=bool)
    for tile in range(len(saved.tile_start) - 1):
        top, left = 16 * (tile // columns), 16 * (tile % columns)
        entries = saved.entries[saved.tile_start[tile] : saved.tile_start[tile + 1]]
        assert (np.diff(entries[:, 0]) > 0).all()  # front to back, each once
        for rank, code in entries:
            for half in range(2):
                first, last = (code >> (8 * half)) & 15, (code >> (8 * half + 4)) & 15
                listed[rank, top + 2 * first : top + 2 * last, left + 8 * half : left + 8 * half + 8] = True
    rank_of = {row: rank for rank, row in enumerate(saved.order)}
    projected = project_reference(*scene.doubles[:3], view)
    v, u = np.mgrid[0:height, 0:width]
    reached_px = listed_px = 0
    for row, (x, y), conic in zip(projected.rows, projected.means_xy, projected.conics, strict=True):
        delta = np.stack([u - x, v - y], axis=-1)
        sigma = 0.5 * np.einsum("hwi,ij,hwj->hw", delta, conic, delta)
        reached = np.exp(-sigma) / (1 + np.exp(-float(scene.logits[row]))) >= ALPHA_MIN * (1 + 1e-5)
        if row not in rank_of:
            assert not reached.any()
            continue
        assert not (reached & ~listed[rank_of[row], :height, :width]).any()
        reached_px, listed_px = reached_px + reached.sum(), listed_px + listed[rank_of[row], :height, :width].sum()
    assert listed_px < 3 * reached_px  # the blocks are 8 x 2


@pytest.mark.parametrize(("width", "height"), [(1, 1), (64, 64), (250, 33), (17, 700)])
def test_tiles_are_drawn_each_once_and_near_the_last_one(width, height):
    """Along a Z curve most steps go to a neighbour; of four tiles the order is upper left, right, lower left, right."""
    columns, rows = -(-width // 16), -(-height // 16)
    order = nearby_order(width, height)
    assert np.array_equal(np.sort(order), np.arange(columns * rows))
    x, y = order % columns, order // columns
    assert nearby_order(32, 32).tolist() == [0, 1, 2, 3]
    if len(order) > 4:
        assert np.median(np.abs(np.diff(x)) + np.abs(np.diff(y))) <= 2


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_shares_are_even_and_cover_all(workers):
    rng = np.random.default_rng(workers)
    lengths = rng.integers(0, 400, 300)
    order = rng.permutation(300)
    shares = even_shares(np.concatenate([[0], np.cumsum(lengths)]), order, workers)
    assert shares[0] == 0 and shares[-1] == 300 and (np.diff(shares) >= 0).all() and len(shares) == workers + 1
    work = np.array([lengths[order[a:b]].sum() for a, b in itertools.pairwise(shares)])
    assert work.max() < 1.05 * lengths.sum() / workers + 400


def test_more_workers_than_tiles_leave_some_idle():
    assert even_shares(np.array([0, 5]), np.array([0]), 4).tolist()[-1] == 1
