"""``egospatial info``: what a recording is, before anything is done with it."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from egospatial import ledger as ledgers
from egospatial.errors import FrontDoorError
from egospatial.rectification import rectification_facts
from egospatial.reporting import Reporter
from egospatial.store import layout, recording_file
from geo.recording import Recording, with_reference

if TYPE_CHECKING:
    from geo.convention_check import CheckReport, Finding


def info_command(
    reporter: Reporter, path: Path, format_name: str | None, camera: str | None = None, check: bool = False
) -> bool:
    """Body of the command: an output folder's stages, or a recording's facts (seen through the chosen camera).

    Returns:
        False if a claimed convention does not hold.

    Raises:
        FrontDoorError: conventions of an output folder are to be checked, or its camera chosen.
    """
    silent = True
    if (path / layout.LEDGER).is_file():
        if camera is not None:
            raise FrontDoorError(f"--camera {camera}: {path} is an output folder, whose camera is chosen already.")
        document = folder_facts(path)
        if check:
            raise FrontDoorError(
                f"{path} is an output folder; --check tests a recording: give {document['source']}, or run "
                "`egospatial check`"
            )
        _print_folder(reporter, document)
        if document["rectification"] is not None:
            for line in rectification_facts(path).lines():
                reporter.text(line)
    else:
        from geo.readers import open_recording

        recording = open_recording(path, format_name)
        if camera is not None:
            recording = with_reference(recording, camera)
        document = recording_facts(recording)
        _print_recording(reporter, document)
        if check:
            report = check_recording(reporter, recording)
            document["check"], silent = check_facts(report), report.silent
    for text in document["warnings"]:
        reporter.warn(text)
    reporter.result(document)
    return silent


def check_recording(reporter: Reporter, recording: Recording) -> "CheckReport":
    """Test the claimed conventions on the recording's own data and print a table."""
    from geo.convention_check import check_conventions

    reporter.note("testing the claimed conventions against their look-alikes (up to a minute)")
    report = check_conventions(recording)
    rows = [
        [str(item.topic), str(item.verdict), _residual_text(item.claimed_residual, item.unit),
         f"{_residual_text(item.look_alike_residual, item.unit)}: {item.look_alike}" if item.look_alike else "",
         item.reason or f"{item.evidence} ({item.pairs} pairs, {_sigmas(item)})"]
        for item in report.findings
    ]  # fmt: skip
    columns = ["claim", "verdict", "residual as claimed", "nearest other reading", "why"]
    reporter.table("conventions on the recording's own data", columns, rows)
    for item in report.alarms:
        reporter.warn(
            f"{item.topic}: {item.look_alike} fits better: {_residual_text(item.look_alike_residual, item.unit)} "
            f"against {_residual_text(item.claimed_residual, item.unit)} as claimed ({item.evidence})"
        )
    return report


def check_facts(report: "CheckReport") -> dict[str, Any]:
    """The check as it stands in the JSON document; numbers that are not known are null."""
    findings = [
        {key: (None if isinstance(value, float) and not np.isfinite(value) else value)
         for key, value in asdict(finding).items()}
        for finding in report.findings
    ]  # fmt: skip
    return {"silent": report.silent, "findings": findings}


def _residual_text(value: float, unit: str) -> str:
    if not np.isfinite(value):
        return "none"
    return (
        f"{value:.2f} {unit}"
        if unit == "px"
        else f"{100 * value:.2f} % {unit}"
        if unit.startswith("of")
        else f"x {value:.3g} {unit}"
    )


def _sigmas(item: "Finding") -> str:
    return f"{abs(item.log_ratio) / item.sigma:.0f} sigma" if 0 < item.sigma < np.inf else "no sigma"


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
    mean = float(timestamps_ns[-1] - timestamps_ns[0]) / (count - 1)
    usual = median if median > 0.5 * mean else mean  # stamps in pairs: the small steps are no rate
    return {
        "count": count,
        "duration_s": float(timestamps_ns[-1] - timestamps_ns[0]) / 1e9,
        "rate_hz": round(1e9 / usual, 3) if usual > 0 else None,
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
