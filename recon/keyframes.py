"""Which frames the fit looks at: spread over the poses, sharp, some held out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64, UInt8

from geo import se3
from geo.cameras import PinholeCamera
from recon.config import ReconstructConfig
from recon.records import DynamicMasks

_PLACE_M = 0.1
_HALF_RANGE = 1 << 18  # places farther than this from the origin (26 km) do not count
_LEAST_GAIN = 0.005


@dataclass(frozen=True)
class Keyframes:
    """Frame numbers in rising order. ``held_out`` frames are only ever measured."""

    fit: Int64[np.ndarray, "K"]
    held_out: Int64[np.ndarray, "L"]


def sharpness(gray: UInt8[np.ndarray, "H W"]) -> float:
    """Mean absolute Laplacian over mean brightness: falls with blur, does not change with exposure."""
    image = gray.astype(np.float64)
    if min(image.shape) < 3:
        return 0.0
    centre = image[1:-1, 1:-1]
    laplacian = 4 * centre - image[:-2, 1:-1] - image[2:, 1:-1] - image[1:-1, :-2] - image[1:-1, 2:]
    return float(np.abs(laplacian).mean() / (image.mean() + 1.0))


def select_keyframes(
    world_from_camera: Float[np.ndarray, "N 4 4"],
    frame_sharpness: Float[np.ndarray, "N"],
    config: ReconstructConfig,
    usable: Bool[np.ndarray, "N"] | None = None,
    seen: Sequence[Int64[np.ndarray, "_"]] | None = None,
) -> Keyframes:
    """Choose keyframes by what their sensor sees and by pose coverage, prefer sharp ones, hold every n-th out.

    ``seen``: numbers of the places that each frame's depth sensor sees, if there is one (``places_seen``). Frames that
    together see all places come first (up to an eighth of the budget) and are never held out.

    Frames without a pose (NaN) are never chosen. Candidates are the frames at which the camera has moved or
    turned by a step since the last one; beyond the budget, farthest-point sampling over poses thins them. Each is
    then replaced by the sharpest frame on its stretch of time up to half way to its neighbours.
    """
    posed = np.isfinite(world_from_camera).all(axis=(1, 2))
    frames = np.flatnonzero(posed if usable is None else posed & usable)
    if not len(frames):
        none = np.zeros(0, dtype=np.int64)
        return Keyframes(none, none)
    features = _pose_features(world_from_camera[frames], config)
    covering = np.zeros(0, dtype=np.int64)
    if seen is not None:
        covering = covering_frames([seen[frame] for frame in frames.tolist()], config.max_keyframes // 8)
    steps = np.union1d(_walk(features), covering)
    if len(steps) > config.max_keyframes:
        steps = steps[_farthest_points(features[steps], config.max_keyframes, np.searchsorted(steps, covering))]
    free = np.setdiff1d(steps, covering)
    chosen = np.union1d(_sharpest_nearby(free, frame_sharpness[frames]) if len(free) else free, covering)
    keyframes = frames[chosen]
    every = config.held_out_every
    held = np.zeros(len(keyframes), dtype=bool)
    able = np.flatnonzero(~np.isin(chosen, covering))
    if every and len(keyframes) > every // 2:
        held[able[every // 2 :: every]] = True
    return Keyframes(keyframes[~held].astype(np.int64), keyframes[held].astype(np.int64))


def _pose_features(poses: Float[np.ndarray, "N 4 4"], config: ReconstructConfig) -> Float[np.ndarray, "N 9"]:
    """Points whose Euclidean distance is about 1 at one step of translation or one of rotation."""
    turn = 2 * np.sin(np.radians(config.keyframe_step_deg) / 2)  # chord of a unit axis turned by one step
    axes = poses[:, :3, 1:3].transpose(0, 2, 1).reshape(len(poses), 6)
    return np.concatenate([poses[:, :3, 3] / config.keyframe_step_m, axes / turn], axis=1)


def _walk(features: Float[np.ndarray, "N F"]) -> Int64[np.ndarray, "K"]:
    """Greedy walk in time: the next frame a step away from the last chosen one."""
    chosen = [0]
    for row in range(1, len(features)):
        if np.linalg.norm(features[row] - features[chosen[-1]]) >= 1.0:
            chosen.append(row)
    return np.array(chosen, dtype=np.int64)


def places_seen(
    z_depth_m: Float32[np.ndarray, "N h w"],
    camera: PinholeCamera,
    world_from_camera: Float[np.ndarray, "N 4 4"],
    dynamic: DynamicMasks,
) -> list[Int64[np.ndarray, "_"]]:
    """Numbers of the voxels (10 cm) in which each frame's depth falls; places that one frame alone sees are left out.

    The same voxel has the same number in all frames; frames without a pose or depth see nothing, nor does what moves.
    """
    v, u = np.mgrid[0 : z_depth_m.shape[1], 0 : z_depth_m.shape[2]].reshape(2, -1)
    rays = camera.normalised_points(np.stack([u, v], axis=1).astype(np.float64))
    per_frame = []
    for frame, (z, pose) in enumerate(zip(z_depth_m, world_from_camera, strict=True)):
        depth = np.where(dynamic.at(frame, camera.size_wh_px), np.nan, z).ravel().astype(np.float64)
        rows = np.isfinite(depth) & bool(np.isfinite(pose).all())
        points = se3.transform_points(pose, rays[rows] * depth[rows, None]) if rows.any() else np.zeros((0, 3))
        cells = np.floor(points / _PLACE_M).astype(np.int64) + _HALF_RANGE
        inside = ((cells >= 0) & (cells < 2 * _HALF_RANGE)).all(axis=1)
        per_frame.append(np.unique(cells[inside] @ np.array([4 * _HALF_RANGE**2, 2 * _HALF_RANGE, 1])))
    numbers, counts = np.unique(np.concatenate([*per_frame, np.zeros(0, np.int64)]), return_counts=True)
    shared = numbers[counts >= 2]
    return [np.searchsorted(shared, cells[np.isin(cells, shared)]) for cells in per_frame]


def covering_frames(seen: Sequence[Int64[np.ndarray, "_"]], budget: int) -> Int64[np.ndarray, "K"]:
    """Few frames that together see (nearly) all places, sorted: greedy, the frame that adds most comes next.

    Ends when the next frame would add less than half a percent of all places. Source: the greedy bound for maximum
    coverage, Nemhauser et al. (1978).
    """
    total = 1 + max((int(places.max()) for places in seen if len(places)), default=-1)
    missing = np.ones(total, dtype=bool)
    gains = np.array([len(places) for places in seen], dtype=np.int64)
    chosen: list[int] = []
    while len(chosen) < budget and len(seen):
        while True:  # gains only fall: the best bound is checked until it holds
            best = int(np.argmax(gains))
            true = int(missing[seen[best]].sum())
            if true == gains[best]:
                break
            gains[best] = true
        if gains[best] < max(1, _LEAST_GAIN * total):
            break
        missing[seen[best]] = False
        gains[best] = 0
        chosen.append(best)
    return np.array(sorted(chosen), dtype=np.int64)


def _farthest_points(
    features: Float[np.ndarray, "N F"], count: int, first: Int64[np.ndarray, "C"] | None = None
) -> Int64[np.ndarray, "K"]:
    """Rows of a farthest-point sample, sorted; starts at ``first`` (row 0 if empty), ties go to the earlier row."""
    chosen = first.tolist() if first is not None and len(first) else [0]
    nearest = np.linalg.norm(features[:, None] - features[chosen], axis=2).min(axis=1)
    while len(chosen) < count:
        row = int(np.argmax(nearest))
        chosen.append(row)
        nearest = np.minimum(nearest, np.linalg.norm(features - features[row], axis=1))
    return np.unique(np.array(chosen, dtype=np.int64))


def _sharpest_nearby(steps: Int64[np.ndarray, "K"], sharp: Float[np.ndarray, "N"]) -> Int64[np.ndarray, "K"]:
    """Each step's sharpest frame between the half-way points to its neighbours, at most 3 frames away."""
    out = np.empty_like(steps)
    for i, step in enumerate(steps):
        before = (step + steps[i - 1]) // 2 + 1 if i else 0
        after = (step + steps[i + 1]) // 2 if i + 1 < len(steps) else len(sharp) - 1
        first, last = max(before, step - 3), min(after, step + 3)
        window = sharp[first : last + 1]
        best = first + int(np.argmax(window))
        # a frame is replaced only for a clear gain, so that coverage is not given up for noise
        out[i] = best if sharp[best] > 1.15 * sharp[step] else step
    return out
