"""The command: light help, one line for a known error, a trace for our own, statuses, JSON on stdout alone."""

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import frontdoor_makers as make
import pytest
import typer
from typer.testing import CliRunner

from egospatial import batch
from egospatial.cli import app
from egospatial.errors import FrontDoorError
from egospatial.reporting import command

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "open3d", "sam2", "numba", "scipy", "h5py", "cv2", "gsplat", "av", "numpy")
COMMANDS = sorted(info.name or info.callback.__name__ for info in app.registered_commands)


@pytest.fixture
def invoke():
    return CliRunner().invoke


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return make.write_finished(tmp_path_factory.mktemp("finished") / "kitchen_03")


def probe(before):
    """Which heavy packages are imported once ``egospatial --help`` has run."""
    code = (
        f"import sys\n{before}\nsys.argv = ['egospatial', '--help']\nfrom egospatial.cli import main\n"
        f"try:\n    main()\nexcept SystemExit as error:\n    assert not error.code\n"
        f"print('HEAVY', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()[-1]


def test_help_loads_nothing_heavy():
    assert probe("") == "HEAVY []"


def test_the_test_above_can_fail():
    assert probe("import h5py") == "HEAVY ['h5py', 'numpy']"


def test_help_takes_less_than_half_a_second_of_cpu():
    def once():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "egospatial", "--help"], cwd=ROOT, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(once() for _ in range(3)) < 0.5


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_an_entry_in_the_docs(invoke, name):
    result = invoke(app, [name, "--help"])
    assert result.exit_code == 0 and "--json" in result.output
    assert f"\n## egospatial {name}" in (ROOT / "docs" / "cli.md").read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_docs_name_every_option_of_a_command_and_no_other(name):
    section = (ROOT / "docs" / "cli.md").read_text().split(f"\n## egospatial {name}", 1)[1].split("\n## ", 1)[0]
    click_command = typer.main.get_command(app).commands[name]
    options = {word for p in click_command.params for word in p.opts if word.startswith("--")} - {"--help"}
    assert set(re.findall(r"`(--[a-z-]+)", section)) == options


def test_a_folder_that_is_no_recording_is_one_line_and_status_2_and_nothing_is_written(tmp_path, invoke):
    (tmp_path / "empty").mkdir()
    result = invoke(app, ["run", str(tmp_path / "empty"), "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 2  # the recording's name, then the error
    assert result.stderr.splitlines()[-1].startswith("error: ") and str(tmp_path / "empty") in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_that_does_not_exist_is_status_2(tmp_path, invoke):
    for words in (["info"], ["check"], ["verify"], ["view"], ["export"], ["track"]):
        result = invoke(app, [*words, str(tmp_path / "nowhere")])
        assert result.exit_code == 2, words
        assert "error: " in result.stderr and "nowhere" in result.stderr and "Traceback" not in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--every", "0"], "--every 0: expected 1 or more"),
        (["--start", "3", "--end", "2"], "the end has to come after the start"),
        (["--jobs", "0"], "--jobs 0"),
        (["--engine", "moon"], "only 'local' is there"),
        (["--shard", "3/2"], "--shard '3/2': expected i/n"),
        (["--set", "rectify.widht_px=5"], "Did you mean rectify.width_px"),
        (["--config", "/nowhere.toml"], "/nowhere.toml: config file cannot be read"),
    ],
)
def test_a_wrong_option_is_one_line_and_status_2(tmp_path, invoke, words, message):
    result = invoke(app, ["run", str(tmp_path), "--out", str(tmp_path / "out"), *words])
    assert result.exit_code == 2 and message in result.stderr
    assert not (tmp_path / "out").exists()


def test_with_json_an_error_is_a_document_too(tmp_path, invoke):
    result = invoke(app, ["check", str(tmp_path), "--json"])
    assert result.exit_code == 2
    assert json.loads(result.stdout)["kind"] == "FrontDoorError"


def test_our_own_mistake_keeps_its_trace_and_is_status_1(capsys):
    with pytest.raises(typer.Exit) as raised, command():
        raise ZeroDivisionError("ours")
    assert raised.value.exit_code == 1
    told = capsys.readouterr().err
    assert "Traceback" in told and "ZeroDivisionError: ours" in told and "mistake in egospatial itself" in told


def test_a_known_error_is_one_line(capsys):
    with pytest.raises(typer.Exit) as raised, command():
        raise FrontDoorError("what\nwhere\nwhat to do")
    assert raised.value.exit_code == 2
    assert capsys.readouterr().err == "error: what where what to do\n"


@pytest.mark.parametrize("name", ["check", "info", "export", "view"])
def test_json_is_the_only_thing_on_stdout(finished, invoke, name, tmp_path):
    words = {
        "export": ["--to", str(tmp_path / "t.json")],
        "view": ["--what", "overlay", "--screenshot", str(tmp_path / "a.png")],
    }
    if name == "info":
        (finished / "run.json").write_text(json.dumps(EMPTY_LEDGER))
    result = invoke(app, [name, str(finished), "--json", *words.get(name, [])])
    json.loads(result.stdout)


EMPTY_LEDGER = {
    "schema": "egospatial.run/1", "recording_id": "kitchen_03", "source": "/data/kitchen_03", "format_name": "plain",
    "input_digest": "0", "selection": {}, "stages": {}, "warnings": [], "narrations": None,
}  # fmt: skip


# -- several recordings --------------------------------------------------------------------------------------


def one_that(name):
    def run_one(source):
        if source.name == "bad":
            raise FrontDoorError("no recording")
        if source.name == "bug":
            raise KeyError("ours")
        return {"recording_id": source.name}

    return run_one(Path(name))


@pytest.mark.parametrize(
    ("names", "status"),
    [
        (["a", "b"], 0),
        (["a", "bad", "b"], 1),
        (["bad"], 2),
        (["bad", "bad"], 2),
        (["bug"], 1),
        (["bad", "bug"], 1),
        ([], 0),
    ],
)
def test_one_that_fails_stops_no_other_and_decides_the_status(names, status):
    results = batch.run_here([Path(name) for name in names], one_that)
    assert [result.source.name for result in results] == names
    assert all(result.document for result in results if result.source.name in ("a", "b"))
    assert batch.exit_status(results) == status


def test_a_bug_in_one_keeps_its_trace():
    (result,) = batch.run_here([Path("bug")], one_that)
    assert "KeyError" in result.trace and result.status == batch.FAILED


def test_processes_of_their_own_report_each_recordings_error(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    lines = []
    options = ["--out", str(tmp_path / "out")]
    results = batch.run_in_processes([tmp_path / "a", tmp_path / "b"], options, 2, lines.append)
    assert [result.status for result in results] == [2, 2]
    assert all(str(result.source) in result.error for result in results) and len(lines) == 2


def test_shards_take_every_recording_once():
    from egospatial.runner import shard

    everything = [Path(str(i)) for i in range(7)]
    parts = [shard(everything, f"{i}/3") for i in (1, 2, 3)]
    assert sorted(path for part in parts for path in part) == everything and [len(part) for part in parts] == [3, 2, 2]


# -- output folders ------------------------------------------------------------------------------------------


def test_check_says_what_is_wrong_with_a_folder(finished, invoke, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    (copy / "run.json").write_text(json.dumps(EMPTY_LEDGER))
    (copy / "tracks.h5").write_bytes((copy / "tracks.h5").read_bytes()[:500])
    result = invoke(app, ["check", str(copy)])
    assert result.exit_code == 1
    assert re.search(r"FAIL tracks\.h5.*not a readable HDF5 file", result.output)
    assert re.search(r"ok +geometry\.h5: depth of every frame decodes\n", result.output)


def test_check_finds_a_changed_byte_of_depth(finished, tmp_path):
    import shutil

    import h5py

    from egospatial.check import check_folder

    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    with h5py.File(copy / "geometry.h5", "r+") as file:
        file["depth/z_depth"][3, 5, 5] += 1
    problems = [finding.problem for finding in check_folder(copy) if finding.what.startswith("geometry.h5: depth")]
    assert problems == ["some bytes of the depth are not what was written"]


def test_exported_trajectories_follow_the_documented_form(finished, invoke, tmp_path):
    for kind in ("json", "csv", "tum"):
        assert invoke(app, ["export", str(finished), "--format", kind, "--to", str(tmp_path / kind)]).exit_code == 0
    document = json.loads((tmp_path / "json").read_text())
    first = document["objects"][0]
    assert (document["recording"], document["metric"], first["label"]) == ("kitchen_03", True, "red jar")
    assert [sample["state"] for sample in first["samples"]] == ["rest", "held", "held", "rest", "rest"]
    assert first["samples"][0]["center_m"] == pytest.approx([0.25, 1.05, 0.85])  # frame 1; frame 0 is unknown
    assert first["samples"][0]["timestamp_ns"] == 1718892641102929366
    rows = (tmp_path / "csv").read_text().splitlines()
    assert rows[0].startswith("object_id,label,timestamp_ns,state,observed,cx_m") and len(rows) == 1 + 2 * 5
    tum = (tmp_path / "tum" / "003_red_jar.txt").read_text().splitlines()
    assert tum[1] == "1718892641.102929366 0.250000000 1.050000000 0.850000000 " + "0.000000000 " * 3 + "1.000000000"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--what", "dreams"], "expected trajectories, questions, or nerfstudio"),
        (["--format", "xml"], "expected json, csv or tum"),
        (["--what", "splats", "--format", "csv"], "splats come as ply or compressed"),
        (["--what", "questions", "--format", "csv"], "only trajectories and splats"),
    ],
)
def test_an_unknown_export_is_status_2(finished, invoke, words, message):
    result = invoke(app, ["export", str(finished), *words])
    assert result.exit_code == 2 and message in result.stderr


@pytest.mark.parametrize("what", ["splats", "questions"])
def test_splats_and_questions_are_handed_on_unchanged(finished, invoke, tmp_path, what):
    target = tmp_path / "copy"
    assert invoke(app, ["export", str(finished), "--what", what, "--to", str(target)]).exit_code == 0
    name = {"splats": "splats.ply", "questions": "questions.jsonl"}[what]
    assert target.read_bytes() == (finished / name).read_bytes()


def test_the_help_of_format_names_every_reader():
    from egospatial.options import FORMATS
    from geo.readers import READERS

    assert FORMATS.split(", ") == list(READERS)


def test_info_of_a_folder_shows_its_stages(finished, invoke):
    (finished / "run.json").write_text(json.dumps(EMPTY_LEDGER))
    result = invoke(app, ["info", str(finished)])
    assert result.exit_code == 0 and "kitchen_03 from /data/kitchen_03" in result.output


def test_a_stage_of_a_folder_whose_recording_is_gone_says_so(finished, invoke):
    (finished / "run.json").write_text(json.dumps(EMPTY_LEDGER))
    result = invoke(app, ["track", str(finished)])
    assert result.exit_code == 2 and "/data/kitchen_03, which is not there any more" in result.stderr


def test_a_stage_of_a_recording_needs_out(tmp_path, invoke):
    result = invoke(app, ["track", str(tmp_path)])
    assert result.exit_code == 2 and "give --out DIR" in result.stderr
    assert os.listdir(tmp_path) == []
