"""``egospatial info``: what a recording is, before anything is done with it."""

from pathlib import Path
from typing import Any

import numpy as np

from egospatial import ledger as ledgers
from egospatial.errors import FrontDoorError
from egospatial.rectification import rectification_facts
from egospatial.reporting import Reporter
from egospatial.store import layout, recording_file
from geo.recording import Recording, with_reference


def info_command(reporter: Reporter, path: Path, format_name: str | None, camera: str | None = None) -> None:
    """Body of the command: an output folder's stages, or a recording's facts (seen through the chosen camera)."""
    if (path / layout.LEDGER).is_file():
        if camera is not None:
            raise FrontDoorError(f"--camera {camera}: {path} is an output folder, whose camera is chosen already.")
        document = folder_facts(path)
        _print_folder(reporter, document)
        if document["rectification"] is not None:
            for line in rectification_facts(path).lines():
                reporter.text(line)
    else:
        from geo.readers import open_recording

        recording = open_recording(path, format_name)
        document = recording_facts(recording if camera is None else with_reference(recording, camera))
        _print_recording(reporter, document)
    for text in document["warnings"]:
        reporter.warn(text)
    reporter.result(document)


def folder_facts(folder: Path) -> dict[str, Any]:
    """What the ledger of an output folder says."""
    ledger = ledgers.load(folder)
    if ledger is None:
        raise AssertionError("the caller has seen run.json")
    stages = {name: {"status": entry.status, "seconds": entry.seconds, "error": entry.error, **entry.measurements}
              for name, entry in ledger.stages.items()}  # fmt: skip
    warnings = [text for entry in ledger.stages.values() for text in entry.warnings]
    written = (folder / layout.RECORDING).is_file()  # not where the first stage failed
    return {
        "kind": "output folder", "recording_id": ledger.recording_id, "source": ledger.source,
        "selection": ledger.selection, "camera": ledger.camera, "stages": stages,
        "rectification": rectification_facts(folder).document() if written else None,
        "warnings": list(dict.fromkeys(warnings)),
    }  # fmt: skip


def recording_facts(recording: Recording) -> dict[str, Any]:
    """Cameras, rates, gaps, scale, gravity."""
    reference, depth = recording.reference, recording.depth
    poses = recording.trajectory.poses_at(reference.timestamps_ns)
    known = int(np.isfinite(poses).all(axis=(1, 2)).sum())
    world = recording.world
    return {
        "kind": "recording",
        "recording_id": recording.recording_id,
        "format": recording.format_name,
        "reference_camera": {
            "name": reference.name, **recording_file.camera_json(reference.camera),
            **rate_facts(reference.timestamps_ns),
        },
        "other_cameras": [
            {"name": other.name, **recording_file.camera_json(other.camera), **rate_facts(other.timestamps_ns)}
            for other in recording.others
        ],
        "depth_camera": None if depth is None else {
            "name": depth.name, **recording_file.camera_json(depth.camera), **rate_facts(depth.timestamps_ns)
        },
        "poses": {**rate_facts(recording.trajectory.timestamps_ns), "frames_with_pose": known},
        "world": {"metric": world.metric, "gravity": str(world.gravity), "up_sigma_rad": world.up_sigma_rad},
        "has_gaze": recording.gaze is not None,
        "hands": sorted(hand.side for hand in recording.hands),
        "narrations": None if recording.narrations_file is None else str(recording.narrations_file),
        "warnings": list(recording.warnings),
    }  # fmt: skip


def rate_facts(timestamps_ns: np.ndarray) -> dict[str, Any]:
    """How many, how long, how often, and the longest gap with where it is."""
    count = len(timestamps_ns)
    if count < 2:
        return {"count": count, "duration_s": 0.0, "rate_hz": None, "longest_gap_s": None, "longest_gap_after": None}
    steps = np.diff(timestamps_ns)
    median = float(np.median(steps))
    return {
        "count": count,
        "duration_s": float(timestamps_ns[-1] - timestamps_ns[0]) / 1e9,
        "rate_hz": round(1e9 / median, 3) if median > 0 else None,
        "longest_gap_s": float(steps.max()) / 1e9,
        "longest_gap_after": int(steps.argmax()),
    }


def _print_folder(reporter: Reporter, document: dict[str, Any]) -> None:
    rows = [
        [name, str(item["status"]), f"{item['seconds']:.1f}", _rest(item)] for name, item in document["stages"].items()
    ]
    reporter.table(
        f"{document['recording_id']} from {document['source']}", ["stage", "status", "seconds", "notes"], rows
    )


def _rest(item: dict[str, Any]) -> str:
    left = {key: value for key, value in item.items() if key not in ("status", "seconds") and value not in ("", None)}
    return ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in left.items()
    )


def _print_recording(reporter: Reporter, document: dict[str, Any]) -> None:
    rows = []
    named = [(title, document[title]) for title in ("reference_camera", "depth_camera", "poses")]
    named[1:1] = [("other camera", item) for item in document["other_cameras"]]
    for title, item in named:
        if item is None:
            rows.append([title, "none"])
            continue
        camera = f"{item['name']}: {item['model']} {item['width']}x{item['height']}, " if "model" in item else ""
        gap = item["longest_gap_s"]
        gaps = "" if gap is None else f", longest gap {gap:.3f} s after number {item['longest_gap_after']}"
        known = f", {item['frames_with_pose']} frames have a pose" if "frames_with_pose" in item else ""
        rows.append(
            [title, f"{camera}{item['count']} at {item['rate_hz']} Hz over {item['duration_s']:.2f} s{gaps}{known}"]
        )
    world = document["world"]
    rows.append(["scale", "metric" if world["metric"] else "unknown: no metric question will be asked"])
    rows.append(["gravity", world["gravity"]])
    rows.append(
        [
            "gaze, hands",
            f"{'gaze' if document['has_gaze'] else 'no gaze'}, {', '.join(document['hands']) or 'no hands'}",
        ]
    )
    rows.append(["narrations", document["narrations"] or "none"])
    reporter.table(f"{document['recording_id']} ({document['format']})", ["", "what"], rows)
