"""Renders one frame after another: picture, sensor depth, and what is exactly true in the canonical view."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64, UInt8, UInt16

from egospatial.simulator.hand import ArmShape, arm_capsules, capsule_body, hand_capsules
from egospatial.simulator.materials import Material, Pattern, srgb
from egospatial.simulator.picture import SHUTTER_S, Darkroom, image_motion
from egospatial.simulator.presets import Preset
from egospatial.simulator.raycast import (
    NOTHING,
    SURFACE,
    Bodies,
    BodyModel,
    BodySet,
    Hits,
    cast,
    instance_ids_of,
    rays_in,
)
from egospatial.simulator.script import Scene
from egospatial.simulator.sensor_noise import exact_depth_mm, noisy_depth_mm
from egospatial.simulator.shading import shade
from egospatial.simulator.timeline import Moment, Timeline
from egospatial.simulator.truth import ARM_ID, HAND_ID
from egospatial.simulator.views import View, Views

_PICTURE_STREAM, _DEPTH_STREAM = 11, 12  # of the frame's random numbers


@dataclass(frozen=True)
class Sighting:
    """What can be said of one object in one canonical frame."""

    visible_pixels: int
    in_view_pixels: int  # that it would cover if nothing hid it
    inner_xy_px: tuple[float, float]  # the pixel of its mask that lies deepest inside
    inner_depth_px: float  # how far that pixel is from the mask's border


@dataclass(frozen=True)
class Frame:
    """One rendered frame."""

    picture: UInt8[np.ndarray, "H W 3"]
    sensor_mm: UInt16[np.ndarray, "h w"]
    instance_ids: UInt8[np.ndarray, "C C"]
    depth_ids: UInt8[np.ndarray, "d d"]
    z_depth_m: Float32[np.ndarray, "d d"]
    static_z_depth_m: Float32[np.ndarray, "d d"]
    sightings: tuple[Sighting, ...]
    moment: Moment


class FrameMaker:
    """Everything that stays the same from frame to frame."""

    def __init__(self, scene: Scene, timeline: Timeline, preset: Preset, views: Views, seed: int) -> None:
        self.scene, self.timeline, self.preset, self.views, self.seed = scene, timeline, preset, views, seed
        room = BodyModel(scene.room.mesh, scene.room.materials, 0)
        objects = [BodyModel(spec.mesh, spec.materials, k + 1) for k, spec in enumerate(scene.specs)]
        hand, arm = _hand_model(timeline.at(0.0).arm, seed)
        self.bodies = BodySet([room, *objects, hand, arm])
        still = [k for k in range(len(objects)) if not timeline.holds[k]]
        at_rest = np.stack([np.eye(4), *(timeline.rests[k][0].world_from_object for k in still)])
        self.static_scene = BodySet([room, *(objects[k] for k in still)]).at(at_rest).scene
        self.alone = [BodySet([model]).at(np.eye(4)[None]).scene for model in objects]
        self.moving_ids = np.array([k + 1 for k in range(len(objects)) if timeline.holds[k]] + [HAND_ID, ARM_ID])
        self.darkroom = Darkroom(views.fisheye, preset.exact, np.random.default_rng([seed, 3]))

    def frame(self, index: int) -> Frame:
        """Render a frame of the reference camera."""
        time_s = index / self.preset.rate_hz
        moment = self.timeline.at(time_s)
        bodies = self.bodies_at(moment)
        ids = self._canonical_ids(moment, bodies)
        depth_ids, z_depth, static_z = self._true_depth(moment, bodies)
        return Frame(
            self._picture(index, time_s, moment, bodies),
            self._sensor(index, moment, bodies),
            ids,
            depth_ids,
            z_depth,
            static_z,
            tuple(self._sighting(k, moment, ids) for k in range(len(self.scene.specs))),
            moment,
        )

    def _poses(self, moment: Moment) -> Float[np.ndarray, "G 4 4"]:
        """Poses by geometry id: room, objects, hand, arm."""
        hand, arm = moment.hand.world_from_hand, _arm_pose(moment.arm)
        return np.concatenate([np.eye(4)[None], moment.world_from_object, hand[None], arm[None]])

    def bodies_at(self, moment: Moment) -> Bodies:
        """Everything as it stands at a moment."""
        count = len(self.scene.specs)
        soft = {
            count + 1: capsule_body(hand_capsules(moment.arm.joints_in_world)),
            count + 2: capsule_body(arm_capsules(moment.arm), sides=18),
        }
        return self.bodies.at(self._poses(moment), soft)

    def _picture(self, index: int, time_s: float, moment: Moment, bodies: Bodies) -> UInt8[np.ndarray, "H W 3"]:
        view = self.views.fisheye
        rays = rays_in(moment.world_from_head, view.directions)
        hits = cast(bodies.scene, rays, SURFACE)
        light = shade(rays, hits, bodies, self.scene.room.lights, 1.0 / self.preset.fisheye_focal_px_per_rad)
        motion = None
        if not self.preset.exact:
            ends = tuple(
                (end.world_from_head, self._poses(end))
                for end in (self.timeline.at(time_s + half) for half in (-SHUTTER_S / 2, SHUTTER_S / 2))
            )
            motion = image_motion(view, rays, hits, bodies, (ends[0], ends[1]))
        rng = np.random.default_rng([self.seed, _PICTURE_STREAM, index])
        return self.darkroom.develop(light, motion, time_s, rng)

    def _sensor(self, index: int, moment: Moment, bodies: Bodies) -> UInt16[np.ndarray, "h w"]:
        view = self.views.sensor
        hits, rays, z_depth = _z_depth(view, moment, bodies, ("t_hit", "primitive_normals"))
        if self.preset.exact:
            return exact_depth_mm(z_depth)
        facing = np.abs((rays[:, 3:] * hits["primitive_normals"]).sum(axis=1)).reshape(z_depth.shape)
        rng = np.random.default_rng([self.seed, _DEPTH_STREAM, index])
        return noisy_depth_mm(z_depth, facing, self.preset.depth_focal_px, rng)

    def _canonical_ids(self, moment: Moment, bodies: Bodies) -> UInt8[np.ndarray, "C C"]:
        view = self.views.canonical
        world_from_camera = moment.world_from_head @ view.head_from_camera
        worth = np.flatnonzero(self._where_bodies_can_be(moment))
        hits = cast(bodies.scene, rays_in(world_from_camera, view.directions[worth]))
        ids = np.zeros(view.seen.size, dtype=np.uint8)
        ids[worth] = instance_ids_of(hits, bodies)
        return ids.reshape(view.seen.shape)

    def _where_bodies_can_be(self, moment: Moment) -> Bool[np.ndarray, "C C"]:
        """Canonical pixels inside the bounds of an object or of a piece of the arm; the rest shows the room."""
        view = self.views.canonical
        mask = np.zeros(view.seen.shape, dtype=bool)
        bounds = [(pose, spec.extent_m) for pose, spec in zip(moment.world_from_object, self.scene.specs, strict=True)]
        capsules = hand_capsules(moment.arm.joints_in_world) + arm_capsules(moment.arm)
        for start, end, radius_a, radius_b in capsules:
            pieces = max(1, round(float(np.linalg.norm(end - start)) / 0.06))
            size = np.linalg.norm(end - start) / pieces + 2 * max(radius_a, radius_b)
            for piece in range(pieces):
                pose = np.eye(4)
                pose[:3, 3] = start + (piece + 0.5) / pieces * (end - start)
                bounds.append((pose, np.full(3, size)))
        for pose, extent_m in bounds:
            window = _window(view, moment, pose, extent_m)
            if window is not None:
                mask[window] = True
        return mask

    def _true_depth(self, moment: Moment, bodies: Bodies) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ids, depth, and depth without what moves (cast again only where something that moves is in front)."""
        view = self.views.canonical_depth
        hits, rays, z_depth = _z_depth(view, moment, bodies, ("t_hit", "geometry_ids"))
        ids = instance_ids_of(hits, bodies).reshape(view.seen.shape)
        static = z_depth.copy()
        covered = np.flatnonzero(np.isin(ids, self.moving_ids))
        if len(covered):
            behind = cast(self.static_scene, rays[covered], ("t_hit",))
            static.ravel()[covered] = behind["t_hit"] * view.directions[covered, 2]
        return ids, z_depth, static

    def _sighting(self, index: int, moment: Moment, ids: np.ndarray) -> Sighting:
        window = _window(
            self.views.canonical, moment, moment.world_from_object[index], self.scene.specs[index].extent_m
        )
        if window is None:
            return Sighting(0, 0, (np.nan, np.nan), 0.0)
        rows, cols = window
        visible, depth, inner = _deepest(ids[rows, cols] == index + 1)
        x, y = (inner[0] + cols.start, inner[1] + rows.start) if visible else (np.nan, np.nan)
        return Sighting(visible, max(visible, self._uncovered(index, moment, rows, cols)), (x, y), depth)

    def _uncovered(self, index: int, moment: Moment, rows: slice, cols: slice) -> int:
        """Pixels that the object would cover without anything in front."""
        view = self.views.canonical
        object_from_camera = np.linalg.inv(moment.world_from_object[index]) @ (
            moment.world_from_head @ view.head_from_camera
        )
        height, width = view.seen.shape
        rays = view.directions.reshape(height, width, 3)[rows, cols].reshape(-1, 3)
        hits = cast(self.alone[index], rays_in(object_from_camera, rays))
        return int((hits["geometry_ids"] != NOTHING).sum())


def _z_depth(
    view: View, moment: Moment, bodies: Bodies, wanted: tuple[str, ...]
) -> tuple[Hits, np.ndarray, np.ndarray]:
    """Hits, rays in world and depth along the view's axis (inf where nothing is hit)."""
    rays = rays_in(moment.world_from_head @ view.head_from_camera, view.directions)
    hits = cast(bodies.scene, rays, wanted)
    return hits, rays, (hits["t_hit"] * view.directions[:, 2]).reshape(view.seen.shape)


def _window(
    view: View, moment: Moment, world_from_object: np.ndarray, extent_m: np.ndarray
) -> tuple[slice, slice] | None:
    """Rows and columns that the object's box can cover; None if it is out of view."""
    corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)]) * extent_m
    camera_from_object = np.linalg.inv(moment.world_from_head @ view.head_from_camera) @ world_from_object
    points = corners @ camera_from_object[:3, :3].T + camera_from_object[:3, 3]
    height, width = view.seen.shape
    if points[:, 2].max() < 0.02 or _beside(camera_from_object[:3, 3], float(np.linalg.norm(extent_m)) / 2):
        return None
    if points[:, 2].min() < 0.02:
        return slice(0, height), slice(0, width)
    pixels = view.camera.project(points).pixels_xy
    low = np.floor(pixels.min(axis=0)).astype(int) - 1
    high = np.ceil(pixels.max(axis=0)).astype(int) + 2
    rows = slice(max(0, int(low[1])), min(height, int(high[1])))
    cols = slice(max(0, int(low[0])), min(width, int(high[0])))
    return None if rows.start >= rows.stop or cols.start >= cols.stop else (rows, cols)


def _beside(center_in_camera: np.ndarray, radius_m: float) -> bool:
    """Whether a ball lies outside the cone of 65 degrees around the axis, which holds the canonical view."""
    distance = float(np.linalg.norm(center_in_camera))
    if distance <= radius_m:
        return False
    off_axis = np.arccos(np.clip(center_in_camera[2] / distance, -1.0, 1.0))
    return bool(off_axis - np.arcsin(radius_m / distance) > np.radians(65.0))


def _deepest(mask: np.ndarray) -> tuple[int, float, tuple[float, float]]:
    """Area of a mask, and the pixel farthest from its border with that distance."""
    import cv2

    area = int(mask.sum())
    if area == 0:
        return 0, 0.0, (np.nan, np.nan)
    distance = cv2.distanceTransform(np.pad(mask, 1).astype(np.uint8), cv2.DIST_L2, 5)
    row, col = np.unravel_index(int(np.argmax(distance)), distance.shape)
    return area, float(distance[row, col]), (float(col - 1), float(row - 1))


def _hand_model(shape: ArmShape, seed: int) -> tuple[BodyModel, BodyModel]:
    skin = Material(Pattern.MOTTLED, (srgb("c99a7c"),), grain=0.12, grain_scale_m=0.02, seed=seed + 5)
    sleeve = Material(Pattern.STRIPES, (srgb("46546b"), srgb("5f6f88")), 0.022, 0.2, 0.02, seed=seed + 6)
    hand = capsule_body(hand_capsules(shape.joints_in_world))
    arm = capsule_body(arm_capsules(shape), sides=18)
    return BodyModel(hand.mesh, (skin,), HAND_ID), BodyModel(arm.mesh, (sleeve,), ARM_ID)


def _arm_pose(shape: ArmShape) -> Float[np.ndarray, "4 4"]:
    """Frame of the forearm: origin at the wrist, z towards the elbow."""
    z = shape.elbow_in_world - shape.joints_in_world[0]
    z = z / np.linalg.norm(z)
    x = np.cross(z, [0.0, 0.0, 1.0])
    x = x / max(float(np.linalg.norm(x)), 1e-9)
    pose = np.eye(4)
    pose[:3, :3] = np.stack([x, np.cross(z, x), z], axis=1)
    pose[:3, 3] = shape.joints_in_world[0]
    return pose


def sighting_table(frames: list[tuple[Sighting, ...]]) -> tuple[Int64[np.ndarray, "N O"], Int64[np.ndarray, "N O"]]:
    """Visible and in-view pixels by frame and object."""
    visible = np.array([[item.visible_pixels for item in row] for row in frames], dtype=np.int64)
    in_view = np.array([[item.in_view_pixels for item in row] for row in frames], dtype=np.int64)
    return visible, in_view
