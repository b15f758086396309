"""The nearest row of a clock: ties, ends, tolerance, empty lists; one time and many agree."""

import numpy as np
import pytest

from geo.nearest import nearest_row, nearest_rows

STAMPS = np.array([0, 10, 20, 50], dtype=np.int64)


@pytest.mark.parametrize(
    ("query", "row"), [(-100, 0), (0, 0), (4, 0), (5, 0), (6, 1), (15, 1), (34, 2), (35, 2), (36, 3), (900, 3)]
)
def test_the_nearest_row_and_of_two_the_earlier(query, row):
    assert nearest_row(STAMPS, query, 1000) == row
    assert nearest_rows(STAMPS, np.array([query], dtype=np.int64)).tolist() == [row]


def test_a_row_at_the_tolerance_counts_and_one_beyond_it_does_not():
    assert nearest_row(STAMPS, 53, 3) == 3
    assert nearest_row(STAMPS, 54, 3) is None
    assert nearest_row(STAMPS, -4, 3) is None


def test_without_rows_there_is_none():
    assert nearest_row(np.zeros(0, dtype=np.int64), 5, 10) is None


def test_one_row_is_nearest_to_everything():
    assert nearest_rows(STAMPS[:1], np.array([-7, 0, 9], dtype=np.int64)).tolist() == [0, 0, 0]


def test_times_beyond_64_bits_are_far_and_no_error():
    assert nearest_row(STAMPS, 2**70, 10**9) is None
    assert nearest_row(STAMPS, -(2**70), 10**9) is None


def test_many_times_and_one_at_a_time_agree():
    rng = np.random.default_rng(3)
    stamps = np.unique(rng.integers(-1000, 1000, 60)).astype(np.int64)
    queries = rng.integers(-1200, 1200, 400).astype(np.int64)
    one_by_one = [nearest_row(stamps, int(query), 10_000) for query in queries]
    assert nearest_rows(stamps, queries).tolist() == one_by_one
