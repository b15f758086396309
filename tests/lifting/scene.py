"""A kitchen of boxes, ray-cast with numpy: exact depth, masks and truth for the tests of lifting.

The slab test of one ray and one box is ten lines; everything that the tests compare with follows from it and from
the paths written down here, not from the code under test.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from geo.boxes import Box3
from geo.cameras import PinholeCamera
from geo.recording import CanonicalRecording, HandTrack, SensorDepth
from geo.world import Gravity, World
from recon.records import RenderedView
from tracking.records import MaskState, MaskTrack, TrackSet, encode_rle

KNOWN = World(metric=True, gravity=Gravity.KNOWN)
RATE_HZ = 10


def yaw(degrees: float) -> np.ndarray:
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]])


@dataclass
class Thing:
    """A solid box whose centre and yaw are functions of the frame."""

    object_id: int
    label: str
    extent_m: tuple[float, float, float]
    center: Callable[[int], tuple[float, float, float]]
    yaw_deg: Callable[[int], float] = lambda _: 0.0
    tracked: bool = True

    def box(self, frame: int) -> Box3:
        return Box3(np.array(self.center(frame), float), np.array(self.extent_m, float), yaw(self.yaw_deg(frame)))


def look_at(eye, target) -> np.ndarray:
    """world_from_camera with +z towards the target and +y as far down as can be."""
    eye, target = np.asarray(eye, float), np.asarray(target, float)
    z = (target - eye) / np.linalg.norm(target - eye)
    x = np.cross(z, [0, 0, 1.0])
    x /= np.linalg.norm(x)
    pose = np.eye(4)
    pose[:3, :3] = np.stack([x, np.cross(z, x), z], axis=1)
    pose[:3, 3] = eye
    return pose


def hit_depth(box: Box3, origin: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Distance along each direction to the box (slab test), inf where it is missed."""
    o = (origin - box.center_in_world) @ box.world_from_box_rotation
    d = directions @ box.world_from_box_rotation
    d = np.where(np.abs(d) < 1e-12, 1e-12, d)
    a, b = (-box.extent_m / 2 - o) / d, (box.extent_m / 2 - o) / d
    enter, leave = np.minimum(a, b).max(axis=-1), np.maximum(a, b).min(axis=-1)
    return np.where((enter <= leave) & (leave > 0) & (enter > 0), enter, np.inf)


@dataclass
class Scene:
    """Things on a table over a floor, seen from a moving camera. Implements what lifting asks of SceneDepth."""

    things: list[Thing]
    frames: int
    eye: Callable[[int], tuple[float, float, float]]
    target: Callable[[int], tuple[float, float, float]]
    size_px: int = 200
    focal_px: float = 140.0
    noise: float = 1.0
    holes: float = 0.1
    pose_noise: float = 1.0
    table_height_m: float = 0.8
    hands: Callable[[int], np.ndarray] | None = None
    world: World = KNOWN
    seed: int = 0
    hidden: Callable[[int, int], bool] = lambda frame, object_id: False
    blockers: tuple[Thing, ...] = ()  # in the depth, never tracked
    scale: float = 1.0

    def __post_init__(self) -> None:
        middle = (self.size_px - 1) / 2
        self.camera = PinholeCamera(self.size_px, self.size_px, self.focal_px, self.focal_px, middle, middle)
        self.furniture = [
            Box3(np.array([0, 0, self.table_height_m - 0.02]), np.array([1.6, 1.0, 0.04]), np.eye(3)),
            Box3(np.array([0, 0, -0.05]), np.array([8.0, 8.0, 0.1]), np.eye(3)),
        ]
        rng = np.random.default_rng(self.seed)
        self.true_poses = np.stack([look_at(self.eye(f), self.target(f)) for f in range(self.frames)])
        self.poses = self.true_poses.copy()
        for pose in self.poses:
            turn = np.radians(0.1) * self.pose_noise * rng.normal(size=3)
            angle = np.linalg.norm(turn) + 1e-15
            k = np.array([[0, -turn[2], turn[1]], [turn[2], 0, -turn[0]], [-turn[1], turn[0], 0]]) / angle
            pose[:3, :3] = pose[:3, :3] @ (np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k)
            pose[:3, 3] += 0.002 * self.pose_noise * rng.normal(size=3)
        self.poses[:, :3, 3] *= self.scale
        self._cache: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.static_calls = 0

    def cast(self, frame: int) -> tuple[np.ndarray, np.ndarray]:
        """True z-depth and the id in each pixel (0: furniture)."""
        if frame not in self._cache:
            pose = self.true_poses[frame]
            rays = self.camera.normalised_points(self.camera.pixel_grid()) @ pose[:3, :3].T
            solids = [(0, box) for box in self.furniture]
            solids += [(t.object_id, t.box(frame)) for t in [*self.things, *self.blockers]]
            depth = np.stack([hit_depth(box, pose[:3, 3], rays) for _, box in solids])
            nearest = depth.argmin(axis=0)
            z = depth.min(axis=0)
            ids = np.array([i for i, _ in solids])[nearest]
            self._cache[frame] = np.where(np.isfinite(z), z, np.nan), np.where(np.isfinite(z), ids, 0)
        return self._cache[frame]

    def sensor(self, frame: int) -> np.ndarray:
        z, _ = self.cast(frame)
        rng = np.random.default_rng([self.seed, frame])
        sigma = 0.003 + 0.004 * np.maximum(0, z - 0.4) ** 2
        noisy = z + self.noise * sigma * rng.normal(size=z.shape)
        noisy[rng.random(z.shape) < self.holes] = np.nan
        return (noisy * self.scale).astype(np.float32)

    def static(self, frame: int) -> RenderedView:
        self.static_calls += 1
        z = (self.cast(frame)[0] * self.scale).astype(np.float32)
        return RenderedView(
            np.zeros((*z.shape, 3), np.float32), np.ones_like(z), z, z, np.full_like(z, 0.01 * self.scale)
        )

    def canonical(self, with_sensor: bool = True) -> CanonicalRecording:
        stamps = np.arange(self.frames, dtype=np.int64) * (1_000_000_000 // RATE_HZ) + 5_000_000_000
        sensor = SensorDepth(self.camera, stamps, self.poses, _Nothing(self.frames)) if with_sensor else None
        hands = ()
        if self.hands is not None:
            joints = np.stack([self.hands(f) for f in range(self.frames)])
            hands = (HandTrack("right", stamps, joints, np.ones(self.frames)),)
        return CanonicalRecording(
            recording_id="boxes",
            camera=self.camera,
            timestamps_ns=stamps,
            world_from_camera=self.poses,
            valid_mask=np.ones((self.size_px, self.size_px), bool),
            frames=_Nothing(self.frames),
            world=self.world,
            source_camera=self.camera,
            canonical_from_source=np.eye(3),
            sensor=sensor,
            hands=hands,
        )

    def tracks(self) -> TrackSet:
        stamps = self.canonical().timestamps_ns
        made = []
        for thing in self.things:
            if not thing.tracked:
                continue
            masks, states = [], []
            for frame in range(self.frames):
                mask = self.cast(frame)[1] == thing.object_id
                visible = mask.sum() >= 6 and not self.hidden(frame, thing.object_id)
                masks.append(encode_rle(mask) if visible else None)
                states.append(MaskState.VISIBLE if visible else MaskState.ABSENT)
            scores = np.where(np.array(states) == MaskState.VISIBLE, 1.0, np.nan)
            made.append(MaskTrack(thing.object_id, thing.label, tuple(masks), np.array(states, np.int64), scores))
        return TrackSet((self.size_px, self.size_px), stamps, tuple(made), (), "truth")


class _Nothing:
    """Pictures and raw depth that lifting must not ask for."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def read(self, index: int) -> np.ndarray:
        raise AssertionError("lifting read a picture")


def path(*knots: tuple[int, tuple[float, float, float]]) -> Callable[[int], tuple[float, float, float]]:
    """Straight lines with smooth starts and stops between (frame, point) knots; still before and after."""

    def at(frame: int) -> tuple[float, float, float]:
        if frame <= knots[0][0]:
            return knots[0][1]
        for (f0, p0), (f1, p1) in pairwise(knots):
            if frame <= f1:
                s = (frame - f0) / (f1 - f0)
                s = s * s * (3 - 2 * s)
                return tuple((1 - s) * np.array(p0) + s * np.array(p1))
        return knots[-1][1]

    return at


def still(x: float, y: float, z: float) -> Callable[[int], tuple[float, float, float]]:
    return lambda _: (x, y, z)
