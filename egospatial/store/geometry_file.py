"""geometry.h5: poses, validity, gaze and hands from rectify; depth, sigma and origin of every frame from depth."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64, UInt8

from egospatial.errors import StoreError
from egospatial.store import hdf5, layout
from geo.cameras import PinholeCamera
from geo.recording import CanonicalRecording, GazeTrack, HandTrack
from recon.records import DepthFrame

SCHEMA = "egospatial.geometry/1"
DEPTH_DATASETS = ("z_depth", "sigma", "origin")
_NO_DEPTH = 0


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
        StoreError: no depth yet, or it is incomplete.
    """
    with hdf5.opened(folder / layout.GEOMETRY, SCHEMA) as file:
        if "depth" not in file:
            raise StoreError(f"{folder / layout.GEOMETRY}: holds no depth yet; run the depth stage.")
        depth = file["depth"]
        if len(depth["z_depth"]) != len(file["frames/timestamps_ns"]):
            raise StoreError(f"{folder / layout.GEOMETRY}: depth of fewer frames than poses; run the depth stage.")
        return str(depth.attrs["content_sha256"])


def depth_is_as_written(folder: Path) -> bool:
    """Hash every stored chunk of depth again and compare with what was noted when it was written."""
    digest = hashlib.sha256()
    with hdf5.opened(folder / layout.GEOMETRY, SCHEMA) as file:
        group = file["depth"]
        for frame in range(len(group["z_depth"])):
            for name in DEPTH_DATASETS:
                digest.update(group[name].id.read_direct_chunk((frame, 0, 0))[1])
        return digest.hexdigest() == str(group.attrs["content_sha256"])


def encode_depth(frame: DepthFrame, unit_m: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Stored form of a depth frame and how many pixels were too deep for it (stored as none)."""
    depth = np.asarray(frame.z_depth_m, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        steps = np.rint(depth / unit_m)
        known = np.isfinite(depth) & (steps >= 1) & (steps <= 65535)
        too_deep = int((np.isfinite(depth) & (steps > 65535)).sum())
        sigma = np.clip(np.where(known & np.isfinite(frame.sigma_m), frame.sigma_m, 0.0), 0.0, 60000.0)
    stored = np.where(known, steps, _NO_DEPTH).astype(np.uint16)
    origin = np.where(known, frame.origin, 0).astype(np.uint8)
    return stored, sigma.astype(np.float16), origin, too_deep


class DepthReader:
    """Depth frames of a finished folder, read when asked for."""

    def __init__(self, folder: Path) -> None:
        """Check the file and read what all frames share.

        Raises:
            StoreError: no geometry.h5, damaged, or no depth in it yet.
        """
        self._path = folder / layout.GEOMETRY
        with hdf5.opened(self._path, SCHEMA) as file:
            if "depth" not in file:
                raise StoreError(f"{self._path}: holds no depth yet; run the depth stage first.")
            group = file["depth"]
            self.unit_m = float(group.attrs["unit_m"])
            self._shape = tuple(int(side) for side in group["z_depth"].shape)
            matrix = hdf5.get(group, "camera_matrix")
        self.camera = PinholeCamera(
            self._shape[2], self._shape[1], *(float(matrix[i, j]) for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
        )

    def __len__(self) -> int:
        """Number of frames."""
        return int(self._shape[0])

    def read(self, frame: int) -> DepthFrame:
        """Depth of a frame; NaN where there is none."""
        if not 0 <= frame < len(self):
            raise StoreError(f"{self._path}: no frame {frame}; it holds frames 0 to {len(self) - 1}.")
        with hdf5.opened(self._path, SCHEMA) as file:
            return _decode(file["depth"], frame, self.unit_m)

    def __iter__(self) -> Iterator[DepthFrame]:
        """All frames in order."""
        with hdf5.opened(self._path, SCHEMA) as file:
            for frame in range(len(self)):
                yield _decode(file["depth"], frame, self.unit_m)


def _decode(group: Any, frame: int, unit_m: float) -> DepthFrame:
    stored = group["z_depth"][frame]
    known = stored != _NO_DEPTH
    z_depth_m: Float32[np.ndarray, "h w"] = np.where(known, stored * np.float32(unit_m), np.float32(np.nan))
    sigma = group["sigma"][frame].astype(np.float32)
    origin: UInt8[np.ndarray, "h w"] = group["origin"][frame]
    return DepthFrame(z_depth_m.astype(np.float32), np.where(known, sigma, np.float32(np.nan)), origin)
