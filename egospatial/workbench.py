"""One recording on the bench: what its stages work on, read back from the output folder between stages.

Every stage takes what earlier ones stored, never what they held in memory: a run that was killed and went on, and
one that was not, thus work on the same numbers.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from egospatial.config import RunConfig
from egospatial.errors import FrontDoorError
from egospatial.hashing import digest_of, files_identity
from egospatial.selection import Selection, grounded_frames, select_canonical, select_narrations
from egospatial.store import geometry_file, recording_file, splats_file, tracks_file, trajectories_file
from geo import se3
from geo.recording import CanonicalRecording, Recording, with_reference
from lifting.records import Lifted
from recon.depth_sources import ProvidedDepth, with_provided_sensor
from recon.depth_sources.folder import numbered_files
from recon.records import Reconstruction
from spatial_qa.records import QuestionScene
from tracking.records import NarrationSet, TrackSet


@dataclass
class Workbench:
    """Lazy records of one recording; ``folder`` is its output folder."""

    source: Path
    folder: Path
    config: RunConfig
    selection: Selection
    narrations_file: Path | None = None
    format_name: str | None = None
    camera: str | None = None  # which camera of the rig is rectified; None: the recording's reference

    @cached_property
    def _as_read(self) -> Recording:
        from geo.readers import open_recording

        return open_recording(self.source, self.format_name)

    @cached_property
    def recording(self) -> Recording:
        """The recording as its reader gives it, seen through the chosen camera."""
        return self._as_read if self.camera is None else with_reference(self._as_read, self.camera)

    @property
    def chosen_camera(self) -> str | None:
        """Name of the chosen camera if it is another than the recording's reference."""
        return None if self.camera == self._as_read.reference.name else self.camera

    @property
    def folder_name(self) -> str:
        """The recording's id; with another camera chosen also its name, so that both have a folder."""
        chosen = "" if self.chosen_camera is None else "_" + re.sub(r"[^\w.-]+", "_", self.chosen_camera).strip("._")
        return self.recording.recording_id + chosen

    @cached_property
    def _whole(self) -> CanonicalRecording:
        from geo.rectify import rectify

        return rectify(self.recording, self.config.rectify)

    @cached_property
    def _all_narrations(self) -> NarrationSet:
        path = self.narrations_path
        if path is None:
            return NarrationSet((), ("no narrations: no object is tracked; give some with --narrations FILE",))
        from tracking.narrations import read_narrations

        return read_narrations(path, self._whole)

    @property
    def narrations_path(self) -> Path | None:
        """The narrations given, else the recording's own."""
        if self.narrations_file is not None and not self.narrations_file.is_file():
            raise FrontDoorError(f"{self.narrations_file}: no such narrations file.")
        return self.narrations_file or self.recording.narrations_file

    @cached_property
    def source_frames(self) -> Sequence[int]:
        """Frames of the reference camera that are taken."""
        grounded = grounded_frames(self._all_narrations) if self.selection.every > 1 else []
        return self.selection.frames(self._whole.timestamps_ns, grounded)

    @cached_property
    def canonical(self) -> CanonicalRecording:
        """The rectified recording, cut to the selection."""
        return self._whole if self.selection.takes_all else select_canonical(self._whole, self.source_frames)

    @cached_property
    def narrations(self) -> NarrationSet:
        """Narrations, their points on the frames taken."""
        return select_narrations(self._all_narrations, self.source_frames)

    def inputs(self) -> dict[str, dict[str, Any]]:
        """What each stage's results depend on besides settings and earlier stages."""
        files = [path for path in self.recording.input_files if path != self.recording.narrations_file]
        chosen: dict[str, Any] = {
            "frames": len(self.source_frames), "selection": digest_of(list(self.source_frames)),
        }  # fmt: skip
        if self.chosen_camera is not None:
            chosen["camera"] = self.chosen_camera
        narrations = self.narrations_path
        model = self.config.reconstruct.model
        inputs = {
            "rectify": {**files_identity(files), **chosen},
            "track": files_identity([] if narrations is None else [narrations]),
        }
        if model:
            inputs["reconstruct"] = files_identity([Path(model)])
        folder = self._depth_folder_identity()
        if folder is not None:
            inputs.setdefault("reconstruct" if self.config.depth.folder_as_sensor else "depth", {}).update(folder)
        return inputs

    def _depth_folder_identity(self) -> dict[str, Any] | None:
        """Names, sizes and times of the files of provided depth: too many to read them all before every run."""
        layout = self.config.depth.folder_layout()
        if layout is None:
            return None
        files = [(path.name, path.stat()) for path in numbered_files(layout).values()]
        rows = sorted((name, status.st_size, status.st_mtime_ns) for name, status in files)
        return {"files": len(rows), "bytes": sum(row[1] for row in rows), "digest": digest_of(rows)}

    @cached_property
    def provided(self) -> ProvidedDepth | None:
        """Depth that the user gives beside the recording; its scene points help where a frame knows too little."""
        return self.config.depth.provided(self.canonical, self._points_in_world())

    def _points_in_world(self) -> Float[np.ndarray, "P 3"] | None:
        """Scene points in the canonical world."""
        points = self.recording.points
        if points is None:
            return None
        turned = self.canonical.world.world_from_source_world @ se3.inverse(
            self.recording.world.world_from_source_world
        )
        return se3.transform_points(turned, points.points_in_world)

    @cached_property
    def scene_recording(self) -> CanonicalRecording:
        """What the stages after rectify see: with provided depth as its sensor, where that is asked for."""
        if self.provided is None or not self.config.depth.folder_as_sensor:
            return self.canonical
        return with_provided_sensor(self.canonical, self.provided)

    def forget(self) -> None:
        """Drop records that an earlier stage made, so that the next stage reads what was stored."""
        for name in ("reconstruction", "tracks", "lifted"):
            self.__dict__.pop(name, None)

    @cached_property
    def reconstruction(self) -> Reconstruction:
        """As stored by the reconstruct stage."""
        return splats_file.read(self.folder)

    @cached_property
    def tracks(self) -> TrackSet:
        """As stored by the track stage."""
        return tracks_file.read(self.folder)

    @cached_property
    def lifted(self) -> Lifted:
        """As stored by the lift stage."""
        return trajectories_file.read(self.folder)


def question_scene(folder: Path, lifted: Lifted | None = None) -> QuestionScene:
    """All that questions may be asked about, from a finished folder alone."""
    document, frames = recording_file.read(folder), geometry_file.read_frames(folder)
    camera = recording_file.camera_from_json(document["canonical_camera"])
    return QuestionScene(
        recording_id=document["recording_id"],
        timestamps_ns=frames.timestamps_ns,
        world_from_camera=frames.world_from_camera,
        image_size_wh_px=camera.size_wh_px,
        camera_matrix=np.asarray(document["canonical_matrix"], dtype=np.float64),
        world=recording_file.world_from_json(document["world"]),
        lifted=lifted if lifted is not None else trajectories_file.read(folder),
        gaze=frames.gaze,
    )


def without_moving_depth(lifted: Lifted) -> Lifted:
    """Lifted without the pixels of moving objects: what questions need."""
    return replace(lifted, moving_depth=None)
