"""This project's own layout: recording.json and trajectory.csv; the inverse of ``geo.readers.plain``."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from geo.cameras import Camera
from geo.errors import CameraError
from geo.exporters.records import PosedPictures
from geo.readers.text_files import write_text
from geo.readers.trajectory_files import write_csv
from geo.trajectory import Trajectory


def camera_entry(camera: Camera, timestamps_ns: Int64[np.ndarray, "N"], pictures: dict[str, Any]) -> dict[str, Any]:
    """A camera in recording.json's ``cameras``; ``pictures`` is {"video": ...} or {"images": ..., "first": ...}.

    Raises:
        CameraError: the calibration has a valid radius, which this layout cannot hold.
    """
    if getattr(camera, "valid_radius", None) is not None:
        raise CameraError(f"{camera.model}: recording.json holds a valid angle, no valid radius; give one as the other")
    theta = getattr(camera, "valid_theta_rad", None)
    entry: dict[str, Any] = {
        "model": camera.model, "width": camera.width_px, "height": camera.height_px, "params": camera.params.tolist(),
        "reference_from_camera": None, **pictures, "timestamps_ns": timestamps_ns.tolist(),
    }  # fmt: skip
    if theta is not None:
        entry["valid_theta_deg"] = float(np.degrees(theta))
    return entry


def write_manifest(path: Path, recording_id: str, cameras: dict[str, Any], world: dict[str, Any], **more: Any) -> None:
    """Write recording.json; the first camera is the reference.

    Raises:
        RecordingError: it cannot be written.
    """
    document = {
        "format": "egospatial/1", "id": recording_id, "reference_camera": next(iter(cameras)), "world": world,
        "cameras": cameras, **more,
    }  # fmt: skip
    write_text(path, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_plain(folder: Path, recording_id: str, pictures: PosedPictures, pattern: dict[str, Any]) -> list[Path]:
    """recording.json and trajectory.csv for pictures that ``pattern`` names; pictures without a pose are gaps.

    Raises:
        PoseError: no pose. CameraError: see ``camera_entry``. RecordingError: a file cannot be written.
    """
    known = pictures.known()
    up = None if pictures.up is None else pictures.up.tolist()
    entry = camera_entry(pictures.camera, pictures.timestamps_ns, pattern)
    write_manifest(folder / "recording.json", recording_id, {"camera": entry}, {"metric": pictures.metric, "up": up})
    write_csv(folder / "trajectory.csv", Trajectory(known.timestamps_ns, known.world_from_camera))
    return [folder / "recording.json", folder / "trajectory.csv"]
