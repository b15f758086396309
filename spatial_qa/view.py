"""What operations read: a question scene with look-ups by object and time, and with the error floors applied."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from geo import se3
from lifting.records import MotionState, ObjectTrajectory
from spatial_qa.noise import Floors, Vector, direction
from spatial_qa.records import QuestionScene

WORLD_UP = np.array([0.0, 0.0, 1.0])
MAX_TIME_ERROR_NS = 300_000_000


class NotMeasurable(Exception):
    """Raised inside an operation; ``measure`` turns it into a result with this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Body:
    """A box at a moment. ``center`` carries the effective covariance: claimed, floor, and unseen back."""

    object_id: int
    center: Vector
    extent: Vector  # full lengths, covariance diagonal
    rotation: Float[np.ndarray, "3 3"]  # world_from_box


@dataclass(frozen=True)
class Viewer:
    """The wearer's camera at a moment. Axes in world: right = camera x, down = camera y, forward = camera z."""

    position: Vector
    forward: Vector
    world_from_camera: Float[np.ndarray, "4 4"]

    @property
    def right_in_world(self) -> Float[np.ndarray, "3"]:
        """The camera's +x axis."""
        axis: Float[np.ndarray, "3"] = self.world_from_camera[:3, 0]
        return axis


class SceneView:
    """Read-only look-ups over a `QuestionScene`."""

    def __init__(self, scene: QuestionScene, floors: Floors | None = None) -> None:
        self.scene = scene
        self.floors = floors or Floors()
        self.objects: dict[int, ObjectTrajectory] = {t.object_id: t for t in scene.lifted.trajectories}
        self.posed = np.isfinite(scene.world_from_camera).all(axis=(1, 2))
        self._bodies: dict[tuple[int, int], Body] = {}
        self.cache: dict[tuple[str, int], Any] = {}  # derived from trajectories alone, e.g. rests
        self.unit_m = 1.0 if scene.world.metric else self._typical_distance()

    def _typical_distance(self) -> float:
        """Median distance between camera and objects: stands for a metre where the scale is unknown."""
        cameras = self.scene.world_from_camera[self.posed][:, :3, 3]
        places = [t.centers_in_world[np.isfinite(t.centers_in_world).all(axis=1)] for t in self.objects.values()]
        centers = [p.mean(axis=0) for p in places if len(p)]
        if not len(cameras) or not centers:
            return 1.0
        return float(np.median(np.linalg.norm(cameras[:, None] - np.stack(centers)[None], axis=-1)))

    # -- time ------------------------------------------------------------------------------------------------

    @property
    def start_ns(self) -> int:
        """First time stamp; times in texts count from here."""
        return int(self.scene.timestamps_ns[0])

    def seconds(self, time_ns: int) -> float:
        """Seconds since the recording began."""
        return (time_ns - self.start_ns) / 1e9

    def frame(self, time_ns: int) -> int:
        """Index of the frame nearest in time."""
        return nearest_row(self.scene.timestamps_ns, time_ns)

    def row(self, object_id: int, time_ns: int) -> int:
        """Row of an object's trajectory nearest in time."""
        stamps = self.trajectory(object_id).timestamps_ns
        if len(stamps) == 0:
            raise NotMeasurable("object_never_seen")
        row = nearest_row(stamps, time_ns)
        if abs(int(stamps[row]) - time_ns) > MAX_TIME_ERROR_NS:
            raise NotMeasurable("no_sample_at_this_time")
        return row

    # -- objects and cameras ---------------------------------------------------------------------------------

    def trajectory(self, object_id: int) -> ObjectTrajectory:
        """An object's trajectory."""
        if object_id not in self.objects:
            raise NotMeasurable("object_unknown")
        return self.objects[object_id]

    def state(self, object_id: int, time_ns: int) -> MotionState:
        """An object's state at a moment."""
        return MotionState(int(self.trajectory(object_id).states[self.row(object_id, time_ns)]))

    def body(self, object_id: int, time_ns: int) -> Body:
        """An object's box at a moment with effective covariances."""
        key = (object_id, self.row(object_id, time_ns))
        if key not in self._bodies:
            self._bodies[key] = self._body(*key)
        return self._bodies[key]

    def _body(self, object_id: int, row: int) -> Body:
        track = self.objects[object_id]
        center, claimed = track.centers_in_world[row], track.center_covariances_m2[row]
        rotation = se3.rotation_from_quat_wxyz(track.quats_wxyz[row])
        if not (np.isfinite(center).all() and np.isfinite(claimed).all()):
            raise NotMeasurable("place_unknown")
        if not (np.isfinite(rotation).all() and np.isfinite(track.extent_m).all()):
            raise NotMeasurable("box_unknown")
        unit = self.unit_m
        sides = np.nan_to_num(track.extent_sigma_m, nan=np.inf)
        if not np.isfinite(sides).all():
            raise NotMeasurable("box_unknown")
        floor = np.maximum(self.floors.extent_m * unit, self.floors.extent_fraction * track.extent_m)
        extent_sigma = np.maximum(sides, floor)
        # An unseen back moves the centre by half of what it adds to the side.
        back = rotation @ np.diag((sides / 2) ** 2) @ rotation.T
        covariance = claimed + back + (self.floors.center_m * unit) ** 2 * np.eye(3)
        return Body(object_id, Vector(center, covariance), Vector(track.extent_m, np.diag(extent_sigma**2)), rotation)

    def same_object_place(self, object_id: int, time_ns: int) -> Vector:
        """Centre for comparing an object with itself at another time: the common bias left out."""
        track, row = self.trajectory(object_id), self.row(object_id, time_ns)
        center, claimed = track.centers_in_world[row], track.center_covariances_m2[row]
        if not (np.isfinite(center).all() and np.isfinite(claimed).all()):
            raise NotMeasurable("place_unknown")
        floor = (self.floors.displacement_m * self.unit_m) ** 2 * np.eye(3)
        return Vector(center, claimed + floor)

    def viewer(self, time_ns: int) -> Viewer:
        """The wearer's camera at a moment."""
        return self.viewer_at_frame(self.frame(time_ns))

    def viewer_at_frame(self, frame: int) -> Viewer:
        """The wearer's camera in a frame."""
        if ("viewer", frame) not in self.cache:
            self.cache["viewer", frame] = self._viewer(frame)
        viewer: Viewer = self.cache["viewer", frame]
        return viewer

    def _viewer(self, frame: int) -> Viewer:
        if not self.posed[frame]:
            raise NotMeasurable("camera_pose_unknown")
        pose = self.scene.world_from_camera[frame]
        sigma = self.floors.camera_position_m * self.unit_m
        forward = direction(pose[:3, 2], np.radians(self.floors.camera_angle_deg))
        return Viewer(Vector(pose[:3, 3], sigma**2 * np.eye(3)), forward, pose)

    @property
    def up(self) -> Vector:
        """World up with its uncertainty.

        Raises:
            NotMeasurable: if gravity is unknown.
        """
        if ("up", 0) in self.cache:
            kept: Vector = self.cache["up", 0]
            return kept
        world = self.scene.world
        if not world.has_up or not np.isfinite(world.up_sigma_rad):
            raise NotMeasurable("gravity_unknown")
        found = direction(WORLD_UP, float(max(world.up_sigma_rad, np.radians(self.floors.up_deg))))
        self.cache["up", 0] = found
        return found

    def pixels_of(
        self, point_in_world: Float[np.ndarray, "3"], frames: Int64[np.ndarray, "F"]
    ) -> Float[np.ndarray, "F 3"]:
        """Pixel x, pixel y and z depth of a point in some frames; pixels are NaN behind the camera or without pose."""
        camera_from_world = se3.inverse(self.scene.world_from_camera[frames])
        local = np.einsum("fij,j->fi", camera_from_world[:, :3, :3], point_in_world) + camera_from_world[:, :3, 3]
        matrix, z = self.scene.camera_matrix, local[:, 2]
        with np.errstate(divide="ignore", invalid="ignore"):
            ahead = np.where(z[:, None] > 0, local[:, :2] / z[:, None], np.nan)
        x, y = matrix[0, 0] * ahead[:, 0] + matrix[0, 2], matrix[1, 1] * ahead[:, 1] + matrix[1, 2]
        return np.stack([x, y, z], axis=1)


def nearest_row(stamps: np.ndarray, time_ns: int) -> int:
    """Index of the stamp nearest to a time; the earlier one of two equally near."""
    right = int(np.searchsorted(stamps, time_ns))
    around = [i for i in (right - 1, right) if 0 <= i < len(stamps)]
    return min(around, key=lambda i: abs(int(stamps[i]) - time_ns))
