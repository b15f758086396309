"""TUM RGB-D folders: ``rgb.txt``, ``depth.txt``, ``groundtruth.txt``, and a ``calibration.json`` that the user adds.

``rgb.txt`` and ``depth.txt`` are lists of ``seconds file`` (``#`` begins a comment); ``groundtruth.txt`` is a TUM
trajectory of the colour camera, world_from_color (x right, y down, z forward). Depth images are 16-bit PNG along z,
5000 counts a metre, 0 none. The three have clocks of their own rate: pictures and depth images are paired where each
is the other's nearest within 20 ms, and a pose must lie that near; everything keeps its true time, and poses are
interpolated there. The world is metric, its gravity not stated.

The data set has no calibration file and none is guessed. ``calibration.json`` holds ``color_K`` (3x3, pixel centres at
whole numbers), and optionally ``color_distortion`` (k1 k2 p1 p2 [k3], as OpenCV), ``depth_K`` and ``T_color_depth``
(4x4: takes depth to colour; without them depth is registered to colour, as the data set's own is), ``depth_scale``
(counts a metre, 5000).

Source: TUM RGB-D benchmark, "File Formats".
"""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from geo import se3
from geo.cameras import Camera, PinholeCamera, RadTanCamera
from geo.errors import CameraError, RecordingError, TimeError
from geo.images import image_size
from geo.nearest import nearest_rows
from geo.readers.calibration_json import matrix_entry, pinhole_of
from geo.readers.depth_files import DepthCoding, DepthImages, usable_files
from geo.readers.evidence import Evidence, own_narrations, path_inside
from geo.readers.json_values import is_number, json_object
from geo.readers.text_files import data_lines, nanoseconds_of, read_text
from geo.readers.trajectory_files import read_tum
from geo.recording import CameraStream, DepthStream, Recording
from geo.trajectory import Trajectory
from geo.video import ImageFrames
from geo.world import World

TOLERANCE_NS = 20_000_000
_LISTS = ("rgb.txt", "depth.txt", "groundtruth.txt")
_COUNTS_PER_METRE = 5000.0
_MAX_NUMBER = 1e9
_FORMAT = (
    '{"color_K": [[fx, 0, cx], [0, fy, cy], [0, 0, 1]], "color_distortion": [k1, k2, p1, p2, k3], '
    '"depth_K": 3x3, "T_color_depth": 4x4, "depth_scale": 5000}, all but color_K optional'
)


def look(folder: Path) -> Evidence:
    """What speaks for this format: its three lists."""
    there = [name for name in _LISTS if (folder / name).is_file()]
    return Evidence(tuple(there), tuple(name for name in _LISTS if name not in there))


def read(folder: Path) -> Recording:
    """Read the folder; see the module's docstring for what is taken from where.

    Raises:
        RecordingError: a list or a listed file is missing or damaged, no calibration.json, nothing is left once
            pictures, depth images and poses are matched. CameraError, TimeError, PoseError: faults of these.
    """
    warnings: list[str] = []
    rgb_stamps, rgb_files = _list(folder, "rgb.txt")
    depth_stamps, depth_files = _list(folder, "depth.txt")
    trajectory = read_tum(folder / "groundtruth.txt", warnings)
    calibration = folder / "calibration.json"
    if not calibration.is_file():
        raise RecordingError(
            f"{calibration} is missing: TUM RGB-D folders hold no intrinsics, and those of a data set are not guessed. "
            f"Give {_FORMAT}"
        )
    data = json_object(calibration)
    color, depth_camera, color_from_depth = _cameras(
        data, calibration, image_size(rgb_files[0]), image_size(depth_files[0])
    )
    rgb_rows, depth_rows = _matched(rgb_stamps, depth_stamps, trajectory, folder, warnings)
    rgb_files = [rgb_files[i] for i in rgb_rows]
    depth_files = [depth_files[i] for i in depth_rows]
    coding = DepthCoding(depth_camera, unit_m=1.0 / _depth_scale(data, calibration), invalid=(0.0,))
    narrations = own_narrations(folder)
    inputs = [*(folder / name for name in _LISTS), calibration, narrations, *rgb_files, *depth_files]
    return Recording(
        recording_id=folder.resolve().name,
        reference=CameraStream(
            "color",
            color,
            rgb_stamps[rgb_rows],
            np.eye(4),
            ImageFrames(rgb_files, color.size_wh_px),
            source_frames=np.asarray(rgb_rows, dtype=np.int64),
        ),
        depth=DepthStream(
            "depth",
            depth_camera,
            depth_stamps[depth_rows],
            color_from_depth,
            DepthImages(usable_files(depth_files, warnings), coding),
        ),
        trajectory=trajectory,
        world=World.without_up(metric=True),
        source_dir=folder,
        format_name="tum_rgbd",
        narrations_file=narrations,
        input_files=tuple(path for path in inputs if path is not None and path.is_file()),
        warnings=tuple(warnings),
    )


def _list(folder: Path, name: str) -> tuple[Int64[np.ndarray, "N"], list[Path]]:
    """Times and files of a list, by time; equal rows merge (FIELD P6).

    Raises:
        RecordingError: a row of another form, a file that is missing or outside the folder, no row at all.
        TimeError: one time with different files.
    """
    path = folder / name
    rows: dict[int, tuple[int, str]] = {}
    for line, text in data_lines(read_text(path)):
        cells = text.split(maxsplit=1)
        if len(cells) != 2:
            raise RecordingError(f"{path} line {line} = {text[:40]!r}; a row is 'seconds file'; is it cut off?")
        stamp = nanoseconds_of(cells[0], f"{path} line {line}: time")
        first_line, first_file = rows.setdefault(stamp, (line, cells[1]))
        if first_file != cells[1]:
            raise TimeError(
                f"{path} lines {first_line} and {line} have the same time {cells[0]} but different files; remove one"
            )
    if not rows:
        raise RecordingError(f"{path} lists not a single file")
    stamps = sorted(rows)
    return np.array(stamps, dtype=np.int64), [_listed_file(folder, path, *rows[stamp]) for stamp in stamps]


def _listed_file(folder: Path, path: Path, line: int, relative: str) -> Path:
    """A file of a list, which must exist."""
    what = f"{path} line {line}: file"
    try:
        file = path_inside(folder, relative, what)
        exists = file.is_file()
    except (OSError, ValueError) as error:  # too long, or no text that a file system takes
        raise RecordingError(f"{what} = {ascii(relative)[:60]} is no path: {error}") from None
    if not exists:
        raise RecordingError(f"{what} {file} is missing; remove the row, or fetch the file")
    return file


def pair_by_time(
    first_ns: Int64[np.ndarray, "N"], second_ns: Int64[np.ndarray, "M"], tolerance_ns: int = TOLERANCE_NS
) -> tuple[Int64[np.ndarray, "P"], Int64[np.ndarray, "P"]]:
    """Rows of two rising clocks that are each other's nearest, not further apart than the tolerance.

    Returns:
        Rows of the first and of the second, each at most once, both rising.
    """
    to_second = nearest_rows(second_ns, first_ns)
    mutual = nearest_rows(first_ns, second_ns)[to_second] == np.arange(len(first_ns))
    near = np.abs(first_ns - second_ns[to_second]) <= tolerance_ns
    rows = np.flatnonzero(mutual & near).astype(np.int64)
    return rows, to_second[rows]


def _matched(
    rgb_ns: Int64[np.ndarray, "N"],
    depth_ns: Int64[np.ndarray, "M"],
    trajectory: Trajectory,
    folder: Path,
    warnings: list[str],
) -> tuple[Int64[np.ndarray, "P"], Int64[np.ndarray, "P"]]:
    """Rows of pictures and depth images that belong together and have a pose; the rest is counted in a warning.

    Raises:
        RecordingError: nothing is left. TimeError: pictures and poses do not overlap in time.
    """
    if max(abs(int(t)) for clock in (rgb_ns, depth_ns, trajectory.timestamps_ns) for t in clock[[0, -1]]) >= 2**62:
        raise TimeError(f"{folder}: a time lies more than 146 years from zero; are these seconds?")
    rgb_rows, depth_rows = pair_by_time(rgb_ns, depth_ns)
    stamps = rgb_ns[rgb_rows]
    posed = np.zeros(len(rgb_rows), dtype=bool)
    if len(rgb_rows):
        at_pose = trajectory.timestamps_ns[nearest_rows(trajectory.timestamps_ns, stamps)]
        posed = (np.abs(at_pose - stamps) <= TOLERANCE_NS) & np.isfinite(trajectory.poses_at(stamps)).all(axis=(1, 2))
    kept = int(posed.sum())
    text = (
        f"{len(rgb_ns) - kept} of {len(rgb_ns)} pictures and {len(depth_ns) - kept} of {len(depth_ns)} depth images"
        f" have no partner within 20 ms ({len(rgb_rows)} pairs) or no pose ({len(rgb_rows) - kept} of these pairs)"
    )
    if kept == 0:
        raise RecordingError(f"{folder}: {text}; nothing is left. Do the three lists have one clock?")
    if kept < max(len(rgb_ns), len(depth_ns)):
        warnings.append(f"{text}; they are left out")
    return rgb_rows[posed], depth_rows[posed]


def _cameras(
    data: dict[str, Any], path: Path, color_size: tuple[int, int], depth_size: tuple[int, int]
) -> tuple[Camera, PinholeCamera, Float[np.ndarray, "4 4"]]:
    """Colour camera, depth camera and color_from_depth.

    Raises:
        RecordingError: no color_K, or numbers that do not fit the images. CameraError: impossible distortion.
        PoseError: T_color_depth is not rigid.
    """
    color_k = matrix_entry(data, "color_K", (3, 3), path)
    if color_k is None:
        raise RecordingError(f"{path} has no color_K. Give {_FORMAT}")
    depth_k, offset = matrix_entry(data, "depth_K", (3, 3), path), matrix_entry(data, "T_color_depth", (4, 4), path)
    for name, matrix in (("color_K", color_k), ("depth_K", depth_k), ("T_color_depth", offset)):
        if matrix is not None and not (np.abs(matrix) <= 1e9).all():
            raise RecordingError(f"{name} in {path} holds a number that is out of this world")
    color_from_depth = np.eye(4) if offset is None else se3.check_rigid(offset, f"T_color_depth in {path}")
    pinhole = pinhole_of(color_k, color_size, f"colour images of {path.parent}")
    depth = pinhole_of(color_k if depth_k is None else depth_k, depth_size, f"depth images of {path.parent}")
    distortion = data.get("color_distortion", [])
    if not isinstance(distortion, list) or not all(is_number(value, _MAX_NUMBER) for value in distortion):
        raise RecordingError(f"color_distortion in {path} must be a list k1 k2 p1 p2 [k3] of numbers")
    if len(distortion) not in (0, 4, 5):
        raise RecordingError(f"color_distortion in {path} has {len(distortion)} numbers, need k1 k2 p1 p2 [k3]")
    if not any(distortion):
        return pinhole, depth, color_from_depth
    if pinhole.skew_px:
        raise RecordingError(f"color_K in {path} has skew, which does not go with color_distortion")
    try:
        fx, fy, cx, cy = pinhole.params.tolist()
        coefficients = tuple(float(value) for value in distortion)
        return RadTanCamera(*color_size, fx, fy, cx, cy, coefficients), depth, color_from_depth
    except CameraError as error:
        raise CameraError(f"color_distortion in {path}: {error}") from error


def _depth_scale(data: dict[str, Any], path: Path) -> float:
    """Counts of a depth image in a metre."""
    value = data.get("depth_scale", _COUNTS_PER_METRE)
    if not is_number(value, _MAX_NUMBER) or not value >= 1e-3:
        raise RecordingError(f"depth_scale in {path} = {str(value)[:40]!r} must be a positive number (counts a metre)")
    return float(value)
