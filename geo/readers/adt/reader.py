"""An ADT sequence as a recording: pictures of the glasses with the truth of the digital twin."""

from pathlib import Path

import numpy as np
from jaxtyping import Int64

from geo.readers.adt.images import DEPTH_FILE, SEGMENTATION_FILE, open_depth
from geo.readers.adt.tables import BOXES_3D, INSTANCES, METADATA, OBJECT_POSES, check_clock_domain, read_objects
from geo.readers.aria.reader import REFERENCE_STREAM, AriaRig, read_mps_gaze, read_rig
from geo.readers.aria.tracks import Posed, check_clock, extended, posed
from geo.readers.depth_files import DepthCoding
from geo.readers.evidence import Evidence, own_narrations, path_inside
from geo.readers.mps.slam import read_closed_loop
from geo.recording import CameraStream, DepthStream, Recording

VIDEO, TRAJECTORY, GAZE = "video.vrs", "aria_trajectory.csv", "eyegaze.csv"
NEEDED = (VIDEO, TRAJECTORY, OBJECT_POSES, BOXES_3D, INSTANCES)
HELD_NS = 1_000_000
_UNIT_M = 0.001
_OPTIONAL = (DEPTH_FILE, SEGMENTATION_FILE, GAZE, METADATA, "narrations.jsonl")


def look(folder: Path) -> Evidence:
    """What speaks for this format: the files that it cannot do without."""
    there = [name for name in NEEDED if (folder / name).is_file()]
    return Evidence(tuple(there), tuple(name for name in NEEDED if name not in there))


def read(folder: Path) -> Recording:
    """Read a sequence.

    Raises:
        RecordingError: a file is missing or damaged. CameraError, PoseError, TimeError: faults of these; truth on
            another clock than the device's.
    """
    warnings: list[str] = []
    files = {name: path_inside(folder, name, name) for name in (*NEEDED, *_OPTIONAL) if (folder / name).exists()}
    check_clock_domain(folder)
    placed = posed(read_closed_loop(folder / TRAJECTORY, warnings))
    rig = read_rig(folder / VIDEO, warnings)
    reference = rig.streams[0]
    check_clock(folder / TRAJECTORY, placed.trajectory, reference.timestamps_ns)
    placed = _with_end_frames(placed, rig, warnings)
    narrations = own_narrations(folder)
    depth = _depth(folder, reference, warnings)
    gaze = read_mps_gaze(files.get(GAZE), rig, warnings)
    objects = read_objects(folder, placed.world, warnings)
    return Recording(
        recording_id=_name(folder),
        reference=reference,
        depth=depth,
        trajectory=placed.trajectory,
        world=placed.world,
        source_dir=folder,
        format_name="adt",
        gaze=gaze,
        narrations_file=narrations,
        input_files=tuple(files.values()),
        warnings=tuple(warnings),
        others=rig.streams[1:],
        given_objects=objects,
    )


def _name(folder: Path) -> str:
    """The folder's name; of a folder ``original`` that of the one above as well."""
    path = folder.resolve()
    return f"{path.parent.name}_{path.name}" if path.name == "original" and path.parent.name else path.name


def _with_end_frames(placed: Posed, rig: AriaRig, warnings: list[str]) -> Posed:
    """Poses are given at the SLAM cameras' times; a colour picture up to 1 ms outside holds the end pose."""
    stamps: list[Int64[np.ndarray, "N"]] = [stream.timestamps_ns for stream in rig.streams]
    trajectory, held = extended(placed.trajectory, np.unique(np.concatenate(stamps)), HELD_NS)
    if held:
        warnings.append(f"{held} pictures lie up to 1 ms outside {TRAJECTORY}; they have its first or last pose")
    return Posed(trajectory, placed.world)


def _depth(folder: Path, reference: CameraStream, warnings: list[str]) -> DepthStream | None:
    """Depth of the colour camera, brought to a pinhole that looks the same way; None if the folder has none."""
    from geo.depth_rectify import pinhole_for, rectified_depth

    path = folder / DEPTH_FILE
    if not path.is_file():
        warnings.append(f"no {DEPTH_FILE}: the recording has no depth")
        return None
    stamps, fisheye = open_depth(path, REFERENCE_STREAM, DepthCoding(reference.camera, _UNIT_M, invalid=(0.0,)))
    target = pinhole_for(reference.camera)
    frames = rectified_depth(fisheye, reference.camera, target, kind="z")
    return DepthStream("depth", target, stamps, reference.reference_from_camera, frames)
