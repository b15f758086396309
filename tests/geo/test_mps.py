"""Aria MPS outputs: golden values by an independent parse, projectaria_tools beside it, every trap, a seeded fuzz."""

import csv
import gzip
import io
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from geo.errors import GeoError, PoseError, RecordingError, TimeError
from geo.readers.mps.calibration import read_online_calibration, read_summary
from geo.readers.mps.gaze import gaze_direction, read_gaze
from geo.readers.mps.hands import ARIA_LANDMARK_OF_JOINT, hand_track, read_hands
from geo.readers.mps.slam import read_closed_loop, read_points

LOOP = "trajectory/closed_loop_trajectory.csv"
GEO = "trajectory/closed_loop_trajectory_geo_available.csv"
POINTS = "trajectory/global_points.csv.gz"
CALIBRATION = "trajectory/online_calibration.jsonl"
GAZE = "eye_gaze/eyegaze.csv"
GAZES = (GAZE, "eye_gaze/generalized_eye_gaze.csv")
VERGENCE = "eye_gaze_vergence/generalized_gaze.csv"
HANDS = ("hand_tracking/hand_tracking_results_v1.csv", "hand_tracking/hand_tracking_results_v2.csv")
PALMS = ("hand_tracking/wrist_and_palm_poses.csv", "hand_tracking/wrist_and_palm_poses_v2.csv")


@pytest.fixture(scope="module")
def mps(samples_dir: Path) -> Path:
    return samples_dir / "aria_mps_sample"


def text_of(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()


def parsed(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def head(path: Path, rows: int) -> str:
    return "".join(text_of(path).splitlines(keepends=True)[: rows + 1])


def saved(tmp_path: Path, text: str, name: str = "a.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, newline="")
    return path


def changed(text: str, row: int, **cells: object) -> str:
    """The table with some cells of a row (from 0) replaced."""
    rows = list(csv.reader(io.StringIO(text)))
    for name, value in cells.items():
        rows[row + 1][rows[0].index(name)] = str(value)
    return "".join(",".join(r) + "\n" for r in rows)


def cells(rows: list[dict[str, str]], *names: str) -> np.ndarray:
    return np.array([[float(r[n]) if r[n] else math.nan for n in names] for r in rows])


# ---------------------------------------------------------------------------------------------------- trajectory


@pytest.mark.samples
@pytest.mark.parametrize("name", [LOOP, GEO, GEO.replace("available", "missing")])
def test_trajectory_equals_an_independent_parse(mps: Path, name: str) -> None:
    rows = parsed(text_of(mps / name))
    notes: list[str] = []
    got = read_closed_loop(mps / name, notes)
    assert notes == []
    assert got.trajectory.timestamps_ns.tolist() == [int(r["tracking_timestamp_us"]) * 1000 for r in rows]
    want = cells(rows, *(f"{n}_world_device" for n in ("tx", "ty", "tz", "qx", "qy", "qz", "qw")))
    np.testing.assert_array_equal(got.trajectory.world_from_body[:, :3, 3], want[:, :3])
    turned = Rotation.from_quat(want[:, 3:]).as_matrix()
    np.testing.assert_allclose(got.trajectory.world_from_body[:, :3, :3], turned, atol=1e-12)
    np.testing.assert_array_equal(got.quality, cells(rows, "quality_score")[:, 0])
    assert got.up_in_world is not None and got.up_in_world.tolist() == [0, 0, 1]
    assert got.graph_uid == "ea7288b8-b6a0-012d-8156-257aba6bd796"


@pytest.mark.samples
def test_trajectory_golden_values(mps: Path) -> None:
    got = read_closed_loop(mps / LOOP, [])
    assert len(got.quality) == 11517
    assert int((got.quality == 0.5).sum()) == 101
    assert got.trajectory.timestamps_ns[[0, -1]].tolist() == [149202610000, 160597999000]
    np.testing.assert_array_equal(got.trajectory.world_from_body[-1, :3, 3], [-1.282214, -4.250059, -0.439720])
    assert read_closed_loop(mps / LOOP, notes := [], min_quality=0.6).quality.min() == 1
    assert notes == ["closed_loop_trajectory.csv: 101 of 11517 rows are gaps (quality 0, unknown or below 0.6)"]


@pytest.mark.samples
def test_trajectory_equals_projectaria_tools(mps: Path) -> None:
    tools = pytest.importorskip("projectaria_tools.core.mps")
    theirs = tools.read_closed_loop_trajectory(str(mps / LOOP))
    got = read_closed_loop(mps / LOOP, [])
    assert len(theirs) == len(got.quality)
    for i in range(0, len(theirs), 97):
        np.testing.assert_allclose(
            got.trajectory.world_from_body[i], theirs[i].transform_world_device.to_matrix(), atol=1e-8
        )
        assert round(theirs[i].tracking_timestamp.total_seconds() * 1e6) * 1000 == got.trajectory.timestamps_ns[i]


@pytest.mark.samples
def test_gzip_crlf_bom_and_order_of_columns_do_not_matter(mps: Path, tmp_path: Path) -> None:
    text = head(mps / GEO, 20)
    want = read_closed_loop(saved(tmp_path, text), [])
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(text.encode()))
    rows = [line.split(",")[::-1] for line in text.splitlines()]
    others = [
        tmp_path / "b.csv.gz",
        saved(tmp_path, "\ufeff" + text.replace("\n", "\r\n"), "c.csv"),
        saved(tmp_path, "".join(",".join(r) + "\n" for r in rows), "d.csv"),
        saved(tmp_path, "".join([text.splitlines(True)[0], *text.splitlines(True)[:0:-1]]), "e.csv"),
    ]
    for path in others:
        got = read_closed_loop(path, notes := [])
        assert notes == []
        np.testing.assert_array_equal(got.trajectory.timestamps_ns, want.trajectory.timestamps_ns)
        np.testing.assert_array_equal(got.trajectory.world_from_body, want.trajectory.world_from_body)


@pytest.mark.samples
@pytest.mark.parametrize("quality", ["0", "0.0", "-1", "nan", ""])
def test_quality_zero_or_unknown_is_a_gap(mps: Path, tmp_path: Path, quality: str) -> None:
    text = changed(head(mps / GEO, 10), 4, quality_score=quality)
    got = read_closed_loop(saved(tmp_path, text), notes := [])
    assert len(got.quality) == len(got.trajectory.timestamps_ns) == 9
    assert len(notes) == 1 and "1 of 10 rows are gaps (quality 0" in notes[0]


@pytest.mark.samples
def test_rows_without_a_finite_pose_are_gaps(mps: Path, tmp_path: Path) -> None:
    text = changed(head(mps / GEO, 10), 2, tx_world_device="nan")
    text = changed(text, 3, qx_world_device="")
    zero = {f"q{a}_world_device": 0 for a in "xyzw"}
    got = read_closed_loop(saved(tmp_path, changed(text, 5, **zero)), notes := [])
    assert len(got.quality) == 7
    assert notes == ["a.csv: 3 of 10 rows are gaps (no finite pose)"]


@pytest.mark.samples
def test_of_two_graphs_the_longest_is_kept(mps: Path, tmp_path: Path) -> None:
    text = head(mps / GEO, 12)
    for row, graph in ((0, "b"), (1, "b"), (2, "c"), (3, "c"), (11, "c")):
        text = changed(text, row, graph_uid=graph)
    for row in (4, 5, 6, 7, 8, 9, 10):
        text = changed(text, row, graph_uid="long", quality_score=1 if row > 8 else 0)
    got = read_closed_loop(saved(tmp_path, text), notes := [])
    rows = parsed(text)  # of graph "long" only two poses are usable, so "c" has most
    assert got.graph_uid == "c"
    assert got.trajectory.timestamps_ns.tolist() == [int(rows[i]["tracking_timestamp_us"]) * 1000 for i in (2, 3, 11)]
    assert len(notes) == 1 and "3 graphs whose worlds do not fit together; kept is 'c' with 3 poses, 4" in notes[0]


@pytest.mark.samples
def test_gravity_is_one_direction_or_unknown(mps: Path, tmp_path: Path) -> None:
    text = head(mps / GEO, 6)
    with pytest.raises(PoseError, match=r"line 4: gravity .* points elsewhere"):
        read_closed_loop(saved(tmp_path, changed(text, 2, gravity_x_world=1)), [])
    with pytest.raises(PoseError, match=r"line 4: gravity .* not that of the earth"):
        read_closed_loop(saved(tmp_path, changed(text, 2, gravity_z_world=1)), [])
    for row in range(6):
        text = changed(text, row, gravity_z_world=0)
    assert read_closed_loop(saved(tmp_path, text), notes := []).up_in_world is None
    assert "which way is up is not known" in notes[0]
    for row in range(6):
        text = changed(text, row, gravity_y_world=-9.81)
    up = read_closed_loop(saved(tmp_path, text), []).up_in_world
    assert up is not None and up.tolist() == [0, 1, 0]


@pytest.mark.samples
def test_double_stamps_merge_or_clash(mps: Path, tmp_path: Path) -> None:
    lines = head(mps / GEO, 5).splitlines(True)
    same = saved(tmp_path, "".join([*lines, lines[2]]))
    assert len(read_closed_loop(same, []).quality) == 5
    stamp = parsed("".join(lines))[1]["tracking_timestamp_us"]
    with pytest.raises(TimeError, match=r"rows 3 and 5 have the same time stamp"):
        read_closed_loop(saved(tmp_path, changed("".join(lines), 3, tracking_timestamp_us=stamp)), [])


@pytest.mark.samples
def test_big_microseconds_stay_exact(mps: Path, tmp_path: Path) -> None:
    text = changed(head(mps / GEO, 2), 0, tracking_timestamp_us=9_223_372_036_854_775)
    text = changed(text, 1, tracking_timestamp_us=9_007_199_254_740_993)  # no float64
    stamps = read_closed_loop(saved(tmp_path, text), []).trajectory.timestamps_ns
    assert stamps.tolist() == [9_007_199_254_740_993_000, 9_223_372_036_854_775_000]
    for bad in (9_223_372_036_854_776, -1, 10**25, "1.5", "1e3", "", "1_0", "١"):
        with pytest.raises(RecordingError, match=r"line 2 column tracking_timestamp_us"):
            read_closed_loop(saved(tmp_path, changed(text, 0, tracking_timestamp_us=bad)), [])


@pytest.mark.samples
@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ({"qw_world_device": "2"}, "line 3: quaternion"),
        ({"tx_world_device": "1e12"}, "line 3: translation"),
        ({"tx_world_device": "abc"}, "line 3 column tx_world_device = 'abc' is no number"),
        ({"tx_world_device": "1e999"}, "line 3 column tx_world_device = '1e999' is too large"),
        ({"quality_score": "7"}, "line 3 column quality_score = 7.0 is no score"),
    ],
)
def test_broken_cells_are_named(mps: Path, tmp_path: Path, cell: dict[str, str], message: str) -> None:
    with pytest.raises(GeoError, match=message):
        read_closed_loop(saved(tmp_path, changed(head(mps / GEO, 4), 1, **cell)), [])


# ---------------------------------------------------------------------------------------------------- every table


READERS: dict[str, tuple[str, Callable[[Path, list[str]], Any], str]] = {
    "trajectory": (GEO, read_closed_loop, "quality_score"),
    "points": (POINTS, lambda p, w: read_points(p, w, None, math.inf, math.inf), "inv_dist_std"),
    "gaze": (GAZE, read_gaze, "pitch_rads_cpf"),
    "vergence": (VERGENCE, read_gaze, "right_yaw_rads_cpf"),
    "hands": (HANDS[1], read_hands, "tx_left_landmark_7_device"),
    "palms": (PALMS[1], read_hands, "tz_right_palm_device"),
}


@pytest.mark.samples
@pytest.mark.parametrize("kind", READERS)
def test_a_cut_or_renamed_table_is_an_error(mps: Path, tmp_path: Path, kind: str) -> None:
    name, read, column = READERS[kind]
    text = head(mps / name, 8)
    read(saved(tmp_path, text), notes := [])
    bad = {
        f"line 1: no column '{column}'": text.replace(column, "x" + column, 1),
        f"'{column}2' {column} renamed": text.replace(column, column + "2", 1),
        "ends without a line break": text[:-1],
        "is it cut off": text[: text.rindex(",")] + "\n",
        "no rows": text.splitlines(True)[0],
        "is empty": "",
        "there twice": text.replace(column, text.split(",")[0], 1),
        "NUL byte": text[:-3] + "\0" + text[-2:],
    }
    for message, broken in bad.items():
        with pytest.raises(RecordingError, match=message):
            read(saved(tmp_path, broken), [])
    index = text.splitlines()[0].split(",").index(column)
    without = "".join(",".join(r[:index] + r[index + 1 :]) + "\n" for r in csv.reader(io.StringIO(text)))
    with pytest.raises(RecordingError, match=f"no column '{column}'"):
        read(saved(tmp_path, without), [])
    more = "".join(line + (",new\n" if i == 0 else ",7\n") for i, line in enumerate(text.splitlines()))
    read(saved(tmp_path, more), extra := [])
    assert extra == ["a.csv: columns that are not known are ignored ('new')", *notes]
    packed = gzip.compress(text.encode())
    for cut in (3, len(packed) // 2, len(packed) - 9, len(packed) - 1):
        (tmp_path / "cut.csv.gz").write_bytes(packed[:cut])
        with pytest.raises(RecordingError, match="cut off or damaged"):
            read(tmp_path / "cut.csv.gz", [])
    with pytest.raises(RecordingError, match="cannot be read"):
        read(tmp_path / "none.csv", [])


@pytest.mark.samples
def test_part_of_an_optional_group_is_an_error(mps: Path, tmp_path: Path) -> None:
    text = text_of(mps / HANDS[1])
    with pytest.raises(RecordingError, match=r"no column 'nx_left_wrist_device'"):
        read_hands(saved(tmp_path, text.replace("nx_left_wrist_device", "old")), [])
    with pytest.raises(RecordingError, match=r"no column 'ty_ecef_device'"):
        read_closed_loop(saved(tmp_path, head(mps / GEO, 3).replace("ty_ecef_device", "old")), [])


# ---------------------------------------------------------------------------------------------------- points


@pytest.mark.samples
def test_points_equal_an_independent_parse_and_the_official_filter(mps: Path) -> None:
    rows = parsed(text_of(mps / POINTS))
    values = cells(rows, "px_world", "py_world", "pz_world", "inv_dist_std", "dist_std")
    good = (values[:, 3] <= 0.001) & (values[:, 4] <= 0.05)
    got = read_points(mps / POINTS, notes := [], "ea7288b8-b6a0-012d-8156-257aba6bd796")
    assert notes == [] and len(rows) == 99472 and len(got.uids) == 22081 == good.sum()
    np.testing.assert_array_equal(got.points_in_world, values[good, :3])
    np.testing.assert_array_equal(got.inverse_distance_std, values[good, 3])
    np.testing.assert_array_equal(got.distance_std_m, values[good, 4])
    assert got.uids.tolist() == [int(r["uid"]) for r, keep in zip(rows, good, strict=True) if keep]
    tools = pytest.importorskip("projectaria_tools.core.mps")
    utils = pytest.importorskip("projectaria_tools.core.mps.utils")
    theirs = utils.filter_points_from_confidence(tools.read_global_point_cloud(str(mps / POINTS)))
    assert len(theirs) == 22081
    for i in range(0, 22081, 501):
        np.testing.assert_allclose(got.points_in_world[i], theirs[i].position_world, atol=1e-12)


@pytest.mark.samples
def test_the_sample_cut_in_half_is_an_error(mps: Path, tmp_path: Path) -> None:
    data = (mps / POINTS).read_bytes()
    (tmp_path / "p.csv.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(RecordingError, match=r"after line \d+: a gzip file that is cut off"):
        read_points(tmp_path / "p.csv.gz", [])


@pytest.mark.samples
def test_points_of_other_graphs_unknown_and_double(mps: Path, tmp_path: Path) -> None:
    text = head(mps / POINTS, 6)
    text = changed(changed(text, 1, graph_uid="b"), 2, px_world="nan")
    got = read_points(saved(tmp_path, text), notes := [], None, 1, 1)
    assert got.uids.tolist() == [int(parsed(text)[i]["uid"]) for i in (0, 3, 4, 5)]
    assert len(notes) == 2 and "2 graphs" in notes[0] and "1 points without a finite" in notes[1]
    assert read_points(saved(tmp_path, text), [], "b", 1, 1).uids.tolist() == [int(parsed(text)[1]["uid"])]
    with pytest.raises(RecordingError, match="no point of graph 'c', only of"):
        read_points(saved(tmp_path, text), [], "c", 1, 1)
    with pytest.raises(RecordingError, match=r"none of 5 points has inv_dist_std <= 0\.0001"):
        read_points(saved(tmp_path, text), [], None, 0.0001, 1)
    first = parsed(text)[0]["uid"]
    with pytest.raises(RecordingError, match=f"lines 2 and 6: point {first} is at two places"):
        read_points(saved(tmp_path, changed(text, 4, uid=first)), [], None, 1, 1)
    lines = text.splitlines(True)
    assert len(read_points(saved(tmp_path, text + lines[1]), [], None, 1, 1).uids) == 4


def test_blocks_join_without_a_seam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("geo.readers.mps.lines._BLOCK_CHARACTERS", 37)
    rows = [f"{i},g,{i / 7:.6f},{-i / 3:.6f},{i}.5,0.0001,0.01" for i in range(200)]
    text = "uid,graph_uid,px_world,py_world,pz_world,inv_dist_std,dist_std\n" + "\n".join(rows) + "\n"
    (tmp_path / "p.csv.gz").write_bytes(gzip.compress(text.encode()))
    for path in (saved(tmp_path, text), tmp_path / "p.csv.gz", saved(tmp_path, text.replace("\n", "\r\n"), "c.csv")):
        got = read_points(path, [])
        assert got.uids.tolist() == list(range(200))
        np.testing.assert_array_equal(got.points_in_world[:, 2], np.arange(200) + 0.5)
    with pytest.raises(RecordingError, match=r"line 151 column px_world = 'x'"):
        read_points(saved(tmp_path, text.replace(f"{149 / 7:.6f}", "x", 1)), [])


# ---------------------------------------------------------------------------------------------------- gaze


@pytest.mark.samples
@pytest.mark.parametrize("name", GAZES)
def test_gaze_with_one_yaw(mps: Path, name: str) -> None:
    rows = parsed(text_of(mps / name))
    got = read_gaze(mps / name, notes := [])
    assert notes == [] and len(rows) == 123 and got.left is None
    assert got.timestamps_ns.tolist() == [int(r["tracking_timestamp_us"]) * 1000 for r in rows]
    want = cells(rows, "yaw_rads_cpf", "pitch_rads_cpf")
    np.testing.assert_array_equal(np.stack([got.yaw_rad, got.pitch_rad], axis=1), want)
    np.testing.assert_array_equal(got.yaw_interval_rad, cells(rows, "yaw_low_rads_cpf", "yaw_high_rads_cpf"))
    np.testing.assert_array_equal(got.pitch_interval_rad, cells(rows, "pitch_low_rads_cpf", "pitch_high_rads_cpf"))
    assert np.isnan(got.depth_m).all() and np.isnan(got.points_in_cpf()).all()
    assert (got.yaw_rad[0], got.pitch_rad[0]) == (0.894797, 0.039713)
    np.testing.assert_allclose(np.linalg.norm(got.directions_in_cpf(), axis=1), 1, atol=1e-12)


@pytest.mark.samples
def test_gaze_with_a_yaw_per_eye(mps: Path) -> None:
    rows = parsed(text_of(mps / VERGENCE))
    got = read_gaze(mps / VERGENCE, notes := [])
    assert got.left is not None and got.right is not None
    assert "in 117 of 123 rows the rays of the two eyes do not meet ahead" in notes[0]
    np.testing.assert_array_equal(got.depth_m, cells(rows, "depth_m")[:, 0])
    for side, eye in (("left", got.left), ("right", got.right)):
        np.testing.assert_array_equal(eye.yaw_rad, cells(rows, f"{side}_yaw_rads_cpf")[:, 0])
        want = cells(rows, f"{side}_yaw_low_rads_cpf", f"{side}_yaw_high_rads_cpf")
        np.testing.assert_array_equal(eye.yaw_interval_rad, want)
        np.testing.assert_array_equal(eye.origin_in_cpf, cells(rows, *(f"t{a}_{side}_eye_cpf" for a in "xyz")))
    assert got.session_uids == ("9123c598-cbed-4083-997a-e42195bde05f",)
    tools = pytest.importorskip("projectaria_tools.core.mps")
    for i, theirs in enumerate(tools.read_eyegaze(str(mps / VERGENCE))):
        _, yaw, pitch = tools.compute_depth_and_combined_gaze_direction(
            got.left.yaw_rad[i], got.right.yaw_rad[i], got.pitch_rad[i]
        )
        assert got.yaw_rad[i] == pytest.approx(yaw, abs=1e-6) == pytest.approx(theirs.yaw, abs=1e-6)
        assert got.pitch_rad[i] == pytest.approx(pitch, abs=1e-6)
        point = tools.get_eyegaze_point_at_depth(got.yaw_rad[i], got.pitch_rad[i], got.depth_m[i])
        np.testing.assert_allclose(got.points_in_cpf()[i], point, atol=1e-6)


def test_gaze_direction_is_that_of_the_official_function() -> None:
    tools = pytest.importorskip("projectaria_tools.core.mps")
    rng = np.random.default_rng(5)
    yaw, pitch = rng.uniform(-1.2, 1.2, (2, 50))
    for y, p, direction in zip(yaw, pitch, gaze_direction(yaw, pitch), strict=True):
        np.testing.assert_allclose(direction, tools.get_unit_vector_from_yaw_pitch(y, p), atol=1e-6)
        np.testing.assert_allclose(2.5 * direction, tools.get_eyegaze_point_at_depth(y, p, 2.5), atol=1e-5)


@pytest.mark.samples
def test_eyes_that_look_at_one_point(mps: Path, tmp_path: Path) -> None:
    """A made-up point 1.2 m ahead, 0.3 m to the left, 0.1 m below: both eyes turn to it, and the point comes back."""
    x, y, z = 0.3, -0.1, 1.2
    depth = math.sqrt(x * x + y * y + z * z)
    left, right = math.atan((x - 0.0315) / z), math.atan((x + 0.0315) / z)
    text = changed(
        head(mps / VERGENCE, 2),
        0,
        left_yaw_rads_cpf=left,
        right_yaw_rads_cpf=right,
        pitch_rads_cpf=math.atan(y / z),
        depth_m=depth,
    )
    got = read_gaze(saved(tmp_path, text), [])
    np.testing.assert_allclose(got.points_in_cpf()[0], [x, y, z], atol=1e-12)
    assert got.rays_meet_ahead().tolist() == [True, False]


@pytest.mark.samples
def test_gaze_traps(mps: Path, tmp_path: Path, samples_dir: Path) -> None:
    text = head(mps / GAZE, 5)
    got = read_gaze(saved(tmp_path, changed(changed(text, 1, yaw_rads_cpf="nan"), 2, depth_m="0")), [])
    assert np.isnan(got.directions_in_cpf()).all(axis=1).tolist() == [False, True, False, False, False]
    assert np.isnan(got.depth_m).all()
    assert read_gaze(saved(tmp_path, changed(text, 2, depth_m="1.5")), []).depth_m[2] == 1.5
    with pytest.raises(RecordingError, match=r"line 3 column yaw_rads_cpf = 12 is 90 degrees or more"):
        read_gaze(saved(tmp_path, changed(text, 1, yaw_rads_cpf=12)), [])
    stamp = parsed(text)[0]["tracking_timestamp_us"]
    with pytest.raises(TimeError, match="lines 2 and 5 have the same time stamp"):
        read_gaze(saved(tmp_path, changed(text, 3, tracking_timestamp_us=stamp)), [])
    lines = text.splitlines(True)
    assert len(read_gaze(saved(tmp_path, text + lines[1]), []).yaw_rad) == 5
    both = text.replace("\n", ",1\n").replace(",1\n", ",left_yaw_rads_cpf\n", 1)
    with pytest.raises(RecordingError, match="Aria Gen 2"):
        read_gaze(saved(tmp_path, both), [])
    clip = samples_dir / "adt_apartment_clip/original/mps/eye_gaze/general_eye_gaze.csv"
    assert read_gaze(clip, []).timestamps_ns[[0, -1]].tolist() == [87551170907000, 87551337547000]


# ---------------------------------------------------------------------------------------------------- hands


@pytest.mark.samples
@pytest.mark.parametrize("name", HANDS)
def test_hands_equal_an_independent_parse(mps: Path, name: str) -> None:
    rows = parsed(text_of(mps / name))
    for side, hand in zip(("left", "right"), read_hands(mps / name, []), strict=True):
        assert hand.side == side and len(hand.timestamps_ns) == 8
        order = np.argsort([int(r["tracking_timestamp_us"]) for r in rows])
        for t, i in enumerate(order.tolist()):
            row = rows[i]
            assert hand.timestamps_ns[t] == int(row["tracking_timestamp_us"]) * 1000
            confidence = float(row[f"{side}_tracking_confidence"])
            if confidence <= 0:
                for values in (hand.joints_in_device, hand.palm_in_device, hand.device_from_wrist, hand.confidence):
                    assert np.isnan(values[t]).all()
                continue
            assert hand.confidence[t] == confidence
            point = {k: cells([row], *(f"t{a}_{side}_landmark_{k}_device" for a in "xyz"))[0] for k in range(21)}
            for joint, landmark in {0: 5, 2: 6, 3: 7, 4: 0, 5: 8, 8: 1, 9: 11, 12: 2, 16: 3, 17: 17, 20: 4}.items():
                np.testing.assert_array_equal(hand.joints_in_device[t, joint], point[landmark])
            assert np.isnan(hand.joints_in_device[t, 1]).all()
            np.testing.assert_array_equal(hand.palm_in_device[t], point[20])
            quat = cells([row], *(f"q{a}_{side}_device_wrist" for a in "xyzw"))[0]
            pose = hand.device_from_wrist[t]
            np.testing.assert_allclose(pose[:3, :3], Rotation.from_quat(quat).as_matrix(), atol=1e-6)
            np.testing.assert_allclose(pose[:3, 3], point[5], atol=1e-6)  # the hand's frame begins at the wrist
            assert np.isfinite(hand.palm_normal_in_device[t]).all() == name.endswith("v2.csv")


@pytest.mark.samples
def test_joint_order_by_the_official_enum_and_by_bones(mps: Path) -> None:
    tools = pytest.importorskip("projectaria_tools.core.mps")
    enum = tools.hand_tracking.HandLandmark
    fingers = [f"{finger}_" for finger in ("INDEX", "MIDDLE", "RING", "PINKY")]
    names = ["WRIST", "", "THUMB_INTERMEDIATE", "THUMB_DISTAL", "THUMB_FINGERTIP"]
    names += [f + part for f in fingers for part in ("PROXIMAL", "INTERMEDIATE", "DISTAL", "FINGERTIP")]
    assert tuple(int(getattr(enum, n)) if n else -1 for n in names) == ARIA_LANDMARK_OF_JOINT
    theirs = tools.hand_tracking.read_hand_tracking_results(str(mps / HANDS[1]))
    left, _ = read_hands(mps / HANDS[1], [])
    seen = np.flatnonzero(np.isfinite(left.confidence))
    assert len(seen) == 3
    for t in seen:
        landmarks = np.array(theirs[t].left_hand.landmark_positions_device)
        kept = [j for j, n in enumerate(ARIA_LANDMARK_OF_JOINT) if n >= 0]
        np.testing.assert_allclose(
            left.joints_in_device[t, kept], landmarks[[ARIA_LANDMARK_OF_JOINT[j] for j in kept]], atol=1e-6
        )
        chains = [left.joints_in_device[t, [0, 2, 3, 4]]]
        chains += [left.joints_in_device[t, [0, *range(k, k + 4)]] for k in (5, 9, 13, 17)]
        for chain in chains:  # from the wrist outwards bones get shorter, and are as long as bones are
            bones = np.linalg.norm(np.diff(chain, axis=0), axis=1)
            assert (np.diff(bones) < 0.002).all() and 0.05 < bones[0] < 0.12 and 0.01 < bones[-1] < 0.04


@pytest.mark.samples
@pytest.mark.parametrize("name", PALMS)
def test_wrist_and_palm(mps: Path, name: str) -> None:
    rows = parsed(text_of(mps / name))
    for side, hand in zip(("left", "right"), read_hands(mps / name, []), strict=True):
        confidence = cells(rows, f"{side}_tracking_confidence")[:, 0]
        seen = confidence > 0
        np.testing.assert_array_equal(hand.confidence, np.where(seen, confidence, np.nan))
        for got, part in ((hand.joints_in_device[:, 0], "wrist"), (hand.palm_in_device, "palm")):
            want = cells(rows, *(f"t{a}_{side}_{part}_device" for a in "xyz"))
            np.testing.assert_array_equal(got, np.where(seen[:, None], want, np.nan))
        assert np.isnan(hand.joints_in_device[:, 1:]).all() and np.isnan(hand.device_from_wrist).all()
    assert int(seen.sum()) == 6  # right


@pytest.mark.samples
def test_hands_in_world(mps: Path) -> None:
    loop = read_closed_loop(mps / LOOP, [])
    _, right = read_hands(mps / PALMS[1], [])
    track = hand_track(right, loop.trajectory)
    seen = np.flatnonzero(np.isfinite(track.confidence))
    assert len(seen) > 0 and track.side == "right"
    for t in seen:
        pose = loop.trajectory.poses_at(right.timestamps_ns[t : t + 1])[0]
        point = pose[:3, :3] @ right.joints_in_device[t, 0] + pose[:3, 3]
        np.testing.assert_allclose(track.joints_in_world[t, 0], point, atol=1e-12)
    with pytest.raises(TimeError, match="no overlap in time"):  # 1762 s against 149 s: another recording
        hand_track(read_hands(mps / HANDS[0], [])[0], loop.trajectory)


@pytest.mark.samples
def test_hand_traps(mps: Path, tmp_path: Path) -> None:
    text = text_of(mps / HANDS[1])
    zero, _ = read_hands(saved(tmp_path, changed(text, 0, left_tracking_confidence=0)), [])
    assert np.isnan(zero.confidence[0]) and np.isnan(zero.joints_in_device[0]).all()
    empty, _ = read_hands(saved(tmp_path, changed(text, 0, left_tracking_confidence="")), [])
    assert np.isnan(empty.joints_in_device[0]).all()
    part, _ = read_hands(saved(tmp_path, changed(text, 0, ty_left_landmark_1_device="nan")), [])
    assert np.isnan(part.joints_in_device[0]).all(axis=1).nonzero()[0].tolist() == [1, 8]
    with pytest.raises(RecordingError, match=r"line 2 column left_tracking_confidence = 2 is no confidence"):
        read_hands(saved(tmp_path, changed(text, 0, left_tracking_confidence=2)), [])
    with pytest.raises(RecordingError, match=r"line 2 column tx_left_landmark_3_device = 90.5 or"):
        read_hands(saved(tmp_path, changed(text, 0, tx_left_landmark_3_device=90.5)), [])
    with pytest.raises(PoseError, match="line 2: quaternion"):
        read_hands(saved(tmp_path, changed(text, 0, qx_left_device_wrist=5)), [])
    stamp = parsed(text)[0]["tracking_timestamp_us"]
    with pytest.raises(TimeError, match="lines 2 and 3 have the same time stamp"):
        read_hands(saved(tmp_path, changed(text, 1, tracking_timestamp_us=stamp)), [])
    lines = text.splitlines(True)
    unseen = [line for i, line in enumerate(lines) if i in (0, 6, 7, 8)]
    read_hands(saved(tmp_path, "".join(unseen)), notes := [])
    assert notes == ["a.csv: no hand is seen in any of 3 rows"]


# ---------------------------------------------------------------------------------------------------- calibration


@pytest.mark.samples
def test_online_calibration(mps: Path) -> None:
    got = read_online_calibration(mps / CALIBRATION, notes := [])
    lines = (mps / CALIBRATION).read_text().splitlines()
    assert notes == [] and len(got.records) == len(lines) == 122
    raw = json.loads(lines[60])
    record = got.records[60]
    assert record.timestamp_ns == raw["tracking_timestamp_us"] * 1000 == got.timestamps_ns[60]
    assert list(record.cameras) == ["camera-slam-left", "camera-slam-right", "camera-rgb"]
    assert list(record.imus) == ["imu-left", "imu-right"]
    for entry in raw["CameraCalibrations"]:
        camera = record.cameras[entry["Label"]]
        assert camera.params.tolist() == entry["Projection"]["Params"] and len(camera.params) == 15
        w, (x, y, z) = entry["T_Device_Camera"]["UnitQuaternion"]
        want = Rotation.from_quat([x, y, z, w]).as_matrix()
        np.testing.assert_allclose(camera.device_from_camera[:3, :3], want, atol=1e-12)
        assert camera.device_from_camera[:3, 3].tolist() == entry["T_Device_Camera"]["Translation"]
    stamp = int(got.timestamps_ns[60])
    assert got.nearest(stamp + 49_999_999, 60_000_000) is record
    assert got.nearest(stamp + 50_000_001, 60_000_000) is got.records[61]
    assert got.nearest(stamp + 40_000_000, 1_000_000) is None
    assert got.nearest(int(got.timestamps_ns[0]) - 10**9, 10**8) is None
    tools = pytest.importorskip("projectaria_tools.core.mps")
    theirs = tools.read_online_calibration(str(mps / CALIBRATION))
    for calibration in theirs[60].camera_calibs:
        camera = record.cameras[calibration.get_label()]
        matrix = calibration.get_transform_device_camera().to_matrix()
        np.testing.assert_allclose(camera.device_from_camera, matrix, atol=1e-6)
        np.testing.assert_allclose(camera.params, calibration.get_projection_params(), rtol=1e-12)


@pytest.mark.samples
def test_calibration_traps(mps: Path, tmp_path: Path) -> None:
    lines = (mps / CALIBRATION).read_text().splitlines()[:3]
    bad = {
        "line 3 is no JSON": [*lines[:2], lines[2][:900]],
        "line 1 has no tracking_timestamp_us": [lines[0].replace("tracking_timestamp_us", "t")],
        "Params": [lines[0].replace('"Params":[', '"Params":[NaN,', 1)],
        "has \\(15, 16\\) parameters, here are 17": [lines[0].replace('"Params":[', '"Params":[1,2,', 1)],
        "unknown projection 'Other'": [lines[0].replace('"Name":"FisheyeRadTanThinPrism"', '"Name":"Other"', 1)],
        "'camera-rgb' is there twice": [lines[0].replace("camera-slam-left", "camera-rgb")],
        "tracking_timestamp_us = '148502610.0' is no int": [lines[0].replace("148502610", "148502610.0")],
        "holds no calibration": [""],
    }
    for message, broken in bad.items():
        with pytest.raises(RecordingError, match=message):
            read_online_calibration(saved(tmp_path, "\n".join(broken), "c.jsonl"), [])
    other = lines[1].replace("148602610", "148502610")
    with pytest.raises(TimeError, match="lines 1 and 2 have the same time stamp"):
        read_online_calibration(saved(tmp_path, "\n".join([lines[0], other]), "c.jsonl"), [])
    with pytest.raises(PoseError, match="line 1: quaternion"):
        read_online_calibration(saved(tmp_path, lines[0].replace("0.941575995616059", "2"), "c.jsonl"), [])
    off = saved(tmp_path, "\n".join([lines[0].replace("true", "false"), *lines]), "c.jsonl")
    with pytest.raises(TimeError):
        read_online_calibration(off, [])
    off = saved(tmp_path, "\n".join([lines[0].replace('{"Calibrated":true,"Proj', '{"Calibrated":false,"Proj', 1)]))
    assert list(read_online_calibration(off, notes := []).records[0].cameras) == ["camera-slam-right", "camera-rgb"]
    assert notes == ["a.csv: 'camera-slam-left' is not calibrated in 1 records and left out there"]


@pytest.mark.samples
def test_summaries(mps: Path, tmp_path: Path) -> None:
    got = read_summary(mps / "trajectory/summary.json", notes := [])
    assert notes == [] and got.version == "1.2.3" and len(got.statuses) == 7
    assert read_summary(mps / "hand_tracking/summary.json", []).statuses == {}
    broken = (mps / "trajectory/summary.json").read_text().replace("SUCCESS", "FAILURE", 1)
    read_summary(saved(tmp_path, broken.replace('"errors": []', '"errors": ["no light"]', 1)), notes)
    assert notes == ["a.csv: 'VRS Health Check' ended with 'FAILURE'", "a.csv: 'VRS Health Check': no light"]
    for bad in ("", "[1]", broken[:50], "[" * 100_000):
        with pytest.raises(RecordingError):
            read_summary(saved(tmp_path, bad), [])


# ---------------------------------------------------------------------------------------------------- fuzz


def mutated(data: bytes, rng: random.Random) -> bytes:
    """One to three small accidents."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        lines = data.split(b"\n")
        i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
        kind = rng.randrange(9)
        if kind == 0:
            data = data[:at]
        elif kind == 1:
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        elif kind == 2:
            data = data[:at] + data[at + rng.randint(1, 40) :]
        elif kind == 3:
            data = data[:at] + rng.choice([b",", b"\n", b'"', b"nan", b"-", b"1e400", b"\r", b"9" * 30]) + data[at:]
        elif kind == 4:
            lines[i], lines[j] = lines[j], lines[i]
            data = b"\n".join(lines)
        elif kind == 5:
            data = b"\n".join([*lines[:i], lines[i], *lines[i:]])
        elif kind == 6:
            data = b"\n".join([*lines[:i], *lines[i + 1 :]])
        else:
            row = lines[i].split(b",")
            row[rng.randrange(len(row))] = rng.choice([b"", b"0", b"-1", b"nan", b"inf", b"x", b"1e308", b"0.5", b"7"])
            data = b"\n".join([*lines[:i], b",".join(row), *lines[i + 1 :]])
        data = data or b"\n"
    return data


def number(text: str) -> float:
    value = float(text) if text.strip() else math.nan
    return value if math.isfinite(value) else math.nan


def check_trajectory(got: Any, rows: list[dict[str, str]]) -> None:
    known = {int(r["tracking_timestamp_us"]) * 1000: r for r in rows if r["graph_uid"].strip() == got.graph_uid}
    for i, stamp in enumerate(got.trajectory.timestamps_ns.tolist()):
        row = known[stamp]
        assert got.trajectory.world_from_body[i, :3, 3].tolist() == [number(row[f"t{a}_world_device"]) for a in "xyz"]
        assert 0 < got.quality[i] <= 1
    assert len(got.quality) <= len(rows)


def check_points(got: Any, rows: list[dict[str, str]]) -> None:
    known = {int(r["uid"]): r for r in rows if r["graph_uid"].strip() == got.graph_uid}
    for uid, point in zip(got.uids.tolist(), got.points_in_world.tolist(), strict=True):
        assert point == [number(known[uid][f"p{a}_world"]) for a in "xyz"]


def check_gaze(got: Any, rows: list[dict[str, str]]) -> None:
    known = {int(r["tracking_timestamp_us"]) * 1000: r for r in rows}
    assert sorted(known) == got.timestamps_ns.tolist()
    for i, stamp in enumerate(got.timestamps_ns.tolist()):
        row = known[stamp]
        np.testing.assert_array_equal(got.pitch_rad[i], number(row["pitch_rads_cpf"]))
        left = got.yaw_rad[i] if got.left is None else got.left.yaw_rad[i]
        np.testing.assert_array_equal(left, number(row["yaw_rads_cpf" if got.left is None else "left_yaw_rads_cpf"]))
        depth = number(row["depth_m"])
        np.testing.assert_array_equal(got.depth_m[i], depth if depth > 0 else math.nan)


def check_hands(got: Any, rows: list[dict[str, str]]) -> None:
    known = {int(r["tracking_timestamp_us"]) * 1000: r for r in rows}
    for hand in got:
        assert sorted(known) == hand.timestamps_ns.tolist()
        for i, stamp in enumerate(hand.timestamps_ns.tolist()):
            row = known[stamp]
            part = "landmark_5" if "tx_left_landmark_5_device" in row else "wrist"
            point = [number(row[f"t{a}_{hand.side}_{part}_device"]) for a in "xyz"]
            seen = number(row[f"{hand.side}_tracking_confidence"]) > 0 and not any(map(math.isnan, point))
            np.testing.assert_array_equal(hand.joints_in_device[i, 0], point if seen else [math.nan] * 3)


CHECKS: dict[str, Callable[[Any, list[dict[str, str]]], None]] = {
    "trajectory": check_trajectory,
    "points": check_points,
    "gaze": check_gaze,
    "vergence": check_gaze,
    "hands": check_hands,
    "palms": check_hands,
}


@pytest.mark.samples
@pytest.mark.parametrize("kind", CHECKS)
def test_fuzzed_tables_end_in_an_error_or_in_what_they_say(mps: Path, tmp_path: Path, kind: str) -> None:
    name, read, _ = READERS[kind]
    rng = random.Random(f"mps {kind}")
    data = head(mps / name, 12).encode()
    if kind == "palms":
        lines = text_of(mps / name).splitlines(True)
        data = "".join(
            [lines[0], *[line for line in lines[1:] if ",-1,0,0,0,0,0,0,-1," not in line], *lines[-6:]]
        ).encode()
    read_well = 0
    path = tmp_path / "a.csv"
    for case in range(200):
        broken = mutated(data, rng)
        path.write_bytes(broken)
        try:
            got = read(path, [])
        except GeoError as error:
            assert str(path) in str(error) or "a.csv" in str(error), case
            continue
        rows = parsed(broken.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n"))
        names = {k: k.strip() for k in rows[0]}
        CHECKS[kind](got, [{names[k]: v for k, v in row.items()} for row in rows if any(row.values())])
        read_well += 1
    assert 10 < read_well < 190, read_well


@pytest.mark.samples
@pytest.mark.parametrize("kind", ["points.gz", "calibration", "summary"])
def test_other_fuzzed_files_end_in_an_error_or_a_record(mps: Path, tmp_path: Path, kind: str) -> None:
    rng = random.Random(f"mps {kind}")
    plain = head(mps / POINTS, 200).encode()
    points = READERS["points"][1]
    sources: dict[str, tuple[bytes, Callable[[Path, list[str]], Any]]] = {
        "points.gz": (gzip.compress(plain, mtime=0), points),
        "calibration": ("\n".join((mps / CALIBRATION).read_text().splitlines()[:2]).encode(), read_online_calibration),
        "summary": ((mps / "trajectory/summary.json").read_bytes(), read_summary),
    }
    data, read = sources[kind]
    path = tmp_path / "a.bin"
    path.write_bytes(data)
    whole = read(path, [])
    for case in range(200):
        path.write_bytes(mutated(data, rng))
        try:
            got = read(path, [])
        except GeoError as error:
            assert "a.bin" in str(error), case
            continue
        if kind == "points.gz":  # the checksum lets nothing else through
            np.testing.assert_array_equal(got.points_in_world, whole.points_in_world)
        elif kind == "calibration":
            assert all(np.isfinite(c.params).all() for r in got.records for c in r.cameras.values())
