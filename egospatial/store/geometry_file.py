"""geometry.h5: poses, validity, gaze and hands from rectify; depth, sigma and origin of every frame from depth."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int64

from egospatial.errors import StoreError
from egospatial.store import depth_group, hdf5, layout
from egospatial.store.depth_coding import linear_counts
from egospatial.store.depth_group import DepthReader
from geo.recording import CanonicalRecording, GazeTrack, HandTrack

__all__ = [
    "SCHEMA",
    "DepthReader",
    "Frames",
    "depth_digest",
    "depth_is_as_written",
    "frames_digest",
    "linear_counts",
    "read_frames",
    "write_frames",
]

SCHEMA = depth_group.FILE_SCHEMA


@dataclass(frozen=True)
class Frames:
    """What the rectify stage stored per frame."""

    timestamps_ns: Int64[np.ndarray, "N"]
    world_from_camera: Float[np.ndarray, "N 4 4"]
    valid_mask: Bool[np.ndarray, "H W"]
    gaze: GazeTrack | None
    hands: tuple[HandTrack, ...]


def write_frames(folder: Path, canonical: CanonicalRecording) -> None:
    """Write geometry.h5 with everything but depth (a depth group of an earlier run is not kept)."""
    with hdf5.create(folder / layout.GEOMETRY, SCHEMA) as file:
        group = file.create_group("frames")
        hdf5.put(group, "timestamps_ns", canonical.timestamps_ns, unit="ns", clock="device")
        hdf5.put(
            group, "world_from_camera", canonical.world_from_camera,
            unit="m", meaning="4x4 transform, NaN where no pose is known; camera +x right +y down +z forward",
        )  # fmt: skip
        hdf5.put(group, "pose_valid", canonical.pose_valid)
        hdf5.put(group, "valid_mask", canonical.valid_mask, meaning="0: no source pixel in any frame")
        hdf5.put(group, "camera_matrix", canonical.camera.matrix, unit="px", meaning="pixel centres at whole numbers")
        if canonical.gaze is not None:
            gaze = file.create_group("gaze")
            hdf5.put(gaze, "timestamps_ns", canonical.gaze.timestamps_ns, unit="ns")
            hdf5.put(gaze, "points_xy_px", canonical.gaze.points_xy_px, unit="px", meaning="canonical pixels")
            hdf5.put(gaze, "depth_m", canonical.gaze.depth_m, unit="m")
        for number, hand in enumerate(canonical.hands):
            node = file.create_group(f"hands/{number:02d}_{hand.side}")
            node.attrs["side"] = hand.side
            hdf5.put(node, "timestamps_ns", hand.timestamps_ns, unit="ns")
            hdf5.put(node, "joints_in_world", hand.joints_in_world, unit="m")
            hdf5.put(node, "confidence", hand.confidence)


def read_frames(folder: Path) -> Frames:
    """Read what ``write_frames`` wrote."""
    with hdf5.opened(folder / layout.GEOMETRY, SCHEMA) as file:
        group = file["frames"]
        gaze, hands = None, []
        if "gaze" in file:
            gaze = GazeTrack(*(hdf5.get(file["gaze"], name) for name in ("timestamps_ns", "points_xy_px", "depth_m")))
        for node in file.get("hands", {}).values():
            columns = (hdf5.get(node, name) for name in ("timestamps_ns", "joints_in_world", "confidence"))
            hands.append(HandTrack(str(node.attrs["side"]), *columns))
        return Frames(
            hdf5.get(group, "timestamps_ns"),
            hdf5.get(group, "world_from_camera"),
            hdf5.get(group, "valid_mask").astype(bool),
            gaze,
            tuple(hands),
        )


def frames_digest(folder: Path) -> str:
    """Digest of the rectify stage's part of the file."""
    with hdf5.opened(folder / layout.GEOMETRY, SCHEMA) as file:
        return hdf5.content_digest(file["frames"])


def depth_digest(folder: Path) -> str:
    """Digest of the depth stage's part of the file: stored with it, checked against the number of frames.

    Raises:
        StoreError: no depth yet, it is incomplete, or of an unknown version.
    """
    path = folder / layout.GEOMETRY
    with depth_group.opened(folder) as file:
        depth = depth_group.depth_of(file, path)
        if len(depth["z_depth"]) != len(file["frames/timestamps_ns"]):
            raise StoreError(f"{path}: depth of fewer frames than poses; run the depth stage.")
        return str(depth.attrs["content_sha256"])


def depth_is_as_written(folder: Path) -> bool:
    """Hash every stored chunk of depth again and compare with what was noted when it was written."""
    with depth_group.opened(folder) as file:
        group = depth_group.depth_of(file, folder / layout.GEOMETRY)
        return depth_group.content_digest(group) == str(group.attrs["content_sha256"])
