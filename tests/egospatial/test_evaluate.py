"""Evaluation: the truth itself scores perfectly, and each spoiled result costs what it should."""

import dataclasses
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from egospatial.cli import app
from egospatial.errors import FrontDoorError
from egospatial.evaluate import evaluate
from egospatial.evaluation.aligned import rest_intervals
from egospatial.evaluation.depth import matching_pixels
from egospatial.evaluation.events import event_score
from egospatial.simulator import load_truth
from egospatial.store import (
    depth_segments,
    geometry_file,
    questions_file,
    recording_file,
    tracks_file,
    trajectories_file,
)
from egospatial.workbench import question_scene
from geo.cameras import PinholeCamera
from lifting.records import Event, EventKind
from recon.records import DepthFrame
from tracking.records import MaskTrack, TrackSet, encode_rle


@pytest.fixture(scope="module")
def perfect(tmp_path_factory, simulated_small):
    """An output folder whose every result is the truth."""
    from geo.readers import open_recording
    from geo.rectify import RectifyConfig, rectify
    from spatial_qa.ask import ask

    folder, truth = tmp_path_factory.mktemp("perfect"), load_truth(simulated_small.truth_dir)
    canonical = rectify(open_recording(simulated_small.recording_dir), RectifyConfig(width_px=192, height_px=192))
    canonical = dataclasses.replace(canonical, world_from_camera=truth.world_from_camera)
    count = len(truth.timestamps_ns)
    recording_file.write(folder, canonical, recording_file.Provenance("/s", "plain", {}, tuple(range(count))))
    geometry_file.write_frames(folder, canonical)
    ids = [truth.instance_ids(frame) for frame in range(count)]
    tracks = []
    for item in truth.objects:
        masks = tuple(encode_rle(view == item.object_id) if (view == item.object_id).any() else None for view in ids)
        states = np.array([0 if mask is None else 1 for mask in masks], np.int64)
        scores = np.where(states == 1, 1.0, np.nan)
        tracks.append(MaskTrack(item.object_id, item.label, masks, states, scores))
    tracks_file.write(folder, TrackSet((192, 192), truth.timestamps_ns, tuple(tracks), (), "truth"))
    trajectories_file.write(folder, truth.lifted)

    def depth(frames):
        for frame in frames:
            z = truth.z_depth_m(frame)
            yield DepthFrame(z, np.full_like(z, 0.001), np.where(np.isfinite(z), 1, 0).astype(np.uint8))

    depth_segments.write_depth(folder, truth.depth_camera, count, depth, "key")
    questions_file.write(folder, ask(question_scene(folder)))
    return folder


@pytest.fixture
def spoiled(perfect, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(perfect, copy)
    return copy


def test_the_truth_scores_perfectly(perfect, simulated_small):
    found = evaluate(perfect, simulated_small.truth_dir).document()
    assert found["static_depth_abs_rel_median"] < 0.0005 and found["carried_depth_abs_rel_median"] < 0.001
    assert found["static_depth"]["covered"] == 1.0
    assert found["mean_j_compact"] == 1.0 and all(item["false_masks"] == 0 for item in found["masks"])
    assert found["rest_error_p95_m"] == 0.0 and found["rest_missing"] == 0 and found["rest_intervals"] >= 8
    assert (found["event_recall"], found["event_precision"]) == (1.0, 1.0)
    assert found["events"]["truth"] == 4  # preset small: two pick-ups, two put-downs
    assert found["questions"] >= 20 and found["questions_right"] == found["questions"]


def test_boxes_three_centimetres_off_are_three_centimetres_off(spoiled, simulated_small):
    lifted = trajectories_file.read(spoiled)
    moved = [
        dataclasses.replace(t, centers_in_world=t.centers_in_world + np.array([0.03, 0, 0]))
        for t in lifted.trajectories
    ]
    trajectories_file.write(spoiled, dataclasses.replace(lifted, trajectories=tuple(moved)))
    found = evaluate(spoiled, simulated_small.truth_dir).document()
    assert found["rest_error_median_m"] == pytest.approx(0.03) and found["rest_error_p95_m"] == pytest.approx(0.03)


def test_an_object_that_was_not_tracked_counts_against(spoiled, simulated_small):
    tracks, lifted = tracks_file.read(spoiled), trajectories_file.read(spoiled)
    gone = tracks.tracks[0].object_id
    tracks_file.write(spoiled, dataclasses.replace(tracks, tracks=tracks.tracks[1:]))
    kept = tuple(t for t in lifted.trajectories if t.object_id != gone)
    trajectories_file.write(spoiled, dataclasses.replace(lifted, trajectories=kept, events=(), relations=()))
    found = evaluate(spoiled, simulated_small.truth_dir)
    (score,) = [item for item in found.masks if not item.tracked]
    assert score.mean_j == 0.0 and found.rest_missing >= 1
    assert found.events.recall == 0.0 and np.isnan(found.events.precision)
    assert len(found.events.missed) == 4


def test_masks_cut_in_half_have_half_the_overlap(spoiled, simulated_small):
    from tracking.records import decode_rle

    tracks = tracks_file.read(spoiled)

    def half(rle):
        mask = decode_rle(rle)
        flat = np.flatnonzero(mask)
        mask.flat[flat[: len(flat) // 2]] = False
        return encode_rle(mask)

    cut = [
        dataclasses.replace(t, masks=tuple(None if rle is None else half(rle) for rle in t.masks))
        for t in tracks.tracks
    ]
    tracks_file.write(spoiled, dataclasses.replace(tracks, tracks=tuple(cut)))
    assert evaluate(spoiled, simulated_small.truth_dir).mean_j_compact == pytest.approx(0.5, abs=0.02)


def test_a_wrong_key_is_found_and_explained(spoiled, simulated_small):
    stored = questions_file.read(spoiled)
    first = stored.questions[0]
    other = "A" if first.key != "A" else "B"
    wrong = dataclasses.replace(first, key=other)
    questions_file.write(spoiled, dataclasses.replace(stored, questions=(wrong, *stored.questions[1:])))
    found = evaluate(spoiled, simulated_small.truth_dir).questions
    assert found.right == found.asked - 1
    (told,) = found.wrong
    letters = "ABCDEFGH"
    assert told.key_text == first.options[letters.index(other)].text
    assert told.truth_text == first.options[letters.index(first.key)].text and told.operands


def test_the_command_prints_the_table_and_json(perfect, simulated_small):
    words = ["evaluate", str(perfect), "--truth", str(simulated_small.truth_dir)]
    printed = CliRunner().invoke(app, words)
    assert printed.exit_code == 0 and "against exact truth" in printed.output and "mean_j_compact" in printed.output
    document = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert document["mean_j_compact"] == 1.0


def test_verify_passes_the_folder_and_fails_a_changed_one(spoiled):
    assert CliRunner().invoke(app, ["verify", str(spoiled)]).exit_code == 0
    lifted = trajectories_file.read(spoiled)
    moved = [
        dataclasses.replace(
            t, centers_in_world=t.centers_in_world + np.array([0.4 * (t.object_id % 3), 0.5 * (t.object_id % 2), 0])
        )
        for t in lifted.trajectories
    ]
    trajectories_file.write(spoiled, dataclasses.replace(lifted, trajectories=tuple(moved)))
    result = CliRunner().invoke(app, ["verify", str(spoiled), "--json"])
    assert result.exit_code == 1 and json.loads(result.stdout)["failed"]


def test_the_truth_of_another_recording_is_refused(spoiled, simulated_small, tmp_path):
    other = tmp_path / "truth"
    shutil.copytree(simulated_small.truth_dir, other)
    document = json.loads((other / "truth.json").read_text())
    (other / "truth.json").write_text(json.dumps({**document, "recording_id": "small_0999"}))
    with pytest.raises(FrontDoorError, match=r"is the truth of small_0999, .* holds small_0005"):
        evaluate(spoiled, other)


def test_another_view_than_the_truths_is_refused():
    true = PinholeCamera(192, 192, 75.0, 75.0, 95.5, 95.5)
    rows, _ = matching_pixels(true.resized((96, 96)), true)
    assert rows[0] == round(0.5) and len(rows) == 32  # every third of 96; the centre of pixel 0 is true pixel 0.5
    with pytest.raises(FrontDoorError, match="is not the truth's"):
        matching_pixels(PinholeCamera(192, 192, 100.0, 100.0, 95.5, 95.5), true)


def test_rest_intervals_are_first_and_last_frames():
    assert rest_intervals(np.array([1, 1, 3, 3, 1, 0, 1], np.int64)) == [(0, 1), (4, 4), (6, 6)]
    assert rest_intervals(np.array([0, 3], np.int64)) == []


def event(kind, object_id, seconds):
    return Event(kind, object_id, round(seconds * 1e9), 0, np.zeros(3), 1.0)


def score(true, found):
    return event_score(
        SimpleNamespace(
            truth_in_world=SimpleNamespace(events=true),
            lifted=SimpleNamespace(events=found),
            label_ids={"red jar": 3},
            timestamps_ns=np.array([0], np.int64),
        )
    )


def test_events_match_by_object_kind_and_half_a_second():
    true = (event(EventKind.PICK_UP, 3, 1.0), event(EventKind.PUT_DOWN, 3, 2.0), event(EventKind.PICK_UP, 4, 3.0))
    found = (
        event(EventKind.PICK_UP, 3, 1.49),  # matches
        event(EventKind.PUT_DOWN, 3, 2.51),  # too late
        event(EventKind.PICK_UP, 5, 3.0),  # another object
    )
    got = score(true, found)
    assert (got.matched, got.truth, got.found) == (1, 3, 3)
    assert got.recall == pytest.approx(1 / 3) and got.precision == pytest.approx(1 / 3)
    assert got.missed == ("red jar: put_down at 2.00 s", "object 4: pick_up at 3.00 s")


def test_one_found_event_answers_one_true_event_only():
    true = (event(EventKind.PICK_UP, 3, 1.0), event(EventKind.PICK_UP, 3, 1.6))
    got = score(true, (event(EventKind.PICK_UP, 3, 1.3),))
    assert (got.matched, len(got.missed)) == (1, 1)


def test_taking_out_is_a_pick_up_and_what_is_logged_twice_counts_once():
    true = (event(EventKind.TAKE_OUT, 3, 1.0), event(EventKind.PICK_UP, 3, 1.0))
    assert (score(true, (event(EventKind.PICK_UP, 3, 1.1),)).recall, score(true, true).truth) == (1.0, 1)
