"""Tables of a HOT3D sequence: what it is, its masks, the times of its pictures, and its poses."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from geo.errors import RecordingError
from geo.readers.json_values import json_object
from geo.readers.object_tables import ObjectPoses, read_boxes_2d, read_object_poses, read_rows
from geo.readers.text_files import shown
from geo.trajectory import Trajectory

METADATA, HEADSET, OBJECTS, BOXES = (
    "metadata.json",
    "headset_trajectory.csv",
    "dynamic_objects.csv",
    "box2d_objects.csv",
)
ARIA, QUEST3 = "Aria", "Quest3"
_MASKS = "masks"


def read_headset_kind(path: Path) -> str:
    """``Aria`` or ``Quest3``.

    Raises:
        RecordingError: unreadable, or another headset.
    """
    kind = json_object(path).get("headset")
    if kind not in (ARIA, QUEST3):
        raise RecordingError(f"headset in {path} is {shown(str(kind))}; known are {ARIA} and {QUEST3}")
    return str(kind)


@dataclass(frozen=True)
class Mask:
    """A check of the data set's makers: for each stream, the times that passed and those that did not."""

    name: str
    good_ns: dict[str, set[int]]
    bad_ns: dict[str, set[int]]

    def all_bad_ns(self) -> Int64[np.ndarray, "N"]:
        """Times that did not pass in any stream."""
        return np.array(sorted(set().union(*self.bad_ns.values())), dtype=np.int64)


def read_masks(folder: Path, warnings: list[str]) -> dict[str, Mask]:
    """``masks/mask_*.csv`` by name (``headset_pose_available``); pictures that did not pass are counted in a warning.

    Raises:
        RecordingError: a table that is damaged, a value that is neither True nor False.
    """
    masks = {}
    for path in sorted((folder / _MASKS).glob("mask_*.csv")):
        rows = read_rows(path, (), warnings, ("stream_id", "mask"), uid=None)
        mask = Mask(path.stem.removeprefix("mask_"), {}, {})
        for line, stamp, stream, value in zip(
            rows.lines.tolist(), rows.timestamps_ns.tolist(), rows.texts["stream_id"], rows.texts["mask"], strict=True
        ):
            if value not in ("True", "False"):
                raise RecordingError(f"{path} line {line}: mask = {shown(value)} is neither True nor False")
            (mask.good_ns if value == "True" else mask.bad_ns).setdefault(stream, set()).add(stamp)
        failed = sum(len(stamps) for stamps in mask.bad_ns.values())
        if failed:
            warnings.append(f"{path.name}: {failed} of {len(rows.lines)} pictures did not pass")
        masks[mask.name] = mask
    return masks


def picture_times(folder: Path, masks: dict[str, Mask]) -> dict[str, Int64[np.ndarray, "N"]]:
    """Times of the pictures of each stream: those that the masks list, else those of the 2D boxes.

    Raises:
        RecordingError: neither masks nor boxes tell any.
    """
    times: dict[str, set[int]] = {}
    for mask in masks.values():
        for part in (mask.good_ns, mask.bad_ns):
            for stream, stamps in part.items():
                times.setdefault(stream, set()).update(stamps)
    if not times and (folder / BOXES).is_file():
        boxes = read_boxes_2d(folder / BOXES, [])
        for stream, stamp in zip(boxes.stream_ids, boxes.timestamps_ns.tolist(), strict=True):
            times.setdefault(stream, set()).add(stamp)
    if not times:
        raise RecordingError(f"{folder}: neither {_MASKS} nor {BOXES} tell the times of the pictures")
    return {stream: np.array(sorted(stamps), dtype=np.int64) for stream, stamps in times.items()}


def read_headset(path: Path, masks: dict[str, Mask], warnings: list[str]) -> Trajectory:
    """world_from_device, without the times at which ``headset_pose_available`` did not pass.

    Raises:
        RecordingError: damaged, more than one headset, no pose left. PoseError, TimeError: poses that cannot be.
    """
    poses = read_object_poses(path, warnings)
    if len(poses) != 1:
        raise RecordingError(f"{path} has poses of {len(poses)} headsets; expected one")
    given = _passed(next(iter(poses.values())), masks.get("headset_pose_available"))
    if given.static or not len(given.timestamps_ns):
        raise RecordingError(f"{path}: not a single pose of the headset at a time has passed the checks")
    return Trajectory(given.timestamps_ns, given.world_from_object)


def read_moving_objects(path: Path, masks: dict[str, Mask], warnings: list[str]) -> dict[str, ObjectPoses]:
    """Objects by uid, without the times at which ``object_pose_available`` did not pass.

    Raises:
        RecordingError, PoseError, TimeError: see ``geo.readers.object_tables``.
    """
    poses = read_object_poses(path, warnings)
    passed = {uid: _passed(given, masks.get("object_pose_available")) for uid, given in poses.items()}
    return {uid: given for uid, given in passed.items() if len(given.timestamps_ns)}


def _passed(given: ObjectPoses, mask: Mask | None) -> ObjectPoses:
    if mask is None or given.static:
        return given
    kept = ~np.isin(given.timestamps_ns, mask.all_bad_ns())
    return ObjectPoses(given.uid, given.static, given.timestamps_ns[kept], given.world_from_object[kept])
