"""Parts of recordings keep the numbers and clocks of the whole."""

from dataclasses import replace

import numpy as np
import pytest

from geo.errors import RecordingError, TimeError
from geo.readers import open_recording
from geo.recording import MissingFrames
from geo.rectify import RectifyConfig, rectify
from geo.slicing import slice_recording


def test_no_limits_give_the_recording_itself(plain_folder):
    recording = open_recording(plain_folder)
    assert slice_recording(recording) is recording


def test_seconds_count_from_the_first_frame_and_the_end_is_open(plain_folder, image_of_frame):
    part = slice_recording(open_recording(plain_folder), 0.1, 0.4)
    assert part.reference.source_frame_numbers().tolist() == [1, 2, 3]
    assert (part.reference.frames.read(0) == image_of_frame(1)).all()
    assert part.depth is not None and len(part.depth.frames) == 3 and part.depth.frames.read(0).shape == (48, 64)


def test_every_second_frame_with_its_own_depth(plain_folder):
    part = slice_recording(open_recording(plain_folder), every=2)
    assert part.reference.source_frame_numbers().tolist() == [0, 2, 4]
    assert part.depth is not None and (part.depth.timestamps_ns == part.reference.timestamps_ns).all()


def test_the_other_cameras_are_cut_to_the_same_span(plain_folder):
    """A second camera of twice the rate, 50 ms apart: of 0.1 s <= t < 0.4 s it keeps six frames."""
    whole = open_recording(plain_folder)
    start = int(whole.reference.timestamps_ns[0])
    stamps = start + np.arange(12, dtype=np.int64) * 50_000_000
    side = replace(whole.reference, name="side", timestamps_ns=stamps, frames=MissingFrames(12, "not here"))
    gone = replace(side, name="gone", timestamps_ns=stamps + 10_000_000_000)
    part = slice_recording(replace(whole, others=(side, gone)), 0.1, 0.4)
    assert [stream.name for stream in part.others] == ["side"]
    assert (part.others[0].timestamps_ns == stamps[2:8]).all() and len(part.others[0].frames) == 6
    assert part.others[0].source_frame_numbers().tolist() == [2, 3, 4, 5, 6, 7]


def test_narrations_keep_their_meaning_in_a_slice(plain_folder):
    whole = open_recording(plain_folder)
    canonical = rectify(slice_recording(whole, 0.2, None, 2), RectifyConfig())
    assert canonical.frame_of_source(4) == 1 and canonical.frame_of_source(3) is None
    assert canonical.start_ns() == int(whole.reference.timestamps_ns[0])
    assert canonical.audio_offset_ns == 200_000_000
    assert rectify(whole).frame_of_source(5) == 5 and rectify(whole).frame_of_source(6) is None


def test_a_slice_of_a_slice(plain_folder):
    part = slice_recording(slice_recording(open_recording(plain_folder), 0.1, None), 0.3, None)
    assert part.reference.source_frame_numbers().tolist() == [3, 4, 5]
    assert part.reference.audio_offset_ns == 300_000_000


def test_nothing_left_is_an_error(plain_folder):
    recording = open_recording(plain_folder)
    with pytest.raises(RecordingError, match=r"no frame from 7\.0 s on; it is 0\.500 s long"):
        slice_recording(recording, 7.0)
    with pytest.raises(TimeError, match="must come after"):
        slice_recording(recording, 2.0, 1.0)
    with pytest.raises(TimeError, match="every = 0"):
        slice_recording(recording, every=0)
    assert np.all(recording.reference.timestamps_ns[1:] > recording.reference.timestamps_ns[:-1])
