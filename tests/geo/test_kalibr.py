"""Kalibr's camchain.yaml: models by name, chain and IMU, clock, and what is refused."""

import copy
import math
import re

import numpy as np
import pytest
import yaml

from geo import se3
from geo.cameras import KannalaBrandtCamera, PinholeCamera, RadTanCamera
from geo.errors import CameraError, GeoError, PoseError, RecordingError
from geo.readers.kalibr import read_kalibr

# cam1 sits 0.1 m to the right of cam0 (x right): a point at x = 0 of cam0 is at x = -0.1 of cam1.
# The IMU's x is the cameras' z (ahead), its y their -x (left), its z their -y (up); it sits 5 cm behind cam0.
CAM0_FROM_IMU = [[0, -1, 0, 0], [0, 0, -1, 0], [1, 0, 0, -0.05], [0, 0, 0, 1]]
CAM1_FROM_IMU = [[0, -1, 0, -0.1], [0, 0, -1, 0], [1, 0, 0, -0.05], [0, 0, 0, 1]]
CAM1_FROM_CAM0 = [[1, 0, 0, -0.1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
CHAIN = {
    "cam0": {
        "camera_model": "pinhole",
        "intrinsics": [461.6, 460.2, 362.7, 246.0],
        "distortion_model": "radtan",
        "distortion_coeffs": [-0.27, 0.067, 0.0009, 0.0001],
        "T_cam_imu": CAM0_FROM_IMU,
        "timeshift_cam_imu": 0.0019071204237431304,
        "rostopic": "/cam0/image_raw",
        "resolution": [752, 480],
        "cam_overlaps": [1],
    },
    "cam1": {
        "camera_model": "pinhole",
        "intrinsics": [300.0, 301.0, 320.0, 240.0],
        "distortion_model": "equidistant",
        "distortion_coeffs": [-0.05, 0.01, 0.002, -0.001],
        "T_cn_cnm1": CAM1_FROM_CAM0,
        "T_cam_imu": CAM1_FROM_IMU,
        "timeshift_cam_imu": -8.121e-05,
        "resolution": [640, 480],
    },
}


@pytest.fixture
def put(tmp_path):
    def write(content, name="camchain.yaml"):
        path = tmp_path / name
        text = content if isinstance(content, str | bytes) else yaml.safe_dump(content, sort_keys=False)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def changed(put):
    def write(change):
        chain = copy.deepcopy(CHAIN)
        change(chain)
        return put(chain)

    return write


def test_the_names_of_the_models_decide(put):
    warnings = []
    chain = read_kalibr(put(CHAIN), warnings)
    first, second = chain.cameras
    assert warnings == []
    assert first.camera == RadTanCamera(752, 480, 461.6, 460.2, 362.7, 246.0, (-0.27, 0.067, 0.0009, 0.0001))
    assert second.camera == KannalaBrandtCamera(640, 480, 300.0, 301.0, 320.0, 240.0, (-0.05, 0.01, 0.002, -0.001))
    assert (first.name, first.topic, second.topic) == ("cam0", "/cam0/image_raw", None)


def test_equidistant_is_the_fisheye_curve_by_hand(put):
    """A ray 30 degrees to the right: u = cx + fx (t + k1 t^3 + k2 t^5 + k3 t^7 + k4 t^9), t = pi / 6."""
    camera = read_kalibr(put(CHAIN), []).cameras[1].camera
    t = np.pi / 6
    u = 320 + 300 * (t - 0.05 * t**3 + 0.01 * t**5 + 0.002 * t**7 - 0.001 * t**9)
    np.testing.assert_allclose(camera.project(np.array([np.sin(t), 0, np.cos(t)])).pixels_xy, [u, 240.0], atol=1e-9)


def test_transforms_go_from_imu_to_camera_and_from_the_previous_to_this_one(put):
    """A point 1 m ahead of the IMU is 0.95 m ahead of cam0, and 0.1 m to the left of cam1."""
    chain = read_kalibr(put(CHAIN), [])
    first, second = chain.cameras
    ahead = np.array([1.0, 0, 0])
    np.testing.assert_allclose(se3.transform_points(first.camera_from_imu, ahead), [0, 0, 0.95], atol=1e-12)
    np.testing.assert_allclose(se3.transform_points(second.camera_from_imu, ahead), [-0.1, 0, 0.95], atol=1e-12)
    np.testing.assert_allclose(chain.camera_from_first(1), CAM1_FROM_CAM0, atol=1e-12)
    np.testing.assert_allclose(chain.camera_from_first(0), np.eye(4))
    assert first.camera_from_previous is None


def test_the_clock_is_imu_minus_camera_in_nanoseconds(put):
    first, second = read_kalibr(put(CHAIN), []).cameras
    assert (first.imu_minus_camera_ns, second.imu_minus_camera_ns) == (1_907_120, -81_210)


def test_a_chain_of_eleven_cameras_is_ordered_by_number(put):
    """Each 0.1 m right of the one before; written backwards, cam10 before cam2 as text would have it."""
    chain = {"cam0": CHAIN["cam0"]}
    chain |= {
        f"cam{i}": {**CHAIN["cam1"], "intrinsics": [300 + i, 300, 320, 240], "T_cam_imu": None} for i in range(1, 11)
    }
    chain["cam0"] = {key: value for key, value in chain["cam0"].items() if key != "T_cam_imu"}
    found = read_kalibr(put(dict(reversed(chain.items()))), [])
    assert [c.name for c in found.cameras] == [f"cam{i}" for i in range(11)]
    assert [c.camera.params[0] for c in found.cameras][1:] == [301.0 + i for i in range(10)]
    np.testing.assert_allclose(found.camera_from_first(10)[:3, 3], [-1.0, 0, 0], atol=1e-12)


def test_by_way_of_the_imu_where_the_chain_is_not_given(changed):
    chain = read_kalibr(changed(lambda c: c["cam1"].pop("T_cn_cnm1")), [])
    np.testing.assert_allclose(chain.camera_from_first(1), CAM1_FROM_CAM0, atol=1e-12)

    def neither(c):
        c["cam1"].pop("T_cn_cnm1")
        c["cam0"].pop("T_cam_imu")

    with pytest.raises(PoseError, match="nothing takes cam0 to cam1"):
        read_kalibr(changed(neither), []).camera_from_first(1)


def test_transforms_that_contradict_each_other_are_warned_of(changed):
    """T_cn_cnm1 written the wrong way round: 0.2 m apart."""
    warnings = []
    read_kalibr(changed(lambda c: c["cam1"].update(T_cn_cnm1=np.linalg.inv(CAM1_FROM_CAM0).tolist())), warnings)
    assert len(warnings) == 1 and "contradict each other by 200.0 mm and 0.00 degrees" in warnings[0]


def test_what_is_ignored_is_said(changed):
    warnings = []

    def odd(c):
        c["imu0"] = {"rostopic": "/imu0"}
        c["cam0"]["T_imu_cam"] = CAM0_FROM_IMU
        c["cam0"]["T_cn_cnm1"] = CAM1_FROM_CAM0

    assert read_kalibr(changed(odd), warnings).cameras[0].camera_from_previous is None
    assert [re.sub(r" line \d+", "", w).split(" is ")[0] for w in warnings[:2]] == [
        "camchain.yaml: 'imu0'",
        warnings[1].split(" line ")[0] + ": cam0.T_imu_cam",
    ]
    assert "cam0.T_cn_cnm1 has no camera before it" in warnings[2]


@pytest.mark.parametrize("first_line", ["%YAML:1.0\n---\n", "%YAML:1.0\n", "---\n", "# made by hand\n"])
def test_numbers_without_a_point_foreign_first_lines_bom_and_crlf(put, first_line):
    """YAML 1.1 reads 8e-05 and 3e2 as text; OpenCV's first line is no YAML."""
    text = first_line + yaml.safe_dump(CHAIN).replace("-8.121e-05", "-8e-05").replace("- 300.0", "- 3e2")
    for data in (text.encode(), b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()):
        camera = read_kalibr(put(data), []).cameras[1]
        assert camera.imu_minus_camera_ns == -80_000 and camera.camera.params[0] == 300.0


def test_a_camera_without_distortion_is_a_pinhole(changed):
    for change in (
        {"distortion_model": "none", "distortion_coeffs": []},
        {"distortion_model": None, "distortion_coeffs": None},
    ):
        chain = read_kalibr(changed(lambda c, change=change: c["cam0"].update(change)), [])
        assert chain.cameras[0].camera == PinholeCamera(752, 480, 461.6, 460.2, 362.7, 246.0)


def by_hand(model, intrinsics, distortion, coefficients, point):
    """Kalibr's supported models, written out for one point."""
    x, y, z = point
    if model == "omni":
        xi, fu, fv, pu, pv = intrinsics
        depth = z + xi * math.sqrt(x * x + y * y + z * z)
    elif model == "ds":
        xi, alpha, fu, fv, pu, pv = intrinsics
        k = xi * math.sqrt(x * x + y * y + z * z) + z
        depth = alpha * math.sqrt(x * x + y * y + k * k) + (1 - alpha) * k
    elif model == "eucm":
        alpha, beta, fu, fv, pu, pv = intrinsics
        depth = alpha * math.sqrt(beta * (x * x + y * y) + z * z) + (1 - alpha) * z
    else:
        fu, fv, pu, pv = intrinsics
        depth = z
    a, b = x / depth, y / depth
    if distortion == "radtan":
        k1, k2, p1, p2 = coefficients
        r2 = a * a + b * b
        radial = 1 + k1 * r2 + k2 * r2 * r2
        a, b = (
            a * radial + 2 * p1 * a * b + p2 * (r2 + 2 * a * a),
            b * radial + p1 * (r2 + 2 * b * b) + 2 * p2 * a * b,
        )
    elif distortion == "fov":
        r = math.hypot(a, b)
        scale = math.atan(2 * r * math.tan(coefficients[0] / 2)) / (coefficients[0] * r)
        a, b = a * scale, b * scale
    return fu * a + pu, fv * b + pv


@pytest.mark.parametrize(
    ("model", "intrinsics", "distortion", "coefficients"),
    [
        ("omni", [0.8, 833.0, 830.3, 373.8, 253.7], "radtan", [-0.33, 0.13, 0.0005, 0.0005]),
        ("omni", [0.8, 833.0, 830.3, 373.8, 253.7], "none", []),
        ("ds", [-0.2, 0.59, 317.5, 316.2, 724.8, 546.6], "none", []),
        ("eucm", [0.6, 1.1, 317.5, 316.2, 724.8, 546.6], "none", []),
        ("pinhole", [317.5, 316.2, 724.8, 546.6], "fov", [0.9]),
    ],
)
def test_every_model_of_kalibr_projects_as_its_formula_says(changed, model, intrinsics, distortion, coefficients):
    def other(c):
        c["cam0"].update(
            camera_model=model, intrinsics=intrinsics, distortion_model=distortion, distortion_coeffs=coefficients
        )

    camera = read_kalibr(changed(other), []).cameras[0].camera
    for point in ((0.3, -0.2, 1.1), (-0.5, 0.4, 0.9), (0.01, 0.02, 2.0)):
        expected = by_hand(model, intrinsics, distortion, coefficients, point)
        assert camera.project(np.array(point)).pixels_xy == pytest.approx(expected, abs=1e-9)

    def short(c):
        other(c)
        c["cam0"]["intrinsics"] = intrinsics[1:]

    with pytest.raises(CameraError, match=r"cam0\.intrinsics must be \[.*\], got"):
        read_kalibr(changed(short), [])


def drop(*keys):
    def change(c):
        for key in keys:
            c["cam0"].pop(key)

    return change


def put_in(**values):
    return lambda c: c["cam0"].update(values)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (put_in(camera_model="fisheye"), r"cam0\.camera_model: fisheye\+radtan is no model of Kalibr; known are"),
        (put_in(distortion_model="equidistant", camera_model="omni"), r"omni\+equidistant is no model"),
        (put_in(camera_model=3), r"cam0\.camera_model must be a name"),
        (put_in(intrinsics=[1.0, 2.0, 3.0]), r"cam0\.intrinsics must be \[fu, fv, pu, pv\], got 3 numbers"),
        (put_in(intrinsics=[-1.0, 2.0, 3.0, 4.0]), r"cam0\.intrinsics: .*positive focal lengths"),
        (put_in(intrinsics=[1.0, float("nan"), 3.0, 4.0]), r"cam0\.intrinsics\.fv must be a finite number"),
        (put_in(intrinsics=["a", 2.0, 3.0, 4.0]), r"cam0\.intrinsics\.fu = 'a' is no number"),
        (put_in(intrinsics=[True, 2.0, 3.0, 4.0]), r"cam0\.intrinsics\.fu must be a finite number"),
        (put_in(distortion_coeffs=[0.1]), r"cam0\.distortion_coeffs must be \[k1, k2, r1, r2\], got 1 numbers"),
        (drop("resolution"), r"cam0\.resolution must be \[width, height\], got 'None'"),
        (put_in(resolution=[640.5, 480]), r"cam0\.resolution must be whole numbers"),
        (put_in(resolution=[0, 480]), "image size 0x480 is impossible"),
        (put_in(T_cam_imu=[[1, 2], [3, 4]]), r"cam0\.T_cam_imu must be a 4x4 matrix"),
        (put_in(T_cam_imu=np.diag([1.0, 1, -1, 1]).tolist()), r"cam0\.T_cam_imu is not a rigid"),
        (put_in(T_cam_imu=np.diag([2.0, 2, 2, 1]).tolist()), r"cam0\.T_cam_imu is not a rigid"),
        (put_in(timeshift_cam_imu="soon"), r"cam0\.timeshift_cam_imu = 'soon' is no number"),
        (put_in(timeshift_cam_imu=1.9e6), r"more than an hour; is it in seconds"),
        (lambda c: c.update(cam3=c["cam1"]), "holds cameras cam0, cam1, cam3; a chain counts"),
        (lambda c: c.pop("cam0"), "holds cameras cam1; a chain counts"),
        (lambda c: c.update(cam01=c["cam1"]), "cam1 and cam01 are the same camera"),
        (lambda c: c.update(cam0=5), "cam0 must be a table"),
        (lambda c: (c.clear(), c.update(sensors={})), "holds cameras none"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(changed, change, fault):
    with pytest.raises(GeoError, match=fault) as caught:
        read_kalibr(changed(change), [])
    assert "camchain.yaml" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "must be a table of cameras"),
        ("- 1\n- 2\n", "must be a table of cameras"),
        ("cam0: [1, 2", "is no YAML"),
        ("cam0:\n  a: 1\ncam0:\n  a: 2\n", "lines 1 and 3 both give 'cam0'"),
        ("cam0:\n  resolution: 1\n  b: 2\n  resolution: 3\n", r"lines 2 and 4 both give 'cam0\.resolution'"),
        ("cam0: !!python/object/apply:os.system ['true']\n", "is no YAML"),
        ("cam0: 2001-99-99\n", "cannot read"),
        ("[" * 5000, "is no YAML|cannot read"),
        ("1: 2\n~: 3\n0x10: 3\nyes: 4\n", "holds cameras none"),
    ],
)
def test_files_that_are_no_camchain_are_refused(put, text, fault):
    with pytest.raises(RecordingError, match=fault):
        read_kalibr(put(text), [])


def test_line_numbers_are_those_of_the_file(put):
    text = yaml.safe_dump(CHAIN, sort_keys=False).replace("resolution:\n  - 752", "resolution:\n  - x")
    line = text[: text.index("resolution")].count("\n") + 1
    with pytest.raises(GeoError, match=rf"camchain\.yaml line {line}: cam0\.resolution\.width = 'x' is no number"):
        read_kalibr(put(text), [])


# --- the real rig -------------------------------------------------------------------------------------------------------

HILTI_FILES = [f"calib_3_cam{name}-camchain-imucam.yaml" for name in ("0-1", "2", "3", "4")]


@pytest.mark.samples
def test_hilti_five_fisheyes(samples_dir):
    folder = samples_dir / "hilti2022_fisheye_rig" / "calibration"
    warnings = []
    chains = [read_kalibr(folder / name, warnings) for name in HILTI_FILES]
    assert warnings == [] and [len(c.cameras) for c in chains] == [2, 1, 1, 1]
    cam0, cam1 = chains[0].cameras
    want = [351.31400364193297, 351.4911744656785, 367.8522793375995, 253.8402144980996]
    want += [-0.03696737352869157, -0.008917880497032812, 0.008912969593422046, -0.0037685977496087313]
    assert cam0.camera.params.tolist() == want and cam0.camera.size_wh_px == (720, 540)
    assert all(isinstance(c.camera, KannalaBrandtCamera) for chain in chains for c in chain.cameras)
    assert (cam0.imu_minus_camera_ns, cam1.imu_minus_camera_ns) == (1_907_120, 1_901_867)
    assert cam0.topic == "/alphasense/cam0/image_raw"
    # the chain and the way by the IMU agree, so T_cn_cnm1 is cam0 -> cam1 and T_cam_imu is imu -> camera
    by_imu = cam1.camera_from_imu @ se3.inverse(cam0.camera_from_imu)
    np.testing.assert_allclose(chains[0].camera_from_first(1), by_imu, atol=1e-9)
    # forward stereo of 108 mm: cam1's centre lies to cam0's left, at x = -0.108
    centre = se3.inverse(chains[0].camera_from_first(1))[:3, 3]
    assert np.linalg.norm(centre) == pytest.approx(0.108, abs=1e-3) and centre[0] == pytest.approx(-0.108, abs=1e-3)
    # cam0 and cam1 look along the IMU's +x, cam2 along its -z
    np.testing.assert_allclose(cam0.camera_from_imu[2, :3], [1, 0, 0], atol=0.01)
    np.testing.assert_allclose(chains[1].cameras[0].camera_from_imu[2, :3], [0, 0, -1], atol=0.01)
    for chain in chains:
        for camera in chain.cameras:
            assert se3.is_rigid(camera.camera_from_imu, 1e-12)
            rays = camera.camera.unproject(np.array([[0.0, 0.0], [360.0, 270.0], [719.0, 539.0]]))
            assert rays.valid.all()


@pytest.mark.samples
@pytest.mark.parametrize("name", ["lidar_calibration.yaml", "april_hilti.yaml"])
def test_hilti_other_yaml_files_are_no_camchain(samples_dir, name):
    with pytest.raises(RecordingError, match=rf"{name} holds cameras none"):
        read_kalibr(samples_dir / "hilti2022_fisheye_rig" / "calibration" / name, [])


# --- broken files ---------------------------------------------------------------------------------------------------------


def test_fuzz_ends_in_a_clean_error_or_a_sound_read(put):
    """200 broken files: cut, flipped bytes, lost lines, odd values."""
    data = yaml.safe_dump(CHAIN, sort_keys=False, default_flow_style=None).encode()
    odd = [
        b"",
        b"1e308",
        b"1e999",
        b".nan",
        b"-.inf",
        b"9" * 400,
        b"x",
        b"{}",
        b"[",
        b"*a",
        b"&a",
        b"~",
        b"1:2",
        b"yes",
        b"!!x",
    ]
    rng = np.random.default_rng(7)
    outcomes = {"read": 0, "refused": 0}
    for _ in range(200):
        kind, broken = int(rng.integers(4)), bytearray(data)
        if kind == 0:
            broken = broken[: int(rng.integers(len(data)))]
        elif kind == 1:
            for _ in range(int(rng.integers(1, 4))):
                broken[int(rng.integers(len(data)))] = int(rng.integers(256))
        elif kind == 2:
            lines = data.split(b"\n")
            del lines[int(rng.integers(len(lines)))]
            broken = bytearray(b"\n".join(lines))
        else:
            tokens = list(re.finditer(rb"[^\s,\[\]:]+", data))
            token = tokens[int(rng.integers(len(tokens)))]
            value = odd[int(rng.integers(len(odd)))]
            broken = bytearray(data[: token.start()] + value + data[token.end() :])
        try:
            chain = read_kalibr(put(bytes(broken)), [])
        except GeoError as error:
            assert "camchain.yaml" in str(error)
            outcomes["refused"] += 1
            continue
        outcomes["read"] += 1
        assert 1 <= len(chain.cameras) <= 2
        for camera in chain.cameras:
            assert np.isfinite(camera.camera.params).all()
            for transform in (camera.camera_from_imu, camera.camera_from_previous):
                assert transform is None or se3.is_rigid(transform, 1e-9)
    assert outcomes["refused"] > 60 and outcomes["read"] > 10, outcomes
