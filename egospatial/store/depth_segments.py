"""Depth in segments: each a small whole file, so that a killed run goes on at the first unfinished one."""

import hashlib
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from egospatial.errors import StoreError
from egospatial.store import depth_group, hdf5, layout
from egospatial.store.atomic import flush_folder
from egospatial.store.depth_coding import DepthCoding
from egospatial.store.depth_group import DEPTH_DATASETS, FILE_SCHEMA, PROVIDED_COLUMNS, ProvidedTable
from geo.cameras import PinholeCamera
from recon.records import DepthFrame

SEGMENT_SCHEMA = "egospatial.depth-segment/2"


def write_depth(
    folder: Path,
    camera: PinholeCamera,
    frame_count: int,
    produce: Callable[[Sequence[int]], Iterable[DepthFrame]],
    key: str,
    coding: DepthCoding | None = None,
    frames_per_segment: int = 16,
    progress: Callable[[int, int, str], None] | None = None,
) -> int:
    """Write the depth group of geometry.h5; the frames part of the file is copied unchanged.

    Every frame is compressed as it comes and kept nowhere else; the chunks of finished segments are copied as they are.

    Args:
        folder: The output folder; ``geometry.h5`` with its frames must be there.
        camera: Of the depth images.
        frame_count: Frames of the recording.
        produce: Gives the depth of the frames asked for, in order.
        key: What the segments depend on; segments of another key are thrown away.
        coding: How depth becomes integers; the default suits metres.
        frames_per_segment: Frames lost at most by a kill.
        progress: Told after each segment.

    Returns:
        How many pixels had a depth that no code stands for.

    Raises:
        StoreError: ``produce`` gives more or fewer frames, or frames of another size; nothing can be written.
    """
    coding = coding or DepthCoding()
    work = folder / layout.WORK / "depth"
    starts = range(0, frame_count, frames_per_segment)
    for start in starts:
        frames = range(start, min(start + frames_per_segment, frame_count))
        path = work / f"{start:08d}.h5"
        if not _finished(path, key, len(frames), coding):
            path.unlink(missing_ok=True)
            _write_segment(path, produce(frames), len(frames), key, coding, camera)
        if progress is not None:
            progress(frames[-1] + 1, frame_count, "depth")
    out_of_reach = _merge(folder, camera, [work / f"{start:08d}.h5" for start in starts], frame_count, coding)
    shutil.rmtree(folder / layout.WORK, ignore_errors=True)
    flush_folder(folder)
    return out_of_reach


def _finished(path: Path, key: str, count: int, coding: DepthCoding) -> bool:
    if not path.is_file():
        return False
    try:
        with hdf5.opened(path, SEGMENT_SCHEMA) as file:
            same = all(float(file.attrs[name]) == value for name, value in asdict(coding).items())
            return bool(same and file.attrs["key"] == key and len(file["z_depth"]) == count)
    except StoreError:
        return False


def _write_segment(
    path: Path, frames: Iterable[DepthFrame], count: int, key: str, coding: DepthCoding, camera: PinholeCamera
) -> None:
    out_of_reach, largest, table = 0, 0.0, _empty_table(count)
    size = (camera.height_px, camera.width_px)
    with hdf5.create(path, SEGMENT_SCHEMA) as file:
        depth_group.create_datasets(file, count, camera)
        position = -1
        for position, frame in enumerate(frames):
            if position >= count or frame.z_depth_m.shape != size:
                raise StoreError(_unfit(path, count, camera, f"frame {position + 1} of shape {frame.z_depth_m.shape}"))
            encoded = coding.encode(frame)
            for name in DEPTH_DATASETS:
                file[name][position] = getattr(encoded, name)
            out_of_reach += encoded.out_of_reach
            largest = max(largest, encoded.largest_z)
            if frame.alignment is not None:
                for name in PROVIDED_COLUMNS:
                    getattr(table, name)[position] = getattr(frame.alignment, name)
        if position + 1 != count:
            raise StoreError(_unfit(path, count, camera, f"only {position + 1}"))
        depth_group.put_provided(file, table)
        file.attrs["key"] = key
        for name, value in asdict(coding).items():
            file.attrs[name] = value
        file.attrs["out_of_reach"], file.attrs["largest_z"] = out_of_reach, largest


def _unfit(path: Path, count: int, camera: PinholeCamera, found: str) -> str:
    return f"{path}: expected {count} depth frames of {camera.width_px}x{camera.height_px} px, got {found}"


def _empty_table(count: int) -> ProvidedTable:
    scale, shift, residual = np.full((3, count), np.nan)
    return ProvidedTable(np.zeros(count, np.uint8), scale, shift, residual, np.zeros(count, np.int64))


def _merge(folder: Path, camera: PinholeCamera, segments: list[Path], frame_count: int, coding: DepthCoding) -> int:
    """Copy compressed chunks into a new geometry.h5, next to the copied frames part."""
    target = folder / layout.GEOMETRY
    digest, out_of_reach, largest, position = hashlib.sha256(), 0, 0.0, 0
    table = _empty_table(frame_count)
    with depth_group.opened(folder) as old, hdf5.create(target, FILE_SCHEMA) as file:
        hdf5.bound_metadata(file)
        for name in old:
            if name != "depth":
                old.copy(name, file)
        group = file.create_group("depth")
        depth_group.create_datasets(group, frame_count, camera)
        for path in segments:
            with hdf5.opened(path, SEGMENT_SCHEMA) as part:
                out_of_reach += int(part.attrs["out_of_reach"])
                largest = max(largest, float(part.attrs["largest_z"]))
                if "provided" in part:
                    for name in PROVIDED_COLUMNS:
                        rows = hdf5.get(part["provided"], name)
                        getattr(table, name)[position : position + len(rows)] = rows
                position = _copy_chunks(part, group, position, digest)
        depth_group.put_provided(group, table)
        depth_group.describe(group, coding, camera, largest)
        group.attrs["content_sha256"] = depth_group.finished_digest(digest, group)
    return out_of_reach


def _copy_chunks(part: Any, group: Any, position: int, digest: Any) -> int:
    count = len(part["z_depth"])
    for index in range(count):
        for name in DEPTH_DATASETS:
            mask, chunk = part[name].id.read_direct_chunk((index, 0, 0))
            group[name].id.write_direct_chunk((position + index, 0, 0), chunk, filter_mask=mask)
            digest.update(chunk)
    return position + count
