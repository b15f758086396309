"""A finished folder and its truth side by side: frames by time, objects by label, one world."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int64

from egospatial.errors import FrontDoorError
from egospatial.simulator.truth import Truth, load_truth
from egospatial.store import geometry_file, recording_file, tracks_file, trajectories_file
from geo import se3
from geo.world import World
from lifting.records import Event, Lifted, MotionState, ObjectTrajectory
from tracking.records import TrackSet


@dataclass(frozen=True)
class Aligned:
    """``truth_rows[i]``: the truth's frame of stored frame i. ``label_ids``: label -> the stored object's id."""

    folder: Path
    truth: Truth
    truth_rows: Int64[np.ndarray, "N"]
    timestamps_ns: Int64[np.ndarray, "N"]
    world: World
    tracks: TrackSet
    lifted: Lifted
    label_ids: dict[str, int]

    @cached_property
    def compact_labels(self) -> tuple[str, ...]:
        """Labels of objects that are not thin."""
        return tuple(item.label for item in self.truth.objects if not item.thin)

    def trajectory(self, label: str) -> ObjectTrajectory | None:
        """The stored trajectory of a label, if there is one."""
        wanted = self.label_ids.get(label)
        return next((item for item in self.lifted.trajectories if item.object_id == wanted), None)

    @cached_property
    def truth_in_world(self) -> Lifted:
        """The truth on the stored frames, in the stored world, its objects under the stored ids.

        Objects that were not tracked keep an id of their own (1000 + theirs).
        """
        world_from_truth = self.world.world_from_source_world
        ids = {item.object_id: self.label_ids.get(item.label, 1000 + item.object_id) for item in self.truth.objects}
        lifted = self.truth.lifted
        return replace(
            lifted,
            trajectories=tuple(
                _moved(_cut(item, self.truth_rows), world_from_truth, ids[item.object_id])
                for item in lifted.trajectories
            ),
            events=tuple(_moved_event(event, world_from_truth, ids) for event in self._events_inside(lifted)),
            relations=tuple(
                replace(
                    item,
                    subject_object_id=ids[item.subject_object_id],
                    other_object_id=None if item.other_object_id is None else ids[item.other_object_id],
                )
                for item in lifted.relations
            ),
        )

    def _events_inside(self, lifted: Lifted) -> list[Event]:
        first, last = int(self.timestamps_ns[0]), int(self.timestamps_ns[-1])
        return [event for event in lifted.events if first <= event.time_ns <= last]


def align(folder: Path, truth_dir: Path) -> Aligned:
    """Read both and match them.

    Raises:
        FrontDoorError: the truth is of another recording, or does not cover the stored frames.
        StoreError: a stage has not run yet.
    """
    truth, document = load_truth(truth_dir), recording_file.read(folder)
    frames = geometry_file.read_frames(folder)
    if truth.recording_id != document["recording_id"]:
        raise FrontDoorError(
            f"{truth_dir} is the truth of {truth.recording_id}, {folder} holds {document['recording_id']}."
        )
    rows = np.searchsorted(truth.timestamps_ns, frames.timestamps_ns)
    rows = np.minimum(rows, len(truth.timestamps_ns) - 1)
    off = np.flatnonzero(truth.timestamps_ns[rows] != frames.timestamps_ns)
    if len(off):
        raise FrontDoorError(f"{truth_dir}: {len(off)} frames of {folder} have no truth (first: frame {off[0]}).")
    lifted = trajectories_file.read(folder)
    return Aligned(
        folder, truth, rows.astype(np.int64), frames.timestamps_ns, recording_file.world_from_json(document["world"]),
        tracks_file.read(folder), lifted, {item.label: item.object_id for item in lifted.trajectories},
    )  # fmt: skip


def rest_intervals(states: Int64[np.ndarray, "N"]) -> list[tuple[int, int]]:
    """First and last frame of every stretch of rest."""
    resting = np.concatenate([[False], states == MotionState.REST, [False]])
    edges = np.flatnonzero(resting[1:] != resting[:-1])
    return [(int(start), int(end) - 1) for start, end in zip(edges[::2], edges[1::2], strict=True)]


def _cut(item: ObjectTrajectory, rows: Int64[np.ndarray, "N"]) -> ObjectTrajectory:
    names = ("timestamps_ns", "states", "centers_in_world", "center_covariances_m2", "quats_wxyz", "observed",
             "visible_pixels")  # fmt: skip
    return replace(item, **{name: getattr(item, name)[rows] for name in names})


def _moved(item: ObjectTrajectory, world_from_truth: Float[np.ndarray, "4 4"], object_id: int) -> ObjectTrajectory:
    rotation = world_from_truth[:3, :3] @ se3.rotation_from_quat_wxyz(item.quats_wxyz)
    return replace(
        item,
        object_id=object_id,
        centers_in_world=se3.transform_points(world_from_truth, item.centers_in_world),
        quats_wxyz=se3.quat_wxyz_from_rotation(rotation),
    )


def _moved_event(event: Event, world_from_truth: Float[np.ndarray, "4 4"], ids: dict[int, int]) -> Event:
    other = event.other_object_id
    return replace(
        event,
        object_id=ids[event.object_id],
        other_object_id=None if other is None else ids[other],
        place_in_world=se3.transform_points(world_from_truth, np.asarray(event.place_in_world)),
    )
