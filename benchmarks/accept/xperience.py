"""Letter E of issue 2: the Xperience layout against what its format description proved, on the sample's annotation."""

import json
from pathlib import Path

import h5py
import numpy as np
from scipy.spatial.transform import Rotation

from benchmarks.accept.harness import Letter, samples
from geo import se3
from geo.depth import reproject_depth
from geo.readers import open_recording
from geo.readers import xperience as xp

CENTRES_IN_BODY = {  # as the format description lists them
    "fisheye_cam0": (-0.091, 0.029, 0.241),
    "fisheye_cam1": (0.054, 0.029, 0.240),
    "fisheye_cam2": (-0.134, 0.027, 0.048),
    "fisheye_cam3": (0.096, 0.027, 0.048),
}


def measure(letter: Letter) -> None:
    """The sample in place; it has no videos, so cameras are judged by their poses."""
    folder = samples() / "xperience10m_format"
    _rig(letter, folder)
    _poses(letter, folder)
    _depth(letter, folder)
    _captions(letter, folder)


def _rig(letter: Letter, folder: Path) -> None:
    warnings: list[str] = []
    rig = xp.read_rig(folder, warnings)
    centre = {name: rig.body_from_camera(name)[:3, 3] for name in xp.CAMERA_NAMES}
    axis = {name: rig.body_from_camera(name)[:3, 2] for name in xp.CAMERA_NAMES}
    letter.true("six cameras without a contradiction", not warnings and len(centre) == 6, f"{warnings or 'six'}")

    def apart(first: str, second: str) -> float:
        return float(np.linalg.norm(centre[first] - centre[second]))

    letter.at_most("cam0's centre to the rectified left", apart("fisheye_cam0", "stereo_left"), 1e-4, " m")
    letter.at_most("cam1's centre to the rectified right", apart("fisheye_cam1", "stereo_right"), 1e-4, " m")
    worst = max(float(np.abs(centre[name] - np.array(listed)).max()) for name, listed in CENTRES_IN_BODY.items())
    letter.at_most("centres in body against those listed (to 1 mm)", worst, 6e-4, " m")
    angle = float(np.degrees(np.arccos(axis["fisheye_cam0"] @ axis["fisheye_cam1"])))
    letter.at_most("front axes, away from 51 degrees", abs(angle - 51), 0.5, " deg")
    mirror = np.abs(centre["fisheye_cam0"][1:] - centre["fisheye_cam1"][1:]).max()
    letter.at_most("front pair, away from symmetry in y and z", float(mirror), 1e-3, " m")


def _raw(folder: Path) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """camera_from_body of all six and body_from_world of every row, by plain numpy from the file."""
    with h5py.File(folder / "annotation.hdf5") as file:
        left = file["calibration/cam01/T_c0_b"][()]
        right = left.copy()
        right[0, 3] -= file["calibration/cam01/baseline"][()]
        chain = {"stereo_left": left, "stereo_right": right, "fisheye_cam0": file["calibration/cam0/T_c_b"][()]}
        for i in (1, 2, 3):
            chain[f"fisheye_cam{i}"] = file[f"calibration/cam{i}/T_cn_cnm1"][()] @ chain[f"fisheye_cam{i - 1}"]
        quats, moves = file["slam/quat_wxyz"][()], file["slam/trans_xyz"][()]
    body_from_world = np.tile(np.eye(4), (len(quats), 1, 1))
    body_from_world[:, :3, :3] = Rotation.from_quat(quats[:, [1, 2, 3, 0]]).as_matrix()
    body_from_world[:, :3, 3] = moves
    return chain, body_from_world


def _poses(letter: Letter, folder: Path) -> None:
    """world_from_camera of every camera and row by the reader, against inv(camera_from_body @ body_from_world)."""
    recording, rig = open_recording(folder), xp.read_rig(folder, [])
    chain, body_from_world = _raw(folder)
    letter.at_least("rows with a pose", len(recording.trajectory.timestamps_ns), 20)
    metres, degrees = 0.0, 0.0
    left_from_body = rig.camera_from_body("stereo_left")
    for name in xp.CAMERA_NAMES:
        reference_from_camera = se3.compose(left_from_body, rig.body_from_camera(name))
        ours = se3.compose(recording.trajectory.world_from_body, reference_from_camera)
        apart = np.linalg.inv(chain[name] @ body_from_world)
        metres = max(metres, float(np.linalg.norm(ours[:, :3, 3] - apart[:, :3, 3], axis=1).max()))
        turned = se3.axis_angle_from_rotation(np.swapaxes(ours[:, :3, :3], -1, -2) @ apart[:, :3, :3])
        degrees = max(degrees, float(np.degrees(np.linalg.norm(turned, axis=1)).max()))
    letter.at_most("centres of all cameras and rows against the raw file", metres, 1e-4, " m")
    letter.at_most("their rotations", degrees, 0.01, " deg")
    body = se3.compose(recording.trajectory.world_from_body, left_from_body)[:, :3, 3]  # invented: 0.2 m along world x
    letter.at_most("the body's way, away from 0.2 m along x", float(np.abs(body[-1] - [0.2, 0, 0]).max()), 1e-6, " m")


def _depth(letter: Letter, folder: Path) -> None:
    """Half-size depth in the rectified left view: metres of both surfaces, their edge where the raw rows have it."""
    recording = open_recording(folder)
    depth = recording.depth
    if depth is None:
        letter.true("depth", False)
        return
    left = recording.reference.camera
    full = reproject_depth(depth.frames.read(0), depth.camera, left, se3.inverse(depth.reference_from_camera))
    with h5py.File(folder / "annotation.hdf5") as file:
        enlarged = np.repeat(np.repeat(file["depth/depth"][0], 2, axis=0), 2, axis=1)
    known = np.isfinite(full)
    letter.at_least("depth in the stereo view: pixels covered", 100 * float(known.mean()), 99.0, " %")
    same = np.abs(full - enlarged)[known] < 1e-5
    letter.at_least("of these equal to the raw depth enlarged by 2", 100 * float(same.mean()), 99.9, " %")
    letter.true("depth camera's centre", bool(np.allclose(depth.camera.params, [100, 100, 127.75, 127.75])), "127.75")


def _captions(letter: Letter, folder: Path) -> None:
    """All four forms, of the sample's own caption and of frames that are known by their raw names."""
    warnings: list[str] = []
    segment = xp.read_captions(folder, warnings).segments[0]
    got = (segment.first_frame, segment.last_frame, segment.actions[0].first_frame, *segment.objects)
    letter.true("the sample's caption (time as text, frame_N, time as number)", got == (0, 19, 0, 0), str(got))
    with h5py.File(folder / "annotation.hdf5") as file:
        names = [name.decode() for name in file["slam/frame_names"][()]]
    stamps = np.array([int(name.split(".")[0]) for name in names], dtype=np.int64)
    frames = xp.FrameNames(tuple(names), stamps)
    wrong = []
    for i, name in enumerate(names):
        near = int(stamps[i]) + (-1) ** i * 24_000_000  # less than half a frame away
        for reference in (str(near), near, f"frame_{i + 1:07d}", i + 1, str(i + 1), name, name.split(".")[0]):
            if frames.index(reference) != i:
                wrong.append(f"{reference!r} -> {frames.index(reference)}, not {i}")
    letter.true(f"{7 * len(names)} references in four forms", not wrong, "; ".join(wrong[:3]) or "all right")
    letter.true("no reference is lost", not warnings, str(warnings or "none"))
    others = json.loads((folder / "caption_samples.json").read_text())[1:]
    foreign = [frames.index(record["segments"][0]["start_frame"]) for record in others]
    letter.true("times of other recordings mean no frame", foreign == [None] * len(others), str(foreign))
