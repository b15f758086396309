"""Cases H1, H2, E1, E2, E3, E4 of the field: crashes, full disks, pickles, caches, screens, paths."""

import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import fake_run
import frontdoor_makers as make
import numpy as np
import pytest
from typer.testing import CliRunner

from egospatial.check import check_folder
from egospatial.cli import app
from egospatial.store import geometry_file, tracks_file
from egospatial.view import child
from egospatial.view.command import make_picture
from egospatial.view.finished import Finished

ROOT = Path(__file__).resolve().parents[2]
WEIRD = ("récé 1", "茶 x", "it's $HOME; (1) & 100%")


def python(code, *words, check=False, **environment):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=check,
        env={**os.environ, **environment},
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return make.write_finished(tmp_path_factory.mktemp("finished") / "kitchen_03")


# -- H1: after a crash ---------------------------------------------------------------------------------------

KILLED_WRITER = """
import os, signal, sys
from pathlib import Path
import numpy as np
from egospatial.store import hdf5
with hdf5.create(Path(sys.argv[1]), "egospatial.tracks/1") as file:
    hdf5.put(file, "a", np.random.rand(200, 200))
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_h1_a_killed_writer_leaves_the_finished_file_and_the_next_start_does_not_empty_it(tmp_path):
    tracks_file.write(tmp_path, make.tracks())
    before = (tmp_path / "tracks.h5").read_bytes()
    assert python(KILLED_WRITER, tmp_path / "tracks.h5").returncode == -signal.SIGKILL
    assert (tmp_path / "tracks.h5").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2  # the leftover is there, under another name
    assert tracks_file.read(tmp_path).tracks[0].label == "red jar"
    tracks_file.write(tmp_path, make.tracks())  # a second writer is not locked out
    assert (tmp_path / "tracks.h5").read_bytes() == before


def test_h1_a_reader_is_not_shut_out_by_a_writer(tmp_path):
    from egospatial.store import hdf5

    tracks_file.write(tmp_path, make.tracks())
    with hdf5.create(tmp_path / "tracks.h5", tracks_file.SCHEMA) as file:
        hdf5.put(file, "a", np.zeros(3))
        assert len(tracks_file.read(tmp_path).tracks) == 2


# -- H2: disk full -------------------------------------------------------------------------------------------

LIMITED_RUN = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
sys.path.insert(0, sys.argv[1].rpartition("/")[0])
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_h2_a_full_disk_is_said_by_file_earlier_results_stay_and_a_rerun_completes(tmp_path):
    folder, log = tmp_path / "a", tmp_path / "log"
    fake_run.main(folder, log, 0.0)
    whole = (folder / "four.h5").read_bytes()
    (folder / "two.h5").unlink()
    one = (folder / "one.h5").read_bytes()
    ended = python(LIMITED_RUN, 60_000, fake_run.__file__, folder, log)
    assert ended.returncode not in (0, None)
    assert re.search(r"error: .*/a/two\.h5: could not be written: no space left or a file size limit", ended.stderr)
    assert (folder / "one.h5").read_bytes() == one
    assert (folder / "four.h5").read_bytes() == whole  # still the old result, whole
    assert not [p for p in folder.iterdir() if p.name.startswith(".two")]
    fake_run.main(folder, log, 0.0)
    assert (folder / "four.h5").read_bytes() == whole


LIMITED_DEPTH = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import frontdoor_makers as make
from egospatial.errors import StoreError
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
try:
    make.write_depth(Path(sys.argv[1]))
except StoreError as error:
    sys.exit(f"error: {error}")
"""


def test_h2_poses_stay_readable_when_depth_does_not_fit(tmp_path):
    geometry_file.write_frames(tmp_path, make.canonical())
    before = (tmp_path / "geometry.h5").read_bytes()
    ended = python(LIMITED_DEPTH, tmp_path, Path(make.__file__).parent)
    assert ended.returncode == 1 and re.search(r"error: .*\.h5: could not be written", ended.stderr), ended.stderr
    assert (tmp_path / "geometry.h5").read_bytes() == before
    make.write_depth(tmp_path)
    assert len(geometry_file.DepthReader(tmp_path)) == 6


# -- E1: files that run code ---------------------------------------------------------------------------------


class Bad:
    """Makes a folder when it is unpickled."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return (os.mkdir, (self.mark,))


def test_e1_no_reader_runs_a_pickle(tmp_path, finished):
    mark = tmp_path / "RAN"
    folder = tmp_path / "bad"
    shutil.copytree(finished, folder)
    for path in folder.iterdir():
        path.write_bytes(pickle.dumps({"state": Bad(mark)}))
    findings = check_folder(folder)
    assert [finding.what for finding in findings if not finding.problem] == ["no leftovers of a killed run"]
    np.savez(tmp_path / "bad.npz", points=np.array([Bad(mark)], dtype=object))
    ended = python("from egospatial.view.open3d_child import main; import sys; main(sys.argv[1:])",
                   "picture", tmp_path / "bad.npz", tmp_path / "a.png", 8, 8)  # fmt: skip
    assert ended.returncode != 0
    assert not mark.exists()


def test_e1_the_test_above_can_fail(tmp_path):
    pickle.loads(pickle.dumps(Bad(tmp_path / "RAN")))
    assert (tmp_path / "RAN").exists()


def test_e1_no_module_of_the_front_door_can_unpickle():
    found = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "egospatial").rglob("*.py"))
        if re.search(
            r"import (pickle|joblib|shelve|marshal|dill)\b|allow_pickle=True|yaml\.(load|unsafe_load)\(",
            path.read_text(),
        )
    ]
    assert found == []


# -- E2: nowhere to write a cache ----------------------------------------------------------------------------


def test_e2_commands_work_without_a_home_and_with_a_package_that_cannot_be_written(tmp_path, finished):
    """A FILE named __pycache__ in every folder of a copy of the packages: nothing can be cached beside them."""
    for room in ("cuda_kernels", "geo", "recon", "tracking", "lifting", "spatial_qa", "egospatial"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
        for folder in [tmp_path / room, *(p for p in (tmp_path / room).rglob("*") if p.is_dir())]:
            (folder / "__pycache__").write_text("")
    environment = {**os.environ, "HOME": "/proc/nope", "XDG_CACHE_HOME": "/proc/nope"}
    environment.pop("NUMBA_CACHE_DIR", None)
    target = tmp_path / "overlay.png"
    ended = subprocess.run(
        [sys.executable, "-m", "egospatial", "view", str(finished), "--what", "overlay", "--screenshot", str(target)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    plain = tmp_path / "plain.png"
    make_picture(Finished(finished), "overlay", None, plain)
    assert target.read_bytes() == plain.read_bytes()


# -- E3: no screen -------------------------------------------------------------------------------------------


@pytest.fixture
def no_screen(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)


def test_e3_view_without_a_screen_draws_a_picture_and_says_so(finished, no_screen, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    result = CliRunner().invoke(app, ["view", str(copy)])
    assert result.exit_code == 0 and "no display: drawing a picture" in result.stderr
    assert (copy / "preview" / "scene.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("script", "how"), [("kill -SEGV $$", "signal 11"), ("echo no driver >&2; exit 3", "status 3: no driver")]
)
def test_e3_a_graphics_library_that_dies_takes_only_its_child_along(
    finished, no_screen, tmp_path, monkeypatch, script, how
):
    dies = tmp_path / "python"
    dies.write_text(f"#!/bin/sh\n{script}\n")
    dies.chmod(0o755)
    monkeypatch.setattr(child.sys, "executable", str(dies))
    note = make_picture(Finished(finished), "points", 3, tmp_path / "a.png")
    assert note.startswith(f"drawn without Open3D (Open3D ended with {how}")
    assert (tmp_path / "a.png").stat().st_size > 1000


@pytest.mark.slow
def test_e3_open3d_draws_without_a_screen_or_the_note_says_why(finished, no_screen, tmp_path):
    note = make_picture(Finished(finished), "points", 3, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000
    assert note == "" or note.startswith("drawn without Open3D")


# -- E4: paths -----------------------------------------------------------------------------------------------


def test_e4_a_folder_with_blanks_accents_and_quotes_holds_the_same_bytes(tmp_path, finished):
    weird = tmp_path.joinpath(*WEIRD)
    make.write_finished(weird)
    for path in sorted(finished.iterdir()):
        if path.name not in ("run.json", "preview"):
            assert (weird / path.name).read_bytes() == path.read_bytes(), path.name
    result = CliRunner().invoke(app, ["view", str(weird), "--what", "sheet", "--screenshot", str(weird / "ä b.png")])
    assert result.exit_code == 0 and (weird / "ä b.png").stat().st_size > 1000


def test_e4_a_missing_file_is_named_by_its_full_path(tmp_path, finished):
    weird = tmp_path.joinpath(*WEIRD)
    shutil.copytree(finished, weird)
    (weird / "tracks.h5").unlink()
    problems = [finding.problem for finding in check_folder(weird)]
    assert any(str(weird / "tracks.h5") in problem for problem in problems)
