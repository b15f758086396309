"""What every exporter takes: pictures by name, a camera, a pose each, points; and the world it is told in."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int64, UInt8

from geo import se3
from geo.cameras import Camera
from geo.errors import PoseError, ShapeError

_SIMILAR = 1e-6


@dataclass(frozen=True)
class PosedPictures:
    """Pictures of one camera with their poses; pictures without a pose (NaN) are left out by formats without gaps."""

    camera: Camera
    names: tuple[str, ...]  # paths relative to the written folder, / between parts
    timestamps_ns: Int64[np.ndarray, "N"]
    world_from_camera: Float[np.ndarray, "N 4 4"]
    metric: bool = False
    up: Float[np.ndarray, "3"] | None = None  # unit, in the world of the poses; None: unknown
    points_in_world: Float[np.ndarray, "P 3"] | None = None
    colours: UInt8[np.ndarray, "P 3"] | None = None
    normals_in_world: Float[np.ndarray, "P 3"] | None = None  # of the points; 0 0 0 is unknown
    # takes the world of the poses to an older one, as the recording's own files say (identity: they say nothing)
    original_from_world: Float[np.ndarray, "4 4"] | None = None

    def __post_init__(self) -> None:
        """Refuse what does not belong together."""
        if not len(self.names) == len(self.timestamps_ns) == len(self.world_from_camera):
            raise ShapeError(
                f"{len(self.names)} names, {len(self.timestamps_ns)} times and {len(self.world_from_camera)} poses; "
                "every picture needs one of each"
            )

    def known(self) -> "PosedPictures":
        """Only the pictures that have a pose.

        Raises:
            PoseError: none has.
        """
        rows = np.flatnonzero(np.isfinite(self.world_from_camera).all(axis=(1, 2))).tolist()
        if not rows:
            raise PoseError("no picture has a pose; there is nothing to export")
        return replace(
            self,
            names=tuple(self.names[row] for row in rows),
            timestamps_ns=self.timestamps_ns[rows],
            world_from_camera=self.world_from_camera[rows],
        )


@dataclass(frozen=True)
class Similarity:
    """new = scale * rotation @ old + translation, taken apart from a 4x4 matrix."""

    scale: float
    rotation: Float[np.ndarray, "3 3"]
    translation: Float[np.ndarray, "3"]

    @staticmethod
    def of(new_from_old: Float[np.ndarray, "4 4"]) -> "Similarity":
        """Take a matrix apart.

        Raises:
            PoseError: it is no similarity without mirror.
        """
        linear = np.asarray(new_from_old, dtype=np.float64)[:3, :3]
        determinant = float(np.linalg.det(linear)) if np.isfinite(linear).all() else 0.0
        if not determinant > 0:
            raise PoseError(f"the way back to the original world is no similarity (it mirrors or flattens):\n{linear}")
        scale = determinant ** (1 / 3)
        u, _, vt = np.linalg.svd(linear / scale)
        rotation = u @ vt
        if np.abs(rotation - linear / scale).max() > _SIMILAR:
            raise PoseError(f"the way back to the original world is no similarity (it shears or stretches):\n{linear}")
        return Similarity(scale, rotation, np.asarray(new_from_old, dtype=np.float64)[:3, 3])

    def points(self, points: Float[np.ndarray, "*batch 3"]) -> Float[np.ndarray, "*batch 3"]:
        """Points in the new world."""
        return np.asarray(self.scale * (points @ self.rotation.T) + self.translation)

    def poses(self, old_from_body: Float[np.ndarray, "N 4 4"]) -> Float[np.ndarray, "N 4 4"]:
        """Poses in the new world: origins as points, axes only turned."""
        return se3.from_rotation_translation(
            self.rotation @ old_from_body[:, :3, :3], self.points(old_from_body[:, :3, 3])
        )


def in_world(pictures: PosedPictures, new_from_world: Float[np.ndarray, "4 4"], metric: bool) -> PosedPictures:
    """The same pictures told in another world; ``metric`` says whether its unit is the metre.

    Raises:
        PoseError: the matrix is no similarity.
    """
    way = Similarity.of(new_from_world)
    older = pictures.original_from_world
    return replace(
        pictures,
        world_from_camera=way.poses(pictures.world_from_camera),
        metric=metric,
        up=None if pictures.up is None else way.rotation @ pictures.up,
        points_in_world=None if pictures.points_in_world is None else way.points(pictures.points_in_world),
        normals_in_world=None if pictures.normals_in_world is None else pictures.normals_in_world @ way.rotation.T,
        original_from_world=None if older is None else older @ np.linalg.inv(new_from_world),
    )
