"""The remap kernels against their float64 references, hand-made maps, and their CUDA twins in the simulator."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from cuda_kernels.errors import KernelError
from cuda_kernels.remap import (
    make_nearest_table,
    make_table,
    remap_bicubic,
    remap_bicubic_reference,
    remap_bilinear,
    remap_bilinear_reference,
    remap_labels,
    remap_nearest,
)
from cuda_kernels.remap_rules import blend, cubic_weights

PAIRS = [(remap_bilinear, remap_bilinear_reference), (remap_bicubic, remap_bicubic_reference)]


def random_case(seed=0, source=(41, 37), target=(53, 29)):
    """An image and a map that runs over all borders, with some invalid and NaN places."""
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, (source[1], source[0], 3)).astype(np.uint8)
    xy = rng.uniform(-3, 3, (target[1], target[0], 2)) + rng.uniform(0, 1, (target[1], target[0], 2)) * source
    valid = rng.uniform(size=target[::-1]) > 0.1
    xy[0, 0] = np.nan
    return image, xy, valid


def by_the_plain_rule(image, table):
    """``remap_rules.blend`` over whole arrays of int64: no vectors, no threads, no packed words."""
    width, (rows, cols) = table.source_size_wh_px[0], table.offsets.shape
    flat = image.reshape(-1, image.shape[-1]).astype(np.int64)
    at = np.maximum(table.offsets, 0).reshape(-1)
    fx, fy = np.moveaxis(table.fractions.reshape(-1, 2).astype(np.int64), 1, 0)[..., None]
    levels = blend(flat[at], flat[at + 1], flat[at + width], flat[at + width + 1], fx, fy)
    levels[table.offsets.reshape(-1) < 0] = 0
    return levels.reshape(rows, cols, -1)


@pytest.mark.parametrize("remap", [remap_bilinear, remap_bicubic])
def test_identity_map_gives_the_image_back(remap):
    image, _, _ = random_case()
    v, u = np.mgrid[0 : image.shape[0], 0 : image.shape[1]]
    table = make_table(np.stack([u, v], -1).astype(float), np.ones(u.shape, bool), (41, 37))
    assert (remap(image, table) == image).all() and table.valid.all()


def test_half_way_between_two_pixels_is_their_mean():
    image = np.zeros((2, 2, 3), np.uint8)
    image[:, 1] = [100, 50, 201]
    table = make_table(np.array([[[0.5, 0.0], [0.25, 1.0]]]), np.ones((1, 2), bool), (2, 2))
    assert remap_bilinear(image, table)[0].tolist() == [[50, 25, 101], [25, 13, 50]]


def test_bicubic_half_way_by_hand():
    """Keys with a = -1/2 at 1/2: weights -1/16, 9/16, 9/16, -1/16. Levels 16, 80, 160, 32 give 132; cut at 255."""
    row = np.array([16, 80, 160, 32, 250, 250, 0, 0], np.uint8)
    table = make_table(np.array([[[1.5, 2.0], [4.5, 2.0]]]), np.ones((1, 2), bool), (8, 5))
    assert remap_bicubic(np.tile(row, (5, 1)), table).tolist() == [[132, 255]]  # second: (-32 + 9 * 500 - 0) / 16 = 279


def test_bicubic_reproduces_a_parabola_inside():
    """The property that a = -1/2 alone has: (x - 9)^2 sampled anywhere is (x - 9)^2."""
    image = np.tile(((np.arange(18) - 9) ** 2).astype(np.uint8), (9, 1))
    x = np.linspace(1, 15, 57)
    xy = np.stack([x, np.full_like(x, 4.3)], axis=-1)[None]
    reference = remap_bicubic_reference(image, xy, np.ones(xy.shape[:2], bool))
    np.testing.assert_allclose(reference[0], (x - 9) ** 2, atol=1e-9)
    got = remap_bicubic(image, make_table(xy, np.ones(xy.shape[:2], bool), (18, 9)))
    assert np.abs(got[0] - (x - 9) ** 2).max() <= 0.52


def test_bicubic_weights_add_up_exactly_and_are_mirrored():
    weights = cubic_weights().astype(int)
    assert (weights.sum(axis=1) == 16384).all()
    assert weights[0].tolist() == [0, 16384, 0, 0] and weights[1024].tolist() == [-1024, 9216, 9216, -1024]
    assert np.abs(weights - weights[::-1, ::-1]).max() <= 1


@pytest.mark.parametrize(("remap", "reference"), PAIRS)
@pytest.mark.parametrize("grey", [False, True])
def test_within_one_grey_level_of_the_reference_everywhere(remap, reference, grey):
    for seed in range(5):
        image, xy, valid = random_case(seed)
        image = image[..., 0].copy() if grey else image
        table = make_table(xy, valid, (41, 37))
        assert np.abs(remap(image, table) - reference(image, xy, valid)).max() < 0.75


@pytest.mark.parametrize(("remap", "reference"), PAIRS)
def test_the_hardest_pictures_stay_within_one_grey_level(remap, reference):
    """Checkerboards of 0 and 255: every fraction's error is multiplied by the steepest slope there is."""
    rng = np.random.default_rng(1)
    v, u = np.mgrid[0:64, 0:64]
    image = np.repeat((((u + v) % 2) * 255).astype(np.uint8)[..., None], 3, axis=2)
    xy, valid = rng.uniform(0, 63, (300, 300, 2)), np.ones((300, 300), bool)
    worst = np.abs(remap(image, make_table(xy, valid, (64, 64))) - reference(image, xy, valid)).max()
    assert 0.4 < worst < 1.0


@pytest.mark.parametrize("target", [(1, 1), (3, 1), (4, 1), (5, 1), (64, 65), (53, 29)])
def test_four_at_a_time_are_the_plain_rule_bit_for_bit(target):
    """Widths with and without a rest of four, and more than one block of 4096."""
    for seed in range(4):
        image, xy, valid = random_case(seed, target=target)
        table = make_table(xy, valid, (41, 37))
        assert (remap_bilinear(image, table) == by_the_plain_rule(image, table)).all()


@pytest.mark.parametrize("size", [(2, 2), (2, 7), (3, 2), (9, 4)])
def test_the_last_pixels_of_the_image_are_read_right(size):
    """All samples in the lower right corner, where eight bytes reach beyond the image's end."""
    rng = np.random.default_rng(2)
    image = rng.integers(0, 256, (size[1], size[0], 3)).astype(np.uint8)
    xy = np.array(size) - 1 - rng.uniform(-0.5, 1.0, (8, 13, 2))
    valid = np.ones((8, 13), bool)
    table = make_table(xy, valid, size)
    assert table.valid.all()
    assert (remap_bilinear(image, table) == by_the_plain_rule(image, table)).all()
    assert np.abs(remap_bicubic(image, table) - remap_bicubic_reference(image, xy, valid)).max() < 0.75


def test_bilinear_of_every_fraction_pair_is_exact_in_its_weights():
    """Weights never negative and adding up to one: a flat picture stays flat, whatever the fraction."""
    f = np.arange(0, 2049, dtype=np.int64)
    for level in (0, 1, 127, 255):
        assert (blend(level, level, level, level, f[:, None], f[None]) == level).all()
    assert blend(0, 0, 0, 255, f, np.int64(2048)).tolist() == [(255 * 4 * int(k) + 4096) >> 13 for k in f]


def test_validity_is_the_image_with_its_outer_half_pixels():
    xy = np.array([[[-0.5, 0.0], [-0.51, 0.0], [40.5, 36.5], [40.51, 0.0], [np.nan, 0.0], [3.0, 3.0]]])
    table = make_table(xy, np.array([[True] * 5 + [False]]), (41, 37))
    assert table.valid[0].tolist() == [True, False, True, False, False, False]
    image, _, _ = random_case()
    for remap in (remap_bilinear, remap_bicubic):
        out = remap(image, table)
        assert (out[0, [1, 3, 4, 5]] == 0).all()
    out = remap_bilinear(image, table)
    assert (out[0, 0] == image[0, 0]).all() and (out[0, 2] == image[36, 40]).all()


@pytest.mark.parametrize("remap", [remap_bilinear, remap_bicubic])
def test_same_bytes_for_any_number_of_threads(remap):
    import numba

    image, xy, valid = random_case(3, (200, 150), (180, 160))
    table = make_table(xy, valid, (200, 150))
    before = numba.get_num_threads()
    try:
        results = []
        for threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(threads)
            results.append(remap(image, table).tobytes())
    finally:
        numba.set_num_threads(before)
    assert len(set(results)) == 1


@pytest.mark.parametrize("remap", [remap_bilinear, remap_bicubic])
def test_arrays_that_do_not_fit_are_refused_and_stay_unchanged(remap):
    image, xy, valid = random_case()
    table = make_table(xy, valid, (41, 37))
    for wrong in (image[1:], image[..., :2], image[..., 0][:, 1:]):
        with pytest.raises(KernelError, match="the map was made for uint8"):
            remap(wrong, table)
    with pytest.raises(KernelError, match="at least 2x2"):
        make_table(xy, valid, (1, 37))
    copy = image.copy()
    remap(image, table)
    assert (image == copy).all()


@pytest.mark.parametrize("remap", [remap_bilinear, remap_bicubic])
def test_a_view_with_strides_gives_what_its_copy_gives(remap):
    image, xy, valid = random_case(4)
    table = make_table(xy, valid, (41, 37))
    wide = np.zeros((37, 41, 4), np.uint8)
    wide[..., :3] = image[..., ::-1]
    assert (remap(wide[..., 2::-1], table) == remap(image, table)).all()


# --- labels -------------------------------------------------------------------------------------------------------


def test_nearest_takes_labels_unmixed():
    labels = np.arange(12).reshape(3, 4)
    xy = np.array([[[0.49, 0.0], [0.5, 0.0], [3.4, 2.4], [3.5, 0.0], [np.nan, 0.0]]])
    assert remap_nearest(labels, xy, -1).tolist() == [[0, 1, 11, -1, -1]]
    assert remap_labels(labels, make_nearest_table(xy, np.ones((1, 5), bool), (4, 3)), -1).tolist() == [
        [0, 1, 11, -1, -1]
    ]


@pytest.mark.parametrize("kind", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_labels_of_any_integer_type_keep_type_and_values(kind):
    _, xy, valid = random_case(5)
    rng = np.random.default_rng(6)
    low, high = (0, 1) if kind == "bool" else (np.iinfo(kind).min, np.iinfo(kind).max)
    labels = rng.integers(low, high, (37, 41), dtype=np.int64 if kind == "bool" else kind, endpoint=True).astype(kind)
    got = remap_labels(labels, make_nearest_table(xy, valid, (41, 37)), 1)
    wanted = remap_nearest(labels, np.where(valid[..., None], xy, np.nan), 1)
    assert got.dtype == np.dtype(kind) and (got == wanted).all()


def test_labels_that_do_not_fit_are_refused():
    _, xy, valid = random_case()
    table = make_nearest_table(xy, valid, (41, 37))
    for wrong in (np.zeros((37, 41)), np.zeros((36, 41), np.uint8)):
        with pytest.raises(KernelError, match="made for integers"):
            remap_labels(wrong, table)
    with pytest.raises(KernelError, match="fill -1 does not fit the label image's uint8: 0 to 255"):
        remap_labels(np.zeros((37, 41), np.uint8), table, -1)


# --- the GPU ------------------------------------------------------------------------------------------------------

TWINS = """
import numpy as np
from cuda_kernels import remap, remap_cuda
from cuda_kernels.errors import KernelError

def check(source, target, seed):
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, (source[1], source[0], 3)).astype(np.uint8)
    xy = rng.uniform(-2, 2, (target[1], target[0], 2)) + rng.uniform(0, 1, (target[1], target[0], 2)) * source
    valid = rng.uniform(size=target[::-1]) > 0.1
    table, nearest = remap.make_table(xy, valid, source), remap.make_nearest_table(xy, valid, source)
    assert table.valid.any() and not table.valid.all()
    for picture in (image, image[..., 1]):
        assert (remap_cuda.remap_bilinear_cuda(picture, table) == remap.remap_bilinear(picture, table)).all()
        assert (remap_cuda.remap_bicubic_cuda(picture, table) == remap.remap_bicubic(picture, table)).all()
    for kind in (np.uint8, np.int32, np.bool_):
        labels = image[..., 0].astype(kind)
        got = remap_cuda.remap_labels_cuda(labels, nearest, 1)
        assert got.dtype == kind and (got == remap.remap_labels(labels, nearest, 1)).all()
"""


def test_cuda_twins_in_the_simulator_give_the_same_bytes():
    """In a process of its own: the simulator is switched on before numba is imported."""
    code = TWINS + "check((17, 21), (18, 19), 0)\ncheck((2, 2), (5, 3), 1)\nprint('same bytes')"
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=environment, timeout=300
    )
    assert "same bytes" in run.stdout, run.stderr[-2000:]


@pytest.mark.gpu
def test_cuda_twins_on_a_gpu_give_the_same_bytes():
    names = {}
    exec(TWINS, names)  # the very code that the simulator runs
    names["check"]((640, 480), (300, 200), 7)
