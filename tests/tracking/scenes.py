"""A small ray-cast world with exact truth: a table, coloured boxes and balls, a hand, an orbiting camera.

World: metres, +z up, the table top is z = 0. One instance id per shape, 0 is the surroundings.
"""

from dataclasses import dataclass, field

import numpy as np

from geo.cameras import PinholeCamera
from geo.recording import CanonicalRecording, HandTrack
from geo.world import Gravity, World


@dataclass
class Shape:
    """A box (half sizes) or a ball (radius in ``half[0]``), where it is in each frame, and its two colours."""

    kind: str
    half: tuple[float, float, float]
    center: tuple[float, float, float]
    colour: tuple[int, int, int]
    colour2: tuple[int, int, int]
    yaw: float = 0.0
    path: dict[int, tuple[float, float, float]] = field(default_factory=dict)

    def center_at(self, frame: int) -> np.ndarray:
        if not self.path:
            return np.array(self.center, float)
        keys = sorted(self.path)
        points = np.array([self.path[k] for k in keys], float)
        return np.array([np.interp(frame, keys, points[:, i]) for i in range(3)])


def look_at(eye, target):
    forward = np.asarray(target, float) - eye
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, [0, 0, 1.0])
    right /= np.linalg.norm(right)
    down = np.cross(forward, right)
    pose = np.eye(4)
    pose[:3, :3] = np.stack([right, down, forward], axis=1)
    pose[:3, 3] = eye
    return pose


def _hit_box(origin, rays, half):
    with np.errstate(divide="ignore", invalid="ignore"):
        t0, t1 = (-half - origin) / rays, (half - origin) / rays
    near, far = np.minimum(t0, t1).max(-1), np.maximum(t0, t1).min(-1)
    return np.where((near <= far) & (near > 0), near, np.inf)


def _hit_ball(origin, rays, radius):
    a, b = (rays**2).sum(-1), (rays * origin).sum(-1)
    disc = b**2 - a * ((origin**2).sum() - radius**2)
    with np.errstate(invalid="ignore"):
        return np.where(disc > 0, (-b - np.sqrt(disc)) / a, np.inf)


def _noise(points, scale, seed):
    """Smooth repeatable texture in [-1, 1]."""
    rng = np.random.default_rng(seed)
    out = np.zeros(points.shape[:-1])
    for _ in range(4):
        out += np.sin(points @ rng.normal(size=3) * scale + rng.uniform(0, 6.28))
    return out / 4


class TinyWorld:
    """Frames, sensor depth, static depth and truth masks on demand; also the ``SceneDepth`` stand-in."""

    def __init__(
        self,
        shapes,
        poses,
        size=256,
        focal=200.0,
        depth_noise_m=0.0,
        holes=0.0,
        hand_path=None,
        moving=(),
        hand_m=0.022,
    ):
        self.camera = PinholeCamera(size, size, focal, focal, (size - 1) / 2, (size - 1) / 2)
        self.shapes, self.poses, self.moving = shapes, poses, moving
        self.depth_noise_m, self.holes, self.hand_path = depth_noise_m, holes, hand_path
        self.hand_m = hand_m  # radius of the hand's balls
        self._cache = {}

    def __len__(self):
        return len(self.poses)

    def cast(self, frame, skip=()):
        key = (frame, tuple(skip))
        if key not in self._cache:
            self._cache[key] = self._cast(frame, skip)
        return self._cache[key]

    def _cast(self, frame, skip):
        pose = self.poses[frame]
        dirs = self.camera.normalised_points(self.camera.pixel_grid()) @ pose[:3, :3].T
        eye = pose[:3, 3]
        with np.errstate(divide="ignore"):
            best = np.where(dirs[..., 2] < 0, -eye[2] / dirs[..., 2], 20.0)
        best = np.minimum(best, 6.0)
        ids = np.zeros(best.shape, int)
        point = eye + dirs * best[..., None]
        wood = np.array([150, 115, 80]) + 22 * _noise(point * [1, 4, 1], 25, 1)[..., None]
        rgb = np.where((point[..., 2:3] > -1e-6) & (np.abs(point[..., :2]).max(-1, keepdims=True) < 2), wood, 90.0)
        things = list(enumerate(self.shapes, 1))
        if self.hand_path is not None:
            for i, c in enumerate(self.hand_spheres(frame)):
                things.append((100 + i, Shape("ball", (self.hand_m, 0, 0), tuple(c), (225, 170, 140), (215, 160, 130))))
        for number, shape in things:
            if number in skip or (number >= 100 and 100 in skip):
                continue
            c, s = np.cos(shape.yaw), np.sin(shape.yaw)
            turn = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
            origin, rays = turn @ (eye - shape.center_at(frame)), dirs @ turn.T
            t = (
                _hit_box(origin, rays, np.array(shape.half))
                if shape.kind == "box"
                else _hit_ball(origin, rays, shape.half[0])
            )
            hit = (t < best) & (t > 0)
            local = origin + rays * np.where(hit, t, 0)[..., None]
            pattern = np.sign(_noise(local, 120, number))[..., None] > 0
            shade = 1 - 0.25 * (np.abs(local[..., 2:3]) < shape.half[2] * 0.98)
            colour = np.where(pattern, shape.colour, shape.colour2) * shade
            best, ids = np.where(hit, t, best), np.where(hit, number, ids)
            rgb = np.where(hit[..., None], colour, rgb)
        return rgb.clip(0, 255).astype(np.uint8), best.astype(np.float32), ids

    def hand_spheres(self, frame):
        wrist = self.hand_path.center_at(frame)
        steps = np.linspace(0, 1, 6)[:, None]
        return wrist + steps * np.array([0.0, 0.14, 0.06])

    # FrameSource
    def read(self, frame):
        rgb = self.cast(frame)[0].astype(float)
        rng = np.random.default_rng(1000 + frame)
        return (rgb + rng.normal(0, 3, rgb.shape)).clip(0, 255).astype(np.uint8)

    # SceneDepth
    def sensor(self, frame):
        depth = self.cast(frame)[1].copy()
        rng = np.random.default_rng(frame)
        if self.depth_noise_m:
            depth += rng.normal(0, self.depth_noise_m, depth.shape).astype(np.float32)
        if self.holes:
            depth[rng.random(depth.shape) < self.holes] = np.nan
        return depth

    def static(self, frame):
        depth = self.cast(frame, (*self.moving, 100))[1]

        class View:
            median_z_m = depth
            expected_z_m = depth

        return View

    def truth(self, frame, shape_number):
        return self.cast(frame)[2] == shape_number

    def recording(self, with_pose=True, timestamps_ns=None):
        n = len(self)
        stamps = np.arange(n, dtype=np.int64) * 100_000_000 + 5_000_000_000 if timestamps_ns is None else timestamps_ns
        poses = np.stack(self.poses) if with_pose else np.full((n, 4, 4), np.nan)
        hands = ()
        if self.hand_path is not None:
            joints = np.stack([np.repeat(self.hand_spheres(i), 4, axis=0)[:21] for i in range(n)])
            joints = np.concatenate([joints, joints[:, :1].repeat(21 - joints.shape[1], 1)], axis=1)
            hands = (HandTrack("right", stamps, joints, np.ones(n)),)
        return CanonicalRecording(
            recording_id="tiny",
            camera=self.camera,
            timestamps_ns=stamps,
            world_from_camera=poses,
            valid_mask=np.ones((self.camera.height_px, self.camera.width_px), bool),
            frames=self,
            world=World(metric=True, gravity=Gravity.KNOWN),
            source_camera=self.camera,
            canonical_from_source=np.eye(3),
            hands=hands,
        )


def orbit(count, radius=0.75, height=0.55, start=-0.5, span=1.0, target=(0, 0, 0.03)):
    return [
        look_at(np.array([radius * np.sin(a), -radius * np.cos(a), height]), target)
        for a in np.linspace(start, start + span, count)
    ]


RED, RED2 = (190, 40, 35), (150, 25, 30)
BLUE, BLUE2 = (40, 60, 180), (60, 90, 200)


def still_life(**kwargs):
    """A red box, a blue ball and a green box on the table, camera on a quarter orbit, 20 frames."""
    shapes = [
        Shape("box", (0.04, 0.03, 0.05), (0.0, 0.0, 0.05), RED, RED2, yaw=0.4),
        Shape("ball", (0.04, 0.04, 0.04), (0.14, 0.05, 0.04), BLUE, BLUE2),
        Shape("box", (0.03, 0.05, 0.03), (-0.14, 0.04, 0.03), (40, 130, 60), (60, 160, 70), yaw=-0.3),
    ]
    return TinyWorld(shapes, kwargs.pop("poses", orbit(20)), **kwargs)


def carried(**kwargs):
    """The red box rests until frame 8, is carried by a hand to the left until 20, then rests there; 30 frames."""
    start, lift, over, end = (0.05, 0.0, 0.04), (0.05, 0.0, 0.16), (-0.2, 0.08, 0.16), (-0.2, 0.08, 0.04)
    path = {0: start, 8: start, 12: lift, 17: over, 20: end, 30: end}
    hand = {k: tuple(np.add(v, (0, 0.05, 0.03))) for k, v in path.items()}
    hand.update({0: (0.4, 0.5, 0.3), 24: (0.1, 0.5, 0.4), 30: (0.4, 0.5, 0.4)})
    shapes = [
        Shape("box", (0.03, 0.03, 0.04), start, RED, RED2, path=path),
        Shape("ball", (0.04, 0.04, 0.04), (0.2, 0.1, 0.04), BLUE, BLUE2),
    ]
    hand_path = Shape("ball", (0.02, 0, 0), start, RED, RED2, path=hand)
    return TinyWorld(shapes, orbit(30, span=0.5), hand_path=hand_path, moving=(1,), **kwargs)
