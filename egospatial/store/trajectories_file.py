"""trajectories.h5 and events.jsonl: what lifting found."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from egospatial.store import hdf5, layout
from egospatial.store.atomic import read_jsonl, write_jsonl
from lifting.records import (
    Event,
    EventKind,
    Lifted,
    ObjectTrajectory,
    Relation,
    RelationKind,
    SceneSurfaces,
)  # fmt: skip
from recon.records import MovingDepth

SCHEMA = "egospatial.trajectories/1"
EVENTS_SCHEMA = "egospatial.events/1"

_ARRAYS = {
    "timestamps_ns": "ns, device clock",
    "states": "0 unseen, 1 rest, 2 moving, 3 held",
    "centers_in_world": "m, centre of the box; NaN unknown",
    "center_covariances_m2": "m^2",
    "quats_wxyz": "world_from_box, scalar first",
    "extent_m": "m, full lengths along the box's x, y, z",
    "extent_sigma_m": "m, one standard deviation",
    "observed": "0: kept or interpolated",
    "visible_pixels": "mask area in canonical pixels",
}


def write(folder: Path, lifted: Lifted) -> None:
    """Write both files."""
    with hdf5.create(folder / layout.TRAJECTORIES, SCHEMA) as file:
        objects = file.create_group("objects")
        for item in lifted.trajectories:
            group = objects.create_group(f"{item.object_id:04d}")
            group.attrs["object_id"], group.attrs["label"] = item.object_id, item.label
            group.attrs["view_count"] = item.view_count
            hdf5.put_json(group, "notes", list(item.notes))
            for name, meaning in _ARRAYS.items():
                hdf5.put(group, name, getattr(item, name), meaning=meaning)
        _write_surfaces(file.create_group("surfaces"), lifted.surfaces)
        if lifted.moving_depth is not None:
            _write_moving(file.create_group("moving_depth"), lifted.moving_depth)
        hdf5.put_json(file, "warnings", list(lifted.warnings))
    rows = [_event_row(event) for event in lifted.events] + [_relation_row(item) for item in lifted.relations]
    write_jsonl(folder / layout.EVENTS, [{"schema": EVENTS_SCHEMA, "rows": len(rows)}, *rows])


def read(folder: Path) -> Lifted:
    """Read both files."""
    with hdf5.opened(folder / layout.TRAJECTORIES, SCHEMA) as file:
        trajectories = tuple(_trajectory(file["objects"][name]) for name in sorted(file["objects"]))
        surfaces = SceneSurfaces(
            hdf5.get(file["surfaces"], "heights_m"),
            hdf5.get(file["surfaces"], "areas_m2"),
            float(file["surfaces"].attrs["floor_height_m"]),
            float(file["surfaces"].attrs["floor_residual_m"]),
        )
        moving = _moving(file["moving_depth"]) if "moving_depth" in file else None
        warnings = tuple(hdf5.get_json(file, "warnings"))
    rows = read_jsonl(folder / layout.EVENTS, EVENTS_SCHEMA)
    return Lifted(
        trajectories=trajectories,
        events=tuple(_event(row) for row in rows if row["type"] == "event"),
        relations=tuple(_relation(row) for row in rows if row["type"] == "relation"),
        surfaces=surfaces,
        moving_depth=moving,
        warnings=warnings,
    )


def _trajectory(group: Any) -> ObjectTrajectory:
    arrays = {name: hdf5.get(group, name) for name in _ARRAYS}
    arrays["observed"] = arrays["observed"].astype(bool)
    return ObjectTrajectory(
        object_id=int(group.attrs["object_id"]),
        label=str(group.attrs["label"]),
        view_count=int(group.attrs["view_count"]),
        notes=tuple(hdf5.get_json(group, "notes")),
        **arrays,
    )


def _write_surfaces(group: Any, surfaces: SceneSurfaces) -> None:
    hdf5.put(group, "heights_m", surfaces.heights_m)
    hdf5.put(group, "areas_m2", surfaces.areas_m2)
    group.attrs["floor_height_m"] = surfaces.floor_height_m
    group.attrs["floor_residual_m"] = surfaces.floor_residual_m


def _write_moving(group: Any, moving: MovingDepth) -> None:
    sizes = [len(item) for item in moving.z_depth_m]
    hdf5.put(group, "frames", moving.frames)
    hdf5.put(group, "object_ids", moving.object_ids)
    hdf5.put(group, "offsets", np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
    pixels = [np.asarray(item, np.int64).reshape(-1, 2) for item in moving.pixels_vu]
    hdf5.put(group, "pixels_vu", np.concatenate([*pixels, np.zeros((0, 2), np.int64)]), meaning="at the depth size")
    depths = [np.asarray(item, np.float32) for item in moving.z_depth_m]
    hdf5.put(group, "z_depth_m", np.concatenate([*depths, np.zeros(0, np.float32)]))


def read_moving(folder: Path, start: int, stop: int) -> MovingDepth | None:
    """Depth of moving objects in the frames from ``start`` up to ``stop`` alone, or None if lifting gave none."""
    with hdf5.opened(folder / layout.TRAJECTORIES, SCHEMA) as file:
        if "moving_depth" not in file:
            return None
        group = file["moving_depth"]
        frames, object_ids, offsets = (hdf5.get(group, name) for name in ("frames", "object_ids", "offsets"))
        rows = np.flatnonzero((frames >= start) & (frames < stop))
        spans = [slice(int(offsets[row]), int(offsets[row + 1])) for row in rows]
        pixels, depth = (tuple(group[name][span] for span in spans) for name in ("pixels_vu", "z_depth_m"))
        return MovingDepth(frames[rows], object_ids[rows], pixels, depth)


def _moving(group: Any) -> MovingDepth:
    offsets, pixels, depth = (hdf5.get(group, name) for name in ("offsets", "pixels_vu", "z_depth_m"))
    spans = list(itertools.pairwise(offsets))
    return MovingDepth(
        hdf5.get(group, "frames"),
        hdf5.get(group, "object_ids"),
        tuple(pixels[start:end] for start, end in spans),
        tuple(depth[start:end] for start, end in spans),
    )


def _event_row(event: Event) -> dict[str, Any]:
    return {
        "type": "event", "kind": str(event.kind), "object_id": event.object_id, "time_ns": event.time_ns,
        "time_sigma_ns": event.time_sigma_ns, "place_in_world": event.place_in_world,
        "confidence": event.confidence, "other_object_id": event.other_object_id,
    }  # fmt: skip


def _event(row: dict[str, Any]) -> Event:
    place = [np.nan if value is None else value for value in row["place_in_world"]]
    return Event(
        EventKind(row["kind"]), row["object_id"], row["time_ns"], row["time_sigma_ns"],
        np.array(place, dtype=np.float64), _float(row["confidence"]), row["other_object_id"],
    )  # fmt: skip


def _relation_row(item: Relation) -> dict[str, Any]:
    return {
        "type": "relation", "kind": str(item.kind), "subject_object_id": item.subject_object_id,
        "other_object_id": item.other_object_id, "start_ns": item.start_ns, "end_ns": item.end_ns,
        "confidence": item.confidence, "surface_height_m": item.surface_height_m,
    }  # fmt: skip


def _relation(row: dict[str, Any]) -> Relation:
    return Relation(
        RelationKind(row["kind"]), row["subject_object_id"], row["other_object_id"], row["start_ns"], row["end_ns"],
        _float(row["confidence"]), _float(row["surface_height_m"]),
    )  # fmt: skip


def _float(value: float | None) -> float:
    return float("nan") if value is None else float(value)
