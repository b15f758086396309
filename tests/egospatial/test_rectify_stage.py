"""The rectify stage and its command: further views, quality in recording.json, the camera that is chosen."""

import json
import re
import shutil

import cv2
import frontdoor_makers as make
import numpy as np
import pytest
from typer.testing import CliRunner

from egospatial.check import check_folder
from egospatial.cli import app
from egospatial.errors import StoreError
from egospatial.rectification import rectification_facts
from egospatial.rectify_stage import rectify_digest
from egospatial.selection import select_canonical
from egospatial.store import recording_file
from egospatial.store.atomic import write_json
from geo.cameras import camera_from_params
from geo.recording import PickedFrames
from geo.rectify_quality import rectify_quality
from geo.video import VideoFrames
from geo.virtual_views import coverage, virtual_views

LENS = camera_from_params("KB4", (96, 96), [28.0, 28.0, 47.5, 47.5, 0.01, 0.0, 0.0, 0.0], np.radians(95))
SMALL = ["--set", "rectify.width_px=64", "--set", "rectify.height_px=48"]
VIEWS = [*SMALL, "--set", "rectify.extra_views=true", "--set", "rectify.extra_views_size_px=48"]
STAMPS = [5_000_000_000 + i * 100_000_000 for i in range(4)]


def colour_of(directions, frame):
    d = directions
    base = 127 + 90 * np.stack([np.sin(2 * d[..., 0]), np.sin(2 * d[..., 1]), np.cos(2 * d[..., 2] + d[..., 0])], -1)
    return base + 10 * frame


def picture(frame):
    rays = LENS.unproject(LENS.pixel_grid())
    colour = np.where(rays.valid[..., None], colour_of(np.nan_to_num(rays.directions), frame), 0)
    return np.clip(colour, 0, 255).round().astype(np.uint8)


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    """A plain recording of two cameras: a pinhole ahead (the reference) and a 190 degree lens that looks right."""
    folder = tmp_path_factory.mktemp("rig") / "rig_01"
    for name in ("eye", "wide"):
        (folder / name).mkdir(parents=True)
    for frame in range(4):
        grey = np.full((48, 64, 3), 40 * frame, np.uint8)
        for name, image in (("eye", grey), ("wide", picture(frame))):
            ok, data = cv2.imencode(".png", image[..., ::-1])
            assert ok
            (folder / name / f"{frame:06d}.png").write_bytes(data.tobytes())
    eye = {"model": "PINHOLE", "width": 64, "height": 48, "params": [60, 60, 31.5, 23.5], "timestamps_ns": STAMPS}
    wide = {"model": "KB4", "width": 96, "height": 96, "params": LENS.params.tolist(), "valid_theta_deg": 95}
    wide |= {"timestamps_ns": STAMPS, "images": "wide/%06d.png"}
    wide["reference_from_camera"] = [[0, 0, 1, 0.1], [0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 0, 1]]
    manifest = {
        "format": "egospatial/1", "id": "rig_01", "reference_camera": "eye",
        "world": {"metric": True, "up": [0, 0, 1]},
        "cameras": {"eye": {**eye, "images": "eye/%06d.png"}, "wide": wide},
    }  # fmt: skip
    (folder / "recording.json").write_text(json.dumps(manifest))
    rows = [f"{stamp},{0.1 * i},0,1.5,1,0,0,0" for i, stamp in enumerate(STAMPS)]
    (folder / "trajectory.csv").write_text("\n".join(["timestamp_ns,tx,ty,tz,qw,qx,qy,qz", *rows]) + "\n")
    return folder


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def rectified(rig, tmp_path_factory):
    """The wide camera rectified, with further views: the output folder and what the command said."""
    out = tmp_path_factory.mktemp("out")
    result = invoke("rectify", rig, "--out", out, "--camera", "wide", *VIEWS)
    assert result.exit_code == 0, result.output
    return out / "rig_01_wide", result.stdout


def test_another_camera_has_a_folder_of_its_own_and_its_own_pose(rectified):
    folder, _ = rectified
    document = recording_file.read(folder)
    assert document["source"]["camera"] == "wide" and document["source_camera"]["model"] == "KB4"
    from egospatial.store import geometry_file

    pose = geometry_file.read_frames(folder).world_from_camera[1]
    np.testing.assert_allclose(pose[:3, 3], [0.2, 0, 1.5], atol=1e-9)  # 0.1 along the path, 0.1 beside the eye
    assert pose[0, 2] > 0.99  # it looks along the rig's +x, 5 degrees down


def test_the_views_cover_the_lens_and_their_files_are_there(rectified):
    folder, said = rectified
    views = recording_file.views(folder)
    assert [view.name for view in views] == [view.name for view in virtual_views(LENS, 100.0, 48)]
    assert len(views) >= 3
    assert sorted(path.name for path in (folder / "views").iterdir()) == sorted(
        name for view in views for name in (f"{view.name}.mp4", f"{view.name}_valid.png")
    )
    share = recording_file.read(folder)["views_coverage"]
    assert share >= 0.99 and share == pytest.approx(coverage(LENS, virtual_views(LENS, 100.0, 48)), abs=1e-6)
    assert f"{100 * share:.2f} % of what the lens sees" in said and said.count("\nview ") == len(views)


def test_each_view_is_what_its_k_and_rotation_say(rectified):
    """Pixels of the video against the colour of their own direction, through recording.json alone."""
    folder, _ = rectified
    source_from_canonical = np.array(recording_file.read(folder)["canonical_from_source"]).T
    for view in recording_file.views(folder):
        with VideoFrames(folder / view.file) as video:
            assert len(video) == 4 and video.timestamps_ns.tolist() == [i * 100_000_000 for i in range(4)]
            image = video.read(2).astype(float)
        mask = cv2.imdecode(np.frombuffer((folder / view.mask_file).read_bytes(), np.uint8), cv2.IMREAD_UNCHANGED) > 0
        v, u = np.mgrid[0:48, 0:48]
        rays = np.stack([u, v, np.ones_like(u)], axis=-1) @ np.linalg.inv(view.camera.matrix).T
        directions = rays / np.linalg.norm(rays, axis=-1, keepdims=True)
        directions = directions @ (source_from_canonical @ view.canonical_from_view).T
        inner = cv2.erode(mask.astype(np.uint8), np.ones((7, 7), np.uint8), borderValue=0) > 0
        assert inner.sum() > 200
        error = np.abs(image - colour_of(directions, 2))[inner]
        assert np.median(error) < 3 and np.percentile(error, 95) < 10, view.name  # H.264, 4:2:0
        assert image[~cv2.dilate(mask.astype(np.uint8), np.ones((9, 9), np.uint8)).astype(bool)].max(initial=0) < 30


def test_the_quality_in_recording_json_is_that_of_the_view(rectified):
    folder, said = rectified
    document, facts = recording_file.read(folder), rectification_facts(folder)
    canonical = recording_file.camera_from_json(document["canonical_camera"])
    rotation = np.array(document["canonical_from_source"]).T
    expected = rectify_quality(recording_file.camera_from_json(document["source_camera"]), canonical, rotation)
    for name in ("coverage", "density_min", "density_median", "density_max", "table_error_px"):
        assert getattr(facts.canonical, name) == pytest.approx(getattr(expected, name), rel=1e-5)
        assert document["rectification"][name] == getattr(facts.canonical, name)
    assert facts.canonical.coverage == pytest.approx(document["valid_fraction"], abs=1e-6)
    assert f"canonical view: coverage {100 * expected.coverage:.2f} %" in said
    told = json.loads(invoke("info", folder, "--json").stdout)["rectification"]
    assert told["canonical"] == document["rectification"] and told["views_coverage"] == document["views_coverage"]
    assert f"canonical view: coverage {100 * expected.coverage:.2f} %" in invoke("info", folder).stdout


def test_the_command_gives_the_figures_as_json_too(rig, tmp_path):
    document = json.loads(invoke("rectify", rig, "--out", tmp_path, *SMALL, "--json").stdout)
    figures = document["recordings"][0]["rectification"]
    assert figures["canonical"]["coverage"] == 1.0 and figures["canonical"]["density_median"] == 1.0
    assert figures["views"] == {} and figures["views_coverage"] is None
    assert not (tmp_path / "rig_01" / "views").exists()


def test_a_changed_or_missing_view_runs_again_and_views_not_asked_for_go(rectified, rig, tmp_path):
    copy = tmp_path / "rig_01_wide"
    shutil.copytree(rectified[0], copy)
    before = rectify_digest(copy)
    assert [f.problem for f in check_folder(copy) if f.what.startswith("views")] == [""]
    front = (copy / "views" / "front.mp4").read_bytes()
    (copy / "views" / "front.mp4").write_bytes(front[:-1] + bytes([front[-1] ^ 1]))
    assert rectify_digest(copy) != before
    (copy / "views" / "front.mp4").unlink()
    with pytest.raises(StoreError, match=r"front\.mp4: not there"):
        rectify_digest(copy)
    assert "front.mp4" in next(f.problem for f in check_folder(copy) if f.what.startswith("views"))
    again = invoke("rectify", rig, "--out", tmp_path, "--camera", "wide", *VIEWS)
    assert again.exit_code == 0 and rectify_digest(copy) == before  # the same bytes again
    assert invoke("rectify", rig, "--out", tmp_path, "--camera", "wide", *SMALL).exit_code == 0
    assert not (copy / "views").exists() and recording_file.views(copy) == ()


def test_a_stage_of_a_folder_keeps_its_camera_and_another_is_refused(rectified, tmp_path):
    copy = tmp_path / "rig_01_wide"
    shutil.copytree(rectified[0], copy)
    same = invoke("rectify", copy, "--camera", "wide")
    assert same.exit_code == 0 and "canonical view" in same.stdout and "skip" in same.stderr
    other = invoke("rectify", copy, "--camera", "eye")
    assert other.exit_code == 2 and "--camera eye" in other.stderr and "results of camera wide" in other.stderr
    assert invoke("info", copy, "--camera", "wide").exit_code == 2


def test_run_and_info_take_a_camera_too(rig, tmp_path):
    said = invoke("info", rig, "--camera", "wide", "--json")
    document = json.loads(said.stdout)
    assert document["reference_camera"]["name"] == "wide"
    assert [item["name"] for item in document["other_cameras"]] == ["eye"]
    assert "wide: KB4 96x96" in invoke("info", rig).stdout
    planned = invoke("run", rig, "--out", tmp_path, "--camera", "wide", "--dry-run", "--json")
    assert json.loads(planned.stdout)["recordings"][0]["folder"].endswith("rig_01_wide")
    planned = invoke("run", rig, "--out", tmp_path, "--camera", "eye", "--dry-run", "--json")
    assert json.loads(planned.stdout)["recordings"][0]["folder"].endswith("rig_01")  # the reference: as without
    for words in (["run", rig, "--out", tmp_path], ["rectify", rig, "--out", tmp_path], ["info", rig]):
        result = invoke(*words, "--camera", "nose")
        assert result.exit_code == 2 and "no camera 'nose'; its cameras are eye, wide" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda d: d["views"][0].pop("camera"), "entry of views is damaged"),
        (lambda d: d["views"][0].update(canonical_from_view=[1, 2]), "entry of views is damaged"),
        (lambda d: d["views"][0].update(file="../secret.mp4"), "is not below the folder"),
        (lambda d: d["views"][0].update(mask_file="/etc/passwd"), "is not below the folder"),
        (lambda d: d.update(views=[3]), "entry of views is damaged"),
        (lambda d: d["views"][0]["rectification"].pop("coverage"), "entry of views is damaged"),
    ],
)
def test_a_damaged_entry_of_views_is_one_clear_error(rectified, tmp_path, damage, text):
    document = json.loads((rectified[0] / "recording.json").read_text())
    damage(document)
    write_json(tmp_path / "recording.json", document)
    with pytest.raises(StoreError, match=re.escape(text)):
        recording_file.views(tmp_path)


def test_a_recording_json_without_quality_is_read(tmp_path):
    """As versions before wrote it."""
    record = make.canonical()
    recording_file.write(tmp_path, record, recording_file.Provenance("/s", "plain", {}, tuple(range(6))))
    document = json.loads((tmp_path / "recording.json").read_text())
    for name in ("rectification", "views", "views_coverage"):
        document.pop(name)
    write_json(tmp_path / "recording.json", document)
    facts = rectification_facts(tmp_path)
    assert (facts.canonical, facts.views, facts.views_coverage, facts.lines()) == (None, (), None, [])


# --- a part of a recording keeps the numbers and clocks of the whole --------------------------------------------------


def test_picked_frames_are_those_of_the_source():
    frames = PickedFrames(make.canonical().frames, [1, 4])
    assert len(frames) == 2 and (frames.read(1) == make.canonical().frames.read(4)).all()


def test_a_part_keeps_frame_numbers_start_and_audio():
    whole = make.canonical()
    part = select_canonical(whole, [2, 4])
    assert part.frame_of_source(4) == 1 and part.frame_of_source(3) is None
    assert part.start_ns() == whole.start_ns() == int(whole.timestamps_ns[0])
    assert part.audio_offset_ns == 2 * make.STEP_NS
    assert (part.frames.read(0) == whole.frames.read(2)).all()
    assert whole.frame_of_source(5) == 5 and whole.frame_of_source(6) is None
    again = select_canonical(part, [1])
    assert again.source_frames.tolist() == [4] and again.audio_offset_ns == 4 * make.STEP_NS
