"""Which frames the fit looks at: spread over the poses, sharp, some held out."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int64, UInt8

from recon.config import ReconstructConfig


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
) -> Keyframes:
    """Choose keyframes by pose coverage, prefer sharp ones, hold every n-th out.

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
    steps = _walk(features)
    if len(steps) > config.max_keyframes:
        steps = steps[_farthest_points(features[steps], config.max_keyframes)]
    chosen = np.unique(_sharpest_nearby(steps, frame_sharpness[frames]))
    keyframes = frames[chosen]
    every = config.held_out_every
    held = np.zeros(len(keyframes), dtype=bool)
    if every and len(keyframes) > every // 2:
        held[every // 2 :: every] = True
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


def _farthest_points(features: Float[np.ndarray, "N F"], count: int) -> Int64[np.ndarray, "K"]:
    """Rows of a farthest-point sample, sorted; starts at row 0, ties go to the earlier row."""
    nearest = np.linalg.norm(features - features[0], axis=1)
    chosen = [0]
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
