"""``egospatial export``: results in plain formats that other tools read."""

import csv
import io
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from egospatial.converters import CONVERTERS, convert
from egospatial.errors import FrontDoorError
from egospatial.export_job import ConvertRequest, Progress
from egospatial.reporting import Reporter
from egospatial.store import layout, recording_file, splats_file, trajectories_file
from egospatial.store.atomic import atomic_path, missing, write_bytes, write_json
from lifting.records import MotionState, ObjectTrajectory

_LISTED = 20
_RESULTS = (layout.LEDGER, layout.LOCK, layout.VIEWS, *layout.RESULTS)
_CSV_COLUMNS = (
    "object_id", "label", "timestamp_ns", "state", "observed", "cx_m", "cy_m", "cz_m", "qw", "qx", "qy", "qz",
    "length_m", "width_m", "height_m", "sigma_x_m", "sigma_y_m", "sigma_z_m",
)  # fmt: skip


def trajectories_document(folder: Path) -> dict[str, Any]:
    """All trajectories as the JSON document of docs/outputs.md: one sample per frame of an object's known life."""
    document, lifted = recording_file.read(folder), trajectories_file.read(folder)
    world = recording_file.world_from_json(document["world"])
    return {
        "recording": document["recording_id"],
        "metric": world.metric,
        "objects": [
            {"object_id": item.object_id, "label": item.label, "samples": samples_of(item)}
            for item in lifted.trajectories
        ],
    }


def samples_of(item: ObjectTrajectory) -> list[dict[str, Any]]:
    """Samples from the first to the last frame in which anything is known of the object."""
    known = (item.states != MotionState.UNSEEN) | np.isfinite(item.centers_in_world).all(axis=1) | item.observed
    rows = np.flatnonzero(known)
    if len(rows) == 0:
        return []
    extent = _values(item.extent_m)
    return [
        {
            "timestamp_ns": int(item.timestamps_ns[row]),
            "state": MotionState(int(item.states[row])).name.lower(),
            "center_m": _values(item.centers_in_world[row]),
            "extent_m": extent,
            "quat_wxyz": _values(item.quats_wxyz[row]),
            "center_sigma_m": _values(_sigma(item.center_covariances_m2[row])),
            "observed": bool(item.observed[row]),
        }
        for row in range(int(rows[0]), int(rows[-1]) + 1)
    ]


def _sigma(covariance: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        sigma: np.ndarray = np.sqrt(np.diagonal(covariance))
    return sigma


def _values(vector: np.ndarray) -> list[float] | None:
    return [float(value) for value in vector] if np.isfinite(vector).all() else None


def csv_text(document: dict[str, Any]) -> str:
    """The document as one table; unknown values are empty cells."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_CSV_COLUMNS)
    for item in document["objects"]:
        for sample in item["samples"]:
            numbers = [
                value
                for name, width in (("center_m", 3), ("quat_wxyz", 4), ("extent_m", 3), ("center_sigma_m", 3))
                for value in (sample[name] or [""] * width)
            ]
            writer.writerow(
                [item["object_id"], item["label"], sample["timestamp_ns"], sample["state"], int(sample["observed"])]
                + [value if value == "" else repr(value) for value in numbers]
            )
    return buffer.getvalue()


def tum_text(item: dict[str, Any]) -> str:
    """One object as a TUM trajectory: seconds (exact to the ns), x y z, then the quaternion with w LAST."""
    lines = ["# timestamp tx ty tz qx qy qz qw"]
    for sample in item["samples"]:
        if sample["center_m"] is None or sample["quat_wxyz"] is None:
            continue
        seconds, rest = divmod(sample["timestamp_ns"], 10**9)
        w, x, y, z = sample["quat_wxyz"]
        numbers = " ".join(f"{value:.9f}" for value in (*sample["center_m"], x, y, z, w))
        lines.append(f"{seconds}.{rest:09d} {numbers}")
    return "\n".join(lines) + "\n"


def export(
    folder: Path,
    what: str,
    format_name: str | None,
    target: Path | None,
    options: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Write the export; gives the files written. ``options`` are those of ``converters.ConvertRequest``.

    Raises:
        FrontDoorError: an unknown kind or format, a result that is not there, or a target that is one of the results.
    """
    options = dict(options or {})
    if target is not None and target.resolve() in {(folder / name).resolve() for name in _RESULTS}:
        raise FrontDoorError(f"--to {target}: is a result that this folder lives on; choose another place.")
    if what == "trajectories" and not options:
        return _export_trajectories(folder, format_name or "json", target)
    if format_name is not None and what not in ("trajectories", "splats"):
        raise FrontDoorError(f"--format {format_name}: only trajectories and splats come in several formats.")
    if what == "splats" and not options and format_name in (None, "ply"):
        splats_file.read_splats(folder)  # refuses a damaged file before it is handed on
        return [_copy(folder / layout.SPLATS, target or folder / "export" / layout.SPLATS)]
    if what in CONVERTERS or what == "ply":
        if what == "splats" and format_name is not None:
            options["format"] = format_name
        return convert(folder, ConvertRequest(what, **options), target, progress)
    if options:
        raise FrontDoorError(f"--{next(iter(options))}: only for {', '.join(CONVERTERS)}, not for {what}.")
    if what == "questions":
        return [_copy(folder / layout.QUESTIONS, target or folder / "export" / layout.QUESTIONS)]
    raise FrontDoorError(f"--what {what!r}: expected trajectories, questions, or {', '.join(CONVERTERS)}.")


def _export_trajectories(folder: Path, format_name: str, target: Path | None) -> list[Path]:
    if format_name not in ("json", "csv", "tum"):
        raise FrontDoorError(f"--format {format_name!r}: expected json, csv or tum.")
    document = trajectories_document(folder)
    path = target or folder / "export" / ("tum" if format_name == "tum" else f"trajectories.{format_name}")
    if format_name == "json":
        write_json(path, document)
        return [path]
    if format_name == "csv":
        write_bytes(path, csv_text(document).encode())
        return [path]
    files = []
    for item in document["objects"]:
        name = re.sub(r"[^\w.-]+", "_", str(item["label"])).strip("_") or "object"
        files.append(path / f"{item['object_id']:03d}_{name}.txt")
        write_bytes(files[-1], tum_text(item).encode())
    return files


def _copy(source: Path, target: Path) -> Path:
    if not source.is_file():
        raise missing(source)
    with atomic_path(target) as temporary:
        shutil.copyfile(source, temporary)
    return target


def export_command(
    reporter: Reporter, folder: Path, what: str, format_name: str | None, target: Path | None, options: dict[str, Any]
) -> None:
    """Body of the command."""
    files = export(folder, what, format_name, target, options, reporter.progress)
    for path in files[:_LISTED]:
        reporter.text(str(path))
    if len(files) > _LISTED:
        reporter.text(f"and {len(files) - _LISTED} more")
    reporter.result({"files": [str(path) for path in files]})
