"""The scene as plain arrays: points of the splats, lines of boxes and trajectories, and a place to look from."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int64

from egospatial.view.colours import object_colour
from egospatial.view.finished import Finished, box_at
from egospatial.view.project import box_edges
from geo import se3
from geo.cameras import PinholeCamera
from recon.records import SplatModel

_SH_C0 = 0.28209479177387814  # zeroth spherical harmonic; colour = 0.5 + C0 * sh[0]
_MIN_OPACITY = 0.3
_CAMERA_PATH_RGB = (255, 255, 255)


@dataclass(frozen=True)
class Scene:
    """Arrays only, so that a child process can be handed them. Colours 0..1."""

    points_in_world: Float[np.ndarray, "P 3"]
    point_rgb: Float[np.ndarray, "P 3"]
    segments_in_world: Float[np.ndarray, "S 2 3"]
    segment_rgb: Float[np.ndarray, "S 3"]
    object_ids: Int64[np.ndarray, "S"]  # of each segment; -1 = the wearer's path
    world_from_viewer: Float[np.ndarray, "4 4"]
    label_points_in_world: Float[np.ndarray, "L 3"]
    labels: tuple[str, ...]


def scene_of(finished: Finished, frame: int) -> Scene:
    """Splats as points, boxes at a frame, trajectories over the whole recording, the wearer's path."""
    points, rgb = splat_points(finished.splats)
    segments: list[Float[np.ndarray, "S 2 3"]] = []
    colours: list[Float[np.ndarray, "S 3"]] = []
    owners: list[Int64[np.ndarray, "S"]] = []
    anchors, labels = [], []

    def add(lines: Float[np.ndarray, "S 2 3"], colour: tuple[int, int, int], owner: int) -> None:
        segments.append(lines)
        colours.append(np.tile(np.array(colour) / 255.0, (len(lines), 1)))
        owners.append(np.full(len(lines), owner, dtype=np.int64))

    for item in finished.lifted.trajectories if finished.lifted else ():
        add(path_segments(item.centers_in_world), object_colour(item.object_id), item.object_id)
        box = box_at(item, frame)
        if box is not None:
            add(box_edges(box), object_colour(item.object_id), item.object_id)
            anchors.append(box.center_in_world + np.array([0.0, 0.0, box.extent_m[2] / 2]))
            labels.append(item.label)
    add(path_segments(finished.frames.world_from_camera[:, :3, 3]), _CAMERA_PATH_RGB, -1)
    return Scene(
        points, rgb, np.concatenate(segments), np.concatenate(colours), np.concatenate(owners),
        viewpoint(finished, np.array(anchors).reshape(-1, 3)), np.array(anchors).reshape(-1, 3), tuple(labels),
    )  # fmt: skip


def splat_points(model: SplatModel | None) -> tuple[Float[np.ndarray, "P 3"], Float[np.ndarray, "P 3"]]:
    """Centres and base colours of the splats that are not nearly clear."""
    if model is None:
        return np.zeros((0, 3)), np.zeros((0, 3))
    with np.errstate(over="ignore"):
        seen = 1 / (1 + np.exp(-model.opacity_logits.astype(np.float64))) > _MIN_OPACITY
    seen &= np.isfinite(model.means_in_world).all(axis=1)
    rgb = np.clip(0.5 + _SH_C0 * model.sh_coeffs[seen, 0].astype(np.float64), 0, 1)
    return model.means_in_world[seen].astype(np.float64), rgb


def path_segments(points_in_world: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "S 2 3"]:
    """Lines between neighbouring known points that differ; a gap stays a gap."""
    pairs = np.stack([points_in_world[:-1], points_in_world[1:]], axis=1).astype(np.float64)
    moved = np.linalg.norm(pairs[:, 1] - pairs[:, 0], axis=1) > 1e-6
    kept: Float[np.ndarray, "S 2 3"] = pairs[np.isfinite(pairs).all(axis=(1, 2)) & moved]
    return kept


def viewpoint(finished: Finished, anchors: Float[np.ndarray, "L 3"]) -> Float[np.ndarray, "4 4"]:
    """From above and behind the wearer's mean place, towards the objects (or the splats, or straight ahead)."""
    poses = finished.frames.world_from_camera[np.isfinite(finished.frames.world_from_camera).all(axis=(1, 2))]
    if len(poses) == 0:
        return np.eye(4)
    eye, forward = np.median(poses[:, :3, 3], axis=0), poses[:, :3, 2].mean(axis=0)
    target = np.median(anchors, axis=0) if len(anchors) else eye + forward
    up = np.array([0.0, 0.0, 1.0]) if finished.document["world"]["up_axis"] else -poses[:, :3, 1].mean(axis=0)
    up = up / np.linalg.norm(up)
    away = eye - target
    away = away - up * (away @ up)
    distance = max(float(np.linalg.norm(eye - target)), 1e-3)
    away = away / max(float(np.linalg.norm(away)), 1e-9)
    for factor in (1.0, 1.15, 1.3, 1.5, 1.7, 1.9):
        view = look_at(target + (away + 0.75 * up) * distance * factor, target, up)
        if _shows(view, anchors):
            break
    return view


def _shows(world_from_viewer: Float[np.ndarray, "4 4"], points_in_world: Float[np.ndarray, "L 3"]) -> bool:
    """True if five in six points lie well inside the picture."""
    if len(points_in_world) == 0:
        return True
    camera = viewer_camera(1280, 800)
    pixels = camera.project(se3.transform_points(se3.inverse(world_from_viewer), points_in_world)).pixels_xy
    with np.errstate(invalid="ignore"):
        inside = (np.abs(pixels[:, 0] - 640) < 560) & (np.abs(pixels[:, 1] - 400) < 340)
    return bool(inside.mean() >= 5 / 6)


def look_at(
    eye_in_world: Float[np.ndarray, "3"], target_in_world: Float[np.ndarray, "3"], up: Float[np.ndarray, "3"]
) -> Float[np.ndarray, "4 4"]:
    """``world_from_camera`` (x right, y down, z forward) of a viewer at ``eye`` that looks at ``target``."""
    forward = target_in_world - eye_in_world
    forward = forward / max(float(np.linalg.norm(forward)), 1e-12)
    right = np.cross(forward, up)
    if np.linalg.norm(right) < 1e-6:
        right = np.cross(forward, [1.0, 0.0, 0.0] if abs(forward[0]) < 0.9 else [0.0, 1.0, 0.0])
    right = right / np.linalg.norm(right)
    world_from_camera = np.eye(4)
    world_from_camera[:3, :3] = np.stack([right, np.cross(forward, right), forward], axis=1)
    world_from_camera[:3, 3] = eye_in_world
    return world_from_camera


def viewer_camera(width_px: int, height_px: int) -> PinholeCamera:
    """The virtual camera of 3D pictures: 65 degrees high."""
    focal = height_px / 2 / np.tan(np.radians(65) / 2)
    return PinholeCamera(width_px, height_px, focal, focal, (width_px - 1) / 2, (height_px - 1) / 2)


def save_arrays(path: Path, scene: Scene) -> None:
    """Write what a child process needs as .npz without object arrays."""
    np.savez(
        path, points=scene.points_in_world, point_rgb=scene.point_rgb, segments=scene.segments_in_world,
        segment_rgb=scene.segment_rgb, world_from_viewer=scene.world_from_viewer,
    )  # fmt: skip
