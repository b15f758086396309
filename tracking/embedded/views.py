"""Views of a place while nothing there moves, and the one cloud of voxels that they add up to."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64

from geo import se3
from tracking.embedded.frames import FrameStore, colour_features
from tracking.embedded.motion import hands_at
from tracking.embedded.plane import sensor_sigma_m
from tracking.embedded.predict import tolerance_m

REACH_M = 0.32  # m, radius of the ball around the place that is looked at
VOXEL_M = 0.005  # m, side of a fused voxel
_COARSE_VOXELS = 4  # voxels per side of the cells that two views compare their brightness in
_STRIDE = 2  # frames between one view and the next
_FAR_FRAMES = 60  # frames, the furthest view before and after
_NEAR_M = 0.025  # m, how near to the place the first view's points are that the others must show again
_HAND_M = 0.06  # m, points this near to a joint of a known hand are left out
_MIN_FRONT_M = 0.15  # m, a place nearer before the camera than this is not looked at
_MIN_POINTS = 30  # points, a view with fewer near the place says nothing
_MIN_REFERENCE = 8  # points, fewer at the place do not tell later whether it has changed
_MIN_SHARED_CELLS = 20  # coarse cells, fewer seen by two views do not tell their difference in brightness
_MAX_AGAINST = 2  # views in a row that show a change end a direction in time
_CHANGED_SHARE = 0.4  # of the reference's points looked through: what was there has gone
_SAME_COLOUR = np.array([0.3, 0.12, 0.12])  # colour features, largest median change of what stayed
_REFERENCE_HUE = 0.25  # hue features, points of the first view that are less unlike the prompt's pixel are its thing
_MIN_HITS = 2  # views that must have seen a voxel
_GRID = 1 << 20  # cells along one axis of a key


@dataclass(frozen=True)
class View:
    """One frame's depth near a place."""

    frame: int
    points_in_world: Float32[np.ndarray, "P 3"]
    features: Float32[np.ndarray, "P 3"]
    gain: float = 0.0  # log brightness over the first view, already taken out of the features

    def levelled(self, first: "dict[int, float]") -> "View":
        """The same in the brightness of the first view, by the places that both see."""
        steps = [
            bright - first[key]
            for key, bright in zip(self._coarse_keys().tolist(), self.features[:, 0].tolist(), strict=True)
            if key in first
        ]
        gain = float(np.median(steps)) if len(steps) >= _MIN_SHARED_CELLS else 0.0
        return View(self.frame, self.points_in_world, self.features - np.array([gain, 0, 0], np.float32), gain)

    def brightness(self) -> "dict[int, float]":
        """Mean log brightness per coarse cell."""
        unique, inverse = np.unique(self._coarse_keys(), return_inverse=True)
        mean = np.bincount(inverse.ravel(), self.features[:, 0]) / np.bincount(inverse.ravel())
        return dict(zip(unique.tolist(), mean.tolist(), strict=True))

    def _coarse_keys(self) -> Int64[np.ndarray, "P"]:
        return _keys(np.floor(self.points_in_world / (_COARSE_VOXELS * VOXEL_M)).astype(np.int64))


@dataclass(frozen=True)
class Voxels:
    """Fused surface: mean place and colour per voxel."""

    points_in_world: Float32[np.ndarray, "V 3"]
    features: Float32[np.ndarray, "V 3"]


def frames_around(store: FrameStore, frame: int, reach: int) -> list[int]:
    """The frame itself, then every second one up to ``reach`` frames away, after and before in turn."""
    count = len(store.canonical.timestamps_ns)
    order = [frame + sign * step for step in range(_STRIDE, reach + 1, _STRIDE) for sign in (1, -1)]
    return [other for other in (frame, *order) if 0 <= other < count]


def against_sensor(
    store: FrameStore, frame: int, points_in_world: Float[np.ndarray, "P 3"]
) -> tuple[Float[np.ndarray, "P"], Float[np.ndarray, "P"]] | None:
    """Sensor minus expected depth per point (m, NaN where unknown) and the tolerance; None without depth or pose."""
    pose, sensor = store.pose(frame), store.sensor(frame)
    if pose is None or sensor is None or store.scene_depth is None:
        return None
    camera = store.scene_depth.camera
    local = (points_in_world - pose[:3, 3]) @ pose[:3, :3]
    z_m = np.where(local[:, 2] > 0.05, local[:, 2], np.nan)
    with np.errstate(invalid="ignore"):
        u = np.rint(local[:, 0] / z_m * camera.fx_px + camera.cx_px)
        v = np.rint(local[:, 1] / z_m * camera.fy_px + camera.cy_px)
        inside = (u >= 0) & (v >= 0) & (u < camera.width_px) & (v < camera.height_px)
    out = np.full(len(local), np.nan)
    out[inside] = sensor[v[inside].astype(int), u[inside].astype(int)] - z_m[inside]
    return out, tolerance_m(np.where(np.isfinite(z_m), z_m, 1.0))


def still_views(
    store: FrameStore,
    frame: int,
    place_in_world: Float[np.ndarray, "3"],
    colour: Float32[np.ndarray, "3"],
    max_views: int,
) -> list[View]:
    """Views of the place, outward from the frame in both directions, until what is there has gone."""
    out: list[View] = []
    reference: View | None = None
    first: dict[int, float] = {}
    against = {1: 0, -1: 0}
    for other in frames_around(store, frame, _FAR_FRAMES):
        side = 1 if other >= frame else -1
        if against[side] >= _MAX_AGAINST or len(out) >= max_views:
            continue
        view = _view(store, other, place_in_world)
        if view is None:
            continue
        if reference is None:
            close = np.linalg.norm(view.points_in_world - place_in_world, axis=-1) < _NEAR_M
            alike = close & (np.abs(view.features - colour)[:, 1:] < _REFERENCE_HUE).all(-1)
            if alike.sum() >= _MIN_REFERENCE:
                reference, first = View(other, view.points_in_world[alike], view.features[alike]), view.brightness()
                out.append(view)
            elif close.sum() >= _MIN_REFERENCE:
                against[side] += 1
            continue
        view = view.levelled(first)
        same = _same_there(store, view, reference)
        against[side] = against[side] + 1 if same is False else 0
        if same:
            out.append(view)
    return out


def fused(store: FrameStore, views: list[View], range_m: float) -> Voxels:
    """Voxel means of place and colour; ``range_m`` is how far away the cameras were.

    Dropped are voxels that more frames look through than see, and those that lie beside the mean of what is seen
    there (noise scatters points to both sides of a surface).
    """
    points = np.concatenate([view.points_in_world for view in views])
    features = np.concatenate([view.features for view in views])
    _, inverse = np.unique(_keys(np.floor(points / VOXEL_M).astype(np.int64)), return_inverse=True)
    inverse = inverse.ravel()
    count = np.bincount(inverse).astype(np.float64)
    place = np.stack([np.bincount(inverse, points[:, i]) / count for i in range(3)], axis=-1)
    colour = np.stack([np.bincount(inverse, features[:, i]) / count for i in range(3)], axis=-1)
    hit, through, bias = np.zeros(len(place)), np.zeros(len(place)), np.zeros(len(place))
    for view in views:
        seen = against_sensor(store, view.frame, place)
        assert seen is not None
        near = np.abs(seen[0]) <= seen[1]
        hit, through = hit + near, through + (seen[0] > seen[1])
        bias += np.where(near, seen[0], 0.0)
    limit = 0.004 + 0.5 * sensor_sigma_m(range_m)
    keep = (hit >= _MIN_HITS) & (hit > through) & (np.abs(bias) <= limit * np.maximum(hit, 1))
    return Voxels(place[keep].astype(np.float32), colour[keep].astype(np.float32))


def _view(store: FrameStore, frame: int, place: Float[np.ndarray, "3"]) -> View | None:
    """Sensor points within reach of the place, without those near a known hand; None if there are hardly any."""
    pose, sensor = store.pose(frame), store.sensor(frame)
    if pose is None or sensor is None or store.scene_depth is None:
        return None
    camera = store.scene_depth.camera
    x, y, z = (place - pose[:3, 3]) @ pose[:3, :3]
    if z < _MIN_FRONT_M:
        return None
    u, v, half = x / z * camera.fx_px + camera.cx_px, y / z * camera.fy_px + camera.cy_px, REACH_M * camera.fx_px / z
    u0, u1 = max(0, int(u - half)), min(camera.width_px, int(u + half) + 1)
    v0, v1 = max(0, int(v - half)), min(camera.height_px, int(v + half) + 1)
    if u1 - u0 < 3 or v1 - v0 < 3:
        return None
    part = sensor[v0:v1, u0:u1]
    rows, cols = np.nonzero(np.isfinite(part))
    across, down = (cols + u0 - camera.cx_px) / camera.fx_px, (rows + v0 - camera.cy_px) / camera.fy_px
    rays = np.stack([across, down, np.ones(len(rows))], axis=-1)
    points = (rays * part[rows, cols][:, None]) @ pose[:3, :3].T + pose[:3, 3]
    near = _off_hands(store, frame, points, np.linalg.norm(points - place, axis=-1) < REACH_M)
    if near.sum() < _MIN_POINTS:
        return None
    full = store.canonical.camera
    at = np.rint(rays[near, :2] * [full.fx_px, full.fy_px] + [full.cx_px, full.cy_px]).astype(int)
    at = at.clip(0, [full.width_px - 1, full.height_px - 1])
    return View(frame, points[near].astype(np.float32), colour_features(store.rgb(frame)[at[:, 1], at[:, 0]]))


def _off_hands(
    store: FrameStore, frame: int, points_in_world: Float[np.ndarray, "P 3"], near: Bool[np.ndarray, "P"]
) -> Bool[np.ndarray, "P"]:
    """``near`` without the points that may be a known hand's."""
    near = near.copy()
    for joints in hands_at(store, frame):
        known = joints[np.isfinite(joints).all(-1)]
        if len(known) and near.any():
            gap = np.linalg.norm(points_in_world[near, None] - known[None, ::2], axis=-1).min(-1)
            near[np.flatnonzero(near)[gap < _HAND_M]] = False
    return near


def _same_there(store: FrameStore, view: View, reference: View) -> bool | None:
    """True if depth and colour near the place are as in the reference, False if not, None if they are not seen."""
    place = reference.points_in_world.astype(np.float64)
    seen = against_sensor(store, view.frame, place)
    pose = store.pose(view.frame)
    assert seen is not None and pose is not None
    residual, limit = seen
    hit, through = np.abs(residual) <= limit, residual > limit
    if hit.sum() + through.sum() < max(6, 0.3 * len(place)):
        return None
    if through.sum() > _CHANGED_SHARE * (hit.sum() + through.sum()):
        return False
    projection = store.canonical.camera.project(se3.transform_points(se3.inverse(pose), place[hit]))
    at = np.rint(projection.pixels_xy).astype(int).clip(0, np.array(store.image_wh) - 1)
    delta = colour_features(store.rgb(view.frame)[at[:, 1], at[:, 0]]) - reference.features[hit]
    delta[:, 0] -= np.float32(view.gain)
    return bool((np.abs(np.median(delta, axis=0)) < _SAME_COLOUR).all())


def _keys(cells: Int64[np.ndarray, "P D"]) -> Int64[np.ndarray, "P"]:
    out = np.zeros(len(cells), np.int64)
    for column in cells.T:
        out = out * _GRID + (column + _GRID // 2)
    return out
