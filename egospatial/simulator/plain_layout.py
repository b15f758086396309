"""Writes a recording in the plain layout (docs/formats.md)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from egospatial.simulator.presets import Preset
from egospatial.simulator.views import Views
from geo import se3


def write_manifest(folder: Path, recording_id: str, preset: Preset, views: Views, timestamps_ns: np.ndarray) -> None:
    """``recording.json``."""
    fisheye, sensor = views.fisheye.camera, views.sensor.camera
    stamps = [int(stamp) for stamp in timestamps_ns]
    document = {
        "format": "egospatial/1",
        "id": recording_id,
        "reference_camera": "fisheye",
        "world": {"metric": True, "up": [0, 0, 1]},
        "cameras": {
            "fisheye": {
                "model": "KB4",
                "width": fisheye.width_px,
                "height": fisheye.height_px,
                "params": fisheye.params.tolist(),
                "valid_theta_deg": preset.valid_theta_deg,
                "reference_from_camera": None,
                "rolling_shutter_s": 0,
                "video": "fisheye.mp4",
                "timestamps_ns": stamps,
            },
            "depth": {
                "model": "PINHOLE",
                "width": sensor.width_px,
                "height": sensor.height_px,
                "params": sensor.params.tolist(),
                "reference_from_camera": views.sensor.head_from_camera.tolist(),
                "depth": {"file": "sensor.h5", "dataset": "depth_mm", "unit_m": 0.001, "kind": "z", "invalid": 0},
                "timestamps_ns": stamps,
            },
        },
        "source": f"egospatial simulate --preset {preset.name}",
    }
    (folder / "recording.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def write_trajectory(folder: Path, timestamps_ns: Int64[np.ndarray, "N"], poses: Float[np.ndarray, "N 4 4"]) -> None:
    """``trajectory.csv``: world_from_reference."""
    quats = se3.quat_wxyz_from_rotation(poses[:, :3, :3])
    lines = ["timestamp_ns,tx,ty,tz,qw,qx,qy,qz"]
    for stamp, origin, quat in zip(timestamps_ns, poses[:, :3, 3], quats, strict=True):
        lines.append(",".join([str(int(stamp)), *(f"{value:.9f}" for value in (*origin, *quat))]))
    _write_lines(folder / "trajectory.csv", lines)


def write_gaze(
    folder: Path,
    timestamps_ns: Int64[np.ndarray, "N"],
    points_xy_px: Float[np.ndarray, "N 2"],
    depth_m: Float[np.ndarray, "N"],
) -> None:
    """``gaze.csv``; frames without a gaze point are left out."""
    lines = ["timestamp_ns,x_px,y_px,depth_m"]
    for stamp, (x, y), depth in zip(timestamps_ns, points_xy_px, depth_m, strict=True):
        if np.isfinite([x, y, depth]).all():
            lines.append(f"{int(stamp)},{x:.3f},{y:.3f},{depth:.4f}")
    _write_lines(folder / "gaze.csv", lines)


def write_hands(
    folder: Path,
    timestamps_ns: Int64[np.ndarray, "N"],
    joints_in_world: Float[np.ndarray, "N 21 3"],
    confidence: Float[np.ndarray, "N"],
) -> None:
    """``hands.csv``: the right hand; frames with confidence 0 (out of the picture) are left out."""
    lines = ["timestamp_ns,side,joint,x_m,y_m,z_m,confidence"]
    for stamp, joints, trust in zip(timestamps_ns, joints_in_world, confidence, strict=True):
        if trust <= 0:
            continue
        for number, (x, y, z) in enumerate(joints):
            lines.append(f"{int(stamp)},right,{number},{x:.5f},{y:.5f},{z:.5f},{trust:.2f}")
    _write_lines(folder / "hands.csv", lines)


def write_narrations(folder: Path, entries: list[dict[str, Any]]) -> None:
    """``narrations.jsonl``."""
    _write_lines(folder / "narrations.jsonl", [json.dumps(entry, ensure_ascii=False) for entry in entries])


def _write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
