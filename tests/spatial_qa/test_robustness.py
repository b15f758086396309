"""What margins promise: noise does not change answers, moves beyond the margin do."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from spatial_qa_changes import knobs

from spatial_qa import answer_on, verify
from spatial_qa.templates import TEMPLATES

SAME = {i: i for i in range(1, 20)}
PER_TEMPLATE = 6


def sampled(asked):
    """Some questions of every template, spread over the scenes."""
    by_template = defaultdict(list)
    for _, lifted, found in asked:
        for question in found.questions:
            by_template[question.template].append((question, lifted))
    return [pair for name in TEMPLATES for pair in by_template[name][:: max(1, len(by_template[name]) // PER_TEMPLATE)]]


@pytest.mark.slow
def test_questions_asked_of_noisy_trajectories_are_right_on_the_exact_scene(asked):
    right, total = Counter(), Counter()
    for scene, _, found in asked:
        for question in found.questions:
            total[question.template] += 1
            right[question.template] += answer_on(question, scene, SAME).letter == question.key
    assert total.total() >= 800
    assert right.total() / total.total() >= 0.99
    assert {name: round(right[name] / total[name], 2) for name in total if right[name] / total[name] < 0.95} == {}
    assert len(total) >= 28  # nearly every template of this version is asked somewhere


@pytest.mark.slow
def test_every_certificate_replays_on_its_own_scene(asked):
    for _, lifted, found in asked[:2]:
        for question in found.questions:
            outcome = verify(question, lifted)
            assert outcome.holds and outcome.value_matches and outcome.letter == question.key, question.qa_id


@pytest.mark.slow
def test_a_move_within_half_a_sigma_neither_changes_nor_withdraws_an_answer(asked):
    rng = np.random.default_rng(7)
    held, lost = 0, []
    for question, lifted in sampled(asked):
        for knob in knobs(question, lifted)[:3]:
            direction = rng.normal(size=3)
            moved = knob.turn(lifted, 0.5 * knob.sigma * direction / np.linalg.norm(direction))
            outcome = verify(question, moved)
            held += outcome.holds
            if not outcome.holds:
                lost.append((question.template, knob.name, outcome.reason))
    assert held / (held + len(lost)) >= 0.99, lost


@pytest.mark.slow
def test_a_move_beyond_the_margin_changes_or_withdraws_the_answer(asked):
    changed, kept = 0, []
    for question, lifted in sampled(asked):
        before = verify(question, lifted)
        knob, (way, slope) = max(
            ((knob, steepest(question, lifted, knob)) for knob in knobs(question, lifted)), key=lambda pair: pair[1][1]
        )
        # Just beyond the margin, along the steepest way. Where nothing has a slope (a thing that never moved), the
        # move is further than the radius of a relocation.
        step = way * (1.05 * before.margin + 0.1 * before.required_margin) / slope if slope > 0.02 else 0.25 * way
        outcome = verify(question, knob.turn(lifted, step))
        changed += not outcome.holds
        if outcome.holds:
            kept.append((question.template, knob.name, step, before.margin, outcome.margin, outcome.required_margin))
    assert changed / (changed + len(kept)) >= 0.99, kept


def steepest(question, scene, knob):
    """The way in which a question's spare margin falls fastest, and how fast. One-sided: it may stand on a ridge."""
    timed = knob.name.startswith("time")
    size = 0.3 if timed else 0.2 * knob.sigma
    start = verify(question, scene)

    def fall(way):
        there = verify(question, knob.turn(scene, size * way))
        if there.letter is None:
            return 0.0
        return ((start.margin - start.required_margin) - (there.margin - there.required_margin)) / size

    down = np.zeros(3)
    for axis in range(1 if timed or knob.name.startswith("size") else 3):
        for sign in (1.0, -1.0):
            way = sign * np.eye(3)[axis]
            if fall(way) > abs(down[axis]):
                down[axis] = sign * fall(way)
    norm = np.linalg.norm(down)
    way = down / norm if norm > 0 else np.array([1.0, 0.0, 0.0])
    return way, fall(way)
