"""What the given data are like: depth with the sensor's noise and holes, poses with white noise and drift."""

import numpy as np
from jaxtyping import Float, Float32, UInt16

from geo import se3

HOLE_SHARE = (0.15, 0.20)  # of all pixels, whatever the view
MAX_RANGE_M = 3.5
_BASELINE_M = 0.075  # of the pretended stereo pair; disparities come in steps of a sixteenth of a pixel
_DISPARITY_STEP_PX = 1.0 / 16.0


def noisy_depth_mm(
    z_depth_m: Float32[np.ndarray, "H W"],
    facing: Float32[np.ndarray, "H W"],
    focal_px: float,
    rng: np.random.Generator,
) -> UInt16[np.ndarray, "H W"]:
    """Depth in millimetres as the sensor gives it, 0 = none.

    In this order: lateral jitter of 0.8 px, sigma = 3 mm + 4 mm (z - 0.4 m)^2 with z in metres, disparity steps,
    then holes in 15 to 20 % of the pixels: beyond 3.5 m, at depth edges, at grazing surfaces.

    Args:
        z_depth_m: Exact depth; NaN or inf = nothing hit.
        facing: |cosine| between ray and surface normal.
        focal_px: Of the depth camera; with a baseline of 7.5 cm it gives the disparity.
        rng: Source of all noise.
    """
    height, width = z_depth_m.shape
    jitter = rng.standard_normal((2, height, width), dtype=np.float32) * np.float32(0.8)
    rows = np.clip(np.rint(np.arange(height)[:, None] + jitter[0]), 0, height - 1).astype(np.int64)
    cols = np.clip(np.rint(np.arange(width)[None] + jitter[1]), 0, width - 1).astype(np.int64)
    depth = z_depth_m[rows, cols]
    with np.errstate(invalid="ignore"):
        sigma = 0.003 + 0.004 * (depth - 0.4) ** 2
        depth = depth + sigma * rng.standard_normal((height, width), dtype=np.float32)
        scale = focal_px * _BASELINE_M
        disparity = np.rint(scale / np.maximum(depth, 0.05) / _DISPARITY_STEP_PX) * _DISPARITY_STEP_PX
        depth = scale / np.maximum(disparity, _DISPARITY_STEP_PX)
    holes = _holes(z_depth_m, facing, rng) | ~np.isfinite(depth)
    return np.asarray(np.where(holes, 0, np.rint(np.nan_to_num(depth, posinf=0.0) * 1000)), dtype=np.uint16)


def exact_depth_mm(z_depth_m: Float32[np.ndarray, "H W"]) -> UInt16[np.ndarray, "H W"]:
    """Exact depth in the file's unit."""
    return np.asarray(np.rint(np.nan_to_num(z_depth_m, posinf=0.0) * 1000).astype(np.uint16))


def _holes(
    z_depth_m: Float32[np.ndarray, "H W"], facing: Float32[np.ndarray, "H W"], rng: np.random.Generator
) -> np.ndarray:
    """The pixels most likely to fail, as many as this frame's share says; far ones always."""
    import cv2

    finite = np.isfinite(z_depth_m)
    far = ~finite | (z_depth_m > MAX_RANGE_M)
    filled = np.where(finite, z_depth_m, 10.0).astype(np.float32)
    kernel = np.ones((3, 3), np.uint8)
    step = cv2.dilate(filled, kernel) - cv2.erode(filled, kernel)
    edge = (step > 0.03 + 0.04 * filled).astype(np.uint8)
    near_edge = cv2.GaussianBlur(edge.astype(np.float32), (0, 0), 0.9)
    coarse = rng.random((z_depth_m.shape[0] // 12 + 2, z_depth_m.shape[1] // 12 + 2), dtype=np.float32)
    blotch = cv2.resize(coarse, (z_depth_m.shape[1], z_depth_m.shape[0]), interpolation=cv2.INTER_CUBIC)
    risk = 1.0 * near_edge + np.clip(0.4 - facing, 0, 0.4) * 1.6 + 0.55 * blotch
    risk += 0.35 * rng.random(z_depth_m.shape, dtype=np.float32)
    risk[far] = np.inf
    share = rng.uniform(*HOLE_SHARE)
    keep = int((1.0 - share) * risk.size)
    threshold = np.partition(risk.ravel(), keep)[keep]
    return np.asarray(far | (risk >= threshold))


def given_poses(
    world_from_camera: Float[np.ndarray, "N 4 4"], times_s: Float[np.ndarray, "N"], rng: np.random.Generator
) -> Float[np.ndarray, "N 4 4"]:
    """True poses + white noise (2 mm and 0.1 degrees on each axis) + drift (1 cm and 0.5 degrees a minute)."""
    count = len(times_s)
    directions = rng.standard_normal((2, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    minutes = (np.asarray(times_s) - times_s[0])[:, None] / 60.0
    shift = 0.01 * minutes * directions[0] + 0.002 * rng.standard_normal((count, 3))
    turn = np.radians(0.5) * minutes * directions[1] + np.radians(0.1) * rng.standard_normal((count, 3))
    out = world_from_camera.copy()
    out[:, :3, 3] += shift
    out[:, :3, :3] = world_from_camera[:, :3, :3] @ se3.rotation_from_axis_angle(turn)
    return out
