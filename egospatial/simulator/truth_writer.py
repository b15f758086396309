"""Writing a truth folder; ``egospatial.simulator.truth`` reads it."""

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from jaxtyping import Float, Int64, UInt8

from egospatial.simulator.truth import DEPTH_UNIT_M, FORMAT, TruthObject
from geo.cameras import PinholeCamera
from lifting.records import Event, Relation, SceneSurfaces


class TruthWriter:
    """Collects the truth of one recording: pictures frame by frame, everything else at once."""

    def __init__(self, truth_dir: Path, frame_count: int, camera: PinholeCamera, depth_camera: PinholeCamera) -> None:
        import h5py
        import hdf5plugin

        (truth_dir / "meshes").mkdir(parents=True, exist_ok=True)
        self.truth_dir, self.camera, self.depth_camera = truth_dir, camera, depth_camera
        self._file = h5py.File(truth_dir / "truth.h5", "w", libver="latest")
        frames = self._file.create_group("frames")
        for name, view, kind in (
            ("instance_ids", camera, np.uint8),
            ("depth_instance_ids", depth_camera, np.uint8),
            ("z_depth", depth_camera, np.uint16),
            ("static_z_depth", depth_camera, np.uint16),
        ):
            height, width = view.height_px, view.width_px
            frames.create_dataset(
                name,
                (frame_count, height, width),
                dtype=kind,
                chunks=(1, height, width),
                **hdf5plugin.Blosc(cname="zstd", clevel=3, shuffle=hdf5plugin.Blosc.BITSHUFFLE),
            )
        frames["z_depth"].attrs["unit_m"] = DEPTH_UNIT_M
        frames["static_z_depth"].attrs["unit_m"] = DEPTH_UNIT_M

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write_ids(self, frame: int, instance_ids: UInt8[np.ndarray, "H W"]) -> None:
        """Instance ids of a frame at the canonical size."""
        self._file["frames/instance_ids"][frame] = instance_ids

    def write_depth(
        self,
        frame: int,
        depth_ids: UInt8[np.ndarray, "h w"],
        z_depth_m: Float[np.ndarray, "h w"],
        static_z_depth_m: Float[np.ndarray, "h w"],
    ) -> None:
        """Instance ids and depths of a frame at the depth size; NaN depth is stored as 0."""
        self._file["frames/depth_instance_ids"][frame] = depth_ids
        self._file["frames/z_depth"][frame] = _stored_depth(z_depth_m)
        self._file["frames/static_z_depth"][frame] = _stored_depth(static_z_depth_m)

    def write_mesh(
        self, mesh_file: str, vertices: Float[np.ndarray, "V 3"], triangles: Int64[np.ndarray, "F 3"]
    ) -> None:
        """A mesh in box axes as a binary PLY (byte for byte the same every time)."""
        header = (
            "ply\nformat binary_little_endian 1.0\n"
            f"element vertex {len(vertices)}\nproperty double x\nproperty double y\nproperty double z\n"
            f"element face {len(triangles)}\nproperty list uchar int vertex_indices\nend_header\n"
        )
        faces = np.empty(len(triangles), dtype=[("count", "u1"), ("corners", "<i4", 3)])
        faces["count"], faces["corners"] = 3, triangles
        body = np.ascontiguousarray(vertices, dtype="<f8").tobytes() + faces.tobytes()
        (self.truth_dir / mesh_file).write_bytes(header.encode("ascii") + body)

    def write_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Everything per frame that is no picture, by its name in ``truth.h5``."""
        for name in sorted(arrays):
            self._file.create_dataset(name, data=arrays[name])

    def write_document(
        self,
        recording_id: str,
        objects: tuple[TruthObject, ...],
        events: tuple[Event, ...],
        relations: tuple[Relation, ...],
        surfaces: SceneSurfaces,
        notes: dict[str, Any],
    ) -> None:
        """``truth.json``: what a person would want to read."""
        document = {
            "format": FORMAT,
            "recording_id": recording_id,
            "camera": _camera_json(self.camera),
            "depth_camera": _camera_json(self.depth_camera),
            "objects": [_object_json(item) for item in objects],
            "events": [_event_json(item) for item in events],
            "relations": [_relation_json(item) for item in relations],
            "surfaces": {
                "heights_m": surfaces.heights_m.tolist(),
                "areas_m2": surfaces.areas_m2.tolist(),
                "floor_height_m": surfaces.floor_height_m,
            },
            "notes": notes,
        }
        (self.truth_dir / "truth.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _stored_depth(z_depth_m: np.ndarray) -> np.ndarray:
    steps = np.round(np.nan_to_num(z_depth_m, nan=0.0, posinf=0.0) / DEPTH_UNIT_M)
    return np.where(steps > 65535, 0, steps).astype(np.uint16)


def _camera_json(camera: PinholeCamera) -> dict[str, Any]:
    return {
        "model": "PINHOLE",
        "width": camera.width_px,
        "height": camera.height_px,
        "params": camera.params.tolist(),
    }


def _object_json(item: TruthObject) -> dict[str, Any]:
    return {
        "object_id": item.object_id,
        "label": item.label,
        "extent_m": [float(side) for side in item.extent_m],
        "thin": item.thin,
        "look_alike_of": item.look_alike_of,
        "mesh_file": item.mesh_file,
        "container": item.container,
    }


def _event_json(item: Event) -> dict[str, Any]:
    return {
        "kind": str(item.kind),
        "object_id": item.object_id,
        "time_ns": int(item.time_ns),
        "place_in_world": [float(value) for value in item.place_in_world],
        "other_object_id": item.other_object_id,
    }


def _relation_json(item: Relation) -> dict[str, Any]:
    return {
        "kind": str(item.kind),
        "subject_object_id": item.subject_object_id,
        "other_object_id": item.other_object_id,
        "start_ns": int(item.start_ns),
        "end_ns": int(item.end_ns),
        "surface_height_m": None if np.isnan(item.surface_height_m) else float(item.surface_height_m),
    }
