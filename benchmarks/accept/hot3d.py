"""Letter C of issue 3: HOT3D. Mesh vertices through object pose, headset and camera give 2D boxes."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accept.boxes_2d import box_around, iou, stored_pixels
from benchmarks.accept.harness import Letter, samples

SEQUENCES = {"Aria": ("P0003_c701bd11", 0.92), "Quest3": ("P0002_273c2819", 0.97)}
STREAMS = {"camera-rgb": "214-1", "camera-slam-left": "1201-1", "camera-slam-right": "1201-2"}
LIBRARY = "EGOSPATIAL_HOT3D_LIBRARY"


def measure(letter: Letter) -> None:
    """All of letter C."""
    from geo.readers import open_recording

    root = samples() / "hot3d_trimmed"
    before, total = os.environ.get(LIBRARY), 0
    os.environ[LIBRARY] = str(root / "object_library")
    try:
        for headset, (name, threshold) in SEQUENCES.items():
            recording = open_recording(root / headset / name)
            found = _ious(recording, root / headset / name)
            total += sum(map(len, found.values()))
            for camera, values in found.items():
                letter.note(f"{headset} {camera}: {len(values)} boxes, median IoU {np.median(values):.4f}")
            every = np.concatenate(list(found.values()))
            letter.at_least(f"{headset} median IoU", float(np.median(every)), threshold)
    finally:
        os.environ.pop(LIBRARY, None) if before is None else os.environ.update({LIBRARY: before})
    letter.at_least("boxes", total, 500)


def _vertices(path: Path) -> np.ndarray:
    import trimesh

    return np.asarray(trimesh.load(path, process=False, force="mesh").vertices, dtype=np.float64)


def _ious(recording: Any, folder: Path) -> dict[str, list[float]]:
    """IoU with each given box (those that are numbers), by camera."""
    from geo import se3
    from geo.readers.object_tables import read_boxes_2d

    boxes = read_boxes_2d(folder / "box2d_objects.csv", [])
    objects = {item.object_id: item for item in recording.given_objects if item.mesh_file is not None}
    vertices = {uid: _vertices(item.mesh_file) for uid, item in objects.items()}
    out: dict[str, list[float]] = {}
    for stream in (recording.reference, *recording.others):
        camera, mine = stream.camera, boxes.of_stream(STREAMS[stream.name])
        for row in np.flatnonzero(mine & np.isfinite(boxes.box_xyxy_px).all(axis=1)).tolist():
            item = objects.get(boxes.uids[row])
            if item is None:
                continue
            stamp = int(boxes.timestamps_ns[row])
            world_from_camera = recording.trajectory.poses_at(np.array([stamp]))[0] @ stream.reference_from_camera
            place = se3.inverse(world_from_camera) @ item.world_from_object_at(stamp, 0)
            pixels = camera.project(se3.transform_points(place, vertices[item.object_id])).pixels_xy
            box = box_around(stored_pixels(camera, pixels))
            out.setdefault(stream.name, []).append(iou(box, boxes.box_xyxy_px[row]))
    return out
