"""Motion through time: keys of body, head, eyes and hand, and the state of everything at any moment.

Between two keys everything moves along minimum-jerk curves (Flash & Hogan 1985): still at both ends, smooth
between. All functions of time here are pure, so that a shutter can be opened around any moment.
"""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from egospatial.simulator.hand import ArmShape, HandPose, arm_shape, rotation_z


def minimum_jerk(share: float) -> float:
    """Progress 0..1 of a movement from rest to rest: 10 u^3 - 15 u^4 + 6 u^5."""
    u = min(1.0, max(0.0, share))
    return u * u * u * (10.0 + u * (6.0 * u - 15.0))


@dataclass(frozen=True)
class BodyKey:
    """Where the wearer's head is over the floor, where the body faces, and how high the head is."""

    time_s: float
    xy_m: Float[np.ndarray, "2"]
    heading_rad: float
    head_height_m: float


@dataclass(frozen=True)
class LookKey:
    """From ``time_s`` on, head (or eyes) turn to the target within ``duration_s``."""

    time_s: float
    duration_s: float
    point_in_world: Float[np.ndarray, "3"] | None = None
    object_index: int | None = None  # follow this object instead of a point


@dataclass(frozen=True)
class HandKey:
    """The hand's pose at a time, in world or in the body's frame (x ahead, y left, z up from the head)."""

    time_s: float
    pose: HandPose
    in_body: bool = False
    path: str = "direct"  # how it came here: direct, arc, circle, tap
    top_m: float = 0.0  # arc: height in world that the path goes up to


@dataclass(frozen=True)
class Rest:
    """An object lies still from ``start_s`` to ``end_s``."""

    start_s: float
    end_s: float
    world_from_object: Float[np.ndarray, "4 4"]
    support: str  # name of a room support, or of a container object's label
    container_index: int | None = None


@dataclass(frozen=True)
class Hold:
    """An object moves with the hand from lift-off to touch-down."""

    start_s: float
    end_s: float
    hand_from_object: Float[np.ndarray, "4 4"]


@dataclass(frozen=True)
class Happening:
    """One thing done by the hand; the truth's events, narrations and sounds come from these."""

    kind: str  # pick_up, put_down, put_into, take_out, use
    object_index: int
    time_s: float
    end_s: float
    other_index: int | None = None


@dataclass(frozen=True)
class Sway:
    """Small involuntary head motion: sums of slow sines, and a bob that grows with walking speed."""

    phases: Float[np.ndarray, "6 3"]

    def offset_m(self, time_s: float, speed_m_s: float) -> Float[np.ndarray, "3"]:
        """Displacement of the head in world."""
        rates = np.array([0.31, 0.53, 0.87])
        slow = 0.0035 * np.sin(2 * np.pi * rates * time_s + self.phases[:3]).sum(axis=1)
        bob = min(1.0, speed_m_s / 0.8) * 0.012 * np.sin(2 * np.pi * 1.9 * time_s + self.phases[0, 0])
        return np.asarray(slow + np.array([0.0, 0.0, bob]))

    def turn_rad(self, time_s: float) -> Float[np.ndarray, "3"]:
        """Small yaw, pitch and roll."""
        rates = np.array([0.23, 0.61, 1.1])
        return np.asarray(np.radians(0.45) * np.sin(2 * np.pi * rates * time_s + self.phases[3:]).sum(axis=1))


@dataclass(frozen=True)
class Moment:
    """Everything at one time. ``world_from_head``: x right, y down, z ahead, as cameras have it."""

    world_from_head: Float[np.ndarray, "4 4"]
    world_from_object: Float[np.ndarray, "O 4 4"]
    hand: HandPose
    arm: ArmShape


@dataclass
class Timeline:
    """All keys of one recording, in order of time."""

    sway: Sway
    body: list[BodyKey] = field(default_factory=list)
    head: list[LookKey] = field(default_factory=list)
    eyes: list[LookKey] = field(default_factory=list)
    hand: list[HandKey] = field(default_factory=list)
    rests: list[list[Rest]] = field(default_factory=list)  # by object
    holds: list[list[Hold]] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)

    def body_at(self, time_s: float) -> BodyKey:
        """Stance at a time; while walking, the body turns before it arrives."""
        before, after, share = _between([key.time_s for key in self.body], time_s)
        a, b = self.body[before], self.body[after]
        s, turn_share = minimum_jerk(share), minimum_jerk(1.3 * share)
        turn = (b.heading_rad - a.heading_rad + np.pi) % (2 * np.pi) - np.pi
        height = (1 - s) * a.head_height_m + s * b.head_height_m
        return BodyKey(time_s, (1 - s) * a.xy_m + s * b.xy_m, a.heading_rad + turn_share * turn, height)

    def head_position_at(self, time_s: float) -> Float[np.ndarray, "3"]:
        """Head in world, with sway and bob."""
        here = self.body_at(time_s)
        speed = float(np.linalg.norm(self.body_at(time_s + 0.01).xy_m - self.body_at(time_s - 0.01).xy_m)) / 0.02
        return np.asarray(np.array([*here.xy_m, here.head_height_m]) + self.sway.offset_m(time_s, speed))

    def hand_at(self, time_s: float) -> HandPose:
        """Hand pose in world."""
        before, after, share = _between([key.time_s for key in self.hand], time_s)
        a, b = self.hand[before], self.hand[after]
        start, end = self._hand_in_world(a, time_s), self._hand_in_world(b, time_s)
        if before == after:
            return start
        pose = start.blended(end, minimum_jerk(share))
        if b.path == "direct":
            return pose
        return _with_point(pose, _path_point(b, start.point_in_world, end.point_in_world, share))

    def _hand_in_world(self, key: HandKey, time_s: float) -> HandPose:
        if not key.in_body:
            return key.pose
        body = self.body_at(time_s)
        point = rotation_z(body.heading_rad) @ key.pose.point_in_world + [*body.xy_m, body.head_height_m]
        pose = key.pose
        return HandPose(
            point, pose.yaw_rad + body.heading_rad, pose.elevation_rad, pose.width_m, pose.reach_m, pose.retract_m
        )

    def object_at(self, index: int, time_s: float, hand: HandPose | None = None) -> Float[np.ndarray, "4 4"]:
        """Pose of an object in world."""
        for hold in self.holds[index]:
            if hold.start_s <= time_s < hold.end_s:
                return np.asarray((hand or self.hand_at(time_s)).world_from_hand @ hold.hand_from_object)
        for rest in self.rests[index]:
            if time_s < rest.end_s:
                return rest.world_from_object
        return self.rests[index][-1].world_from_object

    def held_at(self, index: int, time_s: float) -> bool:
        """Whether the object is between lift-off and touch-down."""
        return any(hold.start_s <= time_s < hold.end_s for hold in self.holds[index])

    def look_point(self, key: LookKey, time_s: float) -> Float[np.ndarray, "3"]:
        """Where a look key aims at a time."""
        if key.object_index is not None:
            return np.asarray(self.object_at(key.object_index, time_s)[:3, 3])
        assert key.point_in_world is not None
        return key.point_in_world

    def gaze_point_at(self, time_s: float) -> Float[np.ndarray, "3"]:
        """What the eyes look at: the last key's target; saccades take their key's duration."""
        index = max(0, int(np.searchsorted([key.time_s for key in self.eyes], time_s, side="right")) - 1)
        key = self.eyes[index]
        point = self.look_point(key, time_s)
        if index == 0 or time_s >= key.time_s + key.duration_s:
            return point
        share = minimum_jerk((time_s - key.time_s) / key.duration_s)
        return (1 - share) * self.look_point(self.eyes[index - 1], time_s) + share * point

    def head_angles_at(self, time_s: float, position: Float[np.ndarray, "3"]) -> tuple[float, float]:
        """Yaw and pitch (up positive) of the head; it turns only part of the way down that the eyes go."""
        last = max(0, int(np.searchsorted([key.time_s for key in self.head], time_s, side="right")) - 1)
        yaw, pitch = 0.0, 0.0
        for index in range(max(0, last - 3), last + 1):
            key = self.head[index]
            dx, dy, dz = self.look_point(key, time_s) - position
            aim_yaw, aim_pitch = np.arctan2(dy, dx), 0.85 * np.arctan2(dz, np.hypot(dx, dy))
            share = 1.0 if index == max(0, last - 3) else minimum_jerk((time_s - key.time_s) / key.duration_s)
            yaw += share * ((aim_yaw - yaw + np.pi) % (2 * np.pi) - np.pi)
            pitch += share * (aim_pitch - pitch)
        return float(yaw), float(pitch)

    def at(self, time_s: float) -> Moment:
        """The state of everything."""
        position = self.head_position_at(time_s)
        yaw, pitch = self.head_angles_at(time_s, position)
        dyaw, dpitch, roll = self.sway.turn_rad(time_s)
        world_from_head = np.eye(4)
        world_from_head[:3, :3] = head_rotation(yaw + dyaw, pitch + dpitch, roll)
        world_from_head[:3, 3] = position
        hand = self.hand_at(time_s)
        poses = np.stack([self.object_at(index, time_s, hand) for index in range(len(self.rests))])
        body = self.body_at(time_s)
        shoulder = position + rotation_z(body.heading_rad) @ [-0.06, -0.19, -0.24]
        return Moment(world_from_head, poses, hand, arm_shape(hand, shoulder))


def head_rotation(yaw_rad: float, pitch_rad: float, roll_rad: float) -> Float[np.ndarray, "3 3"]:
    """world_from_camera rotation that looks along yaw (about z) and pitch (up positive), rolled about the view."""
    cy, sy, cp, sp = np.cos(yaw_rad), np.sin(yaw_rad), np.cos(pitch_rad), np.sin(pitch_rad)
    ahead = np.array([cy * cp, sy * cp, sp])
    right = np.array([sy, -cy, 0.0])
    down = np.cross(ahead, right)
    c, s = np.cos(roll_rad), np.sin(roll_rad)
    return np.stack([c * right + s * down, c * down - s * right, ahead], axis=1)


def _between(times: list[float], time_s: float) -> tuple[int, int, float]:
    """Keys around a time and the share between them; ends are held."""
    after = int(np.searchsorted(times, time_s, side="right"))
    if after == 0:
        return 0, 0, 0.0
    if after == len(times):
        return after - 1, after - 1, 0.0
    return after - 1, after, (time_s - times[after - 1]) / (times[after] - times[after - 1])


def _with_point(pose: HandPose, point: Float[np.ndarray, "3"]) -> HandPose:
    return HandPose(point, pose.yaw_rad, pose.elevation_rad, pose.width_m, pose.reach_m, pose.retract_m)


def _path_point(key: HandKey, start: np.ndarray, end: np.ndarray, share: float) -> np.ndarray:
    """Where the hand is on a path that is no straight line."""
    if key.path == "circle":  # two rounds of 1.5 cm about a centre ahead
        angle = 4 * np.pi * minimum_jerk(share)
        return end + 0.015 * np.array([np.sin(angle), 1.0 - np.cos(angle), 0.0])
    if key.path == "tap":  # up and down, three times
        return np.asarray(end + np.array([0.0, 0.0, 0.03 * np.sin(3 * np.pi * minimum_jerk(share)) ** 2]))
    across = minimum_jerk((share - 0.16) / 0.68)
    point = (1 - across) * start + across * end
    top = max(key.top_m, start[2], end[2])
    if share < 0.5:
        point[2] = start[2] + (top - start[2]) * minimum_jerk(share / 0.4)
    else:
        point[2] = end[2] + (top - end[2]) * minimum_jerk((1 - share) / 0.4)
    return point
