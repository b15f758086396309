"""How an object moved between two frames: from optical flow with depth, from the hand, by local alignment."""

import numpy as np
from jaxtyping import Bool, Float, Float32

from geo import se3
from tracking.embedded.frames import Crop, FrameStore
from tracking.embedded.model import ObjectModel
from tracking.embedded.predict import Prediction, compare, predict, tolerance_m

_HAND_REACH_M = 0.15
_TURNS_DEG = (0.0, -7.0, 7.0, -14.0, 14.0, -22.0, 22.0)


def solve_motion(
    before: Float[np.ndarray, "P 3"],
    after: Float[np.ndarray, "P 3"],
    rotation_damping_m: float = 0.05,
    scale_m: float = 0.01,
) -> Float[np.ndarray, "4 4"] | None:
    """Rigid motion that takes points to points, robust, with damped rotation (few points on small objects).

    Small-angle least squares with Cauchy weights; damping adds as much inertia as the points at
    ``rotation_damping_m`` from the centre would have. None with fewer than 6 points.
    """
    if len(before) < 6:
        return None
    motion = np.eye(4)
    motion[:3, 3] = np.median(after - before, axis=0)
    for _ in range(6):
        moved = se3.transform_points(motion, before)
        residual = after - moved
        weight = 1.0 / (1.0 + (residual**2).sum(-1) / scale_m**2)
        total = weight.sum()
        center = (weight[:, None] * moved).sum(0) / total
        arm = moved - center
        inertia = ((arm**2).sum(-1) * weight).sum() * np.eye(3) - (weight[:, None] * arm).T @ arm
        inertia += total * rotation_damping_m**2 * np.eye(3)
        turn = np.linalg.solve(inertia, (weight[:, None] * np.cross(arm, residual)).sum(0))
        step = np.eye(4)
        step[:3, :3] = se3.rotation_from_axis_angle(turn)
        shift = (weight[:, None] * residual).sum(0) / total
        step[:3, 3] = center + shift - step[:3, :3] @ center
        motion = step @ motion
    return motion


def flow_motion(
    store: FrameStore,
    before: int,
    after: int,
    crop: Crop,
    mask: Bool[np.ndarray, "h w"],
    points_in_world: Float32[np.ndarray, "h w 3"],
) -> tuple[Float[np.ndarray, "4 4"] | None, float]:
    """Motion in world of the masked pixels of ``before``, and the share of them that could be followed.

    A pixel counts if flow forth and back agree and both ends have sensor depth.
    """
    pose = store.pose(after)
    sensor = store.sensor(after)
    usable = mask & np.isfinite(points_in_world).all(-1)
    if pose is None or sensor is None or store.scene_depth is None or usable.sum() < 6:
        return None, 0.0
    v, u = np.nonzero(usable)
    start = crop.roi.from_roi(np.stack([u, v], -1).astype(float))
    end, closed = follow(store, before, after, start)
    camera = store.scene_depth.camera
    full = store.canonical.camera
    at = (end - [full.cx_px, full.cy_px]) / [full.fx_px, full.fy_px] * [camera.fx_px, camera.fy_px]
    at = np.rint(at + np.array([camera.cx_px, camera.cy_px])).astype(int)
    ok = closed & (at >= 0).all(-1) & (at[:, 0] < camera.width_px) & (at[:, 1] < camera.height_px)
    z_m = np.full(len(at), np.nan)
    z_m[ok] = sensor[at[ok, 1], at[ok, 0]]
    ok &= np.isfinite(z_m)
    share = float(ok.mean())
    if ok.sum() < 6:
        return None, share
    in_camera = full.normalised_points(end[ok]) * z_m[ok, None]
    arrived = se3.transform_points(pose, in_camera)
    left = points_in_world[v[ok], u[ok]].astype(np.float64)
    near = np.linalg.norm(arrived - left, axis=-1) < 0.3
    return solve_motion(left[near], arrived[near]), share


def follow(
    store: FrameStore, before: int, after: int, pixels_xy: Float[np.ndarray, "P 2"]
) -> tuple[Float[np.ndarray, "P 2"], Bool[np.ndarray, "P"]]:
    """Follow canonical pixels by flow; True where going back returns to within 1.5 small pixels."""
    forth, back = store.flow(before, after), store.flow(after, before)
    scale = np.array([forth.shape[1] / store.image_wh[0], forth.shape[0] / store.image_wh[1]])
    small = (pixels_xy + 0.5) * scale - 0.5
    moved = small + _lookup(forth, small)
    returned = moved + _lookup(back, moved)
    closed = np.linalg.norm(returned - small, axis=-1) < 1.5
    return (moved + 0.5) / scale - 0.5, closed


def _lookup(flow: Float32[np.ndarray, "h w 2"], at: Float[np.ndarray, "P 2"]) -> np.ndarray:
    u = np.rint(at[:, 0]).astype(int).clip(0, flow.shape[1] - 1)
    v = np.rint(at[:, 1]).astype(int).clip(0, flow.shape[0] - 1)
    return np.asarray(flow[v, u], np.float64)


def hand_motions(
    store: FrameStore, before: int, after: int, center_in_world: Float[np.ndarray, "3"]
) -> list[Float[np.ndarray, "4 4"]]:
    """Motions of hands that are within reach of the object: with the hand's turn, and its shift alone."""
    out = []
    for joints_before, joints_after in zip(hands_at(store, before), hands_at(store, after), strict=True):
        both = np.isfinite(joints_before).all(-1) & np.isfinite(joints_after).all(-1)
        if both.sum() < 4:
            continue
        reach = np.linalg.norm(joints_before[both] - center_in_world, axis=-1).min()
        if reach > _HAND_REACH_M:
            continue
        motion = solve_motion(joints_before[both], joints_after[both], rotation_damping_m=0.01, scale_m=0.02)
        if motion is not None:
            out.append(motion)
        shift = np.eye(4)
        shift[:3, 3] = np.median(joints_after[both] - joints_before[both], axis=0)
        out.append(shift)
    return out


def touching_hand(
    store: FrameStore, frame: int, points_in_world: Float[np.ndarray, "K 3"], reach_m: float = 0.04
) -> int | None:
    """Which hand has a joint within reach of the object's surface, the nearest if several; None if none."""
    best: tuple[float, int] | None = None
    some = points_in_world[:: max(1, len(points_in_world) // 150)]
    for number, joints in enumerate(hands_at(store, frame)):
        known = joints[np.isfinite(joints).all(-1)]
        if len(known) == 0:
            continue
        gap = float(np.linalg.norm(known[:, None] - some[None], axis=-1).min())
        if gap < reach_m and (best is None or gap < best[0]):
            best = gap, number
    return None if best is None else best[1]


def hand_motion(store: FrameStore, before: int, after: int, hand: int) -> Float[np.ndarray, "4 4"] | None:
    """Rigid motion of one hand between two frames, None where it is not seen in both."""
    start, end = hands_at(store, before)[hand], hands_at(store, after)[hand]
    both = np.isfinite(start).all(-1) & np.isfinite(end).all(-1)
    return solve_motion(start[both], end[both], rotation_damping_m=0.01, scale_m=0.02)


def hands_at(store: FrameStore, frame: int) -> list[Float[np.ndarray, "21 3"]]:
    """Joints in world of every hand track at a frame; NaN where not seen."""
    stamp = int(store.canonical.timestamps_ns[frame])
    out = []
    for track in store.canonical.hands:
        joints = track.joints_at(stamp)
        out.append(np.full((21, 3), np.nan) if joints is None else joints)
    return out


def align(
    crop: Crop,
    model: ObjectModel,
    start: Prediction,
    camera_pose: Float[np.ndarray, "4 4"],
    iterations: int = 4,
    allowed: Bool[np.ndarray, "h w"] | None = None,
) -> Prediction:
    """Slide (and slightly turn) the object onto the sensor's depth: projective ICP, point to point.

    Source: Blais & Levine (1995) for the projective pairing. Kept only while the agreement does not fall.
    """
    best, best_score = start, compare(crop, start, model).score
    current = start
    for _ in range(iterations):
        inside = current.mask & np.isfinite(crop.z_m)
        if allowed is not None:
            inside &= allowed
        residual = crop.z_m[inside] - current.z_m[inside]
        close = np.abs(residual) < 2.5 * tolerance_m(current.z_m[inside])
        if close.sum() < 8:
            break
        v, u = np.nonzero(inside)
        rays = crop.camera.normalised_points(np.stack([u[close], v[close]], -1).astype(float))
        seen = se3.transform_points(camera_pose, rays * crop.z_m[inside][close, None])
        expected = se3.transform_points(camera_pose, rays * current.z_m[inside][close, None])
        motion = solve_motion(expected, seen, rotation_damping_m=0.06)
        if motion is None:
            break
        current = predict(crop, model, motion @ current.world_from_object, camera_pose, start.in_image)
        score = compare(crop, current, model).score
        if score > best_score + 1e-3:
            best, best_score = current, score
    return best


def align_sideways(
    crop: Crop,
    prediction: Prediction,
    likely: Float32[np.ndarray, "h w"],
    camera_pose: Float[np.ndarray, "4 4"],
) -> Float[np.ndarray, "4 4"]:
    """Shift the object across the view to where its outline fits best: depth alone says little about that.

    ``likely`` is 1 where a pixel looks like the object, -1 where it does not, 0 where nothing can be said. The outline
    (1 inside, a negative rim around it) is correlated with it over small shifts; a long thing is also turned about the
    line of sight. Returns the moved world_from_object.
    """
    v, u = np.nonzero(prediction.mask)
    if len(v) < 30:
        return prediction.world_from_object
    reach = int(np.clip(0.35 * np.sqrt(len(v)), 3, 16))
    middle = np.array([u.mean(), v.mean()])
    spread = np.sqrt(np.maximum(np.linalg.eigvalsh(np.cov(np.stack([u, v]))), 0.25))
    turns = _TURNS_DEG if spread[1] > 2.0 * spread[0] else (0.0,)
    best: tuple[float, float, np.ndarray] | None = None
    for turn in turns:
        value, shift = _best_shift(_turned(prediction.mask, middle, turn), likely, reach)
        value -= 0.08 * len(v) * (turn / max(_TURNS_DEG)) ** 2
        if best is None or value > best[0]:
            best = value, turn, shift
    assert best is not None
    _, turn, shift = best
    z_m = float(np.median(prediction.z_m[prediction.mask]))
    focal = np.array([crop.camera.fx_px, crop.camera.fy_px])
    pivot = np.append((middle - [crop.camera.cx_px, crop.camera.cy_px]) / focal, 1.0) * z_m
    motion = np.eye(4)
    motion[:3, :3] = se3.rotation_from_axis_angle(pivot / np.linalg.norm(pivot) * np.radians(turn))
    motion[:3, 3] = pivot + np.append(shift / focal * z_m, 0.0) - motion[:3, :3] @ pivot
    return np.asarray(camera_pose @ motion @ se3.inverse(camera_pose) @ prediction.world_from_object)


def _turned(mask: Bool[np.ndarray, "h w"], middle_xy: np.ndarray, turn_deg: float) -> Bool[np.ndarray, "h w"]:
    """The mask turned in the picture about a point, clockwise as seen (x towards y)."""
    import cv2

    if turn_deg == 0.0:
        return mask
    matrix = cv2.getRotationMatrix2D((float(middle_xy[0]), float(middle_xy[1])), -turn_deg, 1.0)
    size = mask.shape[1], mask.shape[0]
    return np.asarray(cv2.warpAffine(mask.astype(np.uint8), matrix, size, flags=cv2.INTER_NEAREST) > 0)


def _best_shift(
    mask: Bool[np.ndarray, "h w"], likely: Float32[np.ndarray, "h w"], reach: int
) -> tuple[float, Float[np.ndarray, "2"]]:
    """The shift (x, y in pixels, at most ``reach``) under which the outline fits best, and how well it fits."""
    import cv2

    v, u = np.nonzero(mask)
    if len(v) < 12:
        return -np.inf, np.zeros(2)
    rim = 4
    v0, v1, u0, u1 = v.min() - rim, v.max() + rim + 1, u.min() - rim, u.max() + rim + 1
    pad = reach + rim
    outline = np.pad(mask, pad)[v0 + pad : v1 + pad, u0 + pad : u1 + pad].astype(np.uint8)
    around = cv2.dilate(outline, np.ones((2 * rim - 1, 2 * rim - 1), np.uint8)) - outline
    template = outline.astype(np.float32) - np.float32(0.7) * around
    window = np.pad(likely, pad + reach)[v0 + pad : v1 + pad + 2 * reach, u0 + pad : u1 + pad + 2 * reach]
    fit = cv2.matchTemplate(np.ascontiguousarray(window, np.float32), template, cv2.TM_CCORR)
    dv, du = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    fit = fit - 0.1 * len(v) * (dv**2 + du**2) / reach**2
    best = np.unravel_index(int(np.argmax(fit)), fit.shape)
    return float(fit[best]), np.array([du[best], dv[best]], np.float64)
