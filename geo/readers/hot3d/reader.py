"""A HOT3D sequence as a recording, with or without its pictures."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from geo import se3
from geo.errors import RecordingError
from geo.nearest import nearest_rows
from geo.readers.aria.folder import GAZE_NAMES, POINT_NAMES, TRAJECTORY_NAMES
from geo.readers.aria.reader import read_rig
from geo.readers.aria.tracks import check_clock, gaze_on_frames, scene_points, z_up_world
from geo.readers.aria.vrs import VrsFile, VrsFrames
from geo.readers.evidence import Evidence, path_inside
from geo.readers.hot3d import tables
from geo.readers.hot3d.cameras import StreamCamera, aria_cameras, build_of, camera_from_cpf, quest3_cameras
from geo.readers.hot3d.clock import ClockOffset, offset_by_poses
from geo.readers.hot3d.hands import read_wrists
from geo.readers.hot3d.library import ENVIRONMENT, find_library, mesh_bounds, read_names
from geo.readers.mps.gaze import read_gaze
from geo.readers.mps.slam import MpsTrajectory, read_closed_loop
from geo.recording import (
    CameraStream,
    FrameSource,
    GazeTrack,
    GivenObject,
    MissingFrames,
    Recording,
    ScenePoints,
    turned_hands,
)
from geo.trajectory import Trajectory
from geo.world import World

VRS = "recording.vrs"
CAMERA_MODELS = "camera_models.json"
SLAM_FOLDER, GAZE_FOLDER = "mps/slam", "mps/eye_gaze"
ONLINE_CALIBRATION = f"{SLAM_FOLDER}/online_calibration.jsonl"
NEEDED = (tables.METADATA, tables.HEADSET, tables.OBJECTS)
_FRAME_TOLERANCE_NS = 1_000_000


def look(folder: Path) -> Evidence:
    """What speaks for this format: its three tables."""
    there = [name for name in NEEDED if (folder / name).is_file()]
    return Evidence(tuple(there), tuple(name for name in NEEDED if name not in there))


@dataclass(frozen=True)
class _Mps:
    """What MPS knows of a sequence, on its own clock."""

    path: Path
    given: MpsTrajectory
    offset: ClockOffset


def read(folder: Path) -> Recording:
    """Read a sequence; the reference frame is the headset ("device"). See the package's docstring.

    Raises:
        RecordingError: a file is missing or damaged. CameraError, PoseError, TimeError: faults of these.
    """
    warnings: list[str] = []
    for name in NEEDED:
        path_inside(folder, name, name)
    kind = tables.read_headset_kind(folder / tables.METADATA)
    masks = tables.read_masks(folder, warnings)
    times = tables.picture_times(folder, masks)
    headset = tables.read_headset(folder / tables.HEADSET, masks, warnings)
    streams, mounted = _streams(folder, kind, times, warnings)
    check_clock(folder / tables.HEADSET, headset, streams[0].timestamps_ns)
    mps = _mps(folder, headset, warnings) if kind == tables.ARIA else None
    world = z_up_world(None if mps is None else mps.given.up_in_world)
    turn = world.world_from_source_world
    objects, meshes = _objects(folder, masks, turn, warnings)
    hands = read_wrists(folder, masks.get("hand_pose_available"), warnings)
    gaze = None if mps is None else _gaze(folder, mps, mounted[0], streams[0], warnings)
    points = None if mps is None else _points(folder, mps, world, warnings)
    narrations = folder / "narrations.jsonl"
    return Recording(
        recording_id=folder.resolve().name,
        reference=streams[0],
        depth=None,
        trajectory=Trajectory(headset.timestamps_ns, se3.compose(turn, headset.world_from_body)),
        world=world,
        source_dir=folder,
        format_name="hot3d",
        gaze=gaze,
        hands=turned_hands(hands, turn),
        narrations_file=narrations if narrations.is_file() else None,
        input_files=(*sorted(path for path in folder.rglob("*") if path.is_file()), *meshes),
        warnings=tuple(warnings),
        others=streams[1:],
        points=points,
        given_objects=objects,
    )


def _streams(
    folder: Path, kind: str, times: dict[str, Int64[np.ndarray, "N"]], warnings: list[str]
) -> tuple[tuple[CameraStream, ...], tuple[StreamCamera, ...]]:
    """Picture cameras, the reference first, and how they are mounted.

    Raises:
        RecordingError: no calibration, or no times for the first camera.
    """
    vrs = folder / VRS
    file = _opened(folder, kind, warnings)
    if kind == tables.QUEST3:
        cameras = quest3_cameras(folder / CAMERA_MODELS)
    elif file is not None and not (folder / ONLINE_CALIBRATION).is_file():
        cameras = _factory_cameras(vrs, warnings)
    else:
        cameras = aria_cameras(folder / ONLINE_CALIBRATION, warnings)
        warnings.append("cameras are those of MPS' online calibration in the middle of the sequence")
    if not vrs.is_file():
        warnings.append(f"{VRS} is missing: the recording has no pictures, everything else is there")
    streams = []
    for camera in cameras:
        stamps = times.get(camera.stream_id)
        if stamps is None:
            warnings.append(f"stream {camera.stream_id} ({camera.name}) has no times and is left out")
            continue
        stamps, frames = _frames(file, kind, camera, stamps, folder, warnings)
        mounted = camera.mounted
        streams.append(CameraStream(camera.name, mounted.camera, stamps, mounted.device_from_camera, frames))
    if not streams or streams[0].name != cameras[0].name:
        raise RecordingError(f"{folder}: no picture times of stream {cameras[0].stream_id} ({cameras[0].name})")
    return tuple(streams), cameras


def _opened(folder: Path, kind: str, warnings: list[str]) -> VrsFile | None:
    """The VRS file; None if there is none, or one of Quest 3 that projectaria_tools does not read (made for Aria).

    Raises:
        RecordingError: one of Aria that cannot be read.
    """
    path = path_inside(folder, VRS, VRS)
    if not path.is_file():
        return None
    try:
        return VrsFile(path)
    except RecordingError as error:
        if kind == tables.ARIA:
            raise
        warnings.append(f"no pictures: {error}")
        return None


def _factory_cameras(vrs: Path, warnings: list[str]) -> tuple[StreamCamera, ...]:
    """Cameras of the VRS file itself, where MPS left no calibration."""
    from geo.readers.aria.calibration import TURNS_CLOCKWISE, MountedCamera

    rig = read_rig(vrs, warnings)
    names = {stream.label: stream_id for stream_id, stream in rig.file.streams.items()}
    return tuple(
        StreamCamera(
            names[stream.name], stream.name, TURNS_CLOCKWISE, MountedCamera(stream.camera, stream.reference_from_camera)
        )
        for stream in rig.streams
    )


def _frames(
    file: VrsFile | None,
    kind: str,
    camera: StreamCamera,
    stamps: Int64[np.ndarray, "N"],
    folder: Path,
    warnings: list[str],
) -> tuple[Int64[np.ndarray, "K"], FrameSource]:
    """Times of the sequence with the pictures that were taken then."""
    if file is None:
        reason = f"{folder / VRS} is missing; download the sequence's {VRS} into its folder"
        if (folder / VRS).is_file():
            reason = f"{folder / VRS} cannot be read by projectaria_tools; see the recording's warnings"
        return stamps, MissingFrames(len(stamps), reason)
    stream_id = camera.stream_id if kind == tables.ARIA else _quest3_stream(file, camera, warnings)
    if stream_id is None or stream_id not in file.streams:
        warnings.append(f"{VRS} has no pictures of stream {camera.stream_id} that can be read")
        return stamps, MissingFrames(len(stamps), f"{folder / VRS} has no stream {camera.stream_id} that can be read")
    taken, size = file.streams[stream_id].timestamps_ns, file.streams[stream_id].size_wh_px
    shown = size[::-1] if camera.turns_clockwise % 2 else size
    if shown != camera.mounted.camera.size_wh_px:
        raise RecordingError(
            f"{folder / VRS}: upright pictures of stream {stream_id} are {shown} px (W, H), but {camera.name} is "
            f"calibrated for {camera.mounted.camera.size_wh_px}"
        )
    on_clock = file.time_code_ns(taken) if kind == tables.ARIA else taken
    nearest = nearest_rows(on_clock, stamps)
    near = np.abs(on_clock[nearest] - stamps) <= _FRAME_TOLERANCE_NS
    if not near.any() and kind == tables.QUEST3:
        warnings.append(f"{VRS}: not a picture within 1 ms of the times of stream {camera.stream_id}; it is left out")
        return stamps, MissingFrames(len(stamps), f"{folder / VRS} has no picture at the times of the sequence")
    if not near.any():
        raise RecordingError(
            f"{folder / VRS}: not a picture of stream {stream_id} within 1 ms of the times of the sequence; is it of "
            "another one?"
        )
    if not near.all():
        warnings.append(f"{int((~near).sum())} of {len(near)} times of stream {camera.stream_id} have no picture")
    return stamps[near], VrsFrames(file, stream_id, camera.turns_clockwise, tuple(nearest[near].tolist()))


def _quest3_stream(file: VrsFile, camera: StreamCamera, warnings: list[str]) -> str | None:
    """The stream of a Quest 3 camera: by its id, else the n-th of those of its size (HOT3D's own tools do so)."""
    if camera.stream_id in file.streams:
        return camera.stream_id
    width, height = camera.mounted.camera.size_wh_px
    stored = (height, width) if camera.turns_clockwise % 2 else (width, height)
    fitting = sorted(name for name, stream in file.streams.items() if stream.size_wh_px == stored)
    found = re.fullmatch(r"[0-9]{1,9}-([0-9]{1,9})", camera.stream_id)
    number = int(found[1]) - 1 if found else -1
    if not 0 <= number < len(fitting):
        return None
    warnings.append(f"Quest 3: stream {fitting[number]} is taken for {camera.stream_id}, by its place (not tested)")
    return fitting[number]


def _named(folder: Path, place: str, names: tuple[str, ...]) -> Path | None:
    """The first of some files in a folder of the sequence."""
    there = (f"{place}/{name}" for name in names if (folder / place / name).is_file())
    first = next(there, None)
    return None if first is None else path_inside(folder, first, first)


def _mps(folder: Path, headset: Trajectory, warnings: list[str]) -> _Mps | None:
    """MPS' trajectory and how its clock goes with the sequence's; None if there is none or it is another's."""
    path = _named(folder, SLAM_FOLDER, TRAJECTORY_NAMES)
    if path is None:
        warnings.append("no closed_loop_trajectory.csv of MPS: gravity is not known, gaze cannot be placed in time")
        return None
    given = read_closed_loop(path, warnings)
    offset = offset_by_poses(headset, given, path, warnings)
    if offset is None:
        return None
    warnings.append(
        f"MPS is in device time, the sequence in time code: they differ by {offset.offset_ns} ns, by {offset.pairs} "
        f"equal poses (+- {offset.spread_ns / 2e6:.2f} ms)"
    )
    return _Mps(path, given, offset)


def _gaze(
    folder: Path, mps: _Mps, camera: StreamCamera, reference: CameraStream, warnings: list[str]
) -> GazeTrack | None:
    """Gaze in pixels of the colour camera, on the sequence's clock."""
    path = _named(folder, GAZE_FOLDER, GAZE_NAMES)
    if path is None:
        return None
    cameras = aria_cameras(folder / ONLINE_CALIBRATION, []) if (folder / ONLINE_CALIBRATION).is_file() else ()
    build = build_of(cameras)
    if build is None:
        warnings.append("gaze is left out: the calibration does not tell which glasses these are (small or large)")
        return None
    warnings.append(f"gaze: the glasses are taken for {build} by the distance of their SLAM cameras")
    gaze = read_gaze(path, warnings)
    moved = replace(gaze, timestamps_ns=mps.offset.to_recording(gaze.timestamps_ns))
    placed = camera_from_cpf(camera, build)
    return gaze_on_frames(moved, path, reference.camera, placed, reference.timestamps_ns, warnings)


def _points(folder: Path, mps: _Mps, world: World, warnings: list[str]) -> ScenePoints | None:
    path = _named(folder, SLAM_FOLDER, POINT_NAMES)
    return None if path is None else scene_points(path, mps.given.graph_uid, world, warnings)


def _objects(
    folder: Path, masks: dict[str, tables.Mask], turn: np.ndarray, warnings: list[str]
) -> tuple[tuple[GivenObject, ...], tuple[Path, ...]]:
    """Objects with names, meshes and the boxes of the meshes, as far as the library has them; the meshes used."""
    library = find_library(folder)
    names = {} if library is None else read_names(library)
    poses = tables.read_moving_objects(folder / tables.OBJECTS, masks, warnings)
    found, meshes, without = [], [], 0
    for uid, given in poses.items():
        mesh = None if library is None else library / f"{uid}.glb"
        if mesh is None or "/" in uid or not mesh.is_file():
            mesh, without = None, without + 1
        else:
            meshes.append(mesh)
        found.append(
            GivenObject(
                object_id=uid,
                label=names.get(uid, uid),
                timestamps_ns=given.timestamps_ns,
                world_from_object=se3.compose(turn, given.world_from_object),
                static=given.static,
                box_in_object=None if mesh is None else mesh_bounds(mesh),
                mesh_file=mesh,
            )
        )
    if without:
        where = "no object library in the folder" if library is None else f"not in {library}"
        warnings.append(f"{without} of {len(poses)} objects have no mesh ({where}; {ENVIRONMENT} names one elsewhere)")
    return tuple(found), tuple(meshes)
