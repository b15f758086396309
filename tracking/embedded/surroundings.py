"""What stands around a point, fused from many frames while nothing there moves, and where it ends on its support.

One depth image is noisy, has holes and sees one side; the same place seen from two dozen frames gives the support to
about a millimetre, and with it the footprint of what stands on it, whatever is printed on the thing. The frames are
gathered in ``views``, the outline is found in ``footprint``.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32

from geo import se3
from tracking.embedded.footprint import Footprint, Site, footprint_on, support_under
from tracking.embedded.frames import FrameStore, colour_features
from tracking.embedded.plane import Plane
from tracking.embedded.views import REACH_M, VOXEL_M, View, against_sensor, frames_around, fused, still_views

_MIN_VIEWS = 4  # views, fewer are no better than the point's own frame
_MAX_SIGMA_M = 0.006  # m, noise of one depth pixel beyond which a gap between two things is not seen
_MIN_VOXELS = 50  # voxels, fewer show neither a support nor a thing
_INNER_REACH_M = 0.12  # m, the reach in which an open container's floor is sought
_SAME_PLANE_M = 0.003  # m, two supports this near to each other at the place are one
_MIN_AREA_M2 = 2e-4  # m^2, no thing on a container's floor is smaller than this
_PART_SHARE = 0.5  # a thing on a container's floor covers less than this share of the container
_FLAT_M = 0.008  # m, a thing lower than this is flat for any sensor
_ALIKE_HUE = 0.3  # hue features, pixels less unlike than this may show the same surface
_ALIKE_COLOUR = 0.25  # sum over colour features, pixels of a patch less unlike than this are on the point's side
_SWEEP_M = np.geomspace(0.25, 3.5, 260)  # m, depths along a ray that are tried where the sensor is blind
_SWEEP_FRAMES = 20  # frames before and after that are asked about them
_MIN_SWEEP_HITS = 3  # frames that must confirm a depth


@dataclass(frozen=True)
class Surroundings:
    """Fused surface around a point: voxels with colour, and which of them belong to the thing at the point."""

    points_in_world: Float32[np.ndarray, "V 3"]
    features: Float32[np.ndarray, "V 3"]
    is_object: Bool[np.ndarray, "V"]
    plane: Plane
    seen_from_in_world: Float[np.ndarray, "N 3"]  # camera places of the frames that were fused
    flat: bool  # so low that one depth image cannot part it from its support
    voxel_m: float = VOXEL_M


def place_of_point(store: FrameStore, frame: int, point_xy_px: Float[np.ndarray, "2"]) -> Float[np.ndarray, "3"]:
    """Where a pixel's surface lies in world: by its own frame's sensor, else by frames near it; NaN if unknown.

    Without depth in its own frame the ray is swept: the nearest depth that at least three of the frames up to 20 away
    confirm, and more confirm than look through.
    """
    unknown = np.full(3, np.nan)
    pose, depth = store.pose(frame), store.scene_depth
    if pose is None or depth is None:
        return unknown
    point = np.asarray(point_xy_px, np.float64)
    ray = store.canonical.camera.normalised_points(point)
    sensor = store.sensor(frame)
    if sensor is not None:
        z_m = _depth_of_alike(store, frame, sensor, point)
        if np.isfinite(z_m):
            return np.asarray(se3.transform_points(pose, ray * z_m))
    places = se3.transform_points(pose, ray * _SWEEP_M[:, None])
    hit, through = np.zeros(len(places)), np.zeros(len(places))
    colour = colour_at(store, frame, point)
    for other in frames_around(store, frame, _SWEEP_FRAMES):
        seen = against_sensor(store, other, places)
        if seen is not None:
            alike = _alike_in_hue(store, other, places, colour)
            hit, through = hit + ((np.abs(seen[0]) <= seen[1]) & alike), through + (seen[0] > seen[1])
    good = (hit >= _MIN_SWEEP_HITS) & (hit > 1.5 * through)
    return unknown if not good.any() else np.asarray(places[_middle_of_first_run(good)])


def colour_at(store: FrameStore, frame: int, point_xy_px: Float[np.ndarray, "2"]) -> Float32[np.ndarray, "3"]:
    """Colour features at a pixel, the median of 3 x 3."""
    x, y = np.rint(point_xy_px).astype(int).clip(1, np.array(store.image_wh) - 2)
    patch = colour_features(store.rgb(frame)[y - 1 : y + 2, x - 1 : x + 2])
    return np.asarray(np.median(patch.reshape(-1, 3), axis=0), np.float32)


def surroundings_of(
    store: FrameStore,
    frame: int,
    place_in_world: Float[np.ndarray, "3"],
    colour: Float32[np.ndarray, "3"],
    up_in_world: Float[np.ndarray, "3"] | None,
    max_object_m: float,
    max_views: int = 24,
) -> Surroundings | None:
    """Fuse what the frames around ``frame`` see near a place and part the thing there from its support.

    Frames count while depth near the place stays as it was; a direction in time ends where the sensor sees through it.
    None with fewer than four such frames, from so far away that the sensor's noise hides where two things part, without
    a support, or where nothing stands at the place.
    """
    views = still_views(store, frame, place_in_world, colour, max_views)
    if len(views) < _MIN_VIEWS:
        return None
    poses = [store.pose(view.frame) for view in views]
    cameras = np.stack([pose[:3, 3] for pose in poses if pose is not None])
    away = [float(np.linalg.norm(place_in_world - camera)) for camera in cameras]
    range_m = float(np.average(away, weights=[len(view.points_in_world) for view in views]))
    site = Site(place_in_world, cameras[int(np.argmin(away))], range_m, up_in_world, max_object_m)
    if site.sigma_m > _MAX_SIGMA_M:
        return None
    voxels = fused(store, views, site.range_m)
    points = voxels.points_in_world
    if len(points) < _MIN_VOXELS:
        return None
    found = _thing_at(points, views, site)
    if found is None:
        return None
    plane, footprint = found
    standing = points[footprint.belongs]
    top_m = float(np.percentile(plane.height_m(standing), 90)) if len(standing) else 0.0
    flat = top_m < max(_FLAT_M, 2.0 * site.sigma_m)
    return Surroundings(points, voxels.features, footprint.belongs, plane, cameras, flat)


def _thing_at(
    points_in_world: Float32[np.ndarray, "V 3"], views: list[View], site: Site
) -> tuple[Plane, Footprint] | None:
    """The thing on the table; or, where the place is in an open container, the smaller thing on its floor."""
    best: tuple[Plane, Footprint] | None = None
    for reach_m in (REACH_M, _INNER_REACH_M):
        plane = support_under(points_in_world, site, reach_m)
        if plane is None or (best is not None and _between_m(best[0], plane, site.place_in_world) < _SAME_PLANE_M):
            continue
        found = footprint_on(points_in_world, views, plane, site, reach_m)
        if found is not None and (best is None or _MIN_AREA_M2 < found.area_m2 < _PART_SHARE * best[1].area_m2):
            best = plane, found
    return best


def _between_m(a: Plane, b: Plane, place_in_world: Float[np.ndarray, "3"]) -> float:
    return abs(float(a.height_m(place_in_world) - b.height_m(place_in_world)))


def _alike_in_hue(
    store: FrameStore, frame: int, points_in_world: Float[np.ndarray, "P 3"], colour: Float32[np.ndarray, "3"]
) -> Bool[np.ndarray, "P"]:
    """Which points fall on pixels of about this hue; False outside the picture."""
    pose = store.pose(frame)
    assert pose is not None
    local = se3.transform_points(se3.inverse(pose), points_in_world)
    projection = store.canonical.camera.project(local)
    inside = projection.valid & store.canonical.camera.in_image(projection.pixels_xy)
    out = np.zeros(len(local), bool)
    at = np.rint(projection.pixels_xy[inside]).astype(int).clip(0, np.array(store.image_wh) - 1)
    delta = colour_features(store.rgb(frame)[at[:, 1], at[:, 0]]) - colour
    out[inside] = (np.abs(delta[:, 1:]) < _ALIKE_HUE).all(-1)
    return out


def _depth_of_alike(
    store: FrameStore, frame: int, sensor: Float32[np.ndarray, "h w"], point_xy_px: Float[np.ndarray, "2"]
) -> float:
    """Median depth of the sensor pixels around a point that look like it (a rim has two depths); NaN if too few."""
    assert store.scene_depth is not None
    camera, full = store.scene_depth.camera, store.canonical.camera
    ray = full.normalised_points(point_xy_px)
    u = round(float(ray[0] * camera.fx_px + camera.cx_px))
    v = round(float(ray[1] * camera.fy_px + camera.cy_px))
    rows, cols = np.mgrid[max(0, v - 2) : min(camera.height_px, v + 3), max(0, u - 2) : min(camera.width_px, u + 3)]
    z_m = sensor[rows, cols].ravel()
    if np.isfinite(z_m).sum() < 3:
        return float("nan")
    x = (cols.ravel() - camera.cx_px) / camera.fx_px * full.fx_px + full.cx_px
    y = (rows.ravel() - camera.cy_px) / camera.fy_px * full.fy_px + full.cy_px
    limit = np.array(store.image_wh) - 1
    at = np.rint(np.concatenate([np.stack([x, y], -1), point_xy_px[None]])).astype(int).clip(0, limit)
    colours = colour_features(store.rgb(frame)[at[:, 1], at[:, 0]])
    unlike = np.abs(colours[:-1] - colours[-1]).sum(-1)
    known = np.isfinite(z_m)
    alike = known & (unlike <= max(_ALIKE_COLOUR, float(np.sort(unlike[known])[2])))
    return float(np.median(z_m[alike]))


def _middle_of_first_run(good: Bool[np.ndarray, "K"]) -> int:
    start = int(np.argmax(good))
    end = start
    while end + 1 < len(good) and good[end + 1]:
        end += 1
    return (start + end) // 2
