"""This project's own layout (docs/formats.md): recording.json, trajectory.csv, videos, optional tables."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from geo import se3
from geo.cameras import Camera, camera_from_params
from geo.depth_rectify import pinhole_for, rectified_depth
from geo.errors import CameraError, GeoError, RecordingError, TimeError
from geo.readers.depth_files import DepthCoding, DepthImages, Hdf5Depth
from geo.readers.evidence import Evidence, path_inside
from geo.readers.json_values import rate_of
from geo.readers.plain_schema import PLAIN_SCHEMA
from geo.readers.printf_files import pattern_files, pattern_numbers
from geo.readers.schema import load_json, validate
from geo.readers.stated_world import stated_world
from geo.readers.tables import read_gaze, read_hands, read_trajectory
from geo.recording import CameraStream, DepthSource, DepthStream, FrameSource, Recording, turned_hands
from geo.trajectory import Trajectory
from geo.video import ImageFrames, VideoFrames

_NS = 1_000_000_000
_CLOCKS_APART_MS = 20.0


def look(folder: Path) -> Evidence:
    """What speaks for this format: the manifest decides."""
    names = ("recording.json", "trajectory.csv")
    there = [name for name in names if (folder / name).is_file()]
    return Evidence(tuple(there), tuple(name for name in names[:1] if name not in there))


@dataclass
class _Folder:
    """What is collected while a folder is read."""

    path: Path
    inputs: list[Path] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def file(self, relative: str, what: str) -> Path:
        """A file that the manifest names; it must exist."""
        path = path_inside(self.path, relative, what)
        if not path.is_file():
            raise RecordingError(f"{what}: file {path} is missing")
        self.inputs.append(path)
        return path

    def optional(self, name: str) -> Path | None:
        """A file of the layout that need not be there."""
        path = self.path / name
        if not path.is_file():
            return None
        self.inputs.append(path)
        return path


def read(path: Path) -> Recording:
    """Read the folder.

    Raises:
        RecordingError, CameraError, TimeError, PoseError: one clear text for what is wrong and where.
    """
    if (path / "recording.json").is_file() and not (path / "trajectory.csv").is_file():
        raise RecordingError(
            f"{path} has no trajectory.csv, so nothing can be placed; `egospatial poses {path} --out DIR` estimates "
            "the poses from the pictures and writes a recording that has them"
        )
    return _read(path, posed=True)


def read_unposed(path: Path) -> Recording:
    """Read a folder whose trajectory.csv may be missing, for estimating it; the trajectory is empty then.

    Raises:
        RecordingError, CameraError, TimeError, PoseError: one clear text for what is wrong and where.
    """
    return _read(path, posed=(path / "trajectory.csv").is_file())


def _read(path: Path, posed: bool) -> Recording:
    folder = _Folder(path)
    manifest_file = path / "recording.json"
    manifest = load_json(manifest_file)
    validate(manifest, PLAIN_SCHEMA, manifest_file)
    folder.inputs.append(manifest_file)
    cameras: dict[str, dict[str, Any]] = manifest["cameras"]
    name = manifest["reference_camera"]
    if name not in cameras:
        raise RecordingError(f"{manifest_file}: reference_camera {name!r} is not among cameras {list(cameras)}")
    reference = _reference(folder, name, cameras[name])
    rest = {key: value for key, value in cameras.items() if key != name}
    depth = _depth(folder, rest)
    others = _others(folder, rest)
    trajectory = Trajectory(np.zeros(0, dtype=np.int64), np.zeros((0, 4, 4)))
    if posed:
        trajectory = read_trajectory(folder.file("trajectory.csv", "the poses"), folder.warnings)
    gaze_file, hands_file = folder.optional("gaze.csv"), folder.optional("hands.csv")
    world = stated_world(manifest["world"]["metric"], manifest["world"]["up"], f"{manifest_file}: world.up")
    turn = world.world_from_source_world
    hands = read_hands(hands_file) if hands_file else ()
    return Recording(
        recording_id=manifest["id"],
        reference=reference,
        depth=depth,
        trajectory=Trajectory(trajectory.timestamps_ns, se3.compose(turn, trajectory.world_from_body)),
        world=world,
        source_dir=path,
        format_name="plain",
        gaze=read_gaze(gaze_file) if gaze_file else None,
        hands=turned_hands(hands, turn),
        narrations_file=folder.optional("narrations.jsonl"),
        input_files=tuple(folder.inputs),
        warnings=tuple(folder.warnings),
        others=others,
    )


def _camera(name: str, entry: dict[str, Any]) -> Camera:
    theta = entry.get("valid_theta_deg")
    try:
        return camera_from_params(
            entry["model"],
            (entry["width"], entry["height"]),
            [float(value) for value in entry["params"]],
            None if theta is None else float(np.radians(theta)),
        )
    except CameraError as error:
        raise CameraError(f"camera {name!r}: {error}") from error


def _mount(name: str, entry: dict[str, Any]) -> Float[np.ndarray, "4 4"]:
    matrix = entry.get("reference_from_camera")
    return np.eye(4) if matrix is None else se3.check_rigid(np.array(matrix, float), f"reference_from_camera of {name}")


def _stamps(name: str, entry: dict[str, Any], frames: int) -> Int64[np.ndarray, "N"]:
    """Time stamps of a camera, as many as it has frames."""
    given = entry["timestamps_ns"]
    if isinstance(given, dict):
        step = _NS / rate_of(given["rate_hz"], f"camera {name!r}")
        given = [given["start_ns"] + round(i * step) for i in range(frames)]
    try:
        stamps = np.array(given, dtype=np.int64)
    except OverflowError:
        raise TimeError(f"camera {name!r}: a time stamp does not fit 64-bit nanoseconds") from None
    if len(stamps) != frames:
        raise TimeError(f"camera {name!r} has {frames} frames but {len(stamps)} time stamps")
    falling = np.flatnonzero(np.diff(stamps) <= 0)
    if len(falling):
        i = int(falling[0])
        raise TimeError(
            f"camera {name!r}: time does not rise from frame {i} ({stamps[i]} ns) to {i + 1} ({stamps[i + 1]} ns)"
        )
    return stamps


def _one_of(name: str, entry: dict[str, Any], keys: tuple[str, ...]) -> str:
    given = [key for key in keys if key in entry]
    if len(given) != 1:
        raise RecordingError(f"camera {name!r} needs exactly one of {', '.join(keys)}; it has {given or 'none'}")
    return given[0]


def _reference(folder: _Folder, name: str, entry: dict[str, Any]) -> CameraStream:
    """The reference camera with its pictures."""
    if not np.allclose(_mount(name, entry), np.eye(4), atol=1e-9):
        raise RecordingError(
            f"camera {name!r} is the reference: its reference_from_camera must be null or the identity"
        )
    return _stream(folder, name, entry)


def _others(folder: _Folder, rest: dict[str, dict[str, Any]]) -> tuple[CameraStream, ...]:
    """Further picture cameras of the rig; one that cannot be read is left out, and that is said."""
    found = []
    for name, entry in rest.items():
        if "depth" in entry:
            continue
        noted = len(folder.inputs), len(folder.warnings)
        try:
            if entry.get("reference_from_camera") is None:
                raise RecordingError(f"camera {name!r} has no reference_from_camera")
            found.append(_stream(folder, name, entry))
        except GeoError as error:
            del folder.inputs[noted[0] :], folder.warnings[noted[1] :]
            folder.warnings.append(f"camera {name} is left out: {error}")
    return tuple(found)


def _stream(folder: _Folder, name: str, entry: dict[str, Any]) -> CameraStream:
    """A camera with its pictures."""
    camera = _camera(name, entry)
    mount = _mount(name, entry)
    if entry.get("rolling_shutter_s"):
        folder.warnings.append(f"rolling shutter of {entry['rolling_shutter_s']} s ({name}) is not corrected")
    audio: Path | None = None
    frames: FrameSource
    if _one_of(name, entry, ("video", "images")) == "video":
        video = VideoFrames(folder.file(entry["video"], f"video of camera {name!r}"))
        _check_shown_size(name, video, camera, entry)
        audio = video.path if video.table.has_audio else None
        frames = video
    else:
        files = _numbered(folder, entry["images"], name, _listed_count(entry), entry.get("first"))
        frames = ImageFrames(files, camera.size_wh_px)
    stamps = _stamps(name, entry, len(frames))
    if isinstance(frames, VideoFrames):
        apart_ms = float(np.abs((stamps - stamps[0]) - frames.timestamps_ns).max()) / 1e6
        if apart_ms > _CLOCKS_APART_MS:
            folder.warnings.append(
                f"time stamps of {name} differ from those in {frames.path.name} by up to {apart_ms:.0f} ms; "
                "recording.json is used"
            )
    return CameraStream(name, camera, stamps, mount, frames, audio)


def _check_shown_size(name: str, video: VideoFrames, camera: Camera, entry: dict[str, Any]) -> None:
    """Frames are shown as their rotation tag says; the calibration must be for the shown frame (FIELD V1)."""
    table = video.table
    tag = f"carries a rotation tag of {table.rotation_deg} degrees"
    if table.size_wh_px != camera.size_wh_px:
        hint = ""
        if table.rotation_deg and table.stored_size_wh_px == camera.size_wh_px:
            hint = f". The video {tag}: calibrate the frames as shown, or remove the tag"
        raise RecordingError(
            f"video {video.path} shows {table.size_wh_px[0]}x{table.size_wh_px[1]}, but camera {name!r} is calibrated "
            f"for {camera.width_px}x{camera.height_px}{hint}"
        )
    undecidable = table.rotation_deg == 180 or table.stored_size_wh_px[0] == table.stored_size_wh_px[1]
    if table.rotation_deg and undecidable and entry.get("calibration_of") != "shown":
        raise RecordingError(
            f"video {video.path} {tag}, and its size does not tell whether camera {name!r} is calibrated for stored or "
            'shown frames: remove the tag, or set "calibration_of": "shown"'
        )


def _listed_count(entry: dict[str, Any]) -> int | None:
    stamps = entry["timestamps_ns"]
    return len(stamps) if isinstance(stamps, list) else None


def _numbered(folder: _Folder, pattern: str, name: str, count: int | None, first: int | None) -> list[Path]:
    """Files of a printf pattern, in the order of their numbers; a gap is an error that names the missing file."""
    what = f"camera {name!r}"
    numbers = pattern_numbers(folder.path, pattern, what)
    if not numbers:
        raise RecordingError(f"{what}: no file fits {folder.path / pattern}")
    start = first if first is not None else min(numbers[0], 1)
    stop = start + count if count is not None else numbers[-1] + 1
    files = pattern_files(folder.path, pattern, range(start, stop), what)
    folder.inputs.extend(files)
    return files


def _depth(folder: _Folder, others: dict[str, dict[str, Any]]) -> DepthStream | None:
    """The depth camera among the other cameras; depth of a distorted one is brought to a pinhole, and that is said."""
    with_depth = [name for name, entry in others.items() if "depth" in entry]
    if len(with_depth) > 1:
        raise RecordingError(f"{folder.path}: one depth camera can be used, there are {with_depth}")
    if not with_depth:
        return None
    name = with_depth[0]
    entry = others[name]
    camera = _camera(name, entry)
    target = pinhole_for(camera)
    if target == camera:
        frames = _depth_source(folder, name, entry, camera, entry["depth"]["kind"])
    else:
        folder.warnings.append(f"depth of {name} is that of a {camera.model} lens: it is undistorted to a pinhole")
        # The kind stays that of the pixels until they are undistorted: "z" here means "as it is".
        as_stored = _depth_source(folder, name, entry, camera, "z")
        frames = rectified_depth(as_stored, camera, target, entry["depth"]["kind"])
    return DepthStream(name, target, _stamps(name, entry, len(frames)), _mount(name, entry), frames)


def _depth_source(folder: _Folder, name: str, entry: dict[str, Any], camera: Camera, kind: str) -> DepthSource:
    spec = entry["depth"]
    invalid = spec.get("invalid", ())
    coding = DepthCoding(
        camera,
        float(spec["unit_m"]),
        kind,
        tuple(float(value) for value in (invalid if isinstance(invalid, list | tuple) else [invalid])),
        float(spec.get("max_depth_m", 20.0)),
    )
    if _one_of(name, spec, ("file", "images")) == "images":
        return DepthImages(_numbered(folder, spec["images"], name, _listed_count(entry), spec.get("first")), coding)
    if "dataset" not in spec:
        raise RecordingError(f"camera {name!r}: depth.file needs depth.dataset")
    return Hdf5Depth(folder.file(spec["file"], f"depth of camera {name!r}"), spec["dataset"], coding)
