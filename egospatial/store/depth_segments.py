"""Depth in segments: each a small whole file, so that a killed run goes on at the first unfinished one."""

import hashlib
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from egospatial.errors import StoreError
from egospatial.store import hdf5, layout
from egospatial.store.atomic import flush_folder
from egospatial.store.geometry_file import DEPTH_DATASETS, SCHEMA, encode_depth
from geo.cameras import PinholeCamera
from recon.records import DepthFrame

SEGMENT_SCHEMA = "egospatial.depth-segment/1"


def write_depth(
    folder: Path,
    camera: PinholeCamera,
    frame_count: int,
    produce: Callable[[Sequence[int]], Iterable[DepthFrame]],
    key: str,
    unit_m: float,
    frames_per_segment: int = 16,
    progress: Callable[[int, int, str], None] | None = None,
) -> int:
    """Write the depth group of geometry.h5; the frames part of the file is copied unchanged.

    Args:
        folder: The output folder; ``geometry.h5`` with its frames must be there.
        camera: Of the depth images.
        frame_count: Frames of the recording.
        produce: Gives the depth of the frames asked for, in order.
        key: What the segments depend on; segments of another key are thrown away.
        unit_m: One step of the stored uint16.
        frames_per_segment: Frames lost at most by a kill.
        progress: Told after each segment.

    Returns:
        How many pixels were too deep to be stored.
    """
    work = folder / layout.WORK / "depth"
    starts = range(0, frame_count, frames_per_segment)
    for start in starts:
        frames = range(start, min(start + frames_per_segment, frame_count))
        path = work / f"{start:08d}.h5"
        if not _finished(path, key, len(frames), unit_m):
            path.unlink(missing_ok=True)
            _write_segment(path, produce(frames), len(frames), key, unit_m, camera)
        if progress is not None:
            progress(frames[-1] + 1, frame_count, "depth")
    too_deep = _merge(folder, camera, [work / f"{start:08d}.h5" for start in starts], frame_count, unit_m)
    shutil.rmtree(folder / layout.WORK, ignore_errors=True)
    flush_folder(folder)
    return too_deep


def _finished(path: Path, key: str, count: int, unit_m: float) -> bool:
    if not path.is_file():
        return False
    try:
        with hdf5.opened(path, SEGMENT_SCHEMA) as file:
            same = file.attrs["key"] == key and float(file.attrs["unit_m"]) == unit_m
            return bool(same) and len(file["z_depth"]) == count
    except StoreError:
        return False


def _write_segment(
    path: Path, frames: Iterable[DepthFrame], count: int, key: str, unit_m: float, camera: PinholeCamera
) -> None:
    encoded = [encode_depth(frame, unit_m) for frame in frames]
    if len(encoded) != count or encoded[0][0].shape != (camera.height_px, camera.width_px):
        found = encoded[0][0].shape if encoded else "nothing"
        raise StoreError(
            f"{path}: expected {count} depth frames of {camera.width_px}x{camera.height_px} px, "
            f"got {len(encoded)} of shape {found}"
        )
    with hdf5.create(path, SEGMENT_SCHEMA) as file:
        file.attrs["key"] = key
        file.attrs["unit_m"] = unit_m
        file.attrs["too_deep"] = sum(item[3] for item in encoded)
        for column, name in enumerate(DEPTH_DATASETS):
            stack = np.stack([item[column] for item in encoded])
            _dataset(file, name, stack.shape, stack.dtype)[...] = stack


def _dataset(group: Any, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
    return group.create_dataset(
        name, shape, dtype=dtype, chunks=(1, *shape[1:]), compression="gzip", compression_opts=4, shuffle=True,
        track_times=False,
    )  # fmt: skip


def _merge(folder: Path, camera: PinholeCamera, segments: list[Path], frame_count: int, unit_m: float) -> int:
    """Copy compressed chunks into a new geometry.h5, next to the copied frames part."""
    target = folder / layout.GEOMETRY
    digest, too_deep = hashlib.sha256(), 0
    with hdf5.opened(target, SCHEMA) as old, hdf5.create(target, SCHEMA) as file:
        for name in old:
            if name != "depth":
                old.copy(name, file)
        group = file.create_group("depth")
        hdf5.put(group, "camera_matrix", camera.matrix, unit="px", meaning="pixel centres at whole numbers")
        for name, dtype in zip(DEPTH_DATASETS, (np.uint16, np.float16, np.uint8), strict=True):
            _dataset(group, name, (frame_count, camera.height_px, camera.width_px), dtype)
        position = 0
        for path in segments:
            with hdf5.opened(path, SEGMENT_SCHEMA) as part:
                too_deep += int(part.attrs["too_deep"])
                position = _copy_chunks(part, group, position, digest)
        group["z_depth"].attrs["meaning"] = "depth along +z in steps of unit_m; 0 = none"
        group["sigma"].attrs["meaning"] = "one standard deviation in metres (source units if not metric); 0 = none"
        group["origin"].attrs["meaning"] = "0 none, 1 static, 2 sensor, 3 both, 4 object"
        group.attrs["unit_m"] = unit_m
        group.attrs["content_sha256"] = digest.hexdigest()
    return too_deep


def _copy_chunks(part: Any, group: Any, position: int, digest: Any) -> int:
    count = len(part["z_depth"])
    for index in range(count):
        for name in DEPTH_DATASETS:
            mask, chunk = part[name].id.read_direct_chunk((index, 0, 0))
            group[name].id.write_direct_chunk((position + index, 0, 0), chunk, filter_mask=mask)
            digest.update(chunk)
    return position + count
