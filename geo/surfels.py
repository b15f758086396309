"""Small planar patches of depth images in the world: what support planes are found from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from geo import se3
from geo.cameras import Camera
from geo.depth import unproject
from geo.recording import DepthSource

_BLOCK_RAD = 0.0274  # 16 px of a Kinect: large enough to average its noise, small enough for a table top
_MIN_BLOCK_PX = 8
_MIN_FILL = 0.8
_MAX_REL_RESIDUAL = 0.015  # of the depth, root mean square: a patch that is rougher is no plane
_MAX_INCIDENCE_COS = 0.17  # patches seen at less than 10 degrees are not used


@dataclass(frozen=True)
class Surfels:
    """Planar patches: centre, unit normal towards the camera, area, and the depth image each came from."""

    points_in_world: Float[np.ndarray, "S 3"]
    normals_in_world: Float[np.ndarray, "S 3"]
    areas: Float[np.ndarray, "S"]
    image_index: Int64[np.ndarray, "S"]

    def __len__(self) -> int:
        return len(self.areas)


def surfels_of_image(
    z_depth_m: Float[np.ndarray, "H W"], camera: Camera, world_from_camera: Float[np.ndarray, "4 4"], index: int = 0
) -> Surfels:
    """Fit a plane to every block of a depth image; blocks with holes, edges or curvature are left out.

    Args:
        z_depth_m: Depth along +z, NaN = none; any unit of length, the thresholds are relative.
        camera: Camera of the image.
        world_from_camera: Its pose.
        index: Kept as ``image_index``.
    """
    block = max(_MIN_BLOCK_PX, round(float(camera.params[0]) * _BLOCK_RAD))
    points = unproject(z_depth_m, camera)
    rows, cols = points.shape[0] // block, points.shape[1] // block
    tiles = points[: rows * block, : cols * block].reshape(rows, block, cols, block, 3)
    tiles = tiles.transpose(0, 2, 1, 3, 4).reshape(rows * cols, block * block, 3)
    known = np.isfinite(tiles[..., 2])
    enough = known.mean(axis=1) >= _MIN_FILL
    tiles, known = tiles[enough], known[enough]
    weight = known[..., None] / known.sum(axis=1)[:, None, None]
    safe = np.where(known[..., None], tiles, 0.0)
    centre = (safe * weight).sum(axis=1)
    offset = np.where(known[..., None], tiles - centre[:, None], 0.0)
    covariance = np.einsum("bni,bnj->bij", offset * weight, offset)
    values, vectors = np.linalg.eigh(covariance)
    normal = vectors[..., 0]
    distance = np.linalg.norm(centre, axis=1)
    cosine = -np.einsum("bi,bi->b", normal, centre) / np.maximum(distance, 1e-12)
    normal, cosine = np.where(cosine[:, None] < 0, -normal, normal), np.abs(cosine)
    residual = np.sqrt(np.maximum(values[:, 0], 0.0))
    # A planar patch is wider than thick; a depth edge inside the block is not.
    flat = (residual <= _MAX_REL_RESIDUAL * centre[:, 2]) & (values[:, 0] <= 0.1 * values[:, 1])
    keep = flat & (cosine >= _MAX_INCIDENCE_COS)
    area = (block / float(camera.params[0]) * centre[:, 2]) ** 2 / np.maximum(cosine, _MAX_INCIDENCE_COS)
    return Surfels(
        se3.transform_points(world_from_camera, centre[keep]),
        normal[keep] @ world_from_camera[:3, :3].T,
        area[keep],
        np.full(int(keep.sum()), index, dtype=np.int64),
    )


def sample_surfels(
    frames: DepthSource,
    camera: Camera,
    world_from_camera: Float[np.ndarray, "M 4 4"],
    image_count: int = 24,
    indices: Sequence[int] | None = None,
) -> Surfels:
    """Patches of depth images spread evenly over those with a pose; empty if there are none."""
    if indices is None:
        posed = np.flatnonzero(np.isfinite(world_from_camera).all(axis=(1, 2)))
        picks = np.unique(np.linspace(0, len(posed) - 1, min(image_count, len(posed))).round().astype(int))
        indices = [int(i) for i in posed[picks]] if len(posed) else []
    parts = [surfels_of_image(frames.read(i), camera, world_from_camera[i], i) for i in indices]
    if not parts:
        return Surfels(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0), np.zeros(0, dtype=np.int64))
    return Surfels(
        np.concatenate([part.points_in_world for part in parts]),
        np.concatenate([part.normals_in_world for part in parts]),
        np.concatenate([part.areas for part in parts]),
        np.concatenate([part.image_index for part in parts]),
    )
