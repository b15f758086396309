"""A rig that Kalibr calibrated: pictures of several cameras, camchain files, and one trajectory (docs/formats.md).

Nothing in such a folder says which pictures belong to which camera of which camchain, on which clock, and whose poses
the trajectory holds; so a ``rig.json`` says it, or the same table handed to ``read_rig_with``. Cameras of one camchain
hang together by ``T_cn_cnm1``, those of several by ``T_cam_imu``. Kalibr's ``timeshift_cam_imu`` (t_imu = t_cam +
shift) brings the cameras' stamps to the IMU's clock, which is the recording's.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from geo import se3
from geo.errors import PoseError, RecordingError, TimeError
from geo.readers.euroc_layout import found_parts, layout_faults, layout_manifest
from geo.readers.evidence import Evidence, own_narrations, path_inside
from geo.readers.kalibr import CameraChain, KalibrCamera, read_kalibr
from geo.readers.rig_manifest import RIG_SCHEMA, stamps_of
from geo.readers.rig_pictures import RigPictures, rig_pictures
from geo.readers.schema import load_json, validate
from geo.readers.stated_world import stated_world
from geo.readers.trajectory_files import NumberedPoses, read_g2o, read_trajectory_file
from geo.recording import CameraStream, Recording
from geo.trajectory import Trajectory

MANIFEST = "rig.json"
IMU = "imu"


def look(folder: Path) -> Evidence:
    """What speaks for this format: its manifest, or the EuRoC layout with a camchain."""
    if (folder / MANIFEST).is_file():
        return Evidence((MANIFEST,), ())
    faults = layout_faults(folder)
    cameras, chains, truths = found_parts(folder)
    return Evidence((*(f"mav0/{name}" for name in cameras), *chains, *truths), (MANIFEST, *faults) if faults else ())


def read(folder: Path) -> Recording:
    """Read a folder with a ``rig.json``, or of the EuRoC layout.

    Raises:
        RecordingError, CameraError, TimeError, PoseError: see ``read_rig_with``.
    """
    path = folder / MANIFEST
    if not path.is_file() and not layout_faults(folder):
        return read_rig_with(folder, layout_manifest(folder), folder / "mav0")
    recording = read_rig_with(folder, load_json(path), path)
    return replace(recording, input_files=(path, *recording.input_files))


@dataclass(frozen=True)
class _Mounted:
    """A camera of the manifest with its place in the rig."""

    name: str
    entry: dict[str, Any]
    kalibr: KalibrCamera
    chain: CameraChain
    first_from_camera: Float[np.ndarray, "4 4"]  # cam0 of the same camchain
    imu_from_camera: Float[np.ndarray, "4 4"] | None


@dataclass
class _Rig:
    """What is collected while a folder is read."""

    path: Path
    source: Path  # the manifest, for messages
    warnings: list[str] = field(default_factory=list)
    inputs: list[Path] = field(default_factory=list)
    chains: dict[Path, CameraChain] = field(default_factory=dict)

    def file(self, relative: str, what: str) -> Path:
        """A file that the manifest names; it must exist."""
        path = path_inside(self.path, relative, what)
        if not path.is_file():
            raise RecordingError(f"{what}: file {path} is missing")
        if path not in self.inputs:
            self.inputs.append(path)
        return path

    def chain(self, relative: str, what: str) -> CameraChain:
        """A camchain, read once however many cameras are taken from it."""
        path = self.file(relative, what)
        if path not in self.chains:
            self.chains[path] = read_kalibr(path, self.warnings)
        return self.chains[path]


def read_rig_with(folder: Path, manifest: Any, source: Path | None = None) -> Recording:
    """Read a folder by a manifest that need not lie in it.

    Args:
        folder: Where the files are; no path of the manifest may leave it.
        manifest: Content of a ``rig.json`` (docs/formats.md).
        source: Where the manifest is from, for messages.

    Raises:
        RecordingError: the manifest or a file that it names is missing, of another form or contradicts another.
        CameraError: a camchain's numbers. TimeError: times that cannot be, or that do not overlap.
        PoseError: nothing ties the cameras, or the trajectory's body, together.
    """
    rig = _Rig(folder, source or folder / MANIFEST)
    validate(manifest, RIG_SCHEMA, rig.source)
    cameras = {name: _mounted(rig, name, entry) for name, entry in manifest["cameras"].items()}
    name = manifest["reference_camera"]
    if name not in cameras:
        raise RecordingError(f"{rig.source}: reference_camera {name!r} is not among cameras {', '.join(cameras)}")
    reference = cameras.pop(name)
    streams = [_stream(rig, camera, reference) for camera in (reference, *cameras.values())]
    stated = manifest["world"]
    world = stated_world(stated["metric"], stated["up"], f"{rig.source}: world.up")
    turn = world.world_from_source_world
    known = {camera.name: camera for camera in (reference, *cameras.values())}
    trajectory = _trajectory(rig, manifest["trajectory"], known, reference, streams[0].timestamps_ns)
    trajectory.poses_at(streams[0].timestamps_ns)  # two clocks end here, not in some later stage (FIELD P5)
    narrations = own_narrations(folder)
    if narrations is not None:
        rig.inputs.append(narrations)
    return Recording(
        recording_id=manifest.get("id", folder.resolve().name),
        reference=streams[0],
        depth=None,
        trajectory=Trajectory(trajectory.timestamps_ns, se3.compose(turn, trajectory.world_from_body)),
        world=world,
        source_dir=folder,
        format_name="kalibr_rig",
        narrations_file=narrations,
        input_files=tuple(rig.inputs),
        warnings=tuple(rig.warnings),
        others=tuple(streams[1:]),
    )


def _mounted(rig: _Rig, name: str, entry: dict[str, Any]) -> _Mounted:
    """Find a camera in its camchain."""
    chain = rig.chain(entry["camchain"], f"{rig.source}: camchain of camera {name!r}")
    wanted = entry.get("camera", "cam0")
    index = next((i for i, camera in enumerate(chain.cameras) if camera.name == wanted), None)
    if index is None:
        listed = ", ".join(camera.name for camera in chain.cameras)
        raise RecordingError(f"{rig.source}: camera {name!r} is {wanted!r} of {chain.source}, which has {listed}")
    first_from_camera = se3.inverse(chain.camera_from_first(index))
    imu_from_first = _imu_from_first(chain)
    imu_from_camera = None if imu_from_first is None else se3.compose(imu_from_first, first_from_camera)
    return _Mounted(name, entry, chain.cameras[index], chain, first_from_camera, imu_from_camera)


def _imu_from_first(chain: CameraChain) -> Float[np.ndarray, "4 4"] | None:
    """Cam0 of a camchain to IMU: by the first camera that has T_cam_imu."""
    for index, camera in enumerate(chain.cameras):
        if camera.camera_from_imu is not None:
            return se3.compose(se3.inverse(camera.camera_from_imu), chain.camera_from_first(index))
    return None


def _between(rig: _Rig, target: _Mounted, camera: _Mounted) -> Float[np.ndarray, "4 4"]:
    """A camera to another one: inside one camchain, or by way of the IMU."""
    if target.chain is camera.chain:
        return se3.compose(se3.inverse(target.first_from_camera), camera.first_from_camera)
    if target.imu_from_camera is None or camera.imu_from_camera is None:
        bare = target if target.imu_from_camera is None else camera
        raise PoseError(
            f"{rig.source}: cameras {target.name!r} and {camera.name!r} come from two camchains, which only T_cam_imu "
            f"ties together, and {bare.chain.source.name} has none"
        )
    return se3.compose(se3.inverse(target.imu_from_camera), camera.imu_from_camera)


def _stream(rig: _Rig, camera: _Mounted, reference: _Mounted) -> CameraStream:
    """Pictures of a camera, their times on the IMU's clock, and its place seen from the reference."""
    what = f"{rig.source}: camera {camera.name!r}"
    model = camera.kalibr.camera
    pictures: RigPictures = rig_pictures(rig.path, camera.entry, model.size_wh_px, what)
    rig.inputs.extend(pictures.files)
    stamps = stamps_of(camera.entry["timestamps_ns"], pictures, what)
    shift_ns = _shift_ns(camera)
    if shift_ns:
        rig.warnings.append(
            f"stamps of {camera.name} are moved by {shift_ns / 1e6:+.3f} ms to the IMU's clock (timeshift_cam_imu)"
        )
    mount = np.eye(4) if camera is reference else _between(rig, reference, camera)
    return CameraStream(camera.name, model, stamps + shift_ns, mount, pictures.frames, pictures.audio_file)


def _shift_ns(camera: _Mounted) -> int:
    """What is added to a camera's stamps: t_imu = t_cam + shift."""
    return 0 if camera.entry.get("clock", "camera") == IMU else camera.kalibr.imu_minus_camera_ns or 0


def _trajectory(
    rig: _Rig,
    entry: dict[str, Any],
    cameras: dict[str, _Mounted],
    reference: _Mounted,
    frame_stamps: Int64[np.ndarray, "N"],
) -> Trajectory:
    """Poses of the reference camera on the IMU's clock."""
    file = rig.file(entry["file"], f"{rig.source}: trajectory")
    numbers = entry.get("numbers")
    if (entry["format"] == "g2o") != (numbers is not None):
        raise RecordingError(
            f'{rig.source}: trajectory.numbers ("frames", or start_ns and rate_hz) says what the ids of a g2o file '
            "mean: needed there, and only there"
        )
    if entry["format"] == "g2o":
        bodies = _of_numbers(read_g2o(file, rig.warnings), numbers, frame_stamps, rig)
    else:
        bodies = read_trajectory_file(file, entry["format"], rig.warnings)
    clock = entry.get("clock", IMU)
    for key, value in (("clock", clock), ("body", entry["body"])):
        if value != IMU and value not in cameras:
            raise RecordingError(f"{rig.source}: trajectory.{key} = {value!r} is neither imu nor a camera of this file")
    shift_ns = 0 if clock == IMU or numbers == "frames" else cameras[clock].kalibr.imu_minus_camera_ns or 0
    if entry["body"] != IMU:
        body_from_reference = _between(rig, cameras[entry["body"]], reference)
    elif reference.imu_from_camera is not None:
        body_from_reference = reference.imu_from_camera
    else:
        raise PoseError(f"{rig.source}: the trajectory is the IMU's, and {reference.chain.source} has no T_cam_imu")
    if int(np.abs(bodies.timestamps_ns).max(initial=0)) >= 2**62:
        raise TimeError(f"{file}: a time lies more than 146 years from zero; are these seconds?")
    return Trajectory(bodies.timestamps_ns + shift_ns, se3.compose(bodies.world_from_body, body_from_reference))


def _of_numbers(poses: NumberedPoses, numbers: Any, frame_stamps: Int64[np.ndarray, "N"], rig: _Rig) -> Trajectory:
    """Times of numbered poses: those of the reference camera's frames, or counted at a rate."""
    if numbers != "frames":
        return poses.at_rate(numbers["rate_hz"], numbers["start_ns"], numbers.get("first", 0))
    inside = (poses.numbers >= 0) & (poses.numbers < len(frame_stamps))
    if not inside.any():
        raise RecordingError(
            f"{rig.source}: the poses are numbered {poses.numbers[0]} to {poses.numbers[-1]}, the reference camera has "
            f"{len(frame_stamps)} frames: not one belongs to a frame"
        )
    if not inside.all():
        rig.warnings.append(f"{int((~inside).sum())} numbered poses belong to no frame and are left out")
    return Trajectory(frame_stamps[poses.numbers[inside]], poses.world_from_body[inside])
