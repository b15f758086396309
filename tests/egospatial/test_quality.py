"""The folder ``quality/``: what is in it, that it is whole or as before, and how it is looked at."""

import json
from dataclasses import replace

import numpy as np
import pytest

from egospatial.errors import FrontDoorError, StoreError
from egospatial.quality import page, quality_sheet, read_quality, write_quality
from egospatial.view.command import make_picture
from egospatial.view.quality_pictures import TILE_PX, colour_bar, error_picture, floater_row, frame_row
from recon.quality_records import (
    FloaterFigures,
    FloaterPictures,
    FloaterReport,
    FramePictures,
    FrameQuality,
    QualityReport,
)

NAN = float("nan")
FRAME = FrameQuality(7, 27.5, 0.9, 24.0, 0.0125, 0.03, 0.004, 0.97, 0.995, 0.89, 0.99, 0.86, 0.85, 1200)
FIGURES = FloaterFigures(500, 27.0, 0.0125, 0.004, 0.99, 0.86, 12)


def grey(level, height=40, width=60):
    return np.full((height, width, 3), level, dtype=np.uint8)


def shown(frame=7, why="large depth error: 1.25% mean"):
    error = np.full((40, 60), 0.01, dtype=np.float32)
    error[:, :10] = np.nan
    z = np.full((40, 60), 2.0, dtype=np.float32)
    return FramePictures(frame, why, grey(120), grey(118), z, z, error, True)


@pytest.fixture
def report():
    pictures = FloaterPictures(3, grey(90), grey(100), grey(80))
    floaters = FloaterReport(4, 9, 12, 1, 2, FIGURES, replace(FIGURES, splats=485, seen_through=0), pictures=pictures)
    return QualityReport(
        held_out=True,
        metric=True,
        overall=replace(FRAME, frame=-1),
        frames=(FRAME, replace(FRAME, frame=15, depth_abs_rel=NAN)),
        consistency_median_rel=0.002,
        consistency_p90_rel=0.007,
        consistency_seen_through=0.0,
        floaters=floaters,
        reasons={"lpips": "not measured: no weights"},
        worst=(shown(), shown(15, "typical <&>")),
    )


def test_the_json_holds_every_figure_and_null_for_what_is_not_known(tmp_path, report):
    write_quality(tmp_path, report, ("a note",))
    document = json.loads((tmp_path / "quality" / "quality.json").read_text())
    assert document["schema"] == "egospatial.quality/1" and document["notes"] == ["a note"]
    assert document["overall"]["depth_abs_rel"] == 0.0125 and document["overall"]["frame"] is None
    assert [frame["depth_abs_rel"] for frame in document["frames"]] == [0.0125, None]
    assert document["lpips"] is None and document["reasons"]["lpips"] == "not measured: no weights"
    assert (document["floaters"]["seen_through"], document["floaters"]["after"]["splats"]) == (12, 485)
    assert "pictures" not in document["floaters"] and "step_seconds" not in document


def test_every_picture_that_is_named_is_there_and_no_other_file(tmp_path, report):
    write_quality(tmp_path, report)
    named = read_quality(tmp_path)["pictures"]
    assert list(named) == ["frame_000007.jpg", "frame_000015.jpg", "floaters.jpg"]
    assert {path.name for path in (tmp_path / "quality").iterdir()} == {*named, "quality.json", "index.html"}


def test_the_same_report_gives_the_same_bytes_whatever_time_it_took(tmp_path, report):
    for name, seconds in (("a", 1.0), ("b", 2.0)):
        (tmp_path / name).mkdir()
        write_quality(tmp_path / name, replace(report, step_seconds={"fit": seconds}))
    for path in (tmp_path / "a" / "quality").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / "quality" / path.name).read_bytes()


def test_a_second_report_replaces_the_first_whole(tmp_path, report):
    write_quality(tmp_path, report)
    write_quality(tmp_path, replace(report, worst=(), floaters=None))
    assert sorted(path.name for path in (tmp_path / "quality").iterdir()) == ["index.html", "quality.json"]
    assert not [path for path in tmp_path.iterdir() if path.name != "quality"], "nothing is left beside it"


def test_a_folder_of_the_user_s_own_is_not_replaced(tmp_path, report):
    (tmp_path / "quality").mkdir()
    (tmp_path / "quality" / "mine.txt").write_text("keep")
    with pytest.raises(FrontDoorError, match="holds other things"):
        write_quality(tmp_path, report)
    assert (tmp_path / "quality" / "mine.txt").read_text() == "keep"


def test_where_nothing_was_reconstructed_the_reason_is_the_report(tmp_path):
    write_quality(tmp_path, None, ("the recording has no sensor depth",))
    document = read_quality(tmp_path)
    assert document["overall"] is None and "no sensor depth" in document["reasons"]["overall"]
    assert "not measured: the recording has no sensor depth" in (tmp_path / "quality" / "index.html").read_text()
    with pytest.raises(FrontDoorError, match="no pictures"):
        quality_sheet(tmp_path)


def test_the_page_shows_figures_reasons_and_pictures_and_escapes_text(tmp_path, report):
    blind = replace(report.overall, depth_abs_rel=NAN)
    reasons = {**report.reasons, "depth_abs_rel": "no sensor depth in these frames"}
    write_quality(tmp_path, replace(report, overall=blind, reasons=reasons))
    text = (tmp_path / "quality" / "index.html").read_text()
    assert "27.50 dB" in text and "not measured: no sensor depth in these frames" in text
    assert "not measured: no weights" in text and "typical &lt;&amp;&gt;" in text and "<&>" not in text
    assert "12 seen through, 1 isolated, 2 unseen" in text and 'src="floaters.jpg"' in text
    assert "4, 9, 15" in text and "500, 485" in text
    assert text == page(read_quality(tmp_path)), "the page can be made again from the JSON alone"


def test_lengths_of_a_world_that_is_not_metric_are_not_called_metres(tmp_path, report):
    write_quality(tmp_path, replace(report, metric=False))
    text = (tmp_path / "quality" / "index.html").read_text()
    assert "0.0300 units" in text and " m<" not in text


def test_a_report_of_another_version_is_refused(tmp_path, report):
    write_quality(tmp_path, report)
    path = tmp_path / "quality" / "quality.json"
    path.write_text(path.read_text().replace("egospatial.quality/1", "egospatial.quality/9"))
    with pytest.raises(StoreError, match="quality/9"):
        read_quality(tmp_path)


def test_errors_are_white_at_zero_red_when_farther_blue_when_nearer_grey_when_unknown():
    error = np.array([[0.0, 0.05, -0.05, 0.5, np.nan, 0.025]], dtype=np.float32)
    white, far, near, beyond, unknown, half = error_picture(error, 0.05)[0].astype(int)
    assert white.tolist() == [255, 255, 255] and len(set(unknown.tolist())) == 1 and unknown[0] < 128
    assert far.tolist() == beyond.tolist() and far[0] == 255 > far[2] + 200
    assert near[2] == 255 > near[0] + 200
    assert np.abs(half - (white + far) / 2).max() <= 1


def test_an_unsigned_error_has_no_colour_below_zero():
    assert error_picture(np.array([[-0.1]], dtype=np.float32), 0.3, signed=False)[0, 0].tolist() == [255, 255, 255]


def test_the_colour_bar_is_red_on_top_white_in_the_middle_blue_below():
    bar = colour_bar(249, 0.05)[:, 12].astype(int)
    inside = bar[24:-24]
    assert inside[0, 0] == 255 > inside[0, 2] + 200 and inside[-1, 2] == 255 > inside[-1, 0] + 200
    assert inside[100].min() >= 253


def test_a_row_is_four_tiles_and_a_bar_and_the_floaters_are_three():
    row, three = frame_row(shown()), floater_row(FloaterPictures(3, grey(90), grey(100), grey(80)))
    assert row.shape[0] == three.shape[0] == TILE_PX * 40 // 60
    assert 4 * TILE_PX < row.shape[1] < 4 * TILE_PX + 120 and three.shape[1] == 3 * TILE_PX
    error_tile = row[100:, 3 * TILE_PX : 4 * TILE_PX].astype(int)
    assert np.ptp(error_tile[:, 10], axis=1).max() == 0, "no depth to compare in the leftmost columns"
    assert (error_tile[:, 200, 0] > error_tile[:, 200, 2]).all(), "1 % too far is reddish"


def test_the_sheet_stacks_what_the_report_names(tmp_path, report):
    write_quality(tmp_path, report)
    sheet = quality_sheet(tmp_path)
    assert sheet.shape[0] == 3 * (TILE_PX * 40 // 60 + 4)
    (tmp_path / "quality" / "frame_000015.jpg").unlink()
    with pytest.raises(FrontDoorError, match=r"frame_000015\.jpg"):
        quality_sheet(tmp_path)


def test_view_writes_the_sheet_as_a_picture(tmp_path, report):
    import frontdoor_makers as make

    from egospatial.view.finished import Finished

    folder = make.write_finished(tmp_path / "kitchen_03")
    write_quality(folder, report)
    make_picture(Finished(folder), "quality", None, tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").stat().st_size > 1000


def test_the_command_prints_figures_and_names_the_page(tmp_path, report):
    import frontdoor_makers as make
    from typer.testing import CliRunner

    from egospatial.cli import app

    folder = make.write_finished(tmp_path / "kitchen_03")
    missing = CliRunner().invoke(app, ["view", str(folder), "--what", "quality"])
    assert missing.exit_code == 2 and "quality.json" in missing.output
    write_quality(folder, report)
    told = CliRunner().invoke(app, ["view", str(folder), "--what", "quality"])
    assert told.exit_code == 0 and "27.50 dB" in told.output and "index.html" in told.output
    document = json.loads(CliRunner().invoke(app, ["view", str(folder), "--what", "quality", "--json"]).stdout)
    assert document["quality"]["overall"]["psnr_db"] == 27.5 and document["page"].endswith("index.html")
