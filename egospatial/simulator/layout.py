"""Where everything stands: every place that an object rests at in the plan, without overlap, in view and in reach."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from egospatial.errors import FrontDoorError
from egospatial.simulator.catalogue import ObjectSpec
from egospatial.simulator.hand import rotation_z
from egospatial.simulator.plans import Plan
from egospatial.simulator.room import Room, Support

CLEARANCE_M = 0.032  # between footprints
MARGIN_M = 0.03  # from a surface's edge
MIN_MOVE_M = 0.22  # a moved object ends at least so far from where it was
GRASP_YAW_RAD = (0.65, 1.25)  # of the fingers, to the left of straight ahead
_TRIES = 400
_WANTED = 24  # layouts to choose the clearest of


@dataclass(frozen=True)
class Place:
    """A reserved place: the object's pose when it rests there."""

    role: str
    support: str
    world_from_object: Float[np.ndarray, "4 4"]


@dataclass(frozen=True)
class _Wish:
    """What has to be placed: on which support, how big, and in reach or not."""

    role: str
    support: str
    half_xy_m: Float[np.ndarray, "2"]
    height_m: float
    in_reach: bool


@dataclass(frozen=True)
class _Spot:
    """A footprint on a support, in its frame: u away from the person, v to the left."""

    uv_m: Float[np.ndarray, "2"]
    yaw_rad: float


def plan_layout(
    plan: Plan, specs: dict[str, ObjectSpec], room: Room, rng: np.random.Generator
) -> dict[str, tuple[Place, ...]]:
    """Places of every role in the order in which the plan visits them (home and containers left out).

    Raises:
        FrontDoorError: no free arrangement was found (furniture too small for the plan).
    """
    wishes = _wishes(plan, specs)
    best: tuple[float, list[_Spot]] | None = None
    found = 0
    for _ in range(_TRIES):
        spots = _arrange(wishes, room, rng)
        if spots is None:
            continue
        cost = sum(_hidden_share(support, wishes, spots) for support in room.supports.values())
        cost += 0.5 * _arm_conflicts(wishes, spots)
        if best is None or cost < best[0]:
            best = (cost, spots)
        found += 1
        if found >= _WANTED:
            break
    if best is None:
        raise FrontDoorError(
            f"no arrangement of {len(wishes)} places without overlap in {_TRIES} tries; change the seed"
        )
    places: dict[str, list[Place]] = {role: [] for role in plan.roles}
    for wish, spot in zip(wishes, best[1], strict=True):
        pose = _pose_on(room.supports[wish.support], spot, float(specs[wish.role].extent_m[2]))
        places[wish.role].append(Place(wish.role, wish.support, pose))
    return {role: tuple(items) for role, items in places.items()}


def _wishes(plan: Plan, specs: dict[str, ObjectSpec]) -> list[_Wish]:
    handled = {step.role for step in plan.steps if step.role}
    handled |= {step.where for step in plan.steps if step.where in plan.roles}
    visits = [(role, support) for role, support in plan.roles.items()]
    visits += [(s.role, s.where) for s in plan.steps if s.verb == "move" and s.where != "home"]
    return [
        _Wish(role, support, specs[role].extent_m[:2] / 2, float(specs[role].extent_m[2]), role in handled)
        for role, support in visits
    ]


def _arrange(wishes: list[_Wish], room: Room, rng: np.random.Generator) -> list[_Spot] | None:
    """One random arrangement, biggest footprints first; None if something finds no room."""
    order = sorted(range(len(wishes)), key=lambda k: (-float(np.prod(wishes[k].half_xy_m)), k))
    spots: dict[int, _Spot] = {}
    for index in order:
        wish = wishes[index]
        others = [k for k in spots if wishes[k].support == wish.support]
        for _ in range(40):
            spot = _draw(wish, room.supports[wish.support], rng)
            if spot is None or not _free(wish, spot, others, wishes, spots):
                continue
            spots[index] = spot
            break
        else:
            return None
    return [spots[k] for k in range(len(wishes))]


def _draw(wish: _Wish, support: Support, rng: np.random.Generator) -> _Spot | None:
    if wish.half_xy_m[0] > 0.12 and wish.half_xy_m[1] > 0.08:  # crates stand across
        yaw = np.pi / 2 + rng.uniform(-0.2, 0.2)
    elif wish.in_reach:  # as a right hand that comes from the right likes it
        yaw = rng.uniform(*GRASP_YAW_RAD)
    else:
        yaw = rng.uniform(-0.6, 0.6)
    c, s = abs(np.cos(yaw)), abs(np.sin(yaw))
    half_u = c * wish.half_xy_m[0] + s * wish.half_xy_m[1] + MARGIN_M
    half_v = s * wish.half_xy_m[0] + c * wish.half_xy_m[1] + MARGIN_M
    u_low, u_high = half_u, support.depth_m - half_u
    v_high = support.width_m / 2 - half_v
    if wish.in_reach:
        u_high, v_high = min(u_high, 0.40), min(v_high, 0.46)
    elif wish.height_m > 0.15:
        u_low = max(u_low, min(0.40, u_high - 0.02))
    if u_low >= u_high or v_high <= 0:
        return None
    return _Spot(np.array([rng.uniform(u_low, u_high), rng.uniform(-v_high, v_high)]), float(yaw))


def _free(wish: _Wish, spot: _Spot, others: list[int], wishes: list[_Wish], spots: dict[int, _Spot]) -> bool:
    for k in others:
        away = float(np.linalg.norm(spot.uv_m - spots[k].uv_m))
        if wishes[k].role == wish.role and away < MIN_MOVE_M:
            return False
        if away > np.linalg.norm(wish.half_xy_m) + np.linalg.norm(wishes[k].half_xy_m) + CLEARANCE_M:
            continue
        if _gap(wish.half_xy_m, spot, wishes[k].half_xy_m, spots[k]) < CLEARANCE_M:
            return False
    return True


def _gap(half_a: np.ndarray, a: _Spot, half_b: np.ndarray, b: _Spot) -> float:
    """Largest separation of two turned rectangles over their four side directions (separating axes)."""
    axes = []
    for yaw in (a.yaw_rad, b.yaw_rad):
        axes += [np.array([np.cos(yaw), np.sin(yaw)]), np.array([-np.sin(yaw), np.cos(yaw)])]
    gaps = []
    for axis in axes:
        reach_a = half_a[0] * abs(axes[0] @ axis) + half_a[1] * abs(axes[1] @ axis)
        reach_b = half_b[0] * abs(axes[2] @ axis) + half_b[1] * abs(axes[3] @ axis)
        gaps.append(abs((a.uv_m - b.uv_m) @ axis) - reach_a - reach_b)
    return float(max(gaps))


def _pose_on(support: Support, spot: _Spot, height_m: float) -> Float[np.ndarray, "4 4"]:
    pose = np.eye(4)
    pose[:3, :3] = rotation_z(support.heading_rad + spot.yaw_rad)
    pose[:3, 3] = support.point(-spot.uv_m[1], spot.uv_m[0], height_m / 2)
    return pose


def _hidden_share(support: Support, wishes: list[_Wish], spots: list[_Spot]) -> float:
    """How much the things on a support hide each other from somebody who stands there (angular rectangles)."""
    eye = np.array([-support.stance_gap_m, 0.0, 0.52])
    rows = []
    for wish, spot in zip(wishes, spots, strict=True):
        if wish.support != support.name:
            continue
        turn = rotation_z(spot.yaw_rad)[:2, :2]
        corners = np.array([[x, y] for x in (-1, 1) for y in (-1, 1)]) * wish.half_xy_m @ turn.T + spot.uv_m
        points = np.concatenate([np.c_[corners, np.zeros(4)], np.c_[corners, np.full(4, wish.height_m)]]) - eye
        azimuth = np.arctan2(points[:, 1], points[:, 0])
        elevation = np.arctan2(points[:, 2], np.hypot(points[:, 0], points[:, 1]))
        rows.append(
            [azimuth.min(), azimuth.max(), elevation.min(), elevation.max(), np.linalg.norm(spot.uv_m - eye[:2])]
        )
    total = 0.0
    for a in rows:
        for b in rows:
            if b[4] >= a[4]:
                continue
            width = min(a[1], b[1]) - max(a[0], b[0])
            height = min(a[3], b[3]) - max(a[2], b[2])
            if width > 0 and height > 0:
                total += width * height / ((a[1] - a[0]) * (a[3] - a[2]))
    return total


def _arm_conflicts(wishes: list[_Wish], spots: list[_Spot]) -> int:
    """How many things stand where hand or forearm would be while another thing is taken or put down."""
    count = 0
    for k, (wish, spot) in enumerate(zip(wishes, spots, strict=True)):
        if not wish.in_reach:
            continue
        back = -np.array([np.cos(spot.yaw_rad), np.sin(spot.yaw_rad)])
        wrist = spot.uv_m + 0.16 * back
        elbow = wrist + 0.24 * (back + np.array([-0.8, 0.0])) / np.linalg.norm(back + np.array([-0.8, 0.0]))
        for j, (other, place) in enumerate(zip(wishes, spots, strict=True)):
            if j == k or other.support != wish.support or other.role == wish.role or other.height_m < 0.05:
                continue
            size = float(np.linalg.norm(other.half_xy_m))
            hand = min(_to_segment(place.uv_m, spot.uv_m + 0.05 * back, wrist), _to_segment(place.uv_m, wrist, elbow))
            count += hand < 0.7 * size + 0.05
    return count


def _to_segment(point: np.ndarray, start: np.ndarray, end: np.ndarray) -> float:
    way = end - start
    along = np.clip((point - start) @ way / max(float(way @ way), 1e-12), 0.0, 1.0)
    return float(np.linalg.norm(point - start - along * way))
