"""Small recordings made in code: a textured wall seen by a moving camera, in the plain layout and as an RGB-D folder."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for fuzzing.py

FRAMES = 6
SIZE = (64, 48)  # W, H


def frame_image(index: int, size: tuple[int, int] = SIZE) -> np.ndarray:
    """A picture that says which frame it is: its blue part is 20 times the index."""
    width, height = size
    v, u = np.mgrid[0:height, 0:width]
    return np.stack([u * 255 // width, v * 255 // height, np.full_like(u, 20 * index)], axis=-1).astype(np.uint8)


def write_png(path: Path, image: np.ndarray) -> None:
    import cv2

    ok, data = cv2.imencode(path.suffix, image[..., ::-1] if image.ndim == 3 else image)
    assert ok
    path.write_bytes(data.tobytes())


def plain_manifest() -> dict[str, Any]:
    width, height = SIZE
    stamps = [1_718_892_641_002_929_366 + i * 100_000_000 for i in range(FRAMES)]
    return {
        "format": "egospatial/1",
        "id": "wall_01",
        "reference_camera": "eye",
        "world": {"metric": True, "up": [0, 0, 1]},
        "cameras": {
            "eye": {
                "model": "PINHOLE",
                "width": width,
                "height": height,
                "params": [60, 60, 31.5, 23.5],
                "reference_from_camera": None,
                "rolling_shutter_s": 0,
                "images": "rgb/%06d.png",
                "timestamps_ns": stamps,
            },
            "depth": {
                "model": "PINHOLE",
                "width": width,
                "height": height,
                "params": [60, 60, 31.5, 23.5],
                "reference_from_camera": [[1, 0, 0, 0.03], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
                "depth": {"file": "sensor.h5", "dataset": "depth_mm", "unit_m": 0.001, "kind": "z", "invalid": 0},
                "timestamps_ns": stamps,
            },
        },
    }


def write_plain(folder: Path, change: Callable[[dict[str, Any]], None] | None = None) -> Path:
    """A complete plain recording; `change` edits the manifest before it is written."""
    import h5py

    (folder / "rgb").mkdir(parents=True)
    for i in range(FRAMES):
        write_png(folder / "rgb" / f"{i:06d}.png", frame_image(i))
    with h5py.File(folder / "sensor.h5", "w") as file:
        depth = np.full((FRAMES, SIZE[1], SIZE[0]), 2000, dtype=np.uint16)
        depth[:, 0, 0] = 0
        file.create_dataset("depth_mm", data=depth, chunks=(1, SIZE[1], SIZE[0]), compression="gzip")
    manifest = plain_manifest()
    stamps = manifest["cameras"]["eye"]["timestamps_ns"]
    rows = ["timestamp_ns,tx,ty,tz,qw,qx,qy,qz", *(f"{t},{0.1 * i},0,1.5,1,0,0,0" for i, t in enumerate(stamps))]
    (folder / "trajectory.csv").write_text("\n".join(rows) + "\n")
    if change:
        change(manifest)
    (folder / "recording.json").write_text(json.dumps(manifest))
    return folder


def write_rgbd(folder: Path, frames: int = 4) -> Path:
    """A 7-Scenes folder with colour and depth cameras apart, frames 0, 5, 10, ..."""
    folder.mkdir(parents=True)
    for k in range(frames):
        stem = folder / f"frame-{5 * k:06d}"
        write_png(Path(f"{stem}.color.png"), frame_image(k))
        depth = np.full((SIZE[1], SIZE[0]), 1500, dtype=np.uint16)
        depth[0, :2] = [0, 65535]
        write_png(Path(f"{stem}.depth.png"), depth)
        pose = np.eye(4)
        pose[0, 3] = 0.1 * k
        np.savetxt(f"{stem}.pose.txt", pose)
    np.savetxt(folder / "camera-intrinsics.txt", [[60, 0, 32], [0, 60, 24], [0, 0, 1]])
    offset = np.eye(4)
    offset[:3, 3] = [-0.026, -0.004, 0]
    calibration = {
        "depth_K": [[60, 0, 32], [0, 60, 24], [0, 0, 1]],
        "color_K": [[54, 0, 32], [0, 54, 24], [0, 0, 1]],
        "T_color_depth": offset.tolist(),
    }
    (folder / "calibration.json").write_text(json.dumps(calibration))
    return folder


@pytest.fixture
def plain_folder(tmp_path: Path) -> Path:
    return write_plain(tmp_path / "plain")


@pytest.fixture
def make_plain(tmp_path: Path) -> Callable[..., Path]:
    """Write a plain recording with an edited manifest."""
    return lambda change=None, name="plain": write_plain(tmp_path / name, change)


@pytest.fixture
def rgbd_folder(tmp_path: Path) -> Path:
    return write_rgbd(tmp_path / "rgbd")


@pytest.fixture
def image_of_frame() -> Callable[..., np.ndarray]:
    return frame_image


@pytest.fixture
def png_writer() -> Callable[[Path, np.ndarray], None]:
    return write_png
