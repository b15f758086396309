"""Letter D of issue 2: the forward pair of a real fisheye rig, rectified, against features that know no calibration."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from benchmarks.accept.harness import ROOT, Letter, samples
from cuda_kernels.remap import remap_bilinear
from cuda_kernels.remap_table import make_table
from geo import se3
from geo.cameras import Camera, PinholeCamera, camera_from_params
from geo.readers.kalibr_rig import read_rig_with
from geo.recording import CameraStream

SIZE_WH_PX, FOCAL_PX = (800, 640), 300.0  # 106 degrees across
PICTURES = ROOT / "out" / "accept" / "hilti"
FORWARD = "calib_3_cam0-1-camchain-imucam.yaml"


def manifest() -> dict[str, Any]:
    """The sample by name: image 5 t + k is camera k at instant t; pose t of the graph is the IMU's at that instant."""
    cameras = {
        f"cam{k}": {
            "camchain": f"calibration/{FORWARD if k < 2 else f'calib_3_cam{k}-camchain-imucam.yaml'}",
            "camera": f"cam{k if k < 2 else 0}",
            "images": "images/%d.jpg",
            "first": k,
            "step": 5,
            "timestamps_ns": {"start_ns": 0, "rate_hz": 10},
            "clock": "imu",  # nominal times: the sample has none
        }
        for k in range(5)
    }
    return {
        "format": "kalibr_rig/1",
        "id": "hilti2022",
        "reference_camera": "cam0",
        "cameras": cameras,
        "trajectory": {"file": "lidar/fastlio2.g2o", "format": "g2o", "numbers": "frames", "body": "imu"},
        "world": {"metric": True, "up": None},
    }


def measure(letter: Letter) -> None:
    """Every instant, for the stereo-rectified pair (lines are rows) and for plain undistorted views (F by pose)."""
    recording = read_rig_with(samples() / "hilti2022_fisheye_rig", manifest())
    cam0, cam1 = recording.reference, next(s for s in recording.others if s.name == "cam1")
    letter.true("five cameras", len(recording.others) == 4, f"{1 + len(recording.others)}")
    PICTURES.mkdir(parents=True, exist_ok=True)
    rows, lines, inverted, plain = [], [], [], []
    for instant in range(len(cam1.frames)):
        rows.append(_rectified(cam0, cam1, instant, PICTURES / f"rectified_{instant}.png"))
        lines.append(_undistorted(cam0, cam1, cam1.reference_from_camera, instant, PICTURES / f"plain_{instant}.png"))
        inverted.append(_undistorted(cam0, cam1, se3.inverse(cam1.reference_from_camera), instant, None))
        plain.append(_undistorted(_as_radtan(cam0), _as_radtan(cam1), cam1.reference_from_camera, instant, None))
    letter.at_least("matches at every instant", min(len(found) for found, _ in rows), 150)
    letter.at_least("of them in front of the pair", 100 * min(front for _, front in rows), 90, " %")
    for found, _ in rows:
        letter.at_most("stereo-rectified, median |row - row|", float(np.median(found)), 1.0, " px")
    for found in lines:
        letter.at_most("undistorted, median distance to the line", float(np.median(found)), 1.0, " px")
    for name, wrong, own in (
        ("T_cn_cnm1 inverted", inverted, lines),
        ("equidistant read as radtan", plain, lines),
    ):
        figure = float(np.median(np.concatenate(wrong)) / np.median(np.concatenate(own)))
        letter.at_least(f"look-alike told apart: {name}, times as far", figure, 1.5)
    share = np.mean(np.concatenate(lines) < 1.0)
    letter.note(f"{100 * share:.0f} % of {len(np.concatenate(lines))} matches lie within 1 px; pictures in {PICTURES}")


def _as_radtan(stream: CameraStream) -> CameraStream:
    """The look-alike of FIELD R8: the same numbers as OpenCV's plain model."""
    return replace(stream, camera=camera_from_params("RADTAN", stream.camera.size_wh_px, stream.camera.params))


def _view(image: np.ndarray, source: Camera, source_from_view: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a pinhole sees that is turned against the source camera, and where it sees something."""
    rays = _pinhole().unproject(_pinhole().pixel_grid()).directions
    seen = source.project(rays @ source_from_view.T)
    table = make_table(seen.pixels_xy, seen.valid, source.size_wh_px)
    return remap_bilinear(image, table), table.valid


def _pinhole() -> PinholeCamera:
    width, height = SIZE_WH_PX
    return PinholeCamera(width, height, FOCAL_PX, FOCAL_PX, (width - 1) / 2, (height - 1) / 2)


def matches(*views: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """SIFT with ratio test and mutual check; nothing here knows a calibration."""
    sift = cv2.SIFT_create(6000, contrastThreshold=0.02)
    found = []
    for image, valid in views:
        inner = cv2.erode(valid.astype(np.uint8), np.ones((31, 31)), borderValue=1)  # no features at the picture's rim
        found.append(sift.detectAndCompute(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), inner))
    (k1, d1), (k2, d2) = found
    brute = cv2.BFMatcher(cv2.NORM_L2)

    def best(a: np.ndarray, b: np.ndarray) -> dict[int, int]:
        pairs = brute.knnMatch(a, b, k=2)
        return {p[0].queryIdx: p[0].trainIdx for p in pairs if len(p) == 2 and p[0].distance < 0.8 * p[1].distance}

    there, back = best(d1, d2), best(d2, d1)
    kept = [(i, j) for i, j in there.items() if back.get(j) == i]
    points = [np.array([k[pair[n]].pt for pair in kept]).reshape(-1, 2) for n, k in enumerate((k1, k2))]
    return points[0], points[1]


def _rectified(cam0: CameraStream, cam1: CameraStream, instant: int, picture: Path | None) -> tuple[np.ndarray, float]:
    """Distance in rows of matches, in views whose x axes lie along the baseline; and the share that lies in front."""
    first_from_second = cam1.reference_from_camera
    x = first_from_second[:3, 3] / np.linalg.norm(first_from_second[:3, 3])
    x = x if x[0] > 0 else -x  # cam1 is the left one of the two; the views stay upright all the same
    forward = np.array([0, 0, 1.0]) + first_from_second[:3, 2]
    y = np.cross(forward, x) / np.linalg.norm(np.cross(forward, x))
    first_from_view = np.stack([x, y, np.cross(x, y)], axis=1)
    second_from_view = first_from_second[:3, :3].T @ first_from_view
    first = _view(cam0.frames.read(instant), cam0.camera, first_from_view)
    second = _view(cam1.frames.read(instant), cam1.camera, second_from_view)
    a, b = matches(first, second)
    if picture is not None:
        rows = np.stack([np.zeros(len(b)), np.ones(len(b)), -a[:, 1]], axis=1)
        _draw(picture, first[0], second[0], a, b, rows)
    side = float(first_from_second[:3, 3] @ x)  # a point in front moves against the way to the second camera
    return np.abs(a[:, 1] - b[:, 1]), float(((a[:, 0] - b[:, 0]) * side > 0).mean())


def _undistorted(
    cam0: CameraStream, cam1: CameraStream, first_from_second: np.ndarray, instant: int, picture: Path | None
) -> np.ndarray:
    """Distance of matches to the lines of the fundamental matrix, which comes from the calibration alone."""
    first = _view(cam0.frames.read(instant), cam0.camera, np.eye(3))
    second = _view(cam1.frames.read(instant), cam1.camera, np.eye(3))
    a, b = matches(first, second)
    second_from_first = se3.inverse(first_from_second)
    t = second_from_first[:3, 3]
    cross = np.array([[0, -t[2], t[1]], [t[2], 0, -t[0]], [-t[1], t[0], 0]])
    k_inverse = np.linalg.inv(_pinhole().matrix)
    fundamental = k_inverse.T @ cross @ second_from_first[:3, :3] @ k_inverse
    lines = np.c_[a, np.ones(len(a))] @ fundamental.T
    lines /= np.linalg.norm(lines[:, :2], axis=1, keepdims=True)
    if picture is not None:
        _draw(picture, first[0], second[0], a, b, lines)
    return np.abs((lines * np.c_[b, np.ones(len(b))]).sum(axis=1))


def _draw(path: Path, first: np.ndarray, second: np.ndarray, a: np.ndarray, b: np.ndarray, lines: np.ndarray) -> None:
    """Both views side by side: every 12th match, and its line in the right one."""
    width = first.shape[1]
    canvas = np.ascontiguousarray(np.concatenate([first, second], axis=1)[..., ::-1])
    rng = np.random.default_rng(0)
    for i in np.argsort(a[:, 1])[::12]:
        colour = tuple(int(value) for value in rng.integers(80, 256, 3))
        p, q, r = lines[i]
        ends = [(width, round(-r / q)), (2 * width - 1, round(-(r + p * (width - 1)) / q))]
        cv2.line(canvas, ends[0], ends[1], colour, 1, cv2.LINE_AA)
        cv2.circle(canvas, (round(a[i, 0]), round(a[i, 1])), 4, colour, 2, cv2.LINE_AA)
        cv2.circle(canvas, (width + round(b[i, 0]), round(b[i, 1])), 4, colour, 2, cv2.LINE_AA)
    done, data = cv2.imencode(".png", canvas)
    if not done:
        raise OSError(f"{path} cannot be encoded")
    path.write_bytes(data.tobytes())
