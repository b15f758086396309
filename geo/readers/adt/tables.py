"""Objects of an ADT sequence: who they are, their boxes in their own axes, and where they are through time."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from geo import se3
from geo.errors import RecordingError, TimeError
from geo.readers.json_values import json_object
from geo.readers.object_tables import read_object_poses, read_rows
from geo.readers.text_files import shown
from geo.recording import GivenObject
from geo.world import World

OBJECT_POSES = "scene_objects.csv"
BOXES_3D = "3d_bounding_box.csv"
INSTANCES = "instances.json"
METADATA = "metadata.json"
_BOX = tuple(f"p_local_obj_{axis}{end}[m]" for end in ("min", "max") for axis in "xyz")
_DEVICE_CLOCK = "DEVICE_CAPTURE"
_MAX_BOX_M = 100.0


def check_clock_domain(folder: Path) -> None:
    """Refuse truth that says to be on another clock than the device's (FIELD P5).

    Raises:
        TimeError: another domain. RecordingError: metadata.json is damaged.
    """
    path = folder / METADATA
    if not path.is_file():
        return
    domain = json_object(path).get("gt_time_domain", _DEVICE_CLOCK)
    if domain != _DEVICE_CLOCK:
        raise TimeError(
            f"gt_time_domain in {path} is {shown(str(domain))}; only {_DEVICE_CLOCK} is on the clock of the pictures"
        )


def read_boxes_3d(path: Path, warnings: list[str]) -> dict[str, Float[np.ndarray, "2 3"]]:
    """Lower and upper corner by uid, in object axes, metres.

    Raises:
        RecordingError: unreadable, a box with exchanged corners, one object with two boxes.
    """
    rows = read_rows(path, _BOX, warnings)
    boxes: dict[str, Float[np.ndarray, "2 3"]] = {}
    for line, uid, numbers in zip(rows.lines.tolist(), rows.uids, rows.numbers, strict=True):
        box = numbers.reshape(2, 3)
        if not (np.isfinite(box).all() and (box[0] <= box[1]).all() and np.abs(box).max() <= _MAX_BOX_M):
            raise RecordingError(f"{path} line {line}: {box.tolist()} is no box in metres (lower, upper corner)")
        if uid in boxes and not np.array_equal(boxes[uid], box):
            raise RecordingError(f"{path} line {line}: object {shown(uid)} has another box above; which one counts?")
        boxes[uid] = box
    return boxes


def read_names(path: Path) -> dict[str, str]:
    """``instance_name`` by uid.

    Raises:
        RecordingError: unreadable, or an entry without a name.
    """
    return {uid: _name(entry, uid, path) for uid, entry in json_object(path).items()}


def _name(entry: Any, uid: str, path: Path) -> str:
    name = entry.get("instance_name") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not name:
        raise RecordingError(f"{path}: instance {shown(uid)} has no instance_name; is it another file?")
    return name


def read_objects(folder: Path, world: World, warnings: list[str]) -> tuple[GivenObject, ...]:
    """All objects with a pose, in world.

    Raises:
        RecordingError: a table is missing or damaged. PoseError, TimeError: poses that cannot be.
    """
    names = read_names(folder / INSTANCES)
    boxes = read_boxes_3d(folder / BOXES_3D, warnings)
    poses = read_object_poses(folder / OBJECT_POSES, warnings)
    for what, known in (("name", names), ("box", boxes)):
        without = [uid for uid in poses if uid not in known]
        if without:
            warnings.append(f"{len(without)} of {len(poses)} objects have no {what}, {shown(without[0])} among them")
    return tuple(
        GivenObject(
            object_id=uid,
            label=names.get(uid, uid),
            timestamps_ns=given.timestamps_ns,
            world_from_object=se3.compose(world.world_from_source_world, given.world_from_object),
            static=given.static,
            box_in_object=boxes.get(uid),
        )
        for uid, given in poses.items()
    )
