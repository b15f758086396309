"""When exactly: a hand that comes to a resting place, or leaves it, dates what was not seen."""

from types import SimpleNamespace

import numpy as np
import pytest

from geo.boxes import Box3
from lifting.config import LiftConfig
from lifting.events import motion_events
from lifting.hands import NearHands
from lifting.reconcile import RestPlace
from lifting.records import EventKind
from lifting.trajectory import Assembled, Clock, Leg

STEP_NS = 100_000_000
PLACE = np.array([1.0, 2.0, 0.8])


def clock(count=60):
    stamps = np.arange(count, dtype=np.int64) * STEP_NS
    return Clock(stamps, stamps / 1e9)


def bare(cls, **values):
    """An instance that holds only what events look at."""
    out = object.__new__(cls)
    for name, value in values.items():
        object.__setattr__(out, name, value)
    return out


def one_leg(last_before, away, first_after):
    """Rest up to a frame, seen away in some frames, at rest again from a frame on; both rests at one place."""
    box = Box3(PLACE, np.array([0.2, 0.05, 0.02]), np.eye(3))
    segment = SimpleNamespace(first_frame=first_after, last_frame=last_before)
    place = bare(RestPlace, box=box, fit=SimpleNamespace(segment=segment))
    legs = [Leg(0, 0, away, 0.4)]
    return bare(Assembled, trajectory=SimpleNamespace(object_id=7), places=[place], legs=legs)


def hand(arrives, leaves=10**9):
    """A hand 6 cm over the place from one frame to another, else coming nearer or going away at 0.5 m a frame."""

    def joints(frame):
        late = max(0, arrives - frame, frame - leaves)
        over = np.array([0.0, 0.0, 0.06 + 0.5 * late])
        return (PLACE + over)[None].repeat(21, 0)

    return joints


def times(item, joints):
    found = motion_events(item, clock(), LiftConfig(), joints)
    return {event.kind: event.time_ns / STEP_NS for event in found}


def test_a_put_down_that_nobody_saw_is_dated_by_the_hand_that_brings_it():
    """Last seen away in frame 30, at rest from 42 on; the hand arrives in 41: not the middle, 36."""
    item = one_leg(10, [12, 30], 42)
    assert times(item, None)[EventKind.PUT_DOWN] == 36
    assert times(item, hand(41))[EventKind.PUT_DOWN] == pytest.approx(41, abs=0.51)


def test_a_pick_up_that_nobody_saw_is_dated_by_the_hand_that_takes_it_away():
    """At rest to frame 10, first seen away in 24; the hand leaves after frame 12: not the middle, 17."""
    item = one_leg(10, [24, 30], 32)
    assert times(item, None)[EventKind.PICK_UP] == 17
    assert times(item, hand(-(10**6), 12))[EventKind.PICK_UP] == pytest.approx(12, abs=0.51)


@pytest.mark.parametrize("joints", [lambda _: np.zeros((0, 3)), lambda _: np.full((21, 3), 9.0)])
def test_a_hand_that_is_unseen_or_elsewhere_says_nothing(joints):
    assert times(one_leg(10, [12, 30], 42), joints)[EventKind.PUT_DOWN] == 36


def test_a_short_gap_is_left_to_what_was_seen():
    assert times(one_leg(10, [12, 30], 33), hand(33))[EventKind.PUT_DOWN] == 31.5


def kept_near(observed, joints, first=69, last=138):
    box = Box3(PLACE, np.array([0.06, 0.06, 0.06]), np.eye(3))
    return NearHands(observed, joints, 0.12).share(first, last, box)


def test_a_thing_whose_hand_went_away_while_it_was_unseen_was_let_go_of():
    """Seen for a moment at either end, each time with the hand; 54 of 66 frames between with the hand elsewhere."""
    observed = dict.fromkeys((69, 70, 137, 138), True)
    assert kept_near(observed, hand(0, 74)) == pytest.approx(8 / 70)
    assert kept_near(observed, hand(0)) == 1.0


def test_frames_in_which_no_hand_is_seen_say_nothing():
    assert kept_near({69: True, 138: True}, lambda _: np.zeros((0, 3))) == 1.0
    assert kept_near({}, lambda _: np.zeros((0, 3))) == 0.0
