"""Every file of an output folder: what goes in comes out, equal content is equal bytes, faults are said."""

import dataclasses
import hashlib
import json
import shutil

import frontdoor_makers as make
import numpy as np
import pytest

from cuda_kernels.errors import InputError
from egospatial.errors import StoreError
from egospatial.store import (
    depth_segments,
    geometry_file,
    hdf5,
    layout,
    questions_file,
    recording_file,
    splats_file,
    tracks_file,
    trajectories_file,
)
from egospatial.store.atomic import atomic_path, read_json, read_jsonl, remove_leftovers, write_json, write_jsonl
from geo.cameras import camera_from_params
from geo.recording import CanonicalRecording
from lifting.records import Event, Lifted, ObjectTrajectory, Relation, SceneSurfaces
from recon.records import MovingDepth, Reconstruction, SplatModel
from tracking.records import MaskTrack, TrackSet, Verdict


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished folder, made once; tests copy it."""
    return make.write_finished(tmp_path_factory.mktemp("finished") / "a")


def same(a, b):
    """Equal to the bit, NaN equal to NaN, through dataclasses, tuples and dicts."""
    if dataclasses.is_dataclass(a) and not isinstance(a, type):
        assert type(a) is type(b)
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return a == b or (a != a and b != b)


def test_tracks_come_back_as_they_were(tmp_path):
    tracks_file.write(tmp_path, make.tracks())
    assert same(tracks_file.read(tmp_path), make.tracks())


def test_no_tracks_at_all_come_back_as_none(tmp_path):
    empty = TrackSet((40, 30), make.times(), (), (), "none", ())
    tracks_file.write(tmp_path, empty)
    assert same(tracks_file.read(tmp_path), empty)


def test_lifted_comes_back_as_it_was(tmp_path):
    trajectories_file.write(tmp_path, make.lifted())
    assert same(trajectories_file.read(tmp_path), make.lifted())


def test_lifted_without_moving_depth_comes_back_without(tmp_path):
    plain = dataclasses.replace(make.lifted(), moving_depth=None, events=(), relations=())
    trajectories_file.write(tmp_path, plain)
    assert same(trajectories_file.read(tmp_path), plain)


def test_reconstruction_comes_back_but_for_the_seconds_of_the_run(tmp_path):
    splats_file.write(tmp_path, make.reconstruction())
    report = dataclasses.replace(make.reconstruction().report, fit_seconds=float("nan"))
    found = splats_file.read(tmp_path)
    wanted = dataclasses.replace(make.reconstruction(), report=report)
    assert same((found.model, found.report), (wanted.model, wanted.report))
    for frame in range(6):
        for size_wh_px in ((11, 6), (40, 30)):
            assert same(found.dynamic.at(frame, size_wh_px), wanted.dynamic.at(frame, size_wh_px))
    splats_file.write(tmp_path / "again", found)
    first, again = ((folder / "reconstruction.h5").read_bytes() for folder in (tmp_path, tmp_path / "again"))
    assert first == again


def test_questions_come_back_as_they_were(tmp_path):
    questions_file.write(tmp_path, make.questions())
    assert same(questions_file.read(tmp_path), make.questions())


def test_audit_counts_refusals_by_reason_and_template(tmp_path):
    questions_file.write(tmp_path, make.questions())
    audit = json.loads((tmp_path / "audit.json").read_text())
    assert audit["refusals_by_reason"] == {"margin_not_met": 1, "no_up": 1}
    assert audit["refusals_by_template"] == {"E1": {"no_up": 1}, "M2": {"margin_not_met": 1}}
    assert (
        audit["questions"] == 1
        and audit["positions"]["histogram"]["C"] == 1
        and audit["checks_passed"] == {"replay": 1}
    )


def test_poses_times_gaze_and_hands_come_back_as_they_were(tmp_path):
    record = make.canonical()
    geometry_file.write_frames(tmp_path, record)
    frames = geometry_file.read_frames(tmp_path)
    for name in ("timestamps_ns", "world_from_camera", "valid_mask", "gaze", "hands"):
        assert same(getattr(frames, name), getattr(record, name)), name


@pytest.mark.parametrize("radius", [None, 891.3])
def test_a_camera_comes_back_with_its_limits(radius):
    params = [610.9, 715.2, 707.1, 0.41, -0.48, 0.13, 1.1, -1.6, 0.65, 0.001, 0.0003, 0.0006, -0.0005, 0.0, 0.0001]
    camera = camera_from_params("FISHEYE624", (1408, 1408), params, np.radians(70.0), radius)
    document = json.loads(json.dumps(recording_file.camera_json(camera), default=np.ndarray.tolist))
    assert same(recording_file.camera_from_json(document), camera)


def test_recording_json_holds_cameras_world_clock_and_frame_table(finished):
    document = recording_file.read(finished)
    assert same(recording_file.camera_from_json(document["canonical_camera"]), make.camera())
    assert same(recording_file.world_from_json(document["world"]), make.canonical().world)
    assert document["clock"] == {
        "domain": "device", "unit": "ns", "first_ns": 1718892641002929366, "last_ns": 1718892641502929366,
        "median_step_ns": 100000000, "longest_step_ns": 100000000,
    }  # fmt: skip
    assert document["frames"]["timestamps_ns"] == make.times().tolist()
    assert document["frames"]["pose_valid"] == [True, True, False, True, True, True]


def test_every_field_of_the_records_is_stored():
    """A field added to a record has to be stored: this list and the modules of the store go together."""
    fields = {cls.__name__: {f.name for f in dataclasses.fields(cls)} for cls in STORED_FIELDS}
    assert fields == {cls.__name__: set(names.split()) for cls, names in STORED_FIELDS.items()}


STORED_FIELDS = {
    SplatModel: "means_in_world log_scales quats_wxyz opacity_logits sh_coeffs",
    Reconstruction: "model dynamic report quality",  # quality has a folder of its own, egospatial.quality
    MovingDepth: "frames object_ids pixels_vu z_depth_m",
    MaskTrack: "object_id label masks states scores",
    TrackSet: "size_wh_px timestamps_ns tracks verdicts tracker warnings",
    Verdict: "object_id frame outcome judge reason evidence action",
    ObjectTrajectory: "object_id label timestamps_ns states centers_in_world center_covariances_m2 quats_wxyz extent_m "
    "extent_sigma_m observed visible_pixels view_count notes",
    Event: "kind object_id time_ns time_sigma_ns place_in_world confidence other_object_id",
    Relation: "kind subject_object_id other_object_id start_ns end_ns confidence surface_height_m",
    SceneSurfaces: "heights_m areas_m2 floor_height_m floor_residual_m",
    Lifted: "trajectories events relations surfaces moving_depth warnings",
    CanonicalRecording: "recording_id camera timestamps_ns world_from_camera valid_mask frames world source_camera "
    "canonical_from_source sensor gaze hands audio_file warnings audio_offset_ns source_frames source_start_ns "
    "original_from_source_world points",  # points are read from the source again
}


def test_depth_comes_back_within_the_stated_error_and_none_stays_none(finished):
    """Depth to 0.0122 %, sigma to 5.2 % (half a step of each), origin to the bit."""
    reader = geometry_file.DepthReader(finished)
    assert len(reader) == 6 and reader.camera.size_wh_px == (20, 15)
    for number, frame in enumerate(reader):
        wanted = make.depth_frame(number)
        assert np.array_equal(np.isnan(frame.z_depth_m), np.isnan(wanted.z_depth_m))
        assert np.nanmax(np.abs(frame.z_depth_m / wanted.z_depth_m - 1)) <= 1.222e-4
        assert np.nanmax(np.abs(frame.sigma_m / 0.01 - 1)) <= 0.0513
        assert np.array_equal(frame.origin, wanted.origin)
        assert same(frame, reader.read(number))


def test_depth_beside_poses_leaves_the_poses_as_they_were(tmp_path):
    geometry_file.write_frames(tmp_path, make.canonical())
    before = geometry_file.read_frames(tmp_path), geometry_file.frames_digest(tmp_path)
    make.write_depth(tmp_path)
    assert same((geometry_file.read_frames(tmp_path), geometry_file.frames_digest(tmp_path)), before)


def test_depth_goes_on_at_the_first_unfinished_segment(tmp_path):
    """Killed after frame 5 of 6 (segments of 2): only frames 4 and 5 are made again, the file is the same."""
    for name in ("whole", "killed"):
        geometry_file.write_frames(tmp_path / name, make.canonical())
    make.write_depth(tmp_path / "whole")
    small = make.camera().resized((20, 15))

    def dies(frames):
        for frame in frames:
            if frame == 5:
                raise KeyboardInterrupt
            yield make.depth_frame(frame)

    with pytest.raises(KeyboardInterrupt):
        depth_segments.write_depth(tmp_path / "killed", small, 6, dies, "key", None, 2)
    made = []

    def notes(frames):
        made.extend(frames)
        return map(make.depth_frame, frames)

    depth_segments.write_depth(tmp_path / "killed", small, 6, notes, "key", None, 2)
    assert made == [4, 5]
    a, b = ((tmp_path / name / "geometry.h5").read_bytes() for name in ("whole", "killed"))
    assert a == b
    assert not (tmp_path / "killed" / ".work").exists()


def test_segments_of_other_settings_are_not_taken(tmp_path):
    geometry_file.write_frames(tmp_path, make.canonical())
    small, made = make.camera().resized((20, 15)), []

    def stop_at_4(frames):
        if 4 in frames:
            raise KeyboardInterrupt
        return map(make.depth_frame, frames)

    def notes(frames):
        made.extend(frames)
        return map(make.depth_frame, frames)

    with pytest.raises(KeyboardInterrupt):
        depth_segments.write_depth(tmp_path, small, 6, stop_at_4, "old", None, 2)
    depth_segments.write_depth(tmp_path, small, 6, notes, "new", None, 2)
    assert made == [0, 1, 2, 3, 4, 5]


def test_equal_content_is_equal_bytes(tmp_path):
    digests = []
    for name in ("a", "b"):
        make.write_finished(tmp_path / name)
        digests.append(
            {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted((tmp_path / name).iterdir())}
        )
    assert digests[0] == digests[1]
    assert set(digests[0]) == set(layout.RESULTS) - {"config.json"}


def test_a_file_of_another_version_is_refused_by_name(tmp_path, finished):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    document = json.loads((tmp_path / "recording.json").read_text())
    write_json(tmp_path / "recording.json", {**document, "schema": "egospatial.recording/99"})
    with pytest.raises(StoreError, match=r"recording\.json: schema is 'egospatial\.recording/99'"):
        recording_file.read(tmp_path)
    with hdf5.create(tmp_path / "tracks.h5", "egospatial.tracks/0"):
        pass
    with pytest.raises(StoreError, match=r"tracks\.h5: schema is 'egospatial\.tracks/0'"):
        tracks_file.read(tmp_path)


READERS = {
    "recording.json": recording_file.read,
    "geometry.h5": geometry_file.DepthReader,
    "splats.ply": splats_file.read,
    "reconstruction.h5": splats_file.read,
    "tracks.h5": tracks_file.read,
    "trajectories.h5": trajectories_file.read,
    "events.jsonl": trajectories_file.read,
    "questions.jsonl": questions_file.read,
    "audit.json": questions_file.read,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("left", [0, 0.5, 0.97])
def test_a_truncated_file_is_a_clear_error_that_names_it(tmp_path, finished, name, left):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: int(len(content) * left)])
    with pytest.raises(InputError, match=name.replace(".", r"\.")):
        READERS[name](tmp_path)


@pytest.mark.parametrize("name", READERS)
def test_a_missing_file_is_a_clear_error_that_names_it(tmp_path, finished, name):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    (tmp_path / name).unlink()
    with pytest.raises(StoreError, match=name.replace(".", r"\.")):
        READERS[name](tmp_path)


def test_splats_and_report_of_two_runs_are_told_apart(tmp_path):
    splats_file.write(tmp_path / "a", make.reconstruction(splats=50))
    splats_file.write(tmp_path / "b", make.reconstruction(splats=51))
    (tmp_path / "b" / "splats.ply").rename(tmp_path / "a" / "splats.ply")
    with pytest.raises(StoreError, match="51 splats"):
        splats_file.read(tmp_path / "a")


def test_a_line_missing_from_jsonl_is_found(tmp_path):
    trajectories_file.write(tmp_path, make.lifted())
    lines = (tmp_path / "events.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "events.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(StoreError, match="header says 4 rows, the file holds 3"):
        trajectories_file.read(tmp_path)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"schema": "s", "value": 1})
    with pytest.raises(RuntimeError), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError("own mistake")
    assert read_json(path, "s")["value"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_leftovers_of_killed_runs_go_and_nothing_else(tmp_path):
    (tmp_path / ".work").mkdir()
    gone = [
        tmp_path / ".tracks.h5.4711.tmp.h5",
        tmp_path / ".canonical.mp4.12.partial",
        tmp_path / ".work" / ".a.h5.1.tmp.h5",
    ]
    kept = [tmp_path / ".lock", tmp_path / "tracks.h5", tmp_path / "x.tmp", tmp_path / ".work" / "00.h5"]
    for path in gone + kept:
        path.write_text("x")
    assert sorted(remove_leftovers(tmp_path)) == sorted(gone)
    assert all(path.exists() for path in kept)


def test_what_is_not_finite_is_null_in_json(tmp_path):
    write_jsonl(tmp_path / "a.jsonl", [{"schema": "s", "rows": 1}, {"v": np.array([1.5, np.nan, np.inf])}])
    assert read_jsonl(tmp_path / "a.jsonl", "s") == [{"v": [1.5, None, None]}]


def test_object_arrays_are_refused_at_writing_and_reading(tmp_path):
    import h5py

    with pytest.raises(TypeError, match="dtype object"), hdf5.create(tmp_path / "a.h5", "s") as file:
        hdf5.put(file, "bad", np.array([{}], dtype=object))
    assert not (tmp_path / "a.h5").exists()
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.attrs["schema"] = "s"
        file.create_dataset("bad", data=["text"], dtype=h5py.string_dtype())
    with pytest.raises(StoreError, match="never stored here"), hdf5.opened(tmp_path / "b.h5", "s") as file:
        hdf5.get(file, "bad")
