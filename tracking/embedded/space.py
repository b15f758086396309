"""One step with depth and pose: is the object where it was, did it move, or is it gone?"""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float, Float32

from geo import se3
from tracking.embedded.bare import bare_share
from tracking.embedded.config import EmbeddedConfig
from tracking.embedded.field import colour_bins, colour_logits, colour_model, signed_distance
from tracking.embedded.frames import Crop, FrameStore, Roi, make_roi
from tracking.embedded.memory import Memory
from tracking.embedded.model import ObjectModel
from tracking.embedded.motion import (
    align,
    align_sideways,
    flow_motion,
    follow,
    hand_motion,
    hand_motions,
    hands_at,
    touching_hand,
)
from tracking.embedded.plane import find_support, sensor_sigma_m
from tracking.embedded.predict import Agreement, Prediction, compare, predict, roi_of, tolerance_m
from tracking.embedded.refine import Evidence, hand_logits, refine, space_evidence
from tracking.embedded.seed import crop_points_in_world, fill_holes
from tracking.records import MaskState

Step = tuple[MaskState, float, dict[str, float]]

_STILL_FRAMES = 4
_SETTLING_FRAMES = 20
_YOUNG_FRAMES = 15
_BONUS = {"rest": 0.06, "held": 0.09}
_STAYING = ("rest", "left", "held", "hand", "flow")
_UNSEEN_COST = {"return": 0.6, "sought": 0.6, "onward": 0.3, "left": 0.4}
_SEEK_M = 0.18
_SOUGHT_SCORE = 0.35
_GONE_FRAMES = 2
_WHOLE_REACH_M = 0.004
_GROW_PX = 5
_GOOD_SCORE = 0.75
_GAIN_STEP = 0.25  # log brightness that a thing may change by between two sightings
_JUMP_M = 0.15
_STRAY_M = 0.015
_GRIP_FRAMES = 30
_TOUCHES = 8
_GRIP_JOINTS = [4, 8, 12]  # tips of thumb, index and middle finger
_STILL_M = 0.006
_BARE_COST = 1.0
_BARE_SHARE = 0.7


class Hypothesis:
    """One place where the object might be, seen in one crop."""

    def __init__(
        self,
        crop: Crop,
        prediction: Prediction,
        agreement: Agreement,
        kind: str,
        strayed_m: float = 0.0,
        bare: float = 0.0,
    ) -> None:
        self.crop, self.prediction, self.agreement, self.kind = crop, prediction, agreement, kind
        self.strayed_m = strayed_m  # how far alignment took it from where the hand or the flow says
        self.bare = bare  # share of what depth confirms that is the static scene itself

    @property
    def value(self) -> float:
        """Agreement, with a small bonus for staying (noise alone never moves a thing) or for staying in the hand.

        A jump to another place needs depth that confirms it: colours alone are found anywhere.
        """
        unseen = self.agreement.unknown / max(1, self.agreement.total)
        strayed = 0.15 * (max(0.0, self.strayed_m - _STRAY_M) / (2 * _STRAY_M)) ** 2
        cost = _UNSEEN_COST.get(self.kind, 0.0) * unseen + strayed + _BARE_COST * max(0.0, self.bare - 0.5)
        return self.agreement.score + _BONUS.get(self.kind, 0.0) - cost


class SpaceStep:
    """Advances a memory by one frame by means of depth, pose, colour and flow."""

    def __init__(self, store: FrameStore, config: EmbeddedConfig, up_in_world: Float[np.ndarray, "3"] | None) -> None:
        self._store, self._config, self._up = store, config, up_in_world

    def advance(self, memory: Memory, frame: int) -> Step:
        """The step; changes the memory in place."""
        self._carry(memory, frame)
        stay = self._look(memory, frame, memory.world_from_object, "rest")
        if stay is not None and memory.moving and memory.model is not None:
            stay.bare = bare_share(self._store, memory.model, frame, stay.crop, stay.prediction)
        best = stay
        held = memory.in_hand is not None
        if stay is None or memory.moving or memory.lost or held or not self._still_there(memory, frame, stay):
            best = self._best_of(memory, frame, stay)
        if held and not _in_hand(best) and self._let_go(memory, frame):
            memory.in_hand, memory.lost = None, False
            best = stay
        if best is None:
            return self._out_of_view(memory, frame)
        resting = not (memory.moving or memory.lost)
        if resting and best is not stay and not _convincing(best, stay, held):
            best = None if stay is None else Hypothesis(stay.crop, stay.prediction, stay.agreement, "rest")
            if best is None:
                return self._out_of_view(memory, frame)
        if (
            best.agreement.hidden_share > 0.85
            or best.agreement.total * self._unscale(best) < self._config.min_visible_px
        ):
            return self._hidden(memory, frame, best)
        if self._is_lost(memory, best):
            memory.gone_frames += 1
            if resting and memory.in_hand is None and memory.gone_frames < _GONE_FRAMES:
                return self._doubtful(memory, best)
            return self._lost(memory, frame, best)
        return self._seen(memory, frame, best)

    def _carry(self, memory: Memory, frame: int) -> None:
        """Move the place "in the hand" on with a hand that touches the object; forget it when the hand lets go.

        A hand that is out of sight is not a hand that let go: the place waits until the hand is seen again.
        """
        assert memory.model is not None
        since = memory.frame if memory.in_hand is None else memory.hand_frame
        place = memory.world_from_object if memory.in_hand is None else memory.in_hand
        local = memory.model.points_in_object[memory.model.trusted].astype(np.float64)
        hand = touching_hand(self._store, since, se3.transform_points(place, local)) if len(local) else None
        if hand is None:
            memory.in_hand, memory.touches = None, []
            return
        if not np.isfinite(hands_at(self._store, frame)[hand]).any():
            memory.in_hand = place if memory.in_hand is not None else None
            return
        motion, memory.hand = hand_motion(self._store, since, frame, hand), hand
        memory.in_hand, memory.hand_frame = None if motion is None else motion @ place, frame
        if not memory.moving:
            memory.touches = [*memory.touches[1 - _TOUCHES :], (since, hand, memory.world_from_object.copy())]

    def _is_lost(self, memory: Memory, best: Hypothesis) -> bool:
        """A thing at rest stays until it is seen to be gone: blur and holes are no evidence of that."""
        agreement = best.agreement
        if best.bare > _BARE_SHARE:
            return True
        if agreement.score >= self._config.lost_score:
            return False
        if best.kind == "rest" and not (memory.moving or memory.lost):
            return _is_gone(agreement)
        if best.kind in _STAYING and agreement.hidden_share > 0.3 and agreement.colour_right >= 0.5:
            return agreement.vacated > 0.15 * agreement.total  # little of it can be seen, and that is right
        gripped = memory.in_hand is not None and best.kind in ("hand", "flow", "slid")
        if gripped or best.kind == "held":
            return not _holds_in_hand(agreement)  # shade, blur and fingers change colours, not places
        just_left = best.kind == "rest" and memory.moving and memory.in_hand is None and not memory.lost
        if best.kind not in ("rest", "left") or (
            not just_left and (memory.lost or memory.moving or memory.in_hand is not None)
        ):
            return True
        return agreement.vacated > 0.3 * agreement.total or agreement.colour_right < 0.3

    def _let_go(self, memory: Memory, frame: int) -> bool:
        """True if the sensor sees through the place where the object would be if the hand still held it."""
        assert memory.in_hand is not None
        held = self._look(memory, frame, memory.in_hand, "held")
        if held is None:
            return False
        agreement = held.agreement
        return agreement.vacated > max(0.25 * agreement.total, 1.5 * agreement.confirmed)

    # ---- hypotheses

    def _look(self, memory: Memory, frame: int, world_from_object: np.ndarray, kind: str) -> Hypothesis | None:
        assert memory.model is not None
        roi, share = roi_of(self._store, memory.model, world_from_object, frame, self._config.max_crop_side_px)
        if roi is None or share < 0.02:
            return None
        crop = self._store.crop(frame, roi)
        pose = self._store.pose(frame)
        assert pose is not None
        crop = self._with_hands(crop, frame, pose)
        prediction = predict(crop, memory.model, world_from_object, pose, share)
        if not (prediction.mask & crop.valid).any():
            return None
        return Hypothesis(crop, prediction, compare(crop, prediction, memory.model), kind)

    def _with_hands(self, crop: Crop, frame: int, pose: np.ndarray) -> Crop:
        """Mark where a known hand is: fingers lie so close to what they hold that depth cannot tell them apart."""
        on_hand = hand_logits(crop_points_in_world(crop, pose), hands_at(self._store, frame)) < -0.5
        return replace(crop, on_hand=on_hand) if on_hand.any() else crop

    @staticmethod
    def _unscale(hypothesis: Hypothesis) -> float:
        return 1.0 / hypothesis.crop.roi.scale**2

    def _still_there(self, memory: Memory, frame: int, stay: Hypothesis) -> bool:
        """True if nothing asks for a second look: depth and colour agree, flow follows the ego-motion."""
        agreement = stay.agreement
        seen = agreement.confirmed + agreement.vacated
        if agreement.hidden_share > 0.85:
            return not memory.visible  # an approaching object looks like its own occluder
        if agreement.score < 0.3 or (seen >= 8 and agreement.vacated > 0.35 * seen) or agreement.hidden_share > 0.35:
            return False
        if not memory.visible or abs(frame - memory.frame) > 3:
            return True
        return self._flow_residual_px(memory, frame) < max(2.5, 0.25 * float(np.sqrt(memory.area_px)))

    def _flow_residual_px(self, memory: Memory, frame: int) -> float:
        """Median distance (canonical px) between where flow takes the object and where standing still would."""
        pose_before, pose_after = self._store.pose(memory.frame), self._store.pose(frame)
        mask = (memory.logits > 1.0) & np.isfinite(memory.crop.z_m)
        if pose_before is None or pose_after is None or mask.sum() < 12:
            return 0.0
        v, u = np.nonzero(mask)
        every = max(1, len(u) // 200)
        v, u = v[::every], u[::every]
        start = memory.crop.roi.from_roi(np.stack([u, v], -1).astype(float))
        end, closed = follow(self._store, memory.frame, frame, start)
        if closed.sum() < 8:
            return 0.0
        camera = self._store.canonical.camera
        world = se3.transform_points(pose_before, camera.normalised_points(start) * memory.crop.z_m[v, u, None])
        projection = camera.project(se3.transform_points(se3.inverse(pose_after), world))
        away = np.linalg.norm(projection.pixels_xy - end, axis=-1)[closed & projection.valid]
        return float(np.median(away)) if len(away) else 0.0

    def _best_of(self, memory: Memory, frame: int, stay: Hypothesis | None) -> Hypothesis | None:
        found = [] if stay is None else [stay]
        if stay is not None and memory.in_hand is not None:
            found = [Hypothesis(stay.crop, stay.prediction, stay.agreement, "left")]
        model = memory.model
        assert model is not None
        pose = self._store.pose(frame)
        assert pose is not None
        for kind, place in self._places(memory, frame):
            hypothesis = self._look(memory, frame, place, kind)
            if hypothesis is None:
                continue
            aligned = align(hypothesis.crop, model, hypothesis.prediction, pose, 3)
            agreement = compare(hypothesis.crop, aligned, model)
            if kind in _UNSEEN_COST and abs(agreement.gain - memory.gain) > _GAIN_STEP:
                step = float(np.clip(agreement.gain - memory.gain, -_GAIN_STEP, _GAIN_STEP))
                agreement = compare(hypothesis.crop, aligned, model, memory.gain + step)
            if kind != "return" and agreement.score < _GOOD_SCORE:
                aligned, agreement = self._sideways(memory, hypothesis.crop, aligned, agreement, pose)
            if kind != "sought" or agreement.score >= _SOUGHT_SCORE:
                guided = kind in ("held", "hand", "flow", "onward") or (kind == "slid" and memory.in_hand is not None)
                with_hand = memory.in_hand if memory.in_hand is not None and memory.hand_frame == frame else place
                strayed_m = _apart(aligned.world_from_object, with_hand, model) if guided else 0.0
                asked = memory.moving and kind != "return"  # where it rested before, the static scene may hold it
                bare = bare_share(self._store, model, frame, hypothesis.crop, aligned) if asked else 0.0
                found.append(Hypothesis(hypothesis.crop, aligned, agreement, kind, strayed_m, bare))
        return max(found, key=lambda h: h.value) if found else None

    def _sideways(
        self, memory: Memory, crop: Crop, start: Prediction, agreement: Agreement, pose: np.ndarray
    ) -> tuple[Prediction, Agreement]:
        """Try a shift across the view; kept only if depth and colour then agree better."""
        assert memory.model is not None
        shifted = align_sideways(crop, start, self._likely(memory, crop, start), pose)
        if np.array_equal(shifted, start.world_from_object):
            return start, agreement
        moved = predict(crop, memory.model, shifted, pose, start.in_image)
        moved = align(crop, memory.model, moved, pose, 2)
        better = compare(crop, moved, memory.model)
        return (moved, better) if better.score > agreement.score + 0.01 else (start, agreement)

    @staticmethod
    def _likely(memory: Memory, crop: Crop, prediction: Prediction) -> Float32[np.ndarray, "h w"]:
        """1 where a pixel may be the object by colour and depth, -1 where not, 0 on a hand and where unknown."""
        assert memory.model is not None
        bins = colour_bins(crop.features, -memory.gain)
        far = signed_distance(prediction.mask) < -4.0
        rest = far & crop.valid
        background = colour_model(bins[rest] if rest.sum() >= 30 else bins)
        likely = np.tanh(0.5 * colour_logits(bins, memory.colours, background))
        z_m = prediction.z_m[prediction.mask]
        limit = 0.6 * memory.model.size_m + float(tolerance_m(np.array([np.median(z_m)]))[0])
        likely = np.where(np.abs(crop.z_m - np.median(z_m)) > limit, -1.0, likely)
        if crop.on_hand is not None:
            likely = np.where(crop.on_hand, 0.0, likely)
        return np.where(crop.valid, likely, 0.0).astype(np.float32)

    def _places(self, memory: Memory, frame: int) -> list[tuple[str, np.ndarray]]:
        model = memory.model
        assert model is not None
        here = memory.world_from_object
        center = here[:3, :3] @ model.center + here[:3, 3]
        out: list[tuple[str, np.ndarray]] = [("slid", here)]
        if memory.visible and abs(frame - memory.frame) <= 3:
            pose_before = self._store.pose(memory.frame)
            if pose_before is not None:
                points = crop_points_in_world(memory.crop, pose_before)
                mask = memory.logits > (1.0 if (memory.logits > 1.0).sum() > 30 else 0.0)
                motion, _ = flow_motion(self._store, memory.frame, frame, memory.crop, mask, points)
                if motion is not None:
                    out.append(("flow", motion @ here))
        out += [("hand", motion @ here) for motion in hand_motions(self._store, memory.frame, frame, center)]
        if memory.in_hand is not None:
            out.append(("held", memory.in_hand))
            if not memory.moving:  # it may have been lifted in any of the last frames
                for since, hand, place in memory.touches[-_TOUCHES::2]:
                    motion = hand_motion(self._store, since, frame, hand)
                    if motion is not None:
                        out.append(("held", motion @ place))
        if memory.moving:
            out.append(("onward", memory.last_step_in_world @ here))
        if memory.lost or memory.moving:  # nothing in sight jumps home from one frame to the next
            far = np.inf if memory.lost else _JUMP_M
            out += [("return", place) for place in memory.rest_places[-4:] if _apart(place, here, model) < far]
        if memory.lost:
            out += [("sought", place) for place in self._sought(memory, frame)]
            if memory.in_hand is None and memory.grip is not None and frame != memory.grip[0]:
                motion = hand_motion(self._store, memory.grip[0], frame, memory.grip[1])
                if motion is not None and abs(frame - memory.grip[0]) <= _GRIP_FRAMES:
                    out.append(("held", motion @ memory.grip[2]))
        return out

    def _sought(self, memory: Memory, frame: int) -> list[np.ndarray]:
        """Where a lost thing may be: pieces of about its size and colours within reach of its last place."""
        import cv2

        model, pose = memory.model, self._store.pose(frame)
        assert model is not None and pose is not None
        places = []
        for here in self._haunts(memory, frame):
            center = here[:3, :3] @ model.center + here[:3, 3]
            roi = self._roi_around(center, frame, 0.5 * model.size_m + _SEEK_M)
            if roi is None:
                continue
            crop = self._store.crop(frame, roi)
            points = crop_points_in_world(crop, pose)
            near = np.linalg.norm(points - center, axis=-1) < 0.5 * model.size_m + _SEEK_M
            bins = colour_bins(crop.features, -memory.gain)
            likely = colour_logits(bins, memory.colours, colour_model(bins)) + hand_logits(
                points, hands_at(self._store, frame)
            )
            alike = (likely > 0.5) & near & crop.valid
            alike = cv2.morphologyEx(alike.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
            _, labels, stats, _ = cv2.connectedComponentsWithStats(alike, connectivity=4)
            for label in 1 + np.argsort(-stats[1:, cv2.CC_STAT_AREA])[:3]:
                cloud = points[(labels == label) & near]
                if len(cloud) < 12:
                    continue
                low, high = np.percentile(cloud, [3, 97], axis=0)
                if not 0.35 * model.size_m < float((high - low).max()) < 1.6 * model.size_m:
                    continue
                place = here.copy()
                place[:3, 3] += (low + high) / 2 - center
                places.append(place)
        return places

    def _haunts(self, memory: Memory, frame: int) -> list[np.ndarray]:
        """Where to seek a lost thing: its last place, its place in the hand, the fingertips of a hand near by."""
        assert memory.model is not None
        here = memory.world_from_object
        center = here[:3, :3] @ memory.model.center + here[:3, 3]
        out = [here] if memory.in_hand is None else [here, memory.in_hand]
        for joints in hands_at(self._store, frame):
            tips = joints[_GRIP_JOINTS]
            if np.isfinite(tips).all() and np.linalg.norm(tips.mean(0) - center) < 2 * _SEEK_M:
                place = here.copy()
                place[:3, 3] += tips.mean(0) - center
                out.append(place)
        return out

    def _roi_around(self, center_in_world: np.ndarray, frame: int, reach_m: float) -> Roi | None:
        pose, camera = self._store.pose(frame), self._store.canonical.camera
        assert pose is not None
        local = pose[:3, :3].T @ (center_in_world - pose[:3, 3])
        if local[2] < 0.1:
            return None
        pixel = camera.project(local).pixels_xy
        half = reach_m * camera.fx_px / local[2]
        return make_roi(
            (float(pixel[0]), float(pixel[1])), (half, half), self._store.image_wh, self._config.max_crop_side_px
        )

    # ---- outcomes

    def _out_of_view(self, memory: Memory, frame: int) -> Step:
        self._carry_unseen(memory)
        memory.visible = False
        return MaskState.ABSENT, float("nan"), {"in_image": 0.0}

    def _carry_unseen(self, memory: Memory) -> None:
        """An object that was moving in a hand goes on with that hand while it cannot be seen."""
        if memory.in_hand is not None and memory.moving:
            memory.world_from_object = memory.in_hand.copy()

    def _hidden(self, memory: Memory, frame: int, best: Hypothesis) -> Step:
        assert memory.model is not None
        self._carry_unseen(memory)
        memory.visible = False
        return MaskState.ABSENT, float("nan"), _figures(best, memory.model)

    def _doubtful(self, memory: Memory, best: Hypothesis) -> Step:
        """One frame that contradicts a rest may be a depth image of another moment: unknown, but not lost yet."""
        assert memory.model is not None
        memory.visible = False
        return MaskState.UNKNOWN, float("nan"), _figures(best, memory.model)

    def _lost(self, memory: Memory, frame: int, best: Hypothesis) -> Step:
        assert memory.model is not None
        self._carry_unseen(memory)
        memory.visible, memory.lost = False, True
        return MaskState.UNKNOWN, float("nan"), {**_figures(best, memory.model), "lost": 1.0}

    def _seen(self, memory: Memory, frame: int, best: Hypothesis) -> Step:
        pose = self._store.pose(frame)
        assert pose is not None and memory.model is not None
        memory.gone_frames = 0
        self._settle(memory, best, hand_seen=memory.hand_frame == frame)
        if best.kind == "held" and memory.in_hand is None and memory.grip is not None:
            memory.in_hand, memory.hand_frame = memory.world_from_object.copy(), frame
        if memory.moving and memory.in_hand is not None and memory.hand_frame == frame:
            memory.grip = (frame, memory.hand, memory.world_from_object.copy())
        elif not memory.moving:
            memory.grip = None
        memory.seen_frames += 1
        plane = None if memory.moving or memory.flat else memory.plane
        crop, prediction = best.crop, best.prediction
        points = crop_points_in_world(crop, pose)
        sharpness = 0.45 if memory.moving else 0.6
        evidence = space_evidence(
            crop, prediction, memory.model, points, pose[:3, 3], plane, sharpness, memory.seen_frames <= _YOUNG_FRAMES
        )
        geometry = evidence.geometry + hand_logits(points, hands_at(self._store, frame))
        if memory.moving:
            geometry = geometry + self._moving_logits(frame, crop)
        evidence = Evidence(
            evidence.prior, geometry, evidence.core & (geometry > -1.0), evidence.rest | (geometry < -3.5)
        )
        logits = refine(crop, evidence, memory.colours, best.agreement.gain)
        logits = fill_holes(near_prediction(logits, prediction.mask))
        area = float((logits > 0).sum()) * self._unscale(best)
        if area < self._config.min_visible_px:
            return self._hidden(memory, frame, best)
        self._learn(memory, best, logits, points, pose)
        memory.crop, memory.logits, memory.area_px = crop, logits, area
        memory.visible, memory.lost, memory.gain = True, False, best.agreement.gain
        self._renew_support(memory, crop, logits, points, pose)
        figures = {
            **_figures(best, memory.model),
            "moving": float(memory.moving),
            "ever_moved": float(memory.ever_moved),
            "in_hand": float(memory.moving and memory.in_hand is not None),
        }
        return MaskState.VISIBLE, _score(best.agreement, logits), figures

    def _settle(self, memory: Memory, best: Hypothesis, hand_seen: bool) -> None:
        """Adopt the winning place, and say whether the object moves or rests."""
        place = best.prediction.world_from_object
        assert memory.model is not None
        center = memory.model.center

        def at(transform: np.ndarray) -> np.ndarray:
            return np.asarray(transform[:3, :3] @ center + transform[:3, 3])

        step_m = float(np.linalg.norm(at(place) - at(memory.world_from_object)))
        if best.kind in ("rest", "left"):
            memory.still_frames += 1
            memory.last_step_in_world = np.eye(4)
        elif step_m > (self._config.moved_m if not memory.moving else 0.0):
            memory.last_step_in_world = place @ se3.inverse(memory.world_from_object)
            memory.world_from_object = place
            memory.still_frames = 0 if step_m > _STILL_M else memory.still_frames + 1
            if not memory.moving and best.kind != "return":
                memory.moving, memory.plane, memory.ever_moved = True, None, True
        else:
            if memory.ever_moved and memory.still_frames < _SETTLING_FRAMES:  # put down a moment ago: a better fit
                memory.world_from_object = place
                memory.rest_places[-1] = place.copy()
            memory.still_frames += 1
        sure = best.agreement.confirmed > 0.3 * best.agreement.total and best.agreement.score > 0.4
        if memory.in_hand is not None and hand_seen and (sure or best.kind not in ("left", "rest")):
            memory.in_hand = memory.world_from_object.copy()
        if memory.moving and memory.still_frames >= _STILL_FRAMES:
            memory.moving, memory.still_frames = False, _STILL_FRAMES
            memory.rest_places.append(memory.world_from_object.copy())

    def _moving_logits(self, frame: int, crop: Crop) -> np.ndarray:
        """What stands in front of the static scene is likelier to be the thing that moves."""
        if not self._config.use_static:
            return np.zeros(crop.size_hw, np.float32)
        static = self._store.static_crop(frame, crop.roi)
        if static is None:
            return np.zeros(crop.size_hw, np.float32)
        front = static - crop.z_m
        known = np.isfinite(front)
        limit = 0.015 + 2 * sensor_sigma_m(np.where(known, crop.z_m, 1.0))
        level = np.where(known & (np.abs(front) < 0.5 * limit), -0.7, 0.0)
        return np.where(known & (front > limit), 0.8, level).astype(np.float32)

    def _renew_support(
        self, memory: Memory, crop: Crop, logits: np.ndarray, points: Float32[np.ndarray, "h w 3"], pose: np.ndarray
    ) -> None:
        """Find the support again after a move, or when it is seen from much nearer (depth noise grows with z)."""
        if memory.moving or memory.flat:
            return
        seen = (logits > 0) & np.isfinite(crop.z_m)
        z_m = float(np.median(crop.z_m[seen])) if seen.sum() > 8 else float("inf")
        settled = memory.plane is None and memory.still_frames == _STILL_FRAMES
        if not settled and not (memory.plane is not None and z_m < 0.8 * memory.plane_seen_from_m):
            return
        assert memory.model is not None
        center = memory.world_from_object[:3, :3] @ memory.model.center + memory.world_from_object[:3, 3]
        plane = find_support(points, center, pose[:3, 3], self._up, exclude=logits > 0)
        if plane is not None:
            memory.plane, memory.plane_seen_from_m = plane, z_m

    def _learn(
        self, memory: Memory, best: Hypothesis, logits: Float32[np.ndarray, "h w"], points: np.ndarray, pose: np.ndarray
    ) -> None:
        """Add what was surely seen of the object; count what turned out not to be it."""
        model, prediction, crop = memory.model, best.prediction, best.crop
        assert model is not None
        mask = logits > 0
        distance = signed_distance(mask)
        core = (logits > 1.0) & crop.measured & (distance > (1.0 if mask.sum() > 150 else 0.0))
        expected = np.where(prediction.mask, prediction.z_m, np.nan)
        residual = np.abs(crop.z_m - expected)
        core &= ~(residual > 1.5 * tolerance_m(np.where(np.isfinite(expected), expected, 1.0)))
        core &= _goes_on(crop.z_m, prediction)
        confident = best.agreement.score > (0.6 if memory.moving else 0.2)
        if confident and core.sum() >= 8:
            back = se3.inverse(prediction.world_from_object)
            local = points[core] @ back[:3, :3].T.astype(np.float32) + back[:3, 3].astype(np.float32)
            features = crop.features[core] - np.array([best.agreement.gain, 0, 0], np.float32)
            keep = _near_model(local, model, _WHOLE_REACH_M if memory.whole else 0.03 + 0.35 * model.size_m)
            model.fuse(local[keep].astype(np.float32), features[keep])
            look = back[:3, :3] @ pose[:3, 3] + back[:3, 3] - model.center
            model.add_view(look / np.linalg.norm(look))
            seen = colour_model(colour_bins(crop.features[core], -best.agreement.gain))
            memory.colours = memory.colours.blended(seen, 0.08)
        if confident and not memory.moving:
            limit = tolerance_m(np.where(np.isfinite(expected), expected, 1.0))
            wrong = prediction.mask & (residual < limit) & (logits < -1.0)
            if best.agreement.confirmed > 0.5 * best.agreement.total:  # what the sensor looks through is not there
                wrong |= prediction.mask & crop.measured & (crop.z_m - expected > limit)
            if wrong.any():
                model.miss(prediction.index[wrong].astype(np.int64))


def _apart(place: np.ndarray, other: np.ndarray, model: ObjectModel) -> float:
    """Distance (m) of the object's centre between two places."""
    center = np.append(model.center, 1.0)
    return float(np.linalg.norm(((place - other) @ center)[:3]))


def _convincing(move: Hypothesis, stay: Hypothesis | None, touched: bool) -> bool:
    """Is a better place for a thing at rest good enough to say that it has moved? Doubtful moves are none.

    In a hand, half hidden, no place agrees well: there it is enough to be clearly better than staying.
    """
    if stay is None:  # its place is out of the picture
        return touched and move.agreement.score >= 0.3
    there, here = move.agreement, stay.agreement
    gain = there.score - here.score
    if there.score >= 0.3 and gain > 0.1:
        return True
    return touched and move.kind in ("held", "hand", "flow") and gain > 0.2 and there.vacated < 0.3 * there.total


def _in_hand(best: Hypothesis | None) -> bool:
    """True if the best place is one that goes with the hand, and the sensor does not look through it."""
    moving = best is not None and best.kind in ("held", "hand", "flow")
    return moving and best is not None and best.agreement.vacated < 0.3 * best.agreement.total


def _holds_in_hand(agreement: Agreement) -> bool:
    """True if what is not hidden of a thing in a hand is mostly where it should be."""
    open_to_view = max(1, agreement.total - agreement.occluded)
    good = agreement.confirmed + 0.5 * agreement.unknown
    return (
        good > max(0.4 * open_to_view, 0.12 * agreement.total)
        and agreement.vacated < 0.35 * agreement.total
        and agreement.colour_right > 0.4
    )


def _is_gone(agreement: Agreement) -> bool:
    """True if the sensor looks through the place of a thing at rest, or sees quite another colour there."""
    seen = agreement.confirmed + agreement.vacated
    if seen < 0.25 * agreement.total:
        return agreement.colour_right < 0.12 and agreement.hidden_share < 0.3
    return agreement.vacated > 0.35 * agreement.total or agreement.colour_right < 0.2


def _goes_on(z_m: Float32[np.ndarray, "h w"], prediction: Prediction) -> Bool[np.ndarray, "h w"]:
    """Where a surface goes on from the predicted one: beyond a rim lies the background, at another depth."""
    import cv2

    expected = np.where(prediction.mask, prediction.z_m, np.float32(1e3)).astype(np.float32)
    for _ in range(_GROW_PX):
        expected = np.where(expected < 1e2, expected, cv2.erode(expected, np.ones((3, 3), np.uint8)))
    return np.asarray(np.abs(z_m - expected) < 0.01 + 1.5 * tolerance_m(np.minimum(expected, 10.0)))


def _near_model(points: np.ndarray, model: ObjectModel, reach_m: float) -> Bool[np.ndarray, "P"]:
    low, high = model.bounds
    over = np.maximum(low - points, points - high).max(-1)
    return np.asarray(over < reach_m)


def near_prediction(logits: Float32[np.ndarray, "h w"], predicted: Bool[np.ndarray, "h w"]) -> np.ndarray:
    """Drop parts that do not touch the prediction, and specks beside the largest part."""
    import cv2

    count, labels, stats, _ = cv2.connectedComponentsWithStats((logits > 0).astype(np.uint8), connectivity=4)
    if count <= 2:
        return logits
    largest = stats[1:, cv2.CC_STAT_AREA].max()
    drop = np.zeros(count, bool)
    for label in range(1, count):
        part = labels == label
        touching = (part & predicted).sum() > 0.3 * part.sum()
        drop[label] = not touching or stats[label, cv2.CC_STAT_AREA] < max(4, 0.04 * largest)
    return np.where(drop[labels], np.float32(-0.5), logits)


def _score(agreement: Agreement, logits: np.ndarray) -> float:
    mask = logits > 0
    certainty = float(np.tanh(np.abs(logits[mask]) / 2).mean())
    return float(np.clip(0.5 * certainty + 0.5 * max(agreement.score, 0.0), 0, 1))


def _figures(hypothesis: Hypothesis, model: ObjectModel) -> dict[str, float]:
    agreement = hypothesis.agreement
    total = max(1, agreement.total)
    return {
        "agreement": agreement.score,
        "vacated_share": agreement.vacated / total,
        "hidden_share": agreement.hidden_share,
        "unknown_share": agreement.unknown / total,
        "colour_right": agreement.colour_right,
        "in_image": hypothesis.prediction.in_image,
        "size_m": model.size_m,
    }
