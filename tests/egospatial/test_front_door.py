"""What a user can hit at the door: seconds that are none, cameras without pictures, targets that hold other things."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import frontdoor_makers as make
import numpy as np
import pytest
from typer.testing import CliRunner

from egospatial.cli import app
from egospatial.errors import FrontDoorError
from egospatial.replacing import folder_beside
from egospatial.selection import Selection
from geo.errors import CameraError, RecordingError, TimeError
from geo.readers import open_recording
from geo.recording import MissingFrames, with_reference
from geo.rectify import RectifyConfig, rectify
from geo.slicing import slice_recording

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["--set", "rectify.width_px=32", "--set", "rectify.height_px=24"]
STAMPS = [5_000_000_000 + i * 100_000_000 for i in range(4)]


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def refused(*words):
    """The one line of a command that has to end with status 2."""
    result = invoke(*words)
    assert result.exit_code == 2, result.output
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and "Traceback" not in result.output
    return errors[0]


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    """A plain recording of two pinholes, four pictures each; the second looks where the first does."""
    import cv2

    folder = tmp_path_factory.mktemp("rig") / "rig_02"
    cameras = {}
    for name in ("eye", "side"):
        (folder / name).mkdir(parents=True)
        for frame in range(4):
            picture = np.full((24, 32, 3), 50 * frame, np.uint8)
            (folder / name / f"{frame:06d}.png").write_bytes(cv2.imencode(".png", picture)[1].tobytes())
        cameras[name] = {"model": "PINHOLE", "width": 32, "height": 24, "params": [30, 30, 15.5, 11.5],
                         "timestamps_ns": STAMPS, "images": f"{name}/%06d.png"}  # fmt: skip
    cameras["side"]["reference_from_camera"] = np.eye(4).tolist()
    manifest = {"format": "egospatial/1", "id": "rig_02", "reference_camera": "eye",
                "world": {"metric": True, "up": [0, 0, 1]}, "cameras": cameras}  # fmt: skip
    (folder / "recording.json").write_text(json.dumps(manifest))
    rows = [f"{stamp},{0.1 * i},0,1.5,1,0,0,0" for i, stamp in enumerate(STAMPS)]
    (folder / "trajectory.csv").write_text("\n".join(["timestamp_ns,tx,ty,tz,qw,qx,qy,qz", *rows]) + "\n")
    return folder


@pytest.fixture
def finished(tmp_path):
    return make.write_finished(tmp_path / "kitchen_03")


@pytest.mark.parametrize("option", ["--start", "--end"])
@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "1e300", "9.3e9"])
def test_seconds_that_are_no_number(rig, tmp_path, option, seconds):
    words = [] if option == "--end" else ["--end", "5e9"] if seconds == "-inf" else []
    line = refused("rectify", rig, "--out", tmp_path / "out", option, seconds, *words)
    assert option in line and "seconds" in line and not (tmp_path / "out").exists()


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e300"])
def test_poses_takes_no_such_seconds_either(rig, tmp_path, seconds):
    assert "--end" in refused("poses", rig, "--out", tmp_path / "out", "--end", seconds)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("span", [(np.nan, None), (None, np.inf), (-np.inf, 1.0), (None, 1e300)])
def test_slices_take_no_such_seconds_either(rig, span):
    with pytest.raises(TimeError, match="number of seconds"):
        slice_recording(open_recording(rig), *span)
    with pytest.raises(TimeError, match="number of seconds"):
        Selection(*span)


def test_what_leaves_no_frame_is_told_without_none(rig):
    with pytest.raises(RecordingError, match=r"no frame before -1\.0 s; it is 0\.300 s long"):
        slice_recording(open_recording(rig), end_s=-1.0)
    with pytest.raises(FrontDoorError, match=r"^--start 7 leaves no frame; the recording has 4 frames over 0\.30 s"):
        Selection(start_s=7).frames(np.array(STAMPS))


def test_a_camera_without_pictures_is_refused_before_anything_is_written(rig, tmp_path, monkeypatch):
    """Also by --dry-run; a camera that has some is named, and works."""
    as_read = open_recording(rig)
    gone = replace(as_read.reference, frames=MissingFrames(4, "eye.vrs is missing; fetch it"))
    monkeypatch.setattr("geo.readers.open_recording", lambda *_: replace(as_read, reference=gone))
    for command in (["rectify"], ["run"], ["run", "--dry-run"]):
        line = refused(command[0], rig, "--out", tmp_path / "out", *command[1:], *SMALL)
        assert "camera eye has no pictures: eye.vrs is missing; fetch it" in line and "With pictures: side" in line
        assert not (tmp_path / "out").exists()
    assert invoke("rectify", rig, "--out", tmp_path / "out", "--camera", "side", *SMALL).exit_code == 0


def test_pictures_gone_do_not_stop_the_stages_after(rig, tmp_path, monkeypatch):
    """A folder whose rectify stage is done does not need them again."""
    assert invoke("rectify", rig, "--out", tmp_path / "out", *SMALL).exit_code == 0
    as_read = open_recording(rig)
    gone = replace(as_read.reference, frames=MissingFrames(4, "eye.vrs is missing"))
    monkeypatch.setattr("geo.readers.open_recording", lambda *_: replace(as_read, reference=gone))
    plan = invoke("run", rig, "--out", tmp_path / "out", "--dry-run", *SMALL)
    assert plan.exit_code == 0 and "skip" in plan.stdout.splitlines()[0]


def test_a_camera_without_a_place_is_no_reference(rig):
    recording = open_recording(rig)
    lost = replace(recording.others[0], reference_from_camera=np.full((4, 4), np.nan))
    with pytest.raises(RecordingError, match="side has no known place on the rig of eye"):
        with_reference(replace(recording, others=(lost,)), "side")
    assert with_reference(recording, "side").reference.name == "side"


def test_a_view_that_shows_nothing_is_refused(rig, tmp_path):
    """The lens sees 28 degrees to each side: turned by 180 nothing is left, turned by 20 something is."""
    turned = ["--set", "rectify.focal_px=30", "--set", "rectify.yaw_deg=180"]
    line = refused("rectify", rig, "--out", tmp_path / "out", *SMALL, *turned)
    assert "shows nothing that camera eye sees" in line and not (tmp_path / "out").exists()
    recording = open_recording(rig)
    with pytest.raises(CameraError, match="shows nothing"):
        rectify(recording, RectifyConfig(width_px=32, height_px=24, focal_px=30.0, yaw_deg=180.0))
    some = rectify(recording, RectifyConfig(width_px=32, height_px=24, focal_px=30.0, yaw_deg=20.0))
    assert 0.1 < some.valid_mask.mean() < 0.9


@pytest.mark.parametrize("what", ["nerfstudio", "colmap", "plain"])
def test_force_replaces_exports_and_nothing_else(finished, tmp_path, what):
    target = tmp_path / "out"
    words = ["export", finished, "--what", what, "--to", target]
    assert invoke(*words).exit_code == 0
    assert "--force" in refused(*words)
    assert invoke(*words, "--force").exit_code == 0
    before = sorted(path.name for path in target.iterdir())
    (target / "my notes.txt").write_text("of a user")
    assert "other things" in refused(*words, "--force")
    assert sorted(path.name for path in target.iterdir()) == sorted([*before, "my notes.txt"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kitchen_03", "out"]


@pytest.mark.parametrize("what", ["nerfstudio", "colmap", "plain", "tum", "ply"])
def test_force_never_takes_what_the_export_is_made_from(finished, tmp_path, what):
    whole = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    (tmp_path / "link").symlink_to(finished)
    for target in (finished, tmp_path, tmp_path / "link", finished / "recording.json", finished / "run.json"):
        refused("export", finished, "--what", what, "--to", target, "--force")
    assert {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()} == whole


@pytest.mark.parametrize("what", ["trajectories", "questions", "splats"])
def test_no_export_overwrites_a_result(finished, what):
    before = (finished / "recording.json").read_bytes()
    assert "choose another place" in refused("export", finished, "--what", what, "--to", finished / "recording.json")
    assert (finished / "recording.json").read_bytes() == before


FOLDERS, FILES = ("nerfstudio", "colmap", "plain"), ("tum", "ply", "trajectories", "questions", "splats")
NO_PLACES = [(what, where) for what in (*FOLDERS, *FILES) for where in ("file/x", "n" * 300)]


@pytest.mark.parametrize(("what", "where"), [*NO_PLACES, *((what, "file") for what in FOLDERS)])
def test_places_where_nothing_can_be_made(finished, tmp_path, what, where):
    """Below a file, under too long a name, and a folder where a file is (an export that is one file may go there)."""
    (tmp_path / "file").write_text("of a user")
    refused("export", finished, "--what", what, "--to", tmp_path / where)
    assert (tmp_path / "file").read_text() == "of a user"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "kitchen_03"]


@pytest.mark.parametrize("command", ["info", "rectify", "run", "poses", "verify", "check", "view"])
@pytest.mark.parametrize("kind", ["long", "loop"])
def test_paths_that_no_system_takes(tmp_path, command, kind):
    path = tmp_path / ("n" * 300 if kind == "long" else "loop")
    if kind == "loop":
        path.symlink_to(path)
    words = ["--out", tmp_path / "out"] if command in ("rectify", "run", "poses") else []
    assert str(path) in refused(command, path, *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["rectify", "simulate", "poses"])
def test_out_that_is_a_file(rig, tmp_path, command):
    (tmp_path / "file").write_text("of a user")
    words = {"rectify": ["rectify", rig, "--out", tmp_path / "file", *SMALL], "simulate": ["simulate", tmp_path / "file"],
             "poses": ["poses", rig, "--out", tmp_path / "file"]}[command]  # fmt: skip
    if command == "poses":
        pytest.importorskip("pycolmap")
    assert "could not be written" in refused(*words)


def test_poses_never_replaces_its_own_source(rig):
    pytest.importorskip("pycolmap")
    before = sorted(os.listdir(rig))
    assert "is read here" in refused("poses", rig, "--out", rig.parent, "--force")
    assert sorted(os.listdir(rig)) == before and os.listdir(rig.parent) == ["rig_02"]


def test_a_folder_comes_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out"
    with folder_beside(target, lambda _: True) as part:
        (part / "one").write_text("1")
    with pytest.raises(ZeroDivisionError), folder_beside(target, lambda _: True) as part:
        (part / "two").write_text("2")
        raise ZeroDivisionError
    assert [path.name for path in target.iterdir()] == ["one"] and os.listdir(tmp_path) == ["out"]
    with folder_beside(target, lambda _: True) as part:
        (part / "three").write_text("3")
    assert [path.name for path in target.iterdir()] == ["three"] and os.listdir(tmp_path) == ["out"]


def test_an_older_folder_comes_back_when_the_new_one_cannot_go_there(tmp_path, monkeypatch):
    target = tmp_path / "out"
    target.mkdir()
    (target / "one").write_text("1")
    real = os.replace

    def fails(source, place):
        if str(place) == str(target) and not str(source).endswith("/old"):
            raise PermissionError(13, "Permission denied")
        real(source, place)

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(FrontDoorError, match="could not be written"), folder_beside(target, lambda _: True):
        pass
    assert [path.name for path in target.iterdir()] == ["one"] and os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_an_export_that_is_ended_leaves_nothing(finished, tmp_path, name):
    """The signal arrives while the folder is being written."""
    code = (
        "import signal, os, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import egospatial.export_job as c\n"
        f"c.write_image = lambda path, _: (path.parent.mkdir(parents=True), os.kill(os.getpid(), signal.{name}))\n"
        "from egospatial.cli import main\nmain(sys.argv[1:])"
    )
    words = ["export", str(finished), "--what", "plain", "--to", str(tmp_path / "out")]
    ended = subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode in (130, 143), ended.stderr
    assert "Traceback" not in ended.stderr and os.listdir(tmp_path) == ["kitchen_03"]
