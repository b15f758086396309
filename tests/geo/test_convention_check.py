"""The convention check: every look-alike is caught on real and simulated data, and the right reading is left alone."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geo import se3
from geo.cameras import PinholeCamera, camera_from_params
from geo.convention_check import CheckReport, Topic, Verdict, check_conventions, exchanged
from geo.convention_check.epipolar import arc_angle
from geo.convention_check.features import FeatureStore
from geo.convention_check.hypotheses import (
    RayReadAsZ,
    Scaled,
    ZReadAsRay,
    rolled_quaternions,
    shifted_principal_point,
)
from geo.convention_check.pairs import MAX_PAIRS, frame_pairs
from geo.convention_check.records import Measured
from geo.convention_check.registration import check_registration, outlines
from geo.convention_check.statistics import compare
from geo.readers import open_recording
from geo.readers.kalibr import read_kalibr
from geo.readers.trajectory_files import read_g2o
from geo.recording import CameraStream, DepthStream, Recording, ScenePoints
from geo.trajectory import Trajectory
from geo.video import ImageFrames
from geo.world import Gravity, World

FLIP = np.diag([1.0, -1.0, -1.0, 1.0])
UNKNOWN_UP = World(metric=True, gravity=Gravity.UNKNOWN, up_sigma_rad=float("nan"))


# --- what is swapped --------------------------------------------------------------------------------------------------


def with_poses(recording: Recording, change: Callable[[np.ndarray], np.ndarray]) -> Recording:
    """Poses as a wrong reader gives them: changed in the files' own world, then turned to +z up as before."""
    turn = recording.world.world_from_source_world
    poses = turn @ change(se3.inverse(turn) @ recording.trajectory.world_from_body)
    return replace(recording, trajectory=Trajectory(recording.trajectory.timestamps_ns, poses))


def with_depth(recording: Recording, change: Callable[[Any, PinholeCamera], Any]) -> Recording:
    depth = recording.depth
    return replace(recording, depth=replace(depth, frames=change(depth.frames, depth.camera)))


@dataclass(frozen=True)
class Swap:
    topic: Topic
    says: str
    make: Callable[[Recording], Recording]


POSE_SWAPS = {
    "inverted": Swap(Topic.DIRECTION, "inverted", lambda r: with_poses(r, se3.inverse)),
    "opengl": Swap(Topic.AXES, "OpenGL", lambda r: with_poses(r, lambda p: p @ FLIP)),
    "xyzw read as wxyz": Swap(
        Topic.QUATERNION, "xyzw, read as wxyz", lambda r: with_poses(r, lambda p: rolled_quaternions(p, -1))
    ),
    "wxyz read as xyzw": Swap(
        Topic.QUATERNION, "wxyz, read as xyzw", lambda r: with_poses(r, lambda p: rolled_quaternions(p, 1))
    ),
}
DEPTH_SWAPS = {
    "ray read as z": Swap(Topic.DEPTH_KIND, "along the ray, read as z", lambda r: with_depth(r, ZReadAsRay)),
    "z read as ray": Swap(Topic.DEPTH_KIND, "is z, read as the distance", lambda r: with_depth(r, RayReadAsZ)),
    "mm read as m": Swap(
        Topic.DEPTH_UNIT, "1000 times smaller", lambda r: with_depth(r, lambda f, _: Scaled(f, 1000.0))
    ),
    "m read as mm": Swap(Topic.DEPTH_UNIT, "1000 times larger", lambda r: with_depth(r, lambda f, _: Scaled(f, 1e-3))),
    "mm read as TUM": Swap(Topic.DEPTH_UNIT, "5 times larger", lambda r: with_depth(r, lambda f, _: Scaled(f, 0.2))),
}


def alarms(report: CheckReport) -> dict[Topic, str]:
    return {finding.topic: finding.look_alike for finding in report.alarms}


def finding(report: CheckReport, topic: Topic) -> Any:
    return next(item for item in report.findings if item.topic is topic)


def check_caught(recording: Recording, store: FeatureStore, swap: Swap) -> None:
    report = check_conventions(swap.make(recording), store)
    assert set(alarms(report)) == {swap.topic}, alarms(report)
    for found in report.alarms:
        assert swap.says in found.look_alike
        assert found.look_alike_residual < 0.85 * found.claimed_residual and found.pairs >= 3


# --- the kitchen: sensor depth, colour 26 mm beside it ---------------------------------------------------------------


@pytest.fixture(scope="module")
def store() -> FeatureStore:
    return FeatureStore()


@pytest.fixture(scope="module")
def kitchen(samples_dir) -> Recording:
    return open_recording(samples_dir / "sevenscenes_redkitchen")


@pytest.mark.samples
def test_the_kitchen_as_it_is(kitchen, store):
    report = check_conventions(kitchen, store)
    assert report.silent, alarms(report)
    for topic in (Topic.DIRECTION, Topic.AXES, Topic.QUATERNION, Topic.DEPTH_KIND, Topic.DEPTH_UNIT):
        found = finding(report, topic)
        assert found.verdict is Verdict.FITS, found
        assert found.claimed_residual < 0.01 < found.look_alike_residual and found.log_ratio > 3 * found.sigma > 0
    assert finding(report, Topic.REGISTRATION).verdict is Verdict.FITS
    centre = finding(report, Topic.PIXEL_CENTRE)
    assert centre.verdict is Verdict.UNDECIDED and "half a pixel changes the residual by" in centre.reason


@pytest.mark.samples
@pytest.mark.slow
@pytest.mark.parametrize("name", [*POSE_SWAPS, *DEPTH_SWAPS])
def test_the_kitchen_with_one_thing_swapped(kitchen, store, name):
    check_caught(kitchen, store, (POSE_SWAPS | DEPTH_SWAPS)[name])


@pytest.mark.samples
def test_colour_of_the_kitchen_is_not_registered_to_depth(samples_dir, tmp_path, store):
    """The folder without its calibration is read as registered; the measured offset and focal length are found."""
    source = samples_dir / "sevenscenes_redkitchen"
    folder = tmp_path / "kitchen"
    folder.mkdir()
    for file in source.iterdir():
        if file.name not in ("calibration.json", "narrations.jsonl"):
            (folder / file.name).symlink_to(file)
    recording = open_recording(folder)
    assert any("registered" in text for text in recording.warnings)
    report = check_conventions(recording, store)
    assert set(alarms(report)) == {Topic.REGISTRATION}
    found = finding(report, Topic.REGISTRATION)
    assert "(-26, -4) mm" in found.look_alike and "focal length x 0.90" in found.look_alike  # 528 / 585 = 0.903


@pytest.mark.samples
def test_an_offset_that_is_too_large(kitchen, store):
    offset = kitchen.depth.reference_from_camera.copy()
    offset[:3, 3] *= 3
    report = check_conventions(replace(kitchen, depth=replace(kitchen.depth, reference_from_camera=offset)), store)
    assert Topic.REGISTRATION in alarms(report)


def write_kitchen(
    source: Path, folder: Path, numbers: range, pose: Callable[[np.ndarray], np.ndarray], counts: int
) -> Path:
    """Some of the kitchen's frames with poses and depth counts changed in the files."""
    import cv2

    folder.mkdir()
    for name in ("camera-intrinsics.txt",):
        shutil.copy(source / name, folder / name)
    raw = json.loads((source / "calibration.json").read_text())
    (folder / "calibration.json").write_text(json.dumps({key: raw[key] for key in raw if key != "note"}))
    for number in numbers:
        stem = f"frame-{number:06d}"
        shutil.copy(source / f"{stem}.color.jpg", folder)
        np.savetxt(folder / f"{stem}.pose.txt", pose(np.loadtxt(source / f"{stem}.pose.txt")))
        depth = cv2.imread(str(source / f"{stem}.depth.png"), cv2.IMREAD_UNCHANGED)
        depth = np.where(depth == 65535, 0, depth.astype(np.int64) * counts)
        cv2.imwrite(str(folder / f"{stem}.depth.png"), np.where(depth > 65534, 0, depth).astype(np.uint16))
    return folder


@pytest.mark.samples
@pytest.mark.parametrize(
    ("pose", "counts", "topic", "says"),
    [
        (lambda p: p, 1, None, ""),
        (np.linalg.inv, 1, Topic.DIRECTION, "inverted"),
        (lambda p: p @ FLIP, 1, Topic.AXES, "OpenGL"),
        (lambda p: rolled_quaternions(p[None], 1)[0], 1, Topic.QUATERNION, "wxyz, read as xyzw"),
        (lambda p: p, 5, Topic.DEPTH_UNIT, "5 times smaller"),
    ],
    ids=["right", "inverted", "opengl", "quaternion", "tum counts"],
)
def test_files_of_the_kitchen_swapped(samples_dir, tmp_path, pose, counts, topic, says):
    source = samples_dir / "sevenscenes_redkitchen"
    recording = open_recording(write_kitchen(source, tmp_path / "k", range(300, 520, 10), pose, counts))
    report = check_conventions(recording)
    found = alarms(report)
    assert set(found) == (set() if topic is None else {topic}), found
    assert topic is None or says in found[topic]


@pytest.mark.samples
def test_points_of_the_scene_judge_poses(kitchen, store):
    """Points taken from the depth of some frames, as SLAM gives them; without pictures and with one depth pair left."""
    depth = kitchen.depth
    rows = np.arange(0, 200, 25)
    poses = kitchen.trajectory.poses_at(depth.timestamps_ns[rows]) @ depth.reference_from_camera
    clouds = []
    for row, pose in zip(rows, poses, strict=True):
        z = depth.frames.read(int(row))[::16, ::16]
        pixels = depth.camera.pixel_grid()[::16, ::16][z > 0]
        clouds.append(se3.transform_points(pose, depth.camera.normalised_points(pixels) * z[z > 0][:, None]))
    cloud = np.concatenate(clouds)
    recording = replace(kitchen, points=ScenePoints(cloud, np.full(len(cloud), np.nan)))
    from geo.convention_check.points import point_views

    views = point_views(recording)
    right = views.measure(recording)
    assert right.typical() < 0.02
    for swap in POSE_SWAPS.values():
        result = compare(right, views.measure(swap.make(recording)))
        assert result.claim_is_better, swap.says
    assert compare(views.measure(POSE_SWAPS["inverted"].make(recording)), right).other_is_better


# --- no depth: the fox -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fox(samples_dir) -> Recording:
    return open_recording(samples_dir / "ngp_fox")


@pytest.mark.samples
def test_the_fox_as_it_is(fox, store):
    report = check_conventions(fox, store)
    assert report.silent, alarms(report)
    for topic in (Topic.DIRECTION, Topic.AXES, Topic.QUATERNION):
        found = finding(report, topic)
        assert found.verdict is Verdict.FITS and found.claimed_residual < 2 and found.unit == "px"
    unit = finding(report, Topic.DEPTH_UNIT)
    assert unit.verdict is Verdict.UNDECIDED and unit.reason == "no depth"


@pytest.mark.samples
@pytest.mark.slow
@pytest.mark.parametrize("name", POSE_SWAPS)
def test_the_fox_with_one_thing_swapped(fox, store, name):
    check_caught(fox, store, POSE_SWAPS[name])


@pytest.mark.samples
def test_the_fox_with_opencv_axes_in_its_file(samples_dir, tmp_path):
    """transforms.json whose matrices are OpenCV's already: the reader turns y and z, as the format says."""
    folder = tmp_path / "fox"
    folder.mkdir()
    (folder / "images").mkdir()
    data = json.loads((samples_dir / "ngp_fox" / "transforms.json").read_text())
    listed = [frame for frame in data["frames"] if (samples_dir / "ngp_fox" / frame["file_path"]).is_file()]
    data["frames"] = listed[:16]
    for frame in data["frames"]:
        shutil.copy(samples_dir / "ngp_fox" / frame["file_path"], folder / frame["file_path"])
        frame["transform_matrix"] = (np.array(frame["transform_matrix"]) @ FLIP).tolist()
    (folder / "transforms.json").write_text(json.dumps(data))
    assert alarms(check_conventions(open_recording(folder))) == {
        Topic.AXES: "camera axes are OpenGL's (y up, z backward)"
    }


# --- a rig of five fisheyes ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rig(samples_dir) -> Recording:
    folder = samples_dir / "hilti2022_fisheye_rig"
    files = ["0-1", *"234"]
    notes: list[str] = []
    chains = [read_kalibr(folder / f"calibration/calib_3_cam{name}-camchain-imucam.yaml", notes) for name in files]
    stamps = np.arange(3, dtype=np.int64) * 100_000_000
    streams = []
    for number, entry in enumerate(camera for chain in chains for camera in chain.cameras):
        pictures = [folder / f"images/{5 * t + number}.jpg" for t in range(3)]
        frames = ImageFrames(pictures, entry.camera.size_wh_px)
        streams.append(CameraStream(f"cam{number}", entry.camera, stamps, se3.inverse(entry.camera_from_imu), frames))
    poses = read_g2o(folder / "lidar/fastlio2.g2o", notes)
    trajectory = Trajectory(stamps, poses.world_from_body[[list(poses.numbers).index(k) for k in range(3)]])
    return Recording("hilti", streams[0], None, trajectory, UNKNOWN_UP, folder, "kalibr", others=tuple(streams[1:]))


@pytest.mark.samples
def test_the_rig_as_it_is(rig, store):
    report = check_conventions(rig, store)
    assert report.silent, alarms(report)
    found = finding(report, Topic.EXCHANGE)
    assert found.claimed_residual < 1 and "cam0" not in found.reason and "cam1" not in found.reason
    assert "cam3 and cam4 are exchanged" in found.reason  # these two see nothing in common, and the rig stands still


@pytest.mark.samples
@pytest.mark.parametrize("pair", [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4)])
def test_exchanged_videos_of_the_rig(rig, store, pair):
    """Also of the stereo pair that looks the same way: only in front against behind tells these two apart."""
    a, b = (f"cam{number}" for number in pair)
    report = check_conventions(exchanged(rig, {a: b, b: a}), store)
    assert alarms(report) == {Topic.EXCHANGE: f"the videos of {a} and {b} are exchanged"}
    assert finding(report, Topic.EXCHANGE).look_alike_residual < 1


# --- true depth of a fisheye, three frames ---------------------------------------------------------------------------


class Still:
    """Depth images in memory."""

    def __init__(self, images: list[np.ndarray]) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def read(self, index: int) -> np.ndarray:
        return self.images[index]


@pytest.fixture(scope="module")
def apartment(samples_dir) -> Recording:
    """The left SLAM camera: z of its fisheye pixels looked up along the rays of a pinhole with the same axes."""
    import cv2

    folder = samples_dir / "adt_apartment_clip/decoded"
    entry = json.loads((folder / "cameras.json").read_text())["camera-slam-left"]
    rows = [row for row in json.loads((folder / "frames.json").read_text()) if row["camera"] == "camera-slam-left"]
    fisheye = camera_from_params("FISHEYE624", tuple(entry["image_size_wh"]), entry["params"])
    pinhole = PinholeCamera(400, 400, 160.0, 160.0, 199.5, 199.5)
    at = np.rint(fisheye.project(pinhole.normalised_points(pinhole.pixel_grid())).pixels_xy).astype(np.int64)
    seen = ((at >= 0) & (at < fisheye.size_wh_px)).all(axis=-1)
    depths = []
    for row in rows[:2]:
        raw = cv2.imread(str(folder / row["depth"]), cv2.IMREAD_UNCHANGED)
        z = np.where(seen, raw[np.where(seen, at[..., 1], 0), np.where(seen, at[..., 0], 0)] * 1e-3, np.nan)
        depths.append(np.where(z > 0, z, np.nan).astype(np.float32))
    stamps = np.array([row["capture_timestamp_ns"] for row in rows], dtype=np.int64)
    poses = np.array([se3.check_rigid(np.array(row["T_world_camera"]), "adt") for row in rows])
    frames = ImageFrames([folder / row["image"] for row in rows], fisheye.size_wh_px)
    return Recording(
        "adt",
        CameraStream("slam-left", fisheye, stamps, np.eye(4), frames),
        DepthStream("depth", pinhole, stamps[:2], np.eye(4), Still(depths)),
        Trajectory(stamps, poses),
        UNKNOWN_UP,
        folder,
        "adt",
    )


@pytest.mark.samples
def test_the_apartment_as_it_is(apartment, store):
    report = check_conventions(apartment, store)
    assert report.silent, alarms(report)


# --- the simulator: fisheye, depth camera beside it, noise in everything ----------------------------------------------


@pytest.fixture(scope="module", params=[3, 11, 20])
def simulated(request, tmp_path_factory) -> tuple[Recording, FeatureStore]:
    from egospatial.simulator import simulate

    made = simulate(tmp_path_factory.mktemp("check"), "small", request.param)
    return open_recording(made.recording_dir), FeatureStore()


@pytest.mark.slow
def test_a_simulated_fisheye_as_it_is(simulated):
    recording, store = simulated
    report = check_conventions(recording, store)
    assert report.silent, alarms(report)
    for topic in (Topic.DIRECTION, Topic.AXES, Topic.QUATERNION, Topic.DEPTH_KIND):
        assert finding(report, topic).verdict is Verdict.FITS


@pytest.mark.slow
@pytest.mark.parametrize("name", [*POSE_SWAPS, *DEPTH_SWAPS])
def test_a_simulated_fisheye_with_one_thing_swapped(simulated, name):
    recording, store = simulated
    check_caught(recording, store, (POSE_SWAPS | DEPTH_SWAPS)[name])


@pytest.mark.slow
def test_a_simulated_depth_camera_taken_for_the_fisheye(simulated):
    """3 cm, 2 to 5 pixels of this picture."""
    recording, store = simulated
    registered = replace(recording, depth=replace(recording.depth, reference_from_camera=np.eye(4)))
    assert Topic.REGISTRATION in alarms(check_conventions(registered, store))


@pytest.mark.slow
def test_a_shifted_principal_point_is_found_or_not_decidable_never_proved(simulated):
    recording, store = simulated
    for by in (-0.5, 0.5):
        camera = shifted_principal_point(recording.reference.camera, by)
        moved = replace(recording, reference=replace(recording.reference, camera=camera))
        found = finding(check_conventions(moved, store), Topic.PIXEL_CENTRE)
        assert found.verdict is not Verdict.FITS
        assert found.verdict is Verdict.UNDECIDED or f"{-by:+.1f} px" in found.look_alike


# --- the parts -------------------------------------------------------------------------------------------------------


def test_a_point_on_its_ray_lies_on_the_arc_and_one_behind_does_not():
    """Camera b one metre to the right of a: a point 2 m ahead of a is seen to the left of b's axis, never to the right."""
    b_from_a = np.eye(4)
    b_from_a[0, 3] = -1.0
    ahead = np.array([[0.0, 0.0, 1.0]] * 4)
    seen = np.array([[-1.0, 0, 2], [-1, 0, 1e9], [1, 0, 2], [-1, 0.5, 2]])
    seen /= np.linalg.norm(seen, axis=1, keepdims=True)
    angles = arc_angle(ahead, seen, b_from_a)
    np.testing.assert_allclose(angles[:2], 0, atol=1e-8)
    assert angles[2] == pytest.approx(np.arctan2(1, 2))  # from the end of the arc that is infinitely far
    assert angles[3] == pytest.approx(np.arcsin(0.5 / np.sqrt(1 + 0.25 + 4)))  # beside it
    assert arc_angle(ahead, seen, np.eye(4))[0] == pytest.approx(np.arctan2(1, 2))  # no base: a direction only


def test_comparison_needs_effect_and_number():
    rng = np.random.default_rng(0)
    clusters = np.arange(20)
    claimed = Measured(np.exp(rng.normal(0, 0.2, 20)), clusters, 1.0)
    half = Measured(claimed.residuals * np.exp(rng.normal(-0.7, 0.2, 20)), clusters, 1.0)
    assert compare(claimed, half).other_is_better and compare(half, claimed).claim_is_better
    noisy = Measured(claimed.residuals * np.exp(rng.normal(0, 2.0, 20)), clusters, 1.0)
    assert not compare(claimed, noisy).other_is_better and not compare(claimed, noisy).claim_is_better
    slightly = Measured(claimed.residuals * 0.95, clusters, 1.0)  # certain, but no other convention
    assert not compare(claimed, slightly).other_is_better
    two = Measured(np.array([0.1, 0.1]), np.arange(2), 1.0)
    assert not compare(Measured(np.ones(2), np.arange(2), 1.0), two).other_is_better
    with pytest.raises(ValueError, match="different evidence"):
        compare(claimed, two)


@pytest.mark.parametrize("count", [0, 1, 2, 8, 9, 200, 5000])
def test_pairs_are_few_distinct_and_inside(count):
    pairs = frame_pairs(np.arange(count, dtype=np.int64) * 33_333_333)
    assert len(pairs) <= MAX_PAIRS and len(np.unique(pairs, axis=0)) == len(pairs)
    assert (pairs >= 0).all() and (pairs < count).all() and (pairs[:, 0] < pairs[:, 1]).all()
    assert len(pairs) == {0: 0, 1: 0, 2: 1, 8: 28}.get(count, len(pairs)) and (count < 9 or len(pairs) > 5)


def test_outlines_are_the_nearer_side_also_across_a_gap():
    z = np.full((20, 40), 2.0)
    z[:, 10:20] = 1.0
    z[:, 20:24] = np.nan
    columns = np.unique(np.nonzero(outlines(z))[1])
    assert {10, 19} <= set(columns.tolist()) <= set(range(10, 20))


def test_a_recording_without_depth_and_pictures_says_so(plain_folder):
    """Six pictures without texture and flat depth: nothing is proved, nothing is accused."""
    recording = open_recording(plain_folder)
    report = check_conventions(replace(recording, depth=None))
    assert report.silent and all(item.verdict is Verdict.UNDECIDED and item.reason for item in report.findings)


def test_colour_that_is_registered_though_an_offset_is_claimed():
    """Pictures made from depth itself; boxes before a wall."""
    rng = np.random.default_rng(2)
    depths, pictures = [], []
    for _ in range(14):
        z = np.full((120, 160), 3.0, dtype=np.float32)
        for _ in range(6):
            x, y = rng.integers(5, 120), rng.integers(5, 80)
            z[y : y + rng.integers(15, 30), x : x + rng.integers(15, 30)] = rng.uniform(1.0, 2.0)
        depths.append(z)
        pictures.append(np.repeat((255 - 60 * z).astype(np.uint8)[..., None], 3, axis=2))
    camera = PinholeCamera(160, 120, 130.0, 130.0, 79.5, 59.5)
    stamps = np.arange(14, dtype=np.int64) * 100_000_000
    offset = np.eye(4)
    offset[0, 3] = 0.08
    recording = Recording(
        "boxes",
        CameraStream("color", camera, stamps, np.eye(4), Still(pictures)),
        DepthStream("depth", camera, stamps, offset, Still(depths)),
        Trajectory(stamps, np.tile(np.eye(4), (14, 1, 1))),
        UNKNOWN_UP,
        Path(),
        "made",
    )
    found = check_registration(recording)
    assert (
        found.verdict is Verdict.LOOK_ALIKE
        and found.look_alike == "colour is registered to depth (one camera for both)"
    )
    right = replace(recording, depth=replace(recording.depth, reference_from_camera=np.eye(4)))
    assert check_registration(right).verdict is Verdict.FITS


def test_info_check_says_it_in_a_table_in_json_and_in_the_status(plain_folder, tmp_path):
    from typer.testing import CliRunner

    from egospatial.cli import app

    done = CliRunner().invoke(app, ["info", str(plain_folder), "--check"])
    assert done.exit_code == 0 and "pose direction" in done.stdout and "not decidable" in done.stdout
    done = CliRunner().invoke(app, ["info", str(plain_folder), "--check", "--json"])
    findings = json.loads(done.stdout)["check"]["findings"]
    assert {item["topic"] for item in findings} >= {"pose direction", "depth unit", "colour against depth"}
    (tmp_path / "out").mkdir()
    done = CliRunner().invoke(app, ["info", str(tmp_path / "none"), "--check"])
    assert done.exit_code == 2


@pytest.mark.samples
def test_info_check_has_status_1_for_a_look_alike(samples_dir, tmp_path):
    from typer.testing import CliRunner

    from egospatial.cli import app

    source = samples_dir / "sevenscenes_redkitchen"
    folder = write_kitchen(source, tmp_path / "k", range(300, 420, 10), np.linalg.inv, 1)
    done = CliRunner().invoke(app, ["info", str(folder), "--check", "--json"])
    assert done.exit_code == 1
    check = json.loads(done.stdout)["check"]
    assert not check["silent"] and any("inverted" in item["look_alike"] for item in check["findings"])
