"""A finished folder, opened for looking: frames, objects in a frame, depth."""

from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from egospatial.errors import FrontDoorError, StoreError
from egospatial.store import geometry_file, layout, recording_file, splats_file, tracks_file, trajectories_file
from egospatial.view.overlay import Marked, overlay
from geo import se3
from geo.boxes import Box3
from geo.cameras import PinholeCamera
from geo.recording import FrameSource
from lifting.records import Lifted, MotionState, ObjectTrajectory
from recon.records import SplatModel
from tracking.records import TrackSet, decode_rle


class Finished:
    """Lazy access to an output folder; later stages may be missing."""

    def __init__(self, folder: Path) -> None:
        """Open the folder.

        Raises:
            StoreError: no recording.json or geometry.h5 in it.
        """
        self.folder = folder
        self.document = recording_file.read(folder)
        self.frames = geometry_file.read_frames(folder)
        camera = recording_file.camera_from_json(self.document["canonical_camera"])
        if not isinstance(camera, PinholeCamera):
            raise StoreError(f"{folder / layout.RECORDING}: the canonical camera is no pinhole.")
        self.camera = camera

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.frames.timestamps_ns)

    def frame_or_middle(self, frame: int | None) -> int:
        """A frame number that exists.

        Raises:
            FrontDoorError: it does not.
        """
        if frame is None:
            return len(self) // 2
        if not 0 <= frame < len(self):
            raise FrontDoorError(f"--frame {frame}: {self.folder} has frames 0 to {len(self) - 1}.")
        return frame

    @cached_property
    def video(self) -> FrameSource:
        """The canonical video."""
        from geo.video import VideoFrames

        return VideoFrames(self.folder / layout.VIDEO)

    def image(self, frame: int) -> UInt8[np.ndarray, "H W 3"]:
        """A canonical frame (without the doubled row or column of an odd size)."""
        return self.video.read(frame)[: self.camera.height_px, : self.camera.width_px]

    @cached_property
    def tracks(self) -> TrackSet | None:
        """Mask tracks, or None before the track stage."""
        return tracks_file.read(self.folder) if (self.folder / layout.TRACKS).is_file() else None

    @cached_property
    def lifted(self) -> Lifted | None:
        """Trajectories, or None before the lift stage."""
        return trajectories_file.read(self.folder) if (self.folder / layout.TRAJECTORIES).is_file() else None

    @cached_property
    def splats(self) -> SplatModel | None:
        """The splat model, or None before the reconstruct stage."""
        return splats_file.read_splats(self.folder) if (self.folder / layout.SPLATS).is_file() else None

    @cached_property
    def depth(self) -> geometry_file.DepthReader | None:
        """Depth, or None before the depth stage."""
        try:
            return geometry_file.DepthReader(self.folder)
        except StoreError:
            return None

    def objects(self, frame: int) -> list[Marked]:
        """What is known of every object in a frame."""
        boxes = {item.object_id: item for item in (self.lifted.trajectories if self.lifted else ())}
        tracks = {item.object_id: item for item in (self.tracks.tracks if self.tracks else ())}
        found = []
        for object_id in sorted(boxes.keys() | tracks.keys()):
            track, trajectory = tracks.get(object_id), boxes.get(object_id)
            rle = None if track is None else track.masks[frame]
            label = track.label if track is not None else trajectory.label if trajectory is not None else ""
            note = "" if trajectory is None else MotionState(int(trajectory.states[frame])).name.lower()
            box = None if trajectory is None else box_at(trajectory, frame)
            found.append(Marked(object_id, label, None if rle is None else decode_rle(rle), box, note))
        return found

    def overlay(self, frame: int, width_px: int | None = None, notes: bool = True) -> UInt8[np.ndarray, "h w 3"]:
        """A frame with its masks, boxes and labels; ``notes`` adds every object's state."""
        objects = self.objects(frame)
        if not notes:
            objects = [replace(item, note="") for item in objects]
        pose = self.frames.world_from_camera[frame]
        return overlay(self.image(frame), self.camera, pose, objects, width_px)


def box_at(trajectory: ObjectTrajectory, frame: int) -> Box3 | None:
    """The box of an object in a frame, or None where its place or size is unknown."""
    rotation = se3.rotation_from_quat_wxyz(trajectory.quats_wxyz[frame])
    values = (trajectory.centers_in_world[frame], trajectory.extent_m, rotation)
    if not all(np.isfinite(value).all() for value in values):
        return None
    return Box3(*values)
