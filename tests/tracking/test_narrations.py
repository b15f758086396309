"""Narrations: time windows, order, views, what is left out and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scenes import orbit, still_life

from geo.recording import CanonicalRecording
from tracking.errors import TrackingError
from tracking.narrations import read_narrations
from tracking.sentence import parse_sentence

T0 = 5_200_000_000


@pytest.fixture
def recording() -> CanonicalRecording:
    """20 s at 10 frames a second from T0 in device time."""
    world = still_life(poses=orbit(200))
    return world.recording(timestamps_ns=T0 + np.arange(200, dtype=np.int64) * 100_000_000)


def write(tmp_path, *entries):
    path = tmp_path / "narrations.jsonl"
    path.write_text("\n".join(e if isinstance(e, str) else json.dumps(e) for e in entries), encoding="utf-8")
    return path


def said(start, name, groundings=(), **more):
    return {"id": name, "start_s": start, "text": name, "groundings": list(groundings), **more}


def on(name, frame=0, xy=(10.0, 20.0), **more):
    return {"object": name, "frame": frame, "point_xy": list(xy), **more}


def test_v3_stable_order_and_windows_cut_to_the_recording(tmp_path, recording):
    path = write(tmp_path, said(19.2, "b"), said(3.0, "a"), said(19.2, "c"), said(21.0, "late"), said(0.2, "early"))
    result = read_narrations(path, recording)
    assert [n.narration_id for n in result.narrations] == ["early", "a", "b", "c"]
    windows = {n.narration_id: (n.start_ns, n.end_ns) for n in result.narrations}
    assert windows["b"] == windows["c"] == (23_400_000_000, 25_200_000_000)
    assert windows["early"] == (5_200_000_000, 6_400_000_000)
    assert len(result.warnings) == 1 and "late" in result.warnings[0] and "left out" in result.warnings[0]


def test_start_and_end_are_cut_to_the_recording_but_never_moved_into_it(tmp_path, recording):
    path = write(
        tmp_path, said(19.0, "over", end_s=40.0), said(-3.0, "before", end_s=-1.0), said(-1.0, "into", end_s=1.0)
    )
    result = read_narrations(path, recording)
    windows = {n.narration_id: (n.start_ns, n.end_ns) for n in result.narrations}
    assert windows == {"into": (T0, T0 + 10**9), "over": (T0 + 19 * 10**9, T0 + 20 * 10**9)}
    assert any("before" in warning for warning in result.warnings)


def test_a_negative_clip_falls_back_to_its_stamp_and_says_so(tmp_path, recording):
    result = read_narrations(write(tmp_path, said(5.0, "n", end_s=4.0)), recording)
    assert (result.narrations[0].start_ns, result.narrations[0].end_ns) == (T0 + 4 * 10**9, T0 + 6 * 10**9)
    assert "before it starts" in result.warnings[0]


def test_a_grounding_may_carry_a_frame_or_a_device_time(tmp_path, recording):
    stamped = {"object": "cup", "timestamp_ns": T0 + 730_000_000, "point_xy": [1, 2]}
    result = read_narrations(write(tmp_path, said(0.0, "n", [on("cup", 3), stamped])), recording)
    assert [g.frame for g in result.narrations[0].groundings] == [3, 7]


def test_label_zero_is_a_negative_point(tmp_path, recording):
    result = read_narrations(write(tmp_path, said(0.0, "n", [on("cup"), on("cup", label=0)])), recording)
    assert [g.positive for g in result.narrations[0].groundings] == [True, False]


def test_a_source_point_is_turned_into_the_canonical_view(tmp_path, recording):
    """A quarter turn about the optical axis: right of centre in the source becomes below it in the canonical view."""
    from dataclasses import replace

    turned = replace(recording, canonical_from_source=np.array([[0, -1.0, 0], [1, 0, 0], [0, 0, 1]]))
    path = write(tmp_path, said(0.0, "n", [on("cup", xy=(127.5 + 50, 127.5), view="source")]))
    assert read_narrations(path, turned).narrations[0].groundings[0].point_xy_px == pytest.approx((127.5, 177.5))


@pytest.mark.parametrize(
    ("xy", "view"), [((256.0, 5.0), "canonical"), ((-1.0, 5.0), "canonical"), ((300.0, 5.0), "source")]
)
def test_a_point_outside_the_view_is_left_out_with_its_narration_object_and_frame(tmp_path, recording, xy, view):
    result = read_narrations(write(tmp_path, said(0.0, "n7", [on("cup", 4, xy, view=view), on("pan")])), recording)
    assert [g.label for g in result.narrations[0].groundings] == ["pan"]
    assert all(part in result.warnings[0] for part in ("n7", "'cup'", "frame 4"))


def test_a_point_where_the_view_shows_nothing_is_left_out(tmp_path, recording):
    valid = recording.valid_mask.copy()
    valid[:30, :30] = False
    result = read_narrations(write(tmp_path, said(0.0, "n", [on("cup")])), replace(recording, valid_mask=valid))
    assert result.narrations[0].groundings == () and "outside the canonical view" in result.warnings[0]


def test_a_frame_that_does_not_exist_is_left_out(tmp_path, recording):
    result = read_narrations(write(tmp_path, said(0.0, "n", [on("cup", 200)])), recording)
    assert result.narrations[0].groundings == () and "frame 200" in result.warnings[0]


def test_frame_numbers_are_those_of_the_source_where_pictures_are_missing(tmp_path, recording):
    """Of the source's list every third picture is there: number 30 is the eleventh of them, 31 is missing."""
    thinned = replace(recording, source_frames=3 * np.arange(200, dtype=np.int64))
    result = read_narrations(write(tmp_path, said(0.0, "n", [on("cup", 30), on("cup", 31), on("cup", 600)])), thinned)
    assert [grounding.frame for grounding in result.narrations[0].groundings] == [10]
    assert "frame 31 is not in the recording (0 to 597)" in result.warnings[0] and "frame 600" in result.warnings[1]


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff"])
def test_an_empty_file_is_a_result_with_a_warning(tmp_path, recording, text):
    result = read_narrations(write(tmp_path, text), recording)
    assert result.narrations == () and len(result.warnings) == 1


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("{not json", "line 2 is not JSON"),
        ("[1, 2]", "line 2 is not a JSON object"),
        ('{"start_s": "soon", "groundings": []}', "line 2: start_s must be a finite number"),
        ('{"groundings": []}', "line 2: start_s"),
        ('{"start_s": NaN, "groundings": []}', "line 2: start_s"),
        ('{"start_s": 0, "groundings": 5}', "line 2: groundings"),
        ('{"start_s": 0, "groundings": [{"object": "cup", "frame": 0, "point_xy": [NaN, 1]}]}', "line 2: object 'cup'"),
        ('{"start_s": 0, "groundings": [{"object": "cup", "point_xy": [1, 1]}]}', "needs a frame"),
        ('{"start_s": 0, "groundings": [{"object": "cup", "frame": 1.5, "point_xy": [1, 1]}]}', "must be whole"),
        ('{"start_s": 0, "groundings": [{"frame": 0, "point_xy": [1, 1]}]}', "name of its object"),
        (
            '{"start_s": 0, "groundings": [{"object": "c", "frame": 0, "point_xy": [1, 1], "view": "top"}]}',
            "view must be",
        ),
        (
            '{"start_s": 0, "groundings": [{"object": "c", "frame": 0, "point_xy": [1, 1], "label": 2}]}',
            "label must be",
        ),
    ],
)
def test_a_broken_line_is_refused_with_its_number(tmp_path, recording, line, text):
    with pytest.raises(TrackingError, match=text.replace("(", r"\(")):
        read_narrations(write(tmp_path, said(0.0, "good"), line), recording)


def test_a_missing_file_is_refused_by_name(tmp_path, recording):
    with pytest.raises(TrackingError, match=r"nowhere\.jsonl"):
        read_narrations(tmp_path / "nowhere.jsonl", recording)


def test_the_template_sentence_falls_into_its_parts():
    parts = parse_sentence("I am using the white mug rather than the cup to drink on the table because it is near.")
    assert parts is not None
    assert (parts.tool, parts.alternative, parts.action) == ("the white mug", "the cup", "drink")
    assert (parts.target, parts.reason) == ("the table", "it is near")


def test_optional_parts_may_be_missing_and_free_sentences_stay_whole():
    parts = parse_sentence("I am using the knife to cut")
    assert parts is not None and (parts.tool, parts.alternative, parts.target, parts.reason) == (
        "the knife",
        None,
        None,
        None,
    )
    assert parse_sentence("The kettle boils.") is None
