"""Trajectories in foreign files: order by format, exact time, gaps, disorder; and a trajectory in other frames."""

import gzip
import json
import re
from decimal import Decimal

import numpy as np
import pytest
from scipy.spatial.transform import Rotation, Slerp

from geo import se3
from geo.errors import GeoError, PoseError, RecordingError, TimeError
from geo.motion import (
    aligned_to_gravity,
    in_other_world,
    of_mounted,
    resample,
    row_poses,
    row_times,
    shifted_in_time,
    up_from_gravity,
)
from geo.readers.sfm_poses import read_colmap_images, read_epic_fields
from geo.readers.text_files import nanoseconds_of, seconds_text
from geo.readers.trajectory_files import (
    TRAJECTORY_FORMATS,
    NumberedPoses,
    read_csv,
    read_euroc,
    read_g2o,
    read_trajectory_file,
    read_tum,
    write_csv,
    write_euroc,
    write_g2o,
    write_trajectory_file,
    write_tum,
)
from geo.trajectory import Trajectory

NOW = 1_718_892_641_002_929_366
# one pose by hand: 90 degrees about x (y to z), at (1, 2, 3)
HALF = repr(float(np.sqrt(0.5)))
ABOUT_X = np.array([[1.0, 0, 0, 1], [0, 0, -1, 2], [0, 1, 0, 3], [0, 0, 0, 1]])
TUM = f"# timestamp tx ty tz qx qy qz qw\n1718892641.002929366 1 2 3 {HALF} 0 0 {HALF}\n"
EUROC = f"#timestamp [ns],x,y,z,q_RS_w [],q_RS_x [],q_RS_y [],q_RS_z [],v,w\n{NOW},1,2,3,{HALF},{HALF},0,0,9,9\n"
CSV = f"timestamp_ns,tx,ty,tz,qw,qx,qy,qz\n{NOW},1,2,3,{HALF},{HALF},0,0\n"
G2O = f"VERTEX_SE3:QUAT 7 1 2 3 {HALF} 0 0 {HALF}\nEDGE_SE3:QUAT 0 7 1 1 1 0 0 0 1 1 0 0\nFIX 7\n"
SAMPLES = {"tum": TUM, "euroc": EUROC, "csv": CSV}
READ = {"tum": read_tum, "euroc": read_euroc, "csv": read_csv}


def rows_of(name: str, stamps_ns, numbers) -> str:
    """A file of the format; ``numbers`` are tx ty tz qw qx qy qz as texts."""
    lines = {"tum": [], "euroc": ["#t,x,y,z,qw,qx,qy,qz"], "csv": ["timestamp_ns,tx,ty,tz,qw,qx,qy,qz"]}[name]
    for stamp, (tx, ty, tz, qw, qx, qy, qz) in zip(stamps_ns, numbers, strict=True):
        if name == "tum":
            lines.append(f"{seconds_text(stamp)} {tx} {ty} {tz} {qx} {qy} {qz} {qw}")
        else:
            lines.append(f"{stamp},{tx},{ty},{tz},{qw},{qx},{qy},{qz}")
    return "\n".join(lines) + "\n"


def first_line(name: str) -> int:
    return 1 if name == "tum" else 2


def random_trajectory(seed: int, count: int = 50, start: int = NOW) -> Trajectory:
    rng = np.random.default_rng(seed)
    stamps = start + np.cumsum(rng.integers(1, 50_000_000, count)).astype(np.int64)
    rotations = Rotation.random(count, random_state=seed).as_matrix()
    return Trajectory.from_rows(stamps, se3.from_rotation_translation(rotations, rng.normal(0, 5, (count, 3))))


@pytest.fixture
def put(tmp_path):
    def write(text, name="poses.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


# --- the order comes from the format --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLES)
def test_the_same_pose_in_each_format(put, name):
    warnings = []
    trajectory = READ[name](put(SAMPLES[name]), warnings)
    assert trajectory.timestamps_ns.tolist() == [NOW] and warnings == []
    np.testing.assert_allclose(trajectory.world_from_body[0], ABOUT_X, atol=1e-15)


def test_g2o_vertices_by_id_edges_ignored(put):
    warnings = []
    poses = read_g2o(put(G2O + "VERTEX_SE3:QUAT 2 0 0 0 0 0 0 1\n"), warnings)
    assert poses.numbers.tolist() == [2, 7] and warnings == []
    np.testing.assert_allclose(poses.world_from_body[1], ABOUT_X, atol=1e-15)


def test_g2o_other_lines_are_counted_in_a_warning(put):
    warnings = []
    read_g2o(put(G2O + "VERTEX_SE2 1 0 0 0\nVERTEX_SE2 2 0 0 0\n"), warnings)
    assert warnings == ["poses.txt: lines that are no VERTEX_SE3:QUAT and no edge are ignored (2 x 'VERTEX_SE2')"]
    with pytest.raises(RecordingError, match=r"no VERTEX_SE3:QUAT line \(it has 'VERTEX_SE2'\)"):
        read_g2o(put("VERTEX_SE2 1 0 0 0\n"), [])


def test_euroc_header_that_contradicts_the_order_is_refused(put):
    wrong = EUROC.replace("q_RS_w [],q_RS_x [],q_RS_y [],q_RS_z []", "q_RS_x [],q_RS_y [],q_RS_z [],q_RS_w []")
    with pytest.raises(RecordingError, match=r"line 1: the header gives the quaternion as x y z w"):
        read_euroc(put(wrong), [])


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("tum", EUROC.split("\n")[1], "commas mean CSV or EuRoC"),
        ("tum", TUM.replace("1718892641.002929366", str(NOW)), "line 2: time.*are these nanoseconds"),
        ("tum", "1.0 1 2 3 0 0 0 1\n2.0 1 2 3 0 0\n", "line 2 has 6 cells"),
        ("tum", "1.0 1 2 x3 0 0 0 1\n", "line 1: tz = 'x3' is no number"),
        ("tum", "nan 1 2 3 0 0 0 1\n", "time = 'nan' is no time"),
        ("tum", "1.0 1 2 1_0 0 0 0 1\n", "tz = '1_0' is no number"),
        ("tum", "1.0 1 2 3 ٠ 0 0 1\n", "qx = '٠' is no number"),
        ("tum", "1.0 1 2 1e999 0 0 0 1\n", "too large"),
        ("euroc", "1.5,1,2,3,1,0,0,0\n", "whole nanoseconds"),
        ("euroc", "1 1 2 3 1 0 0 0\n", "has 1 cells, fewer than 8"),
        ("euroc", "1,1,2,3,1,0,0,0,5,5\n2,1,2,3,1,0,0,0,5\n", "line 2 has 9 cells, the first row 10; is it cut off"),
        ("euroc", f"{2**63},1,2,3,1,0,0,0\n", "does not fit 64 bits"),
        ("csv", CSV.replace("qw,qx,qy,qz\n", "qx,qy,qz,w\n"), "line 1: columns are"),
    ],
)
def test_a_row_of_another_form_is_refused_with_its_line(put, name, text, fault):
    with pytest.raises(RecordingError, match=fault) as caught:
        READ[name](put(text), [])
    assert "poses.txt" in str(caught.value)


@pytest.mark.parametrize("name", SAMPLES)
def test_an_empty_file_is_an_error_and_never_an_empty_trajectory(put, name):
    for text in ("", "\n\n", "# only a comment\n", SAMPLES[name].split("\n")[0] + "\n", rows_of(name, [], [])):
        with pytest.raises(RecordingError):
            READ[name](put(text), [])
    with pytest.raises(RecordingError, match="cannot be read"):
        READ[name](put("").with_name("absent"), [])


def test_formats_are_named_and_never_guessed(put):
    with pytest.raises(RecordingError, match="unknown trajectory format 'ros'; known are tum, euroc, csv"):
        read_trajectory_file(put(TUM), "ros", [])
    assert len(read_trajectory_file(put(TUM), "tum", []).timestamps_ns) == 1


# --- P1, P3: quaternions --------------------------------------------------------------------------------------------

P1_ROW = "7 0.9238795 0 0.3826834 0 1 2 3 1 img.png"


def test_p1_a_colmap_row_is_world_to_camera_with_w_first(put):
    poses = read_colmap_images(put(P1_ROW + "\n\n"), [])
    world_from_camera = poses.world_from_camera[0]
    np.testing.assert_allclose(world_from_camera[:3, 3], [1.414213, -2, -2.828427], atol=1e-5)
    np.testing.assert_allclose(world_from_camera[:3, 2], [-0.707107, 0, 0.707107], atol=1e-5)
    p = se3.transform_points(se3.inverse(world_from_camera), np.array([0.5, -1.0, 4.0]))
    np.testing.assert_allclose([500 * p[0] / p[2] + 320, 500 * p[1] / p[2] + 240], [701.925, 331.326], atol=1e-2)


@pytest.mark.parametrize("seed", range(5))
def test_p1_every_reader_against_scipy(put, seed):
    """Random poses written by hand in each order; scipy (x y z w) is the judge."""
    rng = np.random.default_rng(seed)
    rotation, t = Rotation.random(random_state=seed), rng.normal(0, 3, 3)
    x, y, z, w = rotation.as_quat()
    want = se3.from_rotation_translation(rotation.as_matrix(), t)
    wxyz, position = [str(v) for v in (w, x, y, z)], [str(v) for v in t]
    row = [*position, *wxyz]
    for name in READ:
        found = READ[name](put(rows_of(name, [5], [row])), []).world_from_body[0]
        np.testing.assert_allclose(found, want, atol=1e-12)
    colmap = put(f"1 {' '.join(wxyz)} {' '.join(position)} 1 a.png\n\n")
    np.testing.assert_allclose(read_colmap_images(colmap, []).world_from_camera[0], np.linalg.inv(want), atol=1e-12)
    for images in ({"frame_0000000003.jpg": [w, x, y, z, *t]}, [[w, x, y, z, *t, "frame_0000000003.jpg"]]):
        epic = read_epic_fields(put(json.dumps({"camera": {}, "images": images, "points": []})), [])
        assert epic.numbers.tolist() == [3] and epic.names == ("frame_0000000003.jpg",)
        np.testing.assert_allclose(epic.world_from_body[0], np.linalg.inv(want), atol=1e-12)


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("sign", [1, -1])
def test_p3_interpolation_across_a_sign_flip_is_20_degrees(put, name, sign):
    q0 = Rotation.from_euler("z", 10, degrees=True).as_quat()
    q1 = sign * Rotation.from_euler("z", 30, degrees=True).as_quat()
    rows = [["0", "0", "0", *(str(v) for v in (q[3], q[0], q[1], q[2]))] for q in (q0, q1)]
    trajectory = READ[name](put(rows_of(name, [0, 100], rows)), [])
    middle = trajectory.poses_at(np.array([50], dtype=np.int64))[0, :3, :3]
    assert Rotation.from_matrix(middle).as_euler("xyz", degrees=True) == pytest.approx([0, 0, 20])
    reference = Slerp([0, 100], Rotation.from_quat([q0, q1]))(50)
    np.testing.assert_allclose(middle, reference.as_matrix(), atol=1e-12)


@pytest.mark.parametrize("name", SAMPLES)
def test_p3_quaternions_that_are_not_unit(put, name):
    """Within 1e-3 normalised, beyond refused, zero and NaN are gaps."""
    near = rows_of(name, [1], [["0", "0", "0", "0.7077", "0.7077", "0", "0"]])  # length 1.00084
    rotation = READ[name](put(near), []).world_from_body[0, :3, :3]
    np.testing.assert_allclose(rotation, ABOUT_X[:3, :3], atol=1e-12)
    for length in ("0.5", "0.9985", "1.0015", "-2"):
        rows = [["0", "0", "0", "1", "0", "0", "0"], ["0", "0", "0", length, "0", "0", "0"]]
        fault = rf"line {first_line(name) + 1}: quaternion .* has length {re.escape(length.strip('-'))}, not 1"
        with pytest.raises(PoseError, match=fault):
            READ[name](put(rows_of(name, [1, 2], rows)), [])
    warnings = []
    numbers = [["0", "0", "0", "1", "0", "0", "0"], ["0"] * 7, ["0", "0", "nan", "1", "0", "0", "0"]]
    trajectory = READ[name](put(rows_of(name, [1, 2, 3], numbers)), warnings)
    line = first_line(name)
    assert trajectory.timestamps_ns.tolist() == [1]
    assert warnings == [f"poses.txt: 2 rows without a finite pose are gaps (lines {line + 1}, {line + 2})"]


def test_a_time_stamp_that_slipped_into_a_position_is_noticed(put):
    with pytest.raises(PoseError, match=r"line 1: translation .* out of this world"):
        read_euroc(put(f"1,{NOW},2,3,1,0,0,0\n"), [])


def test_p3_written_quaternions_never_flip_from_row_to_row(put, tmp_path):
    angles = np.radians(np.arange(0, 720, 10.0))  # past 180 degrees w >= 0 alone would flip
    rotations = Rotation.from_rotvec(np.stack([angles * 0, angles * 0, angles], axis=1)).as_matrix()
    turning = Trajectory.from_rows(
        np.arange(len(angles), dtype=np.int64), se3.from_rotation_translation(rotations, np.zeros((len(angles), 3)))
    )
    write_tum(tmp_path / "t.txt", turning)
    quats = np.loadtxt(tmp_path / "t.txt")[:, 4:]
    assert (np.einsum("ij,ij->i", quats[:-1], quats[1:]) > 0.99).all()


# --- P4, P5, P6: time ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLES)
def test_p4_stamps_a_nanosecond_apart_stay_apart_through_file_and_back(put, tmp_path, name):
    stamps = [NOW, NOW + 1, NOW + 100, NOW + 355]
    assert len({float(s) for s in stamps}) < 4  # floats cannot hold them apart
    rows = [[str(i), "0", "0", "1", "0", "0", "0"] for i in range(4)]
    trajectory = READ[name](put(rows_of(name, stamps, rows)), [])
    assert trajectory.timestamps_ns.tolist() == stamps
    write_trajectory_file(tmp_path / "out.txt", name, trajectory)
    assert READ[name](tmp_path / "out.txt", []).timestamps_ns.tolist() == stamps


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1718892641.002929366", NOW),
        ("1718892641.0029293664", NOW),
        ("1718892641.0029293665", NOW),  # a tie goes to the even one
        ("1.718892641002929366e+09", NOW),
        ("-0.000000001", -1),
        ("5", 5_000_000_000),
        (".5", 500_000_000),
        ("5.", 5_000_000_000),
        ("0e9999", 0),
        ("1e-9999", 0),
        ("0.0000000009", 1),
        ("9223372036.854775807", 2**63 - 1),
        ("-9223372036.854775808", -(2**63)),
    ],
)
def test_p4_seconds_are_decimal_text(text, ns):
    assert nanoseconds_of(text, "t") == ns
    if len(text) < 22:
        assert ns == int((Decimal(text) * 10**9).to_integral_value()) if abs(ns) > 1 else True


def test_p4_seconds_and_nanoseconds_are_inverse():
    rng = np.random.default_rng(0)
    for ns in [0, 1, -1, 999_999_999, -999_999_999, *rng.integers(-(2**62), 2**62, 200).tolist()]:
        assert nanoseconds_of(seconds_text(ns), "t") == ns
    for text in ("9223372036.854775808", "1e10", "1e9999", "inf", "nan", "1_0", "", "0x1", "1" * 65):
        with pytest.raises(RecordingError):
            nanoseconds_of(text, "t")


@pytest.mark.parametrize("name", SAMPLES)
def test_p5_two_clocks_are_refused_with_both_ranges(put, name):
    rows = [["0", "0", "0", "1", "0", "0", "0"]] * 2
    images = np.array([5_000_456_000], dtype=np.int64)
    for stamps in ([5_000_123, 5_001_123], [NOW, NOW + 1_000_000]):  # microseconds as ns; UTC as device time
        trajectory = READ[name](put(rows_of(name, stamps, rows)), [])
        with pytest.raises(TimeError, match=f"from 5000456000 to 5000456000 ns, poses from {stamps[0]} to {stamps[1]}"):
            resample(trajectory, images)
    right = READ[name](put(rows_of(name, [5_000_123_000, 5_001_123_000], rows)), [])
    assert len(resample(right, images).trajectory.timestamps_ns) == 1


P6_TIMES = [0, 100, 200, 1500, 1600]


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [3, 0, 4, 2, 1]])
def test_p6_gaps_ends_and_disorder(put, name, order):
    times = [P6_TIMES[i] for i in order]
    trajectory = READ[name](put(rows_of(name, times, [[str(t / 1000), *"001000"] for t in times])), [])
    queries = np.array([-10, 0, 50, 150, 850, 1550, 1600, 1610], dtype=np.int64)
    result = resample(trajectory, queries, max_gap_ns=300)
    assert result.missing_ns.tolist() == [-10, 850, 1610]
    assert result.trajectory.timestamps_ns.tolist() == [0, 50, 150, 1550, 1600]
    np.testing.assert_allclose(result.trajectory.world_from_body[:, 0, 3], [0, 0.05, 0.15, 1.55, 1.6], atol=1e-12)


@pytest.mark.parametrize("name", SAMPLES)
def test_p6_equal_rows_merge_and_clashing_rows_name_both_lines(put, name):
    same = rows_of(name, [100, 100, 50], [["0.1", *"001000"], ["0.1", *"001000"], ["0.2", *"001000"]])
    assert READ[name](put(same), []).timestamps_ns.tolist() == [50, 100]
    opposite = rows_of(name, [100, 100], [["0.1", *"001000"], ["0.1", "0", "0", "-1", "0", "0", "0"]])
    assert READ[name](put(opposite), []).timestamps_ns.tolist() == [100]  # q and -q are one pose
    clash = rows_of(name, [100, 50, 100], [["0.1", *"001000"], ["0.2", *"001000"], ["0.9", *"001000"]])
    line = first_line(name)
    with pytest.raises(TimeError, match=rf"poses\.txt rows {line} and {line + 2} have the same time stamp 100 ns"):
        READ[name](put(clash), [])


def test_p6_g2o_and_epic_doubles(put):
    vertex = "VERTEX_SE3:QUAT 3 {} 0 0 0 0 0 1\n"
    assert read_g2o(put(vertex.format(1) + vertex.format(1)), []).numbers.tolist() == [3]
    with pytest.raises(RecordingError, match="line 1 and line 3 have the same number 3 but different poses"):
        read_g2o(put(vertex.format(1) + "FIX 3\n" + vertex.format(2)), [])
    twice = '{"images": {"frame_1.jpg": [1,0,0,0,%d,0,0], "frame_0001.jpg": [1,0,0,0,1,0,0]}}'
    assert read_epic_fields(put(twice % 1), []).numbers.tolist() == [1]
    with pytest.raises(RecordingError, match=r"'frame_1\.jpg' and image 'frame_0001\.jpg' have the same number 1"):
        read_epic_fields(put(twice % 2), [])
    hidden = '{"images": {"frame_1.jpg": [1,0,0,0,1,0,0], "frame_1.jpg": [1,0,0,0,2,0,0]}}'  # JSON would keep the last
    with pytest.raises(RecordingError, match="different poses"):
        read_epic_fields(put(hidden), [])


# --- the outside of a file ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SAMPLES, "g2o", "colmap", "epic"])
def test_crlf_bom_and_gzip_are_no_matter(put, name):
    text = {
        **SAMPLES,
        "g2o": G2O,
        "colmap": P1_ROW + "\n\n",
        "epic": '{"images":\n {"frame_1.jpg": [1, 0, 0, 0, 1, 2, 3]}}',
    }[name]
    read = {**READ, "g2o": read_g2o, "colmap": read_colmap_images, "epic": read_epic_fields}[name]

    def pose(data):
        found = read(put(data), [])
        return found.world_from_camera if name == "colmap" else found.world_from_body

    want = pose(text)
    crlf, bom = text.replace("\n", "\r\n").encode(), b"\xef\xbb\xbf" + text.encode()
    for data in (crlf, bom, b"\xef\xbb\xbf" + crlf, text.replace("\n", "\r").encode(), text.rstrip("\n").encode()):
        np.testing.assert_array_equal(pose(data), want)
        np.testing.assert_array_equal(pose(gzip.compress(data)), want)
    for cut in (3, 12, -1, -9):
        with pytest.raises(RecordingError, match="cut off or damaged"):
            pose(gzip.compress(text.encode())[:cut])


@pytest.mark.parametrize("data", [b"1.0 1 2 3 0 0 0 1\n\xff\xfe", TUM.encode("utf-16"), b"1.0 0 0 0 0 0 0 1\n\0\n"])
def test_what_is_no_text_is_refused(put, data):
    with pytest.raises(RecordingError, match=r"poses\.txt.*(no UTF-8 text|NUL byte)"):
        read_tum(put(data), [])


# --- round trips ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["txt", "gz"])
@pytest.mark.parametrize("name", TRAJECTORY_FORMATS)
def test_write_then_read_is_the_identity(tmp_path, name, ending):
    trajectory = random_trajectory(3)
    path = tmp_path / f"out.{ending}"
    write_trajectory_file(path, name, trajectory)
    again = read_trajectory_file(path, name, [])
    np.testing.assert_array_equal(again.timestamps_ns, trajectory.timestamps_ns)
    np.testing.assert_array_equal(again.world_from_body[:, :3, 3], trajectory.world_from_body[:, :3, 3])
    np.testing.assert_allclose(again.world_from_body, trajectory.world_from_body, atol=1e-14)
    first = path.read_bytes()
    write_trajectory_file(path, name, trajectory)
    assert path.read_bytes() == first and [p.name for p in tmp_path.iterdir()] == [path.name]


def test_g2o_round_trip_and_names_of_columns(tmp_path):
    poses = NumberedPoses(np.array([0, 5, 9], dtype=np.int64), random_trajectory(4, 3).world_from_body)
    write_g2o(tmp_path / "a.g2o", poses)
    again = read_g2o(tmp_path / "a.g2o", [])
    assert again.numbers.tolist() == [0, 5, 9]
    np.testing.assert_allclose(again.world_from_body, poses.world_from_body, atol=1e-14)
    one = Trajectory(np.array([NOW], dtype=np.int64), ABOUT_X[None])
    write_tum(tmp_path / "t", one)
    write_euroc(tmp_path / "e", one)
    write_csv(tmp_path / "c", one)
    row = [float(v) for v in (tmp_path / "t").read_text().split("\n")[1].split()]
    np.testing.assert_allclose(row[1:], [1, 2, 3, np.sqrt(0.5), 0, 0, np.sqrt(0.5)])
    for name in ("e", "c"):
        cells = (tmp_path / name).read_text().split("\n")[1].split(",")
        assert cells[0] == str(NOW)
        np.testing.assert_allclose([float(v) for v in cells[1:]], [1, 2, 3, np.sqrt(0.5), np.sqrt(0.5), 0, 0])


def test_nothing_to_write_is_an_error_and_leaves_no_file(tmp_path):
    none = Trajectory(np.zeros(0, dtype=np.int64), np.zeros((0, 4, 4)))
    broken = Trajectory(np.zeros(1, dtype=np.int64), np.full((1, 4, 4), np.nan))
    for name in TRAJECTORY_FORMATS:
        for trajectory in (none, broken):
            with pytest.raises(PoseError, match=r"x: (there is no pose to write|a pose is not finite)"):
                write_trajectory_file(tmp_path / "x", name, trajectory)
        with pytest.raises(RecordingError, match="cannot be written"):
            write_trajectory_file(tmp_path / "no folder" / "x", name, random_trajectory(1))
    assert list(tmp_path.iterdir()) == []


# --- P7, V2: names decide ---------------------------------------------------------------------------------------------

P7 = (
    "# comment\n# Number of images: 3\n"
    "4 1 0 0 0 0.4 0 0 1 00003.png\n\n"
    "1 1 0 0 0 0.1 0 0 1 sub dir/00001.png\n10.5 20.5 -1 30.5 40.5 7\n"
    "9 1 0 0 0 0.0 0 0 2 00000.png\n\n"
)


@pytest.mark.parametrize("end", ["", "\n\n", "# the end\n"])
def test_p7_blank_second_lines_ids_out_of_order_names_with_blanks(put, end):
    warnings = []
    poses = read_colmap_images(put(P7 + end), warnings)
    assert warnings == []
    found = dict(zip(poses.names, (-poses.world_from_camera[:, 0, 3]).tolist(), strict=True))
    assert found == {"00003.png": 0.4, "sub dir/00001.png": 0.1, "00000.png": 0.0}
    assert poses.names == ("00000.png", "00003.png", "sub dir/00001.png")
    assert poses.image_ids.tolist() == [9, 4, 1] and poses.camera_ids.tolist() == [2, 1, 1]


def test_p7_names_in_natural_order(put):
    names = ["f10.png", "f2.png", "f1.png", "f100.JPG"]
    text = "".join(f"{i} 1 0 0 0 {i} 0 0 1 {name}\n\n" for i, name in enumerate(names))
    assert read_colmap_images(put(text), []).names == ("f1.png", "f2.png", "f10.png", "f100.JPG")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (P7.replace("\n\n", "\n"), "line 4: expected the points of image '00003.png'.*Were empty lines taken out"),
        (P7.replace("10.5 20.5 -1 30.5", "10.5 20.5 -1"), "line 6: expected the points of image 'sub dir/00001.png'"),
        (P7[: P7.index("9 1 0 0")], "states 3 images and holds 2; is it cut off"),
        (P7[: P7.index("00000.png")], "line 7: expected 'IMAGE_ID QW QX"),
        (P7.replace("00003.png", "00000.png"), "lines 3 and 7 are both image '00000.png'"),
        (P7.replace("9 1 0 0", "4 1 0 0"), "lines 3 and 7 have the same IMAGE_ID 4"),
        (P7.replace("9 1 0 0", "9.5 1 0 0"), "line 7: IMAGE_ID = '9.5' is no whole number"),
        (P7.replace("9 1 0 0", "9 2 0 0"), "line 7: quaternion .* has length 2"),
        ("# nothing\n", "no usable pose"),
    ],
)
def test_p7_lines_out_of_step_doubles_and_cuts_are_refused(put, text, fault):
    with pytest.raises(GeoError, match=fault):
        read_colmap_images(put(text, "images.txt"), [])


def test_p7_gaps_and_a_number_of_images_that_is_too_small_are_warned_of(put):
    warnings = []
    text = P7.replace("9 1 0 0 0 0.0", "9 nan 0 0 0 0.0").replace("images: 3", "images: 2")
    assert read_colmap_images(put(text), warnings).names == ("00003.png", "sub dir/00001.png")
    assert warnings == [
        "poses.txt states 2 images and holds 3; all are read",
        "poses.txt: 1 rows without a finite pose are gaps (lines 7)",
    ]


def test_v2_epic_frames_by_number_not_by_text_or_position(put):
    names = ["frame_10.jpg", "frame_2.jpg", "P01/frame_1.jpg", "._frame_1.jpg", "Thumbs.db", "frame_100.JPG"]
    warnings = []
    images = {name: [1, 0, 0, 0, -i, 0, 0] for i, name in enumerate(names)}
    epic = read_epic_fields(put(json.dumps({"images": images})), warnings)
    assert epic.numbers.tolist() == [1, 2, 10, 100]
    assert epic.world_from_body[:, 0, 3].tolist() == [2, 1, 0, 5]
    assert epic.names == ("P01/frame_1.jpg", "frame_2.jpg", "frame_10.jpg", "frame_100.JPG")
    assert warnings == ["poses.txt: 2 images not named frame_<number>.jpg are left out ('._frame_1.jpg', 'Thumbs.db')"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "no JSON"),
        ("[]", "no EPIC-Fields file"),
        ('{"images": 3}', "no EPIC-Fields file"),
        ('{"images": {}}', "no usable pose"),
        ('{"images": {"a.jpg": [1,0,0,0,0,0,0]}}', "no usable pose"),
        ('{"images": {"frame_1.jpg": [1,0,0,0,0,0]}}', "'frame_1.jpg': expected"),
        ('{"images": {"frame_1.jpg": [1,0,0,0,0,0,"0"]}}', "'frame_1.jpg': expected"),
        ('{"images": {"frame_1.jpg": [1,0,0,0,0,0,true]}}', "'frame_1.jpg': expected"),
        ('{"images": {"frame_1.jpg": [2,0,0,0,0,0,0]}}', "image 'frame_1.jpg': quaternion .* has length 2"),
        ('{"images": {"frame_1.jpg": [1,0,0,0,0,0,1e999]}}', "too large"),
        ('{"images": {"frame_1.jpg": [1,0,0,0,0,0,1' + "0" * 400 + "]}}", "too large"),
        ('{"images": [[1,0,0,0,0,0,0]]}', r"images\[0\]: expected"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_epic_files_of_another_form_are_refused(put, text, fault):
    with pytest.raises(GeoError, match=fault):
        read_epic_fields(put(text), [])


def test_epic_nan_is_a_gap(put):
    warnings = []
    text = '{"images": {"frame_1.jpg": [1,0,0,0,0,0,NaN], "frame_2.jpg": [1,0,0,0,0,0,1]}}'
    assert read_epic_fields(put(text), warnings).numbers.tolist() == [2]
    assert warnings == ["poses.txt: 1 rows without a finite pose are gaps (images 'frame_1.jpg')"]


def test_numbered_poses_get_exact_times_at_a_rate():
    poses = NumberedPoses(np.array([1, 60, 3_600_001], dtype=np.int64), np.tile(np.eye(4), (3, 1, 1)))
    stamps = poses.at_rate(59.94, start_ns=NOW, first_number=1).timestamps_ns.tolist()
    assert stamps == [NOW, NOW + round(59 * 10**9 * 100 / 5994), NOW + round(Decimal(3_600_000 * 10**11) / 5994)]
    far = NumberedPoses(np.array([5_000_000_001], dtype=np.int64), np.eye(4)[None])
    assert far.at_rate(30).timestamps_ns.tolist() == [166_666_666_700_000_000]  # a float is 32 ns off
    for rate in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(TimeError, match="rate_hz"):
            poses.at_rate(rate)
    with pytest.raises(TimeError, match="do not fit"):
        poses.at_rate(1e-6)


# --- other times, other frames (P11 and rolling shutter) ----------------------------------------------------------------


def spinning(rate_rad_s: float, speed_m_s: float) -> Trajectory:
    """Turning about z and moving along x at constant rates; a pose every 10 ms for a second. Closed form below."""
    t = np.arange(101) * 0.01
    rotations = se3.rotation_from_axis_angle(np.stack([t * 0, t * 0, rate_rad_s * t], axis=1))
    return Trajectory.from_rows(
        (t * 1e9).round().astype(np.int64),
        se3.from_rotation_translation(rotations, np.stack([speed_m_s * t, t * 0, t * 0], axis=1)),
    )


@pytest.mark.parametrize(("stamped", "first", "last"), [("first", 0.0, 0.02), ("middle", -0.01, 0.01)])
@pytest.mark.parametrize("readout_sign", [1, -1])
def test_row_poses_are_those_of_the_closed_form(stamped, first, last, readout_sign):
    """Row r of 480 at stamp + readout (r - r0) / 479; angle = 2 t, x = 3 t at any time."""
    stamps = np.array([300_000_000, 505_000_000], dtype=np.int64)
    poses = row_poses(spinning(2.0, 3.0), stamps, readout_sign * 20_000_000, 480, stamped)
    assert poses.shape == (2, 480, 4, 4)
    for i, stamp in enumerate((0.3, 0.505)):
        t = stamp + readout_sign * np.linspace(first, last, 480)
        np.testing.assert_allclose(poses[i, :, 0, 3], 3 * t, atol=3e-9)  # half a nanosecond at 3 m/s, and rounding
        angle = np.arctan2(poses[i, :, 1, 0], poses[i, :, 0, 0])
        np.testing.assert_allclose(angle, 2 * t, atol=2e-9)


def test_row_times_are_exact_and_symmetric():
    times = row_times(np.array([NOW], dtype=np.int64), 30, 4, "middle")[0] - NOW
    assert times.tolist() == [-15, -5, 5, 15]
    assert (row_times(np.array([NOW], dtype=np.int64), 30, 4, "first")[0] - NOW).tolist() == [0, 10, 20, 30]
    assert row_times(np.array([NOW], dtype=np.int64), 30, 1, "middle").tolist() == [[NOW]]
    assert (row_times(np.array([NOW], dtype=np.int64), 0, 5, "middle") == NOW).all()
    for bad in ({"rows": 0}, {"rows": 10**6}, {"readout_ns": 10**12}):
        with pytest.raises(TimeError):
            row_times(np.array([0], dtype=np.int64), **{"readout_ns": 1, "rows": 2, "stamped_row": "first", **bad})


def test_rows_outside_the_trajectory_have_no_pose():
    poses = row_poses(spinning(1.0, 1.0), np.array([0], dtype=np.int64), 20_000_000, 5, "middle")
    assert np.isnan(poses[0, :2]).all() and np.isfinite(poses[0, 2:]).all()


def test_p11_height_is_along_minus_gravity():
    """10 degrees of tilt: A is higher although its z is lower."""
    a = np.radians(10)
    gravity = 9.81 * np.array([np.sin(a), 0, -np.cos(a)])
    up = up_from_gravity(gravity)
    points = np.array([[-3.0, 0, 0], [0, 0, 0.3]])
    np.testing.assert_allclose(points @ up, [0.520945, 0.295442], atol=1e-6)
    poses = np.tile(np.eye(4), (2, 1, 1))
    poses[:, :3, 3] = points
    turned = aligned_to_gravity(Trajectory(np.array([0, 1], dtype=np.int64), poses), up)
    np.testing.assert_allclose(turned.trajectory.world_from_body[:, 2, 3], [0.520945, 0.295442], atol=1e-6)
    np.testing.assert_allclose(turned.world_from_source_world[:3, :3] @ up, [0, 0, 1], atol=1e-15)


@pytest.mark.parametrize("seed", range(4))
def test_p11_any_up_becomes_z_and_nothing_else_changes(seed):
    rng = np.random.default_rng(seed)
    for up in (*rng.normal(size=(20, 3)), np.array([0, 0, -1.0]), np.array([0, 0, 1e-9]), np.array([1e-12, 0, -1e3])):
        trajectory = random_trajectory(seed, 5)
        turned = aligned_to_gravity(trajectory, up)
        heights = trajectory.world_from_body[:, :3, 3] @ (up / np.linalg.norm(up))
        np.testing.assert_allclose(turned.trajectory.world_from_body[:, 2, 3], heights, atol=1e-9)
        assert se3.is_rigid(turned.trajectory.world_from_body, 1e-9).all()
        before, after = (
            se3.inverse(t.world_from_body[:1]) @ t.world_from_body for t in (trajectory, turned.trajectory)
        )
        np.testing.assert_allclose(before, after, atol=1e-12)


@pytest.mark.parametrize("gravity", [[0.0, 0, 0], [np.nan, 0, 1], [np.inf, 0, 0]])
def test_p11_no_gravity_is_said_not_guessed(gravity):
    with pytest.raises(PoseError, match="leave gravity unknown"):
        up_from_gravity(np.array(gravity))


def test_body_to_camera_world_and_clock():
    """Camera 1 m ahead (x) of a body that has turned 90 degrees about z at (5, 0, 0): the camera is at (5, 1, 0)."""
    world_from_body = se3.from_rotation_translation(
        se3.rotation_from_axis_angle(np.array([0, 0, np.pi / 2])), np.array([5.0, 0, 0])
    )
    trajectory = Trajectory(np.array([NOW], dtype=np.int64), world_from_body[None])
    body_from_camera = se3.from_rotation_translation(np.eye(3), np.array([1.0, 0, 0]))
    np.testing.assert_allclose(
        of_mounted(trajectory, body_from_camera).world_from_body[0, :3, 3], [5, 1, 0], atol=1e-12
    )
    back = of_mounted(of_mounted(trajectory, body_from_camera), se3.inverse(body_from_camera))
    np.testing.assert_allclose(back.world_from_body, trajectory.world_from_body, atol=1e-12)
    moved = in_other_world(trajectory, body_from_camera)
    np.testing.assert_allclose(moved.world_from_body[0, :3, 3], [6, 0, 0], atol=1e-12)
    assert shifted_in_time(trajectory, -366).timestamps_ns.tolist() == [NOW - 366]
    with pytest.raises(TimeError, match="out of 64 bits"):
        shifted_in_time(trajectory, 2**63 - 1)
    with pytest.raises(PoseError, match="body_from_camera is not a rigid"):
        of_mounted(trajectory, np.diag([1.0, 1, -1, 1]))


# --- real files, and broken ones ----------------------------------------------------------------------------------------


@pytest.mark.samples
def test_hilti_the_same_lidar_poses_as_tum_and_as_g2o(samples_dir):
    folder = samples_dir / "hilti2022_fisheye_rig" / "lidar"
    warnings = []
    tum, g2o = read_tum(folder / "fastlio2_odom.txt", warnings), read_g2o(folder / "fastlio2.g2o", warnings)
    assert warnings == [] and len(tum.timestamps_ns) == len(g2o.numbers) == 1255
    assert tum.timestamps_ns[:2].tolist() == [1_646_304_541_927_203_655, 1_646_304_542_027_220_488]
    np.testing.assert_array_equal(tum.world_from_body, g2o.world_from_body)
    np.testing.assert_allclose(tum.world_from_body[2, :3, 3], [0.000289954, -0.014138609, -0.019758874])
    assert Rotation.from_matrix(tum.world_from_body[2, :3, :3]).as_quat() == pytest.approx(
        [0.006954480, -0.001172013, -0.000173075, 0.999975116], abs=1e-8
    )


def mutated(rng: np.random.Generator, data: bytes) -> bytes:
    """One of: cut, flipped bytes, dropped or doubled cell, a huge or odd number, a line moved or lost."""
    kind = int(rng.integers(6))
    if kind == 0:
        return data[: int(rng.integers(len(data)))]
    if kind == 1:
        out = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            out[int(rng.integers(len(out)))] = int(rng.integers(256))
        return bytes(out)
    lines = data.split(b"\n")
    i = int(rng.integers(len(lines)))
    if kind == 2:
        return b"\n".join(lines[:i] + lines[i + 1 :])
    if kind == 3:
        j = int(rng.integers(len(lines)))
        lines[i], lines[j] = lines[j], lines[i]
        return b"\n".join(lines)
    tokens = list(re.finditer(rb"[^\s,\[\]]+", data))
    token = tokens[int(rng.integers(len(tokens)))]
    odd = [b"", b"1e308", b"-1e308", b"1e999", b"nan", b"inf", b"9" * 30, b"-0", b"1e-320", b"x", b"0x10", b'"', b"1 1"]
    return data[: token.start()] + odd[int(rng.integers(len(odd)))] + data[token.end() :]


@pytest.mark.parametrize("name", ["tum", "euroc", "csv", "g2o", "colmap", "epic"])
def test_fuzz_ends_in_a_clean_error_or_a_sound_read(put, tmp_path, name):
    """200 broken files a reader; what is read is finite, rigid, sorted and unique. (A cut at a line's end shows not.)"""
    trajectory = random_trajectory(9, 6)
    numbered = NumberedPoses(np.arange(6, dtype=np.int64), trajectory.world_from_body)
    path = tmp_path / "good"
    if name in TRAJECTORY_FORMATS:
        write_trajectory_file(path, name, trajectory)
    elif name == "g2o":
        write_g2o(path, numbered)
    else:
        w2c = se3.inverse(numbered.world_from_body)
        rows = np.concatenate([se3.quat_wxyz_from_rotation(w2c[:, :3, :3]), w2c[:, :3, 3]], axis=1).tolist()
        if name == "colmap":
            lines = [f"{i} {' '.join(map(str, row))} 1 im {i}.png\n1.5 2.5 -1\n" for i, row in enumerate(rows)]
            path.write_text("# Number of images: 6\n" + "".join(lines))
        else:
            path.write_text(json.dumps({"images": {f"frame_{i}.jpg": row for i, row in enumerate(rows)}}, indent=0))
    data = path.read_bytes()
    read = {**READ, "g2o": read_g2o, "colmap": read_colmap_images, "epic": read_epic_fields}[name]
    rng = np.random.default_rng(20)
    outcomes = {"read": 0, "refused": 0}
    for _ in range(200):
        broken = put(mutated(rng, data), "broken")
        try:
            found = read(broken, [])
        except GeoError as error:
            assert "broken" in str(error), error
            outcomes["refused"] += 1
            continue
        outcomes["read"] += 1
        poses = found.world_from_camera if name == "colmap" else found.world_from_body
        key = {"colmap": "names", "g2o": "numbers", "epic": "numbers"}.get(name, "timestamps_ns")
        keys = list(getattr(found, key))
        assert len(poses) == len(keys) == len(set(keys)) > 0
        assert se3.is_rigid(poses, 1e-9).all()
        if name != "colmap":
            assert (np.diff(keys) > 0).all()
    assert outcomes["refused"] > 60 and outcomes["read"] > 2, outcomes


@pytest.mark.parametrize("name", TRAJECTORY_FORMATS)
def test_a_file_cut_anywhere_keeps_what_is_before_the_last_row(put, tmp_path, name):
    """Every length: an error, or the original's rows. A last number that is cut shows in the quaternion's length, to
    1e-3; at worst (a component of 0.045 lost) that is 2 asin(0.045) = 0.09 rad of the last row."""
    trajectory = random_trajectory(2, 3)
    write_trajectory_file(tmp_path / "good", name, trajectory)
    data = (tmp_path / "good").read_bytes()
    for length in range(len(data)):
        try:
            found = READ[name](put(data[:length], "cut"), [])
        except GeoError:
            continue
        count = len(found.timestamps_ns)
        assert found.timestamps_ns.tolist() == trajectory.timestamps_ns[:count].tolist()
        np.testing.assert_allclose(found.world_from_body, trajectory.world_from_body[:count], atol=0.09)
        np.testing.assert_allclose(found.world_from_body[:-1], trajectory.world_from_body[: count - 1], atol=1e-14)
