"""The real stages on a short piece of a simulated recording, through the front door."""

import shutil
from pathlib import Path

import pytest

from cuda_kernels.errors import InputError
from egospatial.check import check_folder
from egospatial.config import resolve
from egospatial.export import trajectories_document
from egospatial.runner import RunRequest, request_of_folder, run_recording
from egospatial.selection import Selection
from egospatial.store import tracks_file, trajectories_file
from egospatial.verify import verify_folder

QUICK = (
    "rectify.width_px=192", "rectify.height_px=192", "reconstruct.iterations=10", "reconstruct.max_gaussians=3000",
    "reconstruct.width_px=64", "reconstruct.max_keyframes=8",
)  # fmt: skip
PIECE = Selection(2.0, 3.2)
WEIRD = ("récé 1", "茶 x", "it's $HOME; (1) & 100%")
EVERY_STAGE = ("rectify", "reconstruct", "track", "lift", "depth", "ask")

pytestmark = pytest.mark.slow


def contents(folder):
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.is_file() and p.name != "run.json"}


@pytest.fixture(scope="module")
def plain(simulated_small, tmp_path_factory):
    out = tmp_path_factory.mktemp("plain")
    return run_recording(RunRequest(simulated_small.recording_dir, out, resolve(None, QUICK), selection=PIECE))


def test_every_stage_ends_and_the_folder_is_whole(plain):
    assert plain.plan.to_run == EVERY_STAGE
    assert [finding for finding in check_folder(plain.folder) if finding.problem] == []
    assert all(item.holds for item in verify_folder(plain.folder))
    tracked = tracks_file.read(plain.folder)
    assert len(tracked.tracks) >= 2 and len(tracked.timestamps_ns) == 12
    assert len(trajectories_file.read(plain.folder).trajectories) == len(tracked.tracks)
    assert len(trajectories_document(plain.folder)["objects"]) == len(tracked.tracks)


def test_a_second_run_does_nothing_and_a_changed_setting_little(plain, simulated_small):
    before = contents(plain.folder)
    again = run_recording(
        RunRequest(simulated_small.recording_dir, plain.folder.parent, resolve(None, QUICK), selection=PIECE)
    )
    assert again.plan.to_run == () and contents(plain.folder) == before
    changed = resolve(None, (*QUICK, "ask.seed=5"))
    planned = run_recording(
        RunRequest(simulated_small.recording_dir, plain.folder.parent, changed, selection=PIECE, dry_run=True)
    )
    assert planned.plan.to_run == ("ask",) and contents(plain.folder) == before


def test_e4_a_path_with_blanks_accents_and_quotes_gives_the_same_bytes(plain, simulated_small, tmp_path):
    weird = tmp_path.joinpath(*WEIRD)
    shutil.copytree(simulated_small.recording_dir, weird / simulated_small.recording_dir.name)
    source = weird / simulated_small.recording_dir.name
    got = run_recording(RunRequest(source, weird / "out é", resolve(None, QUICK), selection=PIECE))
    ours, theirs = contents(plain.folder), contents(got.folder)
    assert [name for name in ours if ours[name] != theirs.get(name)] == []


def test_a_single_stage_of_a_folder_runs_as_the_folder_was_made(plain):
    folder = plain.folder
    before = contents(folder)
    (folder / "questions.jsonl").unlink()
    got = run_recording(request_of_folder(folder, None, ("ask",)))
    assert got.plan.to_run == ("ask",) and contents(folder) == before


def test_without_narrations_nothing_is_tracked_and_the_rest_runs(simulated_small, tmp_path):
    source = tmp_path / "silent"
    shutil.copytree(simulated_small.recording_dir, source)
    (source / "narrations.jsonl").unlink()
    config = resolve(None, (*QUICK, "reconstruct.iterations=0"))
    got = run_recording(RunRequest(source, tmp_path / "out", config, selection=Selection(2.0, 2.4)))
    assert any("no narrations" in text for text in got.warnings)
    assert tracks_file.read(got.folder).tracks == ()
    assert [finding.problem for finding in check_folder(got.folder) if finding.problem] == []


def test_a_cut_video_is_one_clear_error_and_leaves_nothing_half_written(simulated_small, tmp_path):
    source = tmp_path / "cut"
    shutil.copytree(simulated_small.recording_dir, source)
    video = next(Path(source).glob("*.mp4"))
    video.write_bytes(video.read_bytes()[: video.stat().st_size // 2])
    with pytest.raises(InputError, match=video.name.replace(".", r"\.")):
        run_recording(RunRequest(source, tmp_path / "out", resolve(None, QUICK)))
    left = [p for p in (tmp_path / "out").rglob("*") if p.is_file()] if (tmp_path / "out").exists() else []
    assert [p.name for p in left if p.name not in ("run.json", "config.json", ".lock")] == []


def test_another_recording_of_the_same_id_is_kept_out_of_the_folder(plain, simulated_small, tmp_path):
    other = tmp_path / simulated_small.recording_dir.name
    shutil.copytree(simulated_small.recording_dir, other)
    with open(other / "trajectory.csv", "a") as handle:
        handle.write("\n")
    with pytest.raises(InputError, match="another recording with the same id"):
        run_recording(RunRequest(other, plain.folder.parent, resolve(None, QUICK), selection=PIECE))
