"""A HOT3D sequence as a recording, with or without its pictures."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from geo import se3
from geo.readers.aria.folder import GAZE_NAMES, POINT_NAMES, TRAJECTORY_NAMES
from geo.readers.aria.tracks import check_clock, gaze_on_frames, scene_points, z_up_world
from geo.readers.evidence import Evidence, own_narrations, path_inside
from geo.readers.hot3d import tables
from geo.readers.hot3d.cameras import StreamCamera, aria_cameras, build_of, camera_from_cpf
from geo.readers.hot3d.clock import ClockOffset, offset_by_poses
from geo.readers.hot3d.hands import read_wrists
from geo.readers.hot3d.library import ENVIRONMENT, find_library, mesh_bounds, read_names
from geo.readers.hot3d.pictures import ONLINE_CALIBRATION, open_streams
from geo.readers.mps.gaze import read_gaze
from geo.readers.mps.slam import MpsTrajectory, read_closed_loop
from geo.recording import (
    CameraStream,
    GazeTrack,
    GivenObject,
    Recording,
    ScenePoints,
    turned_hands,
)
from geo.trajectory import Trajectory
from geo.world import World

SLAM_FOLDER, GAZE_FOLDER = "mps/slam", "mps/eye_gaze"
NEEDED = (tables.METADATA, tables.HEADSET, tables.OBJECTS)


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
    streams, mounted = open_streams(folder, kind, times, warnings)
    check_clock(folder / tables.HEADSET, headset, streams[0].timestamps_ns)
    mps = _mps(folder, headset, warnings) if kind == tables.ARIA else None
    world = z_up_world(None if mps is None else mps.given.up_in_world)
    turn = world.world_from_source_world
    objects, meshes = _objects(folder, masks, turn, warnings)
    hands = read_wrists(folder, masks.get("hand_pose_available"), warnings)
    gaze = None if mps is None else _gaze(folder, mps, mounted[0], streams[0], warnings)
    points = None if mps is None else _points(folder, mps, world, warnings)
    narrations = own_narrations(folder)
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
        narrations_file=narrations,
        input_files=(*sorted(path for path in folder.rglob("*") if path.is_file()), *meshes),
        warnings=tuple(warnings),
        others=streams[1:],
        points=points,
        given_objects=objects,
    )


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
