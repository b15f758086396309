"""From a plan and a layout to a timeline: who looks, steps, reaches, carries and puts down when."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from egospatial.simulator.catalogue import ObjectSpec
from egospatial.simulator.hand import HandPose, retraction, rotation_y, rotation_z
from egospatial.simulator.layout import GRASP_YAW_RAD, Place
from egospatial.simulator.plans import Plan, Step
from egospatial.simulator.room import Room, Support
from egospatial.simulator.timeline import BodyKey, HandKey, Happening, Hold, LookKey, Rest, Sway, Timeline

REACH_M = 0.085
OPEN_M = 0.05  # how much wider than the object the hand opens
SURVEY_HEIGHT_M = 1.56
HANDLING_OVER_SURFACE_M = 0.50  # head above the surface while the hands work there
_TOOL_TILT_RAD = np.radians(36.0)


@dataclass(frozen=True)
class Scene:
    """Everything that a script needs to know; ``roles`` gives the order of the objects."""

    room: Room
    roles: tuple[str, ...]
    specs: tuple[ObjectSpec, ...]
    places: dict[str, tuple[Place, ...]]

    def index(self, role: str) -> int:
        """Index of a role's object."""
        return self.roles.index(role)


def hand_from_object(spec: ObjectSpec) -> Float[np.ndarray, "4 4"]:
    """Where an object sits in the hand that holds it."""
    object_from_hand = np.eye(4)
    object_from_hand[:3, :3] = rotation_y(spec.grasp.elevation_rad)
    object_from_hand[:3, 3] = spec.grasp.point_m
    return np.asarray(np.linalg.inv(object_from_hand))


def grasp_pose(spec: ObjectSpec, world_from_object: Float[np.ndarray, "4 4"], opening_m: float = 0.0) -> HandPose:
    """The hand around an object that stands upright."""
    point = world_from_object[:3, :3] @ spec.grasp.point_m + world_from_object[:3, 3]
    yaw = float(np.arctan2(world_from_object[1, 0], world_from_object[0, 0]))
    above = float(spec.grasp.point_m[2] + spec.extent_m[2] / 2)
    elevation = spec.grasp.elevation_rad
    return HandPose(point, yaw, elevation, spec.grasp.width_m + opening_m, REACH_M, retraction(elevation, above))


class Script:
    """Writes a timeline step by step; ``now_s`` is how far it is written."""

    def __init__(self, scene: Scene, plan: Plan, rng: np.random.Generator) -> None:
        self.scene, self.plan, self.rng = scene, plan, rng
        self.line = Timeline(Sway(rng.uniform(0, 2 * np.pi, (6, 3))))
        self.now_s = 0.0
        self.support = "table"
        self.visits = {role: 0 for role in scene.roles}
        self.where = {role: scene.places[role][0].support for role in scene.roles}
        self.pose = [scene.places[role][0].world_from_object for role in scene.roles]
        self.inside: dict[int, int] = {}
        for role in scene.roles:
            place = scene.places[role][0]
            self.line.rests.append([Rest(0.0, np.inf, place.world_from_object, place.support)])
            self.line.holds.append([])
        self._start()

    def _start(self) -> None:
        support = self.scene.room.supports["table"]
        first = self.scene.room.supports[self.plan.steps[0].where]
        xy = support.stance() - 0.1 * support.away_xy
        self.line.body.append(BodyKey(0.0, xy, support.heading_rad, SURVEY_HEIGHT_M))
        self.line.hand.append(HandKey(0.0, self._resting_hand(), in_body=True))
        point = first.point(0.0, 0.45 * first.depth_m)
        self.line.head.append(LookKey(-9.0, 0.1, point))
        self.line.eyes.append(LookKey(-9.0, 0.1, point))

    def _resting_hand(self) -> HandPose:
        return HandPose(
            np.array([0.20, -0.24, -0.38]), 0.45, 0.5, 0.05, REACH_M, np.array([0.0, 0.01, 0.012, 0.015, 0.02])
        )

    def write(self, duration_s: float) -> Timeline:
        """All steps, then looking about until the recording ends."""
        for step in self.plan.steps:
            getattr(self, f"_{step.verb}")(step)
        names = ["table", "shelf", "counter"]
        while self.now_s < duration_s:
            self._survey(Step("survey", where=self.support, seconds=0.9))
            other = [name for name in names if name != self.support][int(self.rng.integers(2))]
            if self.now_s < duration_s - 3.0:
                self._glance(Step("glance", where=other, seconds=0.9))
        return self.line

    # -- looking ---------------------------------------------------------------------------------------------------

    def _look(self, time_s: float, point: np.ndarray | None, index: int | None = None, turn_s: float = 0.5) -> None:
        """Eyes first, then the head."""
        self.line.eyes.append(LookKey(time_s, 0.07, point, index))
        self.line.head.append(LookKey(time_s + 0.06, turn_s / self.plan.tempo**0.5, point, index))

    def _survey(self, step: Step) -> None:
        """Look over a surface from one side to the other, fixating what stands there."""
        support = self.scene.room.supports[step.where]
        sign = 1.0 if self.rng.random() < 0.5 else -1.0
        here = [k for k, role in enumerate(self.scene.roles) if self.where[role] == step.where]
        here.sort(key=lambda k: sign * float((self.pose[k][:2, 3] - support.front_xy_m) @ support.right_xy))
        picks = here[:: max(1, len(here) // 3)][:3]
        for index in picks:
            self._look(self.now_s, self.pose[index][:3, 3], turn_s=0.55)
            self.now_s += step.seconds
        if not picks:
            self._look(self.now_s, support.point(0.0, support.depth_m / 2))
            self.now_s += step.seconds

    def _watch(self, step: Step) -> None:
        """Look at another surface for a while and come back to the own one."""
        home = self.scene.room.supports[self.support]
        self.now_s += step.seconds
        self._look(self.now_s, home.point(0.0, 0.3), turn_s=0.6)
        self.now_s += 0.35 / self.plan.tempo

    def _glance(self, step: Step) -> None:
        """Look away to another surface and come back; the hand waits beside the body."""
        support = self.scene.room.supports[step.where]
        start = self.now_s
        self._hand_to_rest(start)
        self._look(start, support.point(self.rng.uniform(-0.1, 0.1), support.depth_m * 0.6, 0.08), turn_s=0.6)
        back = start + 0.42 + step.seconds
        home = self.scene.room.supports[self.support]
        self._look(back, home.point(self.rng.uniform(-0.1, 0.1), 0.3), turn_s=0.6)
        self.now_s = back + 0.5 / self.plan.tempo

    # -- standing --------------------------------------------------------------------------------------------------

    def _stance(self, support: Support, right_m: float) -> tuple[np.ndarray, float]:
        return support.stance(float(np.clip(right_m, -0.34, 0.34))), support.height_m + HANDLING_OVER_SURFACE_M

    def _step_to(self, point: np.ndarray, start_s: float, end_s: float, support_name: str) -> None:
        """Be where the right hand reaches the point well."""
        support = self.scene.room.supports[support_name]
        right = float((point[:2] - support.front_xy_m) @ support.right_xy) - 0.04
        xy, height = self._stance(support, right)
        last = self.line.body[-1]
        start = max(start_s, last.time_s + 0.02)
        self.line.body.append(replace(last, time_s=start))
        self.line.body.append(BodyKey(max(end_s, start + 0.3), xy, support.heading_rad, height))

    def _walk_seconds(self, xy: np.ndarray, heading: float) -> float:
        last = self.line.body[-1]
        turn = abs((heading - last.heading_rad + np.pi) % (2 * np.pi) - np.pi)
        return float(0.6 + np.linalg.norm(xy - last.xy_m) / 0.95 + 0.25 * turn)

    def _walk(self, step: Step) -> None:
        """Go to another surface with an empty hand."""
        support = self.scene.room.supports[step.where]
        xy, height = self._stance(support, 0.0)
        self._hand_to_rest(self.now_s)
        seconds = self._walk_seconds(xy, support.heading_rad)
        self._look(self.now_s, support.point(0.0, support.depth_m / 2, 0.05), turn_s=0.75 * seconds)
        self.line.body.append(replace(self.line.body[-1], time_s=max(self.now_s, self.line.body[-1].time_s + 0.02)))
        self.now_s = self.line.body[-1].time_s + seconds
        self.line.body.append(BodyKey(self.now_s, xy, support.heading_rad, height))
        self.support = step.where

    # -- the hand --------------------------------------------------------------------------------------------------

    def _hand_to_rest(self, start_s: float) -> None:
        last = self.line.hand[-1]
        if last.in_body:
            return
        start = max(start_s, last.time_s + 0.02)
        self.line.hand.append(replace(last, time_s=start))
        self.line.hand.append(
            HandKey(
                start + 0.7 / self.plan.tempo,
                self._resting_hand(),
                in_body=True,
                path="arc",
                top_m=last.pose.point_in_world[2] + 0.03,
            )
        )

    def _grasp(self, index: int) -> float:
        """Reach for an object and close the hand; returns the moment of lift-off."""
        spec, pose, tempo = self.scene.specs[index], self.pose[index], self.plan.tempo
        last = self.line.hand[-1]
        start = max(self.now_s, last.time_s + 0.02)
        lead = self.rng.uniform(0.3, 0.6)
        self._look(max(0.02, start - lead, self.line.eyes[-1].time_s + 0.12), None, index)
        self._step_to(pose[:3, 3], start - 0.1, start + 0.7 / tempo, self.support)
        open_pose = grasp_pose(spec, pose, OPEN_M)
        before = _backed_off(open_pose)
        self.line.hand.append(replace(last, time_s=start))
        arrive = start + 0.75 / tempo
        obstacle = self._obstacle_top(index, self._hand_xy(), pose[:2, 3], open_pose.yaw_rad)
        top = max(before.point_in_world[2], obstacle + 0.06)
        self.line.hand.append(HandKey(arrive, before, path="arc", top_m=top))
        contact = arrive + 0.28 / tempo
        self.line.hand.append(HandKey(contact, open_pose))
        lift_off = contact + 0.2 / tempo
        self.line.hand.append(HandKey(lift_off, grasp_pose(spec, pose)))
        return lift_off

    def _carry(
        self, index: int, start_s: float, target: np.ndarray, support_name: str, tool_kept: bool = False
    ) -> float:
        """Carry the held object so that it rests at ``target``; returns the moment of touch-down."""
        spec, tempo = self.scene.specs[index], self.plan.tempo
        goal = grasp_pose(spec, target)
        below = float(spec.grasp.point_m[2] + spec.extent_m[2] / 2)
        obstacle = self._obstacle_top(index, self.pose[index][:2, 3], target[:2, 3], goal.yaw_rad)
        top = max(obstacle + below + 0.03, goal.point_in_world[2] + 0.10)
        self._look(start_s + 0.16, target[:3, 3])
        if support_name == self.support:
            distance = float(np.linalg.norm(target[:2, 3] - self.line.hand[-1].pose.point_in_world[:2]))
            end = start_s + (1.25 + 0.6 * distance) / tempo
            self._step_to(target[:3, 3], start_s + 0.1, end - 0.25, support_name)
            self.line.hand.append(HandKey(end, goal, path="arc", top_m=top))
            return end
        support = self.scene.room.supports[support_name]
        right = float((target[:2, 3] - support.front_xy_m) @ support.right_xy) - 0.04
        xy, height = self._stance(support, right)
        gather = start_s + 0.95
        # Held in front of the body, turned as far from straight ahead as it was lifted.
        relative_yaw = grasp_pose(spec, self.pose[index]).yaw_rad - self.line.body[-1].heading_rad
        carried = replace(goal, point_in_world=np.array([0.42, -0.10, -0.36]), yaw_rad=relative_yaw)
        start = self.line.hand[-1].pose
        lifted = max(
            self._obstacle_top(index, start.point_in_world[:2], self._body_xy(carried), start.yaw_rad) + below, 0.0
        )
        lifted = max(lifted + 0.03, start.point_in_world[2] + 0.08)
        self.line.hand.append(HandKey(gather, carried, in_body=True, path="arc", top_m=lifted))
        seconds = self._walk_seconds(xy, support.heading_rad)
        leave = max(gather - 0.25, self.line.body[-1].time_s + 0.02)
        self.line.body.append(replace(self.line.body[-1], time_s=leave))
        self.line.body.append(BodyKey(leave + seconds, xy, support.heading_rad, height))
        self.line.hand.append(HandKey(leave + seconds - 0.15, carried, in_body=True))
        end = leave + seconds + 1.0 / tempo
        self.line.hand.append(HandKey(end, goal, path="arc", top_m=top))
        self.support = support_name
        return end

    def _release(self, index: int, time_s: float, target: np.ndarray) -> None:
        """Open the hand and draw it back."""
        tempo = self.plan.tempo
        open_pose = grasp_pose(self.scene.specs[index], target, OPEN_M)
        self.line.hand.append(HandKey(time_s + 0.18 / tempo, open_pose))
        self.line.hand.append(HandKey(time_s + 0.48 / tempo, _backed_off(open_pose)))
        self.now_s = time_s + 0.5 / tempo

    def _hand_xy(self) -> np.ndarray:
        """Where the hand is over the floor at its last key."""
        last = self.line.hand[-1]
        if not last.in_body:
            return last.pose.point_in_world[:2]
        return self._body_xy(last.pose)

    def _body_xy(self, pose: HandPose) -> np.ndarray:
        """Where a hand held in the body's frame is over the floor."""
        body = self.line.body[-1]
        return np.asarray(body.xy_m + (rotation_z(body.heading_rad) @ pose.point_in_world)[:2])

    def _obstacle_top(self, index: int, start_xy: np.ndarray, end_xy: np.ndarray, yaw_rad: float) -> float:
        """The height (in world) that clears everything near the way of an object and of the hand beside it."""
        own = float(np.linalg.norm(self.scene.specs[index].extent_m[:2])) / 2
        wrist = -0.13 * np.array([np.cos(yaw_rad), np.sin(yaw_rad)])
        top = -np.inf
        for other, spec in enumerate(self.scene.specs):
            if other == index:
                continue
            size = float(np.linalg.norm(spec.extent_m[:2])) / 2
            height = float(self.pose[other][2, 3] + spec.extent_m[2] / 2)
            center = self.pose[other][:2, 3]
            if _distance_to_way(center, start_xy, end_xy) < own + size + 0.05:
                top = max(top, height)
            if _distance_to_way(center, start_xy + wrist, end_xy + wrist) < size + 0.07:
                top = max(top, height - 0.03)  # the wrist is higher than what the hand holds
        return top

    # -- steps -----------------------------------------------------------------------------------------------------

    def _move(self, step: Step) -> None:
        """Pick an object up and put it down at its next place (or where it began)."""
        places = self.scene.places[step.role]
        if step.where == "home":
            target = places[0]
        else:
            self.visits[step.role] += 1
            target = places[self.visits[step.role]]
        self._transfer(self.scene.index(step.role), target.world_from_object, target.support, None)

    def _into(self, step: Step) -> None:
        """Put an object into an open container."""
        index, container = self.scene.index(step.role), self.scene.index(step.where)
        spec, cavity = self.scene.specs[index], self.scene.specs[container].cavity
        if cavity is None:
            raise ValueError(f"{self.scene.specs[container].label} is no container")
        local = np.eye(4)
        spare = max(0.0, cavity.half_x_m - float(np.linalg.norm(spec.extent_m[:2])) / 2 - 0.03)
        local[0, 3] = self.rng.uniform(-spare, spare) * 0.7
        local[2, 3] = cavity.floor_z_m + spec.extent_m[2] / 2
        target = self.pose[container] @ local
        heading = self.scene.room.supports[self.support].heading_rad
        target[:3, :3] = rotation_z(heading + self.rng.uniform(*GRASP_YAW_RAD))
        self._transfer(index, target, self.where[step.where], container)

    def _transfer(self, index: int, target: np.ndarray, support: str, container: int | None) -> None:
        role = self.scene.roles[index]
        lift_off = self._grasp(index)
        source = self.inside.pop(index, None)
        touch_down = self._carry(index, lift_off, target, support)
        self._log(index, lift_off, touch_down, target, support, source, container)
        self._release(index, touch_down, target)
        self.pose[index], self.where[role] = target, support
        if container is not None:
            self.inside[index] = container

    def _log(
        self,
        index: int,
        lift_off: float,
        touch_down: float,
        target: np.ndarray,
        support: str,
        source: int | None,
        container: int | None,
    ) -> None:
        line, spec = self.line, self.scene.specs[index]
        line.rests[index][-1] = replace(line.rests[index][-1], end_s=lift_off)
        line.holds[index].append(Hold(lift_off, touch_down, hand_from_object(spec)))
        line.rests[index].append(Rest(touch_down, np.inf, target, support, container))
        line.happenings.append(Happening("pick_up", index, lift_off, lift_off, source))
        if source is not None:
            line.happenings.append(Happening("take_out", index, lift_off, lift_off, source))
        line.happenings.append(Happening("put_down", index, touch_down, touch_down, container))
        if container is not None:
            line.happenings.append(Happening("put_into", index, touch_down, touch_down, container))

    def _use(self, step: Step) -> None:
        """Take a tool, stir in (or tap on) a target, and put the tool back where it lay."""
        index, other = self.scene.index(step.role), self.scene.index(step.where)
        tempo, home = self.plan.tempo, self.pose[index]
        lift_off = self._grasp(index)
        stirring = self.scene.specs[other].cavity is not None
        working = self._working_pose(index, other, stirring)
        obstacle = self._obstacle_top(index, home[:2, 3], self.pose[other][:2, 3], working.yaw_rad)
        top = max(obstacle + 0.06, working.point_in_world[2] + 0.05)
        begin = lift_off + 1.2 / tempo
        self._look(lift_off + 0.16, self.pose[other][:3, 3])
        self._step_to(working.point_in_world, lift_off + 0.1, begin - 0.2, self.support)
        self.line.hand.append(HandKey(begin, working, path="arc", top_m=top))
        finish = begin + (1.7 if stirring else 1.5) / tempo
        self.line.hand.append(HandKey(finish, working, path="circle" if stirring else "tap"))
        away = replace(working, point_in_world=working.point_in_world + np.array([0.0, 0.0, 0.06]))
        self.line.hand.append(HandKey(finish + 0.3 / tempo, away))
        end = finish + 1.6 / tempo
        self._look(finish + 0.2, home[:3, 3])
        self._step_to(home[:3, 3], finish + 0.25, end - 0.2, self.support)
        self.line.hand.append(HandKey(end, grasp_pose(self.scene.specs[index], home), path="arc", top_m=top))
        support = self.where[step.role]
        self._log(index, lift_off, end, home, support, self.inside.pop(index, None), None)
        self.line.happenings.append(Happening("use", index, begin, finish, other))
        self._release(index, end, home)

    def _working_pose(self, index: int, other: int, stirring: bool) -> HandPose:
        """The hand when the tool's lowest point is just over the target's floor (or on its top)."""
        spec, target = self.scene.specs[index], self.scene.specs[other]
        heading = self.scene.room.supports[self.support].heading_rad
        held = grasp_pose(spec, self.pose[index])
        tilted = replace(
            held, yaw_rad=heading + self.rng.uniform(0.6, 1.0), elevation_rad=held.elevation_rad + _TOOL_TILT_RAD
        )
        turn = (tilted.world_from_hand @ hand_from_object(spec))[:3, :3]
        vertices = spec.mesh.vertices @ turn.T
        lowest = vertices[np.argmin(vertices[:, 2])]
        floor = target.cavity.floor_z_m + 0.014 if stirring and target.cavity else target.extent_m[2] / 2 + 0.0015
        tip_in_world = self.pose[other][:3, 3] + [0.0, -0.015 if stirring else 0.0, floor]
        center = tip_in_world - lowest
        grip = center + turn @ spec.grasp.point_m
        return replace(tilted, point_in_world=grip)


def _distance_to_way(point: np.ndarray, start: np.ndarray, end: np.ndarray) -> float:
    """Distance of a point from a straight way, in the plane."""
    way = end - start
    along = np.clip((point - start) @ way / max(float(way @ way), 1e-12), 0.0, 1.0)
    return float(np.linalg.norm(point - start - along * way))


def _backed_off(pose: HandPose) -> HandPose:
    """The same hand drawn back along its fingers and up."""
    along = pose.world_from_hand[:3, 0]
    return replace(pose, point_in_world=pose.point_in_world - 0.06 * along + np.array([0.0, 0.0, 0.035]))
