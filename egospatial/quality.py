"""The folder ``quality/`` of a finished recording: figures as JSON, a page to look at, pictures of the worst frames."""

from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from egospatial.errors import FrontDoorError
from egospatial.replacing import folder_beside
from egospatial.reporting import Reporter
from egospatial.store import layout
from egospatial.store.atomic import read_json, write_bytes, write_json
from egospatial.view.images import write_image
from egospatial.view.quality_pictures import floater_row, frame_row
from recon.quality_records import FloaterReport, QualityReport

SCHEMA = "egospatial.quality/1"
JSON, PAGE = "quality.json", "index.html"
_FLOATERS = "floaters.jpg"
_COLUMNS = "psnr_db", "ssim", "depth_abs_rel", "delta_105", "in_band_90", "coverage", "picture_coverage"
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Quality of the reconstruction</title>
<style>body { font-family: sans-serif; margin: 2em; } img { max-width: 100%; }
td, th { text-align: left; padding: 0.15em 1em 0.15em 0; border-bottom: 1px solid #ddd; }</style></head><body>"""

# name of a figure, what it is called, how it is written; {u} is the unit of length
FIGURES = (
    ("psnr_db", "PSNR, covered pixels, best exposure", "{:.2f} dB"),
    ("ssim", "SSIM, covered pixels, best exposure", "{:.3f}"),
    ("picture_psnr_db", "PSNR, all static pixels, exposure from the neighbours", "{:.2f} dB"),
    ("depth_abs_rel", "depth against the sensor: mean relative error", "{:.2%}"),
    ("depth_median_error_m", "depth: median of the absolute error", "{:.4f} {u}"),
    ("depth_rmse_m", "depth: root of the mean squared error", "{:.4f} {u}"),
    ("delta_105", "depth within a factor of 1.05", "{:.1%}"),
    ("delta_125", "depth within a factor of 1.25", "{:.1%}"),
    ("in_band_90", "residuals inside the stated 90 % band", "{:.1%}"),
    ("coverage", "coverage where the sensor sees", "{:.1%}"),
    ("picture_coverage", "coverage of all static pixels", "{:.1%}"),
    ("static_share", "static share of the picture", "{:.1%}"),
)


def write_quality(folder: Path, report: QualityReport | None, notes: tuple[str, ...] = ()) -> None:
    """Write ``folder``/quality whole, in place of an older one. The same report gives the same bytes.

    Without a report (nothing could be reconstructed) the JSON holds the notes that say why, and nothing else.

    Raises:
        FrontDoorError: something else than an earlier report lies there.
        StoreError: it cannot be written.
    """
    with folder_beside(folder / layout.QUALITY, is_quality) as part:
        pictures = {} if report is None else _write_pictures(part, report)
        document = quality_document(report, notes, pictures)
        write_json(part / JSON, document)
        write_bytes(part / PAGE, page(document).encode())


def is_quality(folder: Path) -> bool:
    """True for a folder that ``write_quality`` made."""
    return (folder / JSON).is_file()


def read_quality(folder: Path) -> dict[str, Any]:
    """``quality.json`` of an output folder.

    Raises:
        StoreError: not there, damaged, or of another version.
    """
    return read_json(folder / layout.QUALITY / JSON, SCHEMA)


def quality_document(report: QualityReport | None, notes: tuple[str, ...], pictures: dict[str, str]) -> dict[str, Any]:
    """JSON-able form; what is not known is null, with its reason under ``reasons``."""
    document: dict[str, Any] = {"schema": SCHEMA, "notes": list(notes)}
    if report is None:
        return document | {"overall": None, "frames": [], "reasons": {"overall": "; ".join(notes)}, "pictures": {}}
    overall = asdict(report.overall)
    overall["frame"] = None
    return document | {
        "held_out": report.held_out,
        "metric": report.metric,
        "overall": overall,
        "lpips": report.lpips,
        "consistency": {
            "median_rel": report.consistency_median_rel,
            "p90_rel": report.consistency_p90_rel,
            "seen_through_share": report.consistency_seen_through,
        },
        "sensor_spread": {"floor_m": report.sensor_spread_floor_m, "per_m": report.sensor_spread_per_m},
        "floaters": None if report.floaters is None else _floaters(report.floaters),
        "reasons": report.reasons,
        "frames": [asdict(frame) for frame in report.frames],
        "pictures": pictures,
    }


def _floaters(report: FloaterReport) -> dict[str, Any]:
    names = "before_fit", "in_fit", "seen_through", "isolated", "unseen"
    return {
        **{name: getattr(report, name) for name in names},
        "before": asdict(report.before),
        "after": asdict(report.after),
        "taken_back": list(report.taken_back),
        "notes": list(report.notes),
    }


def _write_pictures(folder: Path, report: QualityReport) -> dict[str, str]:
    unit, told = "m" if report.metric else "units", {}
    for shown in report.worst:
        name = f"frame_{shown.frame:06d}.jpg"
        write_image(folder / name, frame_row(shown, unit))
        told[name] = f"frame {shown.frame}: {shown.why}"
    if report.floaters is not None and report.floaters.pictures is not None:
        write_image(folder / _FLOATERS, floater_row(report.floaters.pictures))
        told[_FLOATERS] = "floaters: before, after, removed in red"
    return told


def figure_rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and values of the overall figures as text; where a value is missing, its reason."""
    overall, reasons = document["overall"], document["reasons"]
    if overall is None:
        return [("quality", f"not measured: {reasons['overall']}")]
    unit = "m" if document["metric"] else "units"

    def value(name: str, number: float | None, how: str) -> str:
        if _unknown(number):
            return "not measured" if name not in reasons else f"not measured: {reasons[name]}"
        return how.format(number, u=unit)

    rows = [(told, value(name, overall[name], how)) for name, told, how in FIGURES]
    agreement = document["consistency"]
    rows.append(
        (
            "static depth of neighbouring frames: median difference",
            value("consistency", agreement["median_rel"], "{:.2%}"),
        )
    )
    rows.append(("... and its 90th percentile", value("consistency", agreement["p90_rel"], "{:.2%}")))
    lpips = str(reasons.get("lpips", "")).removeprefix("not measured: ")
    rows.append(("LPIPS", value("", document["lpips"], "{:.3f}") + (f": {lpips}" if lpips else "")))
    return rows + _floater_rows(document["floaters"])


def _unknown(value: float | None) -> bool:
    return value is None or not np.isfinite(value)


def _floater_rows(floaters: dict[str, Any] | None) -> list[tuple[str, str]]:
    if floaters is None:
        return []
    reasons = "seen_through", "isolated", "unseen"
    counts = floaters["before_fit"], floaters["in_fit"], sum(floaters[name] for name in reasons)
    why = ", ".join(f"{floaters[name]} {name.replace('_', ' ')}" for name in reasons)
    rows = [
        ("floaters taken out before the fit, in it, after it", f"{counts[0]}, {counts[1]}, {counts[2]} ({why})"),
    ]
    before, after = floaters["before"], floaters["after"]
    for name, told, how in (
        ("splats", "... splats before, after", "{}"),
        ("psnr_db", "... PSNR before, after", "{:.2f} dB"),
        ("depth_abs_rel", "... depth error before, after", "{:.3%}"),
        ("in_front_share", "... pixels in front of the sensor's surface before, after", "{:.3%}"),
        ("seen_through", "... splats that several views see through before, after", "{}"),
    ):  # fmt: skip
        texts = ["not measured" if _unknown(value[name]) else how.format(value[name]) for value in (before, after)]
        rows.append((told, ", ".join(texts)))
    if floaters["taken_back"]:
        rows.append(("... put back, for held-out frames were worse without", ", ".join(floaters["taken_back"])))
    return rows + [("...", note) for note in floaters["notes"]]


def page(document: dict[str, Any]) -> str:
    """A page of HTML without scripts: figures, frames, pictures beside it."""
    parts = [_HEAD, "<h1>Quality of the reconstruction</h1>"]
    if document["overall"] is not None:
        measured = "Held-out frames" if document["held_out"] else "Frames of the fit (none was held out)"
        numbers = ", ".join(str(frame["frame"]) for frame in document["frames"])
        parts.append(f"<p>{measured}: {escape(numbers)}. Static pixels only.</p>")
    parts += [f"<p>{escape(note)}</p>" for note in document["notes"]]
    parts.append(_table(("figure", "value"), figure_rows(document)))
    for name, told in document["pictures"].items():
        parts.append(f'<h2>{escape(told)}</h2><img src="{escape(name)}" alt="{escape(told)}">')
    if document["frames"]:
        parts.append("<h2>Frame by frame</h2>" + _table(("frame", *_COLUMNS), _frame_rows(document)))
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _frame_rows(document: dict[str, Any]) -> list[tuple[str, ...]]:
    unit = "m" if document["metric"] else "units"

    def text(value: float | None, how: str) -> str:
        return "-" if _unknown(value) else how.format(value, u=unit)

    formats = {name: how for name, _, how in FIGURES}
    return [
        (str(frame["frame"]), *(text(frame[name], formats[name]) for name in _COLUMNS)) for frame in document["frames"]
    ]


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["<tr>" + "".join(f"<th>{escape(text)}</th>" for text in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows]
    return "<table>" + "\n".join(lines) + "</table>"


def quality_sheet(folder: Path) -> UInt8[np.ndarray, "H W 3"]:
    """The report's pictures under one another.

    Raises:
        StoreError: no report.
        FrontDoorError: a report without pictures, or one that cannot be read.
    """
    import cv2

    rows = []
    for name in read_quality(folder)["pictures"]:
        path = folder / layout.QUALITY / Path(str(name)).name
        image = cv2.imread(str(path), cv2.IMREAD_COLOR)
        if image is None:
            raise FrontDoorError(f"{path}: not there or no picture. Run the reconstruct stage again.")
        rows.append(image[..., ::-1])
    if not rows:
        raise FrontDoorError(f"{folder / layout.QUALITY}: the report has no pictures, for nothing was reconstructed.")
    width = max(row.shape[1] for row in rows)
    return np.concatenate([np.pad(row, ((0, 4), (0, width - row.shape[1]), (0, 0))) for row in rows])


def say_quality(reporter: Reporter, folder: Path) -> None:
    """Print the figures, how long the steps took, and where the page with the pictures is."""
    from egospatial import ledger as ledgers

    document = read_quality(folder)
    found = ledgers.load(folder)
    entry = None if found is None else found.stages.get("reconstruct")
    seconds = {} if entry is None else entry.measurements.get("step_seconds", {})
    reporter.table("quality", ["figure", "value"], [[told, value] for told, value in figure_rows(document)])
    if seconds:
        reporter.table("time", ["step", "seconds"], [[name, f"{value:.1f}"] for name, value in seconds.items()])
    path = folder / layout.QUALITY / PAGE
    reporter.text(str(path))
    reporter.result({"page": str(path), "step_seconds": seconds, "quality": document})
