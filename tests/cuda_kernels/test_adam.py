"""Adam on rows of a table: against the algorithm in float64, and by hand."""

import numba
import numpy as np
import pytest

from cuda_kernels.adam import adam_rows, adam_rows_reference
from cuda_kernels.errors import KernelError


def table(count=300, columns=14, share=0.6, seed=0):
    """Arguments of ``adam_rows``: a table half way through, some rows of it with a gradient."""
    rng = np.random.default_rng(seed)
    values, first = rng.normal(size=(2, count, columns)).astype(np.float32)
    second = rng.random((count, columns), dtype=np.float32)
    steps = rng.integers(0, 2000, count)
    rows = np.flatnonzero(rng.random(count) < share)
    gradient = rng.normal(0, 1e-3, (len(rows), columns)).astype(np.float32)
    rate = rng.uniform(1e-3, 1e-1, columns).astype(np.float32)
    return [values, first, second, steps, rows, gradient, rate, rng.random(count, dtype=np.float32), 3]


def test_a_step_agrees_with_the_algorithm_in_float64():
    ours = table()
    before = ours[0].copy()
    doubles = [a.astype(np.float64) if getattr(a, "dtype", None) == np.float32 else np.copy(a) for a in ours]
    doubles[8] = ours[8]
    for _ in range(5):
        adam_rows(*ours)
        adam_rows_reference(*doubles)
    moved = np.abs(doubles[0] - before).max()
    assert moved > 0.01
    assert np.abs(ours[0] - doubles[0]).max() < 1e-5 * moved
    for mine, truth in zip(ours[1:4], doubles[1:4], strict=True):
        assert np.allclose(mine, truth, rtol=1e-5, atol=1e-8)


def test_the_first_step_is_the_rate_against_the_sign_of_the_gradient():
    """m = 0.1 g and v = 0.001 g^2, corrected to g and g^2: the step is rate times sign, times the row's scale."""
    values, first, second = (np.zeros((2, 3), np.float32) for _ in range(3))
    steps, rows = np.zeros(2, np.int64), np.array([1])
    gradient = np.array([[5.0, -1e-4, 3.0]], np.float32)
    rate, row_scale = np.array([0.1, 0.2, 0.3], np.float32), np.array([7.0, 2.0], np.float32)
    adam_rows(values, first, second, steps, rows, gradient, rate, row_scale, 2)
    assert values[1] == pytest.approx([-0.2, 0.4, -0.3], rel=1e-5)
    assert steps.tolist() == [0, 1]


def test_rows_that_are_not_named_stay_as_they_are():
    arrays = table()
    before = [array.copy() for array in arrays[:4]]
    adam_rows(*arrays)
    others = np.setdiff1d(np.arange(300), arrays[4])
    for array, old in zip(arrays[:4], before, strict=True):
        assert np.array_equal(array[others], old[others])
        assert not np.array_equal(array, old)


def test_a_row_without_gradient_and_without_past_does_not_move():
    arrays = table(20)
    for array in arrays[1:4]:
        array[:] = 0
    arrays[5][:] = 0
    before = arrays[0].copy()
    adam_rows(*arrays)
    assert np.array_equal(arrays[0], before)


def test_no_rows_are_no_step():
    arrays = table(10, share=0.0)
    before = arrays[0].copy()
    adam_rows(*arrays)
    assert np.array_equal(arrays[0], before)


def test_any_number_of_threads_gives_the_same_bytes():
    available = numba.get_num_threads()
    results = []
    try:
        for threads in range(1, available + 1):
            numba.set_num_threads(threads)
            arrays = table(5000)
            adam_rows(*arrays)
            results.append(b"".join(array.tobytes() for array in arrays[:4]))
    finally:
        numba.set_num_threads(available)
    assert len(set(results)) == 1


def test_arrays_that_do_not_fit_are_named():
    arrays = table(10)
    with pytest.raises(KernelError, match=r"rows reach from 0 to 10, the table has 10"):
        adam_rows(*arrays[:4], np.array([0, 10]), np.zeros((2, 14), np.float32), *arrays[6:])
    with pytest.raises(KernelError, match="first is float32"):
        adam_rows(arrays[0], arrays[1].T.copy().T, *arrays[2:])
