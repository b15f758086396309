"""What is exactly true about a simulated recording: the record, and its reader.

A truth folder holds ``truth.json`` (objects, events, relations, cameras), ``truth.h5`` (poses, object poses,
instance masks and depth per frame) and ``meshes/*.ply`` (every object in its own box axes, origin at the box's
centre). It lies beside the recording's folder, never in it. Pictures are read when asked for.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int64, UInt8

from egospatial.errors import FrontDoorError
from geo.cameras import PinholeCamera
from geo.recording import GazeTrack, HandTrack
from lifting.records import Event, EventKind, Lifted, ObjectTrajectory, Relation, RelationKind, SceneSurfaces

HAND_ID = 250  # instance id of the wearer's hand
ARM_ID = 251  # instance id of the forearm
DEPTH_UNIT_M = 1e-4  # of the stored truth depth: a tenth of a millimetre, exact to 0.05 mm
FORMAT = "egospatial-truth/1"


@dataclass(frozen=True)
class TruthObject:
    """One graspable object. ``extent_m`` = full lengths along its own box axes (z is up while it rests)."""

    object_id: int  # 1 .. n; also the value in the instance masks
    label: str
    extent_m: Float[np.ndarray, "3"]
    thin: bool  # a tool whose smallest side is 7 to 12 mm
    look_alike_of: int | None  # object id of its nearly identical partner
    mesh_file: str  # relative to the truth folder
    container: bool = False  # open on top: other objects can be inside


@dataclass(frozen=True)
class Truth:
    """Exact truth of a simulated recording, in the canonical view and in world.

    ``world_from_camera`` are the true canonical poses (the recording's own are noisy). ``gaze`` is in pixels
    of the recording's source image, without noise; ``hands`` are in world.
    """

    recording_id: str
    timestamps_ns: Int64[np.ndarray, "N"]
    camera: PinholeCamera
    depth_camera: PinholeCamera  # the canonical view at the stored depth size
    world_from_camera: Float[np.ndarray, "N 4 4"]
    objects: tuple[TruthObject, ...]
    lifted: Lifted
    in_view_pixels: Int64[np.ndarray, "N O"]  # canonical pixels each object would cover if nothing hid it
    truth_dir: Path
    gaze: GazeTrack | None = None
    hands: tuple[HandTrack, ...] = ()

    def instance_ids(self, frame: int) -> UInt8[np.ndarray, "H W"]:
        """Who is seen in each canonical pixel: 0 room, object ids, ``HAND_ID``, ``ARM_ID``."""
        return np.asarray(self._read("instance_ids", frame), dtype=np.uint8)

    def z_depth_m(self, frame: int) -> Float32[np.ndarray, "h w"]:
        """Depth along the canonical z axis of ``depth_camera``, with objects and hand; NaN = none."""
        return _depth_from_stored(self._read("z_depth", frame))

    def static_z_depth_m(self, frame: int) -> Float32[np.ndarray, "h w"]:
        """As ``z_depth_m`` without hand, arm and every object that moves during the recording."""
        return _depth_from_stored(self._read("static_z_depth", frame))

    def depth_instance_ids(self, frame: int) -> UInt8[np.ndarray, "h w"]:
        """As ``instance_ids``, for the pixels of ``depth_camera``."""
        return np.asarray(self._read("depth_instance_ids", frame), dtype=np.uint8)

    def object_by_label(self, label: str) -> TruthObject:
        """The object of this label (labels are unique)."""
        for candidate in self.objects:
            if candidate.label == label:
                return candidate
        known = ", ".join(candidate.label for candidate in self.objects)
        raise FrontDoorError(f"the truth of {self.recording_id} has no object {label!r}; it has: {known}")

    def mesh(self, object_id: int) -> tuple[Float[np.ndarray, "V 3"], Int64[np.ndarray, "F 3"]]:
        """Vertices (metres, box axes, origin at the box's centre) and triangles of an object."""
        import trimesh

        known = {candidate.object_id: candidate for candidate in self.objects}
        loaded: Any = trimesh.load(self.truth_dir / known[object_id].mesh_file, process=False)
        return np.asarray(loaded.vertices, dtype=np.float64), np.asarray(loaded.faces, dtype=np.int64)

    def _read(self, name: str, frame: int) -> np.ndarray:
        import h5py
        import hdf5plugin  # noqa: F401  (registers the compressor)

        if not 0 <= frame < len(self.timestamps_ns):
            raise FrontDoorError(f"frame {frame} is outside 0..{len(self.timestamps_ns) - 1} of {self.recording_id}")
        with h5py.File(self.truth_dir / "truth.h5", "r") as file:
            return np.asarray(file[f"frames/{name}"][frame])


def _depth_from_stored(stored: np.ndarray) -> Float32[np.ndarray, "h w"]:
    depth = stored.astype(np.float32) * np.float32(DEPTH_UNIT_M)
    depth[stored == 0] = np.nan
    return depth


def load_truth(truth_dir: Path) -> Truth:
    """Read a truth folder; masks and depth stay on disk until asked for.

    Raises:
        FrontDoorError: the folder is no truth folder, or of another format version.
    """
    import h5py

    truth_dir = Path(truth_dir)
    try:
        document = json.loads((truth_dir / "truth.json").read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise FrontDoorError(
            f"{truth_dir} is no truth folder (truth.json: {error}). "
            "`egospatial simulate OUT` writes OUT/<id> and, beside it, OUT/<id>_truth."
        ) from error
    if document.get("format") != FORMAT:
        raise FrontDoorError(f"{truth_dir}/truth.json has format {document.get('format')!r}; expected {FORMAT!r}")
    objects = tuple(_object_from_json(item) for item in document["objects"])
    with h5py.File(truth_dir / "truth.h5", "r") as file:
        timestamps_ns = np.asarray(file["timestamps_ns"][:], dtype=np.int64)
        lifted = _lifted(document, objects, timestamps_ns, file)
        gaze = GazeTrack(timestamps_ns, np.asarray(file["gaze_xy_px"][:]), np.asarray(file["gaze_depth_m"][:]))
        hands = tuple(
            HandTrack(side, timestamps_ns, np.asarray(group["joints_in_world"][:]), np.ones(len(timestamps_ns)))
            for side, group in sorted(file["hands"].items())
        )
        return Truth(
            recording_id=document["recording_id"],
            timestamps_ns=timestamps_ns,
            camera=_camera_from_json(document["camera"]),
            depth_camera=_camera_from_json(document["depth_camera"]),
            world_from_camera=np.asarray(file["world_from_camera"][:]),
            objects=objects,
            lifted=lifted,
            in_view_pixels=np.asarray(file["in_view_pixels"][:], dtype=np.int64),
            truth_dir=truth_dir,
            gaze=gaze,
            hands=hands,
        )


def _camera_from_json(item: dict[str, Any]) -> PinholeCamera:
    return PinholeCamera(item["width"], item["height"], *item["params"])


def _object_from_json(item: dict[str, Any]) -> TruthObject:
    return TruthObject(
        object_id=item["object_id"],
        label=item["label"],
        extent_m=np.asarray(item["extent_m"], dtype=np.float64),
        thin=item["thin"],
        look_alike_of=item["look_alike_of"],
        mesh_file=item["mesh_file"],
        container=item["container"],
    )


def _lifted(document: dict[str, Any], objects: tuple[TruthObject, ...], timestamps_ns: np.ndarray, file: Any) -> Lifted:
    centers, quats = np.asarray(file["centers_in_world"][:]), np.asarray(file["quats_wxyz"][:])
    states, visible = np.asarray(file["states"][:]), np.asarray(file["visible_pixels"][:])
    trajectories = tuple(
        ObjectTrajectory(
            object_id=item.object_id,
            label=item.label,
            timestamps_ns=timestamps_ns,
            states=states[:, column].astype(np.int64),
            centers_in_world=centers[:, column],
            center_covariances_m2=np.zeros((len(timestamps_ns), 3, 3)),
            quats_wxyz=quats[:, column],
            extent_m=item.extent_m,
            extent_sigma_m=np.zeros(3),
            observed=visible[:, column] > 0,
            visible_pixels=visible[:, column].astype(np.int64),
            view_count=int((visible[:, column] > 0).sum()),
        )
        for column, item in enumerate(objects)
    )
    surfaces = document["surfaces"]
    return Lifted(
        trajectories=trajectories,
        events=tuple(_event_from_json(item) for item in document["events"]),
        relations=tuple(_relation_from_json(item) for item in document["relations"]),
        surfaces=SceneSurfaces(
            np.asarray(surfaces["heights_m"], dtype=np.float64),
            np.asarray(surfaces["areas_m2"], dtype=np.float64),
            float(surfaces["floor_height_m"]),
            0.0,
        ),
    )


def _event_from_json(item: dict[str, Any]) -> Event:
    return Event(
        kind=EventKind(item["kind"]),
        object_id=item["object_id"],
        time_ns=item["time_ns"],
        time_sigma_ns=0,
        place_in_world=np.asarray(item["place_in_world"], dtype=np.float64),
        confidence=1.0,
        other_object_id=item["other_object_id"],
    )


def _relation_from_json(item: dict[str, Any]) -> Relation:
    height = item["surface_height_m"]
    return Relation(
        kind=RelationKind(item["kind"]),
        subject_object_id=item["subject_object_id"],
        other_object_id=item["other_object_id"],
        start_ns=item["start_ns"],
        end_ns=item["end_ns"],
        confidence=1.0,
        surface_height_m=float("nan") if height is None else float(height),
    )
