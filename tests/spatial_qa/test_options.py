"""Eight options that do not give the key away."""

import itertools
from collections import Counter

import numpy as np
import pytest

from spatial_qa.decide import Measurement, on_ladder
from spatial_qa.errors import QuestionError
from spatial_qa.hashing import digest, shuffled
from spatial_qa.options import (
    COUNTS,
    Cells,
    Ladder,
    Natural,
    NoPlan,
    Objects,
    Orders,
    Plan,
    lay_out,
    length_z,
    ring_of_cells,
    same_width,
    square_group,
)
from spatial_qa.records import Option
from spatial_qa.templates.words import EVENT_RING, EVENTS


def found(answer=None, value=1.0, sigma=0.01):
    return Measurement(value, answer, sigma, 1.0, 3 * sigma)


def key_of(plan):
    return next(i for i, option in enumerate(plan.options) if option.origin == "key")


def test_choices_by_hash_are_the_same_everywhere():
    """Golden: blake2b of canonical JSON, eight bytes, big-endian; Fisher-Yates from the end."""
    import hashlib

    assert digest("a", 1) == int.from_bytes(hashlib.blake2b(b'["a",1]', digest_size=8).digest(), "big")
    assert shuffled("abcdefgh", "x") == shuffled("abcdefgh", "x") != shuffled("abcdefgh", "y")
    assert sorted(shuffled(range(100), 5)) == list(range(100))


def test_every_position_of_a_shuffle_is_equally_likely():
    at = Counter(shuffled(range(8), "q", i).index(3) for i in range(1600))
    assert sum((at[k] - 200) ** 2 / 200 for k in range(8)) < 24.32


def test_ladder_is_logarithmic_and_its_key_is_at_any_rank():
    ranks = Counter()
    for i in range(400):
        plan = Ladder("m", 1.25)(found(value=0.8, sigma=0.02), {}, f"q{i}")
        rungs = plan.extra["rungs"]
        ranks[key_of(plan)] += 1
        assert rungs[key_of(plan)] == pytest.approx(0.8, rel=0.02)
        steps = [high / low for low, high in itertools.pairwise(rungs)]
        assert min(steps) >= 1.2 and max(steps) / min(steps) < 1.1
        assert len({len(option.text) for option in plan.options}) == 1
        assert len({option.text.split(" ")[0].split(".")[1].__len__() for option in plan.options}) == 1
    assert sum((ranks[k] - 50) ** 2 / 50 for k in range(8)) < 24.32


def test_three_sigma_stay_on_the_rung_of_the_key():
    rng = np.random.default_rng(1)
    for i in range(300):
        value = rng.uniform(0.15, 8)
        measured = found(value=value, sigma=value * rng.uniform(0.002, 0.05))
        plan = Ladder("m")(measured, {}, f"q{i}")
        if isinstance(plan, NoPlan):
            continue
        for shift in (-3, 0, 3):
            moved = Measurement(value + shift * measured.sigma * 0.999, None, measured.sigma, 0.0, 0.0)
            assert on_ladder(moved, plan.extra["rungs"], plan.extra["ratio"]).answer == key_of(plan)


def test_uncertain_or_worthless_values_get_no_ladder():
    assert Ladder("m")(found(value=0.5, sigma=0.1), {}, "q").reason == "sigma_too_large"
    assert Ladder("m")(found(value=0.0), {}, "q").reason == "sigma_too_large"
    assert Ladder("m")(found(value=0.031, sigma=1e-4), {}, "q").reason in ("ladder_not_printable", "sigma_too_large")


def test_numbers_of_one_width():
    assert same_width([0.5, 0.75, 3.0]) == ["0.50", "0.75", "3.00"]
    assert same_width([0.05, 0.4]) == ["0.050", "0.400"]
    assert same_width([4.2, 12.74]) == ["04.2", "12.7"]
    assert same_width([0.001, 1.0]) is None


def test_values_beyond_the_ends_of_a_ladder_are_on_no_rung():
    rungs = [1.0, 1.25, 1.56, 1.95, 2.44, 3.05, 3.81, 4.77]
    assert on_ladder(found(value=1.0), rungs, 1.25).answer == 0
    assert on_ladder(found(value=0.85), rungs, 1.25).answer is None
    assert on_ladder(found(value=6.0), rungs, 1.25).answer is None


def test_orders_are_the_same_eight_whichever_of_them_is_the_key():
    labels = ["a", "b", "c", "d"]
    for i in range(40):
        plan = Orders()(found(answer=[2, 0, 3, 1]), {"labels": labels}, f"q{i}")
        texts = {option.text for option in plan.options}
        values = [option.value for option in plan.options]
        assert len(texts) == 8 and values[key_of(plan)] == ["c", "a", "d", "b"]
        assert list(reversed(values[key_of(plan)])) in values  # the mirror image
        for place, label in itertools.product(range(4), labels):
            assert sum(value[place] == label for value in values) == 2
        seen = set()
        for value in values:  # the orbit of any member under some of the three groups is this set
            for pairs in (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))):
                orbit = {", ".join("the " + value[p] for p in places) for places in square_group(pairs)}
                if orbit == texts:
                    seen.add(tuple(value))
        assert len(seen) == 8
        swaps = [
            sum(values[key_of(plan)].index(a) > values[key_of(plan)].index(b) for a, b in itertools.combinations(v, 2))
            for v in values
        ]
        assert sum(n >= 2 for n in swaps) >= 4


def test_cells_of_act_and_object_share_one_attribute_with_two_others():
    ring = ring_of_cells(EVENT_RING, 4)
    for kind, place in ring:
        shared = [int(kind == k) + int(place == p) for k, p in ring if (k, p) != (kind, place)]
        assert sorted(shared) == [0, 0, 0, 0, 0, 1, 1]
    for place in range(4):  # no object is both picked up and taken out, or both put down and put into
        kinds = {k for k, p in ring if p == place}
        assert kinds not in ({"pick_up", "take_out"}, {"put_down", "put_into"})
    plan = Cells(EVENTS)(found(answer=3), {"cells": ring, "labels": ["aa", "bb", "cc", "dd"]}, "q")
    assert isinstance(plan, (Plan, NoPlan))


def test_natural_sets_and_counts_are_complete():
    plan = COUNTS(found(answer=5), {}, "q")
    assert [option.value for option in plan.options] == list(range(8)) and key_of(plan) == 5
    texts = [f"sector {i}" for i in range(8)]
    noted = Natural(tuple(texts), {2: "true elsewhere"})(found(answer=0), {}, "q")
    assert noted.options[2].origin == "true elsewhere" and noted.options[0].origin == "key"


def test_a_key_whose_length_stands_out_is_refused():
    labels = ["cup"] * 7 + ["very long silver serving spoon"]
    labels = [f"{label}{i}" for i, label in enumerate(labels)]
    assert Objects()(found(answer=7), {"labels": labels}, "q").reason == "length_z"
    assert isinstance(Objects()(found(answer=2), {"labels": labels}, "q"), Plan)
    assert length_z([Option("abc", 0, "key")] + [Option("abc", i, "") for i in range(7)]) == 0
    assert length_z([Option("abcd", 0, "key")] + [Option("abc", i, "") for i in range(7)]) == float("inf")


def test_options_that_are_not_eight_different_ones_are_a_fault():
    plan = Plan(tuple(Option("same", i, "key" if i == 0 else "") for i in range(8)))
    with pytest.raises(QuestionError, match="need 8 different options"):
        lay_out(plan, "q")
