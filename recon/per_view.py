"""What the fit learns about each view beside the scene: its exposure, and a small correction of its pose."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Int64

from geo import se3

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-15  # Kingma & Ba (2015), alg. 1; epsilon as in 3DGS


@dataclass(frozen=True)
class ExposureTrack:
    """Exposures that some frames of a recording were found to have, relative to the model's colours."""

    frames: Int64[np.ndarray, "V"]  # rising
    gains: Float[np.ndarray, "V 3"]
    offsets: Float[np.ndarray, "V 3"]

    def at(self, frame: int) -> tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3"]]:
        """Gain and offset of any frame: linear between its neighbours among the frames, constant beyond the ends."""
        if not len(self.frames):
            return np.ones(3), np.zeros(3)
        both = np.concatenate([self.gains, self.offsets], axis=1)
        found = np.array([np.interp(frame, self.frames, column) for column in both.T])
        return found[:3], found[3:]


class RowAdam:
    """Adam for a table of which one row steps at a time."""

    def __init__(self, rows: int, columns: int) -> None:
        """All moments zero."""
        self.first = np.zeros((rows, columns))
        self.second = np.zeros((rows, columns))
        self.steps = np.zeros(rows, dtype=np.int64)

    def step(self, row: int, gradient: Float[np.ndarray, "C"], rate: float | np.ndarray) -> Float[np.ndarray, "C"]:
        """What to subtract from the row."""
        self.steps[row] += 1
        taken = int(self.steps[row])
        self.first[row] = BETA1 * self.first[row] + (1 - BETA1) * gradient
        self.second[row] = BETA2 * self.second[row] + (1 - BETA2) * gradient**2
        correction = np.sqrt(1 - BETA2**taken) / (1 - BETA1**taken)
        return np.asarray(rate * correction * self.first[row] / (np.sqrt(self.second[row]) + EPSILON))


class Exposures:
    """Gain and offset per view and channel: picture = gain * model colour + offset."""

    def __init__(self, gains: Float32[np.ndarray, "V 3"]) -> None:
        """Start with these gains and no offset."""
        self.table = np.concatenate([gains, np.zeros_like(gains)], axis=1).astype(np.float64)
        self._adam = RowAdam(*self.table.shape)

    def of(self, view: int) -> tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3"]]:
        """Gain and offset of a view."""
        return self.table[view, :3], self.table[view, 3:]

    def step(
        self, view: int, d_gain: Float[np.ndarray, "3"], d_offset: Float[np.ndarray, "3"], rate: float, pull: float
    ) -> None:
        """One step; ``pull`` is the weight of the squared distance to no change at all."""
        here = self.table[view]
        gradient = np.concatenate([d_gain, d_offset]) + 2 * pull * (here - [1, 1, 1, 0, 0, 0])
        here -= self._adam.step(view, gradient, rate)

    def mean(self) -> tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3"]]:
        """Exposure of a typical view: the median over the views."""
        middle = np.median(self.table, axis=0)
        return middle[:3], middle[3:]

    def track(self, frames: Int64[np.ndarray, "V"]) -> ExposureTrack:
        """Exposures of the views, which are these frames, relative to the typical one."""
        gain, offset = self.mean()
        relative = self.table[:, :3] / gain
        return ExposureTrack(frames, relative, self.table[:, 3:] - relative * offset)


class PoseCorrections:
    """Twists xi with camera_from_world = exp(xi) given camera_from_world, kept small by a pull to zero.

    A twist is (rotation in radians, translation in world units), as ``SplatGradients.camera_twist``. One step turns
    by about ``rate_rad`` and shifts by ``rate_rad * depth``, which move the picture by the same amount.
    """

    def __init__(self, views: int, typical_depth: float) -> None:
        """No correction yet; ``typical_depth`` is the scene's usual distance in world units."""
        self.camera_from_given = np.tile(np.eye(4), (views, 1, 1))
        self._units = np.array([1.0, 1.0, 1.0, *([typical_depth] * 3)])
        self._adam = RowAdam(views, 6)

    def world_from_camera(self, view: int, given: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "4 4"]:
        """The corrected pose of a view."""
        return np.asarray(given @ se3.inverse(self.camera_from_given[view]))

    def step(self, view: int, d_twist: Float[np.ndarray, "6"], rate_rad: float, pull: float) -> None:
        """One step down the gradient, in units in which rotation and translation weigh the same."""
        here = self.camera_from_given[view]
        so_far = np.concatenate([se3.axis_angle_from_rotation(here[:3, :3]), here[:3, 3]]) / self._units
        change = self._adam.step(view, d_twist * self._units + 2 * pull * so_far, rate_rad) * self._units
        turn = se3.rotation_from_axis_angle(-change[:3])
        self.camera_from_given[view] = se3.from_rotation_translation(turn, -change[3:]) @ here

    def largest(self) -> tuple[float, float]:
        """Largest rotation (degrees) and shift (world units) of all views."""
        turns = se3.axis_angle_from_rotation(self.camera_from_given[:, :3, :3])
        shifts = self.camera_from_given[:, :3, 3]
        return float(np.degrees(np.linalg.norm(turns, axis=1).max())), float(np.linalg.norm(shifts, axis=1).max())
