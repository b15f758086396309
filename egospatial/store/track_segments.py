"""Tracked objects one by one while the track stage runs, so that a killed run does not track them again."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from egospatial.errors import StoreError
from egospatial.store import hdf5, layout
from egospatial.store.tracks_file import read_track, read_verdicts, write_track, write_verdicts
from tracking.identity import ObjectPlan
from tracking.records import Grounding
from tracking.repair import PointGroup
from tracking.track import ObjectResult

SCHEMA = "egospatial.track-segment/1"


def _folder(folder: Path) -> Path:
    return folder / layout.WORK / "track"


def write(folder: Path, key: str, size_wh_px: tuple[int, int], result: ObjectResult) -> None:
    """Store one finished object under the key of the running stage."""
    with hdf5.create(_folder(folder) / f"{result.plan.object_id:06d}.h5", SCHEMA) as file:
        file.attrs["key"] = key
        file.attrs["width"], file.attrs["height"] = size_wh_px
        plan = result.plan
        hdf5.put_json(file, "plan", {"object_id": plan.object_id, "label": plan.label, "groups": _groups(plan.groups)})
        hdf5.put_json(file, "elsewhere", _groups(result.elsewhere))
        write_track(file.create_group("track"), result.track)
        write_verdicts(file.create_group("verdicts"), result.verdicts)


def read_all(folder: Path, key: str) -> dict[int, ObjectResult]:
    """Objects stored under this key; files of other keys, and damaged ones, are removed."""
    done: dict[int, ObjectResult] = {}
    for path in sorted(_folder(folder).glob("*.h5")):
        try:
            with hdf5.opened(path, SCHEMA) as file:
                if file.attrs["key"] == key:
                    result = _read(file, path)
                    done[result.plan.object_id] = result
                    continue
        except StoreError:
            pass
        path.unlink(missing_ok=True)
    return done


def clear(folder: Path) -> None:
    """Remove all stored objects: the stage is done."""
    shutil.rmtree(folder / layout.WORK, ignore_errors=True)


def _read(file: Any, path: Path) -> ObjectResult:
    plan = hdf5.get_json(file, "plan")
    size = (int(file.attrs["width"]), int(file.attrs["height"]))
    return ObjectResult(
        ObjectPlan(plan["object_id"], plan["label"], _groups_back(plan["groups"])),
        read_track(file["track"], size, path),
        read_verdicts(file["verdicts"]),
        _groups_back(hdf5.get_json(file, "elsewhere")),
    )


def _groups(groups: Iterable[PointGroup]) -> list[dict[str, Any]]:
    return [
        {
            "narration_id": group.narration_id,
            "frame": group.frame,
            "points": [[p.label, p.frame, *p.point_xy_px, p.positive] for p in group.points],
        }
        for group in groups
    ]


def _groups_back(rows: list[dict[str, Any]]) -> tuple[PointGroup, ...]:
    return tuple(
        PointGroup(
            row["narration_id"],
            row["frame"],
            tuple(Grounding(label, frame, (x, y), positive) for label, frame, x, y, positive in row["points"]),
        )
        for row in rows
    )
