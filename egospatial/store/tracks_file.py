"""tracks.h5: COCO run-length masks per object and frame, scores, and the log of every verdict."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from egospatial.errors import StoreError
from egospatial.store import hdf5, layout
from egospatial.store.atomic import json_text
from tracking.records import MaskTrack, Outcome, Rle, TrackSet, Verdict

SCHEMA = "egospatial.tracks/1"


def write(folder: Path, tracks: TrackSet) -> None:
    """Write tracks.h5."""
    with hdf5.create(folder / layout.TRACKS, SCHEMA) as file:
        file.attrs["width"], file.attrs["height"] = tracks.size_wh_px
        file.attrs["tracker"] = tracks.tracker
        hdf5.put(file, "timestamps_ns", tracks.timestamps_ns, unit="ns", clock="device")
        hdf5.put_json(file, "warnings", list(tracks.warnings))
        objects = file.create_group("objects")
        for track in tracks.tracks:
            write_track(objects.create_group(f"{track.object_id:04d}"), track)
        write_verdicts(file.create_group("verdicts"), tracks.verdicts)


def read(folder: Path) -> TrackSet:
    """Read tracks.h5."""
    path = folder / layout.TRACKS
    with hdf5.opened(path, SCHEMA) as file:
        size = (int(file.attrs["width"]), int(file.attrs["height"]))
        times = hdf5.get(file, "timestamps_ns")
        tracks = tuple(read_track(file["objects"][name], size, path) for name in sorted(file["objects"]))
        verdicts = read_verdicts(file["verdicts"])
        warnings = tuple(hdf5.get_json(file, "warnings"))
        return TrackSet(size, times, tracks, verdicts, str(file.attrs["tracker"]), warnings)


def write_track(group: Any, track: MaskTrack) -> None:
    """Write one object's masks into a group."""
    group.attrs["object_id"], group.attrs["label"] = track.object_id, track.label
    hdf5.put(group, "states", track.states, meaning="0 unknown, 1 visible, 2 absent")
    hdf5.put(group, "scores", track.scores, meaning="0..1, NaN where there is no mask")
    counts = [np.zeros(0, np.int64) if rle is None else rle.counts for rle in track.masks]
    offsets = np.concatenate([[0], np.cumsum([len(item) for item in counts])]).astype(np.int64)
    flat = np.concatenate([*counts, np.zeros(0, np.int64)])
    hdf5.put(group, "rle_counts", flat.astype(np.uint32), meaning="COCO, column-major, background first")
    hdf5.put(
        group, "rle_offsets", offsets, meaning="frame i: rle_counts[rle_offsets[i]:rle_offsets[i+1]]; empty: no mask"
    )


def read_track(group: Any, size_wh_px: tuple[int, int], path: Path) -> MaskTrack:
    """Read what ``write_track`` wrote; ``path`` is for the error's text.

    Raises:
        StoreError: a mask does not cover the view.
    """
    width, height = size_wh_px
    flat, offsets = hdf5.get(group, "rle_counts").astype(np.int64), hdf5.get(group, "rle_offsets")
    masks: list[Rle | None] = []
    for frame, (start, end) in enumerate(itertools.pairwise(offsets)):
        counts = flat[start:end]
        if len(counts) and counts.sum() != width * height:
            raise StoreError(
                f"{path}: mask of object {group.attrs['object_id']} in frame {frame} covers {counts.sum()} pixels, "
                f"the view has {width * height}. Run the track stage again."
            )
        masks.append(Rle((height, width), counts) if len(counts) else None)
    return MaskTrack(
        int(group.attrs["object_id"]), str(group.attrs["label"]), tuple(masks),
        hdf5.get(group, "states"), hdf5.get(group, "scores"),
    )  # fmt: skip


def write_verdicts(group: Any, verdicts: tuple[Verdict, ...]) -> None:
    """Columns for whoever counts, and the whole log as JSON for whoever reads."""
    hdf5.put(group, "object_id", np.array([v.object_id for v in verdicts], dtype=np.int64))
    hdf5.put(group, "frame", np.array([v.frame for v in verdicts], dtype=np.int64))
    hdf5.put_strings(group, "outcome", [str(v.outcome) for v in verdicts])
    hdf5.put_strings(group, "judge", [v.judge for v in verdicts])
    rows = [
        {
            "object_id": v.object_id, "frame": v.frame, "outcome": str(v.outcome), "judge": v.judge,
            "reason": v.reason, "evidence": {key: _number(value) for key, value in v.evidence.items()},
            "action": v.action,
        }
        for v in verdicts
    ]  # fmt: skip
    hdf5.put_json(group, "log", rows)


def read_verdicts(group: Any) -> tuple[Verdict, ...]:
    """Read what ``write_verdicts`` wrote."""
    return tuple(Verdict(**_verdict(row)) for row in hdf5.get_json(group, "log"))


def _number(value: float) -> float | str:
    return float(value) if np.isfinite(value) else str(float(value))


def _verdict(row: dict[str, Any]) -> dict[str, Any]:
    evidence = {key: float(value) for key, value in row["evidence"].items()}
    return {**row, "outcome": Outcome(row["outcome"]), "evidence": evidence}


def log_lines(tracks: TrackSet) -> list[str]:
    """The verdict log as JSON lines, for display."""
    return [json_text({**vars(verdict), "outcome": str(verdict.outcome)}) for verdict in tracks.verdicts]
