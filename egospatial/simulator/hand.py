"""The wearer's right hand and arm: 21 joints from a few numbers, and the capsules that are drawn.

The hand frame has its origin between thumb and fingertips, +x where the fingers point, +y to the thumb's side
(left), +z towards the back of the index finger. ``yaw`` turns it about world z, ``elevation`` tips +x down.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from egospatial.simulator.meshes import Mesh

FINGER_RADIUS_M = 0.008
FOREARM_M = 0.27
UPPER_ARM_M = 0.30
UPPER_ARM_RADIUS_M = 0.047
_SPREAD_M = np.array([0.024, 0.008, -0.008, -0.023])  # index to little finger, along +z of the hand frame
_LENGTH = np.array([0.96, 1.0, 0.95, 0.82])


@dataclass(frozen=True)
class HandPose:
    """Where the hand is and how it is closed."""

    point_in_world: Float[np.ndarray, "3"]  # between thumb and fingertips
    yaw_rad: float
    elevation_rad: float
    width_m: float  # between the pads of thumb and fingers
    reach_m: float  # from the knuckles to the fingertips along the fingers
    retract_m: Float[np.ndarray, "5"]  # thumb to little finger: how far each tip is drawn back

    def blended(self, other: "HandPose", share: float) -> "HandPose":
        """Between two poses; yaw on the shorter way round."""
        turn = (other.yaw_rad - self.yaw_rad + np.pi) % (2 * np.pi) - np.pi
        keep = 1.0 - share
        return HandPose(
            keep * self.point_in_world + share * other.point_in_world,
            self.yaw_rad + share * turn,
            keep * self.elevation_rad + share * other.elevation_rad,
            keep * self.width_m + share * other.width_m,
            keep * self.reach_m + share * other.reach_m,
            keep * self.retract_m + share * other.retract_m,
        )

    @property
    def world_from_hand(self) -> Float[np.ndarray, "4 4"]:
        """Pose of the hand frame."""
        out = np.eye(4)
        out[:3, :3] = rotation_z(self.yaw_rad) @ rotation_y(self.elevation_rad)
        out[:3, 3] = self.point_in_world
        return out


@dataclass(frozen=True)
class ArmShape:
    """Joints in world: hand joints in the order of ``geo.recording.HandTrack``, then elbow and shoulder."""

    joints_in_world: Float[np.ndarray, "21 3"]
    elbow_in_world: Float[np.ndarray, "3"]
    shoulder_in_world: Float[np.ndarray, "3"]


def rotation_z(angle_rad: float) -> Float[np.ndarray, "3 3"]:
    """Counter-clockwise about z."""
    c, s = np.cos(angle_rad), np.sin(angle_rad)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def rotation_y(angle_rad: float) -> Float[np.ndarray, "3 3"]:
    """About y: tips +x down (towards -z)."""
    c, s = np.cos(angle_rad), np.sin(angle_rad)
    return np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])


def retraction(elevation_rad: float, height_above_support_m: float) -> Float[np.ndarray, "5"]:
    """How far each fingertip is drawn back along the finger, so that no tip dips into the support."""
    offsets = np.concatenate([[0.004], _SPREAD_M])
    lowest = height_above_support_m + offsets * np.cos(elevation_rad)  # tip heights without drawing back
    lack = np.maximum(0.0, FINGER_RADIUS_M + 0.003 - lowest)
    return np.asarray(lack / max(np.sin(elevation_rad), 0.3))


def hand_joints(pose: HandPose) -> Float[np.ndarray, "21 3"]:
    """The 21 joints in world: wrist, then four a finger from thumb to little finger, tips last."""
    joints = np.empty((21, 3))
    side = pose.width_m / 2 + FINGER_RADIUS_M
    reach = pose.reach_m
    joints[0] = (-reach - 0.085, -0.006, 0.0)
    tip = np.array([-pose.retract_m[0], side, 0.004])
    joints[1:5] = _finger(np.array([-reach - 0.05, 0.018, 0.008]), tip, 0.012, (0.0, 0.36, 0.72, 1.0))
    for finger in range(4):
        z = _SPREAD_M[finger]
        tip = np.array([-pose.retract_m[1 + finger] - (1 - _LENGTH[finger]) * 0.03, -side, z * 0.9])
        knuckle = np.array([-reach * _LENGTH[finger], -0.016 - 0.25 * side, z * 1.2])
        joints[5 + 4 * finger : 9 + 4 * finger] = _finger(knuckle, tip, -0.014, (0.0, 0.45, 0.75, 1.0))
    matrix = pose.world_from_hand
    return np.asarray(joints @ matrix[:3, :3].T + matrix[:3, 3])


def _finger(base: np.ndarray, tip: np.ndarray, bulge_m: float, shares: tuple[float, ...]) -> np.ndarray:
    middle = (base + tip) / 2 + [0.0, bulge_m + 0.35 * (tip[1] - base[1]), 0.0]
    s = np.array(shares)[:, None]
    return np.asarray((1 - s) ** 2 * base + 2 * s * (1 - s) * middle + s**2 * tip)


def arm_shape(pose: HandPose, shoulder_in_world: Float[np.ndarray, "3"]) -> ArmShape:
    """Hand joints, and an elbow where two bones reach it, hanging down and following the back of the hand."""
    joints = hand_joints(pose)
    wrist = joints[0]
    to_wrist = wrist - shoulder_in_world
    distance = max(float(np.linalg.norm(to_wrist)), 1e-6)
    along = to_wrist / distance
    # Law of cosines; an arm that is too short is taken as stretched.
    share = (UPPER_ARM_M**2 - FOREARM_M**2 + distance**2) / (2 * distance)
    height = np.sqrt(max(UPPER_ARM_M**2 - share**2, 0.03**2))
    back = -pose.world_from_hand[:3, 0]
    outwards = np.array([back[0], back[1], -0.25])
    outwards = outwards - (outwards @ along) * along
    elbow = shoulder_in_world + share * along + height * outwards / max(float(np.linalg.norm(outwards)), 1e-6)
    return ArmShape(joints, elbow, shoulder_in_world)


def hand_capsules(joints: Float[np.ndarray, "21 3"]) -> list[tuple[np.ndarray, np.ndarray, float, float]]:
    """Capsules (end, end, radius, radius) of fingers and palm."""
    capsules = []
    for finger in range(5):
        base = 1 + 4 * finger
        start_radius = 0.0115 if finger == 0 else 0.0095
        for bone in range(3):
            radius_a = start_radius - 0.0008 * bone
            capsules.append((joints[base + bone], joints[base + bone + 1], radius_a, FINGER_RADIUS_M - 0.0002))
        capsules.append((joints[0], joints[base], 0.017, 0.0125))
    for finger in range(1, 4):
        capsules.append((joints[1 + 4 * finger], joints[5 + 4 * finger], 0.0125, 0.0125))
    return capsules


def arm_capsules(shape: ArmShape) -> list[tuple[np.ndarray, np.ndarray, float, float]]:
    """Capsules of forearm and upper arm; the upper arm ends short of the head."""
    upper = shape.elbow_in_world + 0.8 * (shape.shoulder_in_world - shape.elbow_in_world)
    return [
        (shape.joints_in_world[0], shape.elbow_in_world, 0.026, 0.04),
        (shape.elbow_in_world, upper, 0.041, UPPER_ARM_RADIUS_M),
    ]


@dataclass(frozen=True)
class SoftBody:
    """A mesh in world that changes its shape; the triangles stay the same. Normals are per triangle corner."""

    mesh: Mesh
    corner_normals_in_world: Float[np.ndarray, "F 3 3"]


def capsule_body(capsules: list[tuple[np.ndarray, np.ndarray, float, float]], sides: int = 12) -> SoftBody:
    """All capsules as one body (each closed; they overlap at the joints)."""
    template, faces = _unit_capsule(sides)
    a, b = (np.stack([capsule[end] for capsule in capsules]) for end in (0, 1))
    radii = np.array([capsule[2:] for capsule in capsules])
    directions = np.einsum("cij,vj->cvi", _frames_along(b - a), template)
    top = template[:, 2] > 0
    radius = np.where(top, radii[:, 1:], radii[:, :1])
    vertices = np.where(top[None, :, None], b[:, None], a[:, None]) + radius[..., None] * directions
    offsets = len(template) * np.arange(len(capsules))
    triangles = (faces[None] + offsets[:, None, None]).reshape(-1, 3)
    mesh = Mesh(vertices.reshape(-1, 3), triangles, np.zeros(len(triangles), dtype=np.int64))
    return SoftBody(mesh, directions.reshape(-1, 3)[triangles])


def _frames_along(directions: Float[np.ndarray, "C 3"]) -> Float[np.ndarray, "C 3 3"]:
    """Rotations whose z axis points along each direction."""
    z = directions / np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-9)
    helper = np.where(np.abs(z[:, :1]) < 0.8, [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]])
    x = np.cross(helper, z)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.stack([x, np.cross(z, x), z], axis=2)


@lru_cache(maxsize=4)
def _unit_capsule(sides: int) -> tuple[np.ndarray, np.ndarray]:
    """Directions on the unit sphere: two half spheres whose rims are joined."""
    latitudes = np.radians([-60.0, -25.0, -1e-3, 1e-3, 25.0, 60.0])
    angles = np.arange(sides) * (2 * np.pi / sides)
    rings = [
        np.stack([np.cos(lat) * np.cos(angles), np.cos(lat) * np.sin(angles), np.full(sides, np.sin(lat))], axis=-1)
        for lat in latitudes
    ]
    vertices = np.concatenate([[[0, 0, -1.0]], *rings, [[0, 0, 1.0]]])
    here, nxt = np.arange(sides), (np.arange(sides) + 1) % sides
    faces = [np.stack([np.zeros(sides, dtype=int), 1 + nxt, 1 + here], axis=-1)]
    for ring in range(len(latitudes) - 1):
        a, b = 1 + ring * sides + here, 1 + ring * sides + nxt
        faces += [np.stack([a, b, b + sides], axis=-1), np.stack([a, b + sides, a + sides], axis=-1)]
    last = 1 + (len(latitudes) - 1) * sides
    faces.append(np.stack([last + here, last + nxt, np.full(sides, len(vertices) - 1)], axis=-1))
    return vertices, np.concatenate(faces).astype(np.int64)
