"""Where the hands are in a frame, and whether one of them may hold an object."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64

from geo.boxes import Box3, point_distance
from geo.recording import HandTrack


def joints_at(hands: tuple[HandTrack, ...], timestamp_ns: int) -> Float64[np.ndarray, "J 3"]:
    """Finite joints of all hands at the time stamp nearest to a frame (at most 60 ms away)."""
    found = [np.zeros((0, 3))]
    for hand in hands:
        joints = hand.joints_at(timestamp_ns)
        if joints is not None:
            found.append(joints[np.isfinite(joints).all(axis=1)].astype(np.float64))
    return np.concatenate(found)


def hand_distance(joints: Float[np.ndarray, "J 3"], points: Float[np.ndarray, "K 3"]) -> float:
    """Smallest distance between a joint and an object's points; inf without either."""
    if len(joints) == 0 or len(points) == 0:
        return float("inf")
    step = max(1, len(points) // 150)
    gaps = np.linalg.norm(joints[:, None, :] - np.asarray(points[::step], dtype=np.float64)[None], axis=2)
    return float(gaps.min())


@dataclass(frozen=True)
class NearHands:
    """Whether a hand was near one object, frame by frame."""

    observed: dict[int, bool]  # frames in which the object was seen: near its visible points
    joints: Callable[[int], Float64[np.ndarray, "J 3"]]  # finite joints (world) of any frame
    near_m: float

    def share(self, first_frame: int, last_frame: int, box: Box3) -> float:
        """Share of the frames of a stretch in which a hand was near; where the object was unseen, near its box.

        Frames in which neither the object nor a hand was seen say nothing; 0 where no frame says anything.
        """
        said = []
        for frame in range(first_frame, last_frame + 1):
            if frame in self.observed:
                said.append(self.observed[frame])
                continue
            joints = self.joints(frame)
            if len(joints):
                said.append(bool(point_distance(box, joints).min() <= self.near_m))
        return float(np.mean(said)) if said else 0.0
