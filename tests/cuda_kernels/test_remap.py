"""The remap kernel against its float64 reference, hand-made maps, and its CUDA twin in the simulator."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from cuda_kernels.errors import KernelError
from cuda_kernels.remap import make_table, remap_bilinear, remap_bilinear_reference, remap_nearest


def random_case(seed=0, source=(41, 37), target=(53, 29)):
    """An image and a map that runs over all borders, with some invalid and NaN places."""
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, (source[1], source[0], 3)).astype(np.uint8)
    xy = rng.uniform(-3, 3, (target[1], target[0], 2)) + rng.uniform(0, 1, (target[1], target[0], 2)) * source
    valid = rng.uniform(size=target[::-1]) > 0.1
    xy[0, 0] = np.nan
    return image, xy, valid


def test_identity_map_gives_the_image_back():
    image, _, _ = random_case()
    v, u = np.mgrid[0 : image.shape[0], 0 : image.shape[1]]
    table = make_table(np.stack([u, v], -1).astype(float), np.ones(u.shape, bool), (41, 37))
    assert (remap_bilinear(image, table) == image).all() and table.valid.all()


def test_half_way_between_two_pixels_is_their_mean():
    image = np.zeros((2, 2, 3), np.uint8)
    image[:, 1] = [100, 50, 201]
    table = make_table(np.array([[[0.5, 0.0], [0.25, 1.0]]]), np.ones((1, 2), bool), (2, 2))
    assert remap_bilinear(image, table)[0].tolist() == [[50, 25, 101], [25, 13, 50]]


def test_within_one_grey_level_of_the_reference_everywhere():
    for seed in range(5):
        image, xy, valid = random_case(seed)
        table = make_table(xy, valid, (41, 37))
        reference = remap_bilinear_reference(image, xy, valid)
        assert np.abs(remap_bilinear(image, table) - reference).max() < 0.5 + 255 / 2048 + 0.01


def test_validity_is_the_image_with_its_outer_half_pixels():
    xy = np.array([[[-0.5, 0.0], [-0.51, 0.0], [40.5, 36.5], [40.51, 0.0], [np.nan, 0.0], [3.0, 3.0]]])
    table = make_table(xy, np.array([[True] * 5 + [False]]), (41, 37))
    assert table.valid[0].tolist() == [True, False, True, False, False, False]
    image, _, _ = random_case()
    out = remap_bilinear(image, table)
    assert (out[0, 0] == image[0, 0]).all() and (out[0, 2] == image[36, 40]).all()
    assert (out[0, [1, 3, 4, 5]] == 0).all()


def test_same_bytes_for_any_number_of_threads():
    import numba

    image, xy, valid = random_case(3, (200, 150), (180, 160))
    table = make_table(xy, valid, (200, 150))
    before = numba.get_num_threads()
    try:
        results = []
        for threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(threads)
            results.append(remap_bilinear(image, table).tobytes())
    finally:
        numba.set_num_threads(before)
    assert len(set(results)) == 1


def test_arrays_that_do_not_fit_are_refused_and_stay_unchanged():
    image, xy, valid = random_case()
    table = make_table(xy, valid, (41, 37))
    with pytest.raises(KernelError, match="the map was made for uint8"):
        remap_bilinear(image[1:], table)
    with pytest.raises(KernelError, match="at least 2x2"):
        make_table(xy, valid, (1, 37))
    copy = image.copy()
    remap_bilinear(image, table)
    assert (image == copy).all()


def test_nearest_takes_labels_unmixed():
    labels = np.arange(12).reshape(3, 4)
    xy = np.array([[[0.49, 0.0], [0.5, 0.0], [3.4, 2.4], [3.5, 0.0], [np.nan, 0.0]]])
    assert remap_nearest(labels, xy, -1).tolist() == [[0, 1, 11, -1, -1]]


def test_cuda_twin_in_the_simulator_gives_the_same_bytes():
    """In a process of its own: the simulator is switched on before numba is imported."""
    code = """
    import numpy as np
    from cuda_kernels.remap import make_table, remap_bilinear
    from cuda_kernels.remap_cuda import remap_cuda
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (21, 17, 3)).astype(np.uint8)
    xy = rng.uniform(-2, 23, (19, 18, 2))
    table = make_table(xy, rng.uniform(size=(19, 18)) > 0.1, (17, 21))
    assert table.valid.any() and not table.valid.all()
    assert (remap_cuda(image, table) == remap_bilinear(image, table)).all()
    print("same bytes")
    """
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=environment, timeout=300
    )
    assert "same bytes" in run.stdout, run.stderr[-2000:]


@pytest.mark.gpu
def test_cuda_twin_on_a_gpu_gives_the_same_bytes():
    from cuda_kernels.remap_cuda import remap_cuda

    image, xy, valid = random_case(7, (640, 480), (300, 200))
    table = make_table(xy, valid, (640, 480))
    assert (remap_cuda(image, table) == remap_bilinear(image, table)).all()
